"""reverse_subsequences and REVERSE_SUBSEQUENCES: as many first elements along an axis as a length says, reversed."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import (
    assert_calls_agree,
    assert_indices_agree,
    assert_same_bits,
    exported,
)
from draws import dims
from operator_cases import Call, Example, Struct, f32, i32, u32
from oracles import coordinates
from refusals import refuses
from small_arrays import (
    INTEGERS,
    SIX,
    every_small_shape,
    numbered,
    telling_indices,
)

from dml_jax import (
    ConstraintError,
    DataTypeError,
    ReverseSubsequencesDesc,
    reverse_subsequences,
)

pytestmark = pytest.mark.device


def oracle(input, sequence_lengths, axis):
    axis %= input.ndim
    output = np.empty(input.shape, input.dtype)
    for c in coordinates(input.shape):
        length = min(max(int(sequence_lengths[(*c[:axis], 0, *c[axis + 1 :])]), 0), input.shape[axis])
        at = length - 1 - c[axis] if c[axis] < length else c[axis]
        output[c] = input[(*c[:axis], at, *c[axis + 1 :])]
    return output


X = numbered((4, 6))
LENGTHS = np.int32([[3], [6], [0], [9]])
CASE = Call(reverse_subsequences, {"input": X, "sequence_lengths": LENGTHS}, {"axis": 1})
BREAKS = {
    "integer(sequence_lengths)": {"sequence_lengths": LENGTHS.astype(np.float32)},
    "minimum_rank(input, 1)": {"input": np.float32(1), "sequence_lengths": np.int32(1)},
    "same_rank(sequence_lengths, input)": {"sequence_lengths": LENGTHS[:, 0]},
    "axis_of(input)": {"axis": 2},
    "one_length": {"sequence_lengths": LENGTHS[:, [0] * 6]},
    "same_sizes(sequence_lengths, input, except_along=axis)": {"sequence_lengths": LENGTHS[:3]},
}
VARIANTS = {
    "first axis": {"sequence_lengths": np.uint8([[4, 0, 1, 2, 3, 200]]), "axis": -2},
    "three": {"input": X.reshape(2, 6, 2), "sequence_lengths": np.int8([[[5, 6]], [[2, -1]]])},
}


# The struct.


def draw(rng):
    input = dims(rng, int(rng.integers(1, 9)))
    axis = int(rng.integers(0, len(input)))
    return {
        "input": input,
        "sequence_lengths": [*input[:axis], 1, *input[axis + 1 :]],
        "output": input,
        "axis": axis,
    }


FOUR = f32(1, 1, 3, 4)
DOCUMENTED = ReverseSubsequencesDesc(FOUR, u32(1, 1, 3, 1), FOUR, axis=3)
STRUCTS = (
    Struct(
        DOCUMENTED,
        breaks={
            "below_rank(axis)": {"axis": 4},
            "one_length": {"sequence_lengths": u32(1, 1, 3, 4)},
            "same_sizes(sequence_lengths, input, except_along=axis)": {"sequence_lengths": u32(1, 1, 2, 1)},
            "same_sizes(output, input)": {"output": f32(1, 1, 3, 3)},
        },
        examples=(
            Example(DOCUMENTED, (range(1, 13), [2, 4, 3]), [[2, 1, 3, 4, 8, 7, 6, 5, 11, 10, 9, 12]]),
            Example(
                ReverseSubsequencesDesc(FOUR, u32(1, 1, 1, 4), FOUR, axis=2),
                (range(1, 13), [2, 3, 1, 0]),
                [[5, 10, 3, 4, 1, 6, 7, 8, 9, 2, 11, 12]],
            ),
        ),
        draw=draw,
        expected=lambda desc, x, lengths: oracle(x, lengths, desc.axis),
        leading={"axis": 1},
    ),
)


test_what_the_struct_refuses = refuses(
    DOCUMENTED,
    (
        {"sequence_lengths": f32(1, 1, 3, 1)},
        DataTypeError,
        "SequenceLengthsTensor.DataType must be one of UINT64, UINT32 .* but it is FLOAT32",
    ),
    (
        {"sequence_lengths": i32(1, 1, 3, 1)},
        DataTypeError,
        "SequenceLengthsTensor.DataType must be one of UINT64, UINT32 .* but it is INT32",
    ),
    ({"axis": 2}, ConstraintError, "SequenceLengthsTensor.Sizes must be 1 along Axis, but it is 3"),
    ({"axis": -1}, ConstraintError, r"Axis must be in \[0, "),
)


# Against the oracle.


@every_small_shape
def test_every_small_shape(shapes):
    def calls():
        rng = np.random.default_rng(1)
        for shape in shapes:
            x = numbered(shape)
            for axis, n in enumerate(shape):
                for at in (axis, axis - len(shape)):
                    lengths = rng.integers(-1, n + 2, (*shape[:axis], 1, *shape[axis + 1 :])).astype(np.int32)
                    yield partial(reverse_subsequences, axis=at), (x, lengths), oracle(x, lengths, at)

    assert_calls_agree(calls())


@pytest.mark.thinned(10)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_every_type_of_lengths_means_the_same(dtype, x64):
    """Eager or jitted, x64 on or off; far lengths too."""
    lengths = telling_indices(dtype)[:, None]
    x = np.tile(SIX, (len(lengths), 1))
    assert_indices_agree(lambda lengths: reverse_subsequences(x, lengths, 1), lengths, oracle(x, lengths, 1))


def test_narrow_lengths_of_a_long_axis():
    x = numbered(1000)
    for length in (np.int8([127]), np.uint8([200]), np.uint16([999]), np.int16([-1])):
        assert_same_bits(reverse_subsequences(x, length, 0), oracle(x, length, 0))


def test_many_dimensions():
    x = numbered((1, 2) * 4)
    lengths = np.int32(numbered((1, 2, 1, 1, 1, 2, 1, 2)) % 3)
    assert_same_bits(reverse_subsequences(x, lengths, 3), oracle(x, lengths, 3))


# Transformations.


def test_gradients_are_reversed_again():
    weights = numbered((4, 6))
    found = jax.jit(jax.grad(lambda x: (reverse_subsequences(x, LENGTHS, 1) * weights).sum()))(X)
    assert_same_bits(found, oracle(weights, LENGTHS, 1))
    narrow = jax.vjp(lambda x: reverse_subsequences(x, LENGTHS, 1), X.astype(jnp.bfloat16))[1]
    assert_same_bits(narrow(weights.astype(jnp.bfloat16))[0], oracle(weights, LENGTHS, 1).astype(jnp.bfloat16))


def test_a_gradient_adds_nothing_up():
    """It is a gather like the call itself, where that of gather_elements would be a scatter."""
    back = jax.vjp(lambda x: reverse_subsequences(x, LENGTHS, 1), X)[1]
    assert "scatter" not in str(jax.make_jaxpr(back)(X))


def test_symbolic_sizes():
    call = exported(partial(reverse_subsequences, axis=1), "b, n", ("b, 1", np.int32)).call
    assert_same_bits(call(X, LENGTHS), oracle(X, LENGTHS, 1))


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"input": [1, 2]}, DataTypeError, "input must be an array"),
    ({"sequence_lengths": [[True]] * 4}, DataTypeError, "sequence_lengths must be an array"),
    ({"sequence_lengths": 3}, ConstraintError, r"sequence_lengths.rank must equal input.rank"),
    ({"sequence_lengths": LENGTHS > 3}, DataTypeError, "sequence_lengths.dtype must be an integer type, .* bool"),
    ({"sequence_lengths": LENGTHS[:, 0]}, ConstraintError, "sequence_lengths.rank must equal input.rank"),
    ({"sequence_lengths": LENGTHS[:1]}, ConstraintError, r"\(1, 1\) and \(4, 6\) differ in dimension 0"),
    ({"axis": 0}, ConstraintError, "sequence_lengths.sizes must be 1 along axis, but it is 4"),
    ({"axis": -3}, ConstraintError, "it is -3 and the rank is 2"),
    ({"axis": 2**63}, ConstraintError, "and the rank is 2"),
    ({"axis": "1"}, DataTypeError, "axis must be an integer"),
    ({"axis": None}, DataTypeError, "axis must be an integer"),
)
