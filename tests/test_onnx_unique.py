"""ONNX's Unique, beside ONNX Runtime."""

import jax
import numpy as np
import pytest
from checks import sampled
from onnx_building import helper, model
from onnx_one_node import assert_as_runtime, assert_refused, shape

from dml_jax.onnx import NotConstantError, to_jax

TYPES = (np.float32, np.float64, np.int64, np.int8, np.float16)


@pytest.mark.parametrize("seed", sampled(range(30), [2, 10]))
def test_unique_is_that_of_onnx_runtime(seed):
    """All outputs or fewer, of a flat array or along an axis, sorted or as they come."""
    rng = np.random.default_rng(seed)
    sizes = shape(rng, 0 if seed % 2 else 1, 3)
    x = rng.integers(-1, 2, sizes).astype(TYPES[seed % 5])
    attributes = {} if seed % 2 else {"axis": int(rng.integers(-len(sizes), len(sizes)))}
    attributes |= {"sorted": seed // 4 % 2} if seed % 3 else {}
    assert_as_runtime("Unique", [x], 1 + seed % 4, opset=11, static={0}, **attributes)


@pytest.mark.parametrize("sizes", sampled([(0, 3), (0,)], [(0, 3)]))
def test_of_nothing(sizes):
    assert_as_runtime("Unique", [np.zeros(sizes, np.float32)], 4, opset=11, static={0})


def test_the_elements_must_be_known():
    node = helper.make_node("Unique", ["x"], ["y"])
    x = np.float32([2, 1, 2])
    constant = to_jax(model([node], {}, ["y"], {"x": x}, opset=11))
    assert not constant.parameters
    np.testing.assert_array_equal(jax.jit(constant)(), [1, 2])
    function = to_jax(model([node], {"x": x}, ["y"], opset=11))
    np.testing.assert_array_equal(function(x), [1, 2])
    with pytest.raises(NotConstantError, match=r"x must be a constant .* it decides how many elements differ"):
        jax.jit(function)(x)


def test_an_axis_that_is_not_there():
    assert_refused("axis must be in [-1, 0], but it is 1", "Unique", [np.zeros(3, np.float32)], opset=11, axis=1)
