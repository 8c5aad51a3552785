"""`Deferred`: an array that is computed where an operator needs it, because others can do with what it is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np

from .values import Array, at_once

__all__ = ["Deferred", "Row", "Rows", "deferring", "plain"]


@dataclass(frozen=True, eq=False)
class Deferred(ABC):
    """An array that is not computed yet; its fields are what it is made of, arrays among them."""

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
        """Whether it is made of constants alone."""
        return all(isinstance(value, np.ndarray) for value in self._arrays().values())

    def known(self) -> Deferred:
        """The same, of constants; all that it is made of is known."""
        return replace(self, **{name: np.asarray(value) for name, value in self._arrays().items()})

    def _arrays(self) -> dict[str, Array]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, (np.ndarray, jax.Array))}


# Computes a node of keywords some of which are `Deferred`, if it can; else None, and the function does of arrays.
Row = Callable[[Callable[..., Any], Mapping[str, Any]], Any]
Rows = Mapping[str, Row]  # by operator


def deferring(row: Row, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a node that takes what is `Deferred`, by its row."""
    return partial(_by_row, row, function)


def _by_row(row: Row, function: Callable[..., Any], **keywords: Any) -> Any:
    result = row(function, keywords)
    return function(**{name: plain(value) for name, value in keywords.items()}) if result is None else result


def plain(value: Any) -> Any:
    """A value as an array, if it is `Deferred`: a constant, if it is made of constants; each of several."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value.array if isinstance(value, Deferred) else value
