"""Moves data by operations that JAX cannot differentiate, or that checkify cannot read, as if they were plain ones."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["carry_bits", "computed_as", "is_float", "is_float8", "is_narrow", "sealed"]

# What moves is linear in `data`: `where`, integers and booleans or None, says where it goes.
Move = Callable[..., jax.Array]


def is_float8(dtype: Any) -> bool:
    """XLA:CPU gathers such floats through wider ones, which quiets NaNs."""
    return is_narrow(dtype) and jnp.finfo(dtype).bits <= 8


def is_narrow(dtype: Any) -> bool:
    """XLA:CPU selects, pads, slices and scatters such floats through wider ones, which quiets NaNs."""
    return is_float(dtype) and jnp.finfo(dtype).bits in (8, 16) and dtype != jnp.float16


def is_float(dtype: Any) -> bool:
    """Devices add up what each has read of a sharded table, and -0.0 + 0.0 is 0.0."""
    return jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).bits == 8 * dtype.itemsize


def carry_bits(move: Move, where: Any, *data: jax.Array, of: Callable[[Any], bool] = is_narrow) -> jax.Array:
    """Computes `move(where, *data)`, on the integer images of `data` if they are floats that would change.

    Args:
      move: moves elements of `data` without looking at them.
      where: says what moves; None where nothing varies.
      data: arrays of one dtype.
      of: whether numbers of a dtype would change.
    """
    dtype = data[0].dtype
    if not of(dtype):
        return move(where, *data)
    integer = jnp.dtype(f"uint{8 * dtype.itemsize}")

    def moved_as_integers(where: Any, *data: jax.Array) -> jax.Array:
        images = [lax.bitcast_convert_type(x, integer) for x in data]
        return lax.bitcast_convert_type(move(where, *images), dtype)

    return computed_as(move, moved_as_integers)(where, *data)


def computed_as(plain: Move, computed: Move) -> Move:
    """`computed(where, *data)`, which JAX transforms as if it were `plain`, the same function.

    Only the solution of a linear system is computed by one program and transposed by another under every
    transformation. Here the system is the identity and its right side is what `plain` returns; the solver computes that
    anew from the data, and XLA drops the right side.
    """

    def function(where: Any, *data: jax.Array) -> jax.Array:
        if not jnp.issubdtype(data[0].dtype, jnp.inexact):
            return computed(where, *data)
        alike = _linear_alike(data)
        where, *known = _varying_alike(where, *alike, plain(where, *alike))

        def solve(_: Any, known: Sequence[jax.Array]) -> Sequence[jax.Array]:
            data = known[:-1]
            return [*data, computed(where, *data)]

        *others, result = lax.custom_linear_solve(_identity, known, solve, lambda _, known: known)
        return _followed_by_nothing(result, others)

    return function


def sealed(move: Move) -> Move:
    """`move(where, first, *others)`, of the shape of `first`, as one operation that checkify does not look into.

    checkify fails with an IndexError on a scatter that has batching dimensions.
    """

    def function(where: Any, *data: jax.Array) -> jax.Array:
        where, *known = _varying_alike(where, *_linear_alike(data))

        def solve(_: Any, known: Sequence[jax.Array]) -> Sequence[jax.Array]:
            return [move(where, *known), *known[1:]]

        def solve_transposed(_: Any, cotangents: Sequence[jax.Array]) -> Sequence[jax.Array]:
            first, *others = cotangents
            pull = jax.vjp(lambda *data: move(where, *data), *map(jnp.zeros_like, cotangents))[1]
            of_first, *of_others = pull(first)
            return [of_first, *(a + b for a, b in zip(of_others, others, strict=True))]

        differentiable = jnp.issubdtype(known[0].dtype, jnp.inexact)
        result, *others = lax.custom_linear_solve(_identity, known, solve, solve_transposed if differentiable else None)
        return _followed_by_nothing(result, others)

    return function


def _identity(known: Sequence[jax.Array]) -> Sequence[jax.Array]:
    return known


def _linear_alike(data: Sequence[jax.Array]) -> Sequence[jax.Array]:
    """The same bits, each as a linear function of all `data`: JAX differentiates no system with constants in it."""
    return [_followed_by_nothing(x, [y for y in data if y is not x]) for x in data]


def _followed_by_nothing(x: jax.Array, others: Sequence[jax.Array]) -> jax.Array:
    """The same bits, as a linear function of `x` and `others`."""
    if not others:
        return x
    rows = x.reshape(x.shape or (1,))
    nothing = [y.reshape(-1)[:0].reshape(0, *rows.shape[1:]) for y in others]
    return lax.concatenate([rows, *nothing], 0).reshape(x.shape)


def _varying_alike(*tree: Any) -> Any:
    """The same values, each typed as different on every device of a jax.shard_map if any is."""
    axes = [jax.typeof(x).manual_axis_type.varying for x in jax.tree.leaves(tree)]
    every = frozenset().union(*axes)

    def cast(x: jax.Array) -> jax.Array:
        missing = every - jax.typeof(x).manual_axis_type.varying
        return lax.pcast(x, tuple(missing), to="varying") if missing else x

    return jax.tree.map(cast, tree)
