"""CAST: numbers of one type as numbers of another."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.arguments.kinds import Data, DType, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import Operands, Rule, same_sizes
from ..core.sharding import dims_of_input
from ..core.structs.feature_level_tables import ALL_BUT_FLOAT64, ALL_TYPES, RANK_4, RANKS_1_TO_8, Support
from ..core.structs.fields import Input, Output
from ..core.structs.operator_desc import OperatorDesc
from ..core.tensors.data_type import DataType
from ..errors import DataTypeError
from ..operations.programs.primitive import linear
from ..operations.values.accumulation_types import narrow_apart
from ..operations.values.bit_exact import hide_constant, is_key, is_not_zero

__all__ = ["CastDesc", "cast"]


def _no_number(x: Operands) -> str | None:
    """Returns why there is no such conversion, or None if there is one."""
    source, target = x["input"].dtype, x["dtype"]
    if is_key(x["input"]):
        return f"it is {source}, whose elements are not numbers"
    narrows = jnp.issubdtype(source, jnp.complexfloating) and not jnp.issubdtype(target, jnp.complexfloating)
    return f"it is {source}, whose imaginary part {target} cannot hold" if narrows else None


RULES = (Rule("castable(input)", "{input}.{dtype} must have numbers that {dtype} may hold", _no_number, DataTypeError),)


@operator(*RULES, dims=dims_of_input)
def cast(input: Data, dtype: DType, *, out_sharding: OutSharding = None) -> jax.Array:
    """Converts the numbers of `input` to another type, by one rule on every device.

    A float becomes an integer by leaving out its fraction; one that is too large becomes the largest integer, too small
    the smallest, and NaN becomes 0. A float becomes a narrower one by rounding to the nearest, ties to even. An integer
    becomes a narrower one by its low bits. Only floats that are subnormal in float32 may become 0, as the device likes.

    Args:
      input: any rank, any dtype of numbers; a complex one becomes a complex one only.
      dtype: of the output: an argument of numpy.dtype, such as jnp.bfloat16 or "uint8".
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array of the shape of `input` and of `dtype`.

    Raises:
      DataTypeError: `dtype` is no type that JAX has, one of 64 bits while x64 is off, or cannot hold such numbers.

    Example:
      >>> import numpy as np, dml_jax
      >>> print(dml_jax.cast(np.float32([-1.5, 2.9, 300, np.nan, np.inf]), np.uint8))
      [  0   2 255   0 255]
      >>> print(dml_jax.cast(np.int32([-1, 300]), np.uint8))
      [255  44]

    Source: DML_CAST_OPERATOR_DESC, which says nothing of numbers that the type does not hold: saturating, and 0 for
      NaN, are the choices made here.
    """
    array, target = jnp.asarray(input), jnp.dtype(dtype)
    is_float = jnp.issubdtype(array.dtype, jnp.floating)
    if is_float and jnp.issubdtype(target, jnp.integer):
        wide = array.astype(jnp.float32) if array.dtype.itemsize < 4 else array
        return _truncate(jnp.trunc(wide), target)
    if target == jnp.bool_:
        return is_not_zero(array)
    if jnp.issubdtype(target, jnp.floating) and target.itemsize < 4:  # where XLA:CPU goes by way of float32
        if array.dtype == jnp.float64:
            array = linear(lambda _, x: _odd_float(x), lambda _, cotangent, __: [cotangent])(None, array)
        elif jnp.issubdtype(array.dtype, jnp.integer) and array.dtype.itemsize >= 4:
            array = _odd_integer(array)
    if jnp.issubdtype(target, jnp.floating) and array.dtype in (jnp.int8, jnp.uint8):
        array = array.astype(jnp.int32)  # XLA:CPU of jaxlib 0.12 is wrong where it adds up casts of 8-bit arithmetic
    rounded = narrow_apart(array, target)
    narrows = is_float and jnp.issubdtype(target, jnp.floating) and 8 <= jnp.finfo(target).bits < _bits(array)
    return (
        linear(lambda _, x: _keep_rounding(x), lambda _, cotangent, __: [cotangent])(None, rounded)
        if narrows
        else rounded
    )


def _bits(floats: jax.Array) -> int:
    return jnp.finfo(floats.dtype).bits


def _keep_rounding(narrow: jax.Array) -> jax.Array:
    """Keeps a rounding: XLA:GPU leaves out a cast to a narrower float and back, unless its bits change in between.

    Nothing changes here, but XLA cannot know.
    """
    image = jnp.dtype(f"uint{8 * narrow.dtype.itemsize}")
    bits = lax.bitcast_convert_type(narrow, image)
    return lax.bitcast_convert_type(bits | hide_constant(np.zeros((), image), bits), narrow.dtype)


def _odd_float(wide: jax.Array) -> jax.Array:
    """Cuts to 24 bits, and sets the last one if a bit is lost: the next rounding then rounds the number itself."""
    bits = lax.bitcast_convert_type(wide, jnp.uint64)
    rest = bits & (2**29 - 1)
    return lax.bitcast_convert_type(bits - rest | (rest != 0).astype(jnp.uint64) << 29, wide.dtype)


def _odd_integer(whole: jax.Array) -> jax.Array:
    """`_odd_float` for integers: keeps the first 16 to 24 bits, and sets the last one kept if a bit is lost."""
    for shift in range(8, 8 * whole.dtype.itemsize - 23, 8):
        rest = whole & (2**shift - 1)
        odd = whole - rest | (rest != 0).astype(whole.dtype) << shift
        whole = jnp.where(jnp.abs(whole) >> (shift + 16) != 0, odd, whole)
    return whole


def _truncate(whole: jax.Array, dtype: Any) -> jax.Array:
    """Converts whole floats to integers. XLA defines no result for those that do not fit: they are clamped."""
    limits = jnp.iinfo(dtype)
    if limits.bits < 32:
        return _truncate(jnp.clip(whole, float(limits.min), float(limits.max)), jnp.int32).astype(dtype)
    # Powers of two, which floats hold exactly, unlike the largest integer below.
    end, first = (np.asarray(float(x), whole.dtype) for x in (int(limits.max) + 1, int(limits.min)))
    fits = (whole >= first) & (whole < end)
    integers = jnp.where(fits, whole, np.zeros((), whole.dtype)).astype(dtype)
    outside = jnp.where(whole >= end, np.asarray(limits.max, dtype), np.asarray(limits.min, dtype))
    return jnp.where(fits | jnp.isnan(whole), integers, outside)


def _row(level: str, ranks: range, types: tuple[DataType, ...]) -> Support:
    return Support.of(level, ranks, input=types, output=types)


_FIRST = tuple(DataType[n] for n in ("FLOAT32", "FLOAT16", "INT16", "INT8", "UINT16", "UINT8"))


class CastDesc(OperatorDesc):
    """DML_CAST_OPERATOR_DESC: converts numbers to the data type of `output`.

    Args:
      output: the sizes of `input`, and any data type.

    Example:
      >>> CastDesc(TensorDesc("FLOAT32", (3,)), TensorDesc("INT8", (3,))).compute(np.float32([-0.9, 2.9, 1e20]))
      Array([  0,   2, 127], dtype=int8)

    Source: DML_CAST_OPERATOR_DESC. It says nothing of numbers that the type does not hold; see `cast`.
    """

    input: Input
    output: Output

    other_types = ("output",)
    support = (
        _row("4_1", RANKS_1_TO_8, ALL_TYPES),
        _row("3_1", RANKS_1_TO_8, ALL_BUT_FLOAT64),
        _row("3_0", RANK_4, ALL_BUT_FLOAT64),
        _row("1_0", RANK_4, _FIRST),
    )
    constraints = (same_sizes("output", "input"),)

    def compute_checked(self, input: jax.Array) -> jax.Array:
        return cast(input, self.output.dtype)
