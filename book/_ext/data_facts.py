"""Directive `{data-table}`: the image sets with their sizes, licences and attributions, from the one catalogue."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from attention_companion.datasets.catalogue import Source, catalogue


def describe(source: Source) -> str:
    """MyST text on one set: counts and shape, licence, whom to name."""
    counts = ", ".join(
        f"{number:,} for {'training' if split == 'train' else split + 'ing'}"
        for split, number in source.counts.items()
    )
    shape = " × ".join(map(str, source.shape))
    licence = source.licence
    return (
        f"{licence.title}\n"
        f": `{source.name}`, {counts}; {shape} pixel values an image, {len(source.classes)} classes.\n\n"
        f"  Licence: {licence.licence}. {licence.note}\n\n"
        f"  {licence.attribution} [Home page of {licence.title}]({licence.homepage})\n"
    )


class DataTable(SphinxDirective):
    """`{data-table}`, without arguments."""

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n".join(describe(source) for source in catalogue().values()))


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("data-table", DataTable)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
