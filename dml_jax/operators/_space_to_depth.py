"""SPACE_TO_DEPTH and SPACE_TO_DEPTH1: blocks of pixels become blocks of channels."""

from __future__ import annotations

import jax

from ..core.arguments.kinds import Data, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import Operands, at_least, custom, sizes_follow
from ..core.structs.fields import Input, Output
from ..core.structs.operator_desc import OperatorDesc
from ._depth_space_rules import (
    SHARED,
    SINCE_1_0,
    SINCE_2_1,
    BlockSize,
    DataFormat,
    DepthSpaceOrder,
    FieldOrder,
    Order,
    dims_of,
    divisible,
    move_blocks,
    nchw_sizes,
    run_in_memory_format,
)

__all__ = ["SpaceToDepth1Desc", "SpaceToDepthDesc", "space_to_depth"]


def _too_large(x: Operands) -> str | None:
    """An empty picture is divisible by any block size."""
    return None if x["block_size"] ** 2 < 2**31 else f"{x['block_size']} is too large"


PIXELS = (divisible("rows", 1), divisible("columns", 1))
RULES = (*SHARED, *PIXELS, custom("block_fits", "{block_size} * {block_size} must be below 2**31", _too_large))


@operator(*RULES, dims=dims_of("depth"))
def space_to_depth(
    input: Data,
    block_size: int,
    *,
    order: Order = DepthSpaceOrder.DEPTH_COLUMN_ROW,
    data_format: DataFormat = "NCHW",
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Moves blocks of rows and columns of `input` into channels; inverts `depth_to_space`.

    output[n, (y*B + x)*C + c, h, w] = input[n, c, h*B + y, w*B + x] for DEPTH_COLUMN_ROW, and
    output[n, c*B*B + y*B + x, h, w] is the same for COLUMN_ROW_DEPTH, with B = block_size.

    Args:
      input: [..., C, H, W], or [..., H, W, C] with data_format="NHWC"; any dtype that JAX moves. H and W are
        multiples of block_size.
      block_size: height and width of a block, at least 1.
      order: a `DepthSpaceOrder`, or its name: ONNX's, "DCR" or "CRD", or DirectML's.
      data_format: "NCHW" or "NHWC".
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array of shape [..., C*B*B, H/B, W/B] (its NHWC counterpart) and the dtype of `input`.

    Raises:
      ConstraintError: rank below 3, H or W is no such multiple, or an unknown `order` or `data_format`.
      DataTypeError: `block_size` is not an integer, or 64-bit `input` while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.arange(8, dtype=np.uint32).reshape(1, 2, 2, 2)
      >>> print(dml_jax.space_to_depth(x, 2).ravel())
      [0 4 1 5 2 6 3 7]
      >>> print(dml_jax.space_to_depth(x, 2, order="CRD").ravel())
      [0 1 2 3 4 5 6 7]

    Source: DML_SPACE_TO_DEPTH1_OPERATOR_DESC (and DML_SPACE_TO_DEPTH_OPERATOR_DESC for DEPTH_COLUMN_ROW). DirectML
      gives no range for the block size; 1, the identity, is accepted here.
    """
    return move_blocks(input, "depth", block_size=block_size, order=order, data_format=data_format)


def _depth(x: Operands) -> tuple[int, ...] | None:
    sizes, b = nchw_sizes(x, *PIXELS), x["block_size"]
    return None if sizes is None else (sizes[0], sizes[1] * b * b, sizes[2] // b, sizes[3] // b)


STRUCT_RULES = (
    at_least("block_size", 1),
    *PIXELS,
    sizes_follow("output", _depth, "(N, C * {block_size}**2, H / {block_size}, W / {block_size})"),
)


class _VersionDesc(OperatorDesc, is_base=True):
    """The base of both versions.

    Args:
      input: exactly 4-D, (N, C, H, W); H and W are multiples of block_size.
      output: (N, C * block_size**2, H / block_size, W / block_size).
    """

    input: Input
    output: Output
    block_size: BlockSize

    moves_words = True

    constraints = STRUCT_RULES

    def compute_checked(self, input: jax.Array) -> jax.Array:
        return run_in_memory_format(self, space_to_depth, input)


class SpaceToDepthDesc(_VersionDesc):
    """DML_SPACE_TO_DEPTH_OPERATOR_DESC: moves blocks of rows and columns into channels, DEPTH_COLUMN_ROW.

    Example:
      >>> SpaceToDepthDesc(
      ...     input=TensorDesc("UINT32", (1, 2, 2, 2)), output=TensorDesc("UINT32", (1, 8, 1, 1)), block_size=2
      ... ).compute(np.arange(8, dtype=np.uint32).reshape(1, 2, 2, 2)).ravel()
      Array([0, 4, 1, 5, 2, 6, 3, 7], dtype=uint32)

    Source: DML_SPACE_TO_DEPTH_OPERATOR_DESC. Its page prints the output sizes of DEPTH_TO_SPACE; its example is
      followed here. It gives no range for BlockSize; at least 1 is the choice made here.
    """

    support = SINCE_1_0


class SpaceToDepth1Desc(_VersionDesc):
    """DML_SPACE_TO_DEPTH1_OPERATOR_DESC: moves blocks of rows and columns into channels, in either order.

    Example:
      >>> SpaceToDepth1Desc(
      ...     input=TensorDesc("UINT32", (1, 2, 2, 2)), output=TensorDesc("UINT32", (1, 8, 1, 1)), block_size=2,
      ...     order="COLUMN_ROW_DEPTH",
      ... ).compute(np.arange(8, dtype=np.uint32).reshape(1, 2, 2, 2)).ravel()
      Array([0, 1, 2, 3, 4, 5, 6, 7], dtype=uint32)

    Source: DML_SPACE_TO_DEPTH1_OPERATOR_DESC. Its page prints the output sizes of DEPTH_TO_SPACE1; its example is
      followed here. It gives no range for BlockSize; at least 1 is the choice made here.
    """

    order: FieldOrder

    support = SINCE_2_1
