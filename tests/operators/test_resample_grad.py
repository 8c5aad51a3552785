"""RESAMPLE_GRAD and RESAMPLE_GRAD1: the transpose of RESAMPLE1 and RESAMPLE2."""

from itertools import product
from math import prod

import jax
import numpy as np
import pytest
import resample_cases as forward
from checks import assert_close, assert_same_bits, sampled
from operator_cases import Example, Struct, f16, f32
from oracles import clamp, coordinates

from dml_jax import ConstraintError, Resample1Desc
from dml_jax.descs import ResampleGrad1Desc, ResampleGradDesc

pytestmark = pytest.mark.device


def shares(x, size, mode, rounding):
    """The elements along a dimension of which one at `x` is made, with the share of each."""
    if mode == "nearest":
        return [(clamp(forward.rounded(x, rounding), size), 1)]
    before = int(np.floor(x))
    after = float(x) - before
    return [(clamp(before, size), 1 - after), (clamp(before + 1, size), after)]


def exact(desc, gradient):
    """In float64, one element of the gradient after the other."""
    mode = forward.MODES[desc.interpolation_mode]
    direction = getattr(desc, "rounding_direction", None)
    rounding = None if direction is None else forward.DIRECTIONS[direction]
    sizes = desc.output_gradient.sizes
    rows = [*zip(desc.scales, desc.input_pixel_offsets, desc.output_pixel_offsets, strict=True)]
    output = np.zeros(sizes)
    for c in coordinates(gradient.shape):
        of_each = [shares(forward.place(o, *row), n, mode, rounding) for o, row, n in zip(c, rows, sizes, strict=True)]
        for several in product(*of_each):
            output[tuple(at for at, _ in several)] += float(gradient[c]) * prod(share for _, share in several)
    return output


def drawer(*more):
    """Returns `draw` of a gradient struct: the forward one with input and output exchanged."""

    def draw(rng):
        drawn = forward.drawer("rounding_direction", *forward.OFFSETS)(rng)
        tensors = {"input_gradient": drawn["output"], "output_gradient": drawn["input"]}
        return tensors | {n: drawn[n] for n in ("interpolation_mode", "scales", *more, *forward.OFFSETS)}

    return draw


LONG, SHORT, HALF, MINUS_HALF = f32(1, 1, 1, 4), f32(1, 1, 1, 2), (0.5,) * 4, (-0.5,) * 4
DOUBLED = ResampleGradDesc(LONG, SHORT, "LINEAR", (1, 1, 1, 2), HALF, MINUS_HALF)
# DirectML's example, whose page gives no offsets: with these, halves are rounded nowhere.
OFFSET = ResampleGradDesc(f32(1, 1, 1, 3), f32(1, 1, 2, 2), "NEAREST_NEIGHBOR", (1, 1, 0.5, 1.5), HALF, (0,) * 4)
DOUBLED_1 = ResampleGrad1Desc(LONG, SHORT, "LINEAR", "INCREASING", (1, 1, 1, 2), HALF, MINUS_HALF)
# The same example, with halves rounded down.
DOWN, UP = (
    ResampleGrad1Desc(*OFFSET.ports().values(), "NEAREST_NEIGHBOR", way, (1, 1, 0.5, 1.5), HALF, MINUS_HALF)
    for way in ("DECREASING", "INCREASING")
)
BREAKS = forward.LAW_BREAKS | forward.OFFSET_BREAKS
OF_DOUBLED, OF_PAGE = ([[4, 4, 8, 16]], [[9, 23]]), ([[4, 5, 6]], [[9, 6, 0, 0]])
STRUCTS = (
    Struct(
        DOUBLED,
        breaks=BREAKS,
        examples=(Example(DOUBLED, *OF_DOUBLED), Example(OFFSET, *OF_PAGE)),
        draw=drawer(),
        expected=exact,
        leading=forward.LEADING,
        fill=forward.fill,
        units=1,
    ),
    Struct(
        DOUBLED_1,
        breaks=BREAKS,
        examples=(
            Example(DOUBLED_1, *OF_DOUBLED),
            Example(DOWN, *OF_PAGE),
            Example(UP, [[4, 5, 6]], [[0, 0, 4, 11]]),
        ),
        draw=drawer("rounding_direction"),
        expected=exact,
        leading=forward.LEADING,
        fill=forward.fill,
        units=1,
    ),
)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"scales": (2, 1)}, "Scales must have one entry per dimension of OutputGradientTensor"),
        ({"scales": (1, 1, 1, 0)}, "every one of Scales must be a positive number in float32"),
        ({"input_pixel_offsets": (0,)}, "InputPixelOffsets must have one entry per dimension of OutputGradientTensor"),
        ({"interpolation_mode": "CUBIC"}, "InterpolationMode must be one of NEAREST_NEIGHBOR, LINEAR"),
        ({"output_gradient": f32(1, 2)}, "OutputGradientTensor.DimensionCount must equal"),
    ],
)
def test_what_the_structs_refuse(change, match):
    for desc in (DOUBLED, DOUBLED_1):
        with pytest.raises(ConstraintError, match=match):
            type(desc)(**desc.operands() | change)


@pytest.mark.parametrize("mode", sampled(["NEAREST_NEIGHBOR", "LINEAR"], ["NEAREST_NEIGHBOR"]))
def test_the_gradient_is_the_derivative(mode):
    """Of what is cropped, of what repeats the edge, and of elements that make none."""
    rng = np.random.default_rng(0)
    for long, scale in ((3, 0.4), (5, 2), (20, 2.5)):
        large, small = f32(2, long, 3), f32(2, 4, 3)
        law = (mode, (1, scale, 1.5), (0.5, 0.25, 0), (-0.5, 0, 1))
        x, gradient = (rng.normal(size=tensor.sizes).astype(np.float32) for tensor in (small, large))
        _, back = jax.vjp(Resample1Desc(small, large, *law).compute, x)
        made = ResampleGradDesc(large, small, *law).compute(gradient)
        assert_close(made, back(gradient)[0], units=4)
        assert_close(made, exact(ResampleGradDesc(large, small, *law), gradient), units=32)


def test_sums_of_float16_are_rounded_once():
    """4096 and ones: added one by one in float16, each one would be lost."""
    large, small = (f16(n) for n in (5, 1))
    desc = ResampleGradDesc(large, small, "NEAREST_NEIGHBOR", (5,), (0.5,), (-0.5,))
    assert_same_bits(desc.compute(np.float16([4096, 1, 1, 1, 1])), np.float16([4100]))


def test_the_gradient_of_the_gradient_is_resampling():
    x = np.random.default_rng(0).normal(size=SHORT.sizes).astype(np.float32)
    _, back = jax.vjp(DOUBLED.compute, np.zeros(LONG.sizes, np.float32))
    wanted = Resample1Desc(SHORT, LONG, "LINEAR", (1, 1, 1, 2), HALF, MINUS_HALF).compute(x)
    assert_close(back(x)[0], wanted, units=2)


def test_inside_of_a_shard_map():
    """Each device has rows of its own."""
    mesh = jax.make_mesh((2,), ("d",), devices=jax.devices("cpu")[:2], axis_types=(jax.sharding.AxisType.Auto,))
    large, small = f32(2, 8), f32(2, 4)
    desc = ResampleGradDesc(large, small, "LINEAR", (1, 2), HALF[:2], MINUS_HALF[:2])
    gradient = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
    local = jax.shard_map(desc.compute, mesh=mesh, in_specs=jax.P("d"), out_specs=jax.P("d"))
    wanted = np.concatenate([desc.compute(gradient[:2]), desc.compute(gradient[2:])])
    assert_same_bits(jax.jit(local)(gradient), wanted)
