"""local_response_normalization and LOCAL_RESPONSE_NORMALIZATION: input / (bias + alpha / size * squares) ** beta."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close, assert_same_bits, exported, refused_without_x64, together
from draws import dims, normal_numbers
from jax.test_util import check_grads
from operator_cases import Call, Example, Struct, f16, f32
from oracles import coordinates
from refusals import refuses
from small_arrays import every_narrow_float, numbered

from dml_jax import (
    ConstraintError,
    DataTypeError,
    LocalResponseNormalizationDesc,
    local_response_normalization,
)

pytestmark = pytest.mark.device


def exact(input, local_size, cross_channel=True, alpha=1e-4, beta=0.75, bias=1.0):
    """In float64, one element after the other."""
    output = np.zeros(input.shape)
    axes = [input.ndim - 3] if cross_channel else [input.ndim - 2, input.ndim - 1]
    before, after = (local_size - 1) // 2, -(-(local_size - 1) // 2)
    for at in coordinates(input.shape):
        region = [
            range(max(0, k - before), min(n - 1, k + after) + 1) if d in axes else [k]
            for d, (k, n) in enumerate(zip(at, input.shape, strict=True))
        ]
        squares = sum(float(one) ** 2 for one in input[np.ix_(*region)].ravel())
        output[at] = float(input[at]) / (bias + alpha / local_size * squares) ** beta
    return output


def oracle(input, local_size, **given):
    return exact(input, local_size, **given).astype(input.dtype)


# Powers of two, of which everything is exact.
X = np.float32([2, -2, 2, 2, -2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).reshape(3, 2, 3)
CASE = Call(
    local_response_normalization,
    {"input": X},
    {"local_size": 2, "cross_channel": True, "alpha": 2, "beta": 1, "bias": 4},
    is_linear=False,
)
BREAKS = {
    "numbers(input)": {"input": X.astype(jnp.float8_e8m0fnu)},
    "float(input)": {"input": X.astype(np.int32)},
    "minimum_rank(input, 3)": {"input": X[0]},
    "in_range(local_size)": {"local_size": 0},
    "indexable": {"input": np.zeros((2**16, 1, 1), np.float32), "local_size": 2**16},
}
VARIANTS = {
    "rows and columns": {"cross_channel": False, "local_size": 1},
    "batches": {"input": np.stack([X, X])},
    "float16": {"input": X.astype(np.float16)},
}


# The struct.


def draw(rng):
    sizes = dims(rng, 4)
    return {
        "input": sizes,
        "output": sizes,
        "cross_channel": bool(rng.integers(0, 2)),
        "local_size": int(rng.integers(1, 6)),
        "alpha": float(rng.choice([1e-4, 0.5, 2])),
        "beta": float(rng.choice([0.75, 0.5, 1, 0])),
        "bias": float(rng.choice([1, 2])),
    }


def expected(desc, x):
    return exact(x, desc.local_size, desc.cross_channel, desc.alpha, desc.beta, desc.bias)


# DirectML prints no numbers: sums of squares of 5, 8, 20 and 16 over channels, of 25, 20, 20 and 16 over a picture.
CHANNELS, PICTURE = f32(1, 4, 1, 1), f32(1, 1, 2, 2)
DESC = LocalResponseNormalizationDesc(CHANNELS, CHANNELS, True, 2, 2, 1, 0)
IN_CHANNEL = LocalResponseNormalizationDesc(PICTURE, PICTURE, False, 2, 2, 1, 0)
STRUCTS = (
    Struct(
        DESC,
        breaks={"same_sizes(output, input)": {"output": f32(1, 1, 4, 1)}, "at_least(local_size, 1)": {"local_size": 0}},
        examples=(
            Example(DESC, [[1, 2, 2, 4]], [[0.2, 0.25, 0.1, 0.25]]),
            Example(IN_CHANNEL, [[1, 2, 2, 4]], [[0.04, 0.1, 0.1, 0.25]]),
        ),
        draw=draw,
        expected=expected,
        fill=normal_numbers,
        units=16,
    ),
)


test_what_the_struct_refuses = refuses(
    DESC,
    ({"output": f32(1, 1, 4, 1)}, ConstraintError, "OutputTensor.Sizes must equal InputTensor.Sizes"),
    ({"local_size": 0}, ConstraintError, "LocalSize must be at least 1, but it is 0"),
    ({"local_size": 2**32}, ConstraintError, r"LocalSize must be in \[0, 2\*\*32 - 1\]"),
    ({"cross_channel": "yes"}, DataTypeError, "CrossChannel must be True or False"),
    ({"beta": "1"}, DataTypeError, "Beta must be a real number"),
    ({"input": f16(1, 4, 1, 1)}, DataTypeError, "OutputTensor.DataType must equal"),
)


# Against the oracle.


def test_regions_of_every_size():
    """Even ones reach one element further to the end; they are cut off where the array ends."""
    rng = np.random.default_rng(0)
    cases = [
        (rng.normal(size=shape).astype(np.float32), {"local_size": size, "cross_channel": cross, "alpha": 0.7})
        for shape in ((5, 1, 1), (2, 3, 2, 4))
        for cross in (True, False)
        for size in (1, 2, 3, 4, 9, 2**31)
    ]
    made = together([(partial(local_response_normalization, **given), x) for x, given in cases])
    for one, (x, given) in zip(made, cases, strict=True):
        assert_close(one, exact(x, **given), units=8)


def test_numbers_by_default_are_those_that_directml_recommends():
    x = numbered((3, 1, 2)) * 20
    assert_same_bits(
        local_response_normalization(x, 3),
        local_response_normalization(x, 3, cross_channel=True, alpha=0.0001, beta=0.75, bias=1),
    )
    assert_close(local_response_normalization(x, 3), exact(x, 3), units=8)


@pytest.mark.thinned(2)
@every_narrow_float
def test_narrow_floats_are_computed_in_float32(dtype):
    if dtype.name == "float8_e8m0fnu":
        with pytest.raises(DataTypeError, match="it is float8_e8m0fnu, which has no 0"):
            local_response_normalization(np.ones((1, 1, 1), dtype), 1)
        return
    x = np.array([0.5, 1.5, 2, 0.25, 1, 3], dtype).reshape(6, 1, 1)
    made = local_response_normalization(x, 3, alpha=0.5)
    assert_close(np.asarray(made).astype(np.float32), oracle(x, 3, alpha=0.5).astype(float), units=0)


def test_squares_beyond_float16():
    x = np.full((1, 1, 1), 1000, np.float16)
    assert_same_bits(local_response_normalization(x, 1, alpha=1, beta=0.5, bias=0), np.ones((1, 1, 1), np.float16))


def test_64_bit_floats_are_computed_as_such(x64):
    x = np.full((1, 1, 1), 2 + 2.0**-40)
    with refused_without_x64("input of type float64"):
        np.testing.assert_allclose(local_response_normalization(x, 1), exact(x, 1), rtol=1e-15)


# Transformations.


@pytest.mark.parametrize("cross_channel", [True, False])
def test_derivatives_in_both_directions(cross_channel):
    x = np.random.default_rng(1).normal(size=(3, 2, 2)).astype(np.float32)
    call = partial(local_response_normalization, local_size=2, cross_channel=cross_channel, alpha=0.8, bias=1.5)
    check_grads(jax.jit(call), (x,), order=1, atol=0.05, rtol=0.05)


def test_slopes_of_huge_numbers():
    """x / (x**2 + y**2) has the slope (y**2 - x**2) / (x**2 + y**2)**2, whose divisor is infinite in float32."""
    x = np.float32([1, 3]).reshape(2, 1, 1) * np.float32(2.0**33)
    normalize = partial(local_response_normalization, local_size=2, alpha=2, beta=1, bias=0)
    slopes = jax.grad(lambda x: normalize(x).ravel()[0])(x).ravel()
    np.testing.assert_allclose(slopes * 2.0**66, [0.08, -0.06], rtol=1e-6)


def test_the_derivative_where_all_is_0():
    back = jax.jit(jax.grad(lambda x: local_response_normalization(x, 3, bias=16, beta=0.5).sum()))(
        np.zeros((3, 1, 1), np.float32)
    )
    np.testing.assert_allclose(back, np.full((3, 1, 1), 0.25), rtol=1e-6)


def test_symbolic_batches_and_pictures_are_exported():
    call = partial(local_response_normalization, **CASE.static)
    assert_same_bits(exported(call, "n, 3, h, 3").call(X[None]), call(X[None]))
    with pytest.raises(ConstraintError, match="a known size, but dimension 0 is symbolic, n"):
        exported(call, "n, 2, 3")


# Mistakes.


test_mistakes_are_named = refuses(
    CASE,
    ({"input": 3}, DataTypeError, "input must be an array"),
    ({"input": X > 1}, DataTypeError, "input.dtype must be a floating-point type, but it is bool"),
    ({"input": X[0]}, ConstraintError, "input.rank must be at least 3, but it is 2"),
    ({"local_size": 2.0}, DataTypeError, "local_size must be an integer"),
    ({"local_size": -1}, ConstraintError, r"local_size must be in \[1, 2\*\*32\), but it is -1"),
    ({"local_size": 10**400}, ConstraintError, r"local_size must be in \[1, 2\*\*32\)"),
    ({"cross_channel": 1}, DataTypeError, "cross_channel must be True or False"),
    ({"alpha": "2"}, DataTypeError, "alpha must be a real number"),
    ({"beta": None}, DataTypeError, "beta must be a real number"),
    ({"bias": 10**400}, DataTypeError, "bias must be a real number"),
)


def test_torch_agrees():
    """Its regions of an even size reach one element further to the start."""
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(4).normal(size=(2, 7, 3, 2)).astype(np.float32)
    peer = torch.nn.functional.local_response_norm(torch.from_numpy(x), 5, alpha=0.3, beta=0.6, k=2)
    assert_close(local_response_normalization(x, 5, alpha=0.3, beta=0.6, bias=2), peer.numpy(), units=8)
