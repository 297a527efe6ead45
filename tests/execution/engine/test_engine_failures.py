"""When something is wrong: what is said, what is kept, and what the exit code is."""

from __future__ import annotations

import json

import pytest

from attention_companion.ledger.models import Claim


def test_a_broken_notebook_shows_its_cell_and_keeps_the_others(shared):
    notebook = shared.root / "notebooks" / "alpha.md"
    before = notebook.read_text()
    try:
        notebook.write_text(before.replace("answer()\n```", "answer() / 0  # planted\n```"))
        said = shared.build(ok=False)
        assert "ZeroDivisionError" in said
        assert "answer() / 0  # planted" in said
        assert "results/failed/alpha-" in said
        assert "FAILED alpha" in said
        for wall in ("RuleException", "CalledProcessError", "localrule", "Traceback (most recent call last):\n  File"):
            assert wall not in said
        assert not [p for p in (shared.root / "results/quick/alpha").iterdir() if p.name.startswith(".partial")]
    finally:
        notebook.write_text(before)
    shared.forget()
    shared.build()
    assert shared.executed() == []


def test_a_malformed_notebook_is_named_before_anything_runs(shared):
    notebook = shared.root / "notebooks" / "beta.md"
    before = notebook.read_text()
    try:
        notebook.write_text(before.replace(":tags: [parameters]", ":tags: [paramters]"))
        said = shared.build(ok=False)
        assert "beta" in said
        assert "parameters" in said
        assert "SNAKEMAKE" not in said
    finally:
        notebook.write_text(before)


def test_a_failed_rendering_leaves_the_old_book(shared):
    page = shared.root / "_build" / "html" / "index.html"
    before, prose = page.read_text(), shared.root / "book" / "index.md"
    text = prose.read_text()
    try:
        prose.write_text("broken")
        said = shared.build(ok=False)
        assert "the prose is broken" in said
        assert page.read_text() == before
    finally:
        prose.write_text(text)
    shared.build()
    assert page.read_text() == before


def test_drift_fails_the_build_but_the_pages_are_rendered(shared):
    claims = shared.root / "book" / "claims" / "tiny.yml"
    before = claims.read_text()
    claim = json.loads(before)["claims"][0]
    del claim["not_checked"]
    claim |= {"checked_by": "alpha", "drift": {"reason": "exact"}}
    Claim.model_validate(claim)
    try:
        claims.write_text(json.dumps({"claims": [claim]}))
        shared.forget()
        said = shared.build(ok=False)
        assert "NTK-TINY" in said  # a claim whose notebook does not check it is a fault
        assert shared.rendered() == ["quick"]
        assert "in the ledger of profile" in shared.build(ok=False)  # and stays one, without a new rendering
        assert shared.rendered() == []
    finally:
        claims.write_text(before)
    shared.build()


def test_sources_edited_while_the_build_runs_are_refused(shared):
    """A step computes its key again: a piece is never named after sources other than those it is made from."""
    from attention_companion.execution import steps

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(shared.root)
        assert steps.main(["figures", "quick", "0" * 20]) == 1


def test_an_unknown_profile_or_target_is_refused(mini):
    assert "expected quick or full" in mini.build("book", "--profile", "slow", ok=False)
    assert "invalid choice" in mini.build("everything", ok=False)


def test_outside_a_project_the_engine_says_so(mini, tmp_path):
    assert "notebooks.yml" in mini.build("book", "--root", str(tmp_path), ok=False)
