"""ONNX's If, by `jax.lax.cond` or by one branch if the condition is known."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from ..errors import ConstraintError
from .errors import STATIC, NotConstantError, OnnxError, UnsupportedError
from .flattened_values import Form, as_arrays, types_text
from .values import Array, Operators

Branch = Callable[[], tuple[Any, ...]]


def if_(*, cond: Array, then_branch: Branch, else_branch: Branch, count: int) -> tuple[Any, ...]:
    """Runs one branch if the condition is known; else compiles both, which must have equal types, by `jax.lax.cond`."""
    if not isinstance(cond, Tracer) and np.size(cond) == 1:
        return (then_branch if np.asarray(cond).item() else else_branch)()
    if np.shape(cond) not in ((), (1,)):
        raise ConstraintError(f"cond must have one element, but its shape is {np.shape(cond)}")
    forms: list[Form] = []
    branches = [_on_device(branch, forms) for branch in (then_branch, else_branch)]
    try:  # tracing a branch before would take twice as long for each If around another
        results = jax.lax.cond(cond.reshape(()), *branches)
        form = forms[0].joined(forms[1])
    except TypeError as error:
        if isinstance(error, ConstraintError):
            raise
        form, results = None, []
    except OnnxError as error:
        if isinstance(error, (NotConstantError, UnsupportedError)):
            raise
        fact = f"it depends on the data of an input; `to_jax(model, {STATIC})` makes an input known"
        raise NotConstantError(
            f"cond must be known, because a branch cannot be compiled, but {fact}. The branch fails so: {error}", "cond"
        ) from error
    if form is None:
        shapes = [jax.eval_shape(branch) for branch in branches]
        first, second = (types_text(f.values(y)) for f, y in zip(forms[-2:], shapes, strict=True))
        raise NotConstantError(
            f"cond must be known, because its branches give different types, {first} and {second}, but "
            f"it depends on the data of an input; `to_jax(model, {STATIC})` makes an input known",
            "cond",
        )
    return form.values(results)


def _on_device(branch: Branch, forms: list[Form]) -> Callable[[], list[jax.Array]]:
    """Returns a branch as a function that returns arrays, and appends their form to `forms`."""

    def run() -> list[jax.Array]:
        arrays, form = as_arrays(branch())
        forms.append(form)
        return arrays

    return run


OPERATORS: Operators = {"If": {1: if_}}
