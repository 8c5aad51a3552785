"""`Deferred`: a lazily computed array, such as dequantised floats, whose parts other operators can use directly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property, partial
from typing import Any, ClassVar, Self

import jax
import numpy as np

from .values import Array, at_once


@dataclass(frozen=True, eq=False)
class Deferred(ABC):
    """A lazily computed array; its fields are the operands of the computation.

    Args:
      is_counted: whether it counts as memory, as the array that it is computed to.
    """

    is_counted: ClassVar[bool] = False

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]: ...

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]: ...

    @abstractmethod
    def compute(self) -> Array: ...

    @cached_property
    def array(self) -> Array:
        if not self.is_known:
            return self.compute()
        with at_once():
            return np.asarray(self.compute())

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def is_known(self) -> bool:
        """Whether all operands are constants."""
        return all(isinstance(value, np.ndarray) for value in self._operands().values())

    def known(self) -> Deferred:
        """Returns the same with constant operands; the values of all must be known."""
        return replace(self, **{name: np.asarray(value) for name, value in self._operands().items()})

    def copied(self) -> Self:
        """Returns a copy without the computed array, which is of one trace alone."""
        own = self._operands()
        return replace(self, **{name: value.copied() for name, value in own.items() if isinstance(value, Deferred)})

    def _operands(self) -> dict[str, Any]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, (np.ndarray, jax.Array, Deferred))}


# Computes a node of keywords some of which are `Deferred`, if it can; else None, and the function does of arrays.
Row = Callable[[Callable[..., Any], Mapping[str, Any]], Any]
Rows = Mapping[str, Row]  # by operator


def either(first: Rows, second: Rows) -> Rows:
    """Returns the rows of both; where an operator has two, the second does what the first cannot."""

    def in_turn(one: Row, other: Row) -> Row:
        def row(function: Callable[..., Any], keywords: Mapping[str, Any]) -> Any:
            result = one(function, keywords)
            return other(function, keywords) if result is None else result

        return row

    both = {name: in_turn(first[name], second[name]) for name in first.keys() & second.keys()}
    return {**first, **second, **both}


@cache
def deferring(row: Row, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function of a node with `row` tried first on `Deferred` operands."""
    return partial(_by_row, row, function)


def _by_row(row: Row, function: Callable[..., Any], **keywords: Any) -> Any:
    result = row(function, keywords)
    return function(**{name: plain(value) for name, value in keywords.items()}) if result is None else result


def plain(value: Any) -> Any:
    """Computes a `Deferred` value, or each of a tuple; other values stay as they are."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value.array if isinstance(value, Deferred) else value
