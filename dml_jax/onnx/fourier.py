"""ONNX's DFT, STFT and MelWeightMatrix, by `jax.numpy.fft`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import ConstraintError
from .data_movement import number_of
from .model_loading import dtype_of
from .values import Array, Operators, as_wide, known, on_device


def dft_along_axis(
    *, input: Array, dft_length: Array | None = None, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> jax.Array:
    """DFT of a signal whose last dimension holds real parts, or real and imaginary parts."""
    if input.ndim < 2 or input.shape[-1] not in (1, 2):
        rule = "input must have 2 dimensions at least, the last one of 1 or 2"
        raise ConstraintError(f"{rule}, but its shape is {input.shape}")
    at = axis + input.ndim if axis < 0 else axis
    if not 0 <= at <= input.ndim - 2:
        rule = f"axis must be in [{-input.ndim}, -2] or [0, {input.ndim - 2}]"
        raise ConstraintError(f"{rule}, but it is {axis}")
    if onesided and input.shape[-1] != 1 + bool(inverse):
        rule = f"with onesided the last dimension of input must be {'2 with inverse' if inverse else '1'}"
        raise ConstraintError(f"{rule}, but its shape is {input.shape}")
    default = 2 * (input.shape[at] - 1) if onesided and inverse else input.shape[at]
    length = default if dft_length is None else number_of("dft_length", dft_length)
    if length < 1:
        raise ConstraintError(f"dft_length must be at least 1, but it is {length}")
    if onesided:
        y = (jnp.fft.irfft if inverse else jnp.fft.rfft)(_complex(input), length, at)
    else:
        y = (jnp.fft.ifft if inverse else jnp.fft.fft)(_complex(input), length, at)
    return _parts(y).astype(input.dtype)


def dft(*, axis: Array | None = None, **given: Any) -> jax.Array:
    """DFT since opset 20, where the axis is an input."""
    return dft_along_axis(axis=-2 if axis is None else number_of("axis", axis, "an axis"), **given)


def stft(
    *,
    signal: Array,
    frame_step: Array,
    window: Array | None = None,
    frame_length: Array | None = None,
    onesided: int = 1,
) -> jax.Array:
    """STFT: the DFT of each frame times the window; a last dimension of 1 may be left out."""
    signal = signal[..., None] if signal.ndim == 2 else signal
    if signal.ndim != 3 or signal.shape[-1] not in (1, 2) or (window is not None and window.ndim != 1):
        rule = "signal must be (batches, length, 1 or 2), and window 1-D"
        shapes = f"{signal.shape} and {None if window is None else window.shape}"
        raise ConstraintError(f"{rule}, but their shapes are {shapes}")
    whole = signal.shape[1] if window is None else window.shape[0]
    length = whole if frame_length is None else number_of("frame_length", frame_length)
    step = number_of("frame_step", frame_step)
    if step < 1 or not 1 <= length <= signal.shape[1] or (window is not None and length != whole):
        rule = f"frame_step must be at least 1, and frame_length in [1, {signal.shape[1]}] and as long as the window"
        raise ConstraintError(f"{rule}, but they are {step} and {length}{'' if window is None else f', {whole}'}")
    count = (signal.shape[1] - length) // step + 1
    frames = _complex(signal)[:, np.arange(count)[:, None] * step + np.arange(length)]
    if window is not None:
        frames = frames * on_device(window).astype(frames.dtype).reshape(1, 1, -1)
    is_real = signal.shape[-1] == 1
    y = (jnp.fft.rfft if onesided and is_real else jnp.fft.fft)(frames)
    return _parts(y[..., : length // 2 + 1] if onesided else y).astype(signal.dtype)


def mel_weight_matrix(
    *,
    num_mel_bins: Array,
    dft_length: Array,
    sample_rate: Array,
    lower_edge_hertz: Array,
    upper_edge_hertz: Array,
    output_datatype: int = 1,
) -> np.ndarray:
    """MelWeightMatrix: triangular filters of a spectrum, (dft_length // 2 + 1, num_mel_bins), even on the mel scale."""
    count, length, rate = (
        number_of(name, value)
        for name, value in (("num_mel_bins", num_mel_bins), ("dft_length", dft_length), ("sample_rate", sample_rate))
    )
    if count < 0 or length < 1 or rate < 1:
        rule = "num_mel_bins must be at least 0, dft_length and sample_rate at least 1"
        raise ConstraintError(f"{rule}, but they are {count}, {length} and {rate}")
    low, high = (
        2595 * np.log10(1 + float(known(name, edge, "the weights").reshape(())) / 700)
        for name, edge in (("lower_edge_hertz", lower_edge_hertz), ("upper_edge_hertz", upper_edge_hertz))
    )
    mels = np.arange(count + 2) * (high - low) / (count + 2) + low
    bins = ((length + 1) * 700 * (10 ** (mels / 2595) - 1) // rate).astype(np.int64)
    if bins.min() < 0 or bins.max() > length // 2:
        rule = f"the edges must lie in a spectrum of {length // 2 + 1} bins"
        raise ConstraintError(f"{rule}, but they reach from bin {bins.min()} to {bins.max()}")
    left, center, right = bins[:-2], bins[1:-1], bins[2:]
    bin_ = np.arange(length // 2 + 1)[:, None]
    rises = np.where(center > left, (bin_ - left) / np.maximum(center - left, 1), bin_ == center)
    falls = (right - bin_) / np.maximum(right - center, 1)
    weights = np.where((left <= bin_) & (bin_ <= center), rises, 0)
    weights = np.where((center <= bin_) & (bin_ < right), falls, weights)
    return weights.astype(dtype_of(output_datatype, "output_datatype"))


def _complex(x: Array) -> jax.Array:
    """Merges the last dimension into complex numbers; real numbers if it has no imaginary parts."""
    wide = as_wide(x)
    return wide[..., 0] if x.shape[-1] == 1 else jax.lax.complex(wide[..., 0], wide[..., 1])


def _parts(y: jax.Array) -> jax.Array:
    return jnp.stack([y.real, y.imag] if jnp.iscomplexobj(y) else [y], -1)


OPERATORS: Operators = {
    "DFT": {17: dft_along_axis, 20: dft},
    "MelWeightMatrix": {17: mel_weight_matrix},
    "STFT": {17: stft},
}
