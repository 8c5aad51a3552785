"""int64 while x64 is off: int32 data with known bounds (interval arithmetic), so that no value is narrowed.

Bounds are kept of narrower integers, too, such as a mask that is added up as int32, because they may become int64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import DataTypeError
from .deferred import plain
from .node import Node
from .values import X64_OFF, as_tuple, is_narrowed, known_ints, move_bits, on_device

INT32, INT64 = np.iinfo(np.int32), np.dtype(np.int64)
Range = tuple[int, int]
# Operators that take `Bounded` themselves: they move values whole, or run a graph on them.
TAKES_BOUNDED = {
    *("ConcatFromSequence", "Loop", "Optional", "OptionalGetElement", "OptionalHasElement", "Scan", "SequenceAt"),
    *("SequenceConstruct", "SequenceErase", "SequenceInsert", "SequenceMap", "SplitToSequence"),
}


@dataclass(frozen=True)
class Bounded:
    """Integers with known bounds: int64 whose numbers fit int32, or a narrower type, which becomes int64 later.

    Args:
      array: the numbers, int32 in place of int64.
      range: the least and the greatest number that can be among them.
      dtype: the type that they have in the model.
    """

    array: jax.Array
    range: Range
    dtype: np.dtype[Any] = INT64

    @classmethod
    def of(cls, array: jax.Array, dtype: np.dtype[Any] = INT64) -> Bounded | None:
        """Converts integers of a narrower type, or booleans; returns None if the wider type does not hold them all."""
        limits = (0, 1) if array.dtype == bool else _limits(array.dtype)
        held = _held(dtype)
        return cls(array.astype(held), limits, dtype) if limits and _fits(limits, held) else None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim


def _held(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the type of the array that holds integers of a type."""
    return INT32.dtype if dtype == INT64 else dtype


def _limits(dtype: np.dtype[Any]) -> Range | None:
    """Returns the least and the greatest number of a type, None if it has no integers."""
    return (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)) if dtype.kind in "iu" else None


def _fits(numbers: Range, dtype: np.dtype[Any]) -> bool:
    limits = _limits(dtype)
    return limits is not None and limits[0] <= numbers[0] <= numbers[1] <= limits[1]


def without_range(value: Any) -> Any:
    """Returns the array of integers narrower than int64, whose bounds are then forgotten; others as they are."""
    return value.array if isinstance(value, Bounded) and value.dtype != INT64 else value


def as_bounded(value: Any) -> Any:
    """Returns a constant of int64 that fits int32 as `Bounded` while x64 is off; any other value as it is."""
    if not isinstance(value, np.ndarray) or value.dtype != np.int64 or not is_narrowed(np.int64):
        return value
    low, high = _range(value)
    return Bounded(jnp.asarray(_narrow(value)), (low, high)) if _fits((low, high), INT32.dtype) else value


# Operators whose indices count along one dimension, `axis` or any; those of others count all elements of an array.
_ALONG_ONE = ("ArgMax", "ArgMin", "NonZero", "TopK")


def index_bounded(op_type: str, result: jax.Array, indexed: Any, axis: int | None) -> Bounded | None:
    """Returns int32 indices of elements of `indexed` as int64; None if it has too many elements for int32."""
    along = indexed.shape if axis is None else (indexed.shape[axis],)
    greatest = max(0, (max(along, default=1) if op_type in _ALONG_ONE else prod(indexed.shape)) - 1)
    return Bounded(result.astype(np.int32), (0, greatest)) if _fits((0, greatest), INT32.dtype) else None


def move_bounded(move: Callable[..., Any], *values: Any) -> Any:
    """Returns `move(*values)` of values of one type, with every bit kept; int64 that is `Bounded` stays so."""
    if not any(isinstance(value, Bounded) for value in values):
        return move_bits(move, *values)
    arrays = [value if isinstance(value, Bounded) else as_bounded(value) for value in values]
    if refused := [value for value in arrays if not isinstance(value, Bounded)]:
        on_device(refused[0])  # which refuses 64 bits
    return Bounded(move(*(value.array for value in arrays)), _hull([value.range for value in arrays]))


def compute_bounded(node: Node, values: Sequence[Any]) -> tuple[Any, ...] | None:
    """Returns the outputs of a node whose integers have bounds; it computes in int32 if the results fit.

    None if there are no such integers: no input is `Bounded`, and no output has the type of an int64 constant.

    Raises:
      DataTypeError: the inputs or results are int64, and may not fit.
    """
    names = [node.schema.inputs[min(i, len(node.schema.inputs) - 1)].type_str for i in range(len(values))]
    types = {name: value.dtype for name, value in zip(names, values, strict=True) if isinstance(value, Bounded)}
    is_combined = node.attributes.get("reduction", "none") in ("add", "mul")
    if node.op_type not in _LAWS or (is_combined and names[0] in types):
        return _without_ranges(node, values, types) if types else None
    if not is_combined:
        types |= dict.fromkeys(_types_of_constants(node, names, values), INT64)
    if not types:
        return None
    ranges = {name: _checked_range(node, name, names, values, dtype) for name, dtype in types.items()}
    narrow = [_narrow(v) if n in types and v is not None else v for n, v in zip(names, values, strict=True)]
    results = as_tuple(plain(node.function(**node.keywords(narrow))))
    if node.op_type == "Cast":
        return tuple(_with_range(result, ranges.get(names[0])) for result in results)
    kinds = [_type_of_output(node, i) for i in range(len(results))]
    return tuple(_with_range(r, ranges.get(k), types.get(k)) for k, r in zip(kinds, results, strict=True))


def _without_ranges(node: Node, values: Sequence[Any], types: Mapping[str, np.dtype[Any]]) -> tuple[Any, ...]:
    """Returns the outputs of a node of which no law says their range; integers narrower than int64 need none."""
    if INT64 in types.values():
        raise DataTypeError(f"int64 must not be narrowed, but {X64_OFF}")
    return as_tuple(node.function(**node.keywords(list(map(without_range, values)))))


def _checked_range(node: Node, name: str, names: Sequence[str], values: Sequence[Any], dtype: np.dtype[Any]) -> Range:
    """Returns the range of the outputs that have a type variable.

    Args:
      node: it.
      name: of the type variable.
      names: those of the inputs.
      values: the inputs.
      dtype: the type that the variable stands for.

    Raises:
      DataTypeError: it is int64, and numbers of inputs or outputs may not fit 32 bits.
    """
    read = [_range(v) if n == name and v is not None else None for n, v in zip(names, values, strict=True)]
    made = (_LAWS[node.op_type] if name == names[0] else _hull)(read, values, node.attributes)
    for numbers in (*filter(None, read), made):
        if dtype == INT64 and not _fits(numbers, INT32.dtype):
            fact = f"they may be any in {list(numbers)}, and {X64_OFF}"
            if _limits(INT32.dtype) in read:
                fact += ", or give an input that int32= names as int8 or bool, if it is a mask"
            raise DataTypeError(f"its int64 numbers must fit 32 bits, but {fact}")
    return made


def _types_of_constants(node: Node, names: Sequence[str], values: Sequence[Any]) -> Iterator[str]:
    """Yields the type variables of outputs that int64 constants have, such as the numbers that a Where chooses from."""
    variables = {constraint.type_param_str for constraint in node.schema.type_constraints}
    made = variables.intersection(_type_of_output(node, i) for i in range(len(node.outputs)))
    for name, value in zip(names, values, strict=True):
        if name in made and isinstance(value, np.ndarray) and value.dtype == INT64:
            yield name


def _type_of_output(node: Node, which: int) -> str:
    return node.schema.outputs[min(which, len(node.schema.outputs) - 1)].type_str


def _with_range(result: Any, numbers: Range | None, dtype: np.dtype[Any] | None = None) -> Any:
    """Returns a result as `Bounded` of a type, by default its own, if the type holds the numbers of the range."""
    if numbers is None or result is None:
        return result
    kind: np.dtype[Any] = result.dtype if dtype is None else dtype
    if isinstance(result, np.ndarray):  # known, such as what a Unique finds outside of transformations
        return result.astype(kind)
    array = result.array if isinstance(result, Bounded) else result
    return Bounded(array, numbers, kind) if _fits(numbers, _held(kind)) else result


def _range(value: Any) -> Any:
    if isinstance(value, Bounded):
        return value.range
    if not isinstance(value, np.ndarray):  # narrower data, of which nothing is known
        return _limits(value.dtype)
    return (int(value.min()), int(value.max())) if value.size else (0, 0)


def _narrow(value: Any) -> Any:
    if isinstance(value, Bounded):
        return value.array
    return np.asarray(value).astype(np.int32) if value.dtype == INT64 else value


# The range of the results, by those of the inputs of their type, None for other inputs; the inputs; the attributes.
_Law = Callable[[Sequence[Range | None], Sequence[Any], Mapping[str, Any]], Range]


def _hull(ranges: Sequence[Range | None], *_: Any) -> Range:
    present = list(filter(None, ranges))
    return min(low for low, _ in present), max(high for _, high in present)


def _extreme(ranges: Sequence[Range | None], values: Sequence[Any], _: Any) -> Range:
    """The range of a maximum or a minimum, which over no elements is the least or the greatest number of int64."""
    return (-(2**63), 2**63 - 1) if 0 in values[0].shape else _hull(ranges)


def _corners(function: Callable[[int, int], int]) -> _Law:
    """Returns the interval rule of a function monotonic in each operand: extremes lie at the ends of the ranges."""

    def law(ranges: Sequence[Range | None], *_: Any) -> Range:
        combined, *others = filter(None, ranges)
        for other in others:
            ends = [function(a, b) for a in combined for b in other]
            combined = min(ends), max(ends)
        return combined

    return law


def _with_zero(ranges: Sequence[Range | None], *_: Any) -> Range:
    low, high = _hull(ranges)
    return min(0, low), max(0, high)


def _padded(ranges: Sequence[Range | None], values: Sequence[Any], attributes: Mapping[str, Any]) -> Range:
    """The range of an array with a border, of zeros if nothing else is given."""
    has_zeros = attributes.get("mode", "constant") == "constant" and all(r is None for r in ranges[1:])
    return (_with_zero if has_zeros else _hull)(ranges)


def _padded_to_maximum(ranges: Sequence[Range | None], _: Any, attributes: Mapping[str, Any]) -> Range:
    """The range of elements, and of zeros after them if their number is stated."""
    return (_hull if attributes["maximum"].of() is None else _with_zero)(ranges)


def _remainder(ranges: Sequence[Range | None], _: Any, attributes: Mapping[str, Any]) -> Range:
    """The range of a remainder: nearer to 0 than the divisor, of the divisor's sign, or of the dividend's with fmod.

    A number divided by 0 remains, where JAX computes.
    """
    dividend, divisor = filter(None, ranges)
    greatest = max(0, *(abs(n) - 1 for n in divisor))
    low, high = dividend if attributes.get("fmod") else divisor
    rest = (-greatest if low < 0 else 0), (greatest if high > 0 else 0)
    return _hull((rest, dividend)) if divisor[0] <= 0 <= divisor[1] else rest


def _quotient(ranges: Sequence[Range | None], *_: Any) -> Range:
    """The range of a quotient, rounded to 0: its extremes lie at the least and the greatest divisor of each sign.

    A number divided by 0 is -1, where JAX computes.
    """
    dividend, (low, high) = filter(None, ranges)
    divisors = {n for n in (low, -1, 1, high) if n and low <= n <= high}
    ends = [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a in dividend for b in divisors]
    ends += [-1] * (low <= 0 <= high)
    return min(ends), max(ends)


def _bitwise(ranges: Sequence[Range | None], *_: Any) -> Range:
    """The range of numbers that have as many bits as the operands, and a sign if an operand may have one."""
    low, high = _hull(ranges)
    bits = max(n.bit_length() for n in (low, ~low, high, ~high) if n >= 0)
    return -(2**bits) if low < 0 else 0, 2**bits - 1


def _rising(function: Callable[[int], int]) -> _Law:
    """Returns the interval rule of a function of one number that never falls."""
    return lambda ranges, *_: (function(_hull(ranges)[0]), function(_hull(ranges)[1]))


def _magnitude(ranges: Sequence[Range | None], *_: Any) -> Range:
    low, high = _hull(ranges)
    return max(0, low, -high), max(-low, high)


def _clipped(ranges: Sequence[Range | None], *_: Any) -> Range:
    (low, high), (least, greatest) = _hull(ranges[:1]), (*ranges[1:], None, None)[:2]
    for bound, choose in ((least, max), (greatest, min)):
        low, high = (low, high) if bound is None else (choose(low, bound[0]), choose(high, bound[1]))
    return low, high


def _range_of_sums(ranges: Sequence[Range | None], least: int, most: int) -> Range:
    """The range of sums of `least` to `most` numbers."""
    low, high = _hull(ranges)
    return min(low * least, low * most), max(high * least, high * most)


def _reduced(ranges: Sequence[Range | None], values: Sequence[Any], attributes: Mapping[str, Any]) -> Range:
    """The range of sums along axes: an input since opset 13, an attribute before; by default all of them."""
    axes = attributes.get("axes", values[1] if len(values) > 1 else None)
    axes = () if axes is None else _ints("axes", axes)
    is_kept = not axes and attributes.get("noop_with_empty_axes")
    count = 1 if is_kept else _elements(values[0].shape, axes or range(values[0].ndim))
    return _range_of_sums(ranges, count, count)


def _cumulative(ranges: Sequence[Range | None], values: Sequence[Any], attributes: Mapping[str, Any]) -> Range:
    """The range of sums of the first numbers along an axis."""
    count = _elements(values[0].shape, _ints("axis", values[1]))
    return _range_of_sums(ranges, 0, count - 1) if attributes["exclusive"] else _range_of_sums(ranges, 1, count)


def _ints(name: str, value: Any) -> Sequence[int]:
    return known_ints(name, value.array if isinstance(value, Bounded) else value)


def _elements(sizes: Sequence[int], axes: Iterable[int]) -> int:
    """Returns how many elements lie along axes; the operator itself refuses axes that do not exist."""
    return prod(sizes[axis] for axis in axes if -len(sizes) <= axis < len(sizes))


_MOVES = (
    "Concat Expand Flatten Gather GatherElements GatherND Identity Reshape "
    "ReverseSequence Scatter ScatterElements ScatterND Slice Split Squeeze TensorScatter Tile TopK Transpose "
    "Unsqueeze Where"
)
_READS = (
    "AffineGrid ArgMax ArgMin Attention BlackmanWindow Cast Equal GatherBlockQuantized Greater GreaterOrEqual "
    "GroupQueryAttention HammingWindow HannWindow Less LessOrEqual MaxUnpool NegativeLogLikelihoodLoss NonZero "
    "OneHot RandomNormalLike RandomUniformLike RoiAlign RotaryEmbedding Shape Size SoftmaxCrossEntropyLoss"
)
_LAWS: Mapping[str, _Law] = {
    **dict.fromkeys((*_MOVES.split(), *_READS.split()), _hull),
    **dict.fromkeys(("ReduceMax", "ReduceMin"), _extreme),
    "Abs": _magnitude,
    "Mod": _remainder,
    **dict.fromkeys(("Compress", "Unique"), _padded_to_maximum),
    "Pad": _padded,
    "CumSum": _cumulative,
    "ReduceSum": _reduced,
    "Clip": _clipped,
    "Add": _corners(lambda a, b: a + b),
    "Max": _corners(max),
    "Min": _corners(min),
    "Sub": _corners(lambda a, b: a - b),
    "Mul": _corners(lambda a, b: a * b),
    "Div": _quotient,
    "Neg": lambda ranges, *_: (-_hull(ranges)[1], -_hull(ranges)[0]),
    "Relu": _rising(lambda n: max(n, 0)),
    "Sign": _rising(lambda n: (n > 0) - (n < 0)),
    "BitwiseNot": lambda ranges, *_: (~_hull(ranges)[1], ~_hull(ranges)[0]),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"), _bitwise),
    **dict.fromkeys(("CenterCropPad", "Trilu"), _with_zero),
}
