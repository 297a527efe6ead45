"""The explorer's data: read strictly, packed without loss, unable to leave its element; a fault fails the build."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from book_stub import NAME
from explorer import markup
from explorer_data import LIMIT, Malformed, attention_maps, embed, payload, success_cells
from explorer_stub import LEFT_OUT, make_explorer_stub, map_table, success_table

from attention_companion.execution.csp import inline_handlers, inline_scripts
from attention_companion.execution.render import render
from attention_companion.execution.render_errors import RenderError


def test_every_cell_of_the_tables_is_in_the_page_and_no_other() -> None:
    data = payload(success_table(), map_table())
    assert (data["d"], data["m"], data["factors"], data["starts"]) == ([4, 9], [2, 3], [1, 10, 100], [0, 7])
    rows = list(csv.DictReader(io.StringIO(success_table())))
    assert len(data["cells"]) == len(rows) == 11
    for row in rows:
        key = ".".join(
            str(data[axis].index(float(row[name])))
            for axis, name in (("d", "d"), ("m", "m"), ("factors", "factor"))
        )
        starts, *counts, low, high = data["cells"][key]
        assert [starts, *counts] == [
            int(row[n]) for n in ("starts", "specialised", "collapsed", "distracted")
        ]
        assert (low, high) == pytest.approx((float(row["low"]), float(row["high"])), abs=1e-6)
    assert LEFT_OUT == (9, 3, 100.0)
    assert "1.1.2" not in data["cells"]
    assert data["before"]["1.0.1"]["pair"] == [2, 0]
    assert data["after"]["0.0.0.0"] == [[0, 9970, 30, 0], [30, 0, 0, 9970]]


def test_data_cannot_leave_the_script_element() -> None:
    planted = {"x": "</script><script>alert(1)</script><!--<script>"}
    page = f'<script type="application/json">{embed(planted)}</script>'
    assert inline_scripts(page) == []
    assert page.count("<") == 2
    assert json.loads(embed(planted)) == planted
    # The breach that the escape prevents is one that this test would see.
    assert inline_scripts(page.replace("\\u003c", "<")) == ["alert(1)"]


def test_more_data_than_a_phone_should_load_is_refused() -> None:
    assert len(embed({"x": "a" * (LIMIT - 8)})) == LIMIT
    with pytest.raises(Malformed, match="keep fewer maps"):
        embed({"x": "a" * LIMIT})


def test_markup_holds_no_script_that_runs_and_every_control_has_its_label() -> None:
    html = markup(payload(success_table(), map_table()), 0.9)
    assert inline_scripts(html) == inline_handlers(html) == []
    for name in ("d", "m", "rate", "start"):
        assert html.count(f'<label for="explorer-{name}">') == html.count(f'id="explorer-{name}"') == 1


GOOD = success_table().splitlines()
MAP = map_table().splitlines()


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "columns are none"),
        ([GOOD[0].replace("factor", "rate"), *GOOD[1:]], "expected d, m, factor"),
        (GOOD[:1], "no rows"),
        ([GOOD[0], GOOD[1] + ",1"], "line 2: 10 cells"),
        ([*GOOD, GOOD[-1]], "stands twice"),
        ([GOOD[0], "4,2,1,40,ten,3,2,0.1,0.9"], "specialised is 'ten'"),
        ([GOOD[0], "4,2,1,40,-1,3,2,0.1,0.9"], "specialised is '-1'"),
        ([GOOD[0], "4,2,1,40,39,3,2,0.1,1"], "expected counts"),
        ([GOOD[0], "4,2,1,0,0,0,0,0,1"], "0 starts"),
        ([GOOD[0], "4,2,1,40,10,3,2,0.3,0.9"], "does not hold the share"),
        ([GOOD[0], "4,2,1,40,10,3,2,nan,0.9"], "low is 'nan'"),
        ([GOOD[0], "4,2,0,40,10,3,2,0.1,0.9"], "a positive factor"),
    ],
)
def test_malformed_successes_are_refused(lines: list[str], said: str) -> None:
    with pytest.raises(Malformed, match=said):
        success_cells("\n".join(lines))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("4,2,1,0,1,1,10000 0 0 0,0 10000 0 0", "two different positions"),
        ("4,2,1,0,1,4,10000 0 0 0,0 10000 0 0", "two different positions"),
        ("4,2,1,0,1,2,10000 0 0,0 10000 0 0", "3 weights"),
        ("4,2,1,0,1,2,9990 0 0 0,0 10000 0 0", "sum to 9990"),
        ("4,2,1,0,1,2,10010 -10 0 0,0 10000 0 0", "not negative"),
        ("4,2,1,0,1,2,1.5 0 0 0,0 10000 0 0", "integers between blanks"),
        ("4,2,1,0,1,2,</script> 0 0 0,0 10000 0 0", "integers between blanks"),
        ("4,2,-1,0,1,2,10000 0 0 0,0 10000 0 0", "a positive factor"),
    ],
)
def test_malformed_maps_are_refused(row: str, said: str) -> None:
    with pytest.raises(Malformed, match=said):
        attention_maps("\n".join([MAP[0], row]))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("5,2,1,0,1,2,10000 0 0 0 0,0 10000 0 0 0", "not in the table of successes"),
        ("4,2,1,5,1,2,10000 0 0 0,0 10000 0 0", "no map of the same pair"),
    ],
)
def test_tables_must_fit_each_other(row: str, said: str) -> None:
    with pytest.raises(Malformed, match=said):
        payload(success_table(), "\n".join([*MAP, row]))


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"success": ""}, f"explorer: no table figures/{NAME}/rates.csv"),
        ({"maps": "a,b\n1,2\n"}, "explorer: maps: the columns are a, b"),
    ],
)
def test_a_missing_or_malformed_table_fails_the_build(
    tmp_path: Path, broken: dict[str, str], said: str
) -> None:
    stub = make_explorer_stub(tmp_path / "p", **broken)
    out = stub.root / "_build" / "html"
    with pytest.raises(RenderError, match="refused the book") as caught:
        render(stub, "quick", {NAME: stub.run}, stub.ledger, out, "k1")
    assert said in str(caught.value)
    assert not out.exists()


def test_script_and_style_are_on_the_explorers_page_only(tmp_path: Path) -> None:
    stub = make_explorer_stub(tmp_path / "p")
    built = render(stub, "quick", {NAME: stub.run}, stub.ledger, stub.root / "_build" / "html", "k1")
    for name in ("explorer.js", "explorer.css"):
        holders = [p.name for p in built.rglob("*.html") if f"_static/{name}" in p.read_text("utf-8")]
        assert holders == ["index.html"], name
