"""ONNX's AffineGrid: the positions that GridSample reads for an affine transformation of pictures or volumes."""

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import ConstraintError
from ..operations.values.accumulation_types import narrow_apart
from .layout import sizes_of
from .operand_checks import check_shape
from .values import Array, Operators, as_wide


def affine_grid(*, theta: Array, size: Array, align_corners: int) -> jax.Array:
    """AffineGrid: theta times (x, y, 1), or (x, y, z, 1), of each element of a picture of `size`.

    Coordinates reach from -1 to 1, from border to border or, with `align_corners`, from the centre of the first
    element to that of the last one; then that of a single element is 0.
    """
    sizes = sizes_of("size", size)
    rank = len(sizes) - 2
    if rank not in (2, 3):
        raise ConstraintError(f"size must be (N, C, H, W) or (N, C, D, H, W), but it has {len(sizes)} numbers")
    check_shape("theta", theta, (sizes[0], rank, rank + 1))
    *factors, grid = jnp.moveaxis(as_wide(theta).reshape(-1, *(1,) * rank, rank, rank + 1), -1, 0)
    for factor, axis in zip(factors, reversed(range(1, rank + 1)), strict=True):  # x is the last spatial dimension
        positions = _positions(sizes[axis + 1], bool(align_corners)).astype(grid.dtype)
        grid = grid + factor * positions.reshape([-1 if d == axis else 1 for d in range(rank + 2)])
    return narrow_apart(grid, theta.dtype)


def _positions(size: int, is_aligned: bool) -> np.ndarray:
    """Returns the coordinates of the centres of elements."""
    return (2 * np.arange(size) - (size - 1)) / max(1, size - is_aligned)


OPERATORS: Operators = {"AffineGrid": {20: affine_grid}}
