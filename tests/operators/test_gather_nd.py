"""gather_nd, GATHER_ND and GATHER_ND1: output[b, q, r] = input[b, indices[b, q], r], an index tuple per slice."""

from functools import partial

import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits
from draws import draw_tuples, real
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_cases import Call, Example, Struct, f32, u32
from oracles import addressed, coordinates
from small_arrays import SIX, every_small_shape, numbered, tuples_around

import dml_jax
from dml_jax import GatherND1Desc, GatherNDDesc, gather_nd

pytestmark = pytest.mark.device


def oracle(input, indices, batch_dims=0, mode="clip", fill_value=0):
    t = indices.shape[-1]
    sizes = input.shape[batch_dims : batch_dims + t]
    output = np.empty(indices.shape[:-1] + input.shape[batch_dims + t :], input.dtype)
    for c in coordinates(output.shape):
        q, r = c[: indices.ndim - 1], c[indices.ndim - 1 :]
        where = addressed(indices[q], sizes, mode)
        output[c] = fill_value if where is None else input[(*c[:batch_dims], *where, *r)]
    return output


X = numbered((4, 6))
PAIRS = np.int32([[0, 0], [3, -1], [-2, 9]])  # the last one out of range
CASE = Call(gather_nd, {"input": X, "indices": PAIRS}, indexed=4)
BREAKS = {
    "integer(indices)": {"indices": PAIRS.astype(np.float32)},
    "minimum_rank(input, 1)": {"input": np.float32(1)},
    "minimum_rank(indices, 1)": {"indices": np.int32(1)},
    "batch_fits": {"batch_dims": 2},
    "tuples_fit": {"indices": np.zeros((3, 3), np.int32)},
    "batch_sizes_agree": {"batch_dims": 1, "indices": np.zeros((3, 1), np.int32)},
    "one_of(mode)": {"mode": "drop"},
    "indexed_axes_not_empty": {"input": np.zeros((4, 0), np.float32)},
}
VARIANTS = {"fill": {"mode": "fill"}, "batch": {"indices": np.int32([[[5], [-9]]] * 4), "batch_dims": 1}}


# The structs.


def draw(rng):
    input, indices, slices, counts, _ = draw_tuples(rng)
    return {"input": input, "indices": indices, "output": slices, **counts}


def draw_batched(rng):
    input, indices, slices, counts, batch = draw_tuples(rng, batched=True)
    return {"input": input, "indices": indices, "output": slices, **counts, "batch_dimension_count": batch}


def expected(desc, x, i):
    batch = getattr(desc, "batch_dimension_count", 0)
    return oracle(real(x, desc.input_dimension_count), real(i, desc.indices_dimension_count), batch)


def breaks(desc):
    """Changes that break the rules of both structs."""
    rank = len(desc.input.sizes)
    two = (2,) * rank
    return {
        "dimension_count(input_dimension_count)": {"input_dimension_count": rank + 1},
        "dimension_count(indices_dimension_count)": {"indices_dimension_count": 0},
        "ignored_sizes_are_1(input)": {"input": f32(2, *desc.input.sizes[1:]), "input_dimension_count": 1},
        "ignored_sizes_are_1(indices)": {"indices": u32(*two), "indices_dimension_count": 1},
        "tuples_fit": {"indices": u32(*desc.indices.sizes[:-1], rank + 1)},
        "fits_rank(output)": {
            "input": f32(*two),
            "indices": u32(*two[:-1], 1),
            "input_dimension_count": rank,
            "indices_dimension_count": rank,
        },
        "sizes_follow(output)": {"output": f32(*desc.output.sizes[:-1], 5)},
    }


ND = GatherNDDesc(f32(1, 2, 2, 2), u32(1, 1, 2, 2), f32(1, 1, 2, 2), 3, 2)
ND1 = GatherND1Desc(f32(1, 3, 2, 2), u32(1, 3, 2, 2), f32(1, 1, 3, 2), 3, 3, 1)
STRUCTS = (
    Struct(
        ND,
        breaks=breaks(ND),
        examples=(
            Example(GatherNDDesc(f32(2, 2), u32(2, 1), f32(2, 2), 2, 2), (range(4), [1, 0]), [[2, 3, 0, 1]]),
            Example(ND, (range(8), [0, 1, 1, 0]), [[2, 3, 4, 5]]),
        ),
        draw=draw,
        expected=expected,
    ),
    Struct(
        ND1,
        breaks=breaks(ND1)
        | {"batch_fits": {"batch_dimension_count": 3}, "batch_sizes_agree": {"indices": u32(1, 2, 2, 2)}},
        examples=(
            Example(GatherND1Desc(f32(2, 2), u32(2, 1), f32(2, 2), 2, 2, 0), (range(4), [1, 0]), [[2, 3, 0, 1]]),
            Example(ND1, (range(12), [0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 0]), [[0, 3, 7, 4, 9, 10]]),
        ),
        draw=draw_batched,
        expected=expected,
    ),
)


def test_the_documented_sizes():
    """The page's own sizes, which its printed formula contradicts."""
    sizes = f32(3, 4, 5, 6, 7), u32(1, 1, 1, 2, 3)
    GatherNDDesc(*sizes, f32(1, 1, 2, 6, 7), 5, 3)
    with pytest.raises(dml_jax.ConstraintError, match=r"\(1, 2, 5, 6, 7\) is not \(1, 1, 2, 6, 7\)"):
        GatherNDDesc(*sizes, f32(1, 2, 5, 6, 7), 5, 3)


def test_an_8_dimensional_output():
    wide = GatherNDDesc(f32(1, 1, 1, 1, 1, 1, 2, 3), u32(1, 1, 1, 1, 1, 1, 2, 1), f32(*(1,) * 6, 2, 3), 2, 2)
    x = np.arange(6, dtype=np.float32).reshape(wide.input.sizes)
    assert_same_bits(wide.compute(x, np.zeros(wide.indices.sizes, np.uint32)), x[..., [0, 0], :])


# Against the oracle.


@every_small_shape
def test_every_small_shape(shapes):
    def calls():
        rng = np.random.default_rng(2)
        for shape in shapes:
            x, rank = numbered(shape), len(shape)
            for b in range(rank):
                for t in range(1, rank - b + 1):
                    for between, mode in [((), "fill"), ((3,), "clip")]:
                        indices = tuples_around(rng, shape[b : b + t], (*shape[:b], *between))
                        yield partial(gather_nd, batch_dims=b, mode=mode), (x, indices), oracle(x, indices, b, mode)

    assert_calls_agree(calls())


@given(
    st.lists(st.integers(1, 7), min_size=1, max_size=5),
    st.integers(0, 4),
    st.integers(0, 4),
    st.integers(1, 9),
    st.sampled_from([np.int8, np.int16, np.int32]),
    st.integers(0, 2**32 - 1),
)
def check_larger_shapes(shape, batch, t, count, dtype, seed):
    shape, batch = tuple(shape), batch % len(shape)
    t = 1 + t % (len(shape) - batch)
    x = numbered(shape)
    indices = tuples_around(np.random.default_rng(seed), shape[batch : batch + t], (*shape[:batch], count), dtype)
    assert_same_bits(gather_nd(x, indices, batch_dims=batch), oracle(x, indices, batch))


def test_larger_shapes(exhaustive):
    settings(max_examples=100 if exhaustive else 8)(check_larger_shapes)()


def test_promise_in_bounds_wraps_negative_indices():
    indices = np.int32([-1, 0, -6, 5])
    assert_same_bits(gather_nd(SIX, indices[:, None], mode="promise_in_bounds"), SIX[indices])


# DirectML's documented examples, at natural rank.


@pytest.mark.parametrize(
    ("shape", "indices", "batch_dims", "output"),
    [
        ((2, 2), [[1], [0]], 0, [[2, 3], [0, 1]]),
        ((2, 2, 2), [[0, 1], [1, 0]], 0, [[2, 3], [4, 5]]),
        ((3, 2, 2), [[[0, 0], [1, 1]], [[1, 1], [0, 0]], [[0, 1], [1, 0]]], 1, [[0, 3], [7, 4], [9, 10]]),
        ((2, 2), [[-2, -2], [-1, -1]], 0, [0, 3]),
    ],
)
def test_documented_examples(shape, indices, batch_dims, output):
    input = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    assert_same_bits(gather_nd(input, np.int32(indices), batch_dims=batch_dims), np.float32(output))


def test_each_coordinate_is_clamped_not_the_flat_index():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert_same_bits(gather_nd(x, np.int32([[0, 4], [5, 0]])), np.float32([2, 3]))


def test_flat_indices_are_one_tuple():
    x = np.float32([10, 11, 12])
    with pytest.raises(
        dml_jax.ConstraintError, match=r"a tuple has 2 and 1 .*; indices\[:, None\] has a tuple for each"
    ):
        gather_nd(x, np.int32([0, 2]))
    assert_same_bits(gather_nd(x, np.int32([0, 2])[:, None]), np.float32([10, 12]))


# Empty arrays.


def test_empty_indices_give_an_empty_output_even_from_an_empty_axis():
    assert gather_nd(np.zeros((2, 0), np.float32), np.zeros((0, 2), np.int32)).shape == (0,)


def test_reading_from_an_empty_axis_is_refused():
    with pytest.raises(dml_jax.ConstraintError, match="dimension 1 has size 0"):
        gather_nd(np.zeros((2, 0), np.float32), np.zeros((1, 2), np.int32))
