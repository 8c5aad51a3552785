"""Patches: squares of pixels as rows, which a linear layer embeds."""

from __future__ import annotations

import jax
import numpy as np

from ..operators import space_to_depth
from ..operators._depth_space_rules import DataFormat


def patches(pictures: jax.Array | np.ndarray, size: int, *, data_format: DataFormat = "NCHW") -> jax.Array:
    """Cuts pictures into squares of `size` pixels, and makes a row of each: what a vision transformer embeds.

    A linear layer on the rows is a convolution whose stride is the size of its kernel, with the same weights flat:
    kernels [width, channel, row, column] of "NCHW", and [row, column, channel, width] of "NHWC".

    Args:
      pictures: [..., C, H, W] or, of "NHWC", [..., H, W, C], of any type; H and W are multiples of `size`.
      size: of a square, in pixels.
      data_format: "NCHW" or "NHWC".

    Returns:
      [..., patch, element]: squares row by row. The elements of one are in the order channel, row, column; of "NHWC"
      in the order row, column, channel.

    Raises:
      ConstraintError: as `space_to_depth`.

    Example:
      >>> import numpy as np
      >>> from dml_jax.layers import patches
      >>> print(patches(np.arange(8).reshape(1, 2, 4).astype(np.int32), 2))
      [[0 1 4 5]
       [2 3 6 7]]

    Source: the first layer of vision transformers (Dosovitskiy et al., 2021).
    """
    if data_format == "NHWC":
        squares = space_to_depth(pictures, size, order="DCR", data_format=data_format)
        return squares.reshape(*squares.shape[:-3], -1, squares.shape[-1])
    squares = space_to_depth(pictures, size, order="CRD", data_format=data_format)
    return squares.reshape(*squares.shape[:-2], -1).swapaxes(-1, -2)
