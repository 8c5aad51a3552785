"""ONNX's window functions: NumPy's in float64, ONNX Runtime's, and torch's of length 1."""

import jax
import numpy as np
import pytest
from checks import sampled
from onnx_building import TensorProto, helper
from onnx_one_node import assert_as_runtime, assert_refused, computed, one_node

from dml_jax.onnx import NotConstantError, to_jax

# NumPy's are symmetric; its Hamming window has other coefficients.
WINDOWS = {
    "BlackmanWindow": np.blackman,
    "HammingWindow": lambda n: 25 / 46 + (np.hanning(n) - 0.5) * 21 / 23,
    "HannWindow": np.hanning,
}
INTEGERS = [f"{sign}INT{bits}" for bits in (8, 16, 32, 64) for sign in ("", "U")]
TYPES = ["FLOAT16", "BFLOAT16", "FLOAT", "DOUBLE", *INTEGERS]


def window(kind, size, **attributes):
    return computed(kind, [np.asarray(size)], opset=17, static={0}, **attributes)[0]


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("size", sampled([0, 1, 2, 3, 10, 17, 1001], [0, 1, 10]))
def test_windows_are_those_of_numpy(kind, size):
    """A periodic one is a symmetric one without its last element; a symmetric one of length 1 is 1."""
    for attributes, wanted in (({"periodic": 0}, WINDOWS[kind](size)), ({}, WINDOWS[kind](size + 1)[:-1])):
        y = window(kind, size, **attributes)
        assert y.dtype == np.float32
        np.testing.assert_allclose(y, wanted[:size], rtol=1e-6, atol=1e-15)


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("name", sampled(TYPES, ["BFLOAT16", "DOUBLE", "UINT8"]))
def test_types(kind, name):
    """Numbers are computed in float64 and rounded once; integers are truncated, and the middle is 1."""
    dtype = helper.tensor_dtype_to_np_dtype(getattr(TensorProto, name))
    y = window(kind, np.int32(9), periodic=0, output_datatype=getattr(TensorProto, name))
    wanted = WINDOWS[kind](9)
    wanted = np.trunc(wanted + 1e-12) if dtype.kind in "iu" else wanted
    assert y.dtype == dtype
    np.testing.assert_allclose(y.astype(np.float64), wanted.astype(dtype).astype(np.float64), rtol=1e-15, atol=1e-16)
    assert y[4] == 1


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("periodic", sampled([0, 1], [1]))
@pytest.mark.parametrize("size", sampled([3, 10, 17], [10]))
def test_windows_are_those_of_onnx_runtime(kind, periodic, size):
    assert_as_runtime(kind, [np.int64(size)], opset=17, static={0}, periodic=periodic)


def test_a_window_of_length_1_is_that_of_torch():
    torch = pytest.importorskip("torch")
    for kind, function in {"BlackmanWindow": torch.blackman_window, "HannWindow": torch.hann_window}.items():
        np.testing.assert_array_equal(window(kind, 1, periodic=0), function(1, periodic=False).numpy())


def test_what_does_not_fit():
    assert_refused("size must be at least 0, but it is -1", "HannWindow", [np.int64(-1)], opset=17)
    assert_refused("size must be one number, but it is [3, 4]", "HannWindow", [np.int64([3, 4])], opset=17)
    with pytest.raises(NotConstantError, match="size must be a constant"):
        jax.jit(to_jax(one_node("HannWindow", [np.int32(4)], opset=17)[0]))(np.int32(4))
