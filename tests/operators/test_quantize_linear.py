"""QUANTIZE_LINEAR, DEQUANTIZE_LINEAR and related structs: integers by a scale and a zero point."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from checks import assert_same_bits
from draws import dims
from operator_cases import Example, Struct, f32, i8, u8, u32
from quantization_cases import dequantized, fill, quantized
from refusals import refuses

from dml_jax import ConstraintError, DataTypeError, TensorDesc, compile_operator
from dml_jax.descs import (
    DynamicQuantizeLinearDesc,
    ElementWiseDequantizeLinearDesc,
    ElementWiseQuantizedLinearAddDesc,
    ElementWiseQuantizeLinearDesc,
)
from dml_jax.operations.values.xla_workarounds import divide
from dml_jax.operators._quantization import quantize

pytestmark = pytest.mark.device


def draw(rng):
    sizes = dims(rng, int(rng.integers(1, 9)))
    return {"input": sizes, "scale": sizes, "zero_point": sizes if rng.random() < 0.7 else None, "output": sizes}


def draw_dynamic(rng):
    sizes = dims(rng, int(rng.integers(1, 9)))
    one = (1,) * len(sizes)
    return {"input": sizes, "output": sizes, "output_scale": one, "output_zero_point": one}


def draw_sum(rng):
    sizes = dims(rng, int(rng.integers(1, 9)))
    drawn = {"a": sizes, "b": sizes, "output": sizes}
    for name in ("a", "b", "output"):
        drawn |= {f"{name}_scale": (1,) * int(rng.integers(1, 5))}
        drawn |= {f"{name}_zero_point": (1,) * int(rng.integers(1, 5)) if rng.random() < 0.7 else None}
    return drawn


def real(desc, q, scale, zero_point):
    with np.errstate(over="ignore"):
        return dequantized(q, scale, zero_point).astype(scale.dtype)


@np.errstate(all="ignore")
def dynamic(desc, x):
    """In float32, from the extremes of all elements and 0."""
    dtype = desc.output.dtype
    limits, numbers = np.iinfo(dtype), [np.float32(n) for n in x.ravel()]
    low, high = min(0, *numbers), max(0, *numbers)
    scale = (np.float32(high) - np.float32(low)) / np.float32(255)
    scale = scale if scale else np.float32(1)
    zero_point = min(max(round(float(np.float32(limits.min) - low / scale)), limits.min), limits.max)
    scale, zero_point = np.array([scale]), np.array([zero_point], dtype)
    return quantized(x, scale, zero_point, dtype), scale, zero_point


def finite(rng, port, tensor, count):
    """The range of infinities is none."""
    return np.zeros(count, tensor.dtype) if rng.random() < 0.1 else (rng.normal(size=count) * 9).astype(tensor.dtype)


@np.errstate(all="ignore")
def total(desc, a, a_scale, a_zero_point, b, b_scale, b_zero_point, scale, zero_point):
    real = dequantized(a, a_scale, a_zero_point) + dequantized(b, b_scale, b_zero_point)
    return quantized(real, scale, zero_point, desc.output.dtype)


NUMBERS = [0.5, 1.5, 2.5, -0.5, -1.5, 300, -300, 254.5, -126.5]
NINE, FOUR, THREE = (1, 1, 3, 3), (1, 1, 1, 4), (1, 1, 1, 3)
UNSIGNED = ElementWiseQuantizeLinearDesc(f32(*NINE), f32(*NINE), u8(*NINE), u8(*NINE))
SIGNED = ElementWiseQuantizeLinearDesc(f32(*NINE), f32(*NINE), i8(*NINE), i8(*NINE))
REAL = ElementWiseDequantizeLinearDesc(u8(*FOUR), f32(*FOUR), u8(*FOUR), f32(*FOUR))
DYNAMIC = DynamicQuantizeLinearDesc(f32(*FOUR), u8(*FOUR), f32(1, 1, 1, 1), u8(1, 1, 1, 1))
ONE, U1, I1 = f32(1, 1, 1, 1), u8(1, 1, 1, 1), i8(1, 1, 1, 1)
SUM = ElementWiseQuantizedLinearAddDesc(u8(*THREE), ONE, U1, u8(*THREE), ONE, U1, ONE, U1, u8(*THREE))
SMALL, WIDE = f32(1, 1, 1, 1), f32(1, 1, 1, 2)
STRUCTS = (
    Struct(
        UNSIGNED,
        breaks={
            "same_sizes(scale, input)": {"scale": SMALL},
            "same_sizes(zero_point, input)": {"zero_point": U1},
            "same_sizes(output, input)": {"output": U1},
            "type_of(scale)": {"scale": TensorDesc("FLOAT16", NINE)},
            "same_dtype(zero_point, output)": {"zero_point": i8(*NINE)},
        },
        # DirectML's page has none; ONNX Runtime gives these.
        examples=(
            Example(UNSIGNED, [NUMBERS, [1] * 9, [1] * 9], [[1, 3, 3, 1, 0, 255, 0, 255, 0]]),
            Example(SIGNED, [NUMBERS, [1] * 9, [1] * 9], [[1, 3, 3, 1, -1, 127, -128, 127, -125]]),
        ),
        draw=draw,
        expected=lambda desc, x, scale, zero_point: quantized(x, scale, zero_point, desc.output.dtype),
        fill=fill,
        typed=lambda types: {
            "scale": "FLOAT32" if types["input"] == "INT32" else types["input"],
            "zero_point": types["output"],
        },
    ),
    Struct(
        REAL,
        breaks={
            "same_sizes(scale, input)": {"scale": SMALL},
            "same_sizes(zero_point, input)": {"zero_point": U1},
            "same_sizes(output, input)": {"output": ONE},
            "same_dtype(scale, output)": {"output": TensorDesc("FLOAT16", FOUR)},
        },
        examples=(Example(REAL, [[0, 127, 128, 255], [0.5, 0.5, 2, 2], [128] * 4], [[-64, -0.5, 0, 254]]),),
        draw=draw,
        expected=real,
        fill=fill,
        typed=lambda types: {"output": types["scale"]},
    ),
    Struct(
        DYNAMIC,
        breaks={
            "same_sizes(output, input)": {"output": U1},
            "sizes_follow(output_scale)": {"output_scale": WIDE},
            "sizes_follow(output_zero_point)": {"output_zero_point": u8(1, 1, 1, 2)},
            "same_dtype(output, output_zero_point)": {"output_zero_point": I1},
        },
        examples=(
            Example(DYNAMIC, [[0, 51, 102, 255]], [[0, 51, 102, 255], [1], [0]]),
            # The range has 0, and 1 is the scale of nothing else.
            Example(DYNAMIC, [[0, 0, 0, 0]], [[0, 0, 0, 0], [1], [0]]),
            Example(DYNAMIC, [[-127.5, -100, -50, 0]], [[0, 55, 155, 255], [0.5], [255]]),
        ),
        draw=draw_dynamic,
        expected=dynamic,
        fill=finite,
        typed=lambda types: {"output_zero_point": types["output"]},
    ),
    Struct(
        SUM,
        breaks={
            "same_sizes(b, a)": {"b": u8(1, 1, 1, 2)},
            "same_sizes(output, a)": {"output": u8(1, 1, 1, 2)},
            **{f"sizes({name}_scale)": {f"{name}_scale": WIDE} for name in ("a", "b", "output")},
            **{f"sizes({name}_zero_point)": {f"{name}_zero_point": u8(2)} for name in ("a", "b", "output")},
            **{f"same_dtype({name}_zero_point, {name})": {f"{name}_zero_point": I1} for name in ("a", "b", "output")},
        },
        # That of ONNX Runtime.
        examples=(
            Example(SUM, [[200, 3, 128], [0.5], [128], [1, 250, 127], [0.25], [128], [0.5], [100]], [[108, 36, 100]]),
        ),
        draw=draw_sum,
        expected=total,
        fill=fill,
        typed=lambda types: {f"{name}_zero_point": types[name] for name in ("a", "b", "output")},
    ),
)


def test_what_no_integer_holds():
    """Infinities are limits; NaN is 0, whatever the zero point."""
    x, ones = np.float32([np.inf, -np.inf, np.nan, 3e38, -3e38]), np.ones(5, np.float32)
    for tensor, wanted in ((u8(5), [255, 0, 0, 255, 0]), (i8(5), [127, -128, 0, 127, -128])):
        desc = ElementWiseQuantizeLinearDesc(f32(5), f32(5), tensor, tensor)
        assert_same_bits(desc.compute(x, ones, np.full(5, 9, tensor.dtype)), np.array(wanted, tensor.dtype))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
def test_every_half_within_twice_the_limits(dtype):
    """Halves are rounded to even before the zero point is added."""
    low, high = (int(limit) for limit in (np.iinfo(dtype).min, np.iinfo(dtype).max))
    x, one = np.arange(4 * low - 9, 4 * high + 9).astype(np.float32) / 2, np.ones(1, np.float32)
    for zero_point in (low, 0, 3, high):
        wanted = np.clip(np.round(x.astype(np.float64)) + zero_point, low, high).astype(dtype)
        rounded = jax.jit(quantize, static_argnums=3)(x, one, np.full(1, zero_point, dtype), dtype)
        assert_same_bits(rounded, wanted)


def test_halves_stay_halves_by_a_scale_that_is_broadcast():
    """XLA would multiply with the reciprocal: 12.5 is then more than a half."""
    x, scale = np.float32([2.734375, -2.734375, 8.25, 765]), np.float32([0.21875])
    desc = ElementWiseQuantizeLinearDesc(f32(4), f32(4, strides=(0,)), None, i8(4))
    assert_same_bits(compile_operator(desc)(x, scale), np.int8([12, -12, 38, 127]))
    assert_same_bits(desc.compute(x, np.full(4, 0.21875, np.float32)), np.int8([12, -12, 38, 127]))


def test_quotients_are_rounded_once():
    x, divisor = np.random.default_rng(0).normal(size=(2, 2**16)).astype(np.float32) ** 3
    special = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1e30, 1])
    for a, b in ((x, divisor), (x, divisor[:1]), (special[:, None], special[None])):
        with np.errstate(all="ignore"):
            wanted = a / b
        np.testing.assert_array_equal(jax.jit(divide)(a, b), wanted)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_quotients_keep_their_type_on_every_platform(dtype):
    x = np.ones(4, dtype)
    with jax.enable_x64(True):
        exported = jax.export.export(jax.jit(lambda x: divide(x, 3)), platforms=["cpu", "cuda", "tpu"])(x)
    assert [one.dtype for one in exported.out_avals] == [dtype]


def test_a_difference_wraps_in_32_bits():
    tensor = u32(3)
    desc = ElementWiseDequantizeLinearDesc(tensor, f32(3), tensor, f32(3))
    q, zero_point = np.uint32([5, 2**31 + 1, 2**32 - 1]), np.uint32([10, 1, 1])
    assert_same_bits(desc.compute(q, np.ones(3, np.float32), zero_point), np.float32([-5, -(2**31), -2]))


def test_the_zero_point_may_be_left_out_from_a_feature_level_on():
    for desc in (
        ElementWiseQuantizeLinearDesc(f32(*NINE), f32(*NINE), None, u8(*NINE)),
        ElementWiseDequantizeLinearDesc(u8(*NINE), f32(*NINE), None, f32(*NINE)),
    ):
        desc.validate("6_2")
        match = "ZeroPointTensor must be given below feature level 6_2, but it is left out"
        with pytest.raises(ConstraintError, match=match):
            desc.validate("6_1")


test_mistakes_are_named = refuses(
    UNSIGNED,
    ({"input": f32(9)}, ConstraintError, r"ScaleTensor.DimensionCount must equal InputTensor.DimensionCount"),
    (
        {"input": TensorDesc("INT32", NINE), "scale": TensorDesc("FLOAT16", NINE)},
        DataTypeError,
        "ScaleTensor.DataType must be InputTensor's, or FLOAT32 if that is INT32, but it is FLOAT16 and should be",
    ),
    ({"zero_point": i8(*NINE)}, DataTypeError, "ZeroPointTensor.DataType must equal OutputTensor.DataType"),
    ({"zero_point": None, "output": f32(*NINE)}, DataTypeError, "OutputTensor.DataType must be one of INT8, UINT8"),
    says="^ELEMENT_WISE_QUANTIZE_LINEAR: ",
)


def test_a_sum_has_one_scale():
    match = r"AScaleTensor.Sizes must be 1, but they are \(1, 1, 1, 2\)"
    with pytest.raises(ConstraintError, match=match):
        replace(SUM, a_scale=WIDE)
