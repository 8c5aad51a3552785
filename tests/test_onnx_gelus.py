"""The Gelus of ONNX Runtime, beside ONNX Runtime."""

import numpy as np
import pytest
from onnx_building import one_node, runtime

from dml_jax.onnx import to_jax

X = np.random.default_rng(0).uniform(-4, 4, (3, 4, 5)).astype(np.float32)


@pytest.mark.parametrize("attributes", [{}, {"alpha": 1.0}])
def test_quick_gelu(attributes):
    model, inputs = one_node("QuickGelu", [X], domain="com.microsoft", **attributes)
    np.testing.assert_allclose(to_jax(model)(**inputs), *runtime(model, inputs), rtol=1e-6, atol=1e-6)
