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


def as_markdown(claims: list[dict[str, Any]]) -> str:
    """One paragraph a claim: tag and place, our paraphrase, the reason it is not checked."""
    blocks = []
    for claim in claims:
        statement = " ".join(str(claim["statement"]).split())
        reason = " ".join(str(claim["not_checked"]).split())
        blocks.append(
            f"{claim['tag']}: {claim.get('place', 'place not known')}\n: {statement}\n\n  *Not checked:* {reason}\n"
        )
    return "\n".join(blocks)


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
        return self.parse_text_to_nodes(as_markdown(claims))


def setup(app: Sphinx) -> dict[str, Any]:
    # Declared by the ledger's extension too, which is loaded before this one when both are.
    if "ledger_path" not in app.config:
        app.add_config_value("ledger_path", "", "env", types=[str])
    app.add_directive("claims-to-come", ClaimsToCome)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
