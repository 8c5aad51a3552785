"""DEPTH_TO_SPACE and DEPTH_TO_SPACE1: blocks of channels become blocks of pixels."""

from __future__ import annotations

import jax

from ..core.arguments.kinds import Data, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import Operands, at_least, sizes_follow
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

__all__ = ["DepthSpaceOrder", "DepthToSpace1Desc", "DepthToSpaceDesc", "depth_to_space"]

CHANNELS = divisible("channels", 2)
RULES = (*SHARED, CHANNELS)


@operator(*RULES, dims=dims_of("space"))
def depth_to_space(
    input: Data,
    block_size: int,
    *,
    order: Order = DepthSpaceOrder.DEPTH_COLUMN_ROW,
    data_format: DataFormat = "NCHW",
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Moves blocks of channels of `input` into blocks of rows and columns; inverts `space_to_depth`.

    output[n, c, h*B + y, w*B + x] = input[n, (y*B + x)*Co + c, h, w] for DEPTH_COLUMN_ROW, and
    input[n, c*B*B + y*B + x, h, w] for COLUMN_ROW_DEPTH, with B = block_size and Co = C / (B*B).

    Args:
      input: [..., C, H, W], or [..., H, W, C] with data_format="NHWC"; any dtype that JAX moves. C is a multiple of
        block_size * block_size.
      block_size: height and width of a block, at least 1.
      order: a `DepthSpaceOrder`, or its name: ONNX's, "DCR" or "CRD", or DirectML's.
      data_format: "NCHW" or "NHWC".
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array of shape [..., C/(B*B), H*B, W*B] (its NHWC counterpart) and the dtype of `input`.

    Raises:
      ConstraintError: rank below 3, C is no such multiple, or an unknown `order` or `data_format`.
      DataTypeError: `block_size` is not an integer, or 64-bit `input` while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.arange(8, dtype=np.uint32).reshape(1, 8, 1, 1)
      >>> print(dml_jax.depth_to_space(x, 2)[0])
      [[[0 2]
        [4 6]]
      <BLANKLINE>
       [[1 3]
        [5 7]]]
      >>> print(dml_jax.depth_to_space(x, 2, order="CRD")[0])
      [[[0 1]
        [2 3]]
      <BLANKLINE>
       [[4 5]
        [6 7]]]

    Source: DML_DEPTH_TO_SPACE1_OPERATOR_DESC (and DML_DEPTH_TO_SPACE_OPERATOR_DESC for DEPTH_COLUMN_ROW). DirectML
      gives no range for the block size; 1, the identity, is accepted here.
    """
    return move_blocks(input, "space", block_size=block_size, order=order, data_format=data_format)


def _space(x: Operands) -> tuple[int, ...] | None:
    sizes, b = nchw_sizes(x, CHANNELS), x["block_size"]
    return None if sizes is None else (sizes[0], sizes[1] // (b * b), sizes[2] * b, sizes[3] * b)


STRUCT_RULES = (
    at_least("block_size", 1),
    CHANNELS,
    sizes_follow("output", _space, "(N, C / {block_size}**2, H * {block_size}, W * {block_size})"),
)


class _VersionDesc(OperatorDesc, is_base=True):
    """The base of both versions.

    Args:
      input: exactly 4-D, (N, C, H, W); C is a multiple of block_size**2.
      output: (N, C / block_size**2, H * block_size, W * block_size).
    """

    input: Input
    output: Output
    block_size: BlockSize

    moves_words = True

    constraints = STRUCT_RULES

    def compute_checked(self, input: jax.Array) -> jax.Array:
        return run_in_memory_format(self, depth_to_space, input)


class DepthToSpaceDesc(_VersionDesc):
    """DML_DEPTH_TO_SPACE_OPERATOR_DESC: moves blocks of channels into rows and columns, DEPTH_COLUMN_ROW.

    Example:
      >>> DepthToSpaceDesc(
      ...     input=TensorDesc("UINT32", (1, 8, 1, 1)), output=TensorDesc("UINT32", (1, 2, 2, 2)), block_size=2
      ... ).compute(np.arange(8, dtype=np.uint32).reshape(1, 8, 1, 1)).ravel()
      Array([0, 2, 4, 6, 1, 3, 5, 7], dtype=uint32)

    Source: DML_DEPTH_TO_SPACE_OPERATOR_DESC. It gives no range for BlockSize; at least 1 is the choice made here.
    """

    support = SINCE_1_0


class DepthToSpace1Desc(_VersionDesc):
    """DML_DEPTH_TO_SPACE1_OPERATOR_DESC: moves blocks of channels into rows and columns, in either order.

    Example:
      >>> DepthToSpace1Desc(
      ...     input=TensorDesc("UINT32", (1, 8, 1, 1)), output=TensorDesc("UINT32", (1, 2, 2, 2)), block_size=2,
      ...     order="COLUMN_ROW_DEPTH",
      ... ).compute(np.arange(8, dtype=np.uint32).reshape(1, 8, 1, 1)).ravel()
      Array([0, 1, 2, 3, 4, 5, 6, 7], dtype=uint32)

    Source: DML_DEPTH_TO_SPACE1_OPERATOR_DESC. It gives no range for BlockSize; at least 1 is the choice made here.
    """

    order: FieldOrder

    support = SINCE_2_1
