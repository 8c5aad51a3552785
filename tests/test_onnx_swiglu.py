"""SwiGLU against NumPy in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close, sampled
from onnx_building import one_node, onnx
from slope_oracle import assert_slopes

from dml_jax.onnx import OnnxError, to_jax

if not onnx.defs.has("SwiGLU"):
    pytest.skip("onnx has no such operator", allow_module_level=True)


def exact(a, b, alpha):
    return a / (1 + np.exp(-alpha * a)) * b


@pytest.mark.parametrize("alpha", sampled([1.0, 0.5, -2.0], [0.5]))
@pytest.mark.parametrize("dtype", sampled([np.float32, np.float16, jnp.bfloat16, np.float64], [np.float16]))
@pytest.mark.parametrize("shape", sampled([(3, 5), (), (2, 0)], [(3, 5)]))
def test_products(alpha, dtype, shape):
    rng = np.random.default_rng(0)
    a, b = (np.asarray(rng.uniform(-4, 4, shape)).astype(dtype) for _ in range(2))
    proto, _ = one_node("SwiGLU", [a, b], opset=28, alpha=alpha)
    with jax.enable_x64(True):
        made = jax.jit(to_jax(proto))(a, b)
    assert made.dtype == dtype
    assert_close(made, exact(np.float64(a), np.float64(b), alpha), units=16)


def test_gradients():
    a, b = np.random.default_rng(0).uniform(-4, 4, (2, 3, 5)).astype(np.float32)
    function = to_jax(one_node("SwiGLU", [a, b], opset=28, alpha=0.5)[0])
    assert_slopes(function, lambda a, b: exact(a, b, 0.5), [a, b])


def test_nothing_is_broadcast():
    proto, named = one_node("SwiGLU", [np.zeros((2, 3), np.float32), np.zeros(3, np.float32)], opset=28)
    with pytest.raises(OnnxError, match=r"B: its sizes must be \[2, 3\], but they are \[3\]"):
        to_jax(proto)(**named)
