"""Sphinx roles and directives that read the build's ledger.

Roles: ``{num}`TAG.key|.3f` ``, ``{num}`TAG@regime.key|.3f` ``, ``{num}`TAG|.3f` `` (measured here, linked to the
cell), ``{printed}`TAG.label` `` (as a paper prints it), ``{verdict}`TAG` ``, ``{claim}`TAG` ``.
Directives: ``claim-card TAG``, ``claim-cards`` (all claims of this page's notebook), ``ledger-table``,
``as-printed-table PAPER``, ``verdict-counts``, ``drift-table``.
What is missing from the ledger is a Sphinx warning, so a strict build fails instead of showing a hole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from docutils import nodes
from ledger_cards import claim_card
from ledger_data import PAPERS, SOURCES, LedgerView, MissingValue, NotMeasured, format_number, load_view
from ledger_html import (
    Locate,
    as_printed_table,
    badge,
    counts_table,
    drift_tables,
    history_table,
    ledger_table,
)
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

logger = logging.getLogger(__name__)


def locator(env: BuildEnvironment, location: Any) -> Locate:
    """From a record to its cell's address, relative to the page being read."""

    def locate(record: dict[str, Any]) -> str | None:
        target = f"notebooks/{record['notebook']}"
        if target not in env.found_docs:
            logger.warning(
                "ledger: %s was checked by %s, which is no page of this book",
                record["tag"],
                target,
                location=location,
            )
            return None
        fragment = f"#{record['cell']}"
        if target == env.docname:
            return fragment
        return env.app.builder.get_relative_uri(env.docname, target) + fragment

    return locate


class _LedgerRole(SphinxRole):
    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        try:
            return [self.made(load_view(self.config.ledger_path))], []
        except MissingValue as error:
            logger.warning("ledger: %s", error, location=self.get_location())
            return [nodes.problematic(self.rawtext, self.rawtext)], []

    def made(self, view: LedgerView) -> nodes.Node:
        raise NotImplementedError

    def reference(self, text: str, uri: str | None, title: str) -> nodes.Node:
        """Inline text, a link where there is somewhere to go."""
        if uri is None:
            return nodes.inline(text, text, classes=["ledger-num"])
        node = nodes.reference("", "", internal=True, refuri=uri, reftitle=title, classes=["ledger-num"])
        node += nodes.inline(text, text)
        return node


class NumberRole(_LedgerRole):
    """A number this build measured."""

    def made(self, view: LedgerView) -> nodes.Node:
        target, _, spec = self.text.rpartition("|") if "|" in self.text else (self.text, "", "")
        try:
            found = view.number(target)
        except NotMeasured as left_out:
            return nodes.emphasis("", f"not measured ({left_out})", classes=["ledger-num"])
        regime = f", {found.record['regime']}" if found.record["regime"] else ""
        title = f"this build measured: {found.claim['tag']}{regime}{f', {found.name}' if found.name else ''}"
        uri = locator(self.env, self.get_location())(found.record)
        return self.reference(format_number(found.stored, spec), uri, title)


class PrintedRole(_LedgerRole):
    """A number as a paper prints it, with its source as a tooltip."""

    def made(self, view: LedgerView) -> nodes.Node:
        item = view.printed(self.text)
        title = f"printed; source: {SOURCES[item['source']]}"
        return nodes.abbreviation(item["text"], item["text"], explanation=title, classes=["ledger-printed"])


class VerdictRole(_LedgerRole):
    """A claim's verdict, symbol and word."""

    def made(self, view: LedgerView) -> nodes.Node:
        return nodes.raw("", badge(view.claim(self.text.strip())["verdict"]), format="html")


class ClaimRole(_LedgerRole):
    """A claim's tag, linked to its row in the ledger."""

    def made(self, view: LedgerView) -> nodes.Node:
        claim = view.claim(self.text.strip())
        uri = None
        if "ledger" in self.env.found_docs:
            uri = (
                self.env.app.builder.get_relative_uri(self.env.docname, "ledger") + f"#ledger-{claim['tag']}"
            )
        return self.reference(claim["tag"], uri, claim["statement"])


class _LedgerDirective(SphinxDirective):
    """A directive whose content is HTML made from the ledger."""

    def run(self) -> list[nodes.Node]:
        try:
            view = load_view(self.config.ledger_path)
            self.env.note_dependency(self.config.ledger_path)
            html = self.html(view, locator(self.env, self.get_location()))
        except MissingValue as error:
            logger.warning("ledger: %s", error, location=self.get_location())
            return []
        return [nodes.raw("", html, format="html")]

    def html(self, view: LedgerView, locate: Locate) -> str:
        raise NotImplementedError

    def card(self, view: LedgerView, claim: dict[str, Any], locate: Locate) -> str:
        """A card whose id is given once a page, however many cards of the claim stand on it."""
        shown: set[str] = self.env.temp_data.setdefault("ledger_cards", set())
        first = claim["tag"] not in shown
        shown.add(claim["tag"])
        return claim_card(view, claim, locate, with_id=first)


class ClaimCard(_LedgerDirective):
    """``claim-card TAG``"""

    required_arguments = 1

    def html(self, view: LedgerView, locate: Locate) -> str:
        return self.card(view, view.claim(self.arguments[0]), locate)


class ClaimCards(_LedgerDirective):
    """``claim-cards [NOTEBOOK]``: every claim that this page's notebook (or the one named) checks."""

    optional_arguments = 1

    def html(self, view: LedgerView, locate: Locate) -> str:
        notebook = self.arguments[0] if self.arguments else self.env.docname.rpartition("/")[2]
        claims = view.checked_by(notebook)
        if not claims:
            raise MissingValue(
                f"no claim is checked by {notebook!r}; claim-cards belongs on a notebook's page"
            )
        return "".join(self.card(view, claim, locate) for claim in claims)


class AsPrinted(_LedgerDirective):
    """``as-printed-table PAPER``"""

    required_arguments = 1

    def html(self, view: LedgerView, locate: Locate) -> str:
        paper = self.arguments[0]
        if paper not in PAPERS:
            raise MissingValue(f"no paper {paper!r}; there are {', '.join(PAPERS)}")
        return as_printed_table(view, paper, locate)


def _simple(make: Callable[[LedgerView, Locate], str], doc: str) -> type[_LedgerDirective]:
    """A directive without arguments."""

    class Simple(_LedgerDirective):
        def html(self, view: LedgerView, locate: Locate) -> str:
            return make(view, locate)

    Simple.__doc__ = doc
    return Simple


def setup(app: Sphinx) -> dict[str, Any]:
    if "ledger_path" not in app.config:
        app.add_config_value("ledger_path", "", "env", types=[str])
    for name, role in {
        "num": NumberRole,
        "printed": PrintedRole,
        "verdict": VerdictRole,
        "claim": ClaimRole,
    }.items():
        app.add_role(name, role())
    app.add_directive("claim-card", ClaimCard)
    app.add_directive("claim-cards", ClaimCards)
    app.add_directive("as-printed-table", AsPrinted)
    app.add_directive(
        "ledger-table", _simple(lambda v, at: ledger_table(v, at) + history_table(v), "``ledger-table``")
    )
    app.add_directive("verdict-counts", _simple(lambda v, _: counts_table(v), "``verdict-counts``"))
    app.add_directive("drift-table", _simple(lambda v, _: drift_tables(v), "``drift-table``"))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
