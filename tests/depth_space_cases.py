"""Shared cases of depth_to_space and space_to_depth: DirectML's documented numbers, and calls of both."""

import itertools

import numpy as np
import pytest

# Blocks, channels and H != W together tell every known mistake apart; block 2 and one channel tell none.
every_order_and_size = pytest.mark.parametrize(
    ("order", "block", "channels", "lead"),
    list(itertools.product(("DCR", "CRD"), (1, 2, 3, 4, 5), (1, 3), ((), (2,), (1, 2)))),
)

# DirectML's documented example: channel k holds 9k, 9k+1, ..., 9k+5.
DEPTH = (9 * np.arange(8)[:, None] + np.arange(6)).astype(np.uint32).reshape(1, 8, 2, 3)
SPACE = {
    "DCR": np.uint32(
        [
            [
                [[0, 18, 1, 19, 2, 20], [36, 54, 37, 55, 38, 56], [3, 21, 4, 22, 5, 23], [39, 57, 40, 58, 41, 59]],
                [[9, 27, 10, 28, 11, 29], [45, 63, 46, 64, 47, 65], [12, 30, 13, 31, 14, 32], [48, 66, 49, 67, 50, 68]],
            ]
        ]
    ),
    "CRD": np.uint32(
        [
            [
                [[0, 9, 1, 10, 2, 11], [18, 27, 19, 28, 20, 29], [3, 12, 4, 13, 5, 14], [21, 30, 22, 31, 23, 32]],
                [
                    [36, 45, 37, 46, 38, 47],
                    [54, 63, 55, 64, 56, 65],
                    [39, 48, 40, 49, 41, 50],
                    [57, 66, 58, 67, 59, 68],
                ],
            ]
        ]
    ),
}
ORDERS = {"DCR": "DEPTH_COLUMN_ROW", "CRD": "COLUMN_ROW_DEPTH"}

IMAGE = np.arange(2 * 8 * 4 * 6, dtype=np.float32).reshape(2, 8, 4, 6)


def order_of(desc):
    """ONNX's name of a struct's order."""
    return "CRD" if getattr(desc, "order", 0) else "DCR"
