"""ONNX's RoiAlign and MaxRoiPool, by `roi_align` and `roi_pooling`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import operators
from ..errors import ConstraintError
from ..operations.values.accumulation_types import narrow_apart, wide_type
from .memory_limits import check_array
from .values import Array, Operators, on_device

# How far the first pixel lies from the edge.
_OFFSETS = {"half_pixel": 0.5, "output_half_pixel": 0.0}


def max_roi_pool(*, x: Array, rois: Array, pooled_shape: Any, spatial_scale: float = 1.0) -> jax.Array:
    return operators.roi_pooling(on_device(x), on_device(rois), pooled_shape, spatial_scale=spatial_scale)


def roi_align(
    *,
    x: Array,
    rois: Array,
    batch_indices: Array,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    coordinate_transformation_mode: str = "output_half_pixel",
) -> jax.Array:
    """RoiAlign; an empty region gives 0; with `output_half_pixel` a region is at least a pixel long."""
    if mode not in ("avg", "max") or coordinate_transformation_mode not in _OFFSETS or sampling_ratio < 0:
        rule = f"mode must be avg or max, coordinate_transformation_mode {' or '.join(_OFFSETS)}, sampling_ratio >= 0"
        raise ConstraintError(f"{rule}, but they are {mode!r}, {coordinate_transformation_mode!r}, {sampling_ratio}")
    if rois.ndim != 2 or x.ndim != 4:
        raise ConstraintError(f"x must be (N, C, H, W) and rois (R, 4), but they are {x.shape} and {rois.shape}")
    # Samples take no memory here, as they are read one after the other; but reading so many would take very long.
    samples = [n * max(1, sampling_ratio) for n in (output_height, output_width)]
    check_array("the samples", jax.ShapeDtypeStruct((len(rois), *samples), np.float32))
    wide = wide_type(x.dtype)
    corners = on_device(rois).astype(wide) * np.asarray(spatial_scale, wide)
    if coordinate_transformation_mode == "output_half_pixel":
        corners = _a_pixel_long(corners)
    pictures = on_device(x).astype(wide)
    y = operators.roi_align(
        pictures if mode == "avg" else _one_of_four(pictures),
        corners,
        batch_indices,
        (output_height, output_width),
        function="average" if mode == "avg" else "max",
        input_pixel_offset=_OFFSETS[coordinate_transformation_mode],
        minimum_samples=sampling_ratio or 1,
        maximum_samples=sampling_ratio or None,
    )
    if mode == "max":
        y = y.reshape(len(corners), 4, x.shape[1], *y.shape[2:]).max(1)
    if not sampling_ratio:
        y = jnp.where((corners[:, 2:] > corners[:, :2]).all(-1)[:, None, None, None], y, 0)
    return narrow_apart(y, x.dtype)


def _a_pixel_long(corners: jax.Array) -> jax.Array:
    """Extends regions to a length of at least 1, so that rounding makes none of them longer than 1."""
    low, high = corners[:, :2], corners[:, 2:]
    after = low + 1
    after = jnp.where(after - low > 1, jnp.nextafter(after, low), after)
    return jnp.concatenate([low, jnp.where(high - low < 1, after, high)], 1)


def _one_of_four(pictures: jax.Array) -> jax.Array:
    """Returns images with four times the channels, each with every other row and column, and 0 between them.

    ONNX's maximum does not add up the four pixels around a sample, but takes the greatest one times its weight. Each
    picture here has one of these four pixels, and 0 for the others: their sum is that product.
    """
    n, channels, height, width = pictures.shape
    even_rows, even_columns = (np.arange(size) % 2 == 0 for size in (height, width))
    kept = [rows[:, None] & columns for rows in (even_rows, ~even_rows) for columns in (even_columns, ~even_columns)]
    apart = jnp.where(np.stack(kept)[None, :, None], pictures[:, None], 0)
    return apart.reshape(n, 4 * channels, height, width)


OPERATORS: Operators = {"MaxRoiPool": {1: max_roi_pool}, "RoiAlign": {10: roi_align}}
