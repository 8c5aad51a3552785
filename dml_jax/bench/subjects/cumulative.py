"""cumulative_summation and cumulative_product: along rows and columns of a matrix, and backwards."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import isqrt
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Arrays, Case, normal
from .subject import Attributes, OnnxNode, Subject, by_type

__all__ = ["SUBJECTS"]

# Roundings of as many numbers as are combined, of which some cancel.
_TOLERANCES = {2: 2**-9, 4: 2**-14}


def _cases(operator: str, size: int, itemsize: int) -> Iterator[Case]:
    """A matrix of so many bytes."""
    side = isqrt(size // itemsize)
    for axis, direction in ((1, "increasing"), (0, "increasing"), (1, "decreasing")):
        yield Case(
            operator,
            f"axis {axis}, {direction}, of {side}x{side} {DTYPES[itemsize]}",
            {"axis": axis, "direction": direction},
            partial(_near_one if operator == "cumulative_product" else _around_zero, side, itemsize),
            2 * side**2 * itemsize,
            tolerance=_TOLERANCES[itemsize],
        )


def _by_jnp(function: Callable[..., Any], a: Attributes) -> Callable[..., Any]:
    """Halves are combined as float32."""
    axis = a["axis"]

    def combined(x: Any) -> Any:
        return function(x, axis, dtype=np.float32).astype(x.dtype)

    if a["direction"] == "increasing":
        return combined
    return lambda x: _turned(combined(_turned(x, axis)), axis)


def _by_numpy(function: Callable[..., Any], a: Attributes) -> Callable[..., Any]:
    """Backwards it reads and writes views. Halves are combined as float32."""

    def write(out: np.ndarray, x: np.ndarray) -> None:
        if a["direction"] == "decreasing":
            out, x = _turned(out, a["axis"]), _turned(x, a["axis"])
        if out.dtype == np.float32:
            function(x, a["axis"], out=out)
        else:
            np.copyto(out, function(x, a["axis"], dtype=np.float32), casting="same_kind")

    return write


def _by_torch(name: str, torch: Any, a: Attributes) -> Callable[..., Any]:
    function, axis = getattr(torch, name), a["axis"]
    if a["direction"] == "increasing":
        return lambda out, x: function(x, axis, out=out)
    return lambda out, x: function(x.flip(axis), axis).flip(axis)


def _by_onnx(a: Attributes) -> OnnxNode:
    return OnnxNode("CumSum", {"reverse": int(a["direction"] == "decreasing")}, (np.array(a["axis"], np.int64),))


def _turned(x: Any, axis: int) -> Any:
    return x[:, ::-1] if axis else x[::-1]


def _around_zero(side: int, itemsize: int) -> Arrays:
    return (normal((side, side), itemsize),)


def _near_one(side: int, itemsize: int) -> Arrays:
    """So that products stay numbers."""
    return ((1 + 0.01 * normal((side, side), 4)).astype(DTYPES[itemsize]),)


SUBJECTS: Mapping[str, Subject] = {
    "cumulative_summation": Subject(
        plans=by_type(partial(_cases, "cumulative_summation"), (2, 4)),
        jnp=partial(_by_jnp, jnp.cumsum),
        numpy=partial(_by_numpy, np.cumsum),
        torch={"cumsum": partial(_by_torch, "cumsum")},
        onnx=_by_onnx,
    ),
    "cumulative_product": Subject(
        plans=by_type(partial(_cases, "cumulative_product"), (2, 4)),
        jnp=partial(_by_jnp, jnp.cumprod),
        numpy=partial(_by_numpy, np.cumprod),
        torch={"cumprod": partial(_by_torch, "cumprod")},
    ),
}
