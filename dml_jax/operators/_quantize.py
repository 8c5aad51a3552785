"""QUANTIZE and DEQUANTIZE: quantisation by blocks, each with a scale and a zero point, to 4 bits and more."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Annotated

import jax

from ..core.rules import Law, Operands, Rule, custom, same_sizes
from ..core.structs.feature_level_tables import FLOATS, RANKS_1_TO_8, Support
from ..core.structs.field_types import Named, Row
from ..core.structs.fields import INPUT, Input, Output, counted_by, named
from ..core.structs.operator_desc import OperatorDesc
from ..core.tensors.data_type import DataType
from ..core.tensors.tensor_desc import TensorDesc
from ..errors import DataTypeError
from ..operations.values.accumulation_types import narrow_apart
from ._quantization import BYTES, dequantize, quantize

__all__ = ["DequantizeDesc", "QuantizeDesc"]


class QuantizationType(enum.IntEnum):
    """DML_QUANTIZATION_TYPE: which tensors quantise: none, a scale, or a scale and a zero point."""

    NONE = 0
    SCALE = 1
    SCALE_ZERO_POINT = 2


FieldType = Annotated[Named[QuantizationType], named(QuantizationType, "DML_QUANTIZATION_TYPE_")]
FieldTensors = Annotated[Row[TensorDesc], counted_by("QuantizationTensorCount", INPUT, "TensorDesc")]

_SMALL = (*BYTES, DataType.INT4, DataType.UINT4)


def _other_count(x: Operands) -> str | None:
    count, wanted = len(x["quantizations"]), int(x["quantization_type"])
    return None if count == wanted and wanted else f"there are {count} for {x['quantization_type'].name}"


_COUNTED = custom(
    "counted(quantizations)",
    "{quantizations} must be a scale for the {quantization_type} SCALE, a scale and a zero point for SCALE_ZERO_POINT",
    _other_count,
)


def _odd_blocks(x: Operands) -> str | None:
    sizes = x["input"].sizes
    for i, tensor in enumerate(x["quantizations"]):
        if any(n % k for n, k in zip(sizes, tensor.sizes, strict=False)):
            return f"of number {i} they are {tensor.sizes}, and those of the input {sizes}"
    return None


def _other_sizes(x: Operands) -> str | None:
    sizes = [tensor.sizes for tensor in x["quantizations"]]
    return None if len(set(sizes)) < 2 else f"they are {sizes[1]} and {sizes[0]}"


_BLOCKS = custom("blocks(quantizations)", "each of {quantizations}.{sizes} must divide that of {input}", _odd_blocks)
_ALIKE = custom("same_sizes(quantizations)", "all {quantizations} must have the same {sizes}", _other_sizes)


def _types(real: str, small: str) -> Rule:
    """The scale has the type of the floats, the zero point has the type of the integers; they decide the output's."""

    def broken_by(x: Operands) -> str | None:
        for i, (tensor, like) in enumerate(zip(x["quantizations"], (x[real], x[small]), strict=False)):
            if tensor.data_type != like.data_type:
                return f"of number {i} it is {tensor.data_type.name}, not {like.data_type.name}"
        return None

    number = (real, small).index("output")
    law = Law("output", "data_type", lambda x: dict(enumerate(t.data_type for t in x["quantizations"])).get(number))
    text = f"the {{dtype}} of the first of {{quantizations}} must be {{{real}}}'s, of the second {{{small}}}'s"
    return Rule("types(quantizations)", text, broken_by, DataTypeError, law)


def _given(quantizations: Sequence[jax.Array]) -> tuple[jax.Array, jax.Array | None]:
    """The scale and the zero point, if there is one."""
    scale, *zero_points = quantizations
    return scale, zero_points[0] if zero_points else None


class _BlockwiseDesc(OperatorDesc, is_base=True):
    """The base of both structs: blocks of `input` have a scale each, and perhaps a zero point."""

    input: Input
    quantization_type: FieldType
    quantizations: FieldTensors
    output: Output

    other_types = ("quantizations", "output")


class QuantizeDesc(_BlockwiseDesc):
    """DML_QUANTIZE_OPERATOR_DESC: makes integers of 4 or 8 bits of numbers, by blocks that have a scale each.

    output = clamp(round(input / scale) + zero_point), to the limits of the data type of `output`

    Args:
      quantizations: the scale, of the data type of `input`, then the zero point, of that of `output`. Their sizes
        divide those of `input`: of 6 elements, a size of 2 gives a scale to the first 3, and one to the others.
      output: the sizes of `input`; UINT4 and INT4 lie two in a byte, the first one in the low bits.

    Example:
      >>> scale = TensorDesc("FLOAT32", (2,))
      >>> desc = QuantizeDesc(TensorDesc("FLOAT32", (4,)), "SCALE", [scale], TensorDesc("INT4", (4,)))
      >>> print(compile_operator(desc)(np.float32([1, -3.5, 20, 900]), np.float32([0.5, 10])))
      [2 -7 2 7]

    Source: DML_QUANTIZE_OPERATOR_DESC. Its page gives types alone; blocks are those of ONNX Runtime.
    """

    in_jax = "jax.numpy.clip(jax.numpy.round(x / scale) + zero_point, low, high)"
    support = (Support.of("6_3", RANKS_1_TO_8, input=FLOATS, output=_SMALL),)
    constraints = (_COUNTED, _BLOCKS, _ALIKE, same_sizes("output", "input"), _types("input", "output"))

    def compute_checked(self, input: jax.Array, quantizations: Sequence[jax.Array]) -> jax.Array:
        scale, zero_point = _given(quantizations)
        return quantize(input, scale, zero_point, self.output.dtype)


class DequantizeDesc(_BlockwiseDesc):
    """DML_DEQUANTIZE_OPERATOR_DESC: makes numbers of integers of 4 or 8 bits, by blocks that have a scale each.

    output = (input - zero_point) * scale

    Args:
      input: any sizes; UINT4 and INT4 lie two in a byte, the first one in the low bits.
      quantizations: the scale, of the data type of `output`, then the zero point, of that of `input`; their blocks are
        those of `QuantizeDesc`.

    Example:
      >>> tensors = [TensorDesc("FLOAT32", (2,)), TensorDesc("UINT4", (2,))]
      >>> desc = DequantizeDesc(TensorDesc("UINT4", (4,)), "SCALE_ZERO_POINT", tensors, TensorDesc("FLOAT32", (4,)))
      >>> print(compile_operator(desc)(np.uint8([0x21, 0xF8]), np.float32([0.5, 2]), np.uint8([0x81])))
      [ 0.   0.5  0.  14. ]

    Source: DML_DEQUANTIZE_OPERATOR_DESC. Its page gives types alone; blocks are those of ONNX Runtime.
    """

    in_jax = "jax.numpy.subtract(q, zero_point) * scale"
    support = (Support.of("6_3", RANKS_1_TO_8, input=_SMALL, output=FLOATS),)
    constraints = (_COUNTED, _BLOCKS, _ALIKE, same_sizes("output", "input"), _types("output", "input"))

    def compute_checked(self, input: jax.Array, quantizations: Sequence[jax.Array]) -> jax.Array:
        scale, zero_point = _given(quantizations)
        return narrow_apart(dequantize(input, scale, zero_point), scale.dtype)
