"""LP_NORMALIZATION: x / max(norm, epsilon)."""

import jax
import numpy as np
import pytest
from checks import assert_close, assert_same_bits, sampled
from draws import dims
from jax.test_util import check_grads
from operator_cases import Example, Struct, f16, f32
from refusals import refuses

from dml_jax.descs import LpNormalizationDesc

pytestmark = pytest.mark.device


def exact(x, axis, p, epsilon=0.0):
    """In float64, row by row; zeros stay zeros."""
    x = np.asarray(x, np.float64)
    norm = (abs(x) ** p).sum(axis, keepdims=True) ** (1 / p)
    divisor = np.maximum(norm, epsilon)
    return x / np.where(divisor == 0, 1, divisor)


def draw(rng):
    sizes = dims(rng, int(rng.integers(1, 9)))
    axis, p = int(rng.integers(0, len(sizes))), int(rng.integers(1, 3))
    return {"input": sizes, "output": sizes, "axis": axis, "epsilon": float(rng.choice([1e-5, 0.5, 2])), "p": p}


def fill(rng, port, tensor, count):
    """Some of them 0."""
    return (rng.normal(size=count) * (rng.random(count) < 0.8)).astype(tensor.dtype)


PICTURE = f32(1, 2, 1, 2)
DESC = LpNormalizationDesc(PICTURE, PICTURE, 1, 2**-17, 1)
OF_SQUARES = LpNormalizationDesc(PICTURE, PICTURE, 3, 2, 2)
STRUCTS = (
    Struct(
        DESC,
        breaks={
            "same_sizes(output, input)": {"output": f32(1, 2, 2, 1)},
            "below_rank(axis)": {"axis": 4},
            "one_of(p)": {"p": 3},
        },
        examples=(
            Example(DESC, [[1, 2, -3, 6]], [[0.25, 0.25, -0.75, 0.75]]),
            Example(OF_SQUARES, [[3, -4, 0, 1]], [[0.6, -0.8, 0, 0.5]]),
        ),
        draw=draw,
        expected=lambda desc, x: exact(x, desc.axis, desc.p, desc.epsilon),
        fill=fill,
        units=8,
    ),
)


test_what_the_struct_refuses = refuses(
    DESC,
    ({"p": 0}, "P must be 1 or 2, but it is 0"),
    ({"axis": 4}, r"Axis must be in \[0, InputTensor.DimensionCount\), but it is 4 and there are 4 dimensions"),
    ({"axis": -1}, r"Axis must be in \[0, 2\*\*32 - 1\]"),
)


@pytest.mark.parametrize("p", sampled([1, 2], [2]))
def test_zeros_have_finite_derivatives(p):
    """And stay zeros where there is no epsilon either."""
    x = np.float32([[0, 0], [3, 4]])
    tensor = f32(2, 2)
    for epsilon in (0, 1e-5):
        desc = LpNormalizationDesc(tensor, tensor, 1, epsilon, p)
        assert_close(desc.compute(x), exact(x, 1, p), units=2)
        assert np.isfinite(jax.grad(lambda x, desc=desc: desc.compute(x).sum())(x)).all()


@pytest.mark.parametrize("p", sampled([1, 2], [2]))
def test_derivatives(p):
    x = np.random.default_rng(0).normal(size=PICTURE.sizes).astype(np.float32)
    desc = LpNormalizationDesc(PICTURE, PICTURE, 1, 1e-5, p)
    check_grads(jax.jit(desc.compute), (x,), order=1, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("factor", [2.0**-84, 2.0**84])
def test_slopes_are_as_many_times_smaller_as_numbers_are_larger(factor):
    """Also where the square of the norm is 0 or infinite."""
    row = f32(3)
    slopes = jax.grad(lambda x: LpNormalizationDesc(row, row, 0, 0, 1).compute(x)[0])
    x = np.float32([1, -2, 5])
    np.testing.assert_allclose(factor * slopes(np.float32(factor) * x), np.float32([7, 1, -1]) / 64, rtol=1e-6)


def test_squares_beyond_float16():
    row = f16(2)
    desc = LpNormalizationDesc(row, row, 0, 1e-5, 2)
    assert_same_bits(desc.compute(np.float16([3000, 4000])), np.float16([0.6, 0.8]))


def test_nan_is_in_its_row_alone():
    x = np.float32([[np.nan, 1], [1, 3]])
    tensor = f32(2, 2)
    made = LpNormalizationDesc(tensor, tensor, 1, 1e-5, 1).compute(x)
    np.testing.assert_array_equal(made, np.float32([[np.nan, np.nan], [0.25, 0.75]]))
