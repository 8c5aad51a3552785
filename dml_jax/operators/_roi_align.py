"""ROI_ALIGN and ROI_ALIGN1: regions of pictures, each resampled to one size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.arguments.kinds import Data, Indices, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import Operands, at_least, custom, each_at_least, floats, numbers, one_of, same_dtype
from ..core.sharding import Dims
from ..core.structs.enumerations import MODE, FieldMode, Mode, mode_of
from ..core.structs.fields import Bool, Float, Input, Output
from ..core.structs.operator_desc import OperatorDesc
from ..operations.values.accumulation_types import narrow_apart, wide_type
from ._roi_rules import (
    PICTURES,
    BatchIndices,
    LeastSamples,
    MostSamples,
    ReductionOfSamples,
    Regions,
    ScaleX,
    ScaleY,
    at_most_32768,
    height_and_width,
    since,
    struct_rules,
)
from ._roi_sample_points import Sampled, linear, nearest

__all__ = ["RoiAlign1Desc", "RoiAlignDesc", "roi_align"]

Function = Literal["average", "max"]


def _no_corners(x: Operands) -> str | None:
    sizes = x["rois"].shape
    return None if len(sizes) == 2 and sizes[1] == 4 else f"it is {sizes}"


def _uncounted(x: Operands) -> str | None:
    sizes, regions = x["batch_indices"].shape, x["rois"].shape[:1]
    return None if sizes == regions else f"they are {sizes} and {regions}"


def _less(x: Operands) -> str | None:
    most, least = x["maximum_samples"], x["minimum_samples"]
    return None if most is None or most >= least else f"they are {most} and {least}"


RULES = (
    numbers("input", with_zero=True),
    floats("input"),
    same_dtype("rois", "input"),
    PICTURES,
    custom("corners(rois)", "{rois}.{sizes} must be (R, 4)", _no_corners),
    custom("one_per_region(batch_indices)", "{batch_indices}.{sizes} must be (R,), as of {rois}", _uncounted),
    height_and_width("output_sizes"),
    each_at_least("output_sizes", 1),
    at_most_32768("output_sizes"),
    height_and_width("spatial_scales"),
    one_of("function", ("average", "max")),
    MODE,
    at_least("minimum_samples", 1),
    at_most_32768("minimum_samples"),
    custom("at_least(maximum_samples)", "{maximum_samples} must be at least {minimum_samples}", _less),
)


def _dims(x: Operands) -> Dims:
    """Regions and channels keep their sharding."""
    pictures, regions = ["picture", "channel", "y", "x"], ["region", "corner"]
    operands = {"input": pictures, "rois": regions, "batch_indices": ["region"]}
    return Dims(operands, ["region", "channel", "output y", "output x"])


@operator(*RULES, dims=_dims)
def roi_align(
    input: Data,
    rois: Data,
    batch_indices: Indices,
    output_sizes: Sequence[int],
    *,
    function: Function = "average",
    mode: Mode = "linear",
    spatial_scales: Sequence[float] = (1.0, 1.0),
    input_pixel_offset: float = 0.5,
    output_pixel_offset: float = -0.5,
    out_of_bounds_value: float = 0.0,
    minimum_samples: int = 1,
    maximum_samples: int | None = None,
    align_corners: bool = False,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Resamples regions of pictures, each to the same size, at points between the pixels.

    A region of a length along x, (x2 - x1) * scale, has n = clamp(ceil(length / width), minimum_samples,
    maximum_samples) samples for each element along x. Sample t, from 0 to width * n - 1, is read at

    x1 * scale + (t - output_pixel_offset) * length / (width * n) - input_pixel_offset

    and likewise along y. An element is the mean or the maximum of its samples.

    Args:
      input: (N, C, H, W), floats of any width, with 0 among them.
      rois: (R, 4), the dtype of `input`: x1, y1, x2, y2 of each region.
      batch_indices: (R,), any integer dtype: in which picture each region lies, in [0, N). Others are undefined.
      output_sizes: height and width of the output, from 1 to 32768.
      function: of the samples of an element: "average" or "max".
      mode: how samples are read: "linear" between four pixels, or "nearest", of two as near the one before.
      spatial_scales: the factors of y and of x coordinates.
      input_pixel_offset: where the first pixel lies from the edge of the picture.
      output_pixel_offset: how far samples lie before the start of their part of the region.
      out_of_bounds_value: value of a sample more than 1 before the first pixel or after the last one; nearer ones read
        that pixel.
      minimum_samples: of an element along each dimension; from 1 to 32768.
      maximum_samples: as `minimum_samples`; None, or more, for as many as a region as large as the picture needs.
      align_corners: whether the first and the last sample lie on the corners: the length is divided by width * n - 1,
        and where that is 0, the sample lies in the middle.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array (R, C, height, width) of the dtype of `input`. Floats of 8 and 16 bits are computed in float32 and
      rounded once.

    Raises:
      ConstraintError: sizes that do not fit, an unknown `function` or `mode`, or fewer samples than 1.
      DataTypeError: `batch_indices` has no integers, `input` and `rois` no floats of one type, or 64-bit ones while x64
        is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.arange(1, 37, dtype=np.float32).reshape(1, 1, 6, 6)
      >>> regions, picture = np.float32([[1, 1, 4, 5]]), np.int32([0])
      >>> print(dml_jax.roi_align(x, regions, picture, (2, 2), minimum_samples=2)[0, 0])
      [[11.25 12.75]
       [23.25 24.75]]

    Source: DML_ROI_ALIGN1_OPERATOR_DESC, whose formula counts one sample more than ONNX's RoiAlign: that is taken.
    """
    corners, pictures = jnp.asarray(rois, wide_type(rois.dtype)), jnp.asarray(batch_indices)
    height, width = input.shape[2:]
    sampled = [
        Sampled(corners[:, 1], corners[:, 3], height, output_sizes[0], spatial_scales[0]),
        Sampled(corners[:, 0], corners[:, 2], width, output_sizes[1], spatial_scales[1]),
    ]
    most = [samples.most(minimum_samples, maximum_samples) for samples in sampled]
    counts = [samples.counts(minimum_samples, n) for samples, n in zip(sampled, most, strict=True)]
    wide = wide_type(input.dtype)
    pixels = jnp.moveaxis(input, 1, -1)

    def positions(axis: int, number: jax.Array) -> jax.Array:
        steps = sampled[axis].steps(number, counts[axis], output_pixel_offset, align_corners)
        return sampled[axis].low[:, None] + steps * sampled[axis].length[:, None] - input_pixel_offset

    def sample(number: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The values of one sample of each element, and which regions have that sample."""
        each = [place.astype(corners.dtype) for place in (number // most[1], number % most[1])]
        read = nearest if mode == "nearest" else linear
        values, is_inside = read(pixels, pictures, positions(0, each[0]), positions(1, each[1]), wide)
        values = jnp.where(is_inside, values, np.asarray(out_of_bounds_value, wide))
        return values, ((each[0] < counts[0]) & (each[1] < counts[1]))[:, None, None, None]

    def add(total: jax.Array, number: jax.Array) -> tuple[jax.Array, None]:
        values, is_counted = sample(number)
        if function == "average":
            return total + jnp.where(is_counted, values, 0), None
        return jnp.where(is_counted & ((values > total) | (values != values)), values, total), None

    # One sample of all elements after the other: their values are not stored, and computed again for the gradient.
    first, _ = sample(jnp.zeros((), np.int32))
    total, _ = lax.scan(jax.checkpoint(add, prevent_cse=False), first, jnp.arange(1, most[0] * most[1], dtype=np.int32))
    if function == "average":
        total = total / (counts[0] * counts[1]).astype(wide)[:, None, None, None]
    return jnp.moveaxis(narrow_apart(total, input.dtype), -1, 1)


# The structs.

# Attributes of the newer structs, as the function names them.
_OFFSETS = {
    "input_pixel_offset": "input_pixel_offset",
    "output_pixel_offset": "output_pixel_offset",
    "out_of_bounds_input_value": "out_of_bounds_value",
    "align_regions_to_corners": "align_corners",
}


def aligned(
    desc: Any, input: jax.Array, roi: jax.Array, batch_indices: jax.Array, output_sizes: Sequence[int]
) -> jax.Array:
    """Calls the function with the attributes of a struct."""
    function: Any = desc.reduction_function.name.lower()
    return roi_align(
        input,
        roi.reshape(-1, 4),
        batch_indices.ravel(),
        output_sizes,
        function=function,
        mode=mode_of(desc.interpolation_mode),
        spatial_scales=(desc.spatial_scale_y, desc.spatial_scale_x),
        minimum_samples=desc.minimum_samples_per_output,
        maximum_samples=desc.maximum_samples_per_output,
        **{name: getattr(desc, field) for field, name in _OFFSETS.items() if field in desc.fields()},
    )


class _VersionDesc(OperatorDesc, is_base=True):
    """The base of both versions.

    Args:
      input: (N, C, H, W).
      output: (R, C, height, width).
    """

    input: Input
    roi: Regions
    batch_indices: BatchIndices
    output: Output
    reduction_function: ReductionOfSamples
    interpolation_mode: FieldMode
    spatial_scale_x: ScaleX
    spatial_scale_y: ScaleY

    other_ranks = ("roi", "batch_indices")
    constraints = struct_rules("output", "input")

    def compute_checked(self, input: jax.Array, roi: jax.Array, batch_indices: jax.Array) -> jax.Array:
        return aligned(self, input, roi, batch_indices, self.output.sizes[2:])


class RoiAlignDesc(_VersionDesc):
    """DML_ROI_ALIGN_OPERATOR_DESC: resamples regions of pictures, each to the same size.

    Args:
      out_of_bounds_input_value: of a sample more than 1 away from the pixels.

    Source: DML_ROI_ALIGN_OPERATOR_DESC: ROI_ALIGN1 with the offsets 0.5 and -0.5.
    """

    out_of_bounds_input_value: Float
    minimum_samples_per_output: LeastSamples
    maximum_samples_per_output: MostSamples

    support = since("3_0")


class RoiAlign1Desc(_VersionDesc):
    """DML_ROI_ALIGN1_OPERATOR_DESC: resamples regions of pictures, each to the same size, with offsets of pixels.

    Args:
      input_pixel_offset: where the first pixel lies from the edge of the picture.
      output_pixel_offset: how far samples lie before the start of their part of the region.
      out_of_bounds_input_value: of a sample more than 1 away from the pixels.
      align_regions_to_corners: whether the first and the last sample lie on the corners of the region.
    """

    input_pixel_offset: Float
    output_pixel_offset: Float
    out_of_bounds_input_value: Float
    minimum_samples_per_output: LeastSamples
    maximum_samples_per_output: MostSamples
    align_regions_to_corners: Bool

    support = since("4_0")
