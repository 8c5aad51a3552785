"""ELEMENT_WISE_QUANTIZE_LINEAR, DEQUANTIZE_LINEAR and QUANTIZED_LINEAR_ADD, and DYNAMIC_QUANTIZE_LINEAR."""

from __future__ import annotations

from typing import Any

import jax

from ..core.rules import Operands, Rule, custom, if_given, same_sizes, sizes_follow
from ..core.structs.feature_level_tables import FLOATS, RANK_4, RANKS_1_TO_8, Support
from ..core.structs.fields import Input, OptionalInput, Output
from ..core.structs.operator_desc import OperatorDesc, SeveralOutputs
from ..core.tensors.data_type import DataType
from ..errors import DataTypeError
from ..operations.values.accumulation_types import narrow_apart
from ._quantization import (
    BYTES,
    INTEGERS,
    REAL,
    add_quantized,
    below,
    dequantize,
    dynamically_quantize,
    parameters_of,
    quantize,
    rules_of,
    same_type,
    scales_of,
)

__all__ = [
    "DynamicQuantizeLinearDesc",
    "ElementWiseDequantizeLinearDesc",
    "ElementWiseQuantizeLinearDesc",
    "ElementWiseQuantizedLinearAddDesc",
]


def _other_scale(x: Operands) -> str | None:
    wanted = DataType.FLOAT32 if x["input"].data_type == DataType.INT32 else x["input"].data_type
    return None if x["scale"].data_type == wanted else f"it is {x['scale'].data_type.name} and should be {wanted.name}"


_TYPE_OF_SCALE = Rule(
    "type_of(scale)", "{scale}.{dtype} must be {input}'s, or FLOAT32 if that is INT32", _other_scale, DataTypeError
)
_SIZES = (
    same_sizes("scale", "input"),
    if_given("zero_point", same_sizes("zero_point", "input")),
    same_sizes("output", "input"),
)


class _ByScaleDesc(OperatorDesc, is_base=True):
    """The base of quantising and of dequantising by a scale and a zero point."""

    input: Input
    scale: Input
    zero_point: OptionalInput
    output: Output

    lifted = (
        below(
            "6_2",
            custom(
                "given(zero_point)",
                "{zero_point} must be given",
                lambda x: "it is left out" if x["zero_point"] is None else None,
            ),
        ),
    )


class ElementWiseQuantizeLinearDesc(_ByScaleDesc):
    """DML_ELEMENT_WISE_QUANTIZE_LINEAR_OPERATOR_DESC: makes integers of numbers, as multiples of a scale.

    output = clamp(round(input / scale) + zero_point), to the limits of the data type of `output`

    Args:
      scale: the sizes of `input`, often broadcast by strides of 0; its data type, or FLOAT32 if that is INT32.
      zero_point: the same sizes, the data type of `output`; or None, which is 0.
      output: the same sizes.

    Example:
      >>> real, byte = TensorDesc("FLOAT32", (5,)), TensorDesc("UINT8", (5,))
      >>> desc = ElementWiseQuantizeLinearDesc(real, TensorDesc("FLOAT32", (5,), (0,)), None, byte)
      >>> print(desc.compute(np.float32([1, 3, 5, -8, 999]), np.full(5, 2, np.float32)))
      [  0   2   2   0 255]

    Source: DML_ELEMENT_WISE_QUANTIZE_LINEAR_OPERATOR_DESC, which does not say how halves are rounded.
    """

    in_jax = "jax.numpy.clip(jax.numpy.round(x / scale) + zero_point, low, high)"
    other_types = ("scale", "zero_point", "output")
    support = (
        Support.of("6_0", RANKS_1_TO_8, input=(*FLOATS, DataType.INT32), output=BYTES),
        Support.of("3_0", RANKS_1_TO_8, input=(*REAL, DataType.INT32), output=BYTES),
        Support.of("2_1", RANK_4, input=(*REAL, DataType.INT32), output=BYTES),
        Support.of("1_0", RANK_4, input=REAL, output=(DataType.UINT8,)),
    )
    constraints = (*_SIZES, _TYPE_OF_SCALE, same_type("zero_point", "output"))

    def compute_checked(self, input: jax.Array, scale: jax.Array, zero_point: jax.Array | None = None) -> jax.Array:
        return quantize(input, scale, zero_point, self.output.dtype)


class ElementWiseDequantizeLinearDesc(_ByScaleDesc):
    """DML_ELEMENT_WISE_DEQUANTIZE_LINEAR_OPERATOR_DESC: makes numbers of integers, as multiples of a scale.

    output = (input - zero_point) * scale

    Args:
      scale: the sizes of `input`, often broadcast by strides of 0.
      zero_point: the same sizes, the data type of `input`; or None, which is 0.
      output: the same sizes, the data type of `scale`.

    Example:
      >>> byte, real = TensorDesc("UINT8", (3,)), TensorDesc("FLOAT32", (3,))
      >>> desc = ElementWiseDequantizeLinearDesc(byte, real, byte, real)
      >>> print(desc.compute(np.uint8([0, 128, 255]), np.full(3, 0.5, np.float32), np.full(3, 128, np.uint8)))
      [-64.    0.   63.5]
    """

    in_jax = "jax.numpy.subtract(q, zero_point) * scale"
    other_types = ("scale", "output")
    support = (
        Support.of("6_0", RANKS_1_TO_8, input=INTEGERS, scale=FLOATS),
        Support.of("3_0", RANKS_1_TO_8, input=INTEGERS, scale=REAL),
        Support.of("2_1", RANK_4, input=INTEGERS, scale=REAL),
        Support.of("1_0", RANK_4, input=(DataType.UINT8,), scale=REAL),
    )
    constraints = (*_SIZES, same_type("scale", "output"))

    def compute_checked(self, input: jax.Array, scale: jax.Array, zero_point: jax.Array | None = None) -> jax.Array:
        return narrow_apart(dequantize(input, scale, zero_point), scale.dtype)


def _ones(x: Operands) -> tuple[int, ...]:
    return (1,) * len(x["input"].sizes)


class DynamicQuantizeLinearDesc(SeveralOutputs):
    """DML_DYNAMIC_QUANTIZE_LINEAR_OPERATOR_DESC: makes integers of numbers by the least scale that holds them all.

    With low and high, the least and the greatest of all elements and 0, and those that the integers hold:
    output_scale = (high - low) / (greatest - least); output_zero_point = clamp(round(least - low / output_scale));
    output = clamp(round(input / output_scale) + output_zero_point). The scale of zeros alone is 1.

    Args:
      output_scale: FLOAT32, one element.
      output_zero_point: the data type of `output`, one element.

    Example:
      >>> real, byte, one = TensorDesc("FLOAT32", (4,)), TensorDesc("UINT8", (4,)), TensorDesc("FLOAT32", (1,))
      >>> desc = DynamicQuantizeLinearDesc(real, byte, one, TensorDesc("UINT8", (1,)))
      >>> for array in desc.compute(np.float32([-1, 0, 1, 2])):
      ...     print(array)
      [  0  85 170 255]
      [0.01176471]
      [85]

    Source: DML_DYNAMIC_QUANTIZE_LINEAR_OPERATOR_DESC, which does not say that the range has 0 and the zero point is
      rounded; ONNX does, of an operator that is run by this one.
    """

    input: Input
    output: Output
    output_scale: Output
    output_zero_point: Output

    in_jax = "jax.numpy.min, max, round and clip"
    other_types = ("output", "output_scale", "output_zero_point")
    support = (Support.of("4_0", RANKS_1_TO_8, input=FLOATS, output=BYTES, output_scale=REAL),)
    constraints = (
        same_sizes("output", "input"),
        sizes_follow("output_scale", _ones, "1 each"),
        sizes_follow("output_zero_point", _ones, "1 each"),
        same_type("output", "output_zero_point"),
    )

    def compute_checked(self, input: jax.Array) -> tuple[jax.Array, ...]:
        output, scale, zero_point = dynamically_quantize(input, self.output.dtype)
        return output, scale.reshape(self.output_scale.sizes), zero_point.reshape(self.output_zero_point.sizes)


_TERMS = ("a", "b", "output")


class ElementWiseQuantizedLinearAddDesc(OperatorDesc):
    """DML_ELEMENT_WISE_QUANTIZED_LINEAR_ADD_OPERATOR_DESC: adds two arrays of quantised numbers.

    output = quantize((a - a_zero_point) * a_scale + (b - b_zero_point) * b_scale), by the scale and the zero point of
    the output, as ELEMENT_WISE_QUANTIZE_LINEAR has it.

    Args:
      a_scale: FLOAT32, one element.
      a_zero_point: the data type of `a`, one element; or None, which is 0.
      b_scale: FLOAT32, one element.
      b_zero_point: the data type of `b`, one element; or None.
      output_scale: FLOAT32, one element.
      output_zero_point: the data type of `output`, one element; or None.

    Example:
      >>> byte, one = TensorDesc("INT8", (3,)), TensorDesc("FLOAT32", (1,))
      >>> desc = ElementWiseQuantizedLinearAddDesc(byte, one, None, byte, one, None, one, None, byte)
      >>> half, unit = np.float32([0.5]), np.float32([1])
      >>> print(desc.compute(np.int8([10, 20, 100]), half, np.int8([1, 2, 100]), unit, unit))
      [  6  12 127]
    """

    a: Input
    a_scale: Input
    a_zero_point: OptionalInput
    b: Input
    b_scale: Input
    b_zero_point: OptionalInput
    output_scale: Input
    output_zero_point: OptionalInput
    output: Output

    in_jax = "jax.numpy.round(((a - za) * sa + (b - zb) * sb) / scale) + zero_point"
    other_types = (*parameters_of(*_TERMS), "b", "output")
    other_ranks = parameters_of(*_TERMS)
    support = (
        Support.of("4_0", RANKS_1_TO_8, a=BYTES, b=BYTES, output=BYTES, **dict.fromkeys(scales_of(*_TERMS), REAL)),
    )
    constraints = (
        same_sizes("b", "a"),
        same_sizes("output", "a"),
        *(rule for term in _TERMS for rule in rules_of(term)),
    )

    def compute_checked(self, **arrays: Any) -> jax.Array:
        return add_quantized(**arrays, dtype=self.output.dtype)
