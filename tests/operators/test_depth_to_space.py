"""depth_to_space, DEPTH_TO_SPACE and DEPTH_TO_SPACE1: blocks of channels become blocks of pixels."""

from dataclasses import replace

import numpy as np
import pytest
from checks import assert_same_bits
from depth_space_cases import DEPTH, IMAGE, ORDERS, SPACE, every_order_and_size, order_of
from draws import draw_blocks
from operator_cases import Call, Example, Struct, f32
from oracles import channel, channels_as, channels_first, coordinates

import dml_jax
from dml_jax import DepthSpaceOrder, DepthToSpace1Desc, DepthToSpaceDesc, depth_to_space

pytestmark = pytest.mark.device


def oracle(input, block_size, order="DCR", data_format="NCHW"):
    input = channels_first(data_format, input)
    *lead, depth, height, width = input.shape
    channels = depth // (block_size * block_size)
    output = np.empty((*lead, channels, height * block_size, width * block_size), input.dtype)
    for at in coordinates(output.shape):
        *n, c, row, column = at
        (h, y), (w, x) = divmod(row, block_size), divmod(column, block_size)
        output[at] = input[(*n, channel(order, y, x, c, block_size, channels), h, w)]
    return channels_as(data_format, output)


CASE = Call(depth_to_space, {"input": IMAGE}, {"block_size": 2, "data_format": "NCHW"})
BREAKS = {
    "minimum_rank(input, 3)": {"input": IMAGE[0, 0]},
    "at_least(block_size, 1)": {"block_size": 0},
    "one_of(data_format)": {"data_format": "CHWN"},
    "divisible(channels)": {"block_size": 3},
}
VARIANTS = {"CRD": {"order": "CRD"}, "NHWC": {"input": IMAGE.transpose(0, 2, 3, 1), "data_format": "NHWC"}}


# The structs.


def draw(rng):
    depth, space, block = draw_blocks(rng)
    return {"input": depth, "output": space, "block_size": block}


def example(struct, *order):
    """DirectML's: `order` is DCR where the struct has none."""
    space = SPACE[order[0] if order else "DCR"]
    desc = struct(f32(*DEPTH.shape), f32(*space.shape), 2, *(ORDERS[name] for name in order))
    return Example(desc, [DEPTH.ravel()], [space.ravel()])


BREAKS_OF_BOTH = {
    "at_least(block_size, 1)": {"block_size": 0},
    "divisible(channels)": {"block_size": 3},
    "sizes_follow(output)": {"output": f32(1, 2, 3, 4)},
}
STRUCTS = (
    Struct(
        DepthToSpaceDesc(f32(1, 8, 2, 3), f32(1, 2, 4, 6), block_size=2),
        breaks=BREAKS_OF_BOTH,
        examples=(example(DepthToSpaceDesc),),
        draw=draw,
        expected=lambda desc, x: oracle(x, desc.block_size),
    ),
    Struct(
        DepthToSpace1Desc(f32(1, 8, 2, 3), f32(1, 2, 4, 6), block_size=2, order="COLUMN_ROW_DEPTH"),
        breaks=BREAKS_OF_BOTH,
        examples=(example(DepthToSpace1Desc, "DCR"), example(DepthToSpace1Desc, "CRD")),
        draw=lambda rng: draw(rng) | {"order": int(rng.integers(0, 2))},
        expected=lambda desc, x: oracle(x, desc.block_size, order_of(desc)),
    ),
)


@pytest.mark.parametrize("order", [True, 1.0, np.float32(1), 1 + 0j, np.array([0, 1]), "RCD", None, 2])
def test_orders_that_a_struct_refuses(order):
    with pytest.raises(dml_jax.ConstraintError, match="Order must be"):
        replace(STRUCTS[1].desc, order=order)
    assert replace(STRUCTS[1].desc, order=np.int8(0)).order is DepthSpaceOrder.DEPTH_COLUMN_ROW


# Against the oracle.


@pytest.mark.thinned(12)
@every_order_and_size
def test_every_order_and_format(order, block, channels, lead):
    shape = (*lead, channels * block * block, 2, 3)
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    expected = oracle(x, block, order)
    assert_same_bits(depth_to_space(x, block, order=order), expected)
    last = depth_to_space(channels_as("NHWC", x), block, order=order, data_format="NHWC")
    assert_same_bits(last, channels_as("NHWC", expected))


def test_order_takes_the_enum_and_onnx_names():
    assert_same_bits(depth_to_space(DEPTH, 2), depth_to_space(DEPTH, 2, order=DepthSpaceOrder.DEPTH_COLUMN_ROW))
    by_name = depth_to_space(DEPTH, 2, order="CRD")
    assert_same_bits(by_name, SPACE["CRD"])
    assert_same_bits(by_name, depth_to_space(DEPTH, 2, order=DepthSpaceOrder.COLUMN_ROW_DEPTH))
    assert_same_bits(by_name, depth_to_space(DEPTH, 2, order="COLUMN_ROW_DEPTH"))
    for unknown in ("dcr", "ROW", 0, None):
        with pytest.raises(dml_jax.ConstraintError, match="order must be a DepthSpaceOrder, or one of 'DCR', 'CRD'"):
            depth_to_space(DEPTH, 2, order=unknown)


def test_the_documented_example():
    assert_same_bits(depth_to_space(DEPTH, 2), SPACE["DCR"])


def test_empty_batches_pass_through():
    assert depth_to_space(np.zeros((0, 4, 2, 3), np.float32), 2).shape == (0, 1, 4, 6)
