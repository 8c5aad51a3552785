"""Random nodes of ONNX Runtime's contrib operators, computed by dml_jax and by ONNX Runtime."""

import jax
import numpy as np
from onnx_building import one_node, runtime

from dml_jax.onnx import to_jax

FLOAT = np.float32


class Draw:
    """Random numbers by a seed."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def __call__(self, *shape):
        return self.rng.standard_normal(shape).astype(FLOAT)

    def one_of(self, *values):
        return values[int(self.rng.integers(len(values)))]

    def below(self, least, most):
        return int(self.rng.integers(least, most + 1))


def computed(kind, inputs, outputs=1, static=(), **attributes):
    """The outputs of a jitted node, whose inputs at these positions are known."""
    proto, named = one_node(kind, inputs, outputs, "com.microsoft", **attributes)
    known = {name: named.pop(name) for name in [f"x{i}" for i in static] if name in named}
    wide = [name for name, array in named.items() if array.dtype == np.int64]
    named = {name: array.astype(np.int32) if name in wide else array for name, array in named.items()}
    return jax.tree.leaves(jax.jit(to_jax(proto, static=known, int32=wide))(**named))


def of_runtime(kind, inputs, outputs=1, **attributes):
    return runtime(*one_node(kind, inputs, outputs, "com.microsoft", **attributes))


def close(actual, expected):
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    narrow = 2e-3 if expected.dtype == np.float16 else 1e-5
    np.testing.assert_allclose(np.asarray(actual, FLOAT), np.asarray(expected, FLOAT), rtol=narrow, atol=narrow)
