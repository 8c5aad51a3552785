"""Overflow: results beyond their type are infinities, or NaNs where the type has none, on every device."""

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import together

import dml_jax

pytestmark = pytest.mark.device

# The function, and the same of NumPy in float64, of 40 rows of 300 numbers.
CALLS = {
    "sums of columns": (lambda x: dml_jax.reduce(x, "sum", (0,)), lambda x: x.sum(0, keepdims=True)),
    "sums of rows": (lambda x: dml_jax.reduce(x, "sum", (1,)), lambda x: x.sum(1, keepdims=True)),
    "squares": (lambda x: dml_jax.reduce(x, "sum_square", (0,)), lambda x: (x * x).sum(0, keepdims=True)),
    "running sums": (lambda x: dml_jax.cumulative_summation(x, 0), lambda x: np.cumsum(x, 0)),
    "running sums of rows": (lambda x: dml_jax.cumulative_summation(x, 1), lambda x: np.cumsum(x, 1)),
    "products of matrices": (lambda x: dml_jax.gemm(x, x, trans_a=True), lambda x: x.T @ x),
    "a filter": (
        lambda x: dml_jax.convolution(x[None, None], jnp.ones((1, 1, 40, 1), x.dtype))[0, 0],
        lambda x: x.sum(0, keepdims=True),
    ),
    "overlapping windows": (
        lambda x: dml_jax.fold(x[:2], (301,), (2,)),
        lambda x: np.pad(x[:1], ((0, 0), (0, 1))) + np.pad(x[1:2], ((0, 0), (1, 0))),
    ),
    "updates of one row": (
        lambda x: dml_jax.scatter_nd(x, jnp.zeros((39, 1), jnp.int32), x[1:], reduction="add"),
        lambda x: np.concatenate([x.sum(0, keepdims=True), x[1:]]),
    ),
    "a cast of sums": (lambda x: dml_jax.cast(jnp.sum(x.astype(jnp.float32), 0), x.dtype), lambda x: x.sum(0)),
    "a cast of turned numbers": (
        lambda x: dml_jax.cast(jnp.tile(x.astype(jnp.float32) * 4, (4, 1)).T, x.dtype),
        lambda x: np.tile(x * 4, (4, 1)).T,
    ),
}


@pytest.mark.thinned(5)
@pytest.mark.parametrize("dtype", ["float8_e5m2", "float8_e4m3fn", "float8_e4m3b11fnuz", "float16", "bfloat16"])
def test_too_great_numbers(dtype):
    """XLA:GPU writes the greatest number of eight bits instead where it narrows in the kernel of a reduction."""
    x = np.full((40, 300), ml_dtypes.finfo(dtype).max, dtype)
    x[:, ::4] = 0.25
    x[:, ::5] = 0
    made = together([(function, x) for function, _ in CALLS.values()])
    for (name, (_, of_numpy)), found in zip(CALLS.items(), made, strict=True):
        with np.errstate(over="ignore", invalid="ignore"):
            wanted = of_numpy(x.astype(np.float64)).astype(np.float32).astype(dtype).astype(np.float32)
        assert not np.isfinite(wanted).all()
        np.testing.assert_array_equal(found.astype(np.float32), wanted, err_msg=name)
