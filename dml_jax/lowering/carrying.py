"""Carries data through XLA operations that would change its bits, or that checkify cannot read."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["carry_bits", "differentiated_as", "sealed"]


def carry_bits(
    move: Callable[..., jax.Array], where: jax.Array | None, *data: jax.Array, widths: Sequence[int] = (8, 16)
) -> jax.Array:
    """Computes `move(where, *data)`, on the integer images of `data` if their type is a narrow float.

    XLA:CPU selects, pads, slices and scatters bfloat16 and float8 through wider floats, which quiets NaNs; it also
    gathers float8 so.

    Args:
      move: moves elements of `data` without looking at them.
      where: integers or booleans that say what moves; None where nothing varies.
      data: arrays of one dtype.
      widths: the bits of the floats concerned; float16 never is.
    """
    dtype = data[0].dtype
    if not jnp.issubdtype(dtype, jnp.floating) or dtype == jnp.float16 or jnp.finfo(dtype).bits not in widths:
        return move(where, *data)
    integer = {1: jnp.uint8, 2: jnp.uint16}[dtype.itemsize]

    def moved_as_integers(where: jax.Array | None, *data: jax.Array) -> jax.Array:
        images = [lax.bitcast_convert_type(x, integer) for x in data]
        return lax.bitcast_convert_type(move(where, *images), dtype)

    return differentiated_as(move, moved_as_integers)(where, *data)


def sealed(move: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """Returns `move` as one operation that checkify does not look into; derivatives are those of `move`.

    checkify fails with an IndexError on a scatter that has batching dimensions.
    """
    return differentiated_as(move, _opaque(move))


def differentiated_as(plain: Callable[..., jax.Array], computed: Callable[..., jax.Array]) -> Any:
    """`computed(where, *data)` with the derivatives of `plain`, the same function in a form that has some."""
    function = jax.custom_jvp(computed)

    @function.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        where, *data = primals
        tangent = jax.jvp(lambda *x: plain(where, *x), tuple(data), tuple(tangents[1:]))[1]
        return function(*primals), tangent

    return function


def _opaque(function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """`function` as a single primitive, under any number of vmaps."""
    single = jax.custom_batching.custom_vmap(function)

    @single.def_vmap
    def _(axis_size: int, in_batched: Any, *args: Any) -> Any:
        in_axes = [0 if batched else None for batched in in_batched]
        return _opaque(jax.vmap(function, in_axes=in_axes, axis_size=axis_size))(*args), True

    return single
