"""ONNX's normalizations and Dropout: against ONNX Runtime, and against NumPy in float64."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checks import sampled
from jax.test_util import check_grads
from onnx_building import assert_same_values, helper, model, runtime

from dml_jax.onnx import OnnxError, run_node, to_jax

TYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]


def normals(*shape, seed=0, dtype=np.float32):
    return (np.random.default_rng(seed).standard_normal(shape) * 2 + 0.5).astype(dtype)


def per_channel(*shape, dtype=np.float32):
    """Scale, bias, mean, variance."""
    scale, bias, mean, spread = (normals(*shape, seed=i) for i in range(1, 5))
    return [one.astype(dtype) for one in (scale, bias, mean, spread**2 + 0.1)]


def computed(node, inputs, opset=22):
    with jax.enable_x64(True):
        return run_node(node, inputs, opset=opset)


def compare_with_runtime(node, inputs, opset):
    named = dict(zip(node.input, inputs, strict=True))
    wanted = runtime(model([node], named, node.output, opset=opset), named)
    for y, expected in zip(computed(node, inputs, opset), wanted, strict=True):
        assert y.dtype == expected.dtype
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def tolerance(dtype):
    """Half a step of narrow types, which are rounded once; some steps of the others."""
    step = float(jnp.finfo(dtype).eps)
    return {"rtol": 0.51 * step, "atol": 1e-6} if step > 1e-6 else {"rtol": 20 * step, "atol": 20 * step}


# Batch normalization.

NAMES = ["x", "scale", "b", "mean", "var"]
EPSILON = float(np.float32(1e-5))  # as the schema has it


def normalized(x, scale, bias, mean, variance, epsilon):
    x, scale, bias, mean, variance = (np.asarray(one, np.float64) for one in (x, scale, bias, mean, variance))
    shape = (1, *scale.shape, *(1,) * (x.ndim - 1 - scale.ndim)) if x.ndim > 1 else (1,)
    scale, bias, mean, variance = (one.reshape(shape) for one in (scale, bias, mean, variance))
    return (x - mean) / np.sqrt(variance + epsilon) * scale + bias


@pytest.mark.parametrize("opset", sampled([7, 8, 9, 13, 14, 15], [9]))
@pytest.mark.parametrize("sizes", sampled([(), (7,), (5, 3), (2, 3, 2)], [(5, 3)]))
def test_batch_normalization_is_that_of_onnx_runtime(opset, sizes):
    node = helper.make_node("BatchNormalization", NAMES, ["y"], epsilon=0.25)
    compare_with_runtime(node, [normals(2, 3, *sizes), *per_channel(3)], opset)


@pytest.mark.parametrize("dtype", sampled(TYPES, [np.float16]))
def test_batch_normalization_is_rounded_once(dtype):
    inputs = [normals(2, 3, 5, dtype=dtype), *per_channel(3, dtype=dtype)]
    (y,) = computed(helper.make_node("BatchNormalization", NAMES, ["y"], epsilon=0.25), inputs)
    assert y.dtype == dtype
    np.testing.assert_allclose(y, normalized(*inputs, 0.25), **tolerance(dtype))


@pytest.mark.parametrize("opset", sampled([1, 6, 7, 9, 14, 15], [14]))
def test_batch_normalization_in_training(opset):
    """The moved mean and variance are those of the batch in part, and have their own type from opset 14 on."""
    is_old, other = opset < 14, np.float32 if opset < 14 else np.float64
    x, (scale, bias, *given) = normals(2, 3, 5), per_channel(3)
    given = [one.astype(other) for one in given]
    attributes = {"momentum": 0.7} | ({"training_mode": 1} if opset >= 14 else {})
    attributes |= {"consumed_inputs": [0]} if opset < 6 else {}
    outputs = ["y", "m", "v", "sm", "sv"][: 5 if is_old else 3]
    y, *found = computed(
        helper.make_node("BatchNormalization", NAMES, outputs, **attributes), [x, scale, bias, *given], opset
    )
    now = [getattr(x.astype(np.float64), of)((0, 2)) for of in ("mean", "var")]
    np.testing.assert_allclose(y, normalized(x, scale, bias, *now, EPSILON), rtol=1e-5, atol=1e-5)
    for moved, old, new in zip(found, given, now, strict=False):
        assert moved.dtype == other
        np.testing.assert_allclose(moved, 0.7 * old + 0.3 * new, rtol=1e-6)
    for saved, new in zip(found[2:], now, strict=is_old):
        np.testing.assert_allclose(saved, new, rtol=1e-6)


@pytest.mark.exhaustive
def test_batch_normalization_of_each_element():
    x, given = normals(4, 3, 5), per_channel(3, 5)
    node = helper.make_node("BatchNormalization", NAMES, ["y"], spatial=0)
    (y,) = computed(node, [x, *given], 7)
    np.testing.assert_allclose(y, normalized(x, *given, EPSILON), rtol=1e-5, atol=1e-6)
    node = helper.make_node("BatchNormalization", NAMES, ["y", "m", "v", "sm", "sv"], spatial=0)
    y, *_, mean, variance = computed(node, [x, *given], 7)
    np.testing.assert_allclose(mean, x.mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(y, normalized(x, *given[:2], mean, variance, EPSILON), rtol=1e-5, atol=1e-5)


@pytest.mark.exhaustive
def test_batch_normalization_of_one_dimension():
    """A batch of one channel."""
    x, given = normals(6), per_channel(1)
    node = helper.make_node("BatchNormalization", NAMES, ["y", "m", "v"], training_mode=1)
    y, mean, variance = computed(node, [x, *given])
    np.testing.assert_allclose(y, normalized(x, *given[:2], x.mean(), x.var(), EPSILON), rtol=1e-5, atol=1e-6)
    assert mean.shape == variance.shape == (1,)


# The others.


@pytest.mark.parametrize("sizes", sampled([(1,), (5,), (4, 3)], [(4, 3)]))
def test_instance_normalization(sizes):
    inputs = [normals(2, 3, *sizes), *per_channel(3)[:2]]
    compare_with_runtime(helper.make_node("InstanceNormalization", NAMES[:3], ["y"], epsilon=0.01), inputs, 21)


@pytest.mark.parametrize("size", sampled([1, 2, 3, 4, 7, 9], [4]))
@pytest.mark.parametrize("sizes", sampled([(), (3,), (2, 3), (2, 1, 2)], [(3,)]))
def test_lrn(size, sizes):
    """Of even sizes one channel more behind; ONNX Runtime takes odd sizes of pictures only."""
    x = normals(2, 5, *sizes)
    attributes = {"size": size, "alpha": 0.3, "beta": 0.6, "bias": 1.5}
    node = helper.make_node("LRN", ["x"], ["y"], **attributes)
    (y,) = computed(node, [x])
    squares = x.astype(np.float64) ** 2
    total = np.stack([squares[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1].sum(1) for c in range(5)], 1)
    np.testing.assert_allclose(y, x / (1.5 + 0.3 / size * total) ** 0.6, rtol=1e-5)
    if size % 2 and len(sizes) == 2:
        compare_with_runtime(node, [x], 13)


@pytest.mark.parametrize("axis", sampled([0, 1, 2, -1, -2, -3], [1]))
@pytest.mark.parametrize("has_bias", sampled([False, True], [True]))
def test_layer_normalization(axis, has_bias):
    x = normals(3, 4, 5)
    inputs = [x, *(normals(*x.shape[axis:], seed=i) for i in range(1, 2 + has_bias))]
    node = helper.make_node("LayerNormalization", NAMES[: len(inputs)], ["y", "m", "d"], axis=axis, epsilon=0.01)
    compare_with_runtime(node, inputs, 17)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", TYPES)
def test_layer_normalization_is_rounded_once(dtype):
    x, scale, bias = normals(4, 7, dtype=dtype), normals(7, seed=1, dtype=dtype), normals(7, seed=2, dtype=dtype)
    y, mean, inverse = computed(
        helper.make_node("LayerNormalization", ["x", "s", "b"], ["y", "m", "d"]), [x, scale, bias]
    )
    real, exact = x.astype(np.float64), [one.astype(np.float64) for one in (scale, bias)]
    deviation = np.sqrt(real.var(-1, keepdims=True) + EPSILON)
    np.testing.assert_allclose(
        y, (real - real.mean(-1, keepdims=True)) / deviation * exact[0] + exact[1], **tolerance(dtype)
    )
    assert (y.dtype, mean.dtype, inverse.dtype) == (dtype, np.float32, np.float32)
    np.testing.assert_allclose(mean, real.mean(-1, keepdims=True), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(inverse, 1 / deviation, rtol=1e-5)


@pytest.mark.exhaustive
def test_layer_normalization_far_from_zero():
    """Squares are of what is left without the mean."""
    x = normals(2, 100) + np.float32(1e4)
    (y,) = computed(helper.make_node("LayerNormalization", ["x", "s"], ["y"]), [x, np.ones(100, np.float32)])
    real = x.astype(np.float64)
    expected = (real - real.mean(-1, keepdims=True)) / np.sqrt(real.var(-1, keepdims=True) + EPSILON)
    np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.exhaustive
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_lp_normalization(p, axis):
    x = normals(3, 4, 5)
    x[:, :, 1] = x[:, 2] = x[1] = 0  # whose norm is 0
    compare_with_runtime(helper.make_node("LpNormalization", ["x"], ["y"], p=p, axis=axis), [x], 22)


# Dropout.


@pytest.mark.parametrize("opset", [1, 6, 7, 10, 12, 13, 22])
def test_dropout_keeps_every_element(opset):
    x = normals(2, 3)
    attributes = {1: {"is_test": 1}, 6: {"is_test": 1}}.get(opset, {})
    y, mask = run_node(helper.make_node("Dropout", ["x"], ["y", "mask"], **attributes), [x], opset=opset)
    assert_same_values(y, x)
    assert_same_values(mask, np.ones((2, 3), np.float32 if opset < 10 else bool))


def test_dropout_in_training():
    """With a ratio of 0 as ONNX Runtime; any other asks for a key."""
    node = helper.make_node("Dropout", ["x", "ratio", "training"], ["y", "mask"], seed=1)
    compare_with_runtime(node, [normals(2, 3), np.array(0, np.float32), np.array(True)], 13)
    for ratio in (np.array(0.25, np.float32), None):
        node = helper.make_node("Dropout", ["x", "" if ratio is None else "ratio", "training"], ["y"])
        given = [one for one in (normals(2, 3), ratio, np.array(True)) if one is not None]
        with pytest.raises(OnnxError, match="it draws random numbers, and must have a seed or be given a key"):
            run_node(node, given)
    with pytest.raises(OnnxError, match="it draws random numbers, and must have a seed or be given a key"):
        run_node(helper.make_node("Dropout", ["x"], ["y"]), [normals(2, 3)], opset=6)


# Transformations, and what is refused.


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "attributes", "shapes"),
    [
        ("BatchNormalization", {"training_mode": 1}, [(3,)] * 4),
        ("BatchNormalization", {}, [(3,)] * 4),
        ("InstanceNormalization", {}, [(3,)] * 2),
        ("LayerNormalization", {"axis": 1}, [(3, 5)] * 2),
        ("LRN", {"size": 2, "alpha": 0.5}, []),
        ("LpNormalization", {"axis": 1}, []),
    ],
)
def test_derivatives_are_those_of_differences(name, attributes, shapes):
    given = [normals(2, 3, 5), *(normals(*s, seed=i) ** 2 + 1 for i, s in enumerate(shapes))]
    inputs = dict(zip(NAMES, given, strict=False))
    outputs = ["y", "m", "v"] if "training_mode" in attributes else ["y"]
    function = to_jax(model([helper.make_node(name, list(inputs), outputs, **attributes)], inputs, ["y"], opset=22))
    check_grads(function, given, 1, modes=["rev"], eps=1e-2, atol=3e-2, rtol=3e-2)
    many = np.stack([given[0], given[0] * 2])
    mapped = jax.vmap(lambda x: function(x, *given[1:]))(many)
    np.testing.assert_allclose(mapped[1], function(many[1], *given[1:]), rtol=1e-5, atol=1e-6)


@pytest.mark.exhaustive
@pytest.mark.parametrize("p", [1, 2])
def test_the_derivative_of_zeros_is_finite(p):
    x = np.zeros((2, 3), np.float32)
    function = to_jax(model([helper.make_node("LpNormalization", ["x"], ["y"], p=p)], {"x": x}, ["y"]))
    assert np.isfinite(jax.grad(lambda x: function(x).sum())(x)).all()


@pytest.mark.parametrize(
    ("name", "attributes", "shapes", "message"),
    [
        ("BatchNormalization", {}, [(2, 3)] + [(3,)] * 3 + [(2,)], "one number for each of the 3 channels"),
        ("BatchNormalization", {}, [(2, 3, 4)] + [(3, 1)] * 4, "one number for each of the 3 channels"),
        ("InstanceNormalization", {}, [(2, 3), (3,), (1,)], "one number for each of the 3 channels"),
        ("LayerNormalization", {"axis": 2}, [(2, 3), (3,)], "axis must be in [-2, 2), but it is 2"),
        ("LayerNormalization", {}, [(2, 3), (4,)], "scale must broadcast to"),
        ("LpNormalization", {"p": 3}, [(2, 3)], "p must be 1 or 2, and axis in [-2, 2), but they are 3 and -1"),
        ("LRN", {"size": 0}, [(2, 3)], "local_size must be in [1, 2**32)"),
        ("LRN", {"size": 1}, [(3,)], "x must have the dimensions N and C, but its shape is (3,)"),
    ],
)
def test_what_does_not_fit(name, attributes, shapes, message):
    inputs = [np.ones(shape, np.float32) for shape in shapes]
    with pytest.raises(OnnxError) as caught:
        run_node(helper.make_node(name, NAMES[: len(inputs)], ["y"], **attributes), inputs)
    assert message in str(caught.value)


def test_outputs_of_training_need_training():
    inputs = [normals(2, 3), *per_channel(3)]
    node = helper.make_node("BatchNormalization", NAMES, ["y", "m", "v"])
    with pytest.raises(OnnxError, match="there must be 1 output unless training_mode is 1, but there are 3"):
        run_node(node, inputs)
    node = helper.make_node("BatchNormalization", NAMES, ["y", "m", "v", "sm", "sv"], is_test=1)
    with pytest.raises(OnnxError, match="there must be 1 output unless is_test is 0, but there are 5"):
        run_node(node, inputs, opset=6)
