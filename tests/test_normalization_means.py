"""Structs and ONNX operators that normalize by the mean and the variance of their input, beside float64.

Means are far from 0, or all numbers are equal: the mean as a sum of the numbers, rounded, would not be good enough.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import sampled
from onnx_building import one_node

from dml_jax import TensorDesc, descs
from dml_jax.onnx import to_jax
from dml_jax.operators._normalization_formulas import moments

pytestmark = pytest.mark.device

EPSILON = float(np.float32(1e-5))
SIZES = (2, 4, 5, 7)
FAR = (0, 10, 1e3, -1e4, 1e6)
UNIT = 2.0**-23


def struct(kind, **attributes):
    """Computes a struct without scale and bias."""

    def compute(x):
        tensor = TensorDesc(x.dtype, x.shape)
        return kind(tensor, None, None, tensor, epsilon=EPSILON, **attributes).compute(x)

    return compute


def batch_training(x):
    sizes = (1, x.shape[1], 1, 1)
    tensor, channels = TensorDesc(x.dtype, x.shape), TensorDesc(x.dtype, sizes)
    fields = (tensor, channels, channels, None, tensor, channels, channels)
    one = np.ones(sizes, x.dtype)
    return descs.BatchNormalizationTrainingDesc(*fields, epsilon=EPSILON).compute(x, one, 0 * one)[0]


def node(kind, *fills, rank=4, outputs=1, **attributes):
    """Computes a node whose first output is normalized; `fills` are a number and the index of its sizes, by input."""
    attributes = {"opset": 22, **({} if kind == "MeanVarianceNormalization" else {"epsilon": EPSILON}), **attributes}

    def compute(x):
        x = x.reshape(-1, *x.shape[1 - rank :])
        others = [np.full(x.shape[sizes], number, x.dtype) for number, sizes in fills]
        model, _ = one_node(kind, [np.zeros(x.shape, x.dtype), *others], outputs, **attributes)
        return jax.tree.leaves(to_jax(model)(x, *others))[0].reshape(SIZES)

    return compute


class User(NamedTuple):
    """An operator, and the axes of its mean among (N, groups, channels of a group, H, W)."""

    compute: Callable[[Any], Any]
    axes: tuple[int, ...]
    groups: int = 1
    types: str = "float32 float16 bfloat16 float64"
    divisor: Callable[[Any], Any] = lambda variance: np.sqrt(variance + EPSILON)


HERE, CHANNELS, ROW = slice(None), slice(1, 2), slice(-1, None)
BY_CHANNEL, BY_ROW = ((1, CHANNELS), (0, CHANNELS)), ((1, ROW), (0, ROW))
TWO_GROUPS = {"domain": "com.microsoft", "groups": 2, "activation": 0, "channels_last": 0}
MVN, MVN1, MVN2 = (getattr(descs, f"MeanVarianceNormalization{n}Desc") for n in ("", 1, 2))
DIRECTML, RUNTIME = "float32 float16", "float32 float16"
USERS = {
    "MVN": User(struct(MVN, cross_channel=True, normalize_variance=True), (2, 3, 4), 1, DIRECTML),
    "MVN1": User(struct(MVN1, axes=(0, 3), normalize_variance=True), (0, 4), 1, DIRECTML),
    "MVN2": User(struct(MVN2, axes=(1,), use_mean=True, use_variance=True), (2,), 1, DIRECTML),
    "MVN2 mean": User(struct(MVN2, axes=(2,), use_mean=True, use_variance=False), (3,), 1, DIRECTML, np.ones_like),
    "training": User(batch_training, (0, 3, 4), 1, DIRECTML),
    "BatchNormalization": User(
        node("BatchNormalization", *BY_CHANNEL, *BY_CHANNEL, outputs=3, training_mode=1), (0, 3, 4)
    ),
    "InstanceNormalization": User(node("InstanceNormalization", *BY_CHANNEL), (3, 4)),
    "GroupNormalization": User(node("GroupNormalization", *BY_CHANNEL, num_groups=2), (2, 3, 4), 2),
    "LayerNormalization": User(node("LayerNormalization", *BY_ROW), (4,)),
    "MeanVarianceNormalization": User(
        node("MeanVarianceNormalization"), (0, 3, 4), divisor=lambda variance: np.sqrt(variance) + 1e-9
    ),
    "GroupNorm": User(node("GroupNorm", *BY_CHANNEL, **TWO_GROUPS), (2, 3, 4), 2, RUNTIME),
    "SkipGroupNorm": User(node("SkipGroupNorm", *BY_CHANNEL, (0, HERE), **TWO_GROUPS), (2, 3, 4), 2, RUNTIME),
    "SkipLayerNormalization": User(
        node("SkipLayerNormalization", (0, HERE), *BY_ROW, rank=3, domain="com.microsoft"), (4,), 1, RUNTIME
    ),
}
CASES = [(name, dtype) for name, user in USERS.items() for dtype in user.types.split()]
SAMPLE = [("GroupNormalization", "float32"), ("GroupNormalization", "bfloat16"), *CASES[::6]]


def normalized(user, x):
    """In float64: the result, and differences and divisors that it is made of."""
    n, channels, *picture = x.shape
    x = np.asarray(x, np.float64).reshape(n, user.groups, channels // user.groups, *picture)
    differences = x - x.mean(user.axes, keepdims=True)
    differences -= differences.mean(user.axes, keepdims=True)  # as the mean of float64 is rounded
    divisor = user.divisor((differences**2).mean(user.axes, keepdims=True))
    return (differences / divisor).reshape(SIZES), differences, divisor


@cache
def program(name):
    return jax.jit(USERS[name].compute)


@pytest.mark.parametrize("case", sampled(CASES, SAMPLE), ids=" ".join)
def test_a_mean_far_from_0(case):
    """Errors are as where the mean is 0, of a deviation of 1."""
    name, dtype = case
    x = np.random.default_rng(0).standard_normal(SIZES)
    dtype = jnp.dtype(dtype)
    for mean in FAR if dtype != np.float16 else FAR[:-1]:
        far = (x + mean).astype(dtype)
        with jax.enable_x64(True):
            y = program(name)(far)
        assert y.dtype == dtype
        unit = 2.0**-52 if dtype == np.float64 else UNIT
        off = 0.51 * float(jnp.finfo(dtype).eps)
        np.testing.assert_allclose(y, normalized(USERS[name], far)[0], rtol=off, atol=32 * unit)


@pytest.mark.parametrize("case", sampled(CASES, SAMPLE), ids=" ".join)
def test_equal_numbers_are_0(case):
    name, dtype = case
    for value in (0, 0.1, 1 / 3, 150, -255, 1e-30, 3e4):
        with jax.enable_x64(True):
            y = program(name)(np.full(SIZES, value, dtype))
        np.testing.assert_array_equal(np.float64(y), 0)


@pytest.mark.parametrize("name", sampled(list(USERS), ["MVN1", "GroupNormalization"]))
def test_derivatives(name):
    """Also of equal numbers, where the divisor is the root of epsilon, and of large ones, whose cube is infinite."""
    user = USERS[name]
    rng = np.random.default_rng(0)
    x, cotangent = rng.standard_normal(SIZES), rng.standard_normal(SIZES).astype(np.float32)
    derivative = jax.jit(jax.grad(lambda x: (user.compute(x) * cotangent).sum()))
    large = (x * 1e16).astype(np.float32)
    for far in (*((x + mean).astype(np.float32) for mean in FAR), np.full(SIZES, 150, np.float32), large):
        _, differences, divisor = normalized(user, far)
        along = {"axis": user.axes, "keepdims": True}
        of_y = cotangent.astype(np.float64).reshape(differences.shape)
        expected = of_y - of_y.mean(**along)
        if user.divisor is not np.ones_like:
            # That of MeanVarianceNormalization is another function of the variance only where there is none.
            expected -= differences / divisor**2 * (of_y * differences).mean(**along)
        expected /= divisor
        np.testing.assert_allclose(derivative(far), expected.reshape(SIZES), atol=64 * UNIT * abs(expected).max())


def test_second_derivatives():
    def ours(x):
        differences, mean, variance = moments(x, (0,))
        return (differences**3 * variance + mean**2).sum()

    def plain(x):
        return ((x - x.mean()) ** 3 * x.var() + x.mean() ** 2).sum()

    x = np.random.default_rng(0).standard_normal(5).astype(np.float32)
    np.testing.assert_allclose(jax.jit(jax.hessian(ours))(x), jax.jit(jax.hessian(plain))(x), rtol=1e-4, atol=1e-4)


def test_a_lone_outlier_costs_some_places():
    """In the middle of 4,096 numbers, that is: the others are less precise by the root of how many they are."""
    for at in (0, 2048):
        x = np.random.default_rng(0).standard_normal((2, 4096)).astype(np.float32)
        x[:, at] = 1e4
        y, mean, variance = jax.jit(lambda x: moments(x, (1,)))(x)
        wide = x.astype(np.float64)
        deviation = wide.std(1, keepdims=True)
        np.testing.assert_allclose(y / deviation, (wide - wide.mean(1, keepdims=True)) / deviation, atol=64**2 * UNIT)
        np.testing.assert_allclose(mean, wide.mean(1, keepdims=True), atol=1e4 * UNIT)
        np.testing.assert_allclose(variance, wide.var(1, keepdims=True), rtol=64 * UNIT)


@pytest.mark.parametrize("middle", [float(np.finfo(np.float32).min), 2e38, np.inf, np.nan])
def test_a_huge_number_in_the_middle_is_not_subtracted(middle):
    """As where it is at the start: the others do not become NaN by an overflow of differences."""
    x = np.float32([[1, 2, middle, 3, -4]])
    with np.errstate(all="ignore"):
        mean = x.mean(1, keepdims=True)
        wide, others = x - mean, moments(x, (1,))
    np.testing.assert_array_equal(np.isnan(others[0]), np.isnan(wide))
    np.testing.assert_allclose(others[0], wide, rtol=1e-6)
    np.testing.assert_allclose(others[1], mean, rtol=1e-6)


def test_each_of_a_batch_is_as_if_alone():
    x = np.random.default_rng(0).standard_normal((3, 2, 5)).astype(np.float32) + 1e3
    for actual, expected in zip(jax.vmap(lambda x: moments(x, (1,)), 1, 1)(x), moments(x, (2,)), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("spec", sampled([("a", None), (None, "a"), (None, ("a", "b")), ("a", "b")], [("a", "b")]))
def test_axes_that_an_explicit_mesh_splits(spec):
    mesh = jax.make_mesh((4, 2), ("a", "b"), devices=jax.devices("cpu"))
    x = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32) + 1e3
    with jax.set_mesh(mesh):
        for axes in ((0,), (1,), (0, 1)):
            y, mean, _ = jax.jit(lambda x, axes=axes: moments(x, axes))(jax.reshard(x, jax.P(*spec)))
            wide = x.astype(np.float64)
            np.testing.assert_allclose(mean, wide.mean(axes, keepdims=True), rtol=UNIT)
            np.testing.assert_allclose(y, wide - wide.mean(axes, keepdims=True), atol=16 * UNIT)


def test_sizes_of_1_and_0():
    for value in moments(jnp.full((3, 1), 150.0), (1,))[::2]:
        np.testing.assert_array_equal(value, np.zeros((3, 1)))
    assert [array.shape for array in moments(jnp.zeros((3, 0)), (1,))] == [(3, 0), (3, 1), (3, 1)]
