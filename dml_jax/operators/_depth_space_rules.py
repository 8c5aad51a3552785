"""Orders, data formats and rules of depth to space and its inverse, and how their structs run."""

import enum
from collections.abc import Callable
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp

from ..core.arguments.kinds import attribute
from ..core.rules import Operands, Rule, at_least, custom, minimum_rank, one_of
from ..core.sharding import Dims, names_of
from ..core.structs.feature_level_tables import ALL_TYPES, FLOATS, RANK_4, UP_TO_32_BITS, Support, levels
from ..core.structs.field_types import Named
from ..core.structs.fields import UInt, named
from ..core.tensors.tensor_desc import TensorDesc
from ..errors import ConstraintError, hint, message
from ..operations.depth_space import Blocks, rearrange


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
_ONNX_NAMES = {order: name for name, order in reversed(ORDERS.items())}


def _as_order(operator: str, name: str, order: Any) -> DepthSpaceOrder:
    if type(order) is DepthSpaceOrder:
        return order
    if isinstance(order, str) and order in ORDERS:
        return ORDERS[order]
    rule = f"{name} must be a DepthSpaceOrder, or one of {', '.join(map(repr, ORDERS))}"
    raise ConstraintError(message(operator, rule, f"it is {order!r}{hint(order, ORDERS)}", {name: order}))


Order = Annotated[DepthSpaceOrder | OrderName, attribute(_as_order, *ORDERS, shown="DepthSpaceOrder | str")]
# Fields of structs.
FieldOrder = Annotated[
    Named[DepthSpaceOrder],
    named(DepthSpaceOrder, "DML_DEPTH_SPACE_ORDER_", ORDERS),
    "a `DepthSpaceOrder`, or its name: DirectML's, in full or as suffix: DEPTH_COLUMN_ROW, COLUMN_ROW_DEPTH; or\n"
    "    ONNX's: DCR, CRD.",
]
BlockSize = Annotated[UInt, "at least 1."]

# The newest first, as DirectML's reference prints them.
_ROWS = (("5_0", RANK_4, ALL_TYPES), ("2_1", RANK_4, UP_TO_32_BITS))
SINCE_2_1: tuple[Support, ...] = levels(*_ROWS)
SINCE_1_0: tuple[Support, ...] = levels(*_ROWS, ("1_0", RANK_4, FLOATS))

# A struct has no data format: its tensors are NCHW, of any strides.
_POSITION = {"NCHW": {"channels": -3, "rows": -2, "columns": -1}, "NHWC": {"rows": -3, "columns": -2, "channels": -1}}
SHARED = (minimum_rank("input", 3), at_least("block_size", 1), one_of("data_format", tuple(_POSITION)))


def _size(x: Operands, dimension: str) -> int | None:
    """Returns the size of a dimension of the input; None if another rule is broken."""
    data_format = x.get("data_format", "NCHW")
    if x["block_size"] < 1 or data_format not in _POSITION or len(x["input"].shape) < 3:
        return None
    return x["input"].shape[_POSITION[data_format][dimension]]


def divisible(dimension: str, power: int) -> Rule:
    """The size of one dimension of the input is a multiple of the block size, to the power `power`."""

    def broken_by(x: Operands) -> str | None:
        size, divisor = _size(x, dimension), x["block_size"] ** power
        return f"{size} % {divisor} = {size % divisor}" if size is not None and size % divisor else None

    divisor = "{block_size}" if power == 1 else "{block_size} * {block_size}"
    return custom(f"divisible({dimension})", f"the {dimension} of {{input}} must be a multiple of {divisor}", broken_by)


def nchw_sizes(x: Operands, *rules: Rule) -> tuple[int, int, int, int] | None:
    """Returns the sizes of a struct's input; None if a rule is broken."""
    broken = len(x["input"].sizes) != 4 or x["block_size"] < 1 or any(rule.broken_by(x) for rule in rules)
    return None if broken else x["input"].sizes


def _blocks(x: Operands, to: str) -> Blocks:
    return Blocks(to, _ONNX_NAMES[x["order"]], x["data_format"], x["block_size"])


def dims_of(to: str) -> Callable[[Operands], Dims]:
    """Returns names for the dimensions; a dimension that merges several is named after the outermost one."""

    def dims(x: Operands) -> Dims:
        blocks, lead = _blocks(x, to), names_of(x, "input")[:-3]
        before, after = ([*lead, *(word[0] for word in side)] for side in (blocks.source, blocks.target))
        return Dims({"input": before}, after, after)

    return dims


def move_blocks(input: Any, to: str, **attributes: Any) -> jax.Array:
    """Moves the blocks of `input`; `to` is "space" or "depth"."""
    return rearrange(input, _blocks(attributes, to))


def run_in_memory_format(desc: Any, function: Callable[..., jax.Array], input: jax.Array) -> jax.Array:
    """Computes a struct on NCHW arrays, or on NHWC ones if its output stores channels last, which saves a transpose."""
    output: TensorDesc = desc.output
    attributes = {"block_size": desc.block_size, "order": getattr(desc, "order", DepthSpaceOrder.DEPTH_COLUMN_ROW)}
    if output.strides is None or output.strides[1] >= min(output.strides[2:]):
        return function(input, **attributes)
    rearranged = function(jnp.transpose(input, (0, 2, 3, 1)), **attributes, data_format="NHWC")
    return jnp.transpose(rearranged, (0, 3, 1, 2))
