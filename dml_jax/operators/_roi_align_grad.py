"""ROI_ALIGN_GRAD: the gradients of ROI_ALIGN1, of pictures and of the corners of regions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ..core.rules import Operands, custom, if_given, same_dtype, same_sizes, sizes_follow
from ..core.structs.enumerations import FieldMode
from ..core.structs.feature_level_tables import FLOATS, RANK_4, Support
from ..core.structs.fields import Bool, Float, Input, OptionalInput, OptionalOutput
from ..core.structs.operator_desc import OneOrSeveralOutputs
from ..core.tensors.data_type import DataType
from ..operations.values.accumulation_types import narrow_apart, wide_type
from ._reduce import ReduceFunction
from ._roi_align import aligned
from ._roi_rules import (
    BatchIndices,
    LeastSamples,
    MostSamples,
    ReductionOfSamples,
    Regions,
    ScaleX,
    ScaleY,
    struct_rules,
)

__all__ = ["RoiAlignGradDesc"]


def _no_output(x: Operands) -> str | None:
    is_none = x["output_gradient"] is None and x["output_roi_gradient"] is None
    return "both are left out" if is_none else None


def _no_input(x: Operands) -> str | None:
    needs = x["output_roi_gradient"] is not None or x["reduction_function"] == ReduceFunction.MAX
    return "it is left out" if needs and x["input"] is None else None


def _sizes(x: Operands) -> tuple[int, ...] | None:
    return None if x["input"] is None else x["input"].sizes


class RoiAlignGradDesc(OneOrSeveralOutputs):
    """DML_ROI_ALIGN_GRAD_OPERATOR_DESC: computes the gradients of resampled regions.

    Args:
      input: (N, C, H, W), the input of ROI_ALIGN1; or None where neither AVERAGE nor `output_roi_gradient` needs it.
      input_gradient: (R, C, height, width), the gradient of its output.
      output_gradient: (N, C, H, W), the gradient of its input; or None.
      output_roi_gradient: the sizes of `roi`, the gradient of the corners; or None.
      input_pixel_offset: where the first pixel lies from the edge of the picture.
      output_pixel_offset: how far samples lie before the start of their part of the region.
      align_regions_to_corners: whether the first and the last sample lie on the corners of the region.

    Source: DML_ROI_ALIGN_GRAD_OPERATOR_DESC, whose gradient of corners lacks the scale, the offset and a division: the
      derivative is computed here.
    """

    input: OptionalInput
    input_gradient: Input
    roi: Regions
    batch_indices: BatchIndices
    output_gradient: OptionalOutput
    output_roi_gradient: OptionalOutput
    reduction_function: ReductionOfSamples
    interpolation_mode: FieldMode
    spatial_scale_x: ScaleX
    spatial_scale_y: ScaleY
    input_pixel_offset: Float
    output_pixel_offset: Float
    minimum_samples_per_output: LeastSamples
    maximum_samples_per_output: MostSamples
    align_regions_to_corners: Bool

    in_jax = "jax.vjp of dml_jax.roi_align"
    other_ranks = ("roi", "batch_indices", "output_roi_gradient")
    support = (Support.of("4_1", RANK_4, input_gradient=FLOATS, batch_indices=(DataType.UINT32,)),)
    constraints = (
        # All of one type; the first tensor may be left out.
        same_dtype("roi", "input_gradient"),
        if_given("output_gradient", same_dtype("output_gradient", "input_gradient")),
        if_given("output_roi_gradient", same_dtype("output_roi_gradient", "input_gradient")),
        custom("an_output", "{output_gradient} or {output_roi_gradient} must be given", _no_output),
        custom("needed(input)", "{input} must be given with {output_roi_gradient}, and for MAX", _no_input),
        if_given("output_gradient", sizes_follow("output_gradient", _sizes, "{input}.{sizes}, if that is given")),
        if_given("output_roi_gradient", same_sizes("output_roi_gradient", "roi")),
        *struct_rules("input_gradient", "output_gradient"),
    )

    def compute_checked(
        self, input: jax.Array | None, input_gradient: jax.Array, roi: jax.Array, batch_indices: jax.Array
    ) -> Any:
        dtype, wide = input_gradient.dtype, wide_type(input_gradient.dtype)
        # A mean is linear in the pictures: their gradient is the same of any.
        sizes = self.output_gradient.sizes if self.output_gradient else ()
        pictures = jnp.zeros(sizes, wide) if input is None else input.astype(wide)

        def forward(pictures: jax.Array, roi: jax.Array) -> jax.Array:
            return aligned(self, pictures, roi, batch_indices, self.input_gradient.sizes[2:])

        _, back = jax.vjp(forward, pictures, roi.astype(wide))
        gradients = back(input_gradient.astype(wide))
        outputs = (self.output_gradient, self.output_roi_gradient)
        results = [narrow_apart(x, dtype) for x, tensor in zip(gradients, outputs, strict=True) if tensor is not None]
        return tuple(results) if len(results) > 1 else results[0]
