"""Kinds of arguments, read off the annotations of a function: arrays, and static attributes.

    def gather(input: Data, indices: Indices, axis: int, *, out_sharding: OutSharding = None) -> jax.Array: ...

An attribute such as `axis: int` needs no annotation of its own: its type says the kind.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import jax
import numpy as np

from ...errors import ConstraintError, message
from ..sharding import OutSharding as Sharding
from ..sharding import as_out_sharding
from ..supports_dtype import SupportsDType
from .arrays import as_condition, as_data, as_data_list
from .exact_scalars import Number, as_known_number, fill_reader
from .indices import as_indices
from .static_values import (
    as_dim,
    as_dim_or_dims,
    as_dims,
    as_dtype,
    as_flag,
    as_name,
    as_real,
    as_real_or_reals,
    as_reals,
)


@dataclass(frozen=True)
class Kind:
    """The kind of an argument: an array or a static value, and its reader.

    Args:
      read: takes the name of the function, the name of the argument, the value given, and the arguments that `needs`
        names; returns the value that the function computes with, or raises DataTypeError.
      is_array: whether it is an array, which JAX traces. All other arguments are static.
      is_shown: whether messages list it among the operands.
      needs: the names of arguments that are read first, because `read` takes them.
      is_list: whether it is a sequence of arrays.
      names: the strings that an attribute takes, if it takes strings.
      shown: the type that help() shows; None shows the annotation.
    """

    read: Callable[..., Any]
    is_array: bool = False
    is_shown: bool = True
    needs: tuple[str, ...] = ()
    is_list: bool = False
    names: tuple[str, ...] = ()
    shown: str | None = None

    @property
    def reader(self) -> Callable[..., Any]:
        """`read` of a value other than None, which an optional argument may be; of integers one or several."""
        read = self.read.read if isinstance(self.read, _OrNone) else self.read
        return as_dim_or_dims if isinstance(read, _OneOrSeveral) else read


@dataclass(frozen=True)
class _OrNone:
    """A reader that returns None for None, and reads anything else by `read`."""

    read: Callable[..., Any]

    def __call__(self, operator: str, name: str, value: Any, *needed: Any) -> Any:
        return None if value is None else self.read(operator, name, value, *needed)


@dataclass(frozen=True)
class _OneOrSeveral:
    """A reader of integers, or of one that stands for several.

    Args:
      several: takes the names of the function and the argument, the integer, and the arguments that the kind needs.
    """

    several: Callable[..., tuple[int, ...]]

    def __call__(self, operator: str, name: str, value: Any, *needed: Any) -> tuple[int, ...]:
        return as_dim_or_dims(operator, name, value, lambda number: self.several(operator, name, number, *needed))


def _window_sizes(operator: str, name: str, number: Any, input: Any) -> tuple[int, ...]:
    """Returns `number` for each dimension of `input` after [N, C].

    Raises:
      ConstraintError: there are fewer than two. Of a picture [C, H, W] there is one, W, which nobody means.
    """
    if input.ndim >= 4:
        return (number,) * (input.ndim - 2)
    rule = f"one number for {name} must stand for two or more dimensions of input, those after [N, C]"
    row = f"{name}=({number},) for windows along the last one, as in [N, C, W]"
    picture = f"{name}=({number}, {number}) along the last two, as in a picture [C, H, W]"
    fact = f"input has {input.ndim} dimensions in all: say {row}, or {picture}"
    raise ConstraintError(message(operator, rule, fact, {"input": input, name: number}))


def attribute(read: Callable[[str, str, Any], Any], *names: str, shown: str | None = None) -> Kind:
    """Returns the kind of a static argument; `read` converts the accepted values to one form."""
    return Kind(read, names=names, shown=shown)


def number_of(operand: str) -> Kind:
    """Returns the kind of a number in the dtype of `operand`."""
    return Kind(as_known_number, is_array=True, is_shown=False, needs=(operand,), shown="Number")


def fill_in(mode: str, shown: str) -> Kind:
    """Returns the kind of a fill value in the dtype of `input`, which only the mode `mode` reads."""
    return Kind(fill_reader(mode), is_array=True, is_shown=False, needs=("input", "mode"), shown=shown)


def per_dimension(count: Callable[..., int], *needs: str) -> Kind:
    """Returns the kind of integers, one per dimension, of which one number stands for all.

    Args:
      count: takes the arguments that `needs` names; returns how many these are.
      needs: the names of arguments.
    """
    several = _OneOrSeveral(lambda operator, name, number, *needed: (number,) * count(*needed))
    return Kind(several, needs=needs, shown="int | Sequence[int]")


_ARRAY = "jax.Array | np.ndarray"
_INDICES = Kind(as_indices, is_array=True, shown=f"{_ARRAY} | Sequence[int]")
Data = Annotated[jax.Array | np.ndarray, Kind(as_data, is_array=True, shown=_ARRAY)]
DataList = Annotated[
    Sequence[jax.Array | np.ndarray], Kind(as_data_list, is_array=True, is_list=True, shown=f"Sequence[{_ARRAY}]")
]
# A number for each dimension after those of the batch and the channels.
Spatial = Annotated[int | Sequence[int], per_dimension(lambda input: max(input.ndim - 2, 0), "input")]
# The same, where nothing else says how many dimensions these are.
WindowSizes = Annotated[
    int | Sequence[int], Kind(_OneOrSeveral(_window_sizes), needs=("input",), shown="int | Sequence[int]")
]
# For type checkers: lists as deep as the arrays that people type.
IndexLists = Sequence[int] | Sequence[Sequence[int]] | Sequence[Sequence[Sequence[int]]]
Indices = Annotated[jax.Array | np.ndarray | IndexLists, _INDICES]
ScalarIndices = Annotated[
    jax.Array | np.ndarray | IndexLists | np.integer | int,
    replace(_INDICES, shown=f"{_INDICES.shown} | np.integer | int"),
]
Condition = Annotated[jax.Array | np.ndarray, Kind(as_condition, is_array=True, shown=_ARRAY)]
# A flag that rules look at; a plain bool is a promise or a wish, which messages do not name.
Flag = Annotated[bool, attribute(as_flag, shown="bool")]
RealOrReals = Annotated[float | Sequence[float], attribute(as_real_or_reals, shown="float | Sequence[float]")]
# For type checkers: the types that JAX has and XLA compiles.
TypeName = Literal[
    "bool",
    "bfloat16",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "int2",
    "int4",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint2",
    "uint4",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float4_e2m1fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
]
DType = Annotated[
    np.dtype[Any] | type[Any] | SupportsDType | TypeName, attribute(as_dtype, shown="np.dtype | type | str")
]
Fill = Annotated[Number | None, fill_in("fill", "Number | None")]
Value = Annotated[Number, number_of("dtype")]
OutSharding = Annotated[Sharding, Kind(lambda operator, _, value: as_out_sharding(operator, value), is_shown=False)]


_SEQUENCES = {int: as_dims, float: as_reals}


def _kind_of(annotation: Any) -> Kind:
    """Returns the kind that an annotation names, or the kind that its type has."""
    if kind := next((part for part in getattr(annotation, "__metadata__", ()) if isinstance(part, Kind)), None):
        return kind
    if get_origin(annotation) in (types.UnionType, Union) and type(None) in get_args(annotation):
        (present,) = (part for part in get_args(annotation) if part is not type(None))
        inner = _kind_of(present)
        return replace(inner, read=_OrNone(inner.read), shown=inner.shown and f"{inner.shown} | None")
    if get_origin(annotation) is Literal:
        return Kind(as_name, names=get_args(annotation), shown=" | ".join(map(repr, get_args(annotation))))
    if get_origin(annotation) is Sequence:
        return Kind(_SEQUENCES[get_args(annotation)[0]])
    return {int: Kind(as_dim), float: Kind(as_real), bool: Kind(as_flag, is_shown=False)}[annotation]


def kinds_of(function: Callable[..., Any]) -> Mapping[str, Kind]:
    """Returns the kind of each argument of a function, in order."""
    hints = get_type_hints(function, include_extras=True)
    return {name: _kind_of(hints[name]) for name in signature(function).parameters}
