"""Two small tables in the explorer's form, and a stub book whose front page shows them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from book_stub import INDEX, NAME, SVG, StubProject, make_stub
from explorer_data import MAP_COLUMNS, SUCCESS_COLUMNS

DIRECTIVE = f"""
```{{explorer}} {NAME}
:success: rates
:maps: heads
:asked: 0.9
```

```{{figure}} /figures/{NAME}/rates.svg
:name: fig-rates
:alt: The shares that the explorer shows, as a picture.

The still picture.
```
"""
#: The one combination that the stub's table leaves out: (d, m, factor).
LEFT_OUT = (9, 3, 100.0)


def table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """CSV text."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue()


def success_table() -> str:
    """Counts at d = 4, 9; m = 2, 3; factors 1, 10, 100, without `LEFT_OUT`."""
    rows = []
    for number, (d, m, f) in enumerate((d, m, f) for d in (4, 9) for m in (2, 3) for f in (1.0, 10.0, 100.0)):
        if (d, m, f) != LEFT_OUT:
            share = (10 + number) / 40
            rows.append((d, m, f, 40, 10 + number, 3, 2, max(0, share - 0.1), min(1, share + 0.12)))
    return table(SUCCESS_COLUMNS, rows)


def map_table() -> str:
    """Maps of starts 0 and 7 at every size: uniform before; afterwards head 1 looks at p and head 2 at q."""
    rows = []
    for d in (4, 9):
        for m in (2, 3):
            for start in (0, 7):
                p, q = (1, d - 1) if start == 0 else (2, 0)
                even = [10_000 // d] * d
                rows.append((d, m, 0.0, start, p, q, *(" ".join(map(str, even)) for _ in (p, q))))
                for factor in (1.0, 10.0, 100.0):
                    if (d, m, factor) != LEFT_OUT:
                        heads = [
                            [9_970 if i == at else 10 * (i == (at + 1) % d) for i in range(d)]
                            for at in (p, q)
                        ]
                        heads = [[w + 20 * (w == 10) for w in head] for head in heads]
                        rows.append(
                            (d, m, factor, start, p, q, *(" ".join(map(str, head)) for head in heads))
                        )
    return table(MAP_COLUMNS, rows)


def make_explorer_stub(root: Path, success: str | None = None, maps: str | None = None) -> StubProject:
    """The stub project with the directive on its front page; "" leaves a table's file away."""
    stub = make_stub(root)
    figures = stub.run / "figures"
    for name, text in (
        ("rates", success_table() if success is None else success),
        ("heads", map_table() if maps is None else maps),
    ):
        (figures / f"{name}.svg").write_text(SVG, "utf-8")
        if text:
            (figures / f"{name}.csv").write_text(text, "utf-8")
    stub.page("index", INDEX + DIRECTIVE)
    return stub
