"""scatter_elements and scatter_nd against the element-by-element oracles."""

import itertools
from functools import partial

import jax
import numpy as np
import oracles
import pytest
from checks import assert_same_bits, assert_scattered, together
from hypothesis import given, settings
from hypothesis import strategies as st

import dml_jax

pytestmark = pytest.mark.device

SHAPES = [shape for rank in (1, 2, 3) for shape in itertools.product((1, 2, 3), repeat=rank)]
every_first_size = pytest.mark.parametrize("shapes", [[s for s in SHAPES if s[0] == n] for n in (1, 2, 3)], ids="123")


def numbered(shape, start=1):
    return np.arange(start, start + np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def scatter_elements_calls(shapes):
    rng = np.random.default_rng(3)
    for shape in shapes:
        x = numbered(shape)
        for axis, n in enumerate(shape):
            for along, mode, at in [(1, "clip", axis), (2, "drop", axis), (4, "drop", axis - len(shape))]:
                indices = rng.integers(-n - 2, n + 2, (*shape[:axis], along, *shape[axis + 1 :]), dtype=np.int32)
                updates = -numbered(indices.shape)
                function = partial(dml_jax.scatter_elements, axis=at, mode=mode)
                yield function, (x, indices, updates), oracles.scatter_elements(x, indices, updates, axis, mode)


def scatter_nd_calls(shapes):
    rng = np.random.default_rng(4)
    for shape in shapes:
        x = numbered(shape)
        for t in range(1, len(shape) + 1):
            for between, mode in [((), "drop"), ((3,), "drop" if t % 2 else "clip")]:
                columns = [rng.integers(-n - 2, n + 2, between, dtype=np.int32) for n in shape[:t]]
                indices = np.stack(columns, axis=-1)
                updates = -numbered((*between, *shape[t:]))
                function = partial(dml_jax.scatter_nd, mode=mode)
                yield function, (x, indices, updates), oracles.scatter_nd(x, indices, updates, mode)


@every_first_size
@pytest.mark.parametrize("calls", [scatter_elements_calls, scatter_nd_calls])
def test_every_small_shape(calls, shapes):
    calls = list(calls(shapes))
    results = together([(function, *arrays) for function, arrays, _ in calls])
    for result, (_, (x, *_), candidates) in zip(results, calls, strict=True):
        assert_scattered(result, x, candidates)


@settings(max_examples=40)
@given(st.data())
def test_scatters_of_larger_shapes_without_duplicates(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=4)))
    axis = data.draw(st.integers(0, len(shape) - 1))
    along = data.draw(st.integers(1, shape[axis]))
    rng, x = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1))), numbered(shape)
    lines = np.tile(np.arange(shape[axis]), (*shape[:axis], *shape[axis + 1 :], 1))
    order = rng.permuted(lines, axis=-1)
    indices = np.moveaxis(order[..., :along], -1, axis).astype(np.int32)
    updates = -numbered(indices.shape)
    expected = x.copy()
    np.put_along_axis(expected, indices, updates, axis)
    assert_same_bits(dml_jax.scatter_elements(x, indices, updates, axis), expected)
    t = axis + 1
    count = data.draw(st.integers(1, int(np.prod(shape[:t]))))
    flat = rng.permutation(int(np.prod(shape[:t])))[:count]
    tuples = np.stack(np.unravel_index(flat, shape[:t]), axis=-1).astype(np.int32)
    slices = -numbered((count, *shape[t:]))
    expected = x.copy()
    expected[tuple(tuples.T)] = slices
    assert_same_bits(dml_jax.scatter_nd(x, tuples, slices), expected)


# DirectML's documented examples. The first one of SCATTER has a duplicate target: either update may win.


def test_scatter_elements_documented_examples():
    x, indices, updates = np.arange(5, dtype=np.float32), np.uint32([3, 1, 3, 0]), np.float32([5, 6, 7, 8])
    actual = dml_jax.scatter_elements(x, indices, updates, 0)
    assert_scattered(actual, x, oracles.scatter_elements(x, indices, updates, 0))
    actual = dml_jax.scatter_elements(
        np.zeros((3, 3), np.float32),
        np.uint32([[1, 0, 2], [0, 2, 1]]),
        np.float32([[10, 11, 12], [20, 21, 22]]),
        0,
    )
    assert_same_bits(actual, np.float32([[20, 11, 0], [10, 0, 22], [0, 21, 12]]))


@pytest.mark.parametrize("indices", [[[4], [3], [1], [7]], [[-4], [-5], [-7], [-1]]])
def test_scatter_nd_documented_example(indices):
    actual = dml_jax.scatter_nd(np.arange(1, 9, dtype=np.float32), np.int32(indices), np.float32([9, 10, 11, 12]))
    assert_same_bits(actual, np.float32([1, 11, 3, 10, 9, 6, 7, 12]))


def test_input_is_not_modified():
    x = np.zeros(3, np.float32)
    dml_jax.scatter_elements(x, np.int32([0]), np.float32([1]), 0)
    assert not x.any()


def test_a_scalar_update_of_one_element():
    x = numbered((2, 2))
    assert_same_bits(dml_jax.scatter_nd(x, np.int32([1, 0]), np.float32(9)), np.float32([[1, 2], [9, 4]]))


def test_empty_indices_copy_the_input():
    x = numbered((2, 3))
    assert_same_bits(dml_jax.scatter_elements(x, np.zeros((2, 0), np.int32), np.zeros((2, 0), np.float32), 1), x)
    assert_same_bits(dml_jax.scatter_nd(x, np.zeros((0, 1), np.int32), np.zeros((0, 3), np.float32)), x)


def test_writing_to_an_empty_axis_is_refused():
    with pytest.raises(dml_jax.ConstraintError, match="dimension 0 has size 0"):
        dml_jax.scatter_nd(np.zeros((0, 3), np.float32), np.int32([[0]]), np.zeros((1, 3), np.float32))


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.int32, np.float32])
def test_a_donated_table_is_written_in_place(dtype):
    """The time of a small update must not be that of the table, on any platform."""
    specs = [jax.ShapeDtypeStruct(*of) for of in (((4096, 64), dtype), ((2, 1), np.int32), ((2, 64), dtype))]
    for function in (dml_jax.scatter_nd, lambda x, i, u: dml_jax.scatter_nd(x, i, 2 * u)):
        jitted = jax.jit(lambda x, i, u, f=function: f(x, i, u), donate_argnums=0)
        memory = jitted.lower(*specs).compile().memory_analysis()
        assert memory.alias_size_in_bytes == specs[0].size * specs[0].dtype.itemsize
        assert memory.temp_size_in_bytes < 16 * specs[2].size * specs[2].dtype.itemsize
