"""AVERAGE_POOLING_GRAD and MAX_POOLING_GRAD: the gradients of pooling."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..core.rules import same_sizes
from ..core.sharding import Dims, on_any_mesh
from ..core.structs.feature_level_tables import FLOATS, RANK_4, RANKS_4_TO_5, levels
from ..core.structs.fields import Bool, Input, Output
from ..core.structs.operator_desc import OperatorDesc
from ..operations.values.accumulation_types import narrow_apart, wide_type
from ._average_pooling import average_pooling
from ._max_pooling import max_pooling
from ._pooling_rules import pooled, pooling_struct_rules
from ._sliding_windows import Dilations, EndPadding, StartPadding, Strides, WindowSize

__all__ = ["AveragePoolingGradDesc", "MaxPoolingGradDesc"]


def _names(of: str, count: int) -> list[str]:
    """Returns names of dimensions: N, C, and a name for each dimension of windows or of pixels."""
    return ["N", "C", *(f"{of} {d}" for d in range(count))]


class AveragePoolingGradDesc(OperatorDesc):
    """DML_AVERAGE_POOLING_GRAD_OPERATOR_DESC: spreads the gradient of each mean over its window.

    Args:
      input_gradient: (N, C, the windows along each spatial dimension): the gradient of the output of AVERAGE_POOLING.
      output_gradient: (N, C, H, W), or (N, C, D, H, W): the gradient of its input.
      include_padding: whether padding counts in the mean, as zeros.

    Example:
      >>> descs.AveragePoolingGradDesc(
      ...     input_gradient=TensorDesc("FLOAT32", (1, 1, 1, 2)), output_gradient=TensorDesc("FLOAT32", (1, 1, 1, 3)),
      ...     strides=(1, 1), window_size=(1, 2), start_padding=(0, 0), end_padding=(0, 0), include_padding=False,
      ... ).compute(np.float32([[[[2, 4]]]])).ravel()
      Array([1., 3., 2.], dtype=float32)
    """

    input_gradient: Input
    output_gradient: Output
    strides: Strides
    window_size: WindowSize
    start_padding: StartPadding
    end_padding: EndPadding
    include_padding: Bool

    in_jax = "jax.vjp of dml_jax.average_pooling"
    support = levels(("3_0", RANKS_4_TO_5, FLOATS), of="input_gradient")
    constraints = pooling_struct_rules(dilated=False, image="output_gradient", windowed="input_gradient")

    def compute_checked(self, input_gradient: jax.Array) -> jax.Array:
        def back(input_gradient: jax.Array) -> jax.Array:
            image = jnp.zeros(self.output_gradient.sizes, input_gradient.dtype)
            _, back = jax.vjp(lambda x: pooled(average_pooling, self, x, include_padding=self.include_padding), image)
            return back(input_gradient)[0]

        of_windows, of_pixels = _names("window", len(self.strides)), _names("pixel", len(self.strides))
        dims = Dims({"input_gradient": of_windows}, of_pixels)
        return on_any_mesh(self.operator_type, back, dims, input_gradient=input_gradient)


class MaxPoolingGradDesc(OperatorDesc):
    """DML_MAX_POOLING_GRAD_OPERATOR_DESC: adds the gradient of each maximum to the element that it is.

    Args:
      input: (N, C, H, W), or (N, C, D, H, W): the input of MAX_POOLING2.
      input_gradient: (N, C, the windows along each spatial dimension): the gradient of its output.
      output_gradient: the sizes of `input`: the gradient of the input.

    Example:
      >>> descs.MaxPoolingGradDesc(
      ...     input=TensorDesc("FLOAT32", (1, 1, 1, 3)), input_gradient=TensorDesc("FLOAT32", (1, 1, 1, 2)),
      ...     output_gradient=TensorDesc("FLOAT32", (1, 1, 1, 3)), strides=(1, 1), window_size=(1, 2),
      ...     start_padding=(0, 0), end_padding=(0, 0), dilations=(1, 1),
      ... ).compute(np.float32([[[[1, 5, 5]]]]), np.float32([[[[2, 4]]]])).ravel()
      Array([0., 6., 0.], dtype=float32)

    Source: DML_MAX_POOLING_GRAD_OPERATOR_DESC. Among equal elements the first one of the window gets the gradient.
    """

    input: Input
    input_gradient: Input
    output_gradient: Output
    strides: Strides
    window_size: WindowSize
    start_padding: StartPadding
    end_padding: EndPadding
    dilations: Dilations

    in_jax = "jax.vjp of dml_jax.max_pooling"
    support = levels(("4_0", RANKS_4_TO_5, FLOATS), ("3_0", RANK_4, FLOATS))
    constraints = (
        *pooling_struct_rules(dilated=True, windowed="input_gradient"),
        same_sizes("output_gradient", "input"),
    )

    def compute_checked(self, input: jax.Array, input_gradient: jax.Array) -> jax.Array:
        def back(input: jax.Array, input_gradient: jax.Array) -> jax.Array:
            wide = wide_type(input.dtype)
            _, back = jax.vjp(lambda x: pooled(max_pooling, self, x)[0], input.astype(wide))
            return narrow_apart(back(input_gradient.astype(wide))[0], input.dtype)

        of_windows, of_pixels = _names("window", len(self.strides)), _names("pixel", len(self.strides))
        dims = Dims({"input": of_pixels, "input_gradient": of_windows}, of_pixels)
        return on_any_mesh(self.operator_type, back, dims, input=input, input_gradient=input_gradient)
