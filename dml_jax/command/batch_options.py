"""Derives the options of a subcommand from an operator: a file per array, an option per attribute."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, getdoc, signature
from typing import Any, get_type_hints

import click
import jax

from ..catalogue import FUNCTIONS
from ..core.arguments.indices import as_indices
from ..core.arguments.kinds import Kind
from ..core.arguments.ports import argument_of
from ..core.arguments.public_function import SHARDING
from ..core.arguments.static_values import (
    as_dim,
    as_dim_or_dims,
    as_dims,
    as_dtype,
    as_real,
    as_real_or_reals,
    as_reals,
)
from ..core.structs.activation_fusion import as_activation
from .option_types import ActivationType, Choice, NumberType


@dataclass(frozen=True)
class BatchOperator:
    """An operator as a subcommand.

    Args:
      function: the function of dml_jax.
      operands: its arrays in order, each with whether it is a list, which takes any number of files.
      attributes: the options that become its keyword arguments.
      example: an example of the options that are required.
    """

    function: Any
    operands: Mapping[str, bool]
    attributes: tuple[click.Option, ...]
    example: str

    @property
    def note(self) -> str:
        """Says which dimensions one number stands for, where the function counts those of its input."""
        kinds = self.function.kinds.values()
        return _OF_ITEM if any(k.reader is as_dim_or_dims and "input" in k.needs for k in kinds) else ""

    def named(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the attributes that were given, by the names of the function's arguments."""
        return {name.removeprefix(_RENAMED): value for name, value in options.items() if value is not None}

    def is_index(self, port: str) -> bool:
        """Whether the file of a port holds indices."""
        return self.function.kinds[argument_of(port)].read is as_indices


# Help of options that apply per item, each with one meaning wherever it is; others take theirs from the docstring.
HELP = {
    "axis": "Dimension of an item, from 0; a negative number counts from the end.",
    "fill_value": "What an index out of range reads with --mode fill; 0 if left out.",
    "reduction": "Combine any number of updates with each element instead of replacing it.",
    "deterministic": "Make sums of floats the same in every run, also on a GPU, where this is slower.",
    "batch_dims": "How many leading dimensions of an item are a batch, which input and indices share.",
    "block_size": "Height and width of a block, in pixels.",
    "order": "How channels become pixels: DCR is DEPTH_COLUMN_ROW, CRD is COLUMN_ROW_DEPTH.",
    "data_format": "Order of dimensions: an item is CHW, or HWC.",
}
_OF_ITEM = """An item has no batch of its own: of a file [N, C, H, W] it is [C, H, W]. Where one number stands for all
dimensions, these are an item's behind its first two."""
_MODES = {"clip": "the nearest element is meant", "fill": "--fill-value is read", "drop": "nothing is written"}
_EXAMPLES: dict[Any, str] = {"axis": "0", "block_size": "2", "strides": "3,1", as_dims: "2,3", as_dtype: "float16"}
_EXAMPLES |= {as_dim_or_dims: "2,2", as_reals: "2,0.5", as_activation: "LEAKY_RELU:0.1"}
# The options of every subcommand; an attribute of such a name has the operator's name before it.
_RUNNING = ("dtype", "batch_size", "cpu_devices", "restart", "overwrite", "coordinator", "num_processes", "process_id")
COMMON = frozenset(("output", "shared", *_RUNNING))
_RENAMED = "attribute_"
# Attributes that mean nothing here: promises are about gradients, or make wrong files where they are broken.
_LEFT_OUT = (SHARDING, "indices_are_sorted", "unique_indices")
_PROMISE = "promise_in_bounds"
# More names than these are no part of the line of an option, but of its text.
_SHOWN = 6


class _Row(click.ParamType):
    """Numbers with commas between them."""

    def __init__(self, number: Callable[[str], Any], what: str):
        self.name, self.number, self.what = f"{what},{what},…", number, what

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[Any, ...]:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(self.number(part) for part in value.split(",") if part)
        except ValueError:
            raise click.BadParameter(f"{value!r} is not a list of {self.what}s such as 2,3", ctx, param) from None


class _OneOrRow(_Row):
    """One number, or several with commas between them; "2," is a row of one."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        row = (value,) if isinstance(value, float) else super().convert(value, param, ctx)
        return row[0] if len(row) == 1 and "," not in str(value) else row


def batch_operators() -> dict[str, BatchOperator]:
    """Returns every operator that takes arrays and returns one array: a subcommand reads files and writes one."""
    returns = {name: get_type_hints(function)["return"] for name, function in FUNCTIONS.items()}
    operators = {name: _operator(function) for name, function in FUNCTIONS.items() if returns[name] is jax.Array}
    return {name: operator for name, operator in operators.items() if operator.operands}


def _operator(function: Any) -> BatchOperator:
    parameters, texts = signature(function).parameters, described(function)
    operands: dict[str, bool] = {}
    attributes: list[click.Option] = []
    examples: list[str] = []
    for name, kind in function.kinds.items():
        if kind.is_array and not kind.needs:
            operands[name] = kind.is_list
        elif name not in _LEFT_OUT and (name != "deterministic" or "reduction" in parameters):
            text = HELP.get(name) or _of_modes(kind.names) or texts.get(name, "")
            attributes.append(_option(function.__name__, name, kind, parameters[name], text))
            if attributes[-1].required:
                shown = _EXAMPLES.get(name) or _EXAMPLES.get(kind.reader) or (kind.names or ("1",))[-1]
                examples.append(f"{attributes[-1].opts[0]} {shown}")
    return BatchOperator(function, operands, tuple(attributes), " ".join(examples))


def _of_modes(names: tuple[str, ...]) -> str:
    """Returns the help of `mode`, for the modes that an operator has; "" for other names."""
    meanings = ", ".join(f"with {name} {_MODES[name]}" for name in names if name in _MODES)
    return f"Of an index out of range: {meanings}." if meanings else ""


def _option(operator: str, name: str, kind: Kind, parameter: Parameter, text: str) -> click.Option:
    is_flag, default = isinstance(parameter.default, bool), parameter.default
    settings: dict[str, Any] = {"is_flag": True} if is_flag else {"type": _type_of(kind)}
    if default is Parameter.empty:
        settings["required"] = True
    elif default is not None and not is_flag:  # an enumeration by its first name
        settings["default"] = next((n for n in kind.names if kind.read("", name, n) == default), default)
    if len(kind.names) > _SHOWN:
        settings["metavar"] = "NAME"
        text = f"{text} One of {', '.join(kind.names)}."
    names = [f"--{operator}-{name}", f"{_RENAMED}{name}"] if name in COMMON else [f"--{name}", name]
    names[0] = names[0].replace("_", "-")
    if default is True:
        settings["default"], names[0] = True, f"{names[0]}/--no-{names[0].removeprefix('--')}"
    return click.Option(names, help=text, show_default="default" in settings, **settings)


def _type_of(kind: Kind) -> Any:
    if kind.names:
        return Choice([name for name in kind.names if name != _PROMISE])
    if kind.is_array:
        return NumberType()
    types = {as_dim: int, as_dims: _Row(int, "integer"), as_real: float, as_reals: _Row(float, "number")}
    types |= {as_dim_or_dims: _OneOrRow(int, "integer"), as_real_or_reals: _OneOrRow(float, "number")}
    types |= {as_activation: ActivationType()}
    return types.get(kind.reader, str)


def described(function: Callable[..., Any]) -> Mapping[str, str]:
    """Returns what the docstring says about each argument."""
    section = re.search(r"^Args:\n(.*?)\n\n", getdoc(function) or "", re.DOTALL | re.MULTILINE)
    entries = re.split(r"^  (?=\w)", section[1] if section else "", flags=re.MULTILINE)
    pairs = (entry.partition(":") for entry in entries if entry)
    return {name: _sentence(text) for name, _, text in pairs}


def _sentence(text: str) -> str:
    text = " ".join(text.replace("`", "").split())
    return text[:1].upper() + text[1:]
