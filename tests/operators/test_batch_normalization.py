"""BATCH_NORMALIZATION and BATCH_NORMALIZATION_TRAINING: scale * (x - mean) / sqrt(variance + epsilon) + bias."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close, assert_same_bits, sampled
from jax.test_util import check_grads
from normalization_cases import axes_of, broadcast, draw_attributes, draw_sizes, fill, moments, normalized
from operator_cases import Example, Struct, f16, f32

from dml_jax import Activation, ConstraintError
from dml_jax.descs import BatchNormalizationDesc, BatchNormalizationTrainingDesc

pytestmark = pytest.mark.device

NUMBERS = ("mean", "variance", "scale", "bias")
RELU = Activation("ACTIVATION_RELU")


def draw(rng):
    sizes = draw_sizes(rng)
    return {
        "input": sizes,
        **{name: broadcast(rng, sizes) for name in NUMBERS},
        "output": sizes,
        "spatial": bool(rng.integers(0, 2)),
        **draw_attributes(rng),
    }


def expected(desc, x, mean, variance, scale, bias):
    return normalized(x, mean, variance, scale, bias, desc.epsilon, activation=desc.fused_activation)


def draw_training(rng):
    sizes = draw_sizes(rng)
    of_scale = broadcast(rng, sizes)
    alike = dict.fromkeys(("scale", "bias", "output_mean", "output_variance"), of_scale)
    added = sizes if rng.random() < 0.5 else None
    return {"input": sizes, **alike, "fused_add": added, "output": sizes, **draw_attributes(rng)}


def expected_of_training(desc, x, scale, bias, added):
    mean, variance = moments(x, axes_of(desc.scale.sizes))
    output = normalized(x, mean, variance, scale, bias, desc.epsilon, added, desc.fused_activation)
    return output, mean, variance


# DirectML prints no numbers: two channels of four elements, of which the means are 3 and 2, the variances 3.5 and 0.
INPUT, CHANNELS, ONE = f32(1, 2, 2, 2), f32(1, 2, 1, 1), f32(1, 1, 1, 1)
DESC = BatchNormalizationDesc(INPUT, CHANNELS, CHANNELS, CHANNELS, ONE, INPUT, True, 0.25, RELU)
ALONE = replace(DESC, epsilon=0.5, fused_activation=None)
TRAINING = BatchNormalizationTrainingDesc(INPUT, CHANNELS, CHANNELS, INPUT, INPUT, CHANNELS, CHANNELS, 0.5, RELU)
PLAIN = replace(TRAINING, fused_add=None, fused_activation=None)
X, SCALE, BIAS = [1, 2, 3, 6, 2, 2, 2, 2], [2, 3], [1, -1]
OTHER = f32(1, 2, 2, 1)
STRUCTS = (
    Struct(
        DESC,
        breaks={
            **{f"broadcast_to({name}, input)": {name: f32(1, 3, 1, 1)} for name in NUMBERS},
            "same_sizes(output, input)": {"output": OTHER},
        },
        examples=(
            Example(ALONE, [X, [3, 2], [3.5, 15.5], SCALE, [1]], [[-1, 0, 1, 4, 1, 1, 1, 1]]),
            Example(DESC, [X, [2, 0], [0.75, 3.75], SCALE, [-3]], [[0, 0, 0, 5, 0, 0, 0, 0]]),
        ),
        draw=draw,
        expected=expected,
        fill=fill,
        units=16,
    ),
    Struct(
        TRAINING,
        breaks={
            "broadcast_to(scale, input)": {"scale": f32(1, 3, 1, 1)},
            **{f"same_sizes({name}, scale)": {name: OTHER} for name in ("bias", "output_mean", "output_variance")},
            **{f"same_sizes({name}, input)": {name: OTHER} for name in ("fused_add", "output")},
        },
        examples=(
            Example(PLAIN, [X, SCALE, BIAS], [[-1, 0, 1, 4, -1, -1, -1, -1], [3, 2], [3.5, 0]]),
            Example(TRAINING, [X, SCALE, BIAS, range(8)], [[0, 1, 3, 7, 3, 4, 5, 6], [3, 2], [3.5, 0]]),
        ),
        draw=draw_training,
        expected=expected_of_training,
        fill=fill,
        units=16,
    ),
)


def test_spatial_asks_for_every_row_and_column_below_4_0():
    desc = replace(DESC, spatial=False)
    desc.validate("4_0")
    for name in ("mean", "variance"):
        other = replace(desc, **{"mean": INPUT, "variance": INPUT, name: f32(1, 2, 2, 1)})
        other.validate("4_0")
        with pytest.raises(
            ConstraintError, match=rf"the last two of {name.capitalize()}Tensor.Sizes .* below feature level 4_0"
        ):
            other.validate("3_1")
    replace(desc, mean=INPUT, variance=f32(1, 1, 2, 2)).validate("1_0")
    replace(DESC, spatial=True).validate("1_0")


@pytest.mark.parametrize("sizes", sampled([(1, 2, 2, 2), (1, 1, 1, 1), (1, 2, 1, 2)], [(1, 2, 1, 2)]))
def test_means_are_along_the_dimensions_where_scale_has_one_number(sizes):
    x = np.random.default_rng(0).normal(size=INPUT.sizes).astype(np.float32)
    tensor = f32(*sizes)
    desc = BatchNormalizationTrainingDesc(INPUT, tensor, tensor, None, INPUT, tensor, tensor, 0.25)
    ones = np.ones(sizes, np.float32)
    output, mean, variance = desc.compute(x, ones, ones)
    of_x = moments(x, tuple(d for d, n in enumerate(sizes) if n == 1))
    assert_close(mean, of_x[0], units=2)
    assert_close(variance, of_x[1], units=2)
    assert_close(output, normalized(x, *of_x, ones, ones, 0.25), units=8)


def test_variances_far_from_zero():
    """Squares are of what is left without the mean: those of 4096 and more would not tell one from the other."""
    x = np.float32([1, 2, 3, 6]).reshape(1, 1, 2, 2) + 4096
    tensor, one = f32(1, 1, 2, 2), np.ones((1, 1, 1, 1), np.float32)
    desc = BatchNormalizationTrainingDesc(tensor, ONE, ONE, None, tensor, ONE, ONE, 0.5)
    output, mean, variance = desc.compute(x, one, 0 * one)
    assert_same_bits(mean, 4099 * one)
    assert_same_bits(variance, np.float32(3.5) * one)
    assert_close(output, np.reshape([-1, -0.5, 0, 1.5], (1, 1, 2, 2)), units=2)


def test_one_element_is_the_bias():
    tensor = f32(1, 3)
    desc = BatchNormalizationTrainingDesc(tensor, tensor, tensor, None, tensor, tensor, tensor, 1e-5)
    x, bias = np.float32([[5, -1e30, 0]]), np.float32([[1, 2, -0.1]])
    output, mean, variance = desc.compute(x, 3 * bias, bias)
    assert_same_bits(output, bias)
    assert_same_bits(mean, x)
    assert_same_bits(variance, np.zeros_like(x))


def test_float16_is_rounded_once():
    """The squares of 300 and more are beyond float16, their variance is not written."""
    tensor, one = f16(1, 2), f16(1, 1)
    desc = BatchNormalizationTrainingDesc(tensor, one, one, None, tensor, one, one, 0)
    ones = np.ones((1, 1), np.float16)
    output, mean, variance = desc.compute(np.float16([[-300, 300]]), ones, 0 * ones)
    assert_close(output, np.array([[-1.0, 1.0]]), units=2)
    assert_same_bits(mean, 0 * ones)
    assert_same_bits(variance, np.full((1, 1), np.inf, np.float16))


# Transformations.


@pytest.mark.exhaustive
def test_derivatives():
    x = np.random.default_rng(1).normal(size=INPUT.sizes).astype(np.float32)
    scale, bias, variance = (np.float32(n).reshape(1, 2, 1, 1) for n in ([2, 3], [1, -1], [0.5, 2]))
    desc = replace(ALONE, bias=CHANNELS)
    check_grads(jax.jit(desc.compute), (x, bias, variance, scale, bias), order=1, atol=0.05, rtol=0.05)
    check_grads(jax.jit(PLAIN.compute), (x, scale, bias), order=1, atol=0.05, rtol=0.05)


@pytest.mark.exhaustive
def test_vmap_over_the_input():
    batch = jnp.asarray(np.random.default_rng(2).normal(size=(3, *INPUT.sizes)).astype(np.float32))
    scale, bias = (np.float32(n).reshape(1, 2, 1, 1) for n in (SCALE, BIAS))
    mapped = jax.jit(jax.vmap(PLAIN.compute, in_axes=(0, None, None)))(batch, scale, bias)
    for i in range(3):
        of_one = expected_of_training(PLAIN, batch[i], scale, bias, None)
        for made, wanted in zip(mapped, of_one, strict=True):
            assert_close(made[i], wanted, units=8)
