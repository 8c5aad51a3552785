"""scatter_nd and SCATTER_ND: output = input; output[indices[q], r] = updates[q, r], an index tuple per slice."""

from functools import partial

import jax
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits
from draws import draw_tuples, real
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_cases import Call, Example, Struct, f32, u32
from oracles import addressed, coordinates, reduced
from small_arrays import every_small_shape, numbered, tuples_around

import dml_jax
from dml_jax import ScatterNDDesc, scatter_nd

pytestmark = pytest.mark.device


def oracle(input, indices, updates, mode="drop", reduction=None, include_self=True):
    """Every element's candidates, {coordinate: updates that address it}; with a reduction the output."""
    t = indices.shape[-1]
    candidates = {c: [] for c in coordinates(input.shape)}
    for c in coordinates(updates.shape):
        q, r = c[: indices.ndim - 1], c[indices.ndim - 1 :]
        where = addressed(indices[q], input.shape[:t], mode)
        if where is not None:
            candidates[(*where, *r)].append(updates[c])
    return reduced(input, candidates, reduction, include_self)


X = numbered((4, 6))
PAIRS = np.int32([[0, 0], [3, -1], [-2, 9]])  # the last one out of range
CASE = Call(scatter_nd, {"input": X, "indices": PAIRS, "updates": np.float32([-1, -2, -3])}, indexed=4)
BREAKS = {
    "integer(indices)": {"indices": PAIRS.astype(np.float32)},
    "same_dtype(updates, input)": {"updates": np.int32([1, 2, 3])},
    "minimum_rank(input, 1)": {"input": np.float32(1)},
    "minimum_rank(indices, 1)": {"indices": np.int32(1)},
    "tuples_fit": {"indices": np.zeros((3, 0), np.int32)},
    "one_of(reduction)": {"reduction": "sum"},
    "reducible(input)": {"reduction": "max", "input": X.astype(np.complex64), "updates": np.complex64([1, 2, 3])},
    "one_of(mode)": {"mode": "fill"},
    "sizes_follow(updates)": {"updates": np.float32([1, 2])},
    "indexed_axes_not_empty": {"input": np.zeros((4, 0), np.float32)},
}
# Clamped writes go to different elements, so that none is a duplicate; what is added up has some.
VARIANTS = {
    "clip": {"mode": "clip"},
    "add": {"indices": PAIRS // 2, "reduction": "add", "mode": "clip"},
    "mean": {
        "indices": np.int32([[1, 0]]) * PAIRS % 2 * 3,
        "reduction": "mean",
        "include_self": False,
        "is_weighted": True,
    },
}


# The struct.


def draw(rng):
    input, indices, slices, counts, _ = draw_tuples(rng)
    return {"input": input, "indices": indices, "updates": slices, "output": input, **counts}


def expected(desc, x, i, u):
    t, q, p = i.shape[-1], desc.indices_dimension_count, desc.input_dimension_count
    slices = u.reshape(i.shape[i.ndim - q : -1] + x.shape[x.ndim - p + t :])
    return {(0,) * (x.ndim - p) + at: found for at, found in oracle(real(x, p), real(i, q), slices).items()}


DESC = ScatterNDDesc(f32(1, 1, 8), u32(1, 4, 1), f32(1, 1, 4), f32(1, 1, 8), 1, 2)
STRUCTS = (
    Struct(
        DESC,
        breaks={
            "dimension_count(input_dimension_count)": {"input_dimension_count": 4},
            "dimension_count(indices_dimension_count)": {"indices_dimension_count": 0},
            "ignored_sizes_are_1(input)": {"input": f32(2, 1, 8)},
            "ignored_sizes_are_1(indices)": {"indices": u32(2, 2, 2), "indices_dimension_count": 1},
            "tuples_fit": {"indices": u32(1, 4, 4)},
            "fits_rank(updates)": {
                "input": f32(2, 2, 2),
                "indices": u32(2, 2, 1),
                "input_dimension_count": 3,
                "indices_dimension_count": 3,
            },
            "sizes_follow(updates)": {"updates": f32(1, 1, 5)},
            "same_sizes(output, input)": {"output": f32(1, 8, 1)},
        },
        examples=(Example(DESC, (range(1, 9), [4, 3, 1, 7], [9, 10, 11, 12]), [[1, 11, 3, 10, 9, 6, 7, 12]]),),
        draw=draw,
        expected=expected,
    ),
)


def test_the_documented_sizes():
    """The page's own sizes, which its printed formula contradicts."""
    input = f32(3, 4, 5, 6, 7)
    ScatterNDDesc(input, u32(1, 1, 1, 2, 3), f32(1, 1, 2, 6, 7), input, 5, 3)


# Against the oracle.


@every_small_shape
def test_every_small_shape(shapes):
    def calls():
        rng = np.random.default_rng(4)
        for shape in shapes:
            x = numbered(shape)
            for t in range(1, len(shape) + 1):
                for between, mode in [((), "drop"), ((3,), "drop" if t % 2 else "clip")]:
                    indices = tuples_around(rng, shape[:t], between)
                    updates = -numbered((*between, *shape[t:]))
                    candidates = oracle(x, indices, updates, mode)
                    yield partial(scatter_nd, mode=mode), (x, indices, updates), candidates

    assert_calls_agree(calls())


@given(st.lists(st.integers(1, 7), min_size=1, max_size=4), st.integers(0, 3), st.data())
def check_larger_shapes_without_duplicates(shape, t, data):
    shape, x, t = tuple(shape), numbered(shape), 1 + t % len(shape)
    count = data.draw(st.integers(1, int(np.prod(shape[:t]))))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    flat = rng.permutation(int(np.prod(shape[:t])))[:count]
    tuples = np.stack(np.unravel_index(flat, shape[:t]), axis=-1).astype(np.int32)
    slices = -numbered((count, *shape[t:]))
    expected = x.copy()
    expected[tuple(tuples.T)] = slices
    assert_same_bits(scatter_nd(x, tuples, slices), expected)


def test_larger_shapes_without_duplicates(exhaustive):
    settings(max_examples=100 if exhaustive else 8)(check_larger_shapes_without_duplicates)()


@pytest.mark.parametrize("indices", [[[4], [3], [1], [7]], [[-4], [-5], [-7], [-1]]])
def test_the_documented_example_at_natural_rank(indices):
    actual = scatter_nd(np.arange(1, 9, dtype=np.float32), np.int32(indices), np.float32([9, 10, 11, 12]))
    assert_same_bits(actual, np.float32([1, 11, 3, 10, 9, 6, 7, 12]))


# Single elements, and none.


def test_a_scalar_update_of_one_element():
    x = numbered((2, 2))
    assert_same_bits(scatter_nd(x, np.int32([1, 0]), np.float32(9)), np.float32([[1, 2], [9, 4]]))


@pytest.mark.parametrize(
    ("indices", "match"), [([0, 2], "a tuple has 2 and 1 dimensions"), ([2], r"\(1,\) is not \(\)")]
)
def test_flat_indices_are_one_tuple(indices, match):
    x, indices = numbered((3,)), np.int32(indices)
    wanted = x.copy()
    wanted[indices] = 9
    with pytest.raises(dml_jax.ConstraintError, match=rf"{match}.*; indices\[:, None\] has a tuple for each index"):
        scatter_nd(x, indices, wanted[indices])
    assert_same_bits(scatter_nd(x, indices[:, None], wanted[indices]), wanted)


def test_empty_indices_copy_the_input():
    x = numbered((2, 3))
    assert_same_bits(scatter_nd(x, np.zeros((0, 1), np.int32), np.zeros((0, 3), np.float32)), x)


def test_writing_to_an_empty_axis_is_refused():
    with pytest.raises(dml_jax.ConstraintError, match="dimension 0 has size 0"):
        scatter_nd(np.zeros((0, 3), np.float32), np.int32([[0]]), np.zeros((1, 3), np.float32))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.int32, np.float32])
def test_a_donated_table_is_written_in_place(dtype):
    """The time of a small update must not be that of the table, on any platform."""
    specs = [jax.ShapeDtypeStruct(*of) for of in (((4096, 64), dtype), ((2, 1), np.int32), ((2, 64), dtype))]
    for function in (scatter_nd, lambda x, i, u: scatter_nd(x, i, 2 * u)):
        jitted = jax.jit(lambda x, i, u, f=function: f(x, i, u), donate_argnums=0)
        memory = jitted.lower(*specs).compile().memory_analysis()
        assert memory.alias_size_in_bytes == specs[0].size * specs[0].dtype.itemsize
        assert memory.temp_size_in_bytes < 16 * specs[2].size * specs[2].dtype.itemsize
