"""ONNX's Fourier transforms and mel weights, beside ONNX Runtime."""

import jax
import numpy as np
import pytest
from checks import sampled
from jax.test_util import check_grads
from onnx_building import one_node
from onnx_one_node import assert_as_runtime, assert_refused, computed, shape

from dml_jax.onnx import NotConstantError, to_jax

SEEDS = sampled(range(30), [1, 2])


def signal(rng, *sizes, dtype=np.float32):
    return rng.standard_normal(sizes).astype(dtype)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("opset", sampled([17, 20], [20]))
def test_transforms_are_those_of_onnx_runtime(opset, seed):
    """Real and complex, both directions, one-sided ones, padded and cut, along any axis but the last."""
    rng = np.random.default_rng(seed)
    is_inverse, is_onesided = seed % 2, seed // 2 % 2
    sizes = tuple(n + 1 for n in shape(rng, 2, 3))
    parts = (2 if is_inverse else 1) if is_onesided else int(rng.integers(1, 3))
    axis = int(rng.integers(len(sizes)))
    axis -= (len(sizes) + 1) * int(rng.integers(2))
    length = np.int64(rng.integers(2, 9)) if seed % 3 else None
    if is_inverse and is_onesided and seed % 3:
        length = np.int64(2 * (sizes[axis % (len(sizes) + 1)] - 1) + rng.integers(2))  # others: as in the next test
    # Of an inverse one ONNX Runtime divides float64 by a length in float32.
    inputs, attributes = [signal(rng, *sizes, parts, dtype=(np.float32, np.float64)[seed % 10 == 4]), length], {}
    if opset < 20:
        attributes = {"axis": axis}
    elif seed % 7:
        inputs.append(np.int64(axis))
    attributes |= {"inverse": is_inverse} if is_inverse else {}
    attributes |= {"onesided": is_onesided} if is_onesided else {}
    assert_as_runtime("DFT", inputs, opset=opset, static={1, 2}, units=16, **attributes)


@pytest.mark.exhaustive
@pytest.mark.parametrize("length", range(1, 12))
def test_inverse_one_sided_transforms_are_cut_and_padded(length):
    """As in ONNX's reference; ONNX Runtime takes other bins where their number does not fit the length."""
    x = signal(np.random.default_rng(0), 2, 4, 2)
    (y,) = computed("DFT", [x, np.int64(length)], static=(1,), opset=20, inverse=1, onesided=1)
    wanted = np.fft.irfft(x[..., 0] + 1j * x[..., 1].astype(np.float64), length)
    np.testing.assert_allclose(y[..., 0], wanted, atol=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_transforms_of_frames_are_those_of_onnx_runtime(seed):
    rng = np.random.default_rng(seed)
    length, step = int(rng.integers(2, 12)), np.int64(rng.integers(1, 6))
    x = signal(rng, 2, int(rng.integers(12, 30)), 1 + int(seed % 4 == 3))
    x = x[..., 0] if seed % 6 == 4 else x
    window = signal(rng, length) if seed % 2 else None
    frame_length = np.int64(length) if window is None or seed % 3 else None
    attributes = {"onesided": seed // 2 % 2} if seed % 5 else {}
    inputs = [x, step, window, frame_length][: 3 if frame_length is None else 4]
    assert_as_runtime("STFT", inputs, opset=17, static={1, 3}, units=16, **attributes)


@pytest.mark.exhaustive
def test_frames_of_the_whole_signal():
    x = signal(np.random.default_rng(0), 2, 9, 1)
    (y,) = computed("STFT", [x, np.int64(3)], static=(1,), opset=17)
    wanted = np.fft.rfft(x[:, None, :, 0].astype(np.float64))
    np.testing.assert_allclose(y[..., 0] + 1j * y[..., 1], wanted, atol=1e-5)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_transforms_of_other_types(dtype):
    x = signal(np.random.default_rng(0), 2, 9, 1, dtype=dtype)
    (y,) = computed("DFT", [x], opset=20)
    assert y.dtype == dtype
    wanted = np.fft.fft(x[..., 0].astype(np.float64))
    step = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(y[..., 0] + 1j * y[..., 1], wanted, rtol=step, atol=8 * step)


@pytest.mark.exhaustive
def test_derivatives_are_those_of_differences():
    x = signal(np.random.default_rng(0), 1, 12, 1)
    model, _ = one_node("STFT", [x, np.int64(4), None, np.int64(6)], opset=17)
    function = to_jax(model, static={"x1": np.int64(4), "x3": np.int64(6)})
    check_grads(jax.jit(function), (x,), 2, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("seed", SEEDS)
def test_mel_weights_are_those_of_onnx_runtime(seed):
    rng = np.random.default_rng(seed)
    count, length, rate = int(rng.integers(1, 20)), int(rng.integers(16, 200)), int(rng.integers(4000, 48000))
    edges = np.sort(rng.uniform(0, 0.5, 2)) * rate
    integers = [np.asarray(n, (np.int64, np.int32)[seed % 2]) for n in (count, length, rate)]
    attributes = {"output_datatype": 11} if seed % 3 == 2 else {}
    inputs = [*integers, *edges.astype(np.float32)]
    assert_as_runtime("MelWeightMatrix", inputs, opset=17, static=range(5), units=2, **attributes)


X, MEL = np.zeros((2, 20, 1), np.float32), [np.int64(8), np.int64(20), np.int64(8000), np.float32(100), np.float32(9e3)]


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes", "message"),
    [
        ("DFT", [X, np.int64(0)], {}, "dft_length must be at least 1, but it is 0"),
        ("DFT", [X, None, np.int64(-1)], {}, "axis must be in [-3, -2] or [0, 1], but it is -1"),
        ("DFT", [X, None, np.int64(2)], {}, "axis must be in [-3, -2] or [0, 1], but it is 2"),
        ("DFT", [np.zeros((2, 3, 3), np.float32)], {}, "the last one of 1 or 2, but its shape is (2, 3, 3)"),
        ("DFT", [X[0, :, 0]], {}, "input must have 2 dimensions at least"),
        ("DFT", [X], {"inverse": 1, "onesided": 1}, "with onesided the last dimension of input must be 2 with inverse"),
        ("DFT", [np.zeros((2, 3, 2), np.float32)], {"onesided": 1}, "the last dimension of input must be 1, but its"),
        ("STFT", [X, np.int64(4), X[0, :8, 0], np.int64(6)], {}, "and as long as the window, but they are 4 and 6, 8"),
        ("STFT", [X, np.int64(4), np.zeros(25, np.float32)], {}, "frame_length in [1, 20] and as long as the window"),
        ("STFT", [X, np.int64(0), X[0, :8, 0]], {}, "frame_step must be at least 1"),
        ("MelWeightMatrix", MEL, {}, "the edges must lie in a spectrum of 11 bins, but they reach from bin 0 to 18"),
    ],
)
def test_onnx_runtime_refuses_them_too(kind, inputs, attributes, message):
    assert_refused(message, kind, inputs, by_runtime=True, opset=20, **attributes)


def test_lengths_must_be_known():
    model, named = one_node("DFT", [X, np.int64(8)], opset=20)
    with jax.enable_x64(True), pytest.raises(NotConstantError, match="dft_length must be a constant"):
        jax.jit(to_jax(model))(**named)
