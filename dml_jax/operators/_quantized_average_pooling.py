"""QUANTIZED_LINEAR_AVERAGE_POOLING: the mean of each window of quantised numbers."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..core.structs.feature_level_tables import RANKS_4_TO_5, Support
from ..core.structs.fields import Bool, Input, OptionalInput
from ..core.structs.operator_desc import OperatorDesc
from ..operations.values.xla_workarounds import divide
from ._average_pooling import sums_and_counts
from ._pooling_rules import Image, Pooled, pooling_struct_rules
from ._quantization import BYTES, REAL, PerAxis, centred, parameters_of, quantize, rules_of, scales_of, spread, unfused
from ._sliding_windows import Dilations, EndPadding, StartPadding, Strides, WindowSize, attributes_of, sliding

__all__ = ["QuantizedLinearAveragePoolingDesc"]

_CHANNELS = PerAxis(1, "input", 1, "channels")
_TENSORS = ("input", "output")


class QuantizedLinearAveragePoolingDesc(OperatorDesc):
    """DML_QUANTIZED_LINEAR_AVERAGE_POOLING_OPERATOR_DESC: makes the mean of each window of quantised numbers.

    output = quantize(the sum of (input - input_zero_point) in a window * input_scale / the count of its elements); the
    sum is exact in 32 bits, and the rest is float32. Padding is the number 0.

    Args:
      input_scale: FLOAT32, one element, or one for each channel, (1, C, 1, 1).
      input_zero_point: as `input_scale`, but with the data type of `input`; or None, which is 0.
      output_scale: FLOAT32, one element, or one for each channel.
      output_zero_point: as `output_scale`, but with the data type of `output`; or None.
      include_padding: whether padding counts.

    Example:
      >>> one, byte = TensorDesc("FLOAT32", (1,)), TensorDesc("UINT8", (1,))
      >>> desc = QuantizedLinearAveragePoolingDesc(
      ...     TensorDesc("UINT8", (1, 1, 2, 4)), one, byte, one, None, TensorDesc("UINT8", (1, 1, 1, 2)),
      ...     strides=(2, 2), window_size=(2, 2), start_padding=(0, 0), end_padding=(0, 0), dilations=(1, 1),
      ...     include_padding=False,
      ... )
      >>> pixels = np.uint8([[[[13, 15, 17, 11], [19, 14, 12, 18]]]])
      >>> print(desc.compute(pixels, np.float32([2]), np.uint8([10]), np.float32([0.5])))
      [[[[21 18]]]]

    Source: DML_QUANTIZED_LINEAR_AVERAGE_POOLING_OPERATOR_DESC. Its page leaves Dilations out of the formula of the
      output's sizes; a window spans Dilations * (WindowSize - 1) + 1 elements here.
    """

    input: Image
    input_scale: Input
    input_zero_point: OptionalInput
    output_scale: Input
    output_zero_point: OptionalInput
    output: Pooled
    strides: Strides
    window_size: WindowSize
    start_padding: StartPadding
    end_padding: EndPadding
    dilations: Dilations
    include_padding: Bool

    in_jax = "jax.lax.reduce_window(q - zero_point, 0, jax.lax.add, ...), scaled, rounded and clipped"
    other_types = (*parameters_of(*_TENSORS), "output")
    other_ranks = parameters_of(*_TENSORS)
    support = (
        Support.of("6_2", RANKS_4_TO_5, **dict.fromkeys(_TENSORS, BYTES), **dict.fromkeys(scales_of(*_TENSORS), REAL)),
    )
    constraints = (
        *pooling_struct_rules(dilated=True),
        *(rule for tensor in _TENSORS for rule in rules_of(tensor, _CHANNELS, 5)),
    )

    def compute_checked(
        self,
        input: jax.Array,
        input_scale: jax.Array,
        input_zero_point: jax.Array | None,
        output_scale: jax.Array,
        output_zero_point: jax.Array | None,
    ) -> jax.Array:
        windows = sliding(input.shape, self.window_size, *attributes_of(self).values())
        total, count = sums_and_counts(centred(input, input_zero_point), windows, self.include_padding)
        real = total.astype(jnp.float32) * spread(input_scale, total.shape)
        mean = unfused(divide(real, count.astype(jnp.float32)))
        return quantize(mean, output_scale, output_zero_point, self.output.dtype)
