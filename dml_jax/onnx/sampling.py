"""ONNX's GridSample: elements around positions that are data, and their weights."""

from collections.abc import Sequence
from functools import reduce
from itertools import product
from math import prod

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import ConstraintError
from ..lowering.values.accumulation_types import wide_type
from .values import Array, Operators, on_device

__all__ = ["OPERATORS", "grid_sample"]

_MODES = {"bilinear": "linear", "bicubic": "cubic", "linear": "linear", "cubic": "cubic", "nearest": "nearest"}
_PADDINGS = ("zeros", "border", "reflection")
_CUBIC = -0.75
# Along one dimension: elements, whether they are in it, and how much they count.
Taps = list[tuple[jax.Array, jax.Array, jax.Array]]


def grid_sample(
    *, x: Array, grid: Array, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> jax.Array:
    """Positions from -1 to 1 lie between the centers of the outermost elements, or between their outer edges."""
    _check(x, grid, mode, padding_mode)
    sizes, interpolated = x.shape[2:], _MODES[mode]
    wide = wide_type(x.dtype)
    places = on_device(grid).astype(wide_type(grid.dtype)).reshape(x.shape[0], prod(grid.shape[1:-1]), len(sizes))
    taps = [
        _taps(places[..., len(sizes) - 1 - d], n, interpolated, padding_mode, bool(align_corners))
        for d, n in enumerate(sizes)
    ]
    elements = on_device(x).reshape(*x.shape[:2], prod(sizes))
    parts = []
    for corner in product(*taps):
        at = reduce(jnp.add, [index * np.int32(prod(sizes[d + 1 :])) for d, (index, _, _) in enumerate(corner)])
        inside, weight = (reduce(jnp.multiply, one) for one in ([i for _, i, _ in corner], [w for *_, w in corner]))
        found = jnp.take_along_axis(elements, at[:, None], 2, mode="clip")
        found = jnp.where(inside[:, None], found, np.zeros((), found.dtype))
        parts.append(found if interpolated == "nearest" else found.astype(wide) * weight.astype(wide)[:, None])
    return reduce(jnp.add, parts).astype(x.dtype).reshape(*x.shape[:2], *grid.shape[1:-1])


def _check(x: Array, grid: Array, mode: str, padding_mode: str) -> None:
    if mode not in _MODES or padding_mode not in _PADDINGS:
        rule = f"mode must be one of {', '.join(_MODES)}, and padding_mode one of {', '.join(_PADDINGS)}"
        raise ConstraintError(f"{rule}, but they are {mode!r} and {padding_mode!r}")
    if x.ndim < 3 or grid.ndim != x.ndim or grid.shape[0] != x.shape[0] or grid.shape[-1] != x.ndim - 2:
        rule = "grid must have the rank and the batch of x, at least 3, and a coordinate per spatial dimension"
        raise ConstraintError(f"{rule}, but x is {x.shape} and grid is {grid.shape}")
    if 0 in x.shape[2:]:
        raise ConstraintError(f"x must have elements, but its shape is {x.shape}")
    if _MODES[mode] != "nearest" and not jnp.issubdtype(x.dtype, jnp.floating):
        raise ConstraintError(f"x must be of floats unless mode is nearest, but it is {x.dtype}")


def _taps(places: jax.Array, size: int, mode: str, padding_mode: str, aligns: bool) -> Taps:
    """The elements that count along one dimension."""
    at = (places + 1) / 2 * (size - 1) if aligns else ((places + 1) * size - 1) / 2
    low, high = (0.0, size - 1.0) if aligns else (-0.5, size - 0.5)
    if mode == "nearest":
        at = jnp.round(at)
    at = _reflected(at, low, high) if padding_mode == "reflection" else at
    at = jnp.clip(at, -4, size + 4)  # where there is nothing either, and numbers fit into integers
    first = jnp.floor(at) if mode != "nearest" else jnp.round(at)
    found = []
    for number, weight in _weights(at - first, mode):
        index = first + number
        index = _reflected(index, low, high) if padding_mode == "reflection" else index
        inside = (index >= 0) & (index <= size - 1) if padding_mode == "zeros" else jnp.ones(index.shape, bool)
        found.append((jnp.clip(index, 0, size - 1).astype(np.int32), inside, weight))
    return found


def _weights(fraction: jax.Array, mode: str) -> Sequence[tuple[int, jax.Array]]:
    """How much each neighbour counts, by its distance from the first."""
    if mode == "nearest":
        return [(0, jnp.ones_like(fraction))]
    if mode == "linear":
        return [(0, 1 - fraction), (1, fraction)]

    def near(d: jax.Array) -> jax.Array:
        return ((_CUBIC + 2) * d - (_CUBIC + 3)) * d * d + 1

    def far(d: jax.Array) -> jax.Array:
        return ((_CUBIC * d - 5 * _CUBIC) * d + 8 * _CUBIC) * d - 4 * _CUBIC

    return [(-1, far(fraction + 1)), (0, near(fraction)), (1, near(1 - fraction)), (2, far(2 - fraction))]


def _reflected(at: jax.Array, low: float, high: float) -> jax.Array:
    """Thrown back at both ends, as often as needed."""
    length = high - low
    if length == 0:
        return jnp.full_like(at, low)
    beyond = jnp.mod(at - low, 2 * length)
    return low + jnp.minimum(beyond, 2 * length - beyond)


OPERATORS: Operators = {"GridSample": {16: grid_sample}}
