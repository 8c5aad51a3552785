"""lp_pooling, LP_POOLING and LP_POOLING1: the norm of each window."""

from functools import partial
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close, assert_same_bits, spread, together
from draws import normal_numbers
from jax.test_util import check_grads
from operator_cases import Call, Example, Struct, f32
from oracles import coordinates
from refusals import refuses
from small_arrays import numbered
from window_cases import (
    DILATED_BREAKS,
    DILATED_LEADING,
    POOLING_BREAKS,
    POOLING_LEADING,
    counted,
    draw_pooled,
    filled,
    places,
    pooling_of,
    some_windows,
    window_breaks,
)

from dml_jax import ConstraintError, DataTypeError, lp_pooling
from dml_jax.descs import LpPooling1Desc, LpPoolingDesc

pytestmark = pytest.mark.device


def exact(input, window_sizes, p=2, **given):
    """In float64, one element after the other."""
    attributes = filled(window_sizes, **given)
    split = input.ndim - len(window_sizes)
    lead, sizes = input.shape[:split], input.shape[split:]
    counts = counted(sizes, attributes)
    totals = np.zeros((*lead, prod(counts)))
    for _, column, at in places(sizes, attributes):
        for batch in coordinates(lead) if at is not None else ():
            totals[*batch, column] += abs(float(input[*batch, *at])) ** p
    return (totals ** (1 / p)).reshape(*lead, *counts)


def oracle(input, window_sizes, **given):
    return exact(input, window_sizes, **given).astype(input.dtype)


X = numbered((2, 3, 4)) - 12
CASE = Call(lp_pooling, {"input": X}, {"window_sizes": (2, 2), "p": 1}, is_linear=False)
BREAKS = {
    "numbers(input)": {"input": X.astype(jnp.float8_e8m0fnu)},
    "float(input)": {"input": X.astype(np.int32)},
    "norm(p)": {"p": 0.5},
    "spatial(window_sizes)": {"window_sizes": (1, 1, 1, 1)},
    **window_breaks((2, 5)),
}
# Sums of absolute values, and norms of one number, are exact.
VARIANTS = {
    "padded": {"start_padding": (1, 0), "end_padding": (1, 0), "strides": (2, 2)},
    "dilated": {"dilations": (2, 1), "strides": (1, 2), "end_padding": (0, 2)},
    "all dimensions": {"window_sizes": (2, 2, 2)},
    "euclidean": {"window_sizes": (1, 1), "p": 2},
    "float16": {"input": X.astype(np.float16)},
}


# The structs.


def draw(rng, *, dilated):
    return {**draw_pooled(rng, dilated=dilated), "p": int(rng.integers(1, 5))}


def expected(desc, x):
    return exact(x, p=desc.p, **pooling_of(desc))


# DirectML prints no numbers: rectangular triangles.
WINDOWS = ((1, 2), (1, 2), (0, 0), (0, 1))
TABLE, NORMS, SUMS = [3, -4, 5, 0, 5, 12], [5, 5, 5, 12], [7, 5, 5, 12]
PLAIN = LpPoolingDesc(f32(1, 1, 2, 3), f32(1, 1, 2, 2), *WINDOWS, 2)
DILATED = LpPooling1Desc(f32(1, 1, 2, 3), f32(1, 1, 2, 2), *WINDOWS, (1, 1), 1)
BREAKS_OF_STRUCTS = POOLING_BREAKS | {"fits": {"window_size": (3, 2)}, "at_least(p, 1)": {"p": 0}}
STRUCTS = (
    Struct(
        PLAIN,
        breaks=BREAKS_OF_STRUCTS,
        examples=(Example(PLAIN, [TABLE], [NORMS]),),
        draw=partial(draw, dilated=False),
        expected=expected,
        leading=POOLING_LEADING,
        fill=normal_numbers,
        units=32,
    ),
    Struct(
        DILATED,
        breaks=BREAKS_OF_STRUCTS | DILATED_BREAKS,
        examples=(Example(DILATED, [TABLE], [SUMS]),),
        draw=partial(draw, dilated=True),
        expected=expected,
        leading=DILATED_LEADING,
        fill=normal_numbers,
        units=32,
    ),
)


# Against the oracle.


@pytest.mark.parametrize(("p", "part"), spread([1, 2, 3.5], [1, 2, 3.5], 3))
def test_windows_of_every_kind(p, part, exhaustive):
    rng = np.random.default_rng(0)
    cases = [
        (rng.normal(size=(2, *sizes)).astype(np.float32), {**attributes, "p": p})
        for sizes, attributes in some_windows(exhaustive)[part]
    ]
    made = together([(partial(lp_pooling, **attributes), x) for x, attributes in cases])
    for one, (x, attributes) in zip(made, cases, strict=True):
        assert_close(one, exact(x, **attributes), units=32)


def test_squares_of_float16_overflow_in_float32_only():
    assert_same_bits(lp_pooling(np.float16([3000, 4000]), (2,)), np.float16([5000]))


def test_nan_infinities_and_padding():
    x = np.float32([np.nan, 1, -np.inf, 0])
    np.testing.assert_array_equal(lp_pooling(x, (1,), start_padding=(1,)), np.float32([0, np.nan, 1, np.inf, 0]))


# Transformations.


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_the_derivative_where_all_is_0_is_0(p):
    back = jax.jit(jax.grad(lambda x: lp_pooling(x, (2,), p=p, strides=(2,)).sum()))(np.float32([0, 0, 0, -3]))
    np.testing.assert_allclose(back, [0, 0, 0, -1], rtol=1e-6)


@pytest.mark.thinned
@pytest.mark.parametrize("p", [1, 2, 2.5])
def test_derivatives_in_both_directions(p):
    x = np.random.default_rng(1).uniform(0.5, 2, (2, 3, 4)).astype(np.float32)
    pool = partial(lp_pooling, p=p, window_sizes=(2, 3), strides=(1, 2), start_padding=(1, 1), dilations=(2, 1))
    check_grads(jax.jit(pool), (x,), order=1, atol=0.05, rtol=0.05)


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"input": 3}, DataTypeError, "input must be an array"),
    ({"p": np.inf}, ConstraintError, "p must be at least 1, and finite, but it is inf"),
    ({"p": np.nan}, ConstraintError, "but it is nan"),
    ({"p": "2"}, DataTypeError, "p must be a real number"),
    ({"window_sizes": (2, 2**63)}, ConstraintError, "spatial dimension 1 spans 9223372036854775808 of 4"),
)


def test_torch_agrees():
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(4).uniform(0.1, 1, (2, 3, 7, 6)).astype(np.float32)
    for p in (1, 2, 3):
        theirs = torch.nn.functional.lp_pool2d(torch.from_numpy(x), p, (3, 2), (1, 2)).numpy()
        assert_close(lp_pooling(x, (3, 2), p=p, strides=(1, 2)), theirs, units=16)
