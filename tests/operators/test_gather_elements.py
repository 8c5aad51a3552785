"""gather_elements and GATHER_ELEMENTS: output[c] = input[c with indices[c] at axis]."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits, exported
from draws import draw_along_axis
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_cases import Call, Example, Struct, f32, u32
from oracles import addressed, coordinates
from small_arrays import SIX, every_small_shape, indices_around, numbered

import dml_jax
from dml_jax import GatherElementsDesc, gather_elements

pytestmark = pytest.mark.device


def oracle(input, indices, axis, mode="clip", fill_value=0):
    axis %= input.ndim
    output = np.empty(indices.shape, input.dtype)
    for c in coordinates(output.shape):
        where = addressed([indices[c]], [input.shape[axis]], mode)
        output[c] = fill_value if where is None else input[(*c[:axis], *where, *c[axis + 1 :])]
    return output


X = numbered((4, 6))
ROW = np.int32([[3, 0, -1, 2, 9, 1]])  # one index per column, one of them out of range
CASE = Call(gather_elements, {"input": X, "indices": ROW}, {"axis": 0}, indexed=4)
BREAKS = {
    "integer(indices)": {"indices": ROW.astype(np.float32)},
    "minimum_rank(input, 1)": {"input": np.float32(1), "indices": np.int32(0)},
    "same_rank(indices, input)": {"indices": ROW[0]},
    "axis_of(input)": {"axis": -3},
    "one_of(mode)": {"mode": "drop"},
    "same_sizes(indices, input, except_along=axis)": {"indices": ROW[:, :1]},
    "indexed_axes_not_empty": {"input": np.zeros((0, 6), np.float32)},
}
VARIANTS = {"fill": {"mode": "fill"}, "promise": {"indices": ROW % 4, "mode": "promise_in_bounds"}}


# The struct.


def draw(rng):
    input, indices, axis = draw_along_axis(rng)
    return {"input": input, "indices": indices, "output": indices, "axis": axis}


DOCUMENTED = GatherElementsDesc(f32(3, 3), u32(2, 3), f32(2, 3), axis=0)
STRUCTS = (
    Struct(
        DOCUMENTED,
        breaks={
            "below_rank(axis)": {"axis": -1},
            "same_sizes(indices, input, except_along=axis)": {"axis": 1},
            "same_sizes(output, indices)": {"output": f32(3, 3)},
        },
        examples=(Example(DOCUMENTED, (range(1, 10), [1, 2, 0, 2, 0, 0]), [[4, 8, 3, 7, 2, 3]]),),
        draw=draw,
        expected=lambda desc, x, i: oracle(x, i, desc.axis),
        leading={"axis": 1},
    ),
)


# Against the oracle.


@every_small_shape
def test_every_small_shape(shapes):
    def calls():
        rng = np.random.default_rng(1)
        for shape in shapes:
            x = numbered(shape)
            for axis, n in enumerate(shape):
                for along, mode, at in [(1, "clip", axis), (2, "fill", axis), (4, "clip", axis - len(shape))]:
                    indices = indices_around(rng, n, (*shape[:axis], along, *shape[axis + 1 :]))
                    yield partial(gather_elements, axis=at, mode=mode), (x, indices), oracle(x, indices, axis, mode)

    assert_calls_agree(calls())


@given(
    st.lists(st.integers(1, 7), min_size=1, max_size=5),
    st.integers(0, 4),
    st.integers(1, 9),
    st.sampled_from([np.int8, np.int16, np.int32]),
    st.integers(0, 2**32 - 1),
)
def check_larger_shapes(shape, axis, along, dtype, seed):
    x, axis = numbered(shape), axis % len(shape)
    sizes = (*shape[:axis], along, *shape[axis + 1 :])
    indices = indices_around(np.random.default_rng(seed), shape[axis], sizes, dtype)
    assert_same_bits(gather_elements(x, indices, axis), oracle(x, indices, axis))


def test_larger_shapes(exhaustive):
    settings(max_examples=100 if exhaustive else 8)(check_larger_shapes)()


def test_narrow_data_with_a_long_axis():
    x = np.arange(1000).astype(np.uint8)
    indices = np.int32([0, 300, 999, -1])
    assert_same_bits(gather_elements(x, indices, 0), x[indices])


def test_promise_in_bounds_wraps_negative_indices():
    indices = np.int32([-1, 0, -6, 5])
    assert_same_bits(gather_elements(SIX, indices, 0, mode="promise_in_bounds"), SIX[indices])


def test_the_documented_example_with_negative_indices():
    expected = np.float32([[4, 8, 3], [7, 2, 3]])
    square = numbered((3, 3))
    assert_same_bits(gather_elements(square, np.uint32([[1, 2, 0], [2, 0, 0]]), 0), expected)
    assert_same_bits(gather_elements(square, np.int32([[-2, -1, -3], [-1, -3, -3]]), 0), expected)


@pytest.mark.parametrize("axis", [0, 1])
def test_sorted_indices_are_a_promise_that_changes_nothing(axis):
    x, i = numbered((4, 5)), np.sort(np.random.default_rng(0).integers(0, 4, (4, 5)), axis=axis).astype(np.int32)
    assert_same_bits(gather_elements(x, i, axis, indices_are_sorted=True), oracle(x, i, axis))
    for bad in ("no", 1, np.array([True]), None):
        with pytest.raises(dml_jax.DataTypeError, match="indices_are_sorted must be True or False"):
            gather_elements(x, i, axis, indices_are_sorted=bad)


# Empty arrays.


def test_empty_indices_give_an_empty_output_even_from_an_empty_axis():
    assert gather_elements(np.zeros((2, 0), np.float32), np.zeros((2, 0), np.int32), 1).shape == (2, 0)


def test_reading_from_an_empty_axis_is_refused():
    with pytest.raises(dml_jax.ConstraintError, match="dimension 1 has size 0"):
        gather_elements(np.zeros((2, 0), np.float32), np.zeros((2, 1), np.int32), 1)


def test_every_length_of_the_axis_is_exported_at_once():
    read, indices = partial(gather_elements, axis=1), ROW[[0] * 4]
    assert_same_bits(exported(read, "b, n", ("b, k", np.int32)).call(X, indices), read(X, indices))


@pytest.mark.thinned
@pytest.mark.parametrize("dtype", [jnp.float8_e5m2, jnp.float8_e4m3fn, jnp.bfloat16, np.float16, np.float32])
def test_derivatives_of_gradients(dtype):
    """Of half of each square that is read: what is read, where it was read. Narrow floats move as integers there."""
    x, at = jnp.arange(1, 9).reshape(4, 2).astype(dtype), np.int32([[3, 1]])
    halves = lambda x: (gather_elements(x, at, 0).astype(np.float32) ** 2).sum() / 2  # noqa: E731
    expected = np.float32([[0, 0], [0, 4], [0, 0], [7, 0]])
    forwards = jax.jit(lambda x: jax.jvp(jax.grad(halves), (x,), (x,))[1].astype(np.float32))
    back = jax.jit(jax.grad(lambda x: (jax.grad(halves)(x) * x).astype(np.float32).sum() / 2))
    assert_same_bits(forwards(x), expected)
    assert_same_bits(back(x).astype(np.float32), expected)
