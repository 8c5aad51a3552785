"""cumulative_product and CUMULATIVE_PRODUCT: output[k] = input[0] * ... * input[k]."""

from functools import partial
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_calls_agree, assert_same_bits, together
from cumulative_cases import NUMBERS, ROWS, accumulated, draw, every_call, exact
from jax.test_util import check_grads
from operator_cases import Call, Example, Struct, f32
from small_arrays import every_small_shape

from dml_jax import CumulativeProductDesc, cumulative_product

pytestmark = pytest.mark.device


def oracle(input, axis, direction="increasing", exclusive=False):
    return accumulated(lambda one, other: one * other, 1, input, axis, direction, exclusive)


X = np.float32([[2, -1, 3, 0.5], [3, 4, 0, 5], [-2, 6, 2, 4]])
CASE = Call(cumulative_product, {"input": X}, {"axis": 1}, is_linear=False)
BREAKS = {
    "numbers(input)": {"input": X.astype(jnp.float8_e8m0fnu)},
    "minimum_rank(input, 1)": {"input": np.float32(3)},
    "axis_of(input)": {"axis": -3},
    "one_of(direction)": {"direction": "INCREASING"},
}
VARIANTS = {
    "decreasing": {"direction": "decreasing"},
    "exclusive": {"axis": 0, "exclusive": True},
    "exclusive, decreasing": {"axis": -1, "exclusive": True, "direction": "decreasing"},
    "integers": {"input": np.int8([[100, 3, -7], [1, -128, 127]])},
}


# The struct.


def desc(axis, direction="INCREASING", exclusive=False):
    return CumulativeProductDesc(ROWS, ROWS, axis, direction, exclusive)


ROW = f32(1, 1, 1, 4)
STRUCTS = (
    Struct(
        desc(3),
        breaks={"same_sizes(output, input)": {"output": f32(1, 1, 4, 3)}, "below_rank(axis)": {"axis": 4}},
        examples=(
            Example(desc(3), [NUMBERS], [[2, 2, 6, 30, 3, 24, 168, 504, 9, 54, 108, 432]]),
            Example(desc(3, exclusive=True), [NUMBERS], [[1, 2, 2, 6, 1, 3, 24, 168, 1, 9, 54, 108]]),
            Example(desc(3, "DECREASING"), [NUMBERS], [[30, 15, 15, 5, 504, 168, 21, 3, 432, 48, 8, 4]]),
            Example(desc(2), [NUMBERS], [[2, 1, 3, 5, 6, 8, 21, 15, 54, 48, 42, 60]]),
            Example(CumulativeProductDesc(ROW, ROW, 3, 0, False), [[2, 4, 8, 3]], [[2, 8, 64, 192]]),
        ),
        draw=draw("has_exclusive_product"),
        expected=lambda desc, x: oracle(x, desc.axis, desc.axis_direction.name.lower(), desc.has_exclusive_product),
        leading={"axis": 1},
        fill=exact,
    ),
)


# Against the oracle.


@every_small_shape
def test_every_small_shape(shapes):
    assert_calls_agree(every_call(cumulative_product, oracle, shapes))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e5m2", "float8_e4m3fn"])
def test_narrow_floats_are_rounded_once(name):
    """Products of eight times 1.25 or 1.5 are exact in float32: only the last rounding is one."""
    x = np.random.default_rng(1).choice([1.25, 1.5, -1.25, 0.5], (5, 8)).astype(jnp.dtype(name))
    assert_same_bits(cumulative_product(x, 1), oracle(x, 1))


def test_many_floats():
    """Against float64."""
    x = (1 + np.random.default_rng(2).normal(size=(2, 2000)) / 100).astype(np.float32)
    np.testing.assert_allclose(cumulative_product(x, 1), np.cumprod(x.astype(np.float64), axis=1), rtol=2e-5)


def test_exclusive_is_a_shift():
    """Nothing is divided: a zero and an infinity are no part of the product that ends before them."""
    x = np.float32([3, 0, np.inf, 2])
    assert_same_bits(cumulative_product(x, 0, exclusive=True)[:3], np.float32([1, 3, 0]))
    assert np.isnan(cumulative_product(x, 0, exclusive=True)[3])


def test_bools_are_all_before():
    x = np.array([True, True, False, True])
    assert_same_bits(cumulative_product(x, 0), np.array([True, True, False, False]))
    assert_same_bits(
        cumulative_product(x, 0, direction="decreasing", exclusive=True), np.array([False, False, True, True])
    )


# Gradients.


def jacobian(x, direction="increasing", exclusive=False):
    """d output[i] / d input[j], along one axis: the product of all other factors."""
    n = len(x)
    found = np.zeros((n, n), np.float32)
    for i in range(n):
        factors = [*range(i + 1)] if direction == "increasing" else [*range(i, n)]
        factors = [k for k in factors if not (exclusive and k == i)]
        for j in factors:
            found[i, j] = prod(float(x[k]) for k in factors if k != j)
    return found


@pytest.mark.thinned(20)
@pytest.mark.parametrize("x", [[2, 3, 5, 7], [2, 0, 3, 5], [2, 0, 3, 0, 5], [0, 0, 0], [0]], ids=str)
@pytest.mark.parametrize("direction", ["increasing", "decreasing"])
@pytest.mark.parametrize("exclusive", [False, True])
def test_derivatives_are_exact_at_zeros(x, direction, exclusive):
    """Where dividing the product by the factor would give NaN."""
    x, function = np.float32(x), partial(cumulative_product, axis=0, direction=direction, exclusive=exclusive)
    wanted = jacobian(x, direction, exclusive)
    jacobians = [(jac(function), of) for jac in (jax.jacfwd, jax.jacrev) for of in (x, x.astype(jnp.bfloat16))]
    for found in together(jacobians):
        assert np.array_equal(found, wanted.astype(found.dtype))


@pytest.mark.exhaustive
def test_second_derivatives_at_zeros():
    hessian = jax.jit(jax.hessian(lambda x: cumulative_product(x, 0)[-1]))(jnp.float32([0, 3, 0, 5]))
    wanted = np.zeros((4, 4), np.float32)
    wanted[0, 2] = wanted[2, 0] = 15
    assert np.array_equal(hessian, wanted)
    call = jax.jit(lambda x: cumulative_product(x, 1, direction="decreasing", exclusive=True))
    check_grads(call, (X,), 2, modes=["rev"], atol=0.1, rtol=0.1)
    mapped = jax.jit(jax.vmap(jax.grad(lambda x: cumulative_product(x, 0).sum()), in_axes=1, out_axes=1))(X)
    for k in range(4):
        assert_same_bits(mapped[:, k], jacobian(X[:, k]).sum(0))
