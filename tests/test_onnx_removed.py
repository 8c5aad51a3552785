"""The operators that ONNX removed in opset 10, beside ONNX Runtime."""

import numpy as np
import pytest
from checks import sampled
from onnx_one_node import assert_as_runtime, assert_refused, computed, shape

KINDS = ("Affine", "Crop", "ImageScaler", "ParametricSoftplus", "ScaledTanh")


def drawn(kind, seed):
    rng = np.random.default_rng(seed)
    sizes = shape(rng, 4, 4)
    x = rng.standard_normal(sizes).astype(np.float32)
    if kind == "ImageScaler":
        bias = rng.standard_normal(sizes[1]).tolist()
        return x, {"bias": bias} | ({"scale": float(rng.uniform(-2, 2))} if seed % 3 else {})
    if kind == "Crop":
        top, left = (int(rng.integers(size)) for size in sizes[2:])
        rest = [int(rng.integers(1, size - start + 1)) for size, start in zip(sizes[2:], (top, left), strict=True)]
        if seed % 2:  # the last two borders do not count
            return x, {"border": [left, top, 9, 9], "scale": rest}
        return x, {"border": [left, top, sizes[3] - left - rest[1], sizes[2] - top - rest[0]]}
    numbers = {name: float(rng.uniform(-2, 2)) for name in ("alpha", "beta")}
    return x, {} if kind == "Affine" and seed % 3 == 0 else numbers


@pytest.mark.parametrize("seed", sampled(range(30), [1]))
@pytest.mark.parametrize("kind", KINDS)
def test_they_are_those_of_onnx_runtime(kind, seed):
    x, attributes = drawn(kind, seed)
    assert_as_runtime(kind, [x], opset=1 + seed % 9, **attributes)


@pytest.mark.parametrize("kind", sampled(KINDS, ["ImageScaler"]))
def test_narrow_floats_are_rounded_once(kind):
    x, attributes = drawn(kind, 1)
    x = x.astype(np.float16)
    (y,) = computed(kind, [x], opset=1, **attributes)
    (wanted,) = computed(kind, [x.astype(np.float64)], opset=1, **attributes)
    assert y.dtype == np.float16
    np.testing.assert_allclose(y, wanted, rtol=0.51 * 2**-10, atol=1e-6)


X = np.zeros((1, 2, 5, 6), np.float32)


@pytest.mark.parametrize(
    ("kind", "x", "attributes", "message"),
    [
        ("Crop", X, {"border": [1, 2]}, "border be 4 numbers of at least 0, but the shape is (1, 2, 5, 6), and border"),
        ("Crop", X, {"border": [-1, 2, 0, 0]}, "border be 4 numbers of at least 0"),
        ("Crop", X[0], {"border": [1, 2, 0, 0]}, "input must have 4 dimensions"),
        ("Crop", X, {"scale": [2, 3]}, "it must have the attribute 'border', but that is missing"),
        ("Crop", X, {"border": [1, 2, 0, 0], "scale": [4, 3]}, "what remains must lie in the picture, but of (5, 6)"),
        ("ImageScaler", X, {"bias": [1.0]}, "and bias a number for each channel, but the shape is (1, 2, 5, 6)"),
        ("ImageScaler", X, {}, "it must have the attribute 'bias'"),
        ("ScaledTanh", X, {"alpha": 1.0}, "it must have the attribute 'beta'"),
        ("ParametricSoftplus", X, {"beta": 1.0}, "it must have the attribute 'alpha'"),
    ],
)
def test_onnx_runtime_refuses_them_too(kind, x, attributes, message):
    assert_refused(message, kind, [x], by_runtime=True, opset=9, **attributes)


def test_opset_10_has_none_of_them():
    message = "the operator must exist in opset 10, but it does before opset 10"
    assert_refused(message, "Affine", [X], by_runtime=True, opset=10)


def test_an_unknown_attribute_is_refused():
    """ONNX Runtime ignores it."""
    assert_refused("the attributes of Affine-1 must be among", "Affine", [X], opset=9, gamma=1.0)
