"""ONNX's pooling operators: MaxPool, AveragePool, LpPool, and their global forms."""

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import operators
from ..core.sharding import Dims, on_any_mesh
from ..errors import ConstraintError
from ..operations.min_max import extreme
from ..operations.programs.primitive import by_platform
from ..operations.sliding_windows import Windows
from ..operations.values.accumulation_types import wide_type
from ..operations.values.bit_exact import stored
from ..operations.window_slices import read_slices
from ..operators._lp_pooling import norm
from .sliding_windows import rounded_up, windows_of
from .values import Array, Operators, on_device


def max_pool(
    *,
    x: Array,
    kernel_shape: Any,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Any = None,
    pads: Any = None,
    storage_order: int = 0,
    strides: Any = None,
    count: int = 1,
) -> Any:
    """MaxPool; of equal elements the first one counts, and NaN is greater than every number."""
    declared = windows_of(x.shape, kernel_shape, auto_pad=auto_pad, dilations=dilations, pads=pads, strides=strides)
    windows = _check_counts(declared, auto_pad, ceil_mode)
    data = on_device(x)
    y = _on_mesh("MaxPool", lambda x: _greatest_of_windows(x, windows), data)
    return y if count == 1 else (y, _indices(data, windows, storage_order))


def average_pool(
    *,
    x: Array,
    kernel_shape: Any,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> Array:
    """AveragePool; with `count_include_pad` the zeros of the padding count too."""
    declared = windows_of(x.shape, kernel_shape, auto_pad=auto_pad, dilations=dilations, pads=pads, strides=strides)
    windows = _check_counts(declared, auto_pad, ceil_mode)

    def average(x: jax.Array) -> jax.Array:
        total = _sum(_wide(x), windows)
        for d, (w, counted) in enumerate(zip(declared, windows, strict=True)):
            counts = (_over_padding(w, counted) if count_include_pad else counted).sizes_inside()[: counted.count]
            total = total / np.maximum(counts, 1).astype(total.dtype).reshape(_at(d + 2, -1, x.ndim))
        return total.astype(x.dtype)

    return _on_mesh("AveragePool", average, on_device(x))


def lp_pool(
    *,
    x: Array,
    kernel_shape: Any = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Any = None,
    p: float = 2,
    pads: Any = None,
    strides: Any = None,
) -> Array:
    declared = windows_of(x.shape, kernel_shape, auto_pad=auto_pad, dilations=dilations, pads=pads, strides=strides)
    windows = _check_counts(declared, auto_pad, ceil_mode)
    return operators.lp_pooling(on_device(x), [w.window for w in windows], p=p, **_options(windows))


def global_average_pool(*, x: Array) -> Array:
    return jnp.mean(_wide(x), _spatial(x), keepdims=True).astype(x.dtype)


def global_max_pool(*, x: Array) -> Array:
    return extreme(on_device(x), _spatial(x), "greatest")


def global_lp_pool(*, x: Array, p: float = 2) -> Array:
    return norm(_wide(x), p, lambda powers: jnp.sum(powers, _spatial(x), keepdims=True)).astype(x.dtype)


def _wide(x: Array) -> jax.Array:
    return on_device(x).astype(wide_type(x.dtype))


def _spatial(x: Array) -> tuple[int, ...]:
    if x.ndim < 3 or 0 in x.shape[2:]:
        rule = "x must have the dimensions N, C and one more at least, with elements"
        raise ConstraintError(f"{rule}, but its shape is {x.shape}")
    return tuple(range(2, x.ndim))


def _check_counts(windows: Sequence[Windows], auto_pad: str, ceil_mode: int) -> list[Windows]:
    """Returns the windows for a number of outputs; padding by `auto_pad` is rounded already."""
    rounded = [rounded_up(w) if ceil_mode and auto_pad == "NOTSET" else w for w in windows]
    for d, w in enumerate(rounded):
        if w.size < 1 or w.count < 1:
            rule = "every window must fit into its padded dimension, which must have elements"
            raise ConstraintError(f"{rule}, but that of spatial dimension {d} spans {w.span} of {w.padded}")
    return rounded


# Arguments about windows.


def _options(windows: Sequence[Windows]) -> Any:
    """Returns the keywords of pooling functions beside the window sizes."""
    names = {"strides": "stride", "dilations": "dilation", "start_padding": "start", "end_padding": "end"}
    return {name: [getattr(w, field) for w in windows] for name, field in names.items()}


def _on_mesh(operator: str, pool: Callable[[jax.Array], jax.Array], x: jax.Array) -> jax.Array:
    """Pools x; on an Explicit mesh N and C keep their sharding."""
    spatial = [f"spatial {d}" for d in range(x.ndim - 2)]
    dims = Dims({"x": ["N", "C", *spatial]}, ["N", "C", *(f"windows along {name}" for name in spatial)])
    return on_any_mesh(operator, pool, dims, x=x)


def _greatest_of_windows(x: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    """Max pooling along one dimension after the other.

    On CPUs, strided windows stay apart from what follows. XLA would fuse them with the reshape of a convolution that is
    a product of matrices: a loop over merged dimensions, which divides for each element, and is not vectorised.
    """

    def pool(x: jax.Array) -> jax.Array:
        for d in reversed(range(len(windows))):
            x = _greatest(x, d + 2, windows[d])
        return x

    if not all(w.stride > 1 and w.start == w.end == 0 and _are_apart(w) for w in windows):
        return pool(x)
    return by_platform(x, cpu=lambda x: stored(pool(x)), default=pool)


def _are_apart(windows: Windows) -> bool:
    """Whether reading each element of each window costs less than computing a window at every place."""
    return windows.window - 1 < windows.stride * (windows.window - 1).bit_length()


def _greatest(x: jax.Array, axis: int, windows: Windows) -> jax.Array:
    """Max pooling by doubling: maxima of spans of 1, 2, 4, ... elements; two spans cover a window.

    That computes a window at every place. Few elements of windows that are apart are read as slices, at these alone.
    """
    if _are_apart(windows):
        return reduce(_greater, read_slices(x, [axis], [windows], _least(x.dtype)))
    needed = (windows.count - 1) * windows.stride + windows.span
    edges = [(0, 0, 0)] * x.ndim
    edges[axis] = (windows.start, needed - windows.start - windows.size, 0)
    y, covered = lax.pad(x, _least(x.dtype), edges), 1
    while covered < windows.window:
        more = min(covered, windows.window - covered)
        length = y.shape[axis] - more * windows.dilation
        y = _greater(*(lax.slice_in_dim(y, n, n + length, axis=axis) for n in (0, more * windows.dilation)))
        covered += more
    return lax.slice_in_dim(y, 0, (windows.count - 1) * windows.stride + 1, windows.stride, axis)


def _greater(first: jax.Array, second: jax.Array) -> jax.Array:
    return jnp.where((first >= second) | (first != first), first, second)


def _least(dtype: Any) -> np.ndarray:
    return np.asarray(jnp.iinfo(dtype).min if jnp.issubdtype(dtype, jnp.integer) else -np.inf, dtype)


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
