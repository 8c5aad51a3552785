"""`dml-jax ops`: lists the operators, with their fields, rules and feature levels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from ..core.structs.feature_level import FeatureLevel
from .option_types import OperatorName
from .shared_options import feature_level, json_output, print_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ..core.structs.feature_level_tables import Support
    from ..core.structs.operator_desc import OperatorDesc

UNBROKEN = 1 << 16  # columns: one line per row where a program reads


@click.command(
    short_help="List the operators, or the fields, rules and feature levels of one.",
    epilog="""\b
Examples:
  dml-jax ops
  dml-jax ops GATHER_ND1 --feature-level 3_0
  dml-jax ops --json""",
)
@click.argument("operator", type=OperatorName(), required=False)
@feature_level
@json_output
def ops(operator: type[OperatorDesc] | None, feature_level: FeatureLevel, as_json: bool) -> None:
    """List the operators; or the fields, rules and feature levels of OPERATOR, such as GATHER_ND1.

    Exit status: 0 done, 1 failed, 2 the command line is wrong, 130 interrupted.
    """
    from ..catalogue import DESCS

    if as_json:
        print_json(_as_json([operator] if operator else DESCS, feature_level))
    elif operator:
        _show_one(operator, feature_level)
    else:
        _show_all(DESCS)


def _show_all(classes: Iterable[type[OperatorDesc]]) -> None:
    """Prints a line per operator; without a terminal with tabs, for `cut` and `awk`."""
    from ..catalogue import computed_by

    console, table = _console(), _table(*(heads := ("operator", "since", "function", "fields")))
    rows = [
        (cls.operator_type, str(cls.support[-1].since), computed_by(cls), ", ".join(cls.directml_names().values()))
        for cls in classes
    ]
    if not console.is_terminal:
        click.echo("\n".join(map("\t".join, (heads, *rows))))
        return
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _show_one(cls: type[OperatorDesc], level: FeatureLevel) -> None:
    """Prints an operator's fields, its rules at a feature level, and the table of its levels."""
    from rich.markup import escape

    from ..catalogue import computed_by
    from ..core.structs.feature_level_tables import columns
    from ..core.tensors.tensor_desc import FIELDS, TENSOR

    console = _console()
    console.print(f"[bold]DML_OPERATOR_{cls.operator_type}[/bold]  {escape(cls.summary())}\n")
    console.print(f"function: {escape(computed_by(cls))}", highlight=False)
    console.print(f"fields: {', '.join(cls.directml_names().values())}\n")
    if values := {cls.directml_names()[name]: field.values for name, field in cls.fields().items() if field.values}:
        console.print("values:")
        _show_rules(console, (f"{name}: {', '.join(names)}" for name, names in values.items()))
        console.print()
    console.print(f"rules at feature level {level}:")
    _show_rules(console, cls.wordings(level).values())
    console.print("\nrules of every tensor:")
    _show_rules(console, (rule.worded(FIELDS) for rule in TENSOR))
    table = _table(*columns(cls.support[0]))
    for row in cls.support:
        table.add_row(*columns(row).values())
    console.print()
    console.print(table)


def _as_json(classes: Iterable[type[OperatorDesc]], level: FeatureLevel) -> dict[str, Any]:
    """Returns the operators as `--json` prints them."""
    from ..core.tensors.tensor_desc import FIELDS, TENSOR

    return {
        "feature_level": str(level),
        "operators": [_operator(cls, level) for cls in classes],
        "tensor_rules": [{"name": rule.name, "text": rule.worded(FIELDS)} for rule in TENSOR],
    }


def _operator(cls: type[OperatorDesc], level: FeatureLevel) -> dict[str, Any]:
    from ..catalogue import computed_by

    return {
        "operator": cls.operator_type,
        "summary": cls.summary(),
        "function": computed_by(cls),
        "fields": [
            {"name": shown, "kind": field.kind, "tensor": field.is_tensor, "optional": field.is_optional}
            | ({"values": list(field.values)} if field.values else {})
            for field, shown in zip(cls.fields().values(), cls.directml_names().values(), strict=True)
        ],
        "rules": [{"name": name, "text": text} for name, text in cls.wordings(level).items()],
        "feature_levels": [_level(cls, row) for row in cls.support],
    }


def _level(cls: type[OperatorDesc], row: Support) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if row.given:
        attribute, values = row.given
        field = cls.directml_names()[attribute]
        given = {"given": {"field": field, "values": [value.name for value in values]}}
    return {
        "since": str(row.since),
        **given,
        "dimension_counts": list(row.ranks),
        "tensors": [
            {"name": cls.directml_names()[name], "data_types": [t.name for t in types]}
            for name, types in row.types.items()
        ],
    }


def _show_rules(console: Console, texts: Iterable[str]) -> None:
    from rich.markup import escape

    for text in texts:
        console.print(f"  - {escape(text)}", highlight=False, soft_wrap=True)


def _table(*columns: str) -> Table:
    from rich.table import Table

    return Table(*columns, box=None, pad_edge=False)


def _console() -> Console:
    """Returns a console as wide as the terminal; without a terminal it wraps no line."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=UNBROKEN)
