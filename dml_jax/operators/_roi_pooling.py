"""ROI_POOLING: regions of pictures, each divided into a grid of which every cell has a maximum."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.arguments.kinds import Data, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import Operands, custom, each_at_least, floats, numbers, same_dtype, sizes_follow
from ..core.sharding import Dims
from ..core.structs.feature_level_tables import FLOATS, RANK_4, levels
from ..core.structs.fields import Float, Input, Output
from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.size_and_scale_bias import Size2D
from ..operations.min_max import extreme
from ..operations.values.accumulation_types import narrow_apart, wide_type
from ._roi_rules import PICTURES, at_most_32768, height_and_width

__all__ = ["RoiPoolingDesc", "roi_pooling"]

FARTHEST = 2.0**29  # of a corner, in pixels: sums of two are integers of 32 bits


def _no_regions(x: Operands) -> str | None:
    sizes = x["rois"].shape
    return None if len(sizes) == 2 and sizes[1] == 5 else f"it is {sizes}"


RULES = (
    numbers("input", with_zero=True),
    floats("input"),
    same_dtype("rois", "input"),
    PICTURES,
    custom("corners(rois)", "{rois}.{sizes} must be (R, 5)", _no_regions),
    height_and_width("output_sizes"),
    each_at_least("output_sizes", 1),
    at_most_32768("output_sizes"),
)


def _dims(x: Operands) -> Dims:
    """Regions and channels keep their sharding."""
    operands = {"input": ["picture", "channel", "y", "x"], "rois": ["region", "corner"]}
    return Dims(operands, ["region", "channel", "output y", "output x"])


@operator(*RULES, dims=_dims)
def roi_pooling(
    input: Data,
    rois: Data,
    output_sizes: Sequence[int],
    *,
    spatial_scale: float = 1.0,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Divides regions of pictures into grids, and finds the greatest element of each cell.

    A region reaches along x from a = round(x1 * spatial_scale) to b = round(x2 * spatial_scale), both included, where
    halves are rounded away from 0. Cell k of its n = max(b - a + 1, 1) pixels has those from a + floor(k * n / width)
    up to a + ceil((k + 1) * n / width), without the last, as far as they are in the picture; likewise along y.

    Args:
      input: (N, C, H, W), floats of any width, with 0 among them.
      rois: (R, 5), the dtype of `input`: the picture of each region, in [0, N), and x1, y1, x2, y2. Other pictures are
        undefined.
      output_sizes: height and width of the grid, from 1 to 32768.
      spatial_scale: the factor of coordinates.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array (R, C, height, width) of the dtype of `input`; 0 of a cell without pixels.

    Raises:
      ConstraintError: sizes that do not fit.
      DataTypeError: `input` and `rois` have no floats of one type, or 64-bit ones while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.arange(1, 37, dtype=np.float32).reshape(1, 1, 6, 6)
      >>> print(dml_jax.roi_pooling(x, np.float32([[0, 1, 1, 3, 4]]), (2, 2))[0, 0])
      [[15. 16.]
       [27. 28.]]

    Source: DML_ROI_POOLING_OPERATOR_DESC, which says nothing of halves nor of cells without pixels: they are those of
      ONNX Runtime's MaxRoiPool.
    """
    wide = wide_type(input.dtype)
    numbers = jnp.asarray(rois, wide)
    corners = _round_half_away(numbers[:, 1:] * np.asarray(spatial_scale, wide))
    height, width = output_sizes
    rows = _cells(corners[:, 1], corners[:, 3], input.shape[2], height)
    columns = _cells(corners[:, 0], corners[:, 2], input.shape[3], width)

    def region(given: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        picture, rows, columns = given
        pixels = lax.dynamic_index_in_dim(jnp.asarray(input), picture, keepdims=False).astype(wide)[:, None]
        maxima = _masked_max(pixels, rows[None, :, :, None], 2)
        return _masked_max(maxima[:, :, None], columns[None, None], 3)

    maxima = lax.map(region, (numbers[:, 0].astype(np.int32), rows, columns))
    is_empty = ~(rows.any(-1)[:, None, :, None] & columns.any(-1)[:, None, None, :])
    return narrow_apart(jnp.where(is_empty, 0, maxima), input.dtype)


def _round_half_away(x: jax.Array) -> jax.Array:
    """Rounds to the nearest integer, halves away from 0, within [-FARTHEST, FARTHEST]."""
    whole = jnp.trunc(x)
    away = jnp.where(jnp.abs(x - whole) >= 0.5, jnp.sign(x), 0)
    return jnp.clip(whole + away, -FARTHEST, FARTHEST).astype(np.int32)


def _cells(first: jax.Array, last: jax.Array, size: int, cells: int) -> jax.Array:
    """bool[regions, cells, size]: which pixels each cell of each region has, along one dimension."""
    count = jnp.maximum(last - first + 1, 1)[:, None]
    cell, pixel = np.arange(cells, dtype=np.int32)[None], np.arange(size, dtype=np.int32)[None, None]
    # floor(cell * count / cells) and ceil((cell + 1) * count / cells), whose products could be too large.
    each, rest = count // cells, count % cells
    start = first[:, None] + cell * each + cell * rest // cells
    end = first[:, None] + (cell + 1) * each - (-((cell + 1) * rest) // cells)
    return (start[..., None] <= pixel) & (pixel < end[..., None])


def _masked_max(x: jax.Array, is_counted: jax.Array, axis: int) -> jax.Array:
    return lax.squeeze(extreme(jnp.where(is_counted, x, -np.inf), (axis,), "greatest"), [axis])


def _sizes(x: Operands) -> tuple[int, ...] | None:
    size, pictures, regions = x["pooled_size"], x["input"].sizes, x["roi"].sizes
    return (regions[-2], pictures[1], size.height, size.width) if len(pictures) == len(regions) == 4 else None


def _other_rows(x: Operands) -> str | None:
    sizes = x["roi"].sizes
    return None if sizes[-1] == 5 and all(n == 1 for n in sizes[:-2]) else f"they are {sizes}"


class RoiPoolingDesc(OperatorDesc):
    """DML_ROI_POOLING_OPERATOR_DESC: divides regions of pictures into grids, and finds the maximum of each cell.

    Args:
      input: (N, C, H, W).
      roi: (1, 1, R, 5): the picture of each region, and x1, y1, x2, y2, both corners included.
      output: (R, C, height, width).
      spatial_scale: the factor of coordinates.
      pooled_size: the width and the height of the grid, in DirectML's order.

    Example:
      >>> desc = descs.RoiPoolingDesc(
      ...     input=TensorDesc("FLOAT32", (1, 1, 1, 4)), roi=TensorDesc("FLOAT32", (1, 1, 1, 5)),
      ...     output=TensorDesc("FLOAT32", (1, 1, 1, 2)), spatial_scale=1, pooled_size=(2, 1),
      ... )
      >>> desc.compute(np.float32([[[[4, 3, 2, 1]]]]), np.float32([[[[0, 1, 0, 3, 0]]]])).ravel()
      Array([3., 2.], dtype=float32)
    """

    input: Input
    roi: Input
    output: Output
    spatial_scale: Float
    pooled_size: Size2D

    support = levels(("1_0", RANK_4, FLOATS))
    constraints = (
        custom("regions(roi)", "{roi}.{sizes} must be (1, 1, R, 5)", _other_rows),
        sizes_follow("output", _sizes, "(R, C, {pooled_size}.Height, {pooled_size}.Width)"),
    )

    def compute_checked(self, input: jax.Array, roi: jax.Array) -> jax.Array:
        size = self.pooled_size
        return roi_pooling(input, roi.reshape(-1, 5), (size.height, size.width), spatial_scale=self.spatial_scale)
