"""ONNX's CenterCropPad: every size to every size, beside ONNX's own implementation in NumPy; bits stay."""

import jax
import ml_dtypes
import numpy as np
import pytest
from checks import sampled
from onnx.reference import ReferenceEvaluator
from onnx_building import assert_same_values, one_node
from onnx_one_node import assert_as_runtime, assert_refused, computed

from dml_jax.onnx import to_jax

TYPES = [np.float16, ml_dtypes.bfloat16, np.float64, np.complex64, np.int64, np.uint8, bool]


@pytest.mark.parametrize("size", sampled(range(6), [3]))
@pytest.mark.parametrize("wanted", sampled(range(8), [0, 2, 6]))
def test_every_size_to_every_size(size, wanted):
    x = np.arange(1, 2 * size + 1, dtype=np.float32).reshape(2, size)
    for inputs, attributes in (([x, np.int64([3, wanted])], {}), ([x, np.int32([wanted])], {"axes": [-1]})):
        (y,) = computed("CenterCropPad", inputs, static={1}, **attributes)
        model, named = one_node("CenterCropPad", inputs, **attributes)
        assert_same_values(y, ReferenceEvaluator(model).run(None, named)[0])


@pytest.mark.parametrize("dtype", sampled(TYPES, [ml_dtypes.bfloat16, bool]))
def test_every_type(dtype):
    """What is added is 0."""
    x = np.arange(4).reshape(4, 1).astype(dtype)
    wanted = np.zeros((2, 3), dtype)
    wanted[:, 1] = x[1:3, 0]
    (y,) = computed("CenterCropPad", [x, np.int64([2, 3])], static={1})
    assert_same_values(y, wanted)


def test_onnx_runtime_agrees():
    x = np.arange(30, dtype=np.float32).reshape(2, 3, 5)
    assert_as_runtime("CenterCropPad", [x, np.int64([8, 2])], static={1}, axes=[1, -1])


def test_int64_data_while_x64_is_off():
    model, named = one_node("CenterCropPad", [np.int64([5, 6, 7]), np.int64([5])])
    y = jax.jit(to_jax(model, int32=["x0"], static={"x1": named["x1"]}))(named["x0"].astype(np.int32))
    np.testing.assert_array_equal(y, [0, 5, 6, 7, 0])


@pytest.mark.parametrize(
    ("shape", "attributes", "message"),
    [
        ([3], {}, "shape must have a size for each of 2 axes, but it is (3,)"),
        ([3, 3], {"axes": [0]}, "shape must have a size for each of 1 axes, but it is (3, 3)"),
        ([3, -1], {}, "shape must be sizes of at least 0, but it is [3, -1]"),
        ([3], {"axes": [2]}, "axes must be in [-2, 1], but it is 2"),
        ([3, 3], {"axes": [0, -2]}, "axes must differ from each other, but they are [0, 0]"),
    ],
)
def test_what_does_not_fit(shape, attributes, message):
    assert_refused(message, "CenterCropPad", [np.zeros((2, 3), np.float32), np.int64(shape)], **attributes)
