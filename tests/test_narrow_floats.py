"""Floats of 16 and 8 bits are computed as float32 and rounded once: results, and cotangents that are added up."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import sampled, together
from numpy.lib.stride_tricks import sliding_window_view
from small_arrays import every_narrow_float

import dml_jax
from dml_jax import Activation

pytestmark = pytest.mark.device


def linear(alpha, beta):
    return Activation("ACTIVATION_LINEAR", (alpha, beta))


def ones(count, x):
    return np.ones(count, x.dtype)


# Of six numbers: a call, and the same in NumPy, whose sums and products are exact in float32.
CALLS = {
    "activate": (lambda x: dml_jax.activate(x, linear(3, 1)), lambda x: 3 * x + 1),
    "add": (lambda x: dml_jax.add(x, x[::-1]), lambda x: x + x[::-1]),
    "add, activated": (
        lambda x: dml_jax.add(x, x[::-1], activation=linear(2, 1)),
        lambda x: 2 * (x + x[::-1]) + 1,
    ),
    "average_pooling": (
        lambda x: dml_jax.average_pooling(x, (4,)),
        lambda x: sliding_window_view(x, 4).mean(1),
    ),
    "average_pooling, many": (lambda x: dml_jax.average_pooling(ones(4096, x), (4096,)), lambda x: ones(1, x)),
    "clip": (lambda x: dml_jax.clip(x, 1, 2), lambda x: x.clip(1, 2)),
    "clip, scaled": (lambda x: dml_jax.clip(x, max=4, scale=3), lambda x: (3 * x).clip(max=4)),
    "convolution": (
        lambda x: dml_jax.convolution(x[None, None], x[None, None, :2], x[:1])[0, 0],
        lambda x: np.correlate(x, x[:2]) + x[0],
    ),
    "convolution backward": (
        lambda x: dml_jax.convolution(x[None, None], x[None, None, :2], x[:1], direction="backward")[0, 0],
        lambda x: np.convolve(x, x[:2]) + x[0],
    ),
    "gemm": (
        lambda x: dml_jax.gemm(x.reshape(3, 2), x[2:].reshape(2, 2), x.reshape(3, 2), alpha=0.5, beta=0.25),
        lambda x: x.reshape(3, 2) @ x[2:].reshape(2, 2) / 2 + x.reshape(3, 2) / 4,
    ),
    "identity": (lambda x: dml_jax.identity(x, 1.3, 0.1), lambda x: 1.3 * x + 0.1),
    "lp_pooling": (
        lambda x: dml_jax.lp_pooling(x, (3,)),
        lambda x: np.sqrt((sliding_window_view(x, 3) ** 2).sum(1)),
    ),
    "lp_pooling, many": (lambda x: dml_jax.lp_pooling(ones(4096, x), (4096,)), lambda x: 64 * ones(1, x)),
    "value_scale_2d": (
        lambda x: dml_jax.value_scale_2d(x.reshape(1, 2, 3), 1.3, (0.1,)),
        lambda x: 1.3 * x.reshape(1, 2, 3) + 0.1,
    ),
}


@every_narrow_float
def test_results(dtype):
    x = np.array([0.5, 1.5, 2, 0.25, 1, 3], dtype)
    calls = {name: of for name, of in CALLS.items() if dtype.name != "float8_e8m0fnu" or "pooling" not in name}
    made = together([(call, x) for call, _ in calls.values()])
    for (name, (_, of_numpy)), result in zip(calls.items(), made, strict=True):
        assert result.dtype == dtype, name
        wanted = of_numpy(x.astype(np.float32)).astype(dtype)
        np.testing.assert_array_equal(result.astype(np.float32), wanted.astype(np.float32), err_msg=name)


# Of a number that many results read: a function of it, and what flows back. Ones that are added up one by one in the
# type itself stop at 2048 in float16, at 256 in bfloat16, and at 8 in float8_e5m2.
READ_OFTEN = {
    "average_pooling": (lambda x: dml_jax.average_pooling(jnp.pad(x, 299), (300,)) * 300, 300),
    "convolution": (lambda x: dml_jax.convolution(ones((1, 1, 4096), x), x[None, None]), 4096),
    "cumulative_summation": (lambda x: dml_jax.cumulative_summation(jnp.pad(x, (0, 2999)), 0), 3000),
    "gemm": (lambda x: dml_jax.gemm(ones((4096, 1), x), x[None]), 4096),
    "max_pooling": (lambda x: dml_jax.max_pooling(jnp.pad(x, 299), (300,))[0], 300),
    "one_hot": (lambda x: dml_jax.one_hot(np.zeros((500, 1), np.int32), jnp.pad(x, (1, 0)), 3, 1), 500),
    "tile": (lambda x: dml_jax.tile(x, (3000,)), 3000),
    "unfold": (lambda x: dml_jax.unfold(jnp.pad(x, 400)[None], (401,)), 401),
}


@pytest.mark.parametrize("dtype", sampled(["float16", "bfloat16", "float8_e5m2"], ["bfloat16"]))
def test_cotangents(dtype):
    x = np.ones(1, jnp.dtype(dtype))

    def back(function):
        def total(x):
            return function(x).astype(np.float32).sum()

        return jax.grad(total)

    made = together([(back(function), x) for function, _ in READ_OFTEN.values()])
    for (name, (_, count)), result in zip(READ_OFTEN.items(), made, strict=True):
        wanted = np.array([count], x.dtype)
        assert (name, result.dtype, result.tolist()) == (name, wanted.dtype, wanted.tolist())
