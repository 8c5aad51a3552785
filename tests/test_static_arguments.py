"""Traced values of static arguments: the error tells the caller what to do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dml_jax

X = np.zeros((1, 4, 2, 2), np.float32)
CALLS = {
    "an integer": lambda one: dml_jax.depth_to_space(X, one),
    "an axis": lambda one: dml_jax.gather(X, np.int32([0]), one),
    "integers": lambda one: dml_jax.tile(X, (1, one, 1, 1)),
    "a row": lambda one: dml_jax.tile(X, jnp.full(4, one)),
    "a number": lambda one: dml_jax.gemm(X, X, alpha=one),
    "numbers": lambda one: dml_jax.resample(X, X.shape, scales=one),
    "a flag": lambda one: dml_jax.gemm(X, X, trans_a=one > 0),
    "a promise": lambda one: dml_jax.gather(X, np.int32([0]), 1, unique_indices=one > 0),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_traced_argument_is_named_with_what_keeps_it_static(call):
    with pytest.raises(dml_jax.DataTypeError, match="it is traced: name it in static_argnums or static_argnames"):
        jax.jit(call)(1)


def test_static_argnums_is_what_helps():
    made = jax.jit(dml_jax.depth_to_space, static_argnums=1, static_argnames="order")(X, 2, order="CRD")
    assert made.shape == (1, 1, 4, 4)
