"""GroupNormalization, MeanVarianceNormalization and RMSNormalization: in float64, and beside torch and ONNX Runtime.

ONNX defines them by bodies; two of these subtract the square of the mean from the mean of squares, which cancels.
"""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import sampled
from jax.test_util import check_grads
from onnx_one_node import assert_as_runtime, assert_refused, computed, one_node

from dml_jax.onnx import to_jax

TYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
EPSILON = float(np.float32(1e-5))  # as the schemas have it
GROUP, STANDARD, RMS = "GroupNormalization", "MeanVarianceNormalization", "RMSNormalization"


def of_groups(x, scale, bias, *, num_groups, epsilon=EPSILON):
    x, scale, bias = (np.asarray(array, np.float64) for array in (x, scale, bias))
    rows = x.reshape(len(x), num_groups, -1)
    mean, variance = rows.mean(-1, keepdims=True), rows.var(-1, keepdims=True)
    y = ((rows - mean) / np.sqrt(variance + epsilon)).reshape(x.shape)
    of_channels = [
        np.repeat(array, x.shape[1] // len(array)).reshape(-1, *(1,) * (x.ndim - 2)) for array in (scale, bias)
    ]
    return y * of_channels[0] + of_channels[1]


def standardized(x, *, axes=(0, 2, 3)):
    x, axes = np.asarray(x, np.float64), tuple(axes)
    return (x - x.mean(axes, keepdims=True)) / (x.std(axes, keepdims=True) + 1e-9)


def by_root(x, scale, *, axis=-1, epsilon=EPSILON):
    x = np.asarray(x, np.float64)
    return x / np.sqrt((x**2).mean(tuple(range(axis % x.ndim, x.ndim)), keepdims=True) + epsilon) * scale


ORACLES = {GROUP: of_groups, STANDARD: standardized, RMS: by_root}


def drawn(kind, rng, dtype, opset):
    """Inputs and attributes; sizes of 1 too."""
    sizes = tuple(int(n) for n in rng.integers(1, 5, int(rng.integers(2, 6))))
    attributes = {} if kind == STANDARD else {"epsilon": 0.25} if rng.random() < 0.5 else {}
    if kind == GROUP:
        groups, of_each = (int(n) for n in rng.integers(1, 4, 2))
        sizes = (sizes[0], groups * of_each, *sizes[2:])
        shapes = [(groups if opset < 21 else groups * of_each,)] * 2
        attributes["num_groups"] = groups
    elif kind == STANDARD:
        chosen = rng.permutation(len(sizes))[: rng.integers(1, len(sizes) + 1)]
        attributes["axes"] = [int(axis) - len(sizes) * int(rng.integers(2)) for axis in chosen]
        shapes = []
    else:
        attributes["axis"] = int(rng.integers(-len(sizes), len(sizes)))
        shapes = [tuple(1 if rng.random() < 0.3 else n for n in sizes[attributes["axis"] :])]
    x = rng.standard_normal(sizes) * 2 + rng.uniform(-9, 9)
    return [array.astype(dtype) for array in (x, *map(rng.standard_normal, shapes))], attributes


@pytest.mark.thinned(13)
@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("kind", ORACLES)
def test_they_are_rounded_once(kind, seed):
    """In every type, and every version."""
    rng = np.random.default_rng(seed)
    dtype = TYPES[seed % 4]
    opset = int(rng.choice({GROUP: [18, 21], STANDARD: [13, 22], RMS: [23]}[kind]))
    inputs, attributes = drawn(kind, rng, dtype, opset)
    (y,) = computed(kind, inputs, opset=opset, **attributes)
    assert y.dtype == dtype
    step = float(jnp.finfo(dtype).eps)
    wide = 2**-23 if dtype != np.float64 else 2**-52
    wanted = ORACLES[kind](*inputs, **attributes)
    np.testing.assert_allclose(y, wanted, rtol=0.51 * step + 8 * wide, atol=64 * wide)


@pytest.mark.parametrize("mean", sampled([1e2, 1e3, 1e4, -1e4], [1e4]))
@pytest.mark.parametrize("kind", [GROUP, STANDARD])
def test_a_mean_far_from_0_does_not_cancel(kind, mean):
    """A deviation of 1: errors are those of a mean of 0, where ONNX's bodies give NaN."""
    x = (np.random.default_rng(0).standard_normal((2, 4, 5, 6)) + mean).astype(np.float32)
    opsets = {GROUP: (18, 21), STANDARD: (9, 13)}[kind]
    for opset in opsets:
        count = 2 if opset == 18 else 4
        numbers = [np.ones(count, np.float32), np.zeros(count, np.float32)] if kind == GROUP else []
        attributes = {"num_groups": 2} if kind == GROUP else {}
        (y,) = computed(kind, [x, *numbers], opset=opset, **attributes)
        np.testing.assert_allclose(y, ORACLES[kind](x, *numbers, **attributes), atol=64 * 2.0**-23)


@pytest.mark.parametrize("value", sampled([0, 0.1, 3, 1e-30], [0.1]))
def test_equal_numbers_are_0(value):
    """Also where their mean is rounded; derivatives are finite."""
    x = np.full((2, 3, 5, 7), value, np.float32)
    function = to_jax(one_node(STANDARD, [x], opset=13)[0])
    np.testing.assert_array_equal(function(x), 0)
    assert np.isfinite(jax.jit(jax.grad(lambda x: (function(x) * x).sum()))(x)).all()


OPERANDS = {
    GROUP: ([(2, 4, 3), (4,), (4,)], {"num_groups": 2}),
    STANDARD: ([(2, 3, 4)], {"axes": [0, 2]}),
    RMS: ([(2, 3, 4), (3, 4)], {"axis": 1}),
}


@pytest.mark.parametrize("kind", sampled(list(OPERANDS), [GROUP]))
def test_transformations(kind):
    """Derivatives are those of differences; each of a batch is computed as if alone."""
    shapes, attributes = OPERANDS[kind]
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    model, _ = one_node(kind, inputs, opset=23, **attributes)
    function = jax.jit(to_jax(model))
    check_grads(function, inputs, 1, modes=["fwd", "rev"], eps=1e-2, atol=3e-2, rtol=3e-2)
    many = np.stack([inputs[0], 2 * inputs[0] + 1])
    mapped = jax.vmap(lambda x: function(x, *inputs[1:]))(many)
    np.testing.assert_allclose(mapped[1], function(many[1], *inputs[1:]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("groups", sampled([1, 2, 4], [2]))
def test_groups_are_those_of_torch_and_of_onnx_runtime(groups):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(groups)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in ((2, 4, 3, 5), (4,), (4,))]
    (y,) = computed(GROUP, inputs, opset=21, num_groups=groups)
    wanted = torch.nn.functional.group_norm(torch.tensor(inputs[0]), groups, *map(torch.tensor, inputs[1:]))
    np.testing.assert_allclose(y, wanted.numpy(), rtol=1e-5, atol=1e-5)
    assert_as_runtime(GROUP, inputs, opset=21, num_groups=groups)


@pytest.mark.parametrize("axis", sampled([-2, -1, 0, 1, 2], [1]))
def test_the_root_of_the_mean_of_squares_is_that_of_torch_and_of_onnx_runtime(axis):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    scale = rng.standard_normal(x.shape[axis:]).astype(np.float32)
    (y,) = computed(RMS, [x, scale], opset=23, axis=axis)
    wanted = torch.nn.functional.rms_norm(torch.tensor(x), scale.shape, torch.tensor(scale), 1e-5)
    np.testing.assert_allclose(y, wanted.numpy(), rtol=1e-5, atol=1e-5)
    assert_as_runtime(RMS, [x, scale], opset=23, axis=axis)


def test_the_type_is_that_of_the_scale():
    x, scale = np.float16([[1, 2, 3]]), np.float32([1, 2, 1])
    (y,) = computed(RMS, [x, scale], opset=23)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, by_root(x, scale), rtol=1e-6)


@pytest.mark.parametrize("sizes", [(0, 4, 3), (2, 4, 0)])
def test_no_elements(sizes):
    x, ones = np.zeros(sizes, np.float32), np.ones(4, np.float32)
    for kind, inputs, attributes in [
        (GROUP, [x, ones, ones], {"num_groups": 2}),
        (STANDARD, [x], {"axes": [0, 2]}),
        (RMS, [x, np.ones(1, np.float32)], {}),
    ]:
        assert computed(kind, inputs, opset=23, **attributes)[0].shape == sizes


X, ONE = np.zeros((2, 4, 3), np.float32), np.ones(4, np.float32)


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes", "message"),
    [
        (GROUP, [X, ONE, ONE], {"num_groups": 3}, "num_groups divide C, but they are (2, 4, 3) and 3"),
        (GROUP, [X, ONE, ONE], {"num_groups": 0}, "num_groups divide C, but they are (2, 4, 3) and 0"),
        (GROUP, [X[0, 0], ONE, ONE], {"num_groups": 1}, "X must be (N, C, ...), and num_groups divide C"),
        (GROUP, [X, ONE[:2], ONE[:2]], {"num_groups": 2}, "scale: its sizes must be [4], but they are [2]"),
        (GROUP, [X, ONE, ONE[:2]], {"num_groups": 2, "opset": 18}, "scale: its sizes must be [2], but they are [4]"),
        (STANDARD, [X], {}, "axes must be in [-3, 2], but it is 3"),
        (RMS, [X, ONE], {}, "scale must broadcast to (2, 4, 3), but its shape is (4,)"),
        (RMS, [X, ONE[:3]], {"axis": 3}, "axis must be in [-3, 2], but it is 3"),
    ],
)
def test_what_does_not_fit(kind, inputs, attributes, message):
    assert_refused(message, kind, inputs, **({"opset": 23} | attributes))
