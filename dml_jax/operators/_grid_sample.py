"""grid_sample: pictures sampled at positions that are data, as in torch and ONNX. DirectML has none."""

from __future__ import annotations

from math import prod
from typing import Literal, get_args

import jax
import jax.numpy as jnp

from ..core.arguments.kinds import Data, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import Operands, Rule, custom, floats, minimum_rank, numbers, one_of, same_rank
from ..core.sharding import Dims, names_of
from ..errors import DataTypeError
from ..operations.grid_sampling import sample_grid

__all__ = ["grid_sample"]

GridMode = Literal["bilinear", "nearest", "bicubic"]
PaddingMode = Literal["zeros", "border", "reflection"]


def _other_batch(x: Operands) -> str | None:
    batch, grid_batch = x["input"].shape[0], x["grid"].shape[0]
    return None if batch == grid_batch else f"they are {batch} and {grid_batch}"


def _other_coordinates(x: Operands) -> str | None:
    wanted, coordinates = x["input"].ndim - 2, x["grid"].shape[-1]
    return None if wanted == coordinates else f"there are {coordinates} for {wanted}"


def _unweighable(x: Operands) -> str | None:
    dtype = x["input"].dtype
    return None if x["mode"] == "nearest" or jnp.issubdtype(dtype, jnp.floating) else f"it is {dtype}"


def _not_short(x: Operands) -> str | None:
    sizes = tuple(x["input"].shape[2:])
    return None if all(isinstance(n, int) for n in sizes) and 0 < prod(sizes) < 2**30 else f"they are {sizes}"


RULES = (
    numbers("input", with_zero=True),
    Rule(
        "weighable(input)",
        '{input}.{dtype} must be a floating-point type unless {mode} is "nearest"',
        _unweighable,
        DataTypeError,
    ),
    floats("grid"),
    minimum_rank("input", 3),
    same_rank("grid", "input"),
    custom("same_batch", "{grid}.{sizes}[0] must equal {input}.{sizes}[0]", _other_batch),
    custom("coordinates", "{grid}.{sizes}[-1] must be one per spatial dimension of {input}", _other_coordinates),
    custom(
        "short",
        "a channel of {input} must have from 1 to 2**30 - 1 elements, of {sizes} known while tracing",
        _not_short,
    ),
    one_of("mode", get_args(GridMode)),
    one_of("padding_mode", get_args(PaddingMode)),
)


def _dims(x: Operands) -> Dims:
    positions = [f"position {d}" for d in range(1, x["grid"].ndim - 1)]
    spatial = names_of(x, "input")[2:]
    operands = {"input": ["batch", "channel", *spatial], "grid": ["batch", *positions, "coordinate"]}
    return Dims(operands, ["batch", "channel", *positions])


@operator(*RULES, dims=_dims)
def grid_sample(
    input: Data,
    grid: Data,
    *,
    mode: GridMode = "bilinear",
    padding_mode: PaddingMode = "zeros",
    align_corners: bool = False,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Reads pictures at positions that `grid` holds, between their elements too, as torch's function of that name.

    output[n, c, p] = the sum over the neighbours e of grid[n, p] of weight(e) * input[n, c, e]

    A coordinate of -1 is one end of a dimension and 1 the other. The element i of S lies at (2 * i + 1) / S - 1: the
    ends are the edges of the outermost elements. With `align_corners` it lies at 2 * i / (S - 1) - 1, and the ends are
    their centres.

    Args:
      input: [N, C, S_1, ..., S_d], d >= 1, floats of any width, with 0 among them; for "nearest" any dtype with a 0.
      grid: [N, P_1, ..., P_d, d], floats of any width: the coordinates of each position, in the order x, y, z: the
        first one is that along S_d.
      mode: how neighbours count: "bilinear" weighs two along each dimension by distance, "bicubic" four by cubic
        convolution with the coefficient -0.75, and "nearest" copies the bits of one, halfway the one of even index.
      padding_mode: the elements beyond the ends: "zeros", "border" for the outermost element, "reflection", which
        throws positions back at the ends as often as needed.
      align_corners: whether -1 and 1 are the centres of the outermost elements.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array [N, C, P_1, ..., P_d] of the dtype of `input`. 8- and 16-bit floats are weighed and added in float32, and
      rounded once; positions of 8 and 16 bits are computed in float32 too.

    Raises:
      ConstraintError: ranks below 3, other ranks or batches, not a coordinate per spatial dimension, none or 2**30
        elements in a channel, sizes of it that are not known, an unknown `mode` or `padding_mode`.
      DataTypeError: `grid` has no floats, nor has `input` unless `mode` is "nearest", or there is 64-bit data while x64
        is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> picture = np.float32([[[[1, 2, 3], [4, 5, 6]]]])
      >>> grid = np.float32([[[[-1, -1], [0, 0], [1, 0.5]]]])  # (x, y) of three positions
      >>> print(dml_jax.grid_sample(picture, grid, align_corners=True))
      [[[[1.   3.5  5.25]]]]

    Source: torch.nn.functional.grid_sample, and GridSample of ONNX. DirectML has no operator for
      this, only DML_RESAMPLE3_OPERATOR_DESC, whose positions are no data.
    """
    positions = jnp.asarray(grid).reshape(grid.shape[0], prod(grid.shape[1:-1]), grid.shape[-1])
    samples = sample_grid(jnp.asarray(input), positions, mode, padding_mode, align_corners)
    return samples.reshape(*samples.shape[:2], *grid.shape[1:-1])
