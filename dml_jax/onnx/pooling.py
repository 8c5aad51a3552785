"""ONNX's pooling operators: MaxPool, AveragePool, LpPool, and their global forms."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import operators
from ..core.sharding import Dims, on_any_mesh
from ..errors import ConstraintError
from ..operations.max_pool import max_pool_windows
from ..operations.min_max import extreme
from ..operations.sliding_windows import Windows
from ..operators._lp_pooling import norm
from .sliding_windows import rounded_up, windows_of
from .values import Array, Operators, as_wide, on_device


def max_pool(*, x: Array, storage_order: int = 0, count: int = 1, **given: Any) -> Any:
    """MaxPool; of equal elements the first one counts, and NaN is greater than every number."""
    _, windows = _windows(x, **given)
    data = on_device(x)
    y = _on_mesh("MaxPool", lambda x: max_pool_windows(x, windows), data)
    return y if count == 1 else (y, _indices(data, windows, storage_order))


def average_pool(*, x: Array, count_include_pad: int = 0, **given: Any) -> Array:
    """AveragePool; with `count_include_pad` the zeros of the padding count too."""
    declared, windows = _windows(x, **given)

    def average(x: jax.Array) -> jax.Array:
        total = _sum(as_wide(x), windows)
        for d, (w, counted) in enumerate(zip(declared, windows, strict=True)):
            counts = (_over_padding(w, counted) if count_include_pad else counted).sizes_inside()[: counted.count]
            total = total / np.maximum(counts, 1).astype(total.dtype).reshape(_at(d + 2, -1, x.ndim))
        return total.astype(x.dtype)

    return _on_mesh("AveragePool", average, on_device(x))


def lp_pool(*, x: Array, p: float = 2, **given: Any) -> Array:
    _, windows = _windows(x, **given)
    return operators.lp_pooling(on_device(x), [w.window for w in windows], p=p, **_options(windows))


def global_average_pool(*, x: Array) -> Array:
    return jnp.mean(as_wide(x), _spatial(x), keepdims=True).astype(x.dtype)


def global_max_pool(*, x: Array) -> Array:
    return extreme(on_device(x), _spatial(x), "greatest")


def global_lp_pool(*, x: Array, p: float = 2) -> Array:
    return norm(as_wide(x), p, lambda powers: jnp.sum(powers, _spatial(x), keepdims=True)).astype(x.dtype)


def _spatial(x: Array) -> tuple[int, ...]:
    if x.ndim < 3 or 0 in x.shape[2:]:
        rule = "x must have the dimensions N, C and one more at least, with elements"
        raise ConstraintError(f"{rule}, but its shape is {x.shape}")
    return tuple(range(2, x.ndim))


# Arguments about windows.


def _windows(
    x: Array,
    *,
    kernel_shape: Any = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> tuple[list[Windows], list[Windows]]:
    """Returns the windows as a node states them, and for a number of outputs; padding by `auto_pad` is rounded already.

    Raises:
      ConstraintError: a window does not fit, or as `windows_of`.
    """
    declared = windows_of(x.shape, kernel_shape, auto_pad=auto_pad, dilations=dilations, pads=pads, strides=strides)
    rounded = [rounded_up(w) if ceil_mode and auto_pad == "NOTSET" else w for w in declared]
    for d, w in enumerate(rounded):
        if w.size < 1 or w.count < 1:
            rule = "every window must fit into its padded dimension, which must have elements"
            raise ConstraintError(f"{rule}, but that of spatial dimension {d} spans {w.span} of {w.padded}")
    return declared, rounded


def _options(windows: Sequence[Windows]) -> Any:
    """Returns the keywords of pooling functions beside the window sizes."""
    names = {"strides": "stride", "dilations": "dilation", "start_padding": "start", "end_padding": "end"}
    return {name: [getattr(w, field) for w in windows] for name, field in names.items()}


def _on_mesh(operator: str, pool: Callable[[jax.Array], jax.Array], x: jax.Array) -> jax.Array:
    """Pools x; on an Explicit mesh N and C keep their sharding."""
    spatial = [f"spatial {d}" for d in range(x.ndim - 2)]
    dims = Dims({"x": ["N", "C", *spatial]}, ["N", "C", *(f"windows along {name}" for name in spatial)])
    return on_any_mesh(operator, pool, dims, x=x)


def _indices(x: jax.Array, windows: Sequence[Windows], storage_order: int) -> jax.Array:
    """Returns flat indices of the maxima in x; `storage_order` 1 counts the spatial dimensions column-major."""
    _, indices = operators.max_pooling(x, [w.window for w in windows], **_options(windows))
    if not storage_order:
        return indices
    sizes = x.shape[2:]
    picture, rest = indices // np.uint32(prod(sizes)), indices % np.uint32(prod(sizes))
    number = jnp.zeros_like(rest)
    for d in reversed(range(len(sizes))):
        number, rest = number + rest % np.uint32(sizes[d]) * np.uint32(prod(sizes[:d])), rest // np.uint32(sizes[d])
    return picture * np.uint32(prod(sizes)) + number


def _sum(x: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    for d, w in enumerate(windows):
        edges = [(0, 0)] * x.ndim
        edges[d + 2] = (w.start, w.end)
        shape, steps, gaps = (_at(d + 2, n, x.ndim) for n in (w.window, w.stride, w.dilation))
        x = lax.reduce_window(x, np.zeros((), x.dtype), lax.add, shape, steps, edges, window_dilation=gaps)
    return x


def _at(axis: int, number: int, rank: int) -> list[int]:
    """Returns a list with a number at one dimension and 1 at the others."""
    return [number if d == axis else 1 for d in range(rank)]


def _over_padding(declared: Windows, counted: Windows) -> Windows:
    """Returns the windows of a dimension that already includes its padding."""
    return Windows(
        declared.padded, counted.window, counted.stride, counted.dilation, 0, max(counted.end - declared.end, 0)
    )


OPERATORS: Operators = {
    "AveragePool": {1: average_pool},
    "GlobalAveragePool": {1: global_average_pool},
    "GlobalLpPool": {1: global_lp_pool},
    "GlobalMaxPool": {1: global_max_pool},
    "LpPool": {1: lp_pool},
    "MaxPool": {1: max_pool},
}
