"""AVERAGE_POOLING_GRAD and MAX_POOLING_GRAD, window by window."""

import numpy as np
import pytest
from checks import assert_same_bits
from operator_cases import Example, Struct, f16, f32
from oracles import coordinates
from window_cases import (
    DILATED_BREAKS,
    DILATED_LEADING,
    POOLING_BREAKS,
    POOLING_LEADING,
    counted,
    draw_pooled,
    filled,
    places,
    pooling_of,
)

from dml_jax.descs import AveragePoolingGradDesc, MaxPoolingGradDesc

pytestmark = pytest.mark.device


def windows_of(desc, sizes):
    """Of each window its coordinate, and where its elements lie in row-major order, None in the padding."""
    attributes = filled(**pooling_of(desc))
    found = {}
    for _, column, at in places(sizes[2:], attributes):
        found.setdefault(column, []).append(at)
    return zip(coordinates(counted(sizes[2:], attributes)), found.values(), strict=True)


def spread_means(desc, gradient):
    """In float64."""
    output = np.zeros(desc.output_gradient.sizes)
    for window, elements in windows_of(desc, output.shape):
        inside = [at for at in elements if at is not None]
        for batch in coordinates(output.shape[:2]):
            for at in inside:
                count = len(elements) if desc.include_padding else len(inside)
                output[*batch, *at] += float(gradient[*batch, *window]) / count
    return output


def gradient_of_maxima(desc, input, gradient):
    """In float64; the first one of equal elements has it all."""
    output = np.zeros(input.shape)
    for window, elements in windows_of(desc, input.shape):
        inside = [at for at in elements if at is not None]
        for batch in coordinates(input.shape[:2]) if inside else ():
            numbers = [input[*batch, *at] for at in inside]
            output[*batch, *inside[numbers.index(max(numbers))]] += float(gradient[*batch, *window])
    return output


def fill(rng, port, tensor, count):
    """Few different numbers, so that many are equal, but gradients whose sums are rounded."""
    numbers = rng.normal(size=count) if port == "input_gradient" else rng.integers(-3, 4, count)
    return numbers.astype(tensor.dtype)


def draw_average(rng):
    fields = draw_pooled(rng, dilated=False)
    fields |= {"output_gradient": fields.pop("input"), "input_gradient": fields.pop("output")}
    return fields | {"include_padding": bool(rng.integers(0, 2))}


def draw_max(rng):
    fields = draw_pooled(rng, dilated=True)
    return fields | {"output_gradient": fields["input"], "input_gradient": fields.pop("output")}


def renamed(breaks, **fields):
    """The breaks of pooling, where its output is the gradient that is read."""
    names = {"sizes_follow(output)": "sizes_follow(input_gradient)"}
    return {names.get(rule, rule): fields if rule in names else change for rule, change in breaks.items()}


SQUARES = ((1, 1), (2, 2), (0, 0), (0, 0))
AVERAGE = AveragePoolingGradDesc(f32(1, 1, 2, 2), f32(1, 1, 3, 3), *SQUARES, False)
MAX = MaxPoolingGradDesc(f32(1, 1, 3, 3), f32(1, 1, 2, 2), f32(1, 1, 3, 3), *SQUARES, (1, 1))
BREAKS = renamed(POOLING_BREAKS, input_gradient=f32(1, 1, 2, 1)) | {"fits": {"window_size": (4, 2)}}
STRUCTS = (
    Struct(
        AVERAGE,
        breaks=BREAKS,
        examples=(Example(AVERAGE, [[1, 2, 3, 4]], [[0.25, 0.75, 0.5, 1, 2.5, 1.5, 0.75, 1.75, 1]]),),
        draw=draw_average,
        expected=spread_means,
        leading=POOLING_LEADING,
        fill=fill,
        units=16,
    ),
    Struct(
        MAX,
        breaks=BREAKS | DILATED_BREAKS | {"same_sizes(output_gradient, input)": {"output_gradient": f32(1, 1, 3, 4)}},
        examples=(Example(MAX, [[1, 2, 3, 2, 4, 2, 5, 6, 7], [1, 2, 4, 5]], [[0, 0, 0, 0, 3, 0, 0, 4, 5]]),),
        draw=draw_max,
        expected=gradient_of_maxima,
        leading=DILATED_LEADING,
        fill=fill,
        units=16,
    ),
)


def test_a_window_in_the_padding_alone_has_no_element():
    desc = MaxPoolingGradDesc(f32(1, 1, 1, 1), f32(1, 1, 1, 3), f32(1, 1, 1, 1), (1, 1), (1, 1), (0, 2), (0, 0), (1, 1))
    assert_same_bits(desc.compute(np.float32([[[[-4]]]]), np.float32([[[[1, 2, 4]]]])), np.float32([[[[4]]]]))


@pytest.mark.parametrize("kind", ["average", "max"])
def test_sums_of_float16_are_rounded_once(kind):
    """2048 and 600 times a half, which FLOAT16 would lose one by one."""
    one, many = f16(1, 1, 1, 1), f16(1, 1, 1, 601)
    windows = ((1, 1), (1, 601), (0, 600), (0, 600))
    gradient = np.full((1, 1, 1, 601), 0.5, np.float16)
    gradient[..., 0] = 2048
    if kind == "max":
        desc = MaxPoolingGradDesc(one, many, one, *windows, (1, 1))
        assert desc.compute(np.ones((1, 1, 1, 1), np.float16), gradient).item() == 2348
    else:
        assert AveragePoolingGradDesc(many, one, *windows, False).compute(gradient).item() == 2348
