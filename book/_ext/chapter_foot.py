"""The foot of a chapter: under which profile, when and at what cost its numbers were made, and how to remake them.

Directive `{verdict-picture}` shows the front page's bars with their text; `{run-table}` lists the cost of
every notebook of this build.
"""

from __future__ import annotations

from html import escape
from typing import Any

from build_facts import facts, notebook_of, register
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from attention_companion.execution.render_stage import made_from, when

SAMPLE_BANNER = (
    "This page was made with the bundled sample of {names}, not with the full data set: "
    "its numbers are not comparable with the baseline."
)


def command(notebook: str, run: dict[str, Any], profile: str) -> str:
    """The command that makes a run again, parameters included where they differ from the profile's."""
    return f"companion run {notebook} --profile {run.get('profile', profile)} --out DIR"


def cost(run: dict[str, Any]) -> tuple[str, str]:
    """Seconds and peak memory of a run as printed: ('12.3 s', '410 MB')."""
    provenance = run["provenance"]
    return f"{provenance['seconds']:.1f}\u00a0s", f"{provenance['peak_memory_bytes'] / 1e6:.0f}\u00a0MB"


def sampled(run: dict[str, Any]) -> list[str]:
    """Names of the data sets of which the run saw the bundled sample only."""
    data = run.get("digests", {}).get("data", {})
    return sorted(name for name, stamp in data.items() if stamp.get("kind") == "sample")


def chapter_rows(notebook: str, run: dict[str, Any], profile: str) -> list[tuple[str, str]]:
    """(label, HTML) rows of a chapter's foot."""
    provenance = run["provenance"]
    seconds, memory = cost(run)
    parameters = ", ".join(f"{k} = {v!r}" for k, v in sorted(run.get("parameters", {}).items())) or "none"
    line = command(notebook, run, profile)
    rows = [
        ("Profile", escape(run.get("profile", profile))),
        ("Commit", escape(made_from(run))),
        ("Date", escape(when(provenance.get("started")))),
        ("Parameters", f"<code>{escape(parameters)}</code>"),
        (
            "Cost",
            f"{seconds}, {memory} at the peak, {escape(str(provenance.get('cpu', 'CPU not recorded')))}",
        ),
        ("Reproduce", f"<code>{escape(line)}</code>"),
    ]
    if provenance.get("seeds"):
        rows.insert(4, ("Seeds", f"<code>{escape(str(provenance['seeds']))}</code>"))
    for figure in run.get("figures", []):
        rows.append(
            (
                f"Figure {escape(figure)}",
                f"written by that command to <code>DIR/figures/{escape(figure)}.svg</code> (.png, .csv)",
            )
        )
    data = run.get("digests", {}).get("data", {})
    if data:
        rows.append(("Data", escape(", ".join(f"{k} ({v.get('kind')})" for k, v in sorted(data.items())))))
    return rows


def foot_html(app: Sphinx, pagename: str) -> str:
    """The foot of a chapter; other pages have the edition in the theme's footer only."""
    known = facts(app)
    notebook = notebook_of(pagename)
    run = known["runs"].get(notebook) if notebook else None
    if run is None:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{label}</th><td>{value}</td></tr>'
        for label, value in chapter_rows(notebook, run, known["profile"])
    )
    return (
        '<section class="chapter-foot" aria-labelledby="how-made"><h2 id="how-made">How this page was made</h2>'
        f'<div class="scroll-x"><table class="foot-table"><tbody>{rows}</tbody></table></div></section>'
    )


def banner_html(app: Sphinx, pagename: str) -> str:
    """The banner of a page whose run saw a sample; empty otherwise."""
    run = facts(app)["runs"].get(notebook_of(pagename) or "")
    names = sampled(run) if run else []
    if not names:
        return ""
    return f'<p class="sample-banner" role="note">{escape(SAMPLE_BANNER.format(names=", ".join(names)))}</p>'


def add_foot(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.Node | None
) -> None:
    """Put banner and foot around the body of every page made from a document."""
    if doctree is not None:
        context["body"] = banner_html(app, pagename) + context["body"] + foot_html(app, pagename)


class VerdictPicture(SphinxDirective):
    """`{verdict-picture}`: the bars drawn by the renderer, with their alternative text and a caption."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        known = facts(self.env.app)
        alt = known.get("verdict_figure", {}).get("alt", "Verdicts by paper; this build has no ledger.")
        figure = [
            "```{figure} /figures/verdicts.svg",
            ":name: fig-verdicts",
            f":alt: {alt}",
            ":width: 100%",
            "",
            *self.content,
            "```",
        ]
        return self.parse_text_to_nodes("\n".join(figure))


class RunTable(SphinxDirective):
    """`{run-table}`: one row a notebook: profile, commit, date, seconds, peak memory, command."""

    def run(self) -> list[nodes.Node]:
        known = facts(self.env.app)
        lines = ["| Notebook | Profile | Commit | Date | Time | Peak memory |", "|---|---|---|---|---:|---:|"]
        for name, run in sorted(known["runs"].items()):
            seconds, memory = cost(run)
            lines.append(
                f"| [{name}](/notebooks/{name}.ipynb) | {run.get('profile', known['profile'])} "
                f"| {made_from(run)} | {when(run['provenance'].get('started'))} | {seconds} | {memory} |"
            )
        if not known["runs"]:
            lines = ["This build has no runs."]
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Sphinx) -> dict[str, Any]:
    register(app)
    app.connect("html-page-context", add_foot)
    app.add_directive("verdict-picture", VerdictPicture)
    app.add_directive("run-table", RunTable)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
