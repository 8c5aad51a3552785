"""LOCAL_RESPONSE_NORMALIZATION: elements divided by a power of the sum of their neighbours' squares."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..core.arguments.kinds import Data, Flag, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import Operands, at_least, custom, floats, minimum_rank, numbers, same_sizes
from ..core.sharding import Dims, names_of, renamed
from ..core.structs.feature_level_tables import FLOATS, RANK_4, levels
from ..core.structs.fields import Bool, Float, Input, Output, UInt
from ..core.structs.operator_desc import OperatorDesc
from ..operations.sliding_windows import Windows
from ..operations.values.accumulation_types import in_type, narrow_apart, wide_type
from ..operations.values.elementary_functions import divide
from ..operations.window_sums import sum_windows

__all__ = ["LocalResponseNormalizationDesc", "local_response_normalization"]


def _axes(rank: int, cross_channel: bool) -> tuple[int, ...]:
    return (rank - 3,) if cross_channel else (rank - 2, rank - 1)


def _region(size: int, local_size: int) -> Windows:
    """Returns the windows, one around each element, no longer than the dimension reaches to either side."""
    before, after = min((local_size - 1) // 2, max(size - 1, 0)), min(local_size // 2, max(size - 1, 0))
    return Windows(size, before + after + 1, 1, 1, before, after)


def _too_many(x: Operands) -> str | None:
    sizes = x["input"].shape
    if len(sizes) < 3 or _out_of_range(x):
        return None
    for axis in _axes(len(sizes), x["cross_channel"]):
        if not isinstance(sizes[axis], int):
            return f"dimension {axis} is symbolic, {sizes[axis]}"
        elements = _region(sizes[axis], x["local_size"]).window * sizes[axis]
        if elements >= 2**31:
            return f"those along dimension {axis} have {elements}"
    return None


def _out_of_range(x: Operands) -> str | None:
    return None if 1 <= x["local_size"] < 2**32 else f"it is {x['local_size']}"


RULES = (
    numbers("input", with_zero=True),
    floats("input"),
    minimum_rank("input", 3),
    custom("in_range(local_size)", "{local_size} must be in [1, 2**32)", _out_of_range),
    custom(
        "indexable",
        "the regions along a dimension must have fewer than 2**31 elements together, and a known size",
        _too_many,
    ),
)


def _dims(x: Operands) -> Dims:
    """The dimensions along which squares are added up keep no sharding: a device would need elements of others."""
    names = names_of(x, "input")
    return Dims({"input": names}, renamed(names, _axes(len(names), x["cross_channel"])))


@operator(*RULES, dims=_dims)
def local_response_normalization(
    input: Data,
    local_size: int,
    *,
    cross_channel: Flag = True,
    alpha: float = 1e-4,
    beta: float = 0.75,
    bias: float = 1.0,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Divides each element by a power of the sum of squares around it.

    output = input / (bias + alpha / local_size * the sum of input ** 2 over the region) ** beta

    The region of an element has `local_size` channels, of which (local_size - 1) // 2 come before it; or, without
    `cross_channel`, as many rows and columns of its own channel. Elements outside of the input count as 0, and the
    divisor `local_size` stays the same.

    Args:
      input: [..., C, H, W], floats of any width, with 0 among them.
      local_size: elements of a region along each of its dimensions, at least 1 and below 2**32.
      cross_channel: whether a region is of channels.
      alpha: a real number, known while tracing; it is rounded to the type that is computed in.
      beta: as `alpha`.
      bias: as `alpha`.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operand.

    Returns:
      An array of the shape and dtype of `input`. Floats of 8 and 16 bits are computed in float32 and rounded once, at
      the end.

    Raises:
      ConstraintError: rank below 3, or `local_size` out of range.
      DataTypeError: `input` has no floats, no 0, or 64-bit ones while x64 is off; or a number is not of its type.

    Example:
      >>> import numpy as np, dml_jax
      >>> channels = np.float32([1, 2, 2, 4]).reshape(4, 1, 1)
      >>> print(dml_jax.local_response_normalization(channels, 2, alpha=2, beta=1, bias=0).ravel())
      [0.2  0.25 0.1  0.25]

    Source: DML_LOCAL_RESPONSE_NORMALIZATION_OPERATOR_DESC, whose pages contradict each other about CrossChannel; it is
      followed here as ONNX Runtime uses it.
    """
    wide = wide_type(input.dtype)
    array = jnp.asarray(input, wide)
    axes = _axes(array.ndim, cross_channel)
    if 0 in [array.shape[axis] for axis in axes]:
        return jnp.asarray(input)
    squares = sum_windows(array * array, axes, [_region(array.shape[axis], local_size) for axis in axes])
    scale, exponent, offset = (in_type(wide, value) for value in (alpha / local_size, beta, bias))
    return narrow_apart(divide(array, jnp.power(offset + scale * squares, exponent)), input.dtype)


class LocalResponseNormalizationDesc(OperatorDesc):
    """DML_LOCAL_RESPONSE_NORMALIZATION_OPERATOR_DESC: divides elements by a power of the squares around them.

    Args:
      input: (N, C, H, W).
      cross_channel: whether the region of an element is of channels, or of rows and columns.
      local_size: elements of a region along each of its dimensions, at least 1.
      alpha: a number that the mean of squares is multiplied with.
      beta: the exponent.
      bias: a number that is added before.

    Example:
      >>> channels = TensorDesc("FLOAT32", (1, 4, 1, 1))
      >>> LocalResponseNormalizationDesc(
      ...     channels, channels, cross_channel=True, local_size=2, alpha=2, beta=1, bias=0
      ... ).compute(np.float32([1, 2, 2, 4]).reshape(1, 4, 1, 1)).ravel()
      Array([0.2 , 0.25, 0.1 , 0.25], dtype=float32)

    Source: DML_LOCAL_RESPONSE_NORMALIZATION_OPERATOR_DESC. Its page says that CrossChannel adds channels to rows and
      columns, an older version and the page of its gradient that there are channels or rows and columns; ONNX Runtime
      sets it for channels alone, which is followed here.
    """

    input: Input
    output: Output
    cross_channel: Bool
    local_size: UInt
    alpha: Float
    beta: Float
    bias: Float

    support = levels(("1_0", RANK_4, FLOATS))
    constraints = (same_sizes("output", "input"), at_least("local_size", 1))

    def compute_checked(self, input: jax.Array) -> jax.Array:
        return local_response_normalization(
            input, self.local_size, cross_channel=self.cross_channel, alpha=self.alpha, beta=self.beta, bias=self.bias
        )
