"""ONNX's data movement by this library's functions, and what ONNX has beyond DirectML around them."""

from typing import Any

import jax
import numpy as np
from jax import lax

from ..core.reductions import ReductionName
from ..errors import ConstraintError
from ..operators import depth_to_space as to_space
from ..operators import gather as dml_gather
from ..operators import gather_elements as dml_gather_elements
from ..operators import gather_nd as dml_gather_nd
from ..operators import scatter_elements as dml_scatter_elements
from ..operators import scatter_nd as dml_scatter_nd
from ..operators import space_to_depth as to_depth
from ..operators._blocks import OrderName
from .values import Array, on_device

__all__ = [
    "depth_to_space",
    "gather",
    "gather_elements",
    "gather_nd",
    "order_of",
    "scatter_elements",
    "scatter_nd",
    "space_to_depth",
]


def gather(*, data: Array, indices: Array, axis: int) -> jax.Array:
    return dml_gather(on_device(data), indices, axis)


def gather_elements(*, data: Array, indices: Array, axis: int) -> jax.Array:
    return dml_gather_elements(_cut(on_device(data), indices, axis), indices, axis)


def gather_nd(*, data: Array, indices: Array, batch_dims: int = 0) -> jax.Array:
    return dml_gather_nd(on_device(data), indices, batch_dims=batch_dims)


def scatter_elements(*, data: Array, indices: Array, updates: Array, axis: int, reduction: str = "none") -> jax.Array:
    data = on_device(data)
    part = _cut(data, indices, axis)
    written = dml_scatter_elements(part, indices, on_device(updates), axis, reduction=_reduction_of(reduction))
    return lax.dynamic_update_slice(data, written, (0,) * data.ndim) if part.shape != data.shape else written


def scatter_nd(*, data: Array, indices: Array, updates: Array, reduction: str = "none") -> jax.Array:
    return dml_scatter_nd(on_device(data), indices, on_device(updates), reduction=_reduction_of(reduction))


def depth_to_space(*, input: Array, blocksize: int, mode: str = "DCR") -> jax.Array:
    return to_space(_picture(input), blocksize, order=order_of(mode))


def space_to_depth(*, input: Array, blocksize: int, mode: str = "DCR") -> jax.Array:
    return to_depth(_picture(input), blocksize, order=order_of(mode))


def _cut(data: Any, indices: Array, axis: int) -> Any:
    """The part of `data` that `indices` reach: ONNX lets them be smaller off the axis."""
    if data.ndim != indices.ndim or not -data.ndim <= axis < data.ndim:
        return data  # which the function refuses
    along = axis % data.ndim
    sizes = (n if d == along else min(n, k) for d, (n, k) in enumerate(zip(data.shape, indices.shape, strict=True)))
    return lax.slice(data, (0,) * data.ndim, tuple(sizes))


def _reduction_of(name: str) -> ReductionName | None:
    """ONNX's name of a reduction, which is one of this library's, or "none"."""
    reductions: dict[str, ReductionName | None] = {"none": None, "add": "add", "mul": "mul", "min": "min", "max": "max"}
    if name not in reductions:
        raise ConstraintError(f"reduction must be {', '.join(reductions)}, but it is {name!r}")
    return reductions[name]


def _picture(input: Array) -> jax.Array:
    if np.ndim(input) != 4:
        raise ConstraintError(f"input must have 4 dimensions, but its shape is {input.shape}")
    return on_device(input)


def order_of(mode: str) -> OrderName:
    """ONNX's name of an order, which is one of this library's."""
    if mode not in ("DCR", "CRD"):
        raise ConstraintError(f"mode must be DCR or CRD, but it is {mode!r}")
    return mode
