"""The descriptors of DEPTH_TO_SPACE, SPACE_TO_DEPTH and their versions with an order."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from ..core.data_type import as_integer
from ..core.desc import OperatorDesc
from ..core.rules import Fact, Operands, Rule, at_least, custom, sizes_follow
from ..core.struct_rules import shared_by_all
from ..core.support import DEPTH_SPACE, DEPTH_SPACE_1_0, Support
from ..core.tensor import TensorDesc
from ..errors import ConstraintError, describe, message
from ..operators import depth_space as functions
from ..operators.depth_space import DepthSpaceOrder

__all__ = ["DepthToSpace1Desc", "DepthToSpaceDesc", "SpaceToDepth1Desc", "SpaceToDepthDesc"]


def _measurable(x: Operands) -> bool:
    return len(x["input"].sizes) == 4 and x["block_size"] >= 1


def _divisible(name: str, text: str, axes: tuple[int, ...], power: int) -> Rule:
    """Some sizes of the input are multiples of a power of the block size."""

    def broken_by(x: Operands) -> Fact:
        if not _measurable(x):
            return None
        divisor = x["block_size"] ** power
        bad = [n for n in (x["input"].sizes[a] for a in axes) if n % divisor]
        return f"{bad[0]} % {divisor} = {bad[0] % divisor}" if bad else None

    return custom(name, text, broken_by)


CHANNELS = _divisible("divisible(channels)", "{input}.{sizes}[1] must be a multiple of {block_size}**2", (1,), 2)
PIXELS = _divisible("divisible(pixels)", "{input}.{sizes}[2:] must be multiples of {block_size}", (2, 3), 1)


def _space(x: Operands) -> tuple[int, ...] | None:
    if not _measurable(x) or CHANNELS.broken_by(x):
        return None
    (n, c, h, w), b = x["input"].sizes, x["block_size"]
    return n, c // (b * b), h * b, w * b


def _depth(x: Operands) -> tuple[int, ...] | None:
    if not _measurable(x) or PIXELS.broken_by(x):
        return None
    (n, c, h, w), b = x["input"].sizes, x["block_size"]
    return n, c * b * b, h // b, w // b


def _in_memory_format(written: TensorDesc, function: Any, input: Any, **attributes: Any) -> jax.Array:
    """Runs a function on NCHW arrays, or on NHWC ones if the output stores channels last: XLA then merges in place."""
    strides = written.strides
    if strides is None or strides[1] >= min(strides[2:]):
        return function(input, **attributes)
    output = function(jnp.transpose(input, (0, 2, 3, 1)), **attributes, data_format="NHWC")
    return jnp.transpose(output, (0, 3, 1, 2))


_SHARED = (*shared_by_all("input", "output"), at_least("block_size", 1))
TO_SPACE = (
    *_SHARED,
    CHANNELS,
    sizes_follow("output", _space, "(N, C / {block_size}**2, H * {block_size}, W * {block_size})"),
)
TO_DEPTH = (
    *_SHARED,
    PIXELS,
    sizes_follow("output", _depth, "(N, C * {block_size}**2, H / {block_size}, W / {block_size})"),
)


@dataclass(frozen=True)
class DepthToSpaceDesc(OperatorDesc):
    """DML_DEPTH_TO_SPACE_OPERATOR_DESC: moves blocks of channels into rows and columns, DEPTH_COLUMN_ROW.

    Args:
      input: exactly 4-D, (N, C, H, W); C is a multiple of block_size**2.
      output: (N, C / block_size**2, H * block_size, W * block_size).
      block_size: at least 1.

    Raises:
      ConstraintError: a rule of `DepthToSpaceDesc.wordings()` is broken.
      DataTypeError: a data type that DirectML does not take here.

    Example:
      >>> import numpy as np
      >>> from dml_jax import DepthToSpaceDesc, TensorDesc
      >>> DepthToSpaceDesc(
      ...     input=TensorDesc("UINT32", (1, 8, 1, 1)), output=TensorDesc("UINT32", (1, 2, 2, 2)), block_size=2
      ... ).compute(np.arange(8, dtype=np.uint32).reshape(1, 8, 1, 1)).ravel()
      Array([0, 2, 4, 6, 1, 3, 5, 7], dtype=uint32)

    Source: DML_DEPTH_TO_SPACE_OPERATOR_DESC. It gives no range for BlockSize; at least 1 is the choice made here.
    """

    input: TensorDesc
    output: TensorDesc
    block_size: int

    operator_type: ClassVar[str] = "DEPTH_TO_SPACE"
    support: ClassVar[tuple[Support, ...]] = DEPTH_SPACE_1_0
    constraints: ClassVar[tuple[Rule, ...]] = TO_SPACE

    def compute_checked(self, input: Any) -> "jax.Array":
        return _in_memory_format(self.output, functions.depth_to_space, input, block_size=self.block_size)


@dataclass(frozen=True)
class SpaceToDepthDesc(OperatorDesc):
    """DML_SPACE_TO_DEPTH_OPERATOR_DESC: moves blocks of rows and columns into channels, DEPTH_COLUMN_ROW.

    Args:
      input: exactly 4-D, (N, C, H, W); H and W are multiples of block_size.
      output: (N, C * block_size**2, H / block_size, W / block_size).
      block_size: at least 1.

    Raises:
      ConstraintError: a rule of `SpaceToDepthDesc.wordings()` is broken.
      DataTypeError: a data type that DirectML does not take here.

    Example:
      >>> import numpy as np
      >>> from dml_jax import SpaceToDepthDesc, TensorDesc
      >>> SpaceToDepthDesc(
      ...     input=TensorDesc("UINT32", (1, 2, 2, 2)), output=TensorDesc("UINT32", (1, 8, 1, 1)), block_size=2
      ... ).compute(np.arange(8, dtype=np.uint32).reshape(1, 2, 2, 2)).ravel()
      Array([0, 4, 1, 5, 2, 6, 3, 7], dtype=uint32)

    Source: DML_SPACE_TO_DEPTH_OPERATOR_DESC. Its page prints the output sizes of DEPTH_TO_SPACE; its example is
      followed here. It gives no range for BlockSize; at least 1 is the choice made here.
    """

    input: TensorDesc
    output: TensorDesc
    block_size: int

    operator_type: ClassVar[str] = "SPACE_TO_DEPTH"
    support: ClassVar[tuple[Support, ...]] = DEPTH_SPACE_1_0
    constraints: ClassVar[tuple[Rule, ...]] = TO_DEPTH

    def compute_checked(self, input: Any) -> "jax.Array":
        return _in_memory_format(self.output, functions.space_to_depth, input, block_size=self.block_size)


@dataclass(frozen=True)
class OrderedDesc(OperatorDesc):
    """A descriptor with the field `order`, which is given by name too."""

    input: TensorDesc
    output: TensorDesc
    block_size: int
    order: DepthSpaceOrder

    def __init__(self, input: TensorDesc, output: TensorDesc, block_size: int, order: DepthSpaceOrder | str):
        for name, value in zip(self.field_names(), (input, output, block_size, order), strict=True):
            object.__setattr__(self, name, value)
        self.__post_init__()

    @classmethod
    def _as_field(cls, name: str, value: Any) -> Any:
        return as_order(cls.operator_type, value) if name == "order" else super()._as_field(name, value)


def as_order(operator_type: str, value: Any) -> DepthSpaceOrder:
    """A `DepthSpaceOrder`, from itself, its number, or its DirectML name in full or as suffix.

    Raises:
      ConstraintError: no such order.
      DataTypeError: neither an integer nor a string.
    """
    name = value.removeprefix("DML_DEPTH_SPACE_ORDER_") if isinstance(value, str) else ""
    if name in DepthSpaceOrder.__members__:
        return DepthSpaceOrder[name]
    if not isinstance(value, str) and as_integer(operator_type, "Order", value) in list(DepthSpaceOrder):
        return DepthSpaceOrder(value)
    rule = f"Order must be one of {', '.join(DepthSpaceOrder.__members__)}"
    raise ConstraintError(message(operator_type, rule, f"it is {describe(value)}", {"Order": value}))


@dataclass(frozen=True, init=False)
class DepthToSpace1Desc(OrderedDesc):
    """DML_DEPTH_TO_SPACE1_OPERATOR_DESC: moves blocks of channels into rows and columns, in either order.

    Args:
      input: exactly 4-D, (N, C, H, W); C is a multiple of block_size**2.
      output: (N, C / block_size**2, H * block_size, W * block_size).
      block_size: at least 1.
      order: a `DepthSpaceOrder`, or its DirectML name in full or as suffix.

    Raises:
      ConstraintError: a rule of `DepthToSpace1Desc.wordings()` is broken, or an unknown order.
      DataTypeError: a data type that DirectML does not take here.

    Example:
      >>> import numpy as np
      >>> from dml_jax import DepthToSpace1Desc, TensorDesc
      >>> DepthToSpace1Desc(
      ...     input=TensorDesc("UINT32", (1, 8, 1, 1)), output=TensorDesc("UINT32", (1, 2, 2, 2)), block_size=2,
      ...     order="COLUMN_ROW_DEPTH",
      ... ).compute(np.arange(8, dtype=np.uint32).reshape(1, 8, 1, 1)).ravel()
      Array([0, 1, 2, 3, 4, 5, 6, 7], dtype=uint32)

    Source: DML_DEPTH_TO_SPACE1_OPERATOR_DESC. It gives no range for BlockSize; at least 1 is the choice made here.
    """

    operator_type: ClassVar[str] = "DEPTH_TO_SPACE1"
    support: ClassVar[tuple[Support, ...]] = DEPTH_SPACE
    constraints: ClassVar[tuple[Rule, ...]] = TO_SPACE

    def compute_checked(self, input: Any) -> "jax.Array":
        return _in_memory_format(
            self.output, functions.depth_to_space, input, block_size=self.block_size, order=self.order
        )


@dataclass(frozen=True, init=False)
class SpaceToDepth1Desc(OrderedDesc):
    """DML_SPACE_TO_DEPTH1_OPERATOR_DESC: moves blocks of rows and columns into channels, in either order.

    Args:
      input: exactly 4-D, (N, C, H, W); H and W are multiples of block_size.
      output: (N, C * block_size**2, H / block_size, W / block_size).
      block_size: at least 1.
      order: a `DepthSpaceOrder`, or its DirectML name in full or as suffix.

    Raises:
      ConstraintError: a rule of `SpaceToDepth1Desc.wordings()` is broken, or an unknown order.
      DataTypeError: a data type that DirectML does not take here.

    Example:
      >>> import numpy as np
      >>> from dml_jax import SpaceToDepth1Desc, TensorDesc
      >>> SpaceToDepth1Desc(
      ...     input=TensorDesc("UINT32", (1, 2, 2, 2)), output=TensorDesc("UINT32", (1, 8, 1, 1)), block_size=2,
      ...     order="COLUMN_ROW_DEPTH",
      ... ).compute(np.arange(8, dtype=np.uint32).reshape(1, 2, 2, 2)).ravel()
      Array([0, 1, 2, 3, 4, 5, 6, 7], dtype=uint32)

    Source: DML_SPACE_TO_DEPTH1_OPERATOR_DESC. Its page prints the output sizes of DEPTH_TO_SPACE1; its example is
      followed here. It gives no range for BlockSize; at least 1 is the choice made here.
    """

    operator_type: ClassVar[str] = "SPACE_TO_DEPTH1"
    support: ClassVar[tuple[Support, ...]] = DEPTH_SPACE
    constraints: ClassVar[tuple[Rule, ...]] = TO_DEPTH

    def compute_checked(self, input: Any) -> "jax.Array":
        return _in_memory_format(
            self.output, functions.space_to_depth, input, block_size=self.block_size, order=self.order
        )
