"""ONNX's AffineGrid: the formula in float64, ONNX Runtime and torch; sizes and batches of 1 are like any other."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import sampled
from jax.test_util import check_grads
from onnx_one_node import assert_as_runtime, assert_refused, computed, one_node

from dml_jax.onnx import to_jax

TYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]


def coordinates(size, align_corners):
    """From border to border, or from centre to centre: then a single one is 0."""
    if align_corners:
        return np.linspace(-1, 1, size) if size > 1 else np.zeros(size)
    return (np.arange(size) + 0.5) * 2 / max(1, size) - 1


def expected(theta, size, align_corners):
    axes = [coordinates(n, align_corners) for n in size[2:]]
    places = np.meshgrid(*axes, indexing="ij")[::-1]  # x is the last dimension
    homogeneous = np.stack([*places, np.ones(size[2:])], -1)
    return np.einsum("nac,...c->n...a", theta.astype(np.float64), homogeneous)


def drawn(seed, dtype=np.float32, least=1):
    rng = np.random.default_rng(seed)
    rank = 2 + seed % 2
    size = np.int64([*rng.integers(1, 4, 2), *rng.integers(least, 5, rank)])
    return rng.standard_normal((size[0], rank, rank + 1)).astype(dtype), size


@pytest.mark.thinned(10)
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("align_corners", [0, 1])
def test_positions_are_rounded_once(align_corners, seed):
    dtype = TYPES[seed // 2 % 4]
    theta, size = drawn(seed, dtype, least=0 if seed > 30 else 1)
    (grid,) = computed("AffineGrid", [theta, size], static={1}, align_corners=align_corners)
    assert grid.dtype == dtype
    step = float(jnp.finfo(dtype).eps)
    near = {"rtol": 0.51 * step, "atol": 1e-6} if step > 1e-6 else {"rtol": 8 * step, "atol": 8 * step}
    np.testing.assert_allclose(grid, expected(theta, size, align_corners), **near)


@pytest.mark.parametrize("seed", sampled(range(20), [0, 1]))
@pytest.mark.parametrize("align_corners", sampled([0, 1], [1]))
def test_positions_are_those_of_onnx_runtime_and_torch(align_corners, seed):
    """But for sizes of 1 with aligned corners, which are 1 in ONNX Runtime."""
    theta, size = drawn(seed, least=2)
    assert_as_runtime("AffineGrid", [theta, size], static={1}, align_corners=align_corners)
    torch = pytest.importorskip("torch")
    wanted = torch.nn.functional.affine_grid(torch.tensor(theta), size.tolist(), align_corners=bool(align_corners))
    (grid,) = computed("AffineGrid", [theta, size], static={1}, align_corners=align_corners)
    np.testing.assert_allclose(grid, wanted.numpy(), rtol=1e-5, atol=1e-6)


def test_a_batch_of_1():
    theta, size = np.float32([[[0.5, 0, 1], [0, 2, 0]]]), np.int64([1, 3, 4, 5])
    assert_as_runtime("AffineGrid", [theta, size], static={1})


def test_derivatives_are_those_of_differences():
    theta, size = drawn(1)
    function = to_jax(one_node("AffineGrid", [theta, size])[0], static={"x1": size})
    check_grads(jax.jit(function), (theta,), 1, modes=["fwd", "rev"], atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize(
    ("theta", "size", "message"),
    [
        ((2, 2, 3), [1, 3, 4, 5], "theta: its sizes must be [1, 2, 3], but they are [2, 2, 3]"),
        ((1, 2, 3), [1, 3, 2, 4, 5], "theta: its sizes must be [1, 3, 4], but they are [1, 2, 3]"),
        ((1, 2, 3), [1, 3, 4], "size must be (N, C, H, W) or (N, C, D, H, W), but it has 3 numbers"),
        ((1, 2, 3), [1, 3, -4, 5], "size must be sizes of at least 0, but it is [1, 3, -4, 5]"),
    ],
)
def test_what_does_not_fit(theta, size, message):
    assert_refused(message, "AffineGrid", [np.zeros(theta, np.float32), np.int64(size)])
