"""Bits of narrow floats on CPUs: subnormal numbers are not flushed, and signalling NaNs are not quieted."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits

import dml_jax
from dml_jax import use_form


def turned(x):
    return dml_jax.as_strided(x.reshape(-1), (2, 3, 32, 48), (32 * 48 * 3, 1, 48 * 3, 3))


# The function, the shape of its argument, and the same of NumPy.
CALLS = {
    "tile one row": (lambda x: dml_jax.tile(x, (2, 1)), (1, 8), lambda x: np.tile(x, (2, 1))),
    "tile one of three dimensions": (lambda x: dml_jax.tile(x, (4, 9, 2)), (4, 1, 8), lambda x: np.tile(x, (4, 9, 2))),
    "tile a large table": (lambda x: dml_jax.tile(x, (3, 16)), (42, 257), lambda x: np.tile(x, (3, 16))),
    "split": (lambda x: dml_jax.split(x, (3, 5, 8), 1)[1], (64, 16, 70), lambda x: x[:, 3:8]),
    "edges": (
        lambda x: dml_jax.pad(x, (0, 3, 3), (0, 3, 3), mode="edge"),
        (32, 28, 28),
        lambda x: np.pad(x, ((0, 0), (3, 3), (3, 3)), "edge"),
    ),
    "reflections": (
        lambda x: dml_jax.pad(x, (0, 3, 3), (0, 3, 3), mode="reflection"),
        (32, 28, 28),
        lambda x: np.pad(x, ((0, 0), (3, 3), (3, 3)), "reflect"),
    ),
    "pixels as planes": (turned, (2, 32, 48, 3), lambda x: x.transpose(0, 3, 1, 2)),
    "depth to space": (
        lambda x: dml_jax.depth_to_space(x, 2),
        (4, 16, 40, 40),
        lambda x: x.reshape(4, 2, 2, 4, 40, 40).transpose(0, 3, 4, 1, 5, 2).reshape(4, 4, 80, 80),
    ),
}


@pytest.mark.thinned(12)
@pytest.mark.parametrize("form", [None, "plain", "blocked_transpose", "halves", "unfused", "windowed"])
@pytest.mark.parametrize("bits", [0x8001, 0x007F, 0x7F81], ids=["subnormal", "largest subnormal", "signalling NaN"])
@pytest.mark.parametrize("name", CALLS)
def test_bfloat16(name, bits, form):
    function, shape, of_numpy = CALLS[name]
    images = np.full(shape, bits, np.uint16)
    images.reshape(-1)[::3] = 0x3F80  # 1.0, so that not all elements are alike
    with use_form(form) if form else contextlib.nullcontext():
        found = jax.jit(lambda x: function(x))(images.view(jnp.bfloat16))
    assert_same_bits(found, np.ascontiguousarray(of_numpy(images)).view(jnp.bfloat16))
