"""QUANTIZED_LINEAR_AVERAGE_POOLING: sums of Python's integers, then float32."""

from dataclasses import replace

import numpy as np
import pytest
from checks import assert_same_bits
from operator_cases import Example, Struct, f32, i8, u8
from oracles import coordinates
from quantization_cases import at, centred, fill, quantized
from window_cases import (
    DILATED_BREAKS,
    DILATED_LEADING,
    POOLING_BREAKS,
    counted,
    draw_pooled,
    filled,
    places,
    pooling_of,
)

from dml_jax import ConstraintError
from dml_jax.descs import QuantizedLinearAveragePoolingDesc

pytestmark = pytest.mark.device


@np.errstate(all="ignore")
def expected(desc, input, input_scale, input_zero_point, scale, zero_point):
    attributes = filled(**pooling_of(desc))
    counts, x = counted(input.shape[2:], attributes), centred(input, input_zero_point)
    totals, inside = np.zeros((*input.shape[:2], int(np.prod(counts))), object), np.zeros(int(np.prod(counts)), int)
    for _, column, place in places(input.shape[2:], attributes):
        inside[column] += desc.include_padding or place is not None
        for batch in coordinates(input.shape[:2]) if place is not None else ():
            totals[*batch, column] += x[*batch, *place]
    totals = totals.reshape(*input.shape[:2], *counts)
    inside = np.maximum(inside, 1).reshape(counts)
    real = np.empty(totals.shape, np.float32)
    for c, total in np.ndenumerate(totals):
        real[c] = np.float32(total) * np.float32(at(input_scale, c, totals.shape)) / np.float32(inside[c[2:]])
    return quantized(real, scale, zero_point, desc.output.dtype)


def draw(rng):
    drawn = draw_pooled(rng, dilated=True)

    def sizes():
        """Of one number, or of one for each channel, of any rank."""
        rank, channels = len(drawn["input"]), drawn["input"][1]
        if rng.random() < 0.5:
            return (1,) * int(rng.integers(1, 6))
        return ((1,) * 5 + (1, channels) + (1,) * (rank - 2))[-int(rng.integers(rank - 1, 6)) :]

    scales = {f"{name}_scale": sizes() for name in ("input", "output")}
    zero_points = {f"{name}_zero_point": sizes() if rng.random() < 0.7 else None for name in ("input", "output")}
    return {**drawn, **scales, **zero_points, "include_padding": bool(rng.integers(0, 2))}


ONE, U1 = f32(1, 1, 1, 1), u8(1, 1, 1, 1)
WINDOWS = ((2, 2), (2, 2), (0, 1), (0, 1), (1, 1))
DESC = QuantizedLinearAveragePoolingDesc(u8(1, 1, 2, 4), ONE, U1, ONE, U1, u8(1, 1, 1, 3), *WINDOWS, False)
TABLE = [13, 15, 17, 11, 19, 14, 12, 18]
STRUCTS = (
    Struct(
        DESC,
        breaks=POOLING_BREAKS
        | DILATED_BREAKS
        | {"fits": {"window_size": (3, 2)}}
        | {f"sizes({name}_scale)": {f"{name}_scale": f32(1, 1, 1, 2)} for name in ("input", "output")}
        | {f"sizes({name}_zero_point)": {f"{name}_zero_point": u8(2)} for name in ("input", "output")}
        | {
            f"rank_within({name}_{what}, 1, 5)": {f"{name}_{what}": u8(1, 1, 1, 1, 1, 1)}
            for name in ("input", "output")
            for what in ("scale", "zero_point")
        }
        | {
            f"same_dtype({name}_zero_point, {name})": {f"{name}_zero_point": i8(1, 1, 1, 1)}
            for name in ("input", "output")
        },
        # DirectML prints none: the means that the page of AVERAGE_POOLING has, in units of 0.25.
        examples=(
            Example(DESC, [TABLE, [1], [10], [0.25], [0]], [[24, 18, 18]]),
            Example(replace(DESC, include_padding=True), [TABLE, [1], [10], [0.25], [1]], [[13, 19, 10]]),
        ),
        draw=draw,
        expected=expected,
        leading=DILATED_LEADING,
        fill=fill,
        typed=lambda types: {f"{name}_zero_point": types[name] for name in ("input", "output")},
    ),
)


def test_every_channel_may_have_a_scale():
    two = f32(2, 1, 1)
    windows = ((1, 1), (1, 2), (0, 0), (0, 0), (1, 1))
    desc = QuantizedLinearAveragePoolingDesc(u8(1, 2, 1, 2), two, None, ONE, None, u8(1, 2, 1, 1), *windows, False)
    scales = np.float32([1, 10]).reshape(2, 1, 1)
    made = desc.compute(np.uint8([[[[1, 3]], [[5, 6]]]]), scales, np.ones((1, 1, 1, 1), np.float32))
    assert_same_bits(made, np.uint8([[[[2]], [[55]]]]))
    with pytest.raises(ConstraintError, match=r"InputScaleTensor.Sizes must be 1; along dimension 1 .* 2 channels"):
        replace(desc, input_scale=f32(2, 1))
