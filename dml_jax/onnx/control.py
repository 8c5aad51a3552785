"""ONNX's control flow: If, which runs one of two branches."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from ..errors import ConstraintError
from .bounded import Bounded, Range, as_bounded
from .errors import NotConstantError
from .values import Array, Operators, on_device

__all__ = ["OPERATORS"]

Branch = Callable[[], tuple[Any, ...]]


def if_(*, cond: Array, then_branch: Branch, else_branch: Branch, count: int) -> tuple[Any, ...]:
    """Runs one branch if the condition is known; else compiles both, which must have equal types, by `jax.lax.cond`."""
    if not isinstance(cond, Tracer) and np.size(cond) == 1:
        return (then_branch if np.asarray(cond).item() else else_branch)()
    if np.shape(cond) not in ((), (1,)):
        raise ConstraintError(f"cond must have one element, but its shape is {np.shape(cond)}")
    ranges: dict[int, Range] = {}
    branches = [_on_device(branch, ranges) for branch in (then_branch, else_branch)]
    try:  # tracing a branch before would take twice as long for each If around another
        results = jax.lax.cond(cond.reshape(()), *branches)
    except TypeError as error:
        if isinstance(error, ConstraintError):
            raise
        first, second = (_text(jax.eval_shape(branch)) for branch in branches)
        raise NotConstantError(
            f"cond must be known, because its branches give different types, {first} and {second}, but "
            "it depends on the data of an input; `to_jax(model, static={name: value})` makes an input known"
        ) from None
    return tuple(Bounded(y, ranges[i]) if i in ranges else y for i, y in enumerate(results))


def _on_device(branch: Branch, ranges: dict[int, Range]) -> Branch:
    """The branch on data of JAX; int64 that fits 32 bits is int32, and the range of it by number, in all branches."""

    def run() -> tuple[jax.Array, ...]:
        made = [as_bounded(y) for y in branch()]
        for i, y in enumerate(made):
            if isinstance(y, Bounded):
                low, high = ranges.get(i, y.range)
                ranges[i] = min(low, y.range[0]), max(high, y.range[1])
        return tuple(y.array if isinstance(y, Bounded) else on_device(y) for y in made)

    return run


def _text(results: Any) -> str:
    return ", ".join(f"{y.dtype}{list(y.shape)}" for y in results)


OPERATORS: Operators = {"If": {1: if_}}
