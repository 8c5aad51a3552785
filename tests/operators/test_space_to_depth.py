"""space_to_depth, SPACE_TO_DEPTH and SPACE_TO_DEPTH1: blocks of pixels become blocks of channels."""

import numpy as np
import pytest
from checks import assert_same_bits, exported
from depth_space_cases import DEPTH, IMAGE, ORDERS, SPACE, every_order_and_size, order_of
from draws import draw_blocks
from operator_cases import Call, Example, Struct, f32
from oracles import channel, channels_as, channels_first, coordinates

from dml_jax import SpaceToDepth1Desc, SpaceToDepthDesc, depth_to_space, space_to_depth

pytestmark = pytest.mark.device


def oracle(input, block_size, order="DCR", data_format="NCHW"):
    input = channels_first(data_format, input)
    *lead, channels, height, width = input.shape
    depth = channels * block_size * block_size
    output = np.empty((*lead, depth, height // block_size, width // block_size), input.dtype)
    for at in coordinates(input.shape):
        *n, c, row, column = at
        (h, y), (w, x) = divmod(row, block_size), divmod(column, block_size)
        output[(*n, channel(order, y, x, c, block_size, channels), h, w)] = input[at]
    return channels_as(data_format, output)


CASE = Call(space_to_depth, {"input": IMAGE}, {"block_size": 2, "data_format": "NHWC"})
BREAKS = {
    "minimum_rank(input, 3)": {"input": IMAGE[0, 0]},
    "at_least(block_size, 1)": {"block_size": -1},
    "one_of(data_format)": {"data_format": "nhwc"},
    "divisible(rows)": {"input": IMAGE[:, :7]},
    "divisible(columns)": {"input": IMAGE[:, :, :3]},
    "block_fits": {"input": np.zeros((1, 1, 0, 0), np.float32), "block_size": 2**40, "data_format": "NCHW"},
}
VARIANTS = {"CRD": {"order": "CRD", "data_format": "NCHW"}}


# The structs.


def draw(rng):
    depth, space, block = draw_blocks(rng)
    return {"input": space, "output": depth, "block_size": block}


def example(struct, *order):
    """DirectML's: `order` is DCR where the struct has none."""
    space = SPACE[order[0] if order else "DCR"]
    desc = struct(f32(*space.shape), f32(*DEPTH.shape), 2, *(ORDERS[name] for name in order))
    return Example(desc, [space.ravel()], [DEPTH.ravel()])


BREAKS_OF_BOTH = {
    "at_least(block_size, 1)": {"block_size": 0},
    "divisible(rows)": {"input": f32(1, 2, 5, 6)},
    "divisible(columns)": {"input": f32(1, 2, 4, 5)},
    "sizes_follow(output)": {"output": f32(1, 2, 3, 4)},
}
STRUCTS = (
    Struct(
        SpaceToDepthDesc(f32(1, 2, 4, 6), f32(1, 8, 2, 3), block_size=2),
        breaks=BREAKS_OF_BOTH,
        examples=(example(SpaceToDepthDesc),),
        draw=draw,
        expected=lambda desc, x: oracle(x, desc.block_size),
    ),
    Struct(
        SpaceToDepth1Desc(f32(1, 2, 4, 6), f32(1, 8, 2, 3), block_size=2, order="COLUMN_ROW_DEPTH"),
        breaks=BREAKS_OF_BOTH,
        examples=(example(SpaceToDepth1Desc, "DCR"), example(SpaceToDepth1Desc, "CRD")),
        draw=lambda rng: draw(rng) | {"order": int(rng.integers(0, 2))},
        expected=lambda desc, x: oracle(x, desc.block_size, order_of(desc)),
    ),
)


# Against the oracle.


@pytest.mark.thinned(12)
@every_order_and_size
def test_every_order_and_format(order, block, channels, lead):
    shape = (*lead, channels, 2 * block, 3 * block)
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    expected = oracle(x, block, order)
    assert_same_bits(space_to_depth(x, block, order=order), expected)
    last = space_to_depth(channels_as("NHWC", x), block, order=order, data_format="NHWC")
    assert_same_bits(last, channels_as("NHWC", expected))
    assert_same_bits(depth_to_space(space_to_depth(x, block, order=order), block, order=order), x)


@pytest.mark.parametrize("order", ["DCR", "CRD"])
def test_the_documented_example(order):
    assert_same_bits(space_to_depth(SPACE[order], 2, order=order), DEPTH)


def test_empty_batches_pass_through():
    assert space_to_depth(np.zeros((2, 3, 0, 4), np.float32), 2).shape == (2, 12, 0, 2)


def test_every_even_picture_is_exported_at_once():
    picture = np.arange(2 * 3 * 4 * 6, dtype=np.float32).reshape(2, 3, 4, 6)
    call = exported(lambda x: space_to_depth(x, 2), "b, 3, 2*h, 2*w").call
    assert_same_bits(call(picture), space_to_depth(picture, 2))
