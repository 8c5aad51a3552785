"""ONNX Runtime's Gelu operators, beside ONNX Runtime; those of DirectML's provider alone, beside float64."""

from math import erf, erfc

import ml_dtypes
import numpy as np
import pytest
from checks import sampled
from onnx_one_node import MICROSOFT, assert_as_runtime, assert_refused, computed, shape

OF_RUNTIME = ("BiasGelu", "FastGelu", "Gelu", "QuickGelu")


def drawn(seed, kind, dtype=np.float32):
    """Inputs and attributes of a node; a bias may be left out where it can be."""
    rng = np.random.default_rng(seed)
    sizes = shape(rng, 1, 5)
    x, bias = (rng.uniform(-4, 4, size).astype(dtype) for size in (sizes, sizes[-1:]))
    is_biased = kind == "BiasGelu" or (kind == "FastGelu" and seed % 3)
    attributes = {"alpha": float(rng.uniform(-2, 2))} if kind == "QuickGelu" and seed % 3 else {}
    return [x, bias] if is_biased else [x], attributes


@pytest.mark.parametrize("seed", sampled(range(30), [1]))
@pytest.mark.parametrize("kind", OF_RUNTIME)
def test_gelus_are_those_of_onnx_runtime(kind, seed):
    inputs, attributes = drawn(seed, kind)
    assert_as_runtime(kind, inputs, domain=MICROSOFT, **attributes)


def gelu(x):
    return x * (1 + np.vectorize(erf)(x / np.sqrt(2))) / 2


def fast_gelu(x):
    return x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2


def split_gelu(x):
    factors, gated = np.split(x, 2, -1)
    return factors * gelu(gated)


EXACT = {
    "BiasAdd": lambda x, bias, skip: x + bias + skip,
    "BiasGelu": lambda x, bias: gelu(x + bias),
    "BiasSplitGelu": lambda x, bias: split_gelu(x + bias),
    "FastGelu": lambda x, bias: fast_gelu(x + bias),
    "Gelu": gelu,
    "QuickGelu": lambda x: x / (1 + np.exp(-float(np.float32(1.702)) * x)),
}


@pytest.mark.parametrize("seed", sampled(range(6), [0]))
@pytest.mark.parametrize("dtype", sampled([np.float16, np.float32], [np.float16]))
@pytest.mark.parametrize("kind", sampled(EXACT, ["BiasAdd", "BiasSplitGelu"]))
def test_gelus_and_sums_are_rounded_once(kind, dtype, seed):
    rng = np.random.default_rng(seed)
    *sizes, half = shape(rng, 3, 3)
    shapes = {"bias": (2 * half,)}
    names = EXACT[kind].__code__.co_varnames[: EXACT[kind].__code__.co_argcount]
    inputs = [rng.uniform(-4, 4, shapes.get(name, (*sizes, 2 * half))).astype(dtype) for name in names]
    (y,) = computed(kind, inputs, domain=MICROSOFT)
    wanted = EXACT[kind](*(x.astype(np.float64) for x in inputs))
    assert y.dtype == dtype
    assert y.shape == wanted.shape
    step = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(y, wanted, rtol=0.51 * step if dtype == np.float16 else 4 * step, atol=2e-6)


def test_gelu_is_near_where_its_numbers_are_small():
    """For numbers below 0, of which erf(x) + 1 would cancel, and for which XLA's erfc errs by 1e-5."""
    x = np.random.default_rng(0).uniform(-12, 12, 20_000).astype(np.float32)
    (y,) = computed("Gelu", [x], domain=MICROSOFT)
    wanted = [number * erfc(-number / np.sqrt(2)) / 2 for number in x.astype(np.float64)]
    np.testing.assert_allclose(y, wanted, rtol=5e-6)
    edges = np.float32([np.inf, -0.0, 0.0, -20, 20])
    (y,) = computed("Gelu", [edges], domain=MICROSOFT)
    np.testing.assert_array_equal(y, np.float32([np.inf, 0, 0, 0, 20]))


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", OF_RUNTIME)
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float64])
def test_other_types(kind, dtype):
    x = np.float32([[-1.5, 0, 2]]).astype(dtype)
    inputs = [x, x[0]] if kind in ("BiasGelu", "FastGelu") else [x]
    (y,) = computed(kind, inputs, domain=MICROSOFT)
    assert y.dtype == dtype
    wanted = EXACT[kind](*(one.astype(np.float64) for one in inputs))
    np.testing.assert_allclose(y.astype(np.float64), wanted, rtol=float(ml_dtypes.finfo(dtype).eps), atol=1e-12)


BIAS = "the bias must have one number for each element of the last dimension, but its shape is"
X, CUBE = np.zeros((2, 3), np.float32), np.zeros((1, 2, 3), np.float32)


@pytest.mark.parametrize(
    ("kind", "inputs", "message"),
    [
        ("BiasGelu", [X, X[0, :1]], f"{BIAS} (1,), and the input is (2, 3)"),
        ("BiasGelu", [X, X], f"{BIAS} (2, 3)"),
        ("FastGelu", [X, X[0, :1]], f"{BIAS} (1,)"),
        ("BiasAdd", [X, X[0], X], "x and skip must be of one shape of 3 dimensions, but their shapes are (2, 3)"),
        ("BiasAdd", [CUBE, X[0], CUBE[:, :1]], "x and skip must be of one shape of 3 dimensions"),
        ("BiasSplitGelu", [CUBE, X[0]], "x must have 3 dimensions, the last one of an even size, but its shape is"),
        ("Gelu", [X.astype(np.int32)], "X of Gelu-1 must be one of bfloat16, float16, float, double, but it is int32"),
    ],
)
def test_what_does_not_fit(kind, inputs, message):
    assert_refused(message, kind, inputs, domain=MICROSOFT)


def test_an_unknown_attribute_is_refused():
    message = "the attributes of Gelu-1 must be among none, but there is 'approximate'"
    assert_refused(message, "Gelu", [X], domain=MICROSOFT, approximate="tanh")
