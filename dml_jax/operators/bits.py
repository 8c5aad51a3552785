"""Keeps the bits of narrow floats: XLA:CPU passes bfloat16 and float8 selects through float32, which quiets NaNs."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["carry_bits"]


def carry_bits(move: Callable[..., jax.Array], where: jax.Array, *data: jax.Array) -> jax.Array:
    """Computes `move(where, *data)`, on the integer images of `data` if their type is a narrow float.

    Args:
      move: moves elements of `data` without looking at them; linear in `data` together.
      where: integers or booleans that say what moves.
      data: arrays of one dtype.
    """
    if not _is_narrow_float(data[0].dtype):
        return move(where, *data)
    return _on_integers(move, where, *data)


def _is_narrow_float(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, jnp.floating) and dtype != jnp.float16 and jnp.finfo(dtype).bits in (8, 16)


def _on_integers(move: Callable[..., jax.Array], where: jax.Array, *data: jax.Array) -> jax.Array:
    dtype = data[0].dtype
    integer = {1: jnp.uint8, 2: jnp.uint16}[dtype.itemsize]

    @jax.custom_jvp
    def moved(where: jax.Array, *data: jax.Array) -> jax.Array:
        images = [lax.bitcast_convert_type(x, integer) for x in data]
        return lax.bitcast_convert_type(move(where, *images), dtype)

    @moved.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        where, *data = primals
        # A bitcast has no derivative, the plain move has.
        return moved(where, *data), jax.jvp(lambda *x: move(where, *x), tuple(data), tuple(tangents[1:]))[1]

    return moved(where, *data)
