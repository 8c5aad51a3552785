"""BATCH_NORMALIZATION_GRAD and BATCH_NORMALIZATION_TRAINING_GRAD: DirectML's formulas, and the derivatives by JAX."""

from functools import partial

import jax
import numpy as np
import pytest
from checks import assert_close, assert_same_bits
from normalization_cases import EPSILONS, axes_of, broadcast, draw_sizes, fill, moments
from operator_cases import Example, Struct, f16, f32

from dml_jax.descs import (
    BatchNormalizationDesc,
    BatchNormalizationGradDesc,
    BatchNormalizationTrainingDesc,
    BatchNormalizationTrainingGradDesc,
)

pytestmark = pytest.mark.device

# The tensors that have the sizes of the mean.
SMALL = ("mean", "variance", "scale", "output_scale_gradient", "output_bias_gradient")
LARGE = ("input", "input_gradient", "output_gradient")


def draw(rng):
    sizes = draw_sizes(rng)
    drawn = {**dict.fromkeys(LARGE, sizes), **dict.fromkeys(SMALL, broadcast(rng, sizes))}
    return {**drawn, "epsilon": float(rng.choice(EPSILONS))}


def exact(desc, x, gradient, mean, variance, scale, *, in_training):
    """By the formulas of DirectML's pages, in float64."""
    x, gradient, mean, variance, scale = (np.asarray(a, np.float64) for a in (x, gradient, mean, variance, scale))
    axes = axes_of(mean.shape)
    deviation = np.sqrt(variance + desc.epsilon)
    of_scale = (gradient * (x - mean) / deviation).sum(axes, keepdims=True)
    of_bias = gradient.sum(axes, keepdims=True)
    if in_training:
        centered = gradient - gradient.mean(axes, keepdims=True)
        along = (gradient * (x - mean)).mean(axes, keepdims=True) / (variance + desc.epsilon)
        return scale / deviation * (centered - (x - mean) * along), of_scale, of_bias
    return gradient * scale / deviation, of_scale, of_bias


INPUT, CHANNELS, ONE, ROWS = f32(1, 2, 1, 2), f32(1, 2, 1, 1), f32(1, 1, 1, 1), f32(1, 2, 2, 1)
TENSORS = (INPUT, INPUT, CHANNELS, CHANNELS, CHANNELS, INPUT, CHANNELS, CHANNELS)
DESC, TRAINING = BatchNormalizationGradDesc(*TENSORS, 0.5), BatchNormalizationTrainingGradDesc(*TENSORS, 3)
BREAKS = {
    "broadcast_to(mean, input)": {"mean": f32(1, 3, 1, 1)},
    **{f"same_sizes({name}, input)": {name: ROWS} for name in LARGE[1:]},
    **{f"same_sizes({name}, mean)": {name: ONE} for name in SMALL[1:]},
}
STRUCTS = (
    Struct(
        DESC,
        breaks=BREAKS,
        # Deviations of 2 and 4.
        examples=(
            Example(
                DESC, [[1, 3, 8, 0], [5, 6, 1, 2], [1, 4], [3.5, 15.5], [4, 8]], [[10, 12, 2, 4], [6, -1], [11, 3]]
            ),
        ),
        draw=draw,
        expected=partial(exact, in_training=False),
        fill=fill,
        units=64,
    ),
    Struct(
        TRAINING,
        breaks=BREAKS,
        # Deviations of 2 and 2, as the variances are 1.
        examples=(
            Example(
                TRAINING, [[1, 3, 8, 6], [4, 6, 1, 1], [2, 7], [1, 1], [4, 8]], [[-1.5, 1.5, 0, 0], [1, 0], [10, 2]]
            ),
        ),
        draw=draw,
        expected=partial(exact, in_training=True),
        fill=fill,
        units=64,
    ),
)


# Against the derivatives of what goes forward.

SIZES = [((2, 3, 2, 2), (1, 3, 1, 1)), ((4, 3), (1, 3)), ((2, 3, 2), (1, 1, 1)), ((2, 3), (2, 3))]


def arrays(sizes, small):
    rng = np.random.default_rng(0)
    x, gradient = (rng.normal(size=sizes).astype(np.float32) for _ in range(2))
    mean, scale, bias = (rng.normal(size=small).astype(np.float32) for _ in range(3))
    return x, gradient, mean, scale, bias


@pytest.mark.thinned(4)
@pytest.mark.parametrize(("sizes", "small"), SIZES)
def test_the_gradient_is_the_derivative(sizes, small):
    x, gradient, mean, scale, bias = arrays(sizes, small)
    variance, (large, number) = abs(mean) + 0.5, (f32(*sizes), f32(*small))
    forward = BatchNormalizationDesc(large, *[number] * 4, large, True, 0.25)
    _, back = jax.vjp(lambda x, scale, bias: forward.compute(x, mean, variance, scale, bias), x, scale, bias)
    desc = BatchNormalizationGradDesc(large, large, *[number] * 3, large, number, number, 0.25)
    for made, wanted in zip(desc.compute(x, gradient, mean, variance, scale), back(gradient), strict=True):
        assert_close(made, wanted, units=32)


@pytest.mark.thinned(4)
@pytest.mark.parametrize(("sizes", "small"), SIZES)
def test_the_gradient_of_training_is_the_derivative(sizes, small):
    x, gradient, _, scale, bias = arrays(sizes, small)
    large, number = f32(*sizes), f32(*small)
    forward = BatchNormalizationTrainingDesc(large, number, number, None, large, number, number, 0.25)
    output, back = jax.vjp(forward.compute, x, scale, bias)
    wanted = back((gradient, *(0 * moment for moment in output[1:])))
    desc = BatchNormalizationTrainingGradDesc(large, large, *[number] * 3, large, number, number, 0.25)
    for made, one in zip(desc.compute(x, gradient, *output[1:], scale), wanted, strict=True):
        assert_close(made, one, units=32)


def test_torch():
    torch = pytest.importorskip("torch")
    x, gradient, _, scale, bias = (array.astype(np.float64) for array in arrays((4, 3, 2, 2), (3,)))
    leaves = [torch.tensor(array, requires_grad=True) for array in (x, scale, bias)]
    torch.nn.functional.batch_norm(leaves[0], None, None, *leaves[1:], training=True, eps=0.25).backward(
        torch.tensor(gradient)
    )
    mean, variance = moments(x, (0, 2, 3))
    desc = BatchNormalizationTrainingGradDesc(*TENSORS, 0.25)
    made = exact(desc, x, gradient, mean, variance, scale.reshape(1, 3, 1, 1), in_training=True)
    for one, leaf in zip(made, leaves, strict=True):
        np.testing.assert_allclose(one.reshape(leaf.shape), leaf.grad.numpy(), rtol=1e-12, atol=1e-12)


def test_a_constant_gradient_moves_no_input_in_training():
    x, *_, scale, _ = arrays((2, 3), (1, 3))
    large, number = f32(2, 3), f32(1, 3)
    mean, variance = (moment.astype(np.float32) for moment in moments(x, (0,)))
    desc = BatchNormalizationTrainingGradDesc(large, large, *[number] * 3, large, number, number, 0.25)
    made, _, of_bias = desc.compute(x, np.ones_like(x), mean, variance, scale)
    assert_close(made, np.zeros(x.shape), units=4)
    assert_same_bits(of_bias, np.full((1, 3), 2, np.float32))


def test_sums_beyond_float16():
    """They are written as infinity, and are not one on the way."""
    large, number = f16(1, 4), f16(1, 1)
    desc = BatchNormalizationTrainingGradDesc(large, large, *[number] * 3, large, number, number, 0.25)
    x, gradient = np.float16([[-1, 1, -1, 1]]), np.full((1, 4), 60000, np.float16)
    zero, one = np.zeros((1, 1), np.float16), np.ones((1, 1), np.float16)
    made, of_scale, of_bias = desc.compute(x, gradient, zero, np.float16(0.75) * one, one)
    assert_same_bits(made, np.zeros((1, 4), np.float16))
    assert_same_bits(of_scale, zero)
    assert_same_bits(of_bias, one * np.float16(np.inf))
