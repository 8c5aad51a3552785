"""scatter_elements and SCATTER: output = input; output[c with indices[c] at axis] = updates[c]."""

from functools import partial

import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits, assert_scattered
from draws import draw_along_axis
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_cases import Call, Example, Struct, f32, u32
from oracles import addressed, coordinates, reduced
from small_arrays import SIX, every_small_shape, indices_around, numbered

import dml_jax
from dml_jax import ScatterElementsDesc, scatter_elements

pytestmark = pytest.mark.device


def oracle(input, indices, updates, axis, mode="drop", reduction=None, include_self=True):
    """Every element's candidates, {coordinate: updates that address it}; with a reduction the output."""
    axis %= input.ndim
    candidates = {c: [] for c in coordinates(input.shape)}
    for c in coordinates(indices.shape):
        where = addressed([indices[c]], [input.shape[axis]], mode)
        if where is not None:
            candidates[(*c[:axis], *where, *c[axis + 1 :])].append(updates[c])
    return reduced(input, candidates, reduction, include_self)


X = numbered((4, 6))
ROW = np.int32([[3, 0, -1, 2, 9, 1]])  # one index per column, one of them out of range
CASE = Call(scatter_elements, {"input": X, "indices": ROW, "updates": -X[:1]}, {"axis": 0}, indexed=4)
BREAKS = {
    "integer(indices)": {"indices": ROW.astype(np.float32)},
    "same_dtype(updates, input)": {"updates": X[:1].astype(np.float16)},
    "minimum_rank(input, 1)": {"input": np.float32(1), "indices": np.int32(0), "updates": np.float32(1)},
    "same_rank(indices, input)": {"indices": ROW[0], "updates": X[0]},
    "axis_of(input)": {"axis": 2},
    "one_of(reduction)": {"reduction": "sum"},
    "reducible(input)": {"reduction": "max", "input": X.astype(np.complex64), "updates": -X[:1].astype(np.complex64)},
    "one_of(mode)": {"mode": "fill"},
    "same_sizes(indices, input, except_along=axis)": {"indices": ROW[:, :3], "updates": X[:1, :3]},
    "same_sizes(updates, indices)": {"updates": X[:2]},
    "indexed_axes_not_empty": {"input": np.zeros((0, 6), np.float32)},
}
# Clamped writes go to different elements, so that none is a duplicate.
VARIANTS = {"clip": {"mode": "clip"}, "mean": {"indices": ROW // 9, "reduction": "mean", "is_weighted": True}}


# The struct.


def draw(rng):
    input, indices, axis = draw_along_axis(rng)
    return {"input": input, "indices": indices, "updates": indices, "output": input, "axis": axis}


DOCUMENTED = ScatterElementsDesc(f32(3, 3), u32(2, 3), f32(2, 3), f32(3, 3), axis=0)
STRUCTS = (
    Struct(
        DOCUMENTED,
        breaks={
            "below_rank(axis)": {"axis": 2},
            "same_sizes(indices, input, except_along=axis)": {"axis": 1},
            "same_sizes(updates, indices)": {"updates": f32(3, 3)},
            "same_sizes(output, input)": {"output": f32(2, 3)},
        },
        examples=(
            Example(
                DOCUMENTED, ([0] * 9, [1, 0, 2, 0, 2, 1], [10, 11, 12, 20, 21, 22]), [[20, 11, 0, 10, 0, 22, 0, 21, 12]]
            ),
        ),
        draw=draw,
        expected=lambda desc, x, i, u: oracle(x, i, u, desc.axis),
        leading={"axis": 1},
    ),
)


def test_the_struct_has_two_names():
    assert dml_jax.ScatterDesc is ScatterElementsDesc


# Against the oracle.


@every_small_shape
def test_every_small_shape(shapes):
    def calls():
        rng = np.random.default_rng(3)
        for shape in shapes:
            x = numbered(shape)
            for axis, n in enumerate(shape):
                for along, mode, at in [(1, "clip", axis), (2, "drop", axis), (4, "drop", axis - len(shape))]:
                    indices = indices_around(rng, n, (*shape[:axis], along, *shape[axis + 1 :]))
                    updates = -numbered(indices.shape)
                    candidates = oracle(x, indices, updates, axis, mode)
                    yield partial(scatter_elements, axis=at, mode=mode), (x, indices, updates), candidates

    assert_calls_agree(calls())


@given(st.lists(st.integers(1, 7), min_size=1, max_size=4), st.integers(0, 3), st.data())
def check_larger_shapes_without_duplicates(shape, axis, data):
    axis, x = axis % len(shape), numbered(shape)
    along = data.draw(st.integers(1, shape[axis]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    lines = np.tile(np.arange(shape[axis]), (*shape[:axis], *shape[axis + 1 :], 1))
    indices = np.moveaxis(rng.permuted(lines, axis=-1)[..., :along], -1, axis).astype(np.int32)
    updates = -numbered(indices.shape)
    expected = x.copy()
    np.put_along_axis(expected, indices, updates, axis)
    assert_same_bits(scatter_elements(x, indices, updates, axis), expected)


def test_larger_shapes_without_duplicates(exhaustive):
    settings(max_examples=100 if exhaustive else 8)(check_larger_shapes_without_duplicates)()


def test_promise_in_bounds_wraps_negative_indices():
    indices = np.int32([-1, 0, -5, 4])
    expected = SIX.copy()
    expected[indices] *= -1
    assert_same_bits(scatter_elements(SIX, indices, -SIX[indices], 0, mode="promise_in_bounds"), expected)


# DirectML's documented examples.


def test_the_example_with_a_duplicate_target():
    """DirectML prints the last update and calls such a call invalid: either update may win."""
    x, indices, updates = np.arange(5, dtype=np.float32), np.uint32([3, 1, 3, 0]), np.float32([5, 6, 7, 8])
    candidates = oracle(x, indices, updates, 0)
    assert_scattered(scatter_elements(x, indices, updates, 0), x, candidates)
    desc = ScatterElementsDesc(f32(5), u32(4), f32(4), f32(5), 0)
    assert_scattered(desc.compute(x, indices, updates), x, candidates)


def test_the_example_at_natural_rank():
    indices, updates = np.uint32([[1, 0, 2], [0, 2, 1]]), np.float32([[10, 11, 12], [20, 21, 22]])
    actual = scatter_elements(np.zeros((3, 3), np.float32), indices, updates, 0)
    assert_same_bits(actual, np.float32([[20, 11, 0], [10, 0, 22], [0, 21, 12]]))


# What is left alone.


def test_input_is_not_modified():
    x = np.zeros(3, np.float32)
    scatter_elements(x, np.int32([0]), np.float32([1]), 0)
    assert not x.any()


def test_empty_indices_copy_the_input():
    x = numbered((2, 3))
    assert_same_bits(scatter_elements(x, np.zeros((2, 0), np.int32), np.zeros((2, 0), np.float32), 1), x)
