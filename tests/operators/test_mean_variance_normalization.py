"""MEAN_VARIANCE_NORMALIZATION, 1 and 2: activation(scale * (x - mean) / sqrt(variance + epsilon) + bias)."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from checks import assert_close, assert_same_bits
from jax.test_util import check_grads
from normalization_cases import broadcast, draw_attributes, draw_sizes, fill, moments, normalized
from operator_cases import Example, Struct, f16, f32

from dml_jax import Activation, ConstraintError, DataTypeError
from dml_jax.descs import MeanVarianceNormalization1Desc, MeanVarianceNormalization2Desc, MeanVarianceNormalizationDesc

pytestmark = pytest.mark.device

RELU = Activation("ACTIVATION_RELU")


def drawer(*flags, rank=None):
    """Returns `draw` of a struct with these flags."""

    def draw(rng):
        sizes = draw_sizes(rng, rank)
        axes = rng.permutation(len(sizes))[: rng.integers(1, len(sizes) + 1)]
        return {
            "input": sizes,
            **{name: broadcast(rng, sizes) if rng.random() < 0.7 else None for name in ("scale", "bias")},
            "output": sizes,
            **({} if rank else {"axes": axes.tolist()}),
            **{flag: bool(rng.random() < 0.6) for flag in flags},
            **draw_attributes(rng),
        }

    return draw


def expected(desc, x, scale, bias):
    across = (1, 2, 3) if getattr(desc, "cross_channel", False) else (2, 3)
    axes = getattr(desc, "axes", across)
    mean, variance = moments(x, axes)
    if not getattr(desc, "use_mean", True):
        mean, variance = None, (np.asarray(x, np.float64) ** 2).mean(axes, keepdims=True)
    if not getattr(desc, "normalize_variance", getattr(desc, "use_variance", None)):
        variance = None
    return normalized(x, mean, variance, scale, bias, desc.epsilon, activation=desc.fused_activation)


# DirectML prints no numbers: [1, 2, 3, 6] have the mean 3 and the variance 3.5, [2, 2, 2, 2] 2 and 0.
TENSOR, CHANNELS, ONE = f32(1, 2, 2, 2), f32(1, 2, 1, 1), f32(1, 1, 1, 1)
X, SCALE, BIAS = [1, 2, 3, 6, 2, 2, 2, 2], [2, 3], [1]
DESC = MeanVarianceNormalizationDesc(TENSOR, CHANNELS, ONE, TENSOR, False, True, 0.5, RELU)
ACROSS = replace(DESC, scale=None, bias=None, cross_channel=True, normalize_variance=False, fused_activation=None)
DESC1 = MeanVarianceNormalization1Desc(TENSOR, CHANNELS, CHANNELS, TENSOR, (2, 3), True, 0.5, RELU)
ROWS = replace(DESC1, scale=None, bias=None, axes=(3,), epsilon=0.75, fused_activation=None)
DESC2 = MeanVarianceNormalization2Desc(TENSOR, CHANNELS, ONE, TENSOR, (3, 1), True, False, 0.5, RELU)
ROOTS = replace(DESC2, bias=None, axes=(3,), use_mean=False, use_variance=True, epsilon=1.5, fused_activation=None)
BREAKS = {
    **{f"broadcast_to({name}, input)": {name: f32(1, 2, 3, 1)} for name in ("scale", "bias")},
    "same_sizes(output, input)": {"output": f32(1, 2, 2, 1)},
}
AXES = {"axes_within(axes)": {"axes": (1, 4)}}
STRUCTS = (
    Struct(
        DESC,
        breaks=BREAKS,
        examples=(
            Example(DESC, [X, SCALE, BIAS], [[0, 0, 1, 4, 1, 1, 1, 1]]),
            Example(ACROSS, [[1, 2, 3, 6, 0, 4, 4, 4]], [[-2, -1, 0, 3, -3, 1, 1, 1]]),
        ),
        draw=drawer("cross_channel", "normalize_variance", rank=4),
        expected=expected,
        fill=fill,
        units=16,
    ),
    Struct(
        DESC1,
        breaks=BREAKS | AXES,
        examples=(
            Example(DESC1, [X, SCALE, [1, -1]], [[0, 0, 1, 4, 0, 0, 0, 0]]),
            Example(ROWS, [[1, 2, 3, 4, 5, 6, 8, 7]], [[-0.5, 0.5, -0.5, 0.5, -0.5, 0.5, 0.5, -0.5]]),
        ),
        draw=drawer("normalize_variance"),
        expected=expected,
        fill=fill,
        units=16,
    ),
    Struct(
        DESC2,
        breaks=BREAKS | AXES,
        examples=(
            Example(DESC2, [range(8), SCALE, [4]], [[0, 1, 0, 1, 8.5, 11.5, 8.5, 11.5]]),
            Example(ROOTS, [[1, 2, 2, 1, -2, 1, 0, 0], SCALE], [[1, 2, 2, 1, -3, 1.5, 0, 0]]),
        ),
        draw=drawer("use_mean", "use_variance"),
        expected=expected,
        fill=fill,
        units=16,
    ),
)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"axes": ()}, ConstraintError, "Axes must be different dimensions of InputTensor, one at least"),
        ({"axes": (2, 2)}, ConstraintError, r"Axes must be .*, but they are \(2, 2\) and there are 4 dimensions"),
        ({"axes": (-1,)}, ConstraintError, r"Axes\[0\] must be in \[0, 2\*\*32 - 1\]"),
        ({"scale": f32(2, 1, 1)}, ConstraintError, "ScaleTensor.DimensionCount must equal InputTensor.DimensionCount"),
        ({"bias": f16(1, 2, 1, 1)}, DataTypeError, "BiasTensor.DataType must equal"),
        ({"scale": f32(2, 2, 1, 1)}, ConstraintError, r"ScaleTensor.Sizes must be 1 or .* differ in dimension 0"),
    ],
)
def test_what_the_structs_refuse(change, error, match):
    for desc in (DESC1, DESC2):
        with pytest.raises(error, match=match):
            replace(desc, **change)


# Feature levels.


@pytest.mark.parametrize("desc", [DESC, DESC1])
def test_scale_and_bias_were_given_together_below_5_2(desc):
    for name in ("scale", "bias"):
        alone = replace(desc, **{name: None})
        alone.validate("5_2")
        match = f"must be given together below feature level 5_2, but there is no {name}"
        with pytest.raises(ConstraintError, match=match):
            alone.validate("5_1")
    replace(desc, scale=None, bias=None).validate("2_1")


def test_scale_and_bias_had_every_channel_below_4_0():
    for name in ("scale", "bias"):
        one = replace(DESC1, **{name: ONE})
        one.validate("4_0")
        match = rf"the channels of {name.capitalize()}Tensor must be those of InputTensor .*, but they are \(1,\) and"
        with pytest.raises(ConstraintError, match=match):
            one.validate("3_1")
    replace(DESC, scale=ONE).validate("1_0")


# Against the oracle, and against each other.


@pytest.mark.exhaustive
def test_the_structs_agree_where_they_say_the_same():
    x = np.random.default_rng(0).normal(size=TENSOR.sizes).astype(np.float32)
    for cross_channel, normalize_variance in ((False, True), (True, True), (True, False)):
        axes = (1, 2, 3) if cross_channel else (2, 3)
        old = replace(ACROSS, cross_channel=cross_channel, normalize_variance=normalize_variance)
        one = replace(DESC1, scale=None, bias=None, axes=axes[::-1], fused_activation=None)
        one = replace(one, normalize_variance=normalize_variance)
        two = MeanVarianceNormalization2Desc(TENSOR, None, None, TENSOR, axes, True, normalize_variance, 0.5)
        assert_same_bits(one.compute(x), old.compute(x))
        assert_same_bits(two.compute(x), old.compute(x))


def test_neither_mean_nor_variance():
    """What is left is a scale and a bias."""
    x = np.random.default_rng(0).normal(size=TENSOR.sizes).astype(np.float32)
    desc = MeanVarianceNormalization2Desc(TENSOR, CHANNELS, ONE, TENSOR, (1,), False, False, 0.5)
    scale, bias = np.float32([2, 4]).reshape(CHANNELS.sizes), np.float32(8).reshape(ONE.sizes)
    assert_close(desc.compute(x, scale, bias), x.astype(float) * scale + bias, units=1)


def test_epsilon_is_within_the_root():
    """A variance of 1e-5 and an epsilon of 1e-5: the deviation is the root of 2e-5."""
    row = f32(1, 2)
    desc = MeanVarianceNormalization1Desc(row, None, None, row, (1,), True, 1e-5)
    apart = np.float32(1e-5**0.5)
    assert_close(desc.compute(np.float32([[-apart, apart]])), [[-(0.5**0.5), 0.5**0.5]], units=2)


def test_rows_far_from_zero():
    row = f32(1, 4)
    desc = MeanVarianceNormalization1Desc(row, None, None, row, (1,), True, 0.5)
    assert_close(desc.compute(np.float32([[1, 2, 3, 6]]) + 4096), [[-1, -0.5, 0, 1.5]], units=2)


def test_numbers_beyond_float16():
    row = f16(1, 2)
    desc = MeanVarianceNormalization2Desc(row, None, None, row, (1,), False, True, 0)
    assert_same_bits(desc.compute(np.full((1, 2), 1000, np.float16)), np.ones((1, 2), np.float16))


@pytest.mark.exhaustive
def test_derivatives_and_vmap():
    x = np.random.default_rng(1).normal(size=(3, *TENSOR.sizes)).astype(np.float32)
    scale, bias = np.float32([2, 3]).reshape(CHANNELS.sizes), np.float32(1).reshape(ONE.sizes)
    for desc in (replace(DESC, fused_activation=None), replace(ROOTS, bias=ONE)):
        check_grads(jax.jit(desc.compute), (x[0], scale, bias), order=1, atol=0.05, rtol=0.05)
        mapped = jax.jit(jax.vmap(desc.compute, in_axes=(0, None, None)))(x, scale, bias)
        for one, made in zip(x, mapped, strict=True):
            assert_close(made, expected(desc, one, scale, bias), units=8)
