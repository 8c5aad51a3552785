"""Oracle of quantised operators: loops with Python's integers and NumPy's float32. Imports no JAX."""

import ml_dtypes
import numpy as np
from oracles import coordinates

# By which halves occur, and numbers that are no sums of few powers of two.
SCALES = np.array([1 / 32, 0.5, 3, 7 / 32, 0.1, 0.013, 2.7])


def wrapped(n):
    """A Python integer as one of 32 bits."""
    return (n + 2**31) % 2**32 - 2**31


def at(parameter, c, sizes):
    """The number of a scale or a zero point, which may be None, for a coordinate: its sizes count from the last one."""
    if parameter is None:
        return 0
    parameter = parameter.reshape((1,) * (len(sizes) - parameter.ndim) + parameter.shape[-len(sizes) :])
    return parameter[tuple(i * n // size for i, n, size in zip(c, parameter.shape, sizes, strict=True))]


def centred(q, zero_point):
    """q - zero_point as Python integers."""
    output = np.empty(q.shape, object)
    for c in coordinates(q.shape):
        output[c] = wrapped(int(q[c]) - int(at(zero_point, c, q.shape)))
    return output


def dequantized(q, scale, zero_point):
    """(q - zero_point) * scale, in float32."""
    output = np.empty(q.shape, np.float32)
    for c, n in np.ndenumerate(centred(q, zero_point)):
        with np.errstate(all="ignore"):
            output[c] = np.float32(n) * np.float32(at(scale, c, q.shape))
    return output


def quantized(x, scale, zero_point, dtype):
    """round(x / scale) + zero_point: Python's round makes halves even. NaN is 0."""
    output, limits = np.zeros(x.shape, dtype), ml_dtypes.iinfo(dtype)
    for c in coordinates(x.shape):
        with np.errstate(all="ignore"):
            number = np.float32(x[c]) / np.float32(at(scale, c, x.shape))
        if np.isnan(number):
            continue
        step = round(float(number)) if np.isfinite(number) else int(np.sign(number)) * 2**40
        output[c] = min(max(step + int(at(zero_point, c, x.shape)), int(limits.min)), int(limits.max))
    return output


def fill(rng, port, tensor, count):
    """Scales; halves and far numbers to quantise; for integers random bits."""
    if tensor.data_type.integers:
        return None
    if "scale" in port or port == "quantizations[0]":
        return rng.choice(SCALES, count).astype(tensor.dtype)
    far = rng.choice([6e4, -6e4, np.inf, -np.inf, -0.0], count)
    return np.where(rng.random(count) < 0.9, rng.integers(-900, 900, count) / 64, far).astype(tensor.dtype)
