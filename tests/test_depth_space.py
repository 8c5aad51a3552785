"""depth_to_space and space_to_depth against the element-by-element oracles."""

import itertools

import numpy as np
import oracles
import pytest
from checks import assert_same_bits

import dml_jax
from dml_jax import DepthSpaceOrder, depth_to_space, space_to_depth

pytestmark = pytest.mark.device

ORDERS = ("DCR", "CRD")
LEADS = ((), (2,), (1, 2))
# Blocks, channels and H != W together tell every known mistake apart; block 2 and one channel tell none.
CASES = list(itertools.product(ORDERS, (1, 2, 3, 4, 5), (1, 3), LEADS))


def channels_last(array):
    return np.moveaxis(array, -3, -1)


@pytest.mark.parametrize(("order", "block", "channels", "lead"), CASES)
def test_depth_to_space_every_order_and_format(order, block, channels, lead):
    shape = (*lead, channels * block * block, 2, 3)
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    expected = oracles.depth_to_space(x, block, order)
    assert_same_bits(depth_to_space(x, block, order=order), expected)
    last = depth_to_space(channels_last(x), block, order=order, data_format="NHWC")
    assert_same_bits(last, channels_last(expected))


@pytest.mark.parametrize(("order", "block", "channels", "lead"), CASES)
def test_space_to_depth_every_order_and_format(order, block, channels, lead):
    shape = (*lead, channels, 2 * block, 3 * block)
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    expected = oracles.space_to_depth(x, block, order)
    assert_same_bits(space_to_depth(x, block, order=order), expected)
    last = space_to_depth(channels_last(x), block, order=order, data_format="NHWC")
    assert_same_bits(last, channels_last(expected))
    assert_same_bits(depth_to_space(space_to_depth(x, block, order=order), block, order=order), x)


# DirectML's documented example: channel k holds 9k, 9k+1, ..., 9k+5.
DEPTH = (9 * np.arange(8)[:, None] + np.arange(6)).astype(np.uint32).reshape(1, 8, 2, 3)
SPACE = {
    "DCR": [
        [[0, 18, 1, 19, 2, 20], [36, 54, 37, 55, 38, 56], [3, 21, 4, 22, 5, 23], [39, 57, 40, 58, 41, 59]],
        [[9, 27, 10, 28, 11, 29], [45, 63, 46, 64, 47, 65], [12, 30, 13, 31, 14, 32], [48, 66, 49, 67, 50, 68]],
    ],
    "CRD": [
        [[0, 9, 1, 10, 2, 11], [18, 27, 19, 28, 20, 29], [3, 12, 4, 13, 5, 14], [21, 30, 22, 31, 23, 32]],
        [[36, 45, 37, 46, 38, 47], [54, 63, 55, 64, 56, 65], [39, 48, 40, 49, 41, 50], [57, 66, 58, 67, 59, 68]],
    ],
}


@pytest.mark.parametrize("order", ORDERS)
def test_documented_examples(order):
    space = np.uint32([SPACE[order]])
    assert_same_bits(depth_to_space(DEPTH, 2, order=order), space)
    assert_same_bits(space_to_depth(space, 2, order=order), DEPTH)


def test_order_takes_the_enum_and_onnx_names():
    assert_same_bits(depth_to_space(DEPTH, 2), depth_to_space(DEPTH, 2, order=DepthSpaceOrder.DEPTH_COLUMN_ROW))
    by_name = depth_to_space(DEPTH, 2, order="CRD")
    assert_same_bits(by_name, depth_to_space(DEPTH, 2, order=DepthSpaceOrder.COLUMN_ROW_DEPTH))
    assert_same_bits(by_name, depth_to_space(DEPTH, 2, order="COLUMN_ROW_DEPTH"))
    for unknown in ("dcr", "ROW", 0, None):
        with pytest.raises(dml_jax.ConstraintError, match="order must be a DepthSpaceOrder, or one of 'DCR', 'CRD'"):
            depth_to_space(DEPTH, 2, order=unknown)


def test_empty_batches_pass_through():
    assert depth_to_space(np.zeros((0, 4, 2, 3), np.float32), 2).shape == (0, 1, 4, 6)
    assert space_to_depth(np.zeros((2, 3, 0, 4), np.float32), 2).shape == (2, 12, 0, 2)
