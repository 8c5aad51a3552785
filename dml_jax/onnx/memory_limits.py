"""Counts the bytes of each array before it is made, and of all that a call holds, against the memory that there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
from jax.core import Tracer

from ..core.memory_checks import array_limit, check_bytes
from ..errors import ConstraintError, describe

MOST_DIMENSIONS = 32
SURELY_FITS = 2**24  # bytes


@dataclass
class _Memory:
    """What a call uses of the memory.

    Args:
      held: bytes of arrays that it has made and keeps.
      limit: of the memory, and whose it is, once it was looked up.
    """

    held: int = 0
    limit: tuple[int | None, str] | None = None


_MEMORY: ContextVar[_Memory | None] = ContextVar("memory", default=None)


@contextmanager
def counting_bytes() -> Iterator[None]:
    """Context of one call of a model, in which the bytes that it holds are counted."""
    token = _MEMORY.set(_Memory())
    try:
        yield
    finally:
        _MEMORY.reset(token)


def check_arrays(arrays: Mapping[str, Any]) -> None:
    """Compares each array alone with the memory of the machine or container, or of all devices together.

    Args:
      arrays: values by name.

    Raises:
      ConstraintError: one of them takes more.
    """
    for name, value in arrays.items():  # the elements of a sequence were outputs, or are parts of an input
        check_array(f"output {name!r}", value)


def check_array(name: str, array: Any) -> None:
    """Compares an array, or what else has a shape and a dtype, with the memory that there is.

    Raises:
      ConstraintError: it takes more, or has more dimensions than NumPy and JAX can handle everywhere.
    """
    if len(getattr(array, "shape", ())) > MOST_DIMENSIONS:
        rule = f"an array must have at most {MOST_DIMENSIONS} dimensions"
        raise ConstraintError(f"{rule}, but {name} has {len(array.shape)}")
    if (size := bytes_of(array)) > SURELY_FITS:
        check_bytes({f"{name}, {describe(array)}": size}, "one array", *memory_limit(size))


def memory_limit(needed: int) -> tuple[int | None, str]:
    """Returns the bytes that arrays may take, None where that is unknown, and the name of the place that has them."""
    memory = _MEMORY.get()
    if memory is None:
        return array_limit(needed)
    memory.limit = memory.limit or array_limit(0)
    limit = memory.limit[0]
    return memory.limit if limit is None or needed <= limit else array_limit(needed)


def bytes_of(value: Any) -> int:
    """Bytes of an array; 0 where a size is symbolic, and of what is computed lazily.

    A size of 0 counts as 1: XLA multiplies the others, and ends the process if the product leaves 63 bits.
    """
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or not getattr(value, "is_counted", True) or not all(isinstance(n, int) for n in shape):
        return 0
    return prod(n or 1 for n in shape) * getattr(dtype, "itemsize", 1)


@contextmanager
def holding() -> Iterator[Callable[[Any], None]]:
    """Context of a block or an iteration; it yields a function that takes the arrays which outlive the context."""
    memory, kept = _MEMORY.get(), 0
    before = memory.held if memory else 0

    def keep(values: Any) -> None:
        nonlocal kept
        kept = _held(jax.tree.leaves(values)) if memory else 0

    try:
        yield keep
    finally:
        if memory:
            memory.held = before + kept


def hold(made: Mapping[str, Any], read: Sequence[Any]) -> None:
    """Counts the arrays that a node makes at once, of constants and of data, with all that the call has made before.

    Args:
      made: values by name.
      read: those that the node reads, and may pass on.

    Raises:
      ConstraintError: together they do not fit in memory.
    """
    if (memory := _MEMORY.get()) and (size := _held(jax.tree.leaves(list(made.values())), read)):
        memory.held += size
        if memory.held > SURELY_FITS:
            needed = {"all that nodes before it made": memory.held - size, f"output {next(iter(made))!r}": size}
            check_bytes(needed, "the values of its nodes", *memory_limit(memory.held))


def _held(arrays: Sequence[Any], read: Sequence[Any] = ()) -> int:
    """Bytes of arrays that are no tracers, no views, and none of those that are read."""
    old = set(map(id, read))
    new = (x for x in arrays if id(x) not in old and not isinstance(x, Tracer))
    return sum(bytes_of(x) for x in new if getattr(x, "base", None) is None)
