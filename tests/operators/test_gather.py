"""gather and GATHER: output[pre, q, post] = input[pre, indices[q], post]."""

from functools import partial

import jax
import ml_dtypes
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits, exported
from draws import dims, pad, real
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_cases import Call, Example, Struct, f32, u32
from oracles import addressed, coordinates
from small_arrays import SIX, every_small_shape, indices_around, numbered

import dml_jax
from dml_jax import GatherDesc, gather

pytestmark = pytest.mark.device


def oracle(input, indices, axis, mode="clip", fill_value=0):
    axis %= input.ndim
    output = np.empty(input.shape[:axis] + indices.shape + input.shape[axis + 1 :], input.dtype)
    for c in coordinates(output.shape):
        pre, q, post = c[:axis], c[axis : axis + indices.ndim], c[axis + indices.ndim :]
        where = addressed([indices[q]], [input.shape[axis]], mode)
        output[c] = fill_value if where is None else input[(*pre, *where, *post)]
    return output


X = numbered((4, 6))
CASE = Call(gather, {"input": X, "indices": np.int32([[3, 0], [-1, 9]])}, {"axis": 1}, indexed=6)
BREAKS = {
    "integer(indices)": {"indices": np.float32([0])},
    "minimum_rank(input, 1)": {"input": np.float32(1)},
    "axis_of(input)": {"axis": 2},
    "one_of(mode)": {"mode": "wrap"},
    "indexed_axes_not_empty": {"input": np.zeros((4, 0), np.float32)},
}
VARIANTS = {
    "fill": {"mode": "fill"},
    "deterministic": {"deterministic": True},
    "unique": {"indices": np.int32([5, 3, -6, 1, 2, 4]), "unique_indices": True},
}


# The struct.


def draw(rng):
    rank = int(rng.integers(1, 9))
    count = int(rng.integers(0, rank + 1))
    leading = max(0, count - 1)
    axis = int(rng.integers(leading, rank))
    input, indices = pad(dims(rng, rank - leading), rank), dims(rng, count, 8)
    output = [*input[:axis], *indices, *input[axis + 1 :]]
    return {
        "input": input,
        "indices": pad(indices, rank),
        "output": pad(output[max(0, len(output) - rank) :], rank),
        "axis": axis,
        "index_dimensions": count,
    }


STRUCTS = (
    Struct(
        GatherDesc(f32(1, 3, 2), u32(1, 2, 2), f32(2, 2, 2), axis=1, index_dimensions=2),
        breaks={
            "below_rank(axis)": {"axis": 3},
            "dimension_count(index_dimensions)": {"index_dimensions": 4},
            "ignored_sizes_are_1(indices)": {"index_dimensions": 1},
            "fits_rank(output)": {"input": f32(2, 3, 2)},
            "sizes_follow(output)": {"output": f32(2, 2, 3)},
        },
        examples=(
            Example(
                GatherDesc(f32(4), u32(5), f32(5), 0, 1), ([11, 12, 13, 14], [3, 1, 3, 0, 2]), [[14, 12, 14, 11, 13]]
            ),
            Example(
                GatherDesc(f32(3, 2), u32(1, 4), f32(4, 2), 0, 1),
                (range(1, 7), [0, 1, 1, 2]),
                [[1, 2, 3, 4, 3, 4, 5, 6]],
            ),
            Example(GatherDesc(f32(3, 2), u32(1, 2), f32(3, 2), 1, 1), (range(1, 7), [1, 0]), [[2, 1, 4, 3, 6, 5]]),
            Example(
                GatherDesc(f32(1, 3, 3), u32(1, 1, 2), f32(3, 1, 2), 2, 2), (range(1, 10), [0, 2]), [[1, 3, 4, 6, 7, 9]]
            ),
            Example(
                GatherDesc(f32(1, 3, 2), u32(1, 2, 2), f32(2, 2, 2), 1, 2),
                (range(1, 7), [0, 1, 1, 2]),
                [[1, 2, 3, 4, 3, 4, 5, 6]],
            ),
        ),
        draw=draw,
        expected=lambda desc, x, i: oracle(x, real(i, desc.index_dimensions), desc.axis),
        leading={"axis": 1},
    ),
)


# Against the oracle.


@every_small_shape
def test_every_small_shape(shapes):
    def calls():
        rng = np.random.default_rng(0)
        for shape in shapes:
            x, rank = numbered(shape), len(shape)
            for axis, n in enumerate(shape):
                for sizes, mode, at in [((), "fill", axis), ((4,), "clip", axis), ((2, 2), "fill", axis - rank)]:
                    indices = indices_around(rng, n, sizes)
                    yield partial(gather, axis=at, mode=mode), (x, indices), oracle(x, indices, axis, mode)

    assert_calls_agree(calls())


@given(
    st.lists(st.integers(1, 7), min_size=1, max_size=5),
    st.integers(0, 4),
    st.integers(1, 9),
    st.sampled_from([np.int8, np.int16, np.int32]),
    st.integers(0, 2**32 - 1),
)
def check_larger_shapes(shape, axis, count, dtype, seed):
    x, axis = numbered(shape), axis % len(shape)
    indices = indices_around(np.random.default_rng(seed), shape[axis], (count,), dtype)
    assert_same_bits(gather(x, indices, axis), oracle(x, indices, axis))


def test_larger_shapes(exhaustive):
    settings(max_examples=100 if exhaustive else 8)(check_larger_shapes)()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_narrow_indices_address_long_axes(dtype):
    """Index arithmetic in the index type would overflow: the axis is longer than the type can count."""
    x = np.arange(1000, dtype=np.int32)
    indices = np.array([0, 1, 127, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    assert_same_bits(gather(x, indices, 0), oracle(x, indices, 0))


# DirectML's documented examples, at natural rank.

ROWS = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
SQUARE = numbered((3, 3))


@pytest.mark.parametrize(
    ("input", "indices", "axis", "output"),
    [
        (np.float32([11, 12, 13, 14]), [3, 1, 3, 0, 2], 0, [14, 12, 14, 11, 13]),
        (ROWS, [0, 1, 1, 2], 0, [[1, 2], [3, 4], [3, 4], [5, 6]]),
        (ROWS, [1, 0], 1, [[2, 1], [4, 3], [6, 5]]),
        (SQUARE, [[0, 2]], 1, [[[1, 3]], [[4, 6]], [[7, 9]]]),
        (ROWS, [[0, 1], [1, 2]], 0, [[[1, 2], [3, 4]], [[3, 4], [5, 6]]]),
        (SQUARE, 1, 0, [4, 5, 6]),
        (SQUARE, 1, 1, [2, 5, 8]),
    ],
)
def test_documented_examples(input, indices, axis, output):
    assert_same_bits(gather(input, np.uint32(indices), axis), np.float32(output))


def test_a_scalar_index_of_a_descriptor():
    desc = GatherDesc(f32(3, 3), u32(1, 1), f32(1, 3), 0, 0)
    assert_same_bits(desc.compute(SQUARE, np.uint32([[1]])), SQUARE[1:2])


# Indices.


def test_a_python_integer_is_an_index():
    assert gather(SIX, -1, 0) == 15
    for far in (2**40, 2**63, 2**64, 10**50):
        assert gather(SIX, far, 0) == 15
        assert gather(SIX, -far, 0) == 10


def test_promise_in_bounds_wraps_negative_indices():
    indices = np.int32([-1, 0, -6, 5])
    assert_same_bits(gather(SIX, indices, 0, mode="promise_in_bounds"), SIX[indices])


def test_an_axis_beyond_32_bits_asks_for_64_bit_indices(x64):
    """Traced on shapes alone: nothing of this size is allocated."""
    long = jax.ShapeDtypeStruct((2**31 + 8,), np.int8)
    indices = jax.ShapeDtypeStruct((3,), np.int32)
    call = lambda: jax.eval_shape(lambda x, i: gather(x, i, 0), long, indices)  # noqa: E731
    if x64:
        assert call().shape == (3,)
    else:
        with pytest.raises(dml_jax.ConstraintError, match="enable jax_enable_x64"):
            call()


# Empty arrays.


def test_empty_indices_give_an_empty_output_even_from_an_empty_axis():
    x, none = np.zeros((2, 0), np.float32), np.zeros((0,), np.int32)
    assert gather(x, none, 1).shape == (2, 0)
    assert gather(x, none, 0).shape == (0, 0)


def test_reading_from_an_empty_axis_is_refused():
    with pytest.raises(dml_jax.ConstraintError, match="dimension 1 has size 0"):
        gather(np.zeros((2, 0), np.float32), np.int32([0]), 1)


# Fill values.


def test_fill_value_takes_the_type_of_the_input():
    x = np.float32([1, 2])
    bad = np.int32([0, 7])
    assert_same_bits(gather(x, bad, 0, mode="fill"), np.float32([1, 0]))
    assert_same_bits(gather(x, bad, 0, mode="fill", fill_value=-0.0), np.float32([1, -0.0]))
    assert_same_bits(gather(x, bad, 0, mode="fill", fill_value=np.nan), np.float32([1, np.nan]))
    assert_same_bits(gather(np.int8([1, 2]), bad, 0, mode="fill", fill_value=-128), np.int8([1, -128]))
    assert_same_bits(gather(np.array([True, True]), bad, 0, mode="fill"), np.array([True, False]))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (np.int8, 128),
        (np.float32, "1"),
        (np.float32, [1, [2]]),
        (np.float32, [1]),
        (np.uint8, -1),
        (np.int32, 0.5),
        (np.float16, 1e6),
        (np.float32, 1j),
        (np.int32, np.nan),
    ],
)
def test_fill_value_that_the_type_cannot_hold_is_refused(dtype, value):
    with pytest.raises(dml_jax.DataTypeError, match=r"fill_value must be a number .* holds, but it is"):
        gather(np.zeros(2, dtype), np.int32([0]), 0, mode="fill", fill_value=value)


def test_fill_value_without_fill_mode_is_refused():
    with pytest.raises(dml_jax.ConstraintError, match='fill_value needs mode="fill"'):
        gather(np.zeros(2, np.float32), np.int32([0]), 0, fill_value=1)


def test_a_type_without_zero_needs_a_fill_value():
    x = np.ones(2, ml_dtypes.float8_e8m0fnu)
    with pytest.raises(dml_jax.DataTypeError, match=r"0 if not given.* that float8_e8m0fnu holds, but it is 0"):
        gather(x, np.int32([0]), 0, mode="fill")
    assert_same_bits(gather(x, np.int32([0, 9]), 0, mode="fill", fill_value=4), np.array([1, 4], x.dtype))


# Export.


@pytest.mark.parametrize("mode", ["clip", "fill"])
def test_every_length_of_the_axis_is_exported_at_once(mode):
    read, indices = partial(gather, axis=1, mode=mode), np.int32([5, -1, 9])
    assert_same_bits(exported(read, "b, n", ("k", np.int32)).call(X, indices), read(X, indices))
