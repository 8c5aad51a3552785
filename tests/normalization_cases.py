"""Oracles of normalizations: the formulas in float64, random sizes and numbers. Imports JAX for
descriptors only."""

import numpy as np
from activation_cases import activated
from draws import dims

from dml_jax import Activation

# Continuous ones, so that what is rounded a little differently is not something else.
FUSED = [
    *(None, None, Activation("ACTIVATION_RELU"), Activation("ACTIVATION_ELU", (0.5,))),
    *(Activation(f"ACTIVATION_{name}") for name in ("CELU", "GELU", "SIGMOID", "SOFTPLUS", "SOFTSIGN", "TANH")),
    Activation("ACTIVATION_LINEAR", (0.5, -1)),
]
EPSILONS = (0.25, 0.5, 1.0)


def normalized(x, mean, variance, scale, bias, epsilon, added=None, activation=None):
    """activation(scale * (x - mean) / sqrt(variance + epsilon) + bias + added); without what is None."""
    x, mean, variance, scale, bias, added = (
        None if array is None else np.asarray(array, np.float64) for array in (x, mean, variance, scale, bias, added)
    )
    y = x - (0 if mean is None else mean)
    y = y / (1 if variance is None else np.sqrt(variance + epsilon))
    y = y * (1 if scale is None else scale) + (0 if bias is None else bias) + (0 if added is None else added)
    return y if activation is None else activated(y, activation)


def moments(x, axes):
    """Mean and variance along axes, which keep the size 1."""
    x = np.asarray(x, np.float64)
    return x.mean(axes, keepdims=True), x.var(axes, keepdims=True)


def axes_of(sizes):
    """The dimensions of size 1."""
    return tuple(d for d, n in enumerate(sizes) if n == 1)


def draw_sizes(rng, rank=None):
    """Sizes of an input."""
    return dims(rng, int(rng.integers(1, 9)) if rank is None else rank)


def broadcast(rng, sizes):
    """Each size, or 1."""
    return [n if rng.random() < 0.5 else 1 for n in sizes]


def draw_attributes(rng):
    return {"epsilon": float(rng.choice(EPSILONS)), "fused_activation": FUSED[rng.integers(len(FUSED))]}


def fill(rng, port, tensor, count):
    """Normal numbers; variances are positive."""
    numbers = rng.normal(size=count)
    return (abs(numbers) if port == "variance" else numbers).astype(tensor.dtype)
