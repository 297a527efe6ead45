"""`make figures`: runs, exports, renders nothing; the zip is the same bytes for the same contents."""

from __future__ import annotations

import zipfile
from pathlib import Path

from attention_companion.execution.export import export


def test_figures_run_and_export_but_render_nothing(mini):
    said = mini.build("figures")
    assert mini.executed() == ["alpha", "beta"]
    assert mini.rendered() == []
    assert "_build/figures-quick.zip" in said
    with zipfile.ZipFile(mini.root / "_build" / "figures-quick.zip") as packed:
        assert "figures-quick/ledger.json" in packed.namelist()
    (mini.root / "_build" / "figures-quick" / "ledger.json").unlink()
    mini.build("figures")
    assert (mini.root / "_build" / "figures-quick" / "ledger.json").exists()
    assert mini.executed() == []


def _run(folder: Path) -> Path:
    (folder / "figures").mkdir(parents=True)
    for name in ("maps.svg", "maps.png", "maps.csv", "note.txt"):
        (folder / "figures" / name).write_text(name)
    return folder


def test_the_export_holds_figures_numbers_and_ledger_only(tmp_path):
    ledger = tmp_path / "ledger-1.json"
    ledger.write_text("{}")
    archive = export({"alpha": _run(tmp_path / "run")}, ledger, tmp_path / "figures-quick")
    first = archive.read_bytes()
    with zipfile.ZipFile(archive) as packed:
        assert packed.namelist() == [f"figures-quick/{n}" for n in
                                     ("alpha/maps.csv", "alpha/maps.png", "alpha/maps.svg", "ledger.json")]
    assert export({"alpha": tmp_path / "run"}, ledger, tmp_path / "figures-quick").read_bytes() == first
    assert not list(tmp_path.glob(".figures-*"))
