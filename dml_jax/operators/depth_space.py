"""The inverse pair `depth_to_space` and `space_to_depth`, in both orders and both data formats."""

from __future__ import annotations

import enum
from functools import partial
from typing import Any, Literal

import jax
import numpy as np

from ..core.arguments import as_data, as_int, as_name
from ..core.rules import Operands, Rule, at_least, check, custom, minimum_rank, one_of
from ..core.sharding import Dims, OutSharding, as_out_sharding, on_mesh
from ..errors import ConstraintError, message
from ..lowering.depth_space import rearranged
from ..lowering.forms import forced_form

__all__ = ["DepthSpaceOrder", "depth_to_space", "space_to_depth"]


class DepthSpaceOrder(enum.IntEnum):
    """DML_DEPTH_SPACE_ORDER: how the depth dimension is laid out, outermost first.

    DEPTH_COLUMN_ROW is ONNX's "DCR", (block row, block column, channel); COLUMN_ROW_DEPTH is ONNX's "CRD",
    (channel, block row, block column).
    """

    DEPTH_COLUMN_ROW = 0
    COLUMN_ROW_DEPTH = 1


OrderName = Literal["DCR", "CRD", "DEPTH_COLUMN_ROW", "COLUMN_ROW_DEPTH"]
DataFormat = Literal["NCHW", "NHWC"]

# By ONNX's names, then by DirectML's.
ORDERS = {
    "DCR": DepthSpaceOrder.DEPTH_COLUMN_ROW,
    "CRD": DepthSpaceOrder.COLUMN_ROW_DEPTH,
    **DepthSpaceOrder.__members__,
}

# The dimensions of both sides, outermost first: c channel, h row of blocks, w column of blocks,
# y row inside a block, x column inside a block. Letters in one word are merged.
_DEPTH_SIDE = {
    ("NCHW", DepthSpaceOrder.DEPTH_COLUMN_ROW): ("yxc", "h", "w"),
    ("NCHW", DepthSpaceOrder.COLUMN_ROW_DEPTH): ("cyx", "h", "w"),
    ("NHWC", DepthSpaceOrder.DEPTH_COLUMN_ROW): ("h", "w", "yxc"),
    ("NHWC", DepthSpaceOrder.COLUMN_ROW_DEPTH): ("h", "w", "cyx"),
}
_SPACE_SIDE = {"NCHW": ("c", "hy", "wx"), "NHWC": ("hy", "wx", "c")}
_POSITION = {"NCHW": {"channels": -3, "rows": -2, "columns": -1}, "NHWC": {"rows": -3, "columns": -2, "channels": -1}}


def _divisible(dimension: str, power: int) -> Rule:
    """The size of one dimension of the input is a multiple of a power of the block size."""

    def broken_by(x: Operands) -> str | None:
        if x["block_size"] < 1 or x["data_format"] not in _POSITION or len(x["input"].shape) < 3:
            return None
        size, divisor = x["input"].shape[_POSITION[x["data_format"]][dimension]], x["block_size"] ** power
        return f"{size} % {divisor} = {size % divisor}" if size % divisor != 0 else None

    divisor = "{block_size}" if power == 1 else "{block_size} * {block_size}"
    return custom(f"divisible({dimension})", f"the {dimension} of {{input}} must be a multiple of {divisor}", broken_by)


def _too_large(x: Operands) -> str | None:
    """An empty picture is divisible by any block size."""
    return None if x["block_size"] ** 2 < 2**31 else f"{x['block_size']} is too large"


_SHARED = (minimum_rank("input", 3), at_least("block_size", 1), one_of("data_format", tuple(_POSITION)))
DEPTH_TO_SPACE = (*_SHARED, _divisible("channels", 2))
SPACE_TO_DEPTH = (
    *_SHARED,
    _divisible("rows", 1),
    _divisible("columns", 1),
    custom("block_fits", "{block_size} * {block_size} must be below 2**31", _too_large),
)


def depth_to_space(
    input: jax.Array | np.ndarray,
    block_size: int,
    *,
    order: DepthSpaceOrder | OrderName = DepthSpaceOrder.DEPTH_COLUMN_ROW,
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
      out_sharding: of the output on a mesh, a NamedSharding or PartitionSpec; by default it follows from the operands.

    Returns:
      An array of shape [..., C/(B*B), H*B, W*B] (its NHWC counterpart) and the dtype of `input`.

    Raises:
      ConstraintError: rank below 3, C is no such multiple, or an unknown `order` or `data_format`.
      DataTypeError: `block_size` is no integer, or 64-bit `input` while x64 is off.

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
    operator = "depth_to_space"
    return _depth_to_space(
        as_data(operator, "input", input),
        block_size=as_int(operator, "block_size", block_size),
        order=_as_order(operator, order),
        data_format=as_name(operator, "data_format", data_format),
        form=forced_form(),
        out_sharding=as_out_sharding(operator, out_sharding),
    )


def space_to_depth(
    input: jax.Array | np.ndarray,
    block_size: int,
    *,
    order: DepthSpaceOrder | OrderName = DepthSpaceOrder.DEPTH_COLUMN_ROW,
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
      out_sharding: of the output on a mesh, a NamedSharding or PartitionSpec; by default it follows from the operands.

    Returns:
      An array of shape [..., C*B*B, H/B, W/B] (its NHWC counterpart) and the dtype of `input`.

    Raises:
      ConstraintError: rank below 3, H or W is no such multiple, or an unknown `order` or `data_format`.
      DataTypeError: `block_size` is no integer, or 64-bit `input` while x64 is off.

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
    operator = "space_to_depth"
    return _space_to_depth(
        as_data(operator, "input", input),
        block_size=as_int(operator, "block_size", block_size),
        order=_as_order(operator, order),
        data_format=as_name(operator, "data_format", data_format),
        form=forced_form(),
        out_sharding=as_out_sharding(operator, out_sharding),
    )


_STATIC = ("block_size", "order", "data_format", "form", "out_sharding")


@partial(jax.jit, static_argnames=_STATIC)
def _depth_to_space(
    input: jax.Array,
    *,
    block_size: int,
    order: DepthSpaceOrder,
    data_format: str,
    form: str | None,
    out_sharding: OutSharding,
) -> jax.Array:
    operands = {"input": input, "block_size": block_size, "order": order, "data_format": data_format}
    check("depth_to_space", DEPTH_TO_SPACE, operands)
    sides = _DEPTH_SIDE[data_format, order], _SPACE_SIDE[data_format]
    return _rearranged("depth_to_space", input, *sides, block_size, form, out_sharding)


@partial(jax.jit, static_argnames=_STATIC)
def _space_to_depth(
    input: jax.Array,
    *,
    block_size: int,
    order: DepthSpaceOrder,
    data_format: str,
    form: str | None,
    out_sharding: OutSharding,
) -> jax.Array:
    operands = {"input": input, "block_size": block_size, "order": order, "data_format": data_format}
    check("space_to_depth", SPACE_TO_DEPTH, operands)
    sides = _SPACE_SIDE[data_format], _DEPTH_SIDE[data_format, order]
    return _rearranged("space_to_depth", input, *sides, block_size, form, out_sharding)


def _rearranged(
    operator: str,
    input: jax.Array,
    source: tuple[str, ...],
    target: tuple[str, ...],
    block_size: int,
    form: str | None,
    out_sharding: OutSharding,
) -> jax.Array:
    # A merged dimension is sharded along its outermost part.
    lead = [f"input {d}" for d in range(input.ndim - 3)]
    before, after = ([*lead, *(word[0] for word in side)] for side in (source, target))
    return on_mesh(
        operator,
        lambda input: rearranged(input, source, target, block_size, form),
        Dims({"input": before}, after),
        out_sharding,
        input=input,
    )


def _as_order(operator: str, order: Any) -> DepthSpaceOrder:
    if type(order) is DepthSpaceOrder:
        return order
    if isinstance(order, str) and order in ORDERS:
        return ORDERS[order]
    rule = f"order must be a DepthSpaceOrder, or one of {', '.join(map(repr, ORDERS))}"
    raise ConstraintError(message(operator, rule, f"it is {order!r}", {"order": order}))
