"""ONNX's control flow: a branch by a condition."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from .errors import NotConstantError
from .values import Array, Operators, on_device

__all__ = ["OPERATORS"]

Branch = Callable[[], tuple[Array, ...]]


def if_(*, cond: Array, then_branch: Branch, else_branch: Branch, count: int) -> tuple[Array, ...]:
    """One branch alone where the condition is known; else both, of one type, through `jax.lax.cond`."""
    if not isinstance(cond, Tracer):
        return (then_branch if np.asarray(cond).item() else else_branch)()
    branches = [_on_device(branch) for branch in (then_branch, else_branch)]
    first, second = (jax.eval_shape(branch) for branch in branches)
    if [(y.shape, y.dtype) for y in first] != [(y.shape, y.dtype) for y in second]:
        raise NotConstantError(
            f"cond must be known, because its branches give other types, {_text(first)} and {_text(second)}, but it "
            "depends on the data of an input; `to_jax(model, static={name: value})` makes an input known"
        )
    return jax.lax.cond(cond.reshape(()), *branches)


def _on_device(branch: Branch) -> Branch:
    return lambda: tuple(map(on_device, branch()))


def _text(results: Any) -> str:
    return ", ".join(f"{y.dtype}{list(y.shape)}" for y in results)


OPERATORS: Operators = {"If": {1: if_}}
