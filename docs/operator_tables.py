"""Sphinx directives that print an operator's fields, constraints and feature levels from the data that checks them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import dml_jax
from dml_jax.catalogue import DESCS
from dml_jax.core.support import columns
from dml_jax.core.tensor import FIELDS, TENSOR

Row = Sequence[str | nodes.Node]

DESCRIPTORS = {cls.operator_type: cls for cls in DESCS}


def fields(name: str) -> Iterator[Row]:
    """DirectML's fields beside the arguments of the descriptor class."""
    yield "DirectML", f"dml_jax.{DESCRIPTORS[name].__name__}"
    for ours, theirs in DESCRIPTORS[name].directml_names().items():
        yield theirs, nodes.literal(text=ours)


def constraints(name: str) -> Iterator[Row]:
    """Every rule in words, and its name; of a function, a descriptor, or of every tensor."""
    yield "constraint", "name"
    for rule, text in _wordings(name).items():
        yield text, nodes.literal(text=rule)


def feature_levels(name: str) -> Iterator[Row]:
    """The rows of the support table, newest first."""
    support = DESCRIPTORS[name].support
    yield tuple(columns(support[0]))
    for row in support:
        yield tuple(columns(row).values())


KINDS = (
    ("fields", fields, (1, 1)),
    ("constraints", constraints, (3, 2)),
    ("feature-levels", feature_levels, (2, 2, 8, 4)),
)


def _wordings(name: str) -> dict[str, str]:
    if name == "TENSOR":
        return {rule.name: rule.worded(FIELDS) for rule in TENSOR}
    if name in DESCRIPTORS:
        return DESCRIPTORS[name].wordings()
    rules = getattr(dml_jax, name).rules
    return {rule.name: rule.worded({}) for rule in rules}


class OperatorTable(SphinxDirective):
    """A table of one operator: its first row is the head, and its id is `<directive>.<operator>`."""

    required_arguments = 1
    rows: ClassVar[Callable[[str], Iterator[Row]]]
    widths: ClassVar[Sequence[int]]

    def run(self) -> list[nodes.Node]:
        (operator,) = self.arguments
        try:
            head, *body = type(self).rows(operator)
        except (KeyError, AttributeError):
            raise self.error(f"{self.name}: there is no operator {operator!r}") from None
        specs = [nodes.colspec(colwidth=width) for width in self.widths[: len(head)]]
        parts = nodes.thead("", _row(head)), nodes.tbody("", *map(_row, body))
        group = nodes.tgroup("", *specs, *parts, cols=len(head))
        return [nodes.table("", group, ids=[f"{self.name}.{operator}"], classes=["operator", "colwidths-given"])]


def _row(cells: Row) -> nodes.row:
    filled = (nodes.Text(cell) if isinstance(cell, str) else cell for cell in cells)
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", cell)) for cell in filled))


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this: one directive per kind of table."""
    for name, rows, widths in KINDS:
        app.add_directive(name, type(name, (OperatorTable,), {"rows": staticmethod(rows), "widths": widths}))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
