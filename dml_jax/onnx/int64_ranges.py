"""int64 while x64 is off: int32 data with known bounds (interval arithmetic), so that no value is narrowed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import DataTypeError
from .node import Node
from .values import X64_OFF, as_tuple, is_narrowed, move_bits, on_device

__all__ = ["TAKES_BOUNDED", "Bounded", "Range", "as_bounded", "compute_bounded", "index_bounded", "move_bounded"]

INT32 = np.iinfo(np.int32)
Range = tuple[int, int]
# Operators that take `Bounded` themselves: they move values whole, or run a graph on them.
TAKES_BOUNDED = {
    *("ConcatFromSequence", "Loop", "Optional", "OptionalGetElement", "OptionalHasElement", "Scan", "SequenceAt"),
    *("SequenceConstruct", "SequenceErase", "SequenceInsert", "SequenceMap", "SplitToSequence"),
}


@dataclass(frozen=True)
class Bounded:
    """An int64 array whose numbers fit int32.

    Args:
      array: its numbers, int32.
      range: the least and the greatest number that can be among them.
    """

    array: jax.Array
    range: Range

    @classmethod
    def of(cls, array: jax.Array) -> Bounded | None:
        """Converts integers of a narrower type, or booleans; returns None if int32 does not hold the type."""
        if array.dtype == bool:
            return cls(array.astype(np.int32), (0, 1))
        if array.dtype.kind not in "iu" or not np.can_cast(array.dtype, np.int32):
            return None
        limits = np.iinfo(array.dtype)
        return cls(array.astype(np.int32), (int(limits.min), int(limits.max)))

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.int64)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim


def as_bounded(value: Any) -> Any:
    """Returns a constant of int64 that fits int32 as `Bounded` while x64 is off; any other value as it is."""
    if not isinstance(value, np.ndarray) or value.dtype != np.int64 or not is_narrowed(np.int64):
        return value
    low, high = _range(value)
    return Bounded(jnp.asarray(_narrow(value)), (low, high)) if INT32.min <= low <= high <= INT32.max else value


def index_bounded(result: jax.Array, indexed: Any) -> Bounded | None:
    """Returns int32 indices of elements of `indexed` as int64; None if it has too many elements for int32."""
    greatest = max(0, prod(indexed.shape) - 1)
    return Bounded(result.astype(np.int32), (0, greatest)) if greatest <= INT32.max else None


def move_bounded(move: Callable[..., Any], *values: Any) -> Any:
    """Returns `move(*values)` of values of one type, with every bit kept; int64 that is `Bounded` stays so."""
    if not any(isinstance(value, Bounded) for value in values):
        return move_bits(move, *values)
    arrays = [value if isinstance(value, Bounded) else as_bounded(value) for value in values]
    if refused := [value for value in arrays if not isinstance(value, Bounded)]:
        on_device(refused[0])  # which refuses 64 bits
    return Bounded(move(*(value.array for value in arrays)), _hull([value.range for value in arrays]))


def compute_bounded(node: Node, values: Sequence[Any]) -> tuple[Any, ...]:
    """Returns the outputs of a node with inputs that are `Bounded`; it computes in int32 if the results fit.

    Raises:
      DataTypeError: the results may not fit.
    """
    law = _LAWS.get(node.op_type)
    types = [node.schema.inputs[min(i, len(node.schema.inputs) - 1)].type_str for i in range(len(values))]
    wide = {kind for kind, value in zip(types, values, strict=True) if isinstance(value, Bounded)}
    is_combined = types[0] in wide and node.attributes.get("reduction", "none") in ("add", "mul")
    if law is None or is_combined:
        raise DataTypeError(f"int64 must not be narrowed, but {X64_OFF}")
    same = [kind in wide and value is not None for kind, value in zip(types, values, strict=True)]
    ranges = [_range(value) for value, is_same in zip(values, same, strict=True) if is_same]
    output_range = law(ranges, values[0].shape)
    for low, high in (*ranges, output_range):
        if not INT32.min <= low <= high <= INT32.max:
            numbers = f"[{low}, {high}]"
            raise DataTypeError(f"its int64 numbers must fit 32 bits, but they may be any in {numbers}, and {X64_OFF}")
    narrow = [_narrow(value) if is_same else value for value, is_same in zip(values, same, strict=True)]
    results = as_tuple(node.function(**node.keywords(narrow)))
    outputs = node.schema.outputs
    kinds = [outputs[min(i, len(outputs) - 1)].type_str for i in range(len(results))]
    return tuple(Bounded(r, output_range) if kind in wide else r for kind, r in zip(kinds, results, strict=True))


def _range(value: Any) -> Range:
    if isinstance(value, Bounded):
        return value.range
    return (int(value.min()), int(value.max())) if value.size else (0, 0)


def _narrow(value: Any) -> Any:
    return value.array if isinstance(value, Bounded) else np.asarray(value).astype(np.int32)


# The range of the results, by those of the inputs of their type and the sizes of the first.
_Law = Callable[[Sequence[Range], tuple[int, ...]], Range]


def _hull(ranges: Sequence[Range], _: Any = None) -> Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _extreme(ranges: Sequence[Range], sizes: tuple[int, ...]) -> Range:
    """The range of a maximum or a minimum, which over no elements is the least or the greatest number of int64."""
    return (-(2**63), 2**63 - 1) if 0 in sizes else _hull(ranges)


def _corners(function: Callable[[int, int], int]) -> _Law:
    """Returns the interval rule of a function monotonic in each operand: extremes lie at the ends of the ranges."""

    def law(ranges: Sequence[Range], _: Any) -> Range:
        combined = ranges[0]
        for other in ranges[1:]:
            ends = [function(a, b) for a in combined for b in other]
            combined = min(ends), max(ends)
        return combined

    return law


def _with_zero(ranges: Sequence[Range], _: Any = None) -> Range:
    low, high = _hull(ranges)
    return min(0, low), max(0, high)


def _remainder(ranges: Sequence[Range], _: Any) -> Range:
    """The range of a remainder: it is nearer to 0 than the divisor."""
    greatest = max(0, *(abs(n) - 1 for n in ranges[1]))
    return -greatest, greatest


def _magnitude(ranges: Sequence[Range], _: Any) -> Range:
    return -max(map(abs, _hull(ranges))), max(map(abs, _hull(ranges)))


def _range_of_sum(ranges: Sequence[Range], sizes: tuple[int, ...]) -> Range:
    low, high = _hull(ranges)
    return min(0, low * prod(sizes)), max(0, high * prod(sizes))


_MOVES = (
    "Clip Compress Concat Expand Flatten Gather GatherElements GatherND Identity Reshape "
    "ReverseSequence Scatter ScatterElements ScatterND Slice Split Squeeze Tile TopK Transpose Unsqueeze Where"
)
_READS = (
    "AffineGrid ArgMax ArgMin BlackmanWindow Cast Equal GatherBlockQuantized Greater GreaterOrEqual "
    "GroupQueryAttention HammingWindow HannWindow Less LessOrEqual NegativeLogLikelihoodLoss OneHot RoiAlign "
    "RotaryEmbedding Shape Size SoftmaxCrossEntropyLoss"
)
_LAWS: Mapping[str, _Law] = {
    **dict.fromkeys((*_MOVES.split(), *_READS.split()), _hull),
    **dict.fromkeys(("ReduceMax", "ReduceMin"), _extreme),
    **dict.fromkeys(("Abs", "Neg"), _magnitude),
    "Mod": _remainder,
    **dict.fromkeys(("CenterCropPad", "Pad"), _with_zero),
    **dict.fromkeys(("CumSum", "ReduceSum"), _range_of_sum),
    "Add": _corners(lambda a, b: a + b),
    "Max": _corners(max),
    "Min": _corners(min),
    "Sub": _corners(lambda a, b: a - b),
    "Mul": _corners(lambda a, b: a * b),
}
