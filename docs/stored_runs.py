"""A Sphinx extension that makes a page of each stored run of the benchmark: `benchmarks/NAME.json` is its source."""

from pathlib import Path
from typing import Any

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser

from benchmarks import tables


class StoredRun(MystParser):
    """Parses the page that `benchmarks.tables` makes of the file, in the place of the file's own text."""

    supported = ("stored_run",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        document.settings.env.note_dependency(tables.__file__)
        super().parse(tables.page(Path(document["source"])), document)


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.add_source_suffix(".json", "stored_run")
    app.add_source_parser(StoredRun)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
