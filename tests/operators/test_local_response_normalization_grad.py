"""LOCAL_RESPONSE_NORMALIZATION_GRAD: the formula, element by element, and the derivative of what goes forward."""

import jax
import numpy as np
import pytest
from checks import assert_close
from draws import normal_numbers
from operator_cases import Example, Struct, f16, f32
from oracles import coordinates
from refusals import refuses

from dml_jax import local_response_normalization
from dml_jax.descs import LocalResponseNormalizationGradDesc
from operators import test_local_response_normalization as forward

pytestmark = pytest.mark.device

LAW = ("cross_channel", "local_size", "alpha", "beta", "bias")


def exact(x, gradient, cross_channel, local_size, alpha, beta, bias):
    """Of each element y = x * D ** -beta, what it says of its own x and of the squares in its region; in float64."""
    x, gradient = (np.asarray(array, np.float64) for array in (x, gradient))
    axes = [1] if cross_channel else [2, 3]
    output = np.zeros(x.shape)
    for at in coordinates(x.shape):
        region = [
            range(max(0, k - (local_size - 1) // 2), min(n, k + local_size // 2 + 1)) if d in axes else [k]
            for d, (k, n) in enumerate(zip(at, x.shape, strict=True))
        ]
        within = np.ix_(*region)
        divisor = bias + alpha / local_size * (x[within] ** 2).sum()
        output[at] += gradient[at] * divisor**-beta
        output[within] -= 2 * alpha / local_size * beta * gradient[at] * x[at] * divisor ** (-beta - 1) * x[within]
    return output


def draw(rng):
    drawn = forward.draw(rng)
    return {"input": drawn["input"], **dict.fromkeys(("input_gradient", "output_gradient"), drawn["input"])} | {
        name: drawn[name] for name in LAW
    }


def expected(desc, x, gradient):
    return exact(x, gradient, *(getattr(desc, name) for name in LAW))


CHANNELS, PICTURE = f32(1, 2, 1, 1), f32(1, 1, 2, 2)
DESC = LocalResponseNormalizationGradDesc(CHANNELS, CHANNELS, CHANNELS, True, 2, 2, 1, 0)
ALONE = LocalResponseNormalizationGradDesc(PICTURE, PICTURE, PICTURE, False, 1, 1, 1, 1)
STRUCTS = (
    Struct(
        DESC,
        breaks={
            **{f"same_sizes({name}, input)": {name: f32(1, 1, 1, 2)} for name in ("input_gradient", "output_gradient")},
            "at_least(local_size, 1)": {"local_size": 0},
        },
        # y = (1 / 2, 1): of x0 / (x0 ** 2 + x1 ** 2) and 1 / x1 by x = (1, 1) the derivatives are (0, -1 / 2), (0, -1).
        examples=(
            Example(DESC, [[1, 1], [2, 3]], [[0, -4]]),
            # 25 * (1 - x ** 2) / (1 + x ** 2) ** 2
            Example(ALONE, [[0, 1, 2, 3], [25] * 4], [[25, 0, -3, -2]]),
        ),
        draw=draw,
        expected=expected,
        fill=normal_numbers,
        units=64,
    ),
)


test_what_the_struct_refuses = refuses(
    DESC,
    ({"local_size": 0}, "LocalSize must be at least 1, but it is 0"),
    ({"input_gradient": f32(1, 1, 1, 2)}, "InputGradientTensor.Sizes must equal InputTensor.Sizes"),
)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("cross_channel", [False, True])
@pytest.mark.parametrize("local_size", [1, 2, 3, 4, 9])
def test_the_derivative_of_regions_of_every_size(cross_channel, local_size):
    """Even ones reach further to the end, their transposes to the start."""
    rng = np.random.default_rng(local_size)
    x, gradient = (rng.normal(size=(2, 5, 3, 4)).astype(np.float32) for _ in range(2))
    tensor = f32(*x.shape)
    law = {"cross_channel": cross_channel, "local_size": local_size, "alpha": 0.7, "beta": 0.75, "bias": 1.5}
    made = LocalResponseNormalizationGradDesc(tensor, tensor, tensor, **law).compute(x, gradient)
    assert_close(made, exact(x, gradient, *(law[name] for name in LAW)), units=32)
    _, back = jax.vjp(lambda x: local_response_normalization(x, **law), x)
    assert_close(made, back(gradient)[0], units=32)


def test_float16_is_rounded_once():
    """The square of 1000 is beyond float16: of x / |x| the derivative is 0."""
    tensor = f16(1, 1, 1, 1)
    desc = LocalResponseNormalizationGradDesc(tensor, tensor, tensor, True, 1, 1, 0.5, 0)
    x = np.full((1, 1, 1, 1), 1000, np.float16)
    assert_close(desc.compute(x, x), np.zeros(x.shape), units=8)


def test_the_gradient_is_linear_in_the_gradient():
    x, gradient = (np.random.default_rng(i).normal(size=CHANNELS.sizes).astype(np.float32) for i in range(2))
    of_input, of_gradient = jax.vjp(DESC.compute, x, gradient)[1](np.ones_like(x))
    assert np.isfinite(of_input).all()
    assert_close((of_gradient * gradient).sum(), exact(x, gradient, *(getattr(DESC, n) for n in LAW)).sum(), units=32)
