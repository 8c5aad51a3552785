"""identity and ELEMENT_WISE_IDENTITY: a copy of bits, or input * scale + bias."""

import json
from functools import partial

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits
from draws import dims
from operator_cases import Call, Example, Struct, f32
from oracles import coordinates
from refusals import refuses
from small_arrays import (
    every_small_shape,
    numbered,
    random_keys,
)

from dml_jax import (
    CompiledOperator,
    ConstraintError,
    DataTypeError,
    ElementWiseIdentityDesc,
    compile_operator,
    identity,
)
from dml_jax.dxdispatch.faults import ModelError
from dml_jax.dxdispatch.model_file import read_model
from dml_jax.dxdispatch.run import run_model
from operators.test_cast import oracle as converted

pytestmark = pytest.mark.device


def oracle(input, scale=None, bias=None):
    if scale is None and bias is None:
        return input.copy()
    scale, bias = 1 if scale is None else scale, 0 if bias is None else bias
    is_integer = input.dtype.kind in "iu"
    if is_integer and scale == int(scale) and bias == int(bias):
        limits, output = np.iinfo(input.dtype), np.empty_like(input)
        for c in coordinates(input.shape):
            whole = input[c].item() * int(scale) + int(bias)
            output[c] = (whole - int(limits.min)) % 2**limits.bits + int(limits.min)
        return output
    wide = input.dtype if input.dtype.itemsize >= 4 and not is_integer else np.dtype(np.float32)
    computed = converted(input, wide) if is_integer else input.astype(wide)
    return converted(computed * wide.type(scale) + wide.type(bias), input.dtype)


X = numbered((4, 6))
CASE = Call(identity, {"input": X})
BREAKS = {"numbers(input)": {"input": X > 3, "scale": 2}}
VARIANTS = {
    "scaled": {"scale": 2, "is_linear": False},  # exactly, but its derivatives are not 0 and 1
    "shifted": {"bias": -3, "is_linear": False},
    "integers": {"input": np.int8([[100, -128], [3, -1]]), "scale": 3, "bias": 200},
    "rounded": {"input": np.uint8([[255, 1], [7, 0]]), "scale": -1.5, "bias": 255.5},
}


# The struct.


def fill(rng, port, tensor, count):
    """Floats that are multiplied and added up without an error; integers of all bits."""
    if tensor.dtype.kind != "f":
        return None
    return ((2 * rng.integers(-100, 100, count) + 1) / 16).astype(tensor.dtype)  # none is 0, whose sign devices decide


def draw(rng):
    sizes = dims(rng, int(rng.integers(1, 9)))
    scale_biases = [None, (-1, 0), (3, 7), (0.5, 0), (1, -40)]
    return {"input": sizes, "output": sizes, "scale_bias": scale_biases[rng.integers(len(scale_biases))]}


def expected(desc, x):
    pair = desc.scale_bias
    return oracle(x) if pair is None else oracle(x, float(pair.scale), float(pair.bias))


SAMPLE = ElementWiseIdentityDesc(f32(1, 1, 1, 3), f32(1, 1, 1, 3), (2, 10))
STRUCTS = (
    Struct(
        SAMPLE,
        breaks={"same_sizes(output, input)": {"output": f32(1, 1, 3, 1)}},
        examples=(Example(SAMPLE, [[1, 2, 3]], [[12, 14, 16]]),),
        draw=draw,
        expected=expected,
        fill=fill,
    ),
)


def test_strides_transpose_and_repeat():
    transposed = ElementWiseIdentityDesc(f32(3, 2, strides=(1, 3)), f32(3, 2))
    assert_same_bits(compile_operator(transposed)(X.ravel()[:6]), X.ravel()[:6].reshape(2, 3).T.ravel())
    repeated = ElementWiseIdentityDesc(f32(3, 2, strides=(0, 1)), f32(3, 2))
    assert_same_bits(compile_operator(repeated)(X.ravel()[:2]), np.tile(X.ravel()[:2], 3))


# In place.


@pytest.mark.parametrize("restored", [False, True], ids=["compiled", "restored"])
@pytest.mark.parametrize("sizes", [(6,), (64, 300)], ids=["small", "large"])
def test_the_output_may_be_the_array_of_the_input(sizes, restored):
    run = compile_operator(ElementWiseIdentityDesc(f32(*sizes), f32(*sizes), (2, 1)))
    if restored:
        pytest.importorskip("flatbuffers")
        run = CompiledOperator.deserialize(run.serialize())
    before = numbered((int(np.prod(sizes)),))
    x = jnp.array(before)
    address = x.unsafe_buffer_pointer()
    made = run(x, out=x)
    assert x.is_deleted()
    assert made.unsafe_buffer_pointer() == address
    assert_same_bits(made, before * 2 + 1)


def test_in_place_with_gaps():
    tensor = f32(2, 2, strides=(3, 1))
    x = jnp.array(np.float32([1, 2, -9, 3, 4]))
    made = compile_operator(ElementWiseIdentityDesc(tensor, tensor, (10, 0)))(x, out=x)
    assert_same_bits(made, np.float32([10, 20, -9, 30, 40]))


def model_in_place(operator_type, tensors, **fields):
    """A model file that binds both tensors to one resource, and prints it."""
    return {
        "resources": {"x": {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2, 3, 4, 5, 6]}},
        "dispatchables": {"it": {"type": operator_type, "desc": {**tensors, **fields}}},
        "commands": [
            {"type": "dispatch", "dispatchable": "it", "bindings": {"InputTensor": "x", "OutputTensor": "x"}},
            {"type": "print", "resource": "x"},
        ],
    }


ROW, ROWS = {"DataType": "FLOAT32", "Sizes": [6]}, {"DataType": "FLOAT32", "Sizes": [2, 3]}
PAIR = {"InputTensor": ROW, "OutputTensor": ROW}


def test_a_model_file_may_bind_one_resource_to_both(tmp_path):
    path, lines = tmp_path / "model.json", []
    model = model_in_place("ELEMENT_WISE_IDENTITY", PAIR, ScaleBias={"Scale": 10, "Bias": 1})
    path.write_text(json.dumps(model))
    run_model(read_model(path, output=None), jax.devices()[0], lines.append)
    assert "Resource 'x': 11, 21, 31, 41, 51, 61" in lines


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (model_in_place("CAST", PAIR), "CAST does not execute in place, but InputTensor and OutputTensor share bytes"),
        (
            model_in_place("ELEMENT_WISE_IDENTITY", {"InputTensor": {**ROWS, "Strides": [1, 2]}, "OutputTensor": ROWS}),
            "ELEMENT_WISE_IDENTITY executes in place on one whole binding of tensors that are described alike, but",
        ),
    ],
)
def test_a_model_file_that_may_not(model, match, tmp_path):
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model))
    with pytest.raises(ModelError, match=match):
        read_model(path, output=None)


def test_tensors_that_differ_do_not_share_a_buffer():
    x = jnp.zeros(6)
    for desc in (
        ElementWiseIdentityDesc(f32(3, 2, strides=(1, 3)), f32(3, 2)),
        ElementWiseIdentityDesc(f32(2, strides=(0,)), f32(2)),
    ):
        with pytest.raises(ConstraintError, match=r"out= .* must not be bound as an input"):
            compile_operator(desc)(x, out=x)


# Against the oracle.


@every_small_shape
def test_every_small_shape(shapes):
    def calls():
        for shape in shapes:
            x = numbered(shape)
            yield identity, (x,), oracle(x)
            yield partial(identity, scale=-2, bias=0.5), (x,), oracle(x, -2, 0.5)

    assert_calls_agree(calls())


@pytest.mark.thinned(10)
@pytest.mark.parametrize(
    ("scale", "bias"), [(3, None), (None, -1000), (-1, 0), (2.0**40 + 2.0**20, 2.0**33 + 1), (0.5, None), (-1.25, 100)]
)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
def test_integers_wrap_or_saturate(dtype, scale, bias):
    limits = np.iinfo(dtype)
    x = np.array([0, 1, 3, 100, limits.max, limits.max - 6, limits.min, limits.min // 2], dtype)
    assert_same_bits(identity(x, scale, bias), oracle(x, scale, bias))


def test_complex_numbers():
    x = numbered((3, 4)).astype(np.complex64)
    assert_same_bits(identity(x, 2, 1), x * np.complex64(2) + np.complex64(1))


def test_int4_wraps_within_its_bits():
    assert_same_bits(
        identity(np.int32([3, -8, 7]).astype(ml_dtypes.int4), 5), np.int32([-1, -8, 3]).astype(ml_dtypes.int4)
    )


def test_signs_of_zero():
    """-0.0 + 0.0 is 0.0, but XLA takes it for -0.0; what is left out adds nothing on any device."""
    zero = np.float32([-0.0, 0.0])
    assert np.signbit(identity(zero)).tolist() == [True, False]
    assert np.signbit(identity(zero, scale=-1)).tolist() == [False, True]
    assert np.signbit(identity(zero, bias=-0.0)).tolist() == [True, False]


def test_keys_are_not_scaled():
    with pytest.raises(DataTypeError, match="must be a numeric type to be scaled or shifted, but it is key"):
        identity(random_keys(2), 2)


# Transformations.


def test_the_gradient_is_scaled():
    assert_same_bits(jax.jit(jax.grad(lambda x: identity(x, 3, 5).sum()))(X), np.full_like(X, 3))


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"input": 3}, "input must be an array"),
    ({"scale": "2"}, "scale must be a real number, but it is '2'"),
    ({"scale": True}, "scale must be a real number"),
    ({"bias": 1j}, "bias must be a real number"),
    ({"bias": 10**400}, "bias must be a real number"),
    ({"scale": np.float32([1])}, r"scale must be a real number, but it is float32\[1\]"),
    error=DataTypeError,
)
