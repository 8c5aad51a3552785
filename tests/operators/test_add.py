"""add, ELEMENT_WISE_ADD and ELEMENT_WISE_ADD1: activation(a + b)."""

import json
from functools import partial

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from activation_cases import activated
from checks import assert_calls_agree, assert_close, assert_same_bits, refused_without_x64
from draws import dims, normal_numbers
from jax.sharding import PartitionSpec as P
from jax.test_util import check_grads
from operator_cases import Call, Example, Struct, f32, u64
from oracles import coordinates
from refusals import refuses
from small_arrays import every_small_shape, numbered, on_explicit_mesh, random_keys

from dml_jax import (
    Activation,
    ConstraintError,
    DataTypeError,
    ElementWiseAdd1Desc,
    ElementWiseAddDesc,
    add,
    compile_operator,
)
from dml_jax.dxdispatch.model_file import read_model
from dml_jax.dxdispatch.run import run_model

pytestmark = pytest.mark.device


def exact(a, b, activation=None):
    """In float64, or of complex numbers in complex128, one sum after the other."""
    wide = complex if a.dtype.kind == "c" else float
    output = np.zeros(a.shape, wide)
    for c in coordinates(a.shape):
        output[c] = wide(a[c]) + wide(b[c])
    return output if activation is None else activated(output, activation)


def oracle(a, b, activation=None):
    if a.dtype.kind not in "iu" or activation is not None:
        return exact(a, b, activation).astype(a.dtype)
    output, limits = np.empty_like(a), np.iinfo(a.dtype)
    for c in coordinates(a.shape):
        output[c] = (int(a[c]) + int(b[c]) - int(limits.min)) % 2**limits.bits + int(limits.min)
    return output


RELU = Activation("ACTIVATION_RELU")
A, B = numbered((2, 3)), np.float32([[5, -8, 1], [-9, -5, 0.5]])
CASE = Call(add, {"a": A, "b": B})
BREAKS = {
    "numbers(a)": {"a": random_keys(2, 3)},
    "same_dtype(b, a)": {"b": B.astype(np.float16)},
    "same_sizes(b, a)": {"b": B[:1]},
    "computed_by(activation)": {
        "a": A.astype(np.int32),
        "b": A.astype(np.int32),
        "activation": Activation("ACTIVATION_TANH"),
    },
    "axes_within(activation)": {"activation": Activation("ACTIVATION_SOFTMAX1", ((2,),))},
}
VARIANTS = {
    "activated": {"activation": RELU, "is_linear": False},
    "integers": {"a": np.int8([[127, -128], [5, 0]]), "b": np.int8([[1, -1], [-7, 3]])},
    "unsigned": {"a": np.uint32([2**32 - 1, 4]), "b": np.uint32([2, 2**31])},
    "scalars": {"a": np.float32(2), "b": np.float32(3)},
    "float16": {"a": A.astype(np.float16), "b": B.astype(np.float16)},
}


# The structs.


def draw(rng):
    sizes = dims(rng, int(rng.integers(1, 9)))
    return {"a": sizes, "b": sizes, "output": sizes}


# Continuous ones, so that what is rounded a little differently is not something else.
FUSED = [
    *(None, None, RELU, Activation("ACTIVATION_ELU", (0.5,)), Activation("ACTIVATION_LEAKY_RELU", (0.5,))),
    *(Activation(f"ACTIVATION_{name}") for name in ("CELU", "GELU", "SIGMOID", "SOFTPLUS", "SOFTSIGN", "TANH")),
    Activation("ACTIVATION_LINEAR", (0.5, -1)),
]


def draw_fused(rng):
    return draw(rng) | {"fused_activation": FUSED[rng.integers(len(FUSED))]}


def fill(rng, port, tensor, count):
    """Floats whose sums are exact, and none is 0, whose sign devices decide; integers of all bits."""
    if tensor.dtype.kind != "f":
        return None
    return ((4 * rng.integers(-100, 100, count) + (1 if port == "a" else 2)) / 16).astype(tensor.dtype)


ROW = f32(3)
SAMPLE = ElementWiseAddDesc(ROW, ROW, ROW)
SAMPLE1 = ElementWiseAdd1Desc(ROW, ROW, ROW, Activation("ACTIVATION_ELU", (0.5,)))
TENSOR = f32(1, 1, 2, 3)
DESC, DESC1 = ElementWiseAddDesc(TENSOR, TENSOR, TENSOR), ElementWiseAdd1Desc(TENSOR, TENSOR, TENSOR, RELU)
SAME = {"same_sizes(b, a)": {"b": f32(1, 1, 3, 2)}, "same_sizes(output, a)": {"output": f32(1, 1, 2, 1)}}
STRUCTS = (
    Struct(
        DESC,
        breaks=SAME,
        examples=(Example(SAMPLE, [[1, 2, 3], [5, 8, -5]], [[6, 10, -2]]),),
        draw=draw,
        expected=lambda desc, a, b: oracle(a, b),
        fill=fill,
    ),
    Struct(
        DESC1,
        breaks=SAME,
        examples=(Example(SAMPLE1, [[1, 2, 3], [5, 8, -5]], [[6, 10, -0.4323324]]),),
        draw=draw_fused,
        expected=lambda desc, a, b: exact(a, b, desc.fused_activation),
        fill=normal_numbers,
        units=8,
    ),
)


def test_tensors_are_broadcast_by_strides():
    matrix, row, number = f32(2, 3), f32(2, 3, strides=(0, 1)), f32(2, 3, strides=(0, 0))
    made = compile_operator(ElementWiseAddDesc(matrix, row, matrix))(A.ravel(), np.float32([10, 20, 30]))
    assert_same_bits(made.reshape(2, 3), A + np.float32([10, 20, 30]))
    made = compile_operator(ElementWiseAddDesc(number, row, matrix))(np.float32([1]), np.float32([10, 20, 30]))
    assert_same_bits(made.reshape(2, 3), np.float32([[11, 21, 31]] * 2))


@pytest.mark.parametrize("cls", [ElementWiseAddDesc, ElementWiseAdd1Desc])
@pytest.mark.parametrize("shared", ["a", "b", "both"])
def test_in_place_with_either_input_or_both(cls, shared):
    run = compile_operator(cls(ROW, ROW, ROW))
    a, b = jnp.float32([1, 2, 3]), jnp.float32([10, 20, 30])
    inputs = {"a": (a, b), "b": (b, a), "both": (a, a)}[shared]
    made = run(*inputs, out=a)
    assert a.is_deleted()
    assert_same_bits(made, np.float32([2, 4, 6] if shared == "both" else [11, 22, 33]))


@pytest.mark.parametrize("output", ["out", "b"])
def test_directmls_sample_of_owned_tensors(output, tmp_path):
    """A is handed over once; what is printed is 6, 10, -2, in place too."""
    tensor = {"DataType": "FLOAT32", "Sizes": [3]}
    tensors = {"ATensor": {**tensor, "Flags": "OWNED_BY_DML"}, "BTensor": tensor, "OutputTensor": tensor}
    values = {"a": [1, 2, 3], "b": [5, 8, -5], "out": {"valueCount": 3, "value": 0}}
    model = {
        "resources": {n: {"initialValuesDataType": "FLOAT32", "initialValues": v} for n, v in values.items()},
        "dispatchables": {
            "add": {"type": "DML_OPERATOR_ELEMENT_WISE_ADD", "desc": tensors, "bindings": {"ATensor": "a"}}
        },
        "commands": [
            {"type": "dispatch", "dispatchable": "add", "bindings": {"BTensor": "b", "OutputTensor": output}},
            {"type": "print", "resource": output},
        ],
    }
    path, lines = tmp_path / "model.json", []
    path.write_text(json.dumps(model))
    run_model(read_model(path, output=None), jax.devices()[0], lines.append)
    assert lines[-1] == f"Resource '{output}': 6, 10, -2"


def test_64_bit_numbers_need_x64_in_a_function_and_not_in_a_descriptor(x64):
    """There too they are numbers: a carry goes from the low word to the high one."""
    a, b = np.uint64([2**32 - 1, 2**63, 2**64 - 1]), np.uint64([1, 2**63, 2**40])
    tensor = u64(3)
    made = np.asarray(compile_operator(ElementWiseAddDesc(tensor, tensor, tensor))(a, b)).view(np.uint64)
    assert_same_bits(made, np.uint64([2**32, 0, 2**40 - 1]))
    with refused_without_x64("a of type uint64"):
        assert_same_bits(add(a, b), made)
        wide = np.float64([1 + 2.0**-40])
        assert_same_bits(add(wide, wide), 2 * wide)


def test_what_cannot_be_fused():
    for name in ("ACTIVATION_SOFTMAX", "ACTIVATION_SOFTMAX1", "ELEMENT_WISE_CLIP"):
        parameters = {"ACTIVATION_SOFTMAX1": ((0,),), "ELEMENT_WISE_CLIP": (None, 0, 1)}.get(name, ())
        with pytest.raises(ConstraintError, match=f"FusedActivation must be one .*, but it is {name}, which is for"):
            ElementWiseAdd1Desc(ROW, ROW, ROW, Activation(name, parameters))


# Against the oracle.


@every_small_shape
def test_shapes(shapes):
    assert_calls_agree(
        (add, (numbered(shape), -numbered(shape) / 4), oracle(numbered(shape), -numbered(shape) / 4))
        for shape in [(), (0,), (2, 0), *shapes]
    )


def test_what_overflows_before_the_activation_does_not():
    """65536 is out of float16's range."""
    big, half = np.full(2, 32768, np.float16), Activation("ACTIVATION_LINEAR", (0.5, 0))
    assert_same_bits(add(big, big, activation=half), big)
    assert np.isinf(add(big, big)).all()


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2"])
def test_integers_of_few_bits_wrap(name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    limits = ml_dtypes.iinfo(dtype)
    a, b = (np.array([limits.max, limits.min, 1], dtype), np.array([1, limits.max, 0], dtype))
    sums = np.array([int(limits.min), int(limits.min) + int(limits.max), 1]).astype(dtype)
    assert_same_bits(add(a, b), sums)


def test_other_numbers():
    assert_same_bits(add(np.array([True, True, False]), np.array([True, False, False])), np.array([True, True, False]))
    z = np.complex64([1 + 2j, -3j])
    assert_same_bits(add(z, z), z + z)


def test_integers_have_the_activations_that_take_them():
    a, b = np.int32([5, -7]), np.int32([1, 2])
    assert_same_bits(add(a, b, activation=RELU), np.int32([6, 0]))


def test_infinities_and_nan():
    values = np.float32([np.inf, -np.inf, np.nan, 1])
    np.testing.assert_array_equal(add(values, -values), np.float32([np.nan, np.nan, np.nan, 0]))


# Transformations and meshes.


def test_derivatives():
    check_grads(
        jax.jit(partial(add, activation=Activation("ACTIVATION_TANH"))), (A / 4, B / 4), order=1, atol=0.02, rtol=0.02
    )
    back = jax.jit(jax.grad(lambda a, b: (add(a, b) * A).sum(), (0, 1)))(A, B)
    assert_same_bits(back[0], A)
    assert_same_bits(back[1], A)


def test_softmax_of_the_sum():
    softmax = Activation("ACTIVATION_SOFTMAX1", ((0,),))
    assert_close(add(A, B, activation=softmax), exact(A, B, softmax), units=8)


def test_softmax_along_what_is_sharded_keeps_its_sharding():
    a, softmax = on_explicit_mesh(A, "d", None), Activation("ACTIVATION_SOFTMAX1", ((0,),))
    made = add(a, a, activation=softmax)
    assert jax.typeof(made).sharding.spec == P("d", None)
    assert_close(made, exact(A, A, softmax), units=8)
    made = add(a, a, activation=Activation("ACTIVATION_SOFTMAX"))
    assert jax.typeof(made).sharding.spec == P("d", None)


# Mistakes.


test_what_is_refused = refuses(
    CASE,
    ({"a": 3}, DataTypeError, "a must be an array"),
    ({"b": None}, DataTypeError, "b must be an array"),
    ({"b": B[0]}, ConstraintError, r"b.sizes must equal a.sizes, but they are \(3,\) and \(2, 3\)"),
    ({"b": B.astype(np.float16)}, DataTypeError, "b.dtype must equal a.dtype, but they are float16 and float32"),
    ({"activation": "RELU"}, DataTypeError, "activation must be an Activation, but it is str"),
    (
        {"a": A > 0, "b": A > 0, "activation": RELU},
        DataTypeError,
        "a.dtype must be a floating-point type, or an integer type if activation takes it, but it is bool, and the",
    ),
    (
        {"a": np.float32(1), "b": np.float32(1), "activation": Activation("ACTIVATION_SOFTMAX")},
        ConstraintError,
        r"must be different dimensions of a, one at least, but they are \(-1,\) and there are 0",
    ),
)
