"""Sphinx directives that print the catalogue: no page lists operators, fields, rules or feature levels by hand.

| directive | what it prints |
| --- | --- |
| `operators` | a row per operator, and the contents: `operators/NAME.md` for `dml_jax/operators/_NAME.py` |
| `function NAME` | a function's signature, its arguments, and its constraints |
| `struct NAME` | the class of a DirectML operator, its fields, its constraints and its feature levels |
| `rows PAGE` | the same of each operator of a table, whose page has that name |
| `structs` | a row per operator of DirectML: since when it exists, and which function computes it |
| `tensor` | the constraints of every tensor |
| `activations` | a row per activation: formula, parameters, and what it can be fused with |
| `reference functions`, `structs`, `enumerations` | the docstrings of the catalogue's public names of that kind |
"""

import enum
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import docstring_sections
from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from sphinx.util.inspect import stringify_signature

import dml_jax
from dml_jax import descs, operators
from dml_jax.catalogue import DESCS, FUNCTIONS, PAGES, STRUCTS, computed_by, page_of
from dml_jax.core.rules import Rule
from dml_jax.core.structs.activation_table import ACTIVATIONS
from dml_jax.core.structs.feature_level_tables import columns
from dml_jax.core.structs.fields import Field
from dml_jax.core.structs.operator_desc import OperatorDesc
from dml_jax.core.tensors.tensor_desc import FIELDS, TENSOR

Row = Iterable[str | nodes.Node]
PUBLIC = {name: getattr(dml_jax, name) for name in dml_jax.__all__}
ENUMERATIONS_BESIDE_TENSORS = ("AxisDirection", "DataType", "FeatureLevel", "TensorFlags")
FILES = dict.fromkeys(value.__module__ for value in (*FUNCTIONS.values(), *DESCS))


class Operator(NamedTuple):
    """What one file of the catalogue has."""

    functions: list[Callable[..., Any]]
    structs: list[type[OperatorDesc]]


OPERATORS: Mapping[str, Operator] = {
    page: Operator(
        [function for function in FUNCTIONS.values() if page_of(function) == page],
        [cls for cls in DESCS if page_of(cls) == page],
    )
    for page in PAGES
}


def names_of(cls: type[OperatorDesc]) -> list[str]:
    """The public names of a struct, its own first, each with the module that has it."""
    names = sorted((name for name in dir(descs) if getattr(descs, name) is cls), key=lambda name: name != cls.__name__)
    return [f"{'dml_jax' if name in dir(dml_jax) else descs.__name__}.{name}" for name in names]


# Tables of nodes: the id of each is what it prints, and of what.


def table(of: str, widths: Iterable[int], head: Row, *body: Row) -> nodes.table:
    """A table as wide as the page."""
    specs = [nodes.colspec(colwidth=width) for width in widths]
    parts = nodes.thead("", _row(head)), nodes.tbody("", *map(_row, body))
    group = nodes.tgroup("", *specs, *parts, cols=len(specs))
    return nodes.table("", group, ids=[of], classes=["operator", "colwidths-given"])


def _row(cells: Row) -> nodes.row:
    filled = (nodes.Text(cell) if isinstance(cell, str) else cell for cell in cells)
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", cell)) for cell in filled))


def fields(cls: type[OperatorDesc]) -> nodes.table:
    """DirectML's fields beside the arguments of the class, and what each holds."""
    names = cls.directml_names()
    rows = ((names[name], nodes.literal(text=name), _kind(field)) for name, field in cls.fields().items())
    return table(f"fields.{cls.operator_type}", (3, 3, 4), ("DirectML", f"dml_jax.{cls.__name__}", "kind"), *rows)


def _kind(field: Field) -> str:
    indices = " of indices" if field.is_index else ""
    counted = f" counted by {field.counted_by}" if field.is_array else ""
    values = f": {', '.join(field.values)}" if field.values else ""
    return f"{field.kind}{indices}{counted}{', optional' if field.is_optional else ''}{values}"


def arguments(name: str, function: Callable[..., Any]) -> nodes.table:
    """Every argument, and what the docstring says of it."""
    texts = docstring_sections.arguments(inspect.getdoc(function) or "")
    rows = ((nodes.literal(text=argument), _quoting(text)) for argument, text in texts.items())
    return table(f"arguments.{name}", (1, 4), ("argument", "meaning"), *rows)


def _quoting(text: str) -> nodes.Node:
    """A text whose parts in backticks are code."""
    parts = text.split("`")
    of_each = (nodes.literal(text=part) if i % 2 else nodes.Text(part) for i, part in enumerate(parts))
    return nodes.inline("", "", *of_each)


def constraints(of: str, wordings: Mapping[str, str]) -> nodes.table:
    """Every rule in words, and its name."""
    rows = ((text, nodes.literal(text=rule)) for rule, text in wordings.items())
    return table(f"constraints.{of}", (3, 2), ("constraint", "name"), *rows)


def worded(rules: Iterable[Rule], names: Mapping[str, str]) -> Mapping[str, str]:
    """Every rule's name and its text."""
    return {rule.name: rule.worded(names) for rule in rules}


def feature_levels(cls: type[OperatorDesc]) -> nodes.table:
    """The rows of the support table, newest first; a column per tensor that has types of its own."""
    rows = [columns(row) for row in cls.support]
    head = list(dict.fromkeys(column for row in rows for column in row))
    body = [[row.get(column, "") for column in head] for row in rows]
    widths = (max(2, min(8, max(map(len, cells)) // 8)) for cells in zip(*body, strict=True))
    return table(f"feature-levels.{cls.operator_type}", widths, head, *body)


# Directives. What they say beside tables is Markdown.


class Printed(SphinxDirective):
    """A directive that is printed anew after a change of the catalogue."""

    def run(self) -> list[nodes.Node]:
        for file in (operators.__name__, descs.__name__, *FILES):
            self.env.note_dependency(sys.modules[file].__file__)
        return [node for part in self.printed(*self.arguments) for node in self._nodes(part)]

    def printed(self, *arguments: str) -> Iterator[str | nodes.Node]:
        """Paragraphs and tables."""
        raise NotImplementedError

    def known(self, name: str, among: Mapping[str, Any]) -> Any:
        """What has this name."""
        if name not in among:
            raise self.error(f"{self.name}: there is no {name!r}, only {', '.join(among)}")
        return among[name]

    def _nodes(self, part: str | nodes.Node) -> list[nodes.Node]:
        return self.parse_text_to_nodes(part) if isinstance(part, str) else [part]


class Operators(Printed):
    """`operators`."""

    def printed(self) -> Iterator[str]:
        rows = [(f"[`{name}`]({name}.md)", _summary(one), _called(one.structs)) for name, one in OPERATORS.items()]
        head = ("operator", "what it does", "DirectML"), ("---",) * 3
        lines = ("|".join(("", *row, "")) for row in (*head, *rows))
        yield "\n".join(["```{table}", ":class: operators", "", *lines, "```"])
        yield "\n".join(["```{toctree}", ":hidden:", "", *PAGES, "```"])


def _summary(operator: Operator) -> str:
    """The first line of a docstring, in a table: of a function, a struct, or a file of several structs alone."""
    of_function = (inspect.getdoc(function) for function in operator.functions)
    of_struct = ((inspect.getdoc(cls) or "").partition(": ")[2] for cls in operator.structs)
    of_file = (inspect.getdoc(sys.modules[cls.__module__]) for cls in operator.structs[1:])
    line = next(filter(None, (*of_function, *of_file, *of_struct)), "").partition("\n")[0]
    return (line[:1].lower() + line[1:].rstrip(".")).replace("|", r"\|")


def _called(structs: Iterable[type[OperatorDesc]]) -> str:
    return ", ".join(" or ".join((cls.operator_type, *cls.other_names)) for cls in structs)


class Function(Printed):
    """`function NAME`."""

    required_arguments = 1

    def printed(self, name: str) -> Iterator[str | nodes.Node]:
        function = self.known(name, FUNCTIONS)
        yield _signature(name, function)
        yield arguments(name, function)
        reference = f"{{py:func}}`reference <dml_jax.{name}>`"
        shared = "[Operators](index.md#what-all-of-them-share) has the rules of all operators"
        yield f"The {reference} has results and errors, and {shared}. Its constraints, from the data that checks them:"
        yield constraints(name, worded(function.rules, {}))


def _signature(name: str, function: Callable[..., Any]) -> str:
    """Arguments and defaults in one paragraph, without the types, which the reference has."""
    shown = stringify_signature(inspect.signature(function), show_annotation=False, show_return_annotation=False)
    options = ":no-index:", ":single-line-parameter-list:"
    return "\n".join([f"```{{py:function}} dml_jax.{name}{shown}", *options, "```"])


class Struct(Printed):
    """`struct NAME`."""

    required_arguments = 1

    def printed(self, name: str) -> Iterator[str | nodes.Node]:
        cls = self.known(name, {cls.operator_type: STRUCTS[cls.operator_type] for cls in DESCS})
        own, *others = (f"{{py:obj}}`~{name}`" for name in names_of(cls))
        aliases = f", of which {' and '.join(others)} is another name," if others else ""
        also = f" DirectML also calls the operator {' and '.join(cls.other_names)}." if cls.other_names else ""
        yield f"{own}{aliases} has DirectML's fields in DirectML's order.{also}"
        yield fields(cls)
        yield constraints(name, cls.wordings())
        yield "Data types and numbers of dimensions by feature level, the newest first:"
        yield feature_levels(cls)


class Rows(Struct):
    """`rows PAGE`."""

    def printed(self, page: str) -> Iterator[str | nodes.Node]:
        for cls in self.known(page, OPERATORS).structs:
            name = cls.operator_type
            yield nodes.rubric("", name, ids=[name.lower()])
            yield cls.summary()
            yield from super().printed(name)


class Structs(Printed):
    """`structs`."""

    def printed(self) -> Iterator[nodes.Node]:
        rows = ((str(c.support[-1].since), c.operator_type, computed_by(c)) for c in DESCS)
        yield table("structs", (1, 5, 5), ("since", "operator", "function"), *rows)


class Tensor(Printed):
    """`tensor`."""

    def printed(self) -> Iterator[nodes.Node]:
        yield constraints("TENSOR", worded(TENSOR, FIELDS))


class Activations(Printed):
    """`activations`."""

    def printed(self) -> Iterator[nodes.Node]:
        rows = (_activation(name, row) for name, row in ACTIVATIONS.items())
        yield table("activations", (4, 5, 3, 2), ("activation", "f(x)", "parameters", "fused since"), *rows)


def _activation(name: str, row: Any) -> Row:
    numbers = (key if usual is None else f"{key} = {usual:.6g}" for key, usual in row.parameters.items())
    hosts = f", with {' or '.join(row.hosts)}" if row.hosts else ""
    fused = "never" if row.hosts == () else f"{row.since}{hosts}"
    return name, STRUCTS[name].summary().rstrip("."), ", ".join(numbers), fused


class Reference(Printed):
    """`reference KIND`."""

    required_arguments = 1

    def printed(self, kind: str) -> Iterator[str]:
        yield "\n".join(["```{eval-rst}", *self.known(kind, REFERENCE)(), "```"])


def _functions() -> Iterator[str]:
    for name in FUNCTIONS:
        yield f".. autofunction:: dml_jax.{name}\n"


def _structs() -> Iterator[str]:
    for name in (name for cls in DESCS for name in names_of(cls)):
        yield f".. autoclass:: {name}\n"


def _enumerations() -> Iterator[str]:
    options = "\n".join(f"   :{option}:" for option in ("members", "undoc-members", "no-inherited-members"))
    for name, value in PUBLIC.items():
        is_enumeration = inspect.isclass(value) and issubclass(value, enum.Enum)
        if is_enumeration and name not in ENUMERATIONS_BESIDE_TENSORS:
            yield f".. autoclass:: dml_jax.{name}\n{options}\n"


REFERENCE = {"functions": _functions, "structs": _structs, "enumerations": _enumerations}


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    for directive in (Operators, Function, Struct, Rows, Structs, Tensor, Activations, Reference):
        app.add_directive(directive.__name__.lower(), directive)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
