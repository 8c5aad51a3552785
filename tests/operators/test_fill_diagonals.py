"""fill_diagonals and DIAGONAL_MATRIX1: value where (end >= begin) ^ (d >= begin) ^ (d < end), with d = x - y."""

import itertools
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits, exported, refused_without_x64
from draws import dims
from operator_cases import Call, Example, Struct, f32, i32
from oracles import coordinates
from refusals import refuses
from small_arrays import every_narrow_float, numbered, random_keys

from dml_jax import (
    ConstraintError,
    DataType,
    DataTypeError,
    DiagonalMatrix1Desc,
    TensorDesc,
    compile_operator,
    desc_from_json,
    desc_to_json,
    fill_diagonals,
)

pytestmark = pytest.mark.device


def oracle(input, begin, end, value):
    output = input.copy()
    for c in coordinates(input.shape):
        y, x = c[-2:]
        if (end >= begin) ^ (x - y >= begin) ^ (x - y < end):
            output[c] = value
    return output


X = numbered((2, 4, 6))
CASE = Call(fill_diagonals, {"input": X}, {"begin": 1, "end": 6, "value": 0})
BREAKS = {"minimum_rank(input, 2)": {"input": X[0, 0]}}
VARIANTS = {
    "all others": {"begin": 1, "end": -1},
    "none": {"begin": 2, "end": 2},
    "all": {"begin": -(2**40), "end": 2**40},
    "a number": {"begin": -1, "end": 1, "value": 7, "is_linear": False},
}


# The struct.

INT_MIN, INT_MAX = -(2**31), 2**31 - 1


def draw(rng):
    sizes = dims(rng, int(rng.integers(2, 5)))
    begin, end = (int(n) for n in rng.choice([*range(-4, 5), INT_MIN, INT_MAX], 2))
    return {
        "input": sizes if rng.random() < 0.8 else None,
        "output": sizes,
        "value": int(rng.integers(0, 128)),
        "diagonal_fill_begin": begin,
        "diagonal_fill_end": end,
    }


def expected(desc, x):
    x = np.zeros(desc.output.sizes, desc.output.dtype) if x is None else x
    return oracle(x, desc.diagonal_fill_begin, desc.diagonal_fill_end, desc.value)


MATRIX = f32(1, 1, 4, 5)
NUMBERS = [4, 7, 3, 7, 9, 1, 2, 8, 6, 9, 9, 4, 1, 8, 7, 4, 3, 4, 2, 4]
BAND = DiagonalMatrix1Desc(None, MATRIX, "FLOAT32", 7, 0, 3)
UPPER = DiagonalMatrix1Desc(MATRIX, MATRIX, "FLOAT32", 0, INT_MIN, 1)
STRUCTS = (
    Struct(
        UPPER,
        breaks={
            "sizes_follow(output)": {"output": f32(1, 1, 5, 4)},
            "type_of(value_data_type, output)": {"value_data_type": DataType.INT32},
            "held(value, value_data_type)": {"value": 1e39},
        },
        examples=(
            Example(BAND, [], [[7, 7, 7, 0, 0, 0, 7, 7, 7, 0, 0, 0, 7, 7, 7, 0, 0, 0, 7, 7]]),
            Example(UPPER, [NUMBERS], [[0, 7, 3, 7, 9, 0, 0, 8, 6, 9, 0, 0, 0, 8, 7, 0, 0, 0, 0, 4]]),
            Example(
                replace(UPPER, diagonal_fill_begin=1, diagonal_fill_end=0),
                [NUMBERS],
                [[4, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 0]],
            ),
        ),
        draw=draw,
        expected=expected,
    ),
)


def test_the_limits_of_the_integers_do_not_overflow():
    """The largest begins after the last diagonal, and ends after it too."""
    x = numbered((3, 4))
    desc = DiagonalMatrix1Desc(f32(3, 4), f32(3, 4), "FLOAT32", 0, 0, 0)
    assert_calls_agree(
        (replace(desc, diagonal_fill_begin=begin, diagonal_fill_end=end).compute, (x,), oracle(x, begin, end, 0))
        for begin in (INT_MIN, INT_MIN + 1, -1, 0, INT_MAX)
        for end in (INT_MIN, -1, 1, INT_MAX - 1, INT_MAX)
    )


@pytest.mark.thinned(2)
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize(
    ("name", "value"), [("INT64", -(2**40) - 1), ("UINT64", 2**64 - 1), ("FLOAT64", 0.1), ("UINT8", np.int8(-1))]
)
def test_64_bit_types_and_bits(name, value, given):
    """As words while x64 is off."""
    tensor = TensorDesc(name, (2, 3), (1, 2))
    desc = DiagonalMatrix1Desc(tensor if given else None, tensor, name, value, 0, 2)
    assert desc_from_json(desc_to_json(desc)) == desc
    x = np.array([[1, 2, 3], [4, 5, 6]]).astype(tensor.dtype) * given
    wanted = oracle(x, 0, 2, tensor.dtype.type(value) if name != "UINT8" else 255).T.ravel()
    buffers = [x.T.ravel()] if given else []
    assert_same_bits(np.asarray(compile_operator(desc)(*buffers)).view(tensor.dtype), wanted)
    if name != "UINT8":
        with pytest.raises(DataTypeError, match="64-bit types"):
            desc.compute(*[x] * given)
    with jax.enable_x64(True):
        assert_same_bits(compile_operator(desc)(*buffers), wanted)
        assert_same_bits(np.asarray(desc.compute(*[x] * given)).T.ravel(), wanted)


test_what_the_struct_refuses = refuses(
    UPPER,
    ({"output": f32(1, 1, 5, 4)}, ConstraintError, r"OutputTensor.Sizes must be InputTensor.Sizes, if"),
    ({"diagonal_fill_begin": 2**31}, ConstraintError, r"DiagonalFillBegin must be in \[-2\*\*31, 2\*\*31 - 1\]"),
    ({"diagonal_fill_end": 0.5}, DataTypeError, "DiagonalFillEnd must be an integer"),
    ({"value": "7"}, DataTypeError, "Value must be a number"),
    ({"input": None, "output": f32(5)}, ConstraintError, r"OutputTensor.DimensionCount must be in \[2, 4\]"),
    ({"input": i32(1, 1, 4, 5)}, DataTypeError, "OutputTensor.DataType must equal InputTensor"),
)


# Against the oracle.


@pytest.mark.thinned(7)
@pytest.mark.parametrize("shape", [(1, 1), (3, 4), (4, 2), (2, 3, 3), (0, 3), (3, 0), (0, 2, 2)])
def test_every_begin_and_end_of_small_matrices(shape, exhaustive):
    x, ends = numbered(shape), (-(2**100), -(2**31), -4, -1, 0, 1, 2, 4, 2**31 - 1, 2**31, 2**63)
    pairs = [*itertools.product(ends, ends)][:: 1 if exhaustive else 3]
    assert_calls_agree(
        (partial(fill_diagonals, begin=begin, end=end, value=-1), (x,), oracle(x, begin, end, -1))
        for begin, end in pairs
    )


def test_triangles_of_numpy():
    x = numbered((4, 5))
    calls = []
    for k in range(-5, 6):
        calls += [(partial(fill_diagonals, begin=k + 1, end=9, value=0), (x,), np.tril(x, k))]
        calls += [(partial(fill_diagonals, begin=-9, end=k, value=0), (x,), np.triu(x, k))]
    assert_calls_agree(calls)


@pytest.mark.thinned(2)
@every_narrow_float
def test_bits_of_narrow_floats(dtype):
    """NaN payloads, subnormals and -0.0, of the data and of the number."""
    x = np.arange(256).astype(f"uint{8 * dtype.itemsize}").reshape(16, 16).view(dtype)
    value = np.array([2 ** (8 * dtype.itemsize) - 1], f"uint{8 * dtype.itemsize}").view(dtype)[0]
    assert_same_bits(fill_diagonals(x, begin=0, end=2, value=value), oracle(x, 0, 2, value))


def test_64_bit_data_needs_x64(x64):
    x = np.arange(6).reshape(2, 3)
    with refused_without_x64("input of type int64"):
        assert_same_bits(fill_diagonals(x, begin=0, end=1, value=2**62 + 1), oracle(x, 0, 1, 2**62 + 1))


# Transformations.


def test_the_gradient_of_what_was_replaced_is_zero():
    for value in (0, 7):
        back = jax.jit(jax.grad(lambda x, v=value: (fill_diagonals(x, begin=1, end=6, value=v) * X).sum()))(X)
        assert_same_bits(back, np.tril(X))
    cotangent = X.astype(jnp.bfloat16)
    (back,) = jax.vjp(lambda x: fill_diagonals(x, begin=1, end=0, value=7), cotangent)[1](cotangent)
    assert_same_bits(back, oracle(cotangent, 1, 0, 0))


def test_a_new_value_compiles_nothing(compilations):
    fill_diagonals(X, begin=0, end=1, value=1)
    with compilations() as compiled:
        for value in (2, -0.0, np.nan):
            assert_same_bits(fill_diagonals(X, begin=0, end=1, value=value), oracle(X, 0, 1, value))
    assert not compiled


def test_symbolic_sizes():
    call = exported(lambda x: fill_diagonals(x, begin=1, end=2**31, value=0), "a, b").call
    assert_same_bits(call(X[0]), np.tril(X[0]))


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"input": 3}, DataTypeError, "input must be an array"),
    ({"input": np.float32(3)}, ConstraintError, "input.rank must be at least 2, but it is 0"),
    ({"begin": 0.5}, DataTypeError, "begin must be an integer, but it is 0.5"),
    ({"end": None}, DataTypeError, "end must be an integer, but it is None"),
    ({"value": "7"}, DataTypeError, "value must be a number, known while tracing, that float32 holds"),
    ({"value": 1e39}, DataTypeError, "that float32 holds"),
    ({"input": np.zeros((2, 2), np.uint8), "value": -1}, DataTypeError, "that uint8 holds, but it is -1"),
    ({"input": random_keys(1, 1)}, DataTypeError, "value must be a number, .* that key<fry> holds"),
)
