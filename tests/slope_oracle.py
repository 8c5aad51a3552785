"""Derivatives beside differences of an oracle in float64, along a random direction."""

import jax
import numpy as np


def assert_slopes(function, oracle, arrays, off=2e-4):
    """Compares the gradient of a function of float32 arrays with the differences of `oracle`, which NumPy computes."""
    rng = np.random.default_rng(0)
    ways = [rng.standard_normal(x.shape) for x in arrays]
    there, back = (
        oracle(*(x.astype(np.float64) + s * w for x, w in zip(arrays, ways, strict=True))) for s in (1e-5, -1e-5)
    )
    weights = rng.standard_normal(there.shape)
    slopes = jax.jit(jax.grad(lambda *x: (function(*x) * weights.astype(np.float32)).sum(), range(len(arrays))))(
        *arrays
    )
    along = sum((np.float64(slope) * way).sum() for slope, way in zip(slopes, ways, strict=True))
    np.testing.assert_allclose(along, ((there - back) * weights).sum() / 2e-5, rtol=off, atol=off)
