"""What `dml-jax ops` says of the operators, from the rule data: as text, or as objects of JSON."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..core.desc import OperatorDesc
from ..core.feature_level import FeatureLevel
from ..core.support import Support, columns
from ..core.tensor import FIELDS, TENSOR

__all__ = ["as_json", "show_all", "show_one", "summary"]

UNBROKEN = 1 << 16  # columns: one line per row where a program reads


def show_all(classes: Iterable[type[OperatorDesc]]) -> None:
    """Prints a line per operator."""
    table = Table("operator", "since", "fields", box=None, pad_edge=False)
    for cls in classes:
        table.add_row(cls.operator_type, str(cls.support[-1].since), ", ".join(cls.directml_names().values()))
    _console().print(table)


def show_one(cls: type[OperatorDesc], level: FeatureLevel) -> None:
    """Prints an operator's fields, its rules at a feature level, and the table of its levels."""
    console = _console()
    console.print(f"[bold]DML_OPERATOR_{cls.operator_type}[/bold]  {escape(summary(cls))}\n")
    console.print(f"fields: {', '.join(cls.directml_names().values())}\n")
    console.print(f"rules at feature level {level}:")
    _show_rules(console, cls.wordings(level).values())
    console.print("\nrules of every tensor:")
    _show_rules(console, (rule.worded(FIELDS) for rule in TENSOR))
    table = Table(*columns(cls.support[0]), box=None, pad_edge=False)
    for row in cls.support:
        table.add_row(*columns(row).values())
    console.print()
    console.print(table)


def as_json(classes: Iterable[type[OperatorDesc]], level: FeatureLevel) -> dict[str, Any]:
    """The same of several operators."""
    return {
        "feature_level": str(level),
        "operators": [_operator(cls, level) for cls in classes],
        "tensor_rules": [{"name": rule.name, "text": rule.worded(FIELDS)} for rule in TENSOR],
    }


def summary(cls: type[OperatorDesc]) -> str:
    """The first line of the documentation, without the name."""
    return (cls.__doc__ or "").splitlines()[0].split(": ", 1)[1].replace("`", "")


def _operator(cls: type[OperatorDesc], level: FeatureLevel) -> dict[str, Any]:
    return {
        "operator": cls.operator_type,
        "summary": summary(cls),
        "fields": [
            {"name": field, "tensor": name in cls.tensor_names()} for name, field in cls.directml_names().items()
        ],
        "rules": [{"name": name, "text": text} for name, text in cls.wordings(level).items()],
        "feature_levels": list(map(_level, cls.support)),
    }


def _level(row: Support) -> dict[str, Any]:
    return {
        "since": str(row.since),
        "dimension_counts": list(row.ranks),
        "data_types": _names(row.data),
        "index_types": _names(row.indices),
    }


def _names(types: Sequence[Any]) -> list[str]:
    return [t.name for t in types]


def _show_rules(console: Console, texts: Iterable[str]) -> None:
    for text in texts:
        console.print(f"  - {escape(text)}", highlight=False, soft_wrap=True)


def _console() -> Console:
    """As wide as the terminal; no line is broken where there is none."""
    console = Console()
    return console if console.is_terminal else Console(width=UNBROKEN)
