"""What the arguments of a function hold, read off its signature: arrays, and static attributes.

    def gather(input: Data, indices: Indices, axis: int, *, out_sharding: OutSharding = None) -> jax.Array: ...

Only arrays and what depends on other arguments need a kind; an attribute has that of its type.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import jax
import numpy as np

from ..errors import DataTypeError, message
from .arguments import (
    as_condition,
    as_data,
    as_dtype,
    as_flag,
    as_indices,
    as_int,
    as_ints,
    as_name,
    as_real,
    as_real_or_reals,
    as_reals,
)
from .fill_value import Number, as_fill, as_number
from .sharding import OutSharding as Sharding
from .sharding import as_out_sharding

__all__ = [
    "Condition",
    "DType",
    "Data",
    "DataList",
    "Fill",
    "Flag",
    "Indices",
    "Kind",
    "Number",
    "OutSharding",
    "RealOrReals",
    "ScalarIndices",
    "Value",
    "attribute",
    "fill_in",
    "kinds_of",
    "number_of",
]


@dataclass(frozen=True)
class Kind:
    """What an argument holds.

    Args:
      read: takes the function, the argument's name, the value given, and what `needs` names; returns the value as it
        is used, or raises DataTypeError.
      is_array: whether it is traced.
      is_shown: whether messages name it among the operands.
      needs: arguments that are read before it.
      is_list: whether it is any number of arrays.
      names: the names that an attribute takes.
      shown: the type that help shows; None if it is that of the annotation.
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
        """What reads a value that is given; `read` of an optional one also takes None."""
        return self.read.read if isinstance(self.read, _OrNone) else self.read


def _as_data_list(operator: str, name: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return tuple(as_data(operator, f"{name}[{i}]", one) for i, one in enumerate(value))
    rule = f"{name} must be a sequence of arrays"
    raise DataTypeError(message(operator, rule, f"it is {type(value).__name__}", {name: value}))


def attribute(read: Callable[[str, str, Any], Any], *names: str, shown: str | None = None) -> Kind:
    """A static value that `read` brings to one form; `names` if it takes names."""
    return Kind(read, names=names, shown=shown)


def number_of(operand: str) -> Kind:
    """A number that the type of an array, or a type, holds; traced, so that another one compiles nothing."""
    return Kind(as_number, is_array=True, is_shown=False, needs=(operand,), shown="Number")


def fill_in(mode: str, shown: str) -> Kind:
    """The number that the dtype of `input` holds and that is read, in this mode alone, where there is no element."""
    return Kind(partial(as_fill, needed=mode), is_array=True, is_shown=False, needs=("input", "mode"), shown=shown)


_ARRAY = "jax.Array | np.ndarray"
_INDICES = Kind(as_indices, is_array=True, shown=_ARRAY)
Data = Annotated[jax.Array | np.ndarray, Kind(as_data, is_array=True, shown=_ARRAY)]
DataList = Annotated[
    Sequence[jax.Array | np.ndarray], Kind(_as_data_list, is_array=True, is_list=True, shown=f"Sequence[{_ARRAY}]")
]
Indices = Annotated[jax.Array | np.ndarray, _INDICES]
ScalarIndices = Annotated[
    jax.Array | np.ndarray | np.integer | int, replace(_INDICES, shown=f"{_ARRAY} | np.integer | int")
]
Condition = Annotated[jax.Array | np.ndarray, Kind(as_condition, is_array=True, shown=_ARRAY)]
# A flag that rules look at; a plain bool is a promise or a wish, which messages do not name.
Flag = Annotated[bool, attribute(as_flag, shown="bool")]
RealOrReals = Annotated[float | Sequence[float], attribute(as_real_or_reals, shown="float | Sequence[float]")]
# For type checkers: the types that JAX has.
TypeName = Literal[
    "bool",
    "bfloat16",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "int1",
    "int2",
    "int4",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint1",
    "uint2",
    "uint4",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float4_e2m1fn",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
]
DType = Annotated[np.dtype[Any] | type[Any] | TypeName, attribute(as_dtype, shown="np.dtype | type | str")]
Fill = Annotated[Number | None, fill_in("fill", "Number | None")]
Value = Annotated[Number, number_of("dtype")]
OutSharding = Annotated[Sharding, Kind(lambda operator, _, value: as_out_sharding(operator, value), is_shown=False)]


@dataclass(frozen=True)
class _OrNone:
    """Reads None as it is, and anything else by `read`."""

    read: Callable[[str, str, Any], Any]

    def __call__(self, operator: str, name: str, value: Any) -> Any:
        return None if value is None else self.read(operator, name, value)


_SEQUENCES = {int: as_ints, float: as_reals}


def _kind_of(annotation: Any) -> Kind:
    """The kind in an annotation, or that of the type."""
    if kind := next((part for part in getattr(annotation, "__metadata__", ()) if isinstance(part, Kind)), None):
        return kind
    if get_origin(annotation) in (types.UnionType, Union) and type(None) in get_args(annotation):
        (one,) = (part for part in get_args(annotation) if part is not type(None))
        inner = _kind_of(one)
        return replace(inner, read=_OrNone(inner.read), shown=inner.shown and f"{inner.shown} | None")
    if get_origin(annotation) is Literal:
        return Kind(as_name, names=get_args(annotation), shown=" | ".join(map(repr, get_args(annotation))))
    if get_origin(annotation) is Sequence:
        return Kind(_SEQUENCES[get_args(annotation)[0]])
    return {int: Kind(as_int), float: Kind(as_real), bool: Kind(as_flag, is_shown=False)}[annotation]


def kinds_of(function: Callable[..., Any]) -> Mapping[str, Kind]:
    """The kind of every argument, in order."""
    hints = get_type_hints(function, include_extras=True)
    return {name: _kind_of(hints[name]) for name in signature(function).parameters}
