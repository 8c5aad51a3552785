"""ONNX's DeformConv: a convolution whose windows read at positions that data moves, as torchvision's deform_conv2d."""

from collections.abc import Sequence
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import ConstraintError
from ..operations.grid_sampling import sample_pixels
from ..operations.sliding_windows import Windows
from ..operations.values.accumulation_types import narrow_apart
from .convolution import check_bias, conv, filter_windows
from .operand_checks import check_shape
from .values import Array, Operators, as_wide


def deform_conv(
    *,
    x: Array,
    w: Array,
    offset: Array,
    b: Array | None = None,
    mask: Array | None = None,
    group: int = 1,
    offset_group: int = 1,
    **steps: Any,
) -> jax.Array:
    """DeformConv: sum over c and k of w[o, c, k] * mask[k, p] * x[c, p * stride + k * dilation + offset[k, p]] + b[o].

    Between the elements of x it interpolates linearly, and beyond them are zeros. Each of `offset_group` groups of
    channels has offsets and masks of its own. Floats of 16 bits are computed in float32 and rounded once.
    """
    windows = filter_windows(x, w, group=group, **steps)
    check_bias(b, w.shape[0])
    if offset_group < 1 or x.shape[1] % offset_group:
        raise ConstraintError(f"offset_group must divide the {x.shape[1]} channels, but it is {offset_group}")
    if not 0 < prod(x.shape[2:]) < 2**30:
        rule = "a channel of x must have from 1 to 2**30 - 1 elements"
        raise ConstraintError(f"{rule}, but its sizes are {x.shape[2:]}")
    batch, counts = x.shape[0], tuple(dim.count for dim in windows)
    rank, taps, places = len(windows), prod(w.shape[2:]), prod(counts)
    check_shape("offset", offset, (batch, offset_group * taps * rank, *counts))
    check_shape("mask", mask, (batch, offset_group * taps, *counts))
    # The batch and the groups of offsets are one dimension; the places of windows stand before their elements.
    shifts = as_wide(offset).reshape(batch * offset_group, taps, rank, places).transpose(0, 3, 1, 2)
    positions = shifts + jnp.asarray(_window_elements(windows), shifts.dtype)[None]
    pictures = as_wide(x).reshape(batch * offset_group, x.shape[1] // offset_group, *x.shape[2:])
    samples = sample_pixels(pictures, positions.reshape(batch * offset_group, places * taps, rank))
    if mask is not None:
        factors = as_wide(mask).reshape(batch * offset_group, taps, places).swapaxes(1, 2)
        samples = samples * factors.reshape(batch * offset_group, 1, places * taps)
    rows = samples.reshape(batch, x.shape[1], places * taps)
    filters = as_wide(w).reshape(*w.shape[:2], taps)
    y = conv(x=rows, w=filters, b=None if b is None else as_wide(b), group=group, strides=[taps])
    return narrow_apart(jnp.asarray(y), x.dtype).reshape(batch, w.shape[0], *counts)


def _window_elements(windows: Sequence[Windows]) -> np.ndarray:
    """Returns where the elements of windows lie without offsets: [windows, elements of one, coordinates].

    Of 3 elements, windows of 2, padding of 1: [[[-1], [0]], [[0], [1]], [[1], [2]], [[2], [3]]]
    """
    rank = len(windows)
    grid = np.indices([dim.count for dim in windows] + [dim.window for dim in windows])
    along = [grid[d] * dim.stride - dim.start + grid[rank + d] * dim.dilation for d, dim in enumerate(windows)]
    return np.stack(along, -1).reshape(-1, prod(dim.window for dim in windows), rank)


OPERATORS: Operators = {"DeformConv": {19: deform_conv}}
