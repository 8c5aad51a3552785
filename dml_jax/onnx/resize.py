"""ONNX's Resize and Upsample, by `resample`, or by its lowering for coordinates that `resample` lacks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..core.sharding import Dims, on_any_mesh
from ..core.structs.enumerations import DirectionName
from ..errors import ConstraintError, DataTypeError
from ..operations.interpolation_coordinates import Positions
from ..operations.interpolation_weights import Kernel
from ..operations.separable_interpolation import interpolate
from ..operators import cast, resample
from .memory_limits import check_array
from .resize_coordinates import CROP, HALF, Grid, grid_of
from .values import Array, Operators, known, on_device


class Nearest(NamedTuple):
    """A nearest_mode as `resample` takes it: a rounding, and a number added to the pixel offset."""

    rounding: DirectionName
    more: Fraction


NEAREST: Mapping[str, Nearest] = {
    "round_prefer_floor": Nearest("increasing", HALF),
    "round_prefer_ceil": Nearest("decreasing", -HALF),
    "floor": Nearest("decreasing", Fraction(0)),
    "ceil": Nearest("increasing", Fraction(0)),
}


def resize(
    *,
    x: Array,
    roi: Array | None = None,
    scales: Array | None = None,
    sizes: Array | None = None,
    axes: Any = None,
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
    coordinate_transformation_mode: str = "half_pixel",
    keep_aspect_ratio_policy: str = "stretch",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    antialias: int = 0,
) -> Array:
    if mode not in ("nearest", "linear", "cubic") or nearest_mode not in NEAREST:
        rule = f"mode must be nearest, linear or cubic, and nearest_mode one of {', '.join(NEAREST)}"
        raise ConstraintError(f"{rule}, but they are {mode!r} and {nearest_mode!r}")
    data, dtype = on_device(x), x.dtype
    if mode != "nearest" and not (jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.floating)):
        raise DataTypeError(f"x must have an integer or floating-point type where mode is {mode}, but it is {dtype}")
    law, policy = coordinate_transformation_mode, keep_aspect_ratio_policy
    grid = grid_of(x.shape, law, policy, roi=roi, scales=scales, sizes=sizes, axes=axes)
    check_array("output", jax.ShapeDtypeStruct(grid.sizes, dtype))  # before its positions, which take long
    nearest = NEAREST[nearest_mode if mode == "nearest" else "ceil"]  # "ceil" adds 0 to positions, for modes without it
    is_filtered = bool(antialias) and mode != "nearest" and min(grid.asked, default=1) < 1
    kernel = Kernel(
        mode,  # type: ignore[arg-type]
        nearest.rounding,
        cubic_coeff_a,
        is_filtered,
        bool(exclude_outside),
    )
    # `resample` divides by a rounded scale: with aligned corners a position may fall just below its integer.
    is_rounded = mode == "nearest" and law == "align_corners"
    is_stretched = is_filtered and grid.asked != grid.scales
    moved = _shift(grid, x.shape, nearest.more)
    if grid.is_exact or is_rounded or is_stretched or min(grid.scales, default=1) <= 0:
        y = _on_mesh(lambda data: _interpolate(data, kernel, moved), data, moved)
    else:
        y = _resample(data, kernel, moved)
    if law == CROP and (beyond := grid.outside(x.shape)).any():
        y = jnp.where(beyond, cast(np.asarray(extrapolation_value, np.float32), dtype), y)
    return y


def _shift(grid: Grid, shape: Sequence[int], more: Fraction) -> Grid:
    """Adds a number to the offset of each resized dimension."""
    before = (number if grid.is_left(d, shape[d]) else number + more for d, number in enumerate(grid.before))
    return replace(grid, before=tuple(before))


def _resample(x: jax.Array, kernel: Kernel, grid: Grid) -> jax.Array:
    """Calls `resample` in float32; integers are truncated as in ONNX Runtime, where `resample` would round."""
    y = resample(
        _as_floats(x, kernel),
        grid.sizes,
        [float(scale) for scale in grid.scales],
        mode=kernel.mode,
        input_pixel_offsets=[float(offset) for offset in grid.before],
        output_pixel_offsets=[float(offset) for offset in grid.after],
        rounding=kernel.rounding,
        antialias=kernel.antialias,
        cubic_coefficient=kernel.coefficient,
        exclude_outside=kernel.excludes,
    )
    return _cut_off(y, x.dtype)


def _interpolate(x: jax.Array, kernel: Kernel, grid: Grid) -> jax.Array:
    """Interpolates at the grid's positions, exact where sizes are given; filters by the requested scales."""
    if 0 in grid.sizes:
        return jnp.zeros(grid.sizes, x.dtype)
    positions = {d: grid.positions(d) for d, n in enumerate(x.shape) if not grid.is_left(d, n)}
    by_axis = {d: kernel.interpolation(at.coordinates, x.shape[d], float(grid.asked[d])) for d, at in positions.items()}
    y = _cut_off(interpolate(_as_floats(x, kernel), by_axis), x.dtype)
    is_exact = grid.is_exact and kernel.mode == "linear" and not kernel.antialias
    return _correct_rounding(y, x, positions) if is_exact and jnp.issubdtype(x.dtype, jnp.integer) else y


def _as_floats(x: jax.Array, kernel: Kernel) -> jax.Array:
    """Converts integers to floats for interpolation."""
    if kernel.mode == "nearest" or not jnp.issubdtype(x.dtype, jnp.integer):
        return x
    return cast(x, np.float64 if x.dtype.itemsize == 8 else np.float32)


def _cut_off(y: jax.Array, dtype: Any) -> jax.Array:
    """Truncates sums to integers; a sum just below an integer, by rounding error, becomes that integer."""
    if y.dtype == dtype:
        return y
    nearest = jnp.round(y)
    is_near = jnp.abs(y - nearest) <= 8 * jnp.finfo(y.dtype).eps * jnp.abs(nearest)
    return cast(jnp.where(is_near, nearest, y), dtype)


def _correct_rounding(y: jax.Array, x: jax.Array, positions: Mapping[int, Positions]) -> jax.Array:
    """Corrects linear sums of integers that were rounded before truncation: 47.99999 would become 47 instead of 48.

    The exact sum is total / unit, both integers. 2 * 2/3 + 8 * 1/3 is 12 / 3; of an estimate of 3 the remainder is
    12 - 3 * 3, and 3 + 3 // 3 is 4. The remainder is small, so it is right although the total may wrap around. Where
    the unit is so great that the remainder may wrap too, `y` stays as it is.
    """
    wide = np.int64 if x.dtype.itemsize == 8 else np.int32
    bits, unit = 8 * np.dtype(wide).itemsize, prod(of_one.unit for of_one in positions.values())
    error = 2.0 ** (8 * x.dtype.itemsize - (20 if bits == 32 else 48))  # of a sum in floats, at most
    if unit * (error + 2) >= 2.0 ** (bits - 1):
        return y
    total = x.astype(wide)
    for d, of_one in positions.items():
        total = _total(total, d, of_one)
    lacking = total - y.astype(wide) * unit
    whole, rest = y.astype(wide) + lacking // unit, lacking % unit
    if jnp.issubdtype(x.dtype, jnp.signedinteger):
        whole += ((whole < 0) & (rest > 0)).astype(wide)  # towards 0
    return whole.astype(x.dtype)


def _total(x: jax.Array, axis: int, positions: Positions) -> jax.Array:
    """The linear sum along one dimension, times the unit; it may wrap around."""
    size, shown = x.shape[axis], [-1 if d == axis else 1 for d in range(x.ndim)]
    parts = []
    for step, weight in ((0, positions.unit - positions.rest), (1, positions.rest)):
        at = np.clip(positions.whole + step, 0, size - 1)
        parts.append(jnp.take(x, at, axis) * weight.astype(x.dtype).reshape(shown))
    return parts[0] + parts[1]


def _on_mesh(compute: Callable[[jax.Array], jax.Array], x: jax.Array, grid: Grid) -> jax.Array:
    """Shards the computation on an Explicit mesh: dimensions that are not resized keep their sharding."""
    names = [f"x {d}" for d in range(x.ndim)]
    output_names = [name if grid.is_left(d, x.shape[d]) else f"resized {name}" for d, name in enumerate(names)]
    return on_any_mesh("Resize", compute, Dims({"x": names}, output_names), x=x)


def resize_by_scales(*, x: Array, scales: Any, mode: str = "nearest") -> Array:
    """Upsample and Resize of opset 10; as in ONNX Runtime, "nearest" rounds up to shrink and down to grow."""
    factors = np.asarray(scales if isinstance(scales, list) else known("scales", scales), np.float32)
    for nearest_mode, some in (("ceil", np.minimum(factors, 1)), ("floor", np.maximum(factors, 1))):
        x = resize(
            x=x,
            scales=some,
            mode="linear" if mode == "bilinear" else mode,
            coordinate_transformation_mode="asymmetric",
            nearest_mode=nearest_mode,
        )
    return x


def upsample_2d(*, x: Array, height_scale: float, width_scale: float, mode: str = "nearest") -> Array:
    """Upsample of opset 1: the last two dimensions."""
    if x.ndim != 4:
        raise ConstraintError(f"x must have 4 dimensions, but its shape is {x.shape}")
    return resize_by_scales(x=x, scales=[1.0, 1.0, height_scale, width_scale], mode=mode)


OPERATORS: Operators = {
    "Resize": {10: resize_by_scales, 11: resize},
    "Upsample": {1: upsample_2d, 7: resize_by_scales},
}
