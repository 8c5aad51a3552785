"""cumulative_summation and CUMULATIVE_SUMMATION: output[k] = input[0] + ... + input[k]."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits
from cumulative_cases import NUMBERS, ROWS, accumulated, draw, every_call, exact
from operator_cases import Call, Example, Struct, f32
from small_arrays import every_small_shape, numbered

from dml_jax import CumulativeSummationDesc, cumulative_summation

pytestmark = pytest.mark.device


def oracle(input, axis, direction="increasing", exclusive=False):
    return accumulated(lambda one, other: one + other, 0, input, axis, direction, exclusive)


X = numbered((4, 6))
CASE = Call(cumulative_summation, {"input": X}, {"axis": 1})
BREAKS = {
    "numbers(input)": {"input": X.astype(jnp.float8_e8m0fnu)},
    "minimum_rank(input, 1)": {"input": np.float32(3)},
    "axis_of(input)": {"axis": 2},
    "one_of(direction)": {"direction": "up"},
}
VARIANTS = {
    "decreasing": {"direction": "decreasing"},
    "exclusive": {"axis": 0, "exclusive": True},
    "exclusive, decreasing": {"axis": -1, "exclusive": True, "direction": "decreasing"},
    "integers": {"input": np.uint8([[200, 100, 7], [1, 2, 255]])},
}


# The struct.


def desc(axis, direction="INCREASING", exclusive=False):
    return CumulativeSummationDesc(ROWS, ROWS, axis, direction, exclusive)


STRUCTS = (
    Struct(
        desc(3),
        breaks={"same_sizes(output, input)": {"output": f32(1, 1, 4, 3)}, "below_rank(axis)": {"axis": 4}},
        examples=(
            Example(desc(3), [NUMBERS], [[2, 3, 6, 11, 3, 11, 18, 21, 9, 15, 17, 21]]),
            Example(desc(3, exclusive=True), [NUMBERS], [[0, 2, 3, 6, 0, 3, 11, 18, 0, 9, 15, 17]]),
            Example(desc(3, "DECREASING"), [NUMBERS], [[11, 9, 8, 5, 21, 18, 10, 3, 21, 12, 6, 4]]),
            Example(desc(2), [NUMBERS], [[2, 1, 3, 5, 5, 9, 10, 8, 14, 15, 12, 12]]),
            # DirectML's page has none of both.
            Example(desc(3, "DECREASING", True), [NUMBERS], [[9, 8, 5, 0, 18, 10, 3, 0, 12, 6, 4, 0]]),
        ),
        draw=draw("has_exclusive_sum"),
        expected=lambda desc, x: oracle(x, desc.axis, desc.axis_direction.name.lower(), desc.has_exclusive_sum),
        leading={"axis": 1},
        fill=exact,
    ),
)


# Against the oracle.


@every_small_shape
def test_every_small_shape(shapes):
    assert_calls_agree(every_call(cumulative_summation, oracle, shapes))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e5m2", "float8_e4m3fn"])
def test_narrow_floats_are_rounded_once(name):
    """Multiples of 1/16 below 2**20 are exact in float32, whatever the order: only the last rounding is one."""
    dtype = jnp.dtype(name)
    x = (np.random.default_rng(1).integers(1, 33, (3, 40)) / 16).astype(dtype)
    assert_same_bits(cumulative_summation(x, 1), oracle(x, 1))
    if name == "bfloat16":  # where adding up in the type itself gets stuck
        ones = np.ones(1000, dtype)
        assert_same_bits(cumulative_summation(ones, 0)[-1], np.array(1000, dtype))


def test_many_floats():
    """Against float64: the error of a sum of 20000 is that of a few additions, not of 20000."""
    x = np.random.default_rng(2).normal(size=(2, 20000)).astype(np.float32)
    exact = np.cumsum(x.astype(np.float64), axis=1)
    np.testing.assert_allclose(cumulative_summation(x, 1), exact, rtol=0, atol=2e-4)


def test_exclusive_is_a_shift():
    """An infinity is no part of the sum that ends before it, and nothing is subtracted."""
    x = np.float32([1, 1e30, np.inf, -np.inf, 2])
    np.testing.assert_array_equal(cumulative_summation(x, 0, exclusive=True), np.float32([0, 1, 1e30, np.inf, np.nan]))
    small = np.float32([2**-30, 2**30, 1])
    assert_same_bits(cumulative_summation(small, 0, exclusive=True)[1], small[0])


def test_bools_are_any_before():
    x = np.array([False, True, False, True])
    assert_same_bits(cumulative_summation(x, 0), np.array([False, True, True, True]))
    assert_same_bits(cumulative_summation(x, 0, exclusive=True), np.array([False, False, True, True]))
    many = np.ones(600, bool)
    assert_same_bits(cumulative_summation(many, 0), many)


# Gradients.


def test_the_gradient_sums_the_other_way():
    weights = numbered((4, 6))[::-1].copy()
    for direction, other in (("increasing", "decreasing"), ("decreasing", "increasing")):
        for exclusive in (False, True):
            summed = partial(cumulative_summation, axis=1, direction=direction, exclusive=exclusive)
            back = jax.jit(jax.grad(lambda x, summed=summed: (summed(x) * weights).sum()))(X)
            assert_same_bits(back, oracle(weights, 1, other, exclusive))
