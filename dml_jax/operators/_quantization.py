"""Arithmetic of quantised numbers, (q - zero point) * scale, and rules of scales and zero points."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.rules import Law, Operands, Rule, if_given, same_dtype
from ..core.structs.feature_level_tables import RANK_4, Support
from ..core.structs.struct_rules import right_aligned
from ..core.tensors.data_type import DataType
from ..operations.integer_product import multiply_int8
from ..operations.values.accumulation_types import computed_type, widen_apart
from ..operations.values.xla_workarounds import divide
from ._cast import cast

BYTES = (DataType.INT8, DataType.UINT8)
REAL = (DataType.FLOAT32,)
INTEGERS = tuple(DataType[name] for name in ("INT32", "INT16", "INT8", "UINT32", "UINT16", "UINT8"))


# Arithmetic.


def spread(parameter: Any, sizes: Sequence[int]) -> Any:
    """A scale or a zero point that broadcasts to some sizes, at whose right its own are aligned.

    Along a dimension it has one number for all elements, one for each, or one for each block: of 6 elements those of
    [10, 20] are [10, 10, 10, 20, 20, 20]. An array of NumPy stays one.
    """
    aligned = parameter.reshape(right_aligned(parameter.shape, len(sizes)))
    for axis, (count, size) in enumerate(zip(aligned.shape, sizes, strict=True)):
        if count not in (1, size):
            aligned = (np if isinstance(aligned, np.ndarray) else jnp).repeat(aligned, size // count, axis)
    return aligned


def centred(q: Any, zero_point: Any = None) -> Any:
    """q - zero_point in int32, which wraps; floats in float32. Arrays of NumPy stay such."""
    kind = jnp.float32 if jnp.issubdtype(q.dtype, jnp.floating) else jnp.int32
    wide = _widen(q, kind)
    return wide if zero_point is None else wide - spread(_widen(zero_point, kind), q.shape)


def _widen(q: Any, kind: Any) -> Any:
    """Numbers in a wider type; every device computes with bytes, so narrower numbers become bytes first."""
    return q.astype(kind) if isinstance(q, np.ndarray) else widen_apart(q, computed_type(q.dtype)).astype(kind)


def dequantize(q: Any, scale: Any, zero_point: Any = None) -> Any:
    """(q - zero_point) * scale, in float32; the difference of integers wraps in int32. Arrays of NumPy stay such."""
    return centred(q, zero_point).astype(jnp.float32) * spread(scale.astype(jnp.float32), q.shape)


def quantize(x: jax.Array, scale: jax.Array, zero_point: jax.Array | None, dtype: Any) -> jax.Array:
    """round(x / scale) + zero_point, in float32, halves to even, clamped to the limits of `dtype`."""
    return integers_of(quotient(x, scale), zero_point, dtype)


# A float32 within 2**22 of this one has no fraction, and its last bits are those of the difference.
_WHOLE = np.float32(3 * 2**22)
# More than the bits of such floats, and less than those of any NaN; its last 16 bits are 0.
_NAN = np.uint32(0x4C000000)


def integers_of(steps: jax.Array, zero_point: Any, dtype: Any) -> jax.Array:
    """round(steps) + zero_point, halves to even, clamped to the limits of an integer type; 0 for NaN.

    Up to 16 bits an addition rounds: 2.5 + 12582912 is 12582914, whose last bits are 2. On CPUs that takes a third of
    the time of a rounding and a cast.

    Args:
      steps: float32, quotients, as which no NaN is a signalling one.
      zero_point: None, or one of `dtype`; a NumPy array is a constant.
      dtype: of the integers.
    """
    limits = jnp.iinfo(dtype)
    if limits.bits > 16:
        return cast(shifted(jnp.round(steps), zero_point), dtype)
    zero = np.zeros((), np.int32) if zero_point is None else spread(_widen(zero_point, np.int32), steps.shape)
    low, high = ((int(limit) - zero).astype(np.float32) for limit in (limits.min, limits.max))
    bits = lax.bitcast_convert_type(jnp.clip(steps, low, high) + _WHOLE, jnp.uint32)
    zero_bits = zero.astype(np.uint32)
    return (jnp.minimum(bits, _NAN - zero_bits) + zero_bits).astype(dtype)


def quotient(x: jax.Array, scale: jax.Array) -> jax.Array:
    """x / scale, in float32."""
    return divide(x.astype(jnp.float32), spread(scale.astype(jnp.float32), x.shape))


def shifted(steps: jax.Array, zero_point: Any) -> jax.Array:
    """steps + zero_point, in float32."""
    return steps if zero_point is None else steps + spread(_widen(zero_point, jnp.float32), steps.shape)


def dynamically_quantize(x: jax.Array, dtype: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The integers of all elements, by the least scale that holds them and 0; the scale and the zero point, scalars.

    [-1, 0, 1, 2] in uint8 has the scale 3 / 255 and the zero point 85, and the integers are [0, 85, 170, 255].
    """
    limits, wide = jnp.iinfo(dtype), x.astype(jnp.float32)
    low, high = wide.min(initial=0), wide.max(initial=0)
    scale = divide(high - low, float(int(limits.max) - int(limits.min)))
    scale = jnp.where(scale == 0, 1, scale)
    zero_point = cast(jnp.round(float(limits.min) - divide(low, scale)), dtype)
    return quantize(wide, scale, zero_point, dtype), scale, zero_point


def rescale(
    sums: jax.Array, a_scale: jax.Array, b_scale: jax.Array, scale: jax.Array, zero_point: jax.Array | None, dtype: Any
) -> jax.Array:
    """Sums of products of integers, in units of a_scale * b_scale, in integers of another scale."""
    unit = spread(a_scale.astype(jnp.float32), sums.shape) * spread(b_scale.astype(jnp.float32), sums.shape)
    return quantize(sums.astype(jnp.float32) * unit, scale, zero_point, dtype)


def unfused(x: jax.Array) -> jax.Array:
    """A number that is rounded before the next operation: devices multiply and add in one, XLA joins factors."""
    return jnp.where(x == x, x, jnp.nan)


def add_quantized(
    a: jax.Array,
    a_scale: jax.Array,
    a_zero_point: jax.Array | None,
    b: jax.Array,
    b_scale: jax.Array,
    b_zero_point: jax.Array | None,
    output_scale: jax.Array,
    output_zero_point: jax.Array | None,
    *,
    dtype: Any,
) -> jax.Array:
    """The sum of two quantised arrays of sizes that broadcast, requantised to integers of `dtype`."""
    total = unfused(dequantize(a, a_scale, a_zero_point)) + unfused(dequantize(b, b_scale, b_zero_point))
    return quantize(total, output_scale, output_zero_point, dtype)


def multiply_integers(
    a: jax.Array, a_zero_point: jax.Array | None, b: jax.Array, b_zero_point: jax.Array | None
) -> jax.Array:
    """(a - a_zero_point) @ (b - b_zero_point) of matrices, in int32, which wraps.

    Bytes are multiplied as int8, for which devices have instructions. With zero points p, the same in a row of a, and
    q, the same in a column of b, it is (a - p) @ b - q * (sums of rows of a) + size * p * q.
    """
    rank = max(a.ndim, b.ndim)
    a, b = (x.reshape(right_aligned(x.shape, rank)) for x in (a, b))
    if max(a.dtype.itemsize, b.dtype.itemsize) > 1:
        return jnp.matmul(*(centred(*pair) for pair in ((a, a_zero_point), (b, b_zero_point))))
    a, p = signed_bytes(a, a_zero_point)
    b, q = signed_bytes(b, b_zero_point)
    product = multiply_int8(a, p, b)
    if q is not None:
        product = product - q * a.sum(-1, dtype=np.int32, keepdims=True)
    return product if p is None or q is None else product + p * q * np.int32(a.shape[-1])


def signed_bytes(q: jax.Array, zero_point: jax.Array | None) -> tuple[jax.Array, jax.Array | None]:
    """Bytes as int8, and the zero point of these, in int32: both are 128 less than of uint8."""
    wide = None if zero_point is None else spread(zero_point.astype(jnp.int32), q.shape)
    if q.dtype == jnp.int8:
        return q, wide
    less = -128 if wide is None else wide - 128
    return (q ^ np.uint8(128)).view(np.int8), jnp.asarray(less, jnp.int32)


# Rules.


@dataclass(frozen=True)
class PerAxis:
    """The dimension along which a scale and a zero point may have more than one number.

    Args:
      axis: the dimension of the scale, counted from the last one, or at the rank of its tensor from the first one.
      of: the tensor that has so many.
      dimension: along this dimension.
      named: the entries, in words.
    """

    axis: int
    of: str
    dimension: int
    named: str


def rules_of(tensor: str, axis: PerAxis | None = None, ranks: int = 8, *, scaled: bool = True) -> Iterator[Rule]:
    """Yields the rules of the scale and the zero point of a tensor.

    Args:
      tensor: its field.
      axis: along which they may differ; None if they have one number each.
      ranks: the highest DimensionCount.
      scaled: whether there is a scale.
    """
    scale, zero_point = f"{tensor}_scale", f"{tensor}_zero_point"
    for name in (scale, zero_point) if scaled else (zero_point,):
        yield if_given(name, _sizes(name, tensor, axis))
        if ranks < 8:
            yield rank_within(name, 1, ranks)
    yield same_type(zero_point, tensor)


def parameter_rules(axes: Mapping[str, PerAxis | None], *tensors: str, scaled: bool = True) -> Iterator[Rule]:
    """Yields `rules_of` tensors of up to 4 dimensions, whose parameters may differ along `axes`."""
    for tensor in tensors:
        yield from rules_of(tensor, axes[tensor], 4, scaled=scaled)


def older_rank_rules(*names: str) -> tuple[tuple[str, Rule], ...]:
    """The ranks of scales and zero points at the oldest feature levels."""
    return tuple(below("4_0", rank_within(name, 4, 4)) for name in names)


def _sizes(name: str, tensor: str, axis: PerAxis | None) -> Rule:
    def broken_by(x: Operands) -> str | None:
        rank = len(x[tensor].sizes)
        if axis and len(x[axis.of].sizes) < 2:
            return None
        sizes = right_aligned(x[name].sizes, max(rank, len(x[name].sizes)))
        at = axis.axis % rank + len(sizes) - rank if axis else None
        most = x[axis.of].sizes[axis.dimension] if axis else 1
        fits = all(n == 1 or (d == at and n == most) for d, n in enumerate(sizes))
        return None if fits else f"they are {x[name].sizes}{f', and there are {most} {axis.named}' if axis else ''}"

    along = f"; along dimension {axis.axis} there may be one for each of the {axis.named}" if axis else ""
    return Rule(f"sizes({name})", f"every one of {{{name}}}.{{sizes}} must be 1{along}", broken_by)


def rank_within(name: str, least: int, most: int) -> Rule:
    """A tensor that may have another rank than the others has one of some ranks, if it is given."""

    def broken_by(x: Operands) -> str | None:
        return None if x[name] is None or least <= len(x[name].sizes) <= most else f"it is {len(x[name].sizes)}"

    accepted = f"{least}" if least == most else f"in [{least}, {most}]"
    return Rule(f"rank_within({name}, {least}, {most})", f"{{{name}}}.{{rank}} must be {accepted}", broken_by)


def below(level: str, rule: Rule) -> tuple[str, Rule]:
    """A rule that holds below a feature level, which it names."""
    return level, replace(rule, text=f"{rule.text} below feature level {level}")


def same_type(parameter: str, tensor: str) -> Rule:
    """A zero point, or a scale, has the data type of a tensor, and decides the data type of an output."""
    law = Law(tensor, "data_type", lambda x: x[parameter] and x[parameter].data_type)
    return if_given(parameter, replace(same_dtype(parameter, tensor), law=law))


def scales_of(*tensors: str) -> tuple[str, ...]:
    """The fields of the scales of some tensors."""
    return tuple(f"{tensor}_scale" for tensor in tensors)


def zero_points_of(*tensors: str) -> tuple[str, ...]:
    """The fields of their zero points."""
    return tuple(f"{tensor}_zero_point" for tensor in tensors)


def parameters_of(*tensors: str) -> tuple[str, ...]:
    """The fields of their scales, then of their zero points."""
    return (*scales_of(*tensors), *zero_points_of(*tensors))


# Feature levels.


def since_2_1(ranks: range, **types: tuple[DataType, ...]) -> tuple[Support, ...]:
    """The table of a product of bytes: below 4_0 all tensors have four dimensions."""
    return tuple(Support.of(level, of, **types) for level, of in (("4_0", ranks), ("2_1", RANK_4)))
