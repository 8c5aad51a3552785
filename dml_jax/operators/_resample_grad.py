"""RESAMPLE_GRAD and RESAMPLE_GRAD1: the gradients of resampling."""

from __future__ import annotations

from functools import partial

import jax

from ..core.structs.enumerations import FieldMode
from ..core.structs.feature_level_tables import FLOATS, RANK_4, levels
from ..core.structs.fields import Input, Output
from ..core.structs.operator_desc import OperatorDesc
from ..operations.programs.primitive import transposed
from ._resample import Numbers, PixelOffsets, RoundingDirection, keywords_of, resample, struct_law

__all__ = ["ResampleGrad1Desc", "ResampleGradDesc"]

LAW = struct_law("output_gradient")
RANKS = range(1, 5)


def _transpose_resample(desc: ResampleGradDesc | ResampleGrad1Desc, gradient: jax.Array) -> jax.Array:
    """Transposes RESAMPLE1 or RESAMPLE2 from the sizes of the output to those of the input."""
    forward = partial(resample, sizes=desc.input_gradient.sizes, **keywords_of(desc))
    return transposed(forward, jax.ShapeDtypeStruct(desc.output_gradient.sizes, gradient.dtype), gradient)


class ResampleGradDesc(OperatorDesc):
    """DML_RESAMPLE_GRAD_OPERATOR_DESC: the gradient of RESAMPLE1.

    Args:
      input_gradient: the gradient of the output of RESAMPLE1; any sizes.
      output_gradient: the gradient of its input; any sizes. Elements that the output does not use have 0.
      scales: a positive number per dimension: how many elements of `input_gradient` there are for one.

    Example:
      >>> long, short = TensorDesc("FLOAT32", (4,)), TensorDesc("FLOAT32", (2,))
      >>> print(ResampleGradDesc(long, short, "LINEAR", (2,), (0.5,), (-0.5,)).compute(np.float32([4, 4, 8, 16])))
      [ 9. 23.]

    Source: DML_RESAMPLE_GRAD_OPERATOR_DESC. Its example has no offsets, and those that are usual give it only if halves
      are rounded down; here they are rounded up, as RESAMPLE1 does.
    """

    input_gradient: Input
    output_gradient: Output
    interpolation_mode: FieldMode
    scales: Numbers
    input_pixel_offsets: PixelOffsets
    output_pixel_offsets: PixelOffsets

    in_jax = "jax.vjp"
    support = levels(("5_1", RANKS, FLOATS), ("3_0", RANK_4, FLOATS), of="input_gradient")
    constraints = LAW

    def compute_checked(self, input_gradient: jax.Array) -> jax.Array:
        return _transpose_resample(self, input_gradient)


class ResampleGrad1Desc(OperatorDesc):
    """DML_RESAMPLE_GRAD1_OPERATOR_DESC: the gradient of RESAMPLE2.

    Args:
      input_gradient: the gradient of the output of RESAMPLE2; any sizes.
      output_gradient: the gradient of its input; any sizes. Elements that the output does not use have 0.
      scales: a positive number per dimension: how many elements of `input_gradient` there are for one.

    Example:
      >>> three, four = TensorDesc("FLOAT32", (1, 3)), TensorDesc("FLOAT32", (2, 2))
      >>> offsets = (0.5, 0.5), (-0.5, -0.5)
      >>> desc = ResampleGrad1Desc(three, four, "NEAREST_NEIGHBOR", "DECREASING", (0.5, 1.5), *offsets)
      >>> print(desc.compute(np.float32([[4, 5, 6]])))
      [[9. 6.]
       [0. 0.]]
    """

    input_gradient: Input
    output_gradient: Output
    interpolation_mode: FieldMode
    rounding_direction: RoundingDirection
    scales: Numbers
    input_pixel_offsets: PixelOffsets
    output_pixel_offsets: PixelOffsets

    in_jax = "jax.vjp"
    support = levels(("5_1", RANKS, FLOATS), of="input_gradient")
    constraints = LAW

    def compute_checked(self, input_gradient: jax.Array) -> jax.Array:
        return _transpose_resample(self, input_gradient)
