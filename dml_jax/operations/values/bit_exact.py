"""Bit-exact movement: elements that XLA would change move as integers. Index types of enough bits."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from ...errors import ConstraintError
from ..programs.primitive import Back, Move, by_platform, linear, transpose_of
from .xla_workarounds import DROPS_BARRIERS


def is_float8(dtype: Any) -> bool:
    """Whether elements are floats of a byte, which XLA:CPU gathers through wider ones: that quiets NaNs."""
    return is_float(dtype) and dtype.itemsize == 1


def is_narrow(dtype: Any) -> bool:
    """Whether XLA:CPU would change elements that it moves, or end the process.

    It selects, pads, slices and scatters bfloat16 and floats of a byte, and gathers them from constants, through wider
    floats, which quiets NaNs. It ends the process where it concatenates integers of two bits (jaxlib 0.10 to 0.12).
    """
    is_cast = is_float(dtype) and jnp.finfo(dtype).bits in (8, 16) and dtype != jnp.float16
    return is_cast or has_two_bits(dtype)


def has_two_bits(dtype: Any) -> bool:
    """Whether elements are integers of two bits, which are stored in bytes."""
    return jnp.issubdtype(dtype, jnp.integer) and jnp.iinfo(dtype).bits == 2


def is_float(dtype: Any) -> bool:
    """Whether elements are floats: devices add up their reads of a sharded table, and -0.0 + 0.0 is 0.0."""
    return jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).bits == 8 * dtype.itemsize


def is_key(array: Any) -> bool:
    """Whether the elements are jax.random keys: moved, but no numbers."""
    return jnp.issubdtype(array.dtype, jax.dtypes.prng_key)


def is_not_zero(numbers: jax.Array) -> jax.Array:
    """By the bits of floats: compared as numbers, subnormals count as 0 on some devices."""
    if jnp.issubdtype(numbers.dtype, jnp.complexfloating):
        return is_not_zero(numbers.real) | is_not_zero(numbers.imag)
    if not is_float(numbers.dtype):
        return numbers.astype(bool)
    bits = lax.bitcast_convert_type(numbers, f"uint{8 * numbers.dtype.itemsize}")
    if numbers.dtype == jnp.float8_e8m0fnu:  # which has no 0
        return jnp.ones(bits.shape, bool)
    # Without the sign, by which 0.0 and -0.0 differ.
    return (bits if numbers.dtype.name.endswith("fnuz") else bits << 1) != 0  # these have one 0, without a sign


def index_dtype(sizes: Sequence[int]) -> np.dtype[Any]:
    """The least of int32 and int64 that holds every index into such sizes.

    Raises:
      ConstraintError: it is int64, and JAX has none.
    """
    # A size that is symbolic, as in jax.export, counts as one of the usual ones.
    largest = max((n for n in sizes if isinstance(n, int)), default=0)
    if largest <= np.iinfo(np.int32).max:
        return np.dtype(np.int32)
    if jax.dtypes.canonicalize_dtype(np.int64) == np.int64:
        return np.dtype(np.int64)
    raise ConstraintError(
        f"an indexed dimension of size {largest} needs 64-bit indices: enable jax_enable_x64 around the call"
    )


def as_bits(move: Move, of: Callable[[Any], bool] = is_narrow) -> Move:
    """`move` on the integer images of numbers that would change; JAX cannot differentiate it."""

    def moved(where: Any, *data: jax.Array) -> jax.Array:
        dtype = data[0].dtype
        if not of(dtype):
            return move(where, *data)
        image = jnp.dtype(f"uint{8 * dtype.itemsize}")
        if has_two_bits(dtype):  # apart, as XLA:GPU of jaxlib 0.11 loses bits where it fuses such casts with a move
            images = lax.optimization_barrier([x.astype(image) for x in data])
            return lax.optimization_barrier(move(where, *images)).astype(dtype)
        images = [lax.bitcast_convert_type(x, image) for x in data]
        return lax.bitcast_convert_type(move(where, *images), dtype)

    return moved


def carry_bits(
    move: Move, where: Any, *data: Any, back: Back | None = None, carry: Callable[[Move], Move] = as_bits
) -> jax.Array:
    """Computes `move(where, *data)`, on the integer images of `data` if they are numbers that would change.

    Args:
      move: moves elements of `data` without looking at them.
      where: integers or booleans by which elements move; None if there are none.
      data: arrays of one dtype.
      back: the transpose; by default that of `move`.
      carry: turns a move into one of integers.
    """
    if back is None and not is_narrow(data[0].dtype):
        return move(where, *data)
    return linear(carry(move), back or transpose_of(move))(where, *data)


def as_float16_bits(x: jax.Array) -> jax.Array:
    """The bits of floats that XLA would change as a float16, which it moves as it is; other arrays stay.

    For moves that are JAX's own, such as those of `lax.scan`, which differentiates floats, but no integers.
    `from_float16_bits` undoes it. Between the two nothing but moves has a meaning.
    """
    return _cast_bits(x, jnp.dtype(jnp.float16)) if is_narrow(x.dtype) and is_float(x.dtype) else x


def from_float16_bits(x: jax.Array, dtype: Any) -> jax.Array:
    """The array of a type that `as_float16_bits` had."""
    return x if x.dtype == dtype else _cast_bits(x, dtype)


def _cast_bits(x: jax.Array, dtype: Any) -> jax.Array:
    """Casts bits between float16 and floats that are as wide or less; it is its own transpose."""

    def cast(x: jax.Array, dtype: Any) -> jax.Array:
        before, after = (jnp.dtype(f"uint{8 * jnp.dtype(d).itemsize}") for d in (x.dtype, dtype))
        return lax.bitcast_convert_type(lax.bitcast_convert_type(x, before).astype(after), dtype)

    return linear(lambda _, x: cast(x, dtype), lambda _, t, like: [cast(t, like[0].dtype)])(None, x)


def fence(move: Move) -> Move:
    """Keeps casts apart from a move on CPUs: XLA removes casts that surround it, and moves floats.

    In floats it quiets NaNs and flushes subnormals, and it moves them one by one.
    """

    def fenced(where: Any, *data: jax.Array) -> jax.Array:
        return by_platform(move(where, *data), cpu=lax.optimization_barrier, default=lambda moved: moved)

    return fenced


def as_guarded_bits(move: Move) -> Move:
    """`as_bits` for a move that repeats elements, or chooses among them or a constant: LLVM would take casts back.

    On CPUs each element is combined with a zero that the program reads from memory, so that LLVM does not know it.
    """

    def guarded(where: Any, *images: jax.Array) -> jax.Array:
        return by_platform(move(where, *images), cpu=_or_zero, default=lambda moved: moved)

    def moved(where: Any, *data: jax.Array) -> jax.Array:
        return (as_bits(guarded) if is_narrow(data[0].dtype) else move)(where, *data)

    return moved


def as_bits_of_arrays(move: Move) -> Move:
    """`as_bits` for a move that chooses among arrays, any of which may be one number in all places.

    On CPUs each array is in memory before. It costs nothing where it is an argument, unlike a zero for each element.
    """

    def moved(where: Any, *data: jax.Array) -> jax.Array:
        if is_narrow(data[0].dtype):
            data = tuple(by_platform(x, cpu=lax.optimization_barrier, default=lambda x: x) for x in data)
        return as_bits(move)(where, *data)

    return moved


def _or_zero(images: jax.Array) -> jax.Array:
    """`images | 0`, with the first of three constants: XLA writes one number, or several in a line, into the code."""
    constants = hide_constant(np.array([0, 0, 1], images.dtype), images)
    return images | lax.index_in_dim(constants, 0, keepdims=False)


def hide_constant(value: Any, beside: Any = None) -> jax.Array:
    """A constant that XLA does not know while it compiles, such as static indices.

    It evaluates a gather of constants in another order of dimensions, which a cast of its bits takes for the usual one.

    Args:
      value: the constant.
      beside: a traced array; `jax.ensure_compile_time_eval`, under which constants of ONNX models are folded, computes
        at once whatever has no traced operand, barriers too.
    """
    hidden = lax.optimization_barrier(jnp.asarray(value))
    is_computed = beside is not None and not isinstance(hidden, Tracer)
    return lax.optimization_barrier((hidden, beside))[0] if is_computed else hidden


def stored(array: jax.Array) -> jax.Array:
    """The array, which XLA:CPU computes on its own and fuses with nothing that follows.

    Where it drops barriers before it fuses, nothing is fused with a branch, of which XLA does not see that both sides
    are the same.
    """
    if not DROPS_BARRIERS:
        return lax.optimization_barrier(array)
    return lax.cond(hide_constant(True, array), lambda array, _: array, lambda _, array: array, array, array)


def hide_indices(indices: Any, beside: jax.Array) -> jax.Array:
    """Static indices of a gather, as `hide_constant`, but for a single one.

    XLA:GPU of jaxlib 0.11 computes the place of that while it compiles, and cannot read through a barrier.
    """
    return jnp.asarray(indices) if indices.size == 1 else hide_constant(indices, beside)


def never_one(integer: jax.Array) -> jax.Array:
    """0, computed so that neither XLA nor LLVM knows: one of two neighbouring integers is even."""
    number = integer.astype(jnp.uint32)
    return number * (number + 1) & 1
