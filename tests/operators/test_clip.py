"""clip, ELEMENT_WISE_CLIP and ELEMENT_WISE_CLIP1: numbers between two bounds, scaled and shifted before."""

import json
from functools import partial

import jax
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits, exported, refused_without_x64
from draws import dims
from operator_cases import Call, Example, Struct, f32, i64
from oracles import coordinates
from refusals import refuses
from small_arrays import every_small_shape, numbered, random_keys

from dml_jax import (
    ConstraintError,
    DataType,
    DataTypeError,
    ElementWiseClip1Desc,
    ElementWiseClipDesc,
    TensorDesc,
    clip,
    compile_operator,
)
from dml_jax.dxdispatch.model_file import read_model
from dml_jax.dxdispatch.run import run_model
from operators.test_identity import fill
from operators.test_identity import oracle as scaled

pytestmark = pytest.mark.device


def oracle(input, min=None, max=None, scale=None, bias=None):
    """One number after the other, the lower bound first. Bounds are rounded to the type of the numbers."""
    is_narrow = input.dtype.kind not in "iu" and input.dtype.itemsize < 4
    array = scaled(input.astype(np.float32) if is_narrow else input, scale, bias)
    output = np.empty_like(array)
    least, most = (None if bound is None else input.dtype.type(bound) for bound in (min, max))
    for c in coordinates(array.shape):
        x = array[c]
        x = least if least is not None and x < least else x
        output[c] = most if most is not None and x > most else x
    return output.astype(input.dtype)


X = numbered((3, 4)) - 6
CASE = Call(clip, {"input": X}, {"min": -2.5, "max": 3}, is_linear=False)
BREAKS = {"real(input)": {"input": X > 0, "min": 0, "max": 1}}
VARIANTS = {
    "below": {"min": None},
    "above": {"max": None},
    "scaled": {"scale": -2, "bias": 0.5},
    "bounds that cross": {"min": 2, "max": 1},
    "integers": {"input": np.int8([[100, -128], [3, -1]]), "min": -100, "max": 99},
    "scaled integers": {"input": np.uint8([[100, 128], [3, 1]]), "min": 5, "max": None, "scale": 2, "bias": 1},
    "float16": {"input": X.astype(np.float16), "min": 0.1, "max": np.float16(3)},
}


# The structs.


PAIRS = [None, None, (-1, 0), (3, 7), (0.5, 0), (1, -40)]


def draw(rng, low=-4):
    sizes = dims(rng, int(rng.integers(1, 9)))
    bounds = {"min": float(rng.integers(low, 9)), "max": float(rng.integers(3, 100))}
    return {"input": sizes, "output": sizes, "scale_bias": PAIRS[rng.integers(len(PAIRS))], **bounds}


def draw_of_every_type(rng):
    return draw(rng, 0)


def truncated(bound, dtype):
    """A FLOAT in the tensor's type: integers lose what follows the point, and end where the type does."""
    if dtype.kind == "f":
        return bound
    limits = np.iinfo(dtype)
    return min(max(int(bound), int(limits.min)), int(limits.max))


def expected(desc, x):
    """CLIP gives the upper one of bounds that cross."""
    pair = (float(desc.scale_bias.scale), float(desc.scale_bias.bias)) if desc.scale_bias else ()
    return oracle(x, truncated(desc.min, x.dtype), truncated(desc.max, x.dtype), *pair)


def expected1(desc, x):
    """And CLIP1 the lower one."""
    pair = (float(desc.scale_bias.scale), float(desc.scale_bias.bias)) if desc.scale_bias else ()
    return oracle(x, x.dtype.type(desc.min), x.dtype.type(max(desc.min, desc.max)), *pair)


def f16(*sizes):
    return TensorDesc("FLOAT16", sizes)


SAMPLE = ElementWiseClipDesc(f32(9), f32(9), None, -2.5, 2.5)
SAMPLE1 = ElementWiseClip1Desc(f16(5), f16(5), None, "FLOAT16", 2, 4)
TENSOR = f32(1, 1, 2, 3)
DESC = ElementWiseClipDesc(TENSOR, TENSOR, (2, 10), -1, 1)
DESC1 = ElementWiseClip1Desc(TENSOR, TENSOR, (2, 10), "FLOAT32", 1, 2)
SAME = {"same_sizes(output, input)": {"output": f32(1, 1, 3, 2)}}
STRUCTS = (
    Struct(
        DESC,
        breaks=SAME,
        examples=(Example(SAMPLE, [[-4, -3, -2, -1, 0, 1, 2, 3, 4]], [[-2.5, -2.5, -2, -1, 0, 1, 2, 2.5, 2.5]]),),
        draw=draw,
        expected=expected,
        fill=fill,
    ),
    Struct(
        DESC1,
        breaks={
            **SAME,
            "type_of(min_max_data_type, output)": {"min_max_data_type": DataType.INT32},
            "held(min, min_max_data_type)": {"min": -1e300},
            "held(max, min_max_data_type)": {"max": 1e300},
        },
        examples=(Example(SAMPLE1, [[1, 2, 3, 4, 5]], [[2, 2, 3, 4, 4]]),),
        draw=draw_of_every_type,
        expected=expected1,
        fill=fill,
    ),
)


def test_directmls_sample_in_place(tmp_path):
    tensor = {"DataType": "FLOAT32", "Sizes": [9]}
    desc = {"InputTensor": tensor, "OutputTensor": tensor, "Min": -2.5, "Max": 2.5}
    model = {
        "resources": {"A": {"initialValuesDataType": "FLOAT32", "initialValues": list(range(-4, 5))}},
        "dispatchables": {"clip": {"type": "DML_OPERATOR_ELEMENT_WISE_CLIP", "desc": desc}},
        "commands": [
            {"type": "dispatch", "dispatchable": "clip", "bindings": {"InputTensor": "A", "OutputTensor": "A"}},
            {"type": "print", "resource": "A"},
        ],
    }
    path, lines = tmp_path / "model.json", []
    path.write_text(json.dumps(model))
    run_model(read_model(path, output=None), jax.devices()[0], lines.append)
    assert lines[-1] == "Resource 'A': -2.5, -2.5, -2, -1, 0, 1, 2, 2.5, 2.5"


def test_bounds_that_cross():
    """They differ: CLIP gives Max, CLIP1 gives Min."""
    row, x = f32(3), np.float32([0, 1.5, 3])
    assert_same_bits(compile_operator(ElementWiseClipDesc(row, row, None, 2, 1))(x), np.float32([1, 1, 1]))
    assert_same_bits(compile_operator(ElementWiseClip1Desc(row, row, None, "FLOAT32", 2, 1))(x), np.float32([2, 2, 2]))


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("data_type", "bounds", "wanted"),
    [
        ("INT8", (-2.9, 2.9), [-2, -1, 0, 2]),
        ("INT8", (-np.inf, np.inf), [-128, -1, 0, 127]),
        ("INT8", (-1e9, 1e9), [-128, -1, 0, 127]),
        ("INT8", (np.nan, 100), [0, 0, 0, 100]),
        ("UINT8", (-5, 3.7), [3, 3, 0, 3]),
        ("FLOAT16", (-np.inf, 0.1), [-128, -1, 0, np.float16(0.1)]),
    ],
)
def test_bounds_of_clip_in_the_tensors_type(data_type, bounds, wanted):
    tensor = TensorDesc(data_type, (4,))
    x = np.array([-128, -1, 0, 127]).astype(tensor.dtype)
    made = compile_operator(ElementWiseClipDesc(tensor, tensor, None, *bounds))(x)
    assert_same_bits(made, np.array(wanted).astype(tensor.dtype))


def test_64_bit_numbers_need_x64_in_a_function_and_not_in_a_descriptor(x64):
    """CLIP1's bounds are exact, as no FLOAT is."""
    x, wanted = np.int64([2**53 + 2, -(2**63), 5]), np.int64([2**53 + 1, -(2**40) - 1, 5])
    tensor = i64(3)
    desc = ElementWiseClip1Desc(tensor, tensor, None, "INT64", -(2**40) - 1, 2**53 + 1)
    assert_same_bits(np.asarray(compile_operator(desc)(x)).view(np.int64), wanted)
    with refused_without_x64("input of type int64"):
        assert_same_bits(clip(x, -(2**40) - 1, 2**53 + 1), wanted)
        assert clip(np.float64([1 + 2.0**-40]), 0).item() == 1 + 2.0**-40


def test_bits_stand_for_numbers_in_clip1():
    """DirectML's union has no member for FLOAT16: its bits are those of a UInt16."""
    desc = ElementWiseClip1Desc(f16(2), f16(2), None, "FLOAT16", np.uint16(0x4000), np.uint16(0x4400))  # 2 and 4
    assert_same_bits(compile_operator(desc)(np.float16([1, 5])), np.float16([2, 4]))


test_what_the_struct_refuses = refuses(
    DESC,
    ({"min": "1"}, DataTypeError, "Min must be a real number, but it is '1'"),
    ({"scale_bias": 3}, DataTypeError, "ScaleBias must be a ScaleAndBias of scale and bias"),
    ({"output": f32(1, 1, 2, 4)}, ConstraintError, "OutputTensor.Sizes must equal InputTensor.Sizes"),
)


# Against the oracle.


@every_small_shape
def test_shapes(shapes):
    assert_calls_agree(
        (partial(clip, min=2, max=5, bias=-1), (numbered(shape),), oracle(numbered(shape), 2, 5, None, -1))
        for shape in [(), (0,), (2, 0), *shapes]
    )


def test_what_overflows_before_it_is_clipped_does_not():
    """131068 is out of float16's range."""
    assert_same_bits(clip(np.float16([65504]), scale=2, bias=-65504, max=65504), np.float16([65504]))


def test_without_bounds_nothing_changes():
    for x in (X, np.float32([np.inf, -np.inf]), np.uint32([0, 2**32 - 1]), np.int8([-128, 127])):
        assert_same_bits(clip(x), x)


def test_infinities_and_nan():
    x = np.float32([np.nan, np.inf, -np.inf])
    np.testing.assert_array_equal(clip(x, -1, 1), np.float32([np.nan, 1, -1]))
    np.testing.assert_array_equal(clip(x, -1, np.inf), np.float32([np.nan, np.inf, -1]))
    assert np.isnan(clip(X, np.nan, 1)).all()
    assert np.isnan(clip(X, -1, np.nan)).all()


# Transformations.


def test_gradients_are_zero_at_the_bounds_and_beyond():
    """As ELEMENT_WISE_CLIP_GRAD has it: only between them, times the scale."""
    x = np.float32([-3, -1, -0.5, 0, 1, 2])
    slopes = jax.jit(jax.grad(lambda x: clip(x, -1, 1).sum()))(x)
    assert_same_bits(slopes, np.float32([0, 0, 1, 1, 0, 0]))
    slopes = jax.jit(jax.grad(lambda x: clip(x, -1, 1, scale=2, bias=1).sum()))(x)
    assert_same_bits(slopes, np.float32([0, 0, 2, 0, 0, 0]))
    _, tangent = jax.jvp(lambda x: clip(x, -1, 1, scale=2), (x,), (np.ones_like(x),))
    assert_same_bits(tangent, np.float32([0, 0, 0, 2, 0, 0]))


def test_other_bounds_compile_nothing(compilations):
    clip(X, 0.25, 0.5)
    with compilations() as compiled:
        clip(X, 1, 2)
    assert not compiled


def test_symbolic_sizes_are_exported():
    assert_same_bits(exported(lambda x: clip(x, -2, 3), "n, m").call(X), oracle(X, -2, 3))


# Mistakes.


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ((3,), DataTypeError, "input must be an array"),
        ((X.astype(np.complex64), 0), DataTypeError, "must be an integer or floating-point type, but it is complex64"),
        ((random_keys(2),), DataTypeError, "it is key<fry>"),
        ((X, "1"), DataTypeError, "min must be a number, known while tracing, that float32 holds, but it is '1'"),
        ((X, [0, 1]), DataTypeError, "min must be a number"),
        ((np.int8([1]), 0, 300), DataTypeError, "max must be a number, .* that int8 holds, but it is 300"),
        ((np.int8([1]), 0.5), DataTypeError, "min must be a number, .* that int8 holds, but it is 0.5"),
        ((np.uint8([1]), -1), DataTypeError, "that uint8 holds, but it is -1"),
        ((X, 10**400), DataTypeError, "min must be a number"),
    ],
)
def test_what_is_refused(arguments, error, match):
    with pytest.raises(error, match=match):
        clip(*arguments)


def test_a_traced_bound_of_another_type_is_refused():
    with pytest.raises(DataTypeError, match="max must be a number, known while tracing"):
        jax.jit(lambda most: clip(X, 0, most))(1)
    with pytest.raises(DataTypeError, match="scale must be a real number"):
        clip(X, scale="2")
