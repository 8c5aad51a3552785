"""Oracle of the activations: DirectML's formulas of one number, or of a row of numbers. Imports no JAX.

Each takes Python floats and the parameters in DirectML's order, and computes in float64.
"""

import math

import numpy as np


def exp(x):
    return math.exp(x) if x < 700 else math.inf


def softplus(x):
    """ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|), which overflows nowhere."""
    return max(x, 0) + math.log1p(math.exp(-abs(x)))


FORMULAS = {
    "ACTIVATION_CELU": lambda x, a: max(0, x) + min(0, a * (exp(x / a) - 1)),
    "ACTIVATION_ELU": lambda x, a: x if x >= 0 else a * (exp(x) - 1),
    "ACTIVATION_GELU": lambda x: x / 2 * (1 + math.erf(x / math.sqrt(2))),
    "ACTIVATION_HARD_SIGMOID": lambda x, a, b: max(0, min(a * x + b, 1)),
    "ACTIVATION_HARD_SWISH": lambda x, a, b: x * max(0, min(a * x + b, 1)),
    "ACTIVATION_IDENTITY": lambda x: x,
    "ACTIVATION_LEAKY_RELU": lambda x, a: x if x >= 0 else a * x,
    "ACTIVATION_LINEAR": lambda x, a, b: a * x + b,
    "ACTIVATION_PARAMETRIC_SOFTPLUS": lambda x, a, b: a * softplus(b * x),
    "ACTIVATION_RELU": lambda x: max(0, x),
    "ACTIVATION_SCALED_ELU": lambda x, a, g: g * x if x > 0 else g * (a * exp(x) - a),
    "ACTIVATION_SCALED_TANH": lambda x, a, b: a * math.tanh(b * x),
    "ACTIVATION_SHRINK": lambda x, b, t: x - b if x > t else x + b if x < -t else 0,
    "ACTIVATION_SIGMOID": lambda x: 1 / (1 + exp(-x)),
    "ACTIVATION_SOFTPLUS": lambda x, s: softplus(s * x) / s,
    "ACTIVATION_SOFTSIGN": lambda x: x / (1 + abs(x)),
    "ACTIVATION_SWISH": lambda x, s: x / (1 + exp(-s * x)),
    "ACTIVATION_TANH": math.tanh,
    "ACTIVATION_THRESHOLDED_RELU": lambda x, a: x if x > a else 0,
    "ELEMENT_WISE_CLIP": lambda x, s, least, most: min(most, max(least, x if s is None else x * s.scale + s.bias)),
}


def softmax(array, axes):
    powers = np.exp(array - array.max(axis=axes, keepdims=True))
    return powers / powers.sum(axis=axes, keepdims=True)


def log_softmax(array, axes):
    less = array - array.max(axis=axes, keepdims=True)
    return less - np.log(np.exp(less).sum(axis=axes, keepdims=True))


def hardmax(array, axes):
    """1 where the greatest number stands that comes first, in row-major order."""
    first = {}
    for at, x in np.ndenumerate(array):
        kept = tuple(n for d, n in enumerate(at) if d not in axes)
        if kept not in first or x > array[first[kept]]:
            first[kept] = at
    output = np.zeros_like(array)
    for at in first.values():
        output[at] = 1
    return output


# Of numbers along dimensions: the last one, or as a digit behind the name says those of the only parameter.
ALONG = {"ACTIVATION_HARDMAX": hardmax, "ACTIVATION_LOG_SOFTMAX": log_softmax, "ACTIVATION_SOFTMAX": softmax}


def activated(array, activation):
    """The float64 numbers that an activation, by its name and parameters, makes of float64 ones."""
    name, parameters = activation.operator_type, activation.parameters
    if name.removesuffix("1") in ALONG:
        return ALONG[name.removesuffix("1")](array, tuple(parameters[0]) if parameters else (array.ndim - 1,))
    output = np.empty_like(array)
    for at, x in np.ndenumerate(array):
        output[at] = FORMULAS[name](float(x), *parameters)
    return output
