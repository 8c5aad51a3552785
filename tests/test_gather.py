"""gather, gather_elements and gather_nd against the element-by-element oracles."""

import itertools
from functools import partial

import ml_dtypes
import numpy as np
import oracles
import pytest
from checks import assert_same_bits, together
from hypothesis import given, settings
from hypothesis import strategies as st

import dml_jax

pytestmark = pytest.mark.device

SHAPES = [shape for rank in (1, 2, 3) for shape in itertools.product((1, 2, 3), repeat=rank)]
every_first_size = pytest.mark.parametrize("shapes", [[s for s in SHAPES if s[0] == n] for n in (1, 2, 3)], ids="123")


def numbered(shape, dtype=np.float32):
    """1, 2, 3, ...: every element is different, none is 0."""
    return np.arange(1, 1 + np.prod(shape, dtype=int), dtype=dtype).reshape(shape)


def indices_around(rng, size, shape, dtype=np.int32):
    """Indices in range, negative, and just out of range on both sides."""
    return rng.integers(-size - 2, size + 2, shape).astype(dtype)


def assert_calls_agree(calls):
    """Each is (what to call, its arrays, what an oracle says)."""
    calls = list(calls)
    results = together([(function, *arrays) for function, arrays, _ in calls])
    for result, (function, arrays, expected) in zip(results, calls, strict=True):
        try:
            assert_same_bits(result, expected)
        except AssertionError as error:
            error.add_note(f"{function} of {arrays}")
            raise


def gather_calls(shapes):
    rng = np.random.default_rng(0)
    for shape in shapes:
        x = numbered(shape)
        for axis in range(len(shape)):
            for indices_shape, mode, at in [((), "fill", axis), ((4,), "clip", axis), ((2, 2), "fill", axis - x.ndim)]:
                indices = indices_around(rng, shape[axis], indices_shape)
                function = partial(dml_jax.gather, axis=at, mode=mode)
                yield function, (x, indices), oracles.gather(x, indices, axis, mode)


def gather_elements_calls(shapes):
    rng = np.random.default_rng(1)
    for shape in shapes:
        x = numbered(shape)
        for axis in range(len(shape)):
            for along, mode, at in [(1, "clip", axis), (2, "fill", axis), (4, "clip", axis - len(shape))]:
                indices = indices_around(rng, shape[axis], (*shape[:axis], along, *shape[axis + 1 :]))
                function = partial(dml_jax.gather_elements, axis=at, mode=mode)
                yield function, (x, indices), oracles.gather_elements(x, indices, axis, mode)


def gather_nd_calls(shapes):
    rng = np.random.default_rng(2)
    for shape in shapes:
        x = numbered(shape)
        for b in range(len(shape)):
            for t in range(1, len(shape) - b + 1):
                for between, mode in [((), "fill"), ((3,), "clip")]:
                    columns = [indices_around(rng, n, (*shape[:b], *between)) for n in shape[b : b + t]]
                    indices = np.stack(columns, axis=-1)
                    function = partial(dml_jax.gather_nd, batch_dims=b, mode=mode)
                    yield function, (x, indices), oracles.gather_nd(x, indices, b, mode)


@every_first_size
@pytest.mark.parametrize("calls", [gather_calls, gather_elements_calls, gather_nd_calls])
def test_every_small_shape(calls, shapes):
    assert_calls_agree(calls(shapes))


@settings(max_examples=60)
@given(st.data())
def test_gathers_of_larger_shapes(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=5)))
    axis = data.draw(st.integers(0, len(shape) - 1))
    along = data.draw(st.integers(1, 9))
    dtype = data.draw(st.sampled_from([np.int8, np.int16, np.int32]))
    seed = data.draw(st.integers(0, 2**32 - 1))
    rng, x = np.random.default_rng(seed), numbered(shape)
    line = indices_around(rng, shape[axis], (along,), dtype)
    grid = indices_around(rng, shape[axis], (*shape[:axis], along, *shape[axis + 1 :]), dtype)
    b, t = axis, data.draw(st.integers(1, len(shape) - axis))
    tuples = np.stack([indices_around(rng, n, (*shape[:b], along), dtype) for n in shape[b : b + t]], axis=-1)
    assert_calls_agree(
        [
            (partial(dml_jax.gather, axis=axis), (x, line), oracles.gather(x, line, axis)),
            (partial(dml_jax.gather_elements, axis=axis), (x, grid), oracles.gather_elements(x, grid, axis)),
            (partial(dml_jax.gather_nd, batch_dims=b), (x, tuples), oracles.gather_nd(x, tuples, b)),
        ]
    )


# DirectML's documented examples, at natural rank.

ROWS = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
SQUARE = np.arange(1, 10, dtype=np.float32).reshape(3, 3)


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
def test_gather_documented_examples(input, indices, axis, output):
    assert_same_bits(dml_jax.gather(input, np.uint32(indices), axis), np.float32(output))


def test_gather_elements_documented_examples():
    indices = np.uint32([[1, 2, 0], [2, 0, 0]])
    expected = np.float32([[4, 8, 3], [7, 2, 3]])
    assert_same_bits(dml_jax.gather_elements(SQUARE, indices, 0), expected)
    assert_same_bits(dml_jax.gather_elements(SQUARE, np.int32([[-2, -1, -3], [-1, -3, -3]]), 0), expected)


@pytest.mark.parametrize(
    ("shape", "indices", "batch_dims", "output"),
    [
        ((2, 2), [[1], [0]], 0, [[2, 3], [0, 1]]),
        ((2, 2, 2), [[0, 1], [1, 0]], 0, [[2, 3], [4, 5]]),
        ((3, 2, 2), [[[0, 0], [1, 1]], [[1, 1], [0, 0]], [[0, 1], [1, 0]]], 1, [[0, 3], [7, 4], [9, 10]]),
        ((2, 2), [[-2, -2], [-1, -1]], 0, [0, 3]),
    ],
)
def test_gather_nd_documented_examples(shape, indices, batch_dims, output):
    input = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    assert_same_bits(dml_jax.gather_nd(input, np.int32(indices), batch_dims=batch_dims), np.float32(output))


def test_gather_nd_clamps_each_coordinate_not_the_flat_index():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert_same_bits(dml_jax.gather_nd(x, np.int32([[0, 4], [5, 0]])), np.float32([2, 3]))


# Empty arrays.


def test_empty_indices_give_an_empty_output_even_from_an_empty_axis():
    x, none = np.zeros((2, 0), np.float32), np.zeros((0,), np.int32)
    assert dml_jax.gather(x, none, 1).shape == (2, 0)
    assert dml_jax.gather(x, none, 0).shape == (0, 0)
    assert dml_jax.gather_elements(x, np.zeros((2, 0), np.int32), 1).shape == (2, 0)
    assert dml_jax.gather_nd(x, np.zeros((0, 2), np.int32)).shape == (0,)


@pytest.mark.parametrize(
    "read",
    [
        lambda x: dml_jax.gather(x, np.int32([0]), 1),
        lambda x: dml_jax.gather_elements(x, np.zeros((2, 1), np.int32), 1),
        lambda x: dml_jax.gather_nd(x, np.zeros((1, 2), np.int32)),
    ],
)
def test_reading_from_an_empty_axis_is_refused(read):
    with pytest.raises(dml_jax.ConstraintError, match="dimension 1 has size 0"):
        read(np.zeros((2, 0), np.float32))


# Fill values.


def test_fill_value_takes_the_type_of_the_input():
    x = np.float32([1, 2])
    bad = np.int32([0, 7])
    assert_same_bits(dml_jax.gather(x, bad, 0, mode="fill"), np.float32([1, 0]))
    assert_same_bits(dml_jax.gather(x, bad, 0, mode="fill", fill_value=-0.0), np.float32([1, -0.0]))
    assert_same_bits(dml_jax.gather(x, bad, 0, mode="fill", fill_value=np.nan), np.float32([1, np.nan]))
    assert_same_bits(dml_jax.gather(np.int8([1, 2]), bad, 0, mode="fill", fill_value=-128), np.int8([1, -128]))
    assert_same_bits(dml_jax.gather(np.array([True, True]), bad, 0, mode="fill"), np.array([True, False]))


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
        dml_jax.gather(np.zeros(2, dtype), np.int32([0]), 0, mode="fill", fill_value=value)


def test_fill_value_without_fill_mode_is_refused():
    with pytest.raises(dml_jax.ConstraintError, match='fill_value needs mode="fill"'):
        dml_jax.gather(np.zeros(2, np.float32), np.int32([0]), 0, fill_value=1)


def test_a_type_without_zero_needs_a_fill_value():
    x = np.ones(2, ml_dtypes.float8_e8m0fnu)
    with pytest.raises(dml_jax.DataTypeError, match=r"0 if not given.* that float8_e8m0fnu holds, but it is None"):
        dml_jax.gather(x, np.int32([0]), 0, mode="fill")
    assert_same_bits(dml_jax.gather(x, np.int32([0, 9]), 0, mode="fill", fill_value=4), np.array([1, 4], x.dtype))


@pytest.mark.parametrize("axis", [0, 1])
def test_sorted_indices_are_a_promise_that_changes_nothing(axis):
    x, i = numbered((4, 5)), np.sort(np.random.default_rng(0).integers(0, 4, (4, 5)), axis=axis).astype(np.int32)
    actual = dml_jax.gather_elements(x, i, axis, indices_are_sorted=True)
    assert_same_bits(actual, oracles.gather_elements(x, i, axis))
    for bad in ("no", 1, np.array([True]), None):
        with pytest.raises(dml_jax.DataTypeError, match="indices_are_sorted must be True or False"):
            dml_jax.gather_elements(x, i, axis, indices_are_sorted=bad)
