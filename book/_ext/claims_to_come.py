"""Directive `{claims-to-come} PAPER`: what the ledger holds of a paper without a check, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def to_come(ledger: dict[str, Any], paper: str) -> list[dict[str, Any]]:
    """Claims of `paper` that no notebook of this build checks, in the ledger's order."""
    return [claim for claim in ledger["claims"] if claim["paper"] == paper and claim.get("not_checked")]


def as_list(claims: list[dict[str, Any]]) -> nodes.definition_list:
    """One entry a claim: tag and place, our paraphrase, the reason it is not checked.

    A claim's statement is plain text, so it becomes text nodes and is never read as markup.
    """
    listed = nodes.definition_list()
    for claim in claims:
        place = claim.get("place") or "place not known"
        statement = " ".join(str(claim["statement"]).split())
        reason = " ".join(str(claim["not_checked"]).split())
        why = nodes.paragraph("", "", nodes.emphasis("", "Not checked:"), nodes.Text(f" {reason}"))
        listed += nodes.definition_list_item(
            "",
            nodes.term("", f"{claim['tag']}: {place}"),
            nodes.definition("", nodes.paragraph("", statement), why),
        )
    return listed


class ClaimsToCome(SphinxDirective):
    """Argument: the paper's name in the ledger (sparse_xor, simulator, ntk)."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        path = getattr(self.config, "ledger_path", "")
        if not path:
            raise self.error("ledger_path is not set; the renderer sets it, or give it in the configuration.")
        claims = to_come(json.loads(Path(path).read_text("utf-8")), self.arguments[0])
        if not claims:
            return self.parse_text_to_nodes("Every claim of this paper that the ledger holds has a check.")
        return [as_list(claims)]


def setup(app: Sphinx) -> dict[str, Any]:
    # Declared by the ledger's extension too, which is loaded before this one when both are.
    if "ledger_path" not in app.config:
        app.add_config_value("ledger_path", "", "env", types=[str])
    app.add_directive("claims-to-come", ClaimsToCome)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
