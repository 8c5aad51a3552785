"""One program to compute a linear function and another to transpose it, under every transformation of JAX."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["Back", "Move", "linear", "transpose_of", "varying_alike"]

# What moves is linear in `data`: `where`, integers and booleans or None, says where it goes.
Move = Callable[..., jax.Array]
# `where`, the cotangent of the result, and arrays like `data`, to the cotangents of `data`.
Back = Callable[[Any, jax.Array, Sequence[jax.Array]], Sequence[jax.Array]]


def linear(forward: Move, back: Back) -> Move:
    """`forward(where, *data)`, which JAX differentiates as a linear function whose transpose is `back`.

    Neither is looked into: they may hold operations that JAX cannot differentiate or that checkify cannot read.

    Only the solution of a linear system is computed by one program and transposed by another under every
    transformation, vmap included. To JAX the system here is the identity, whose right side is (*data, 0): its solver
    gives (*data, forward(data)) for it, and the solver of the transposed system adds back(cotangent) to those of data.

    With forward = lambda _, x: 3 * x, JAX sees the unknowns (x, y), the identity as matrix and the right side (x, 0).
    `solve` answers (x, 3x), and y = 3x is returned: no solution of that system, but what is wanted of it. Asked for the
    transpose at the cotangents (0, t), `solve_transposed` answers (back(t), 0) = (3t, 0), the gradient of x.
    """

    def function(where: Any, *data: jax.Array) -> jax.Array:
        if not jnp.issubdtype(data[0].dtype, jnp.inexact):
            return forward(where, *data)
        where, *alike = varying_alike(where, *_linear_alike(data))
        nothing = _zeros_of(alike, jax.eval_shape(forward, where, *alike).shape)

        def solve(_: Any, known: Sequence[jax.Array]) -> Sequence[jax.Array]:
            *data, _ = known
            return [*data, forward(where, *data)]

        def solve_transposed(_: Any, cotangents: Sequence[jax.Array]) -> Sequence[jax.Array]:
            *of_data, cotangent = cotangents
            found = back(where, cotangent, of_data)
            return [*(a + b for a, b in zip(of_data, found, strict=True)), jnp.zeros_like(cotangent)]

        *others, result = lax.custom_linear_solve(_identity, [*alike, nothing], solve, solve_transposed)
        return _followed_by_nothing(result, others)

    return function


def transpose_of(move: Move) -> Back:
    """What JAX makes of `move` when it transposes it."""

    def back(where: Any, cotangent: jax.Array, like: Sequence[jax.Array]) -> Sequence[jax.Array]:
        return jax.vjp(lambda *data: move(where, *data), *map(jnp.zeros_like, like))[1](cotangent)

    return back


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
    return lax.concatenate([rows, *(_nothing(y, rows.shape[1:]) for y in others)], 0).reshape(x.shape)


def _zeros_of(data: Sequence[jax.Array], shape: Sequence[Any]) -> jax.Array:
    """Zeros as a linear function of `data`."""
    rows = tuple(shape) or (1,)
    empty = lax.concatenate([_nothing(x, rows[1:]) for x in data], 0)
    return lax.pad(empty, jnp.zeros((), empty.dtype), [(0, rows[0], 0), *[(0, 0, 0)] * (len(rows) - 1)]).reshape(shape)


def _nothing(x: jax.Array, row: Sequence[Any]) -> jax.Array:
    """No row, of `x`."""
    # With strides: jax 0.10 needs them where the gradient is added to a ref.
    return lax.slice(x.reshape(-1), (0,), (0,), (1,)).reshape(0, *row)


def varying_alike(*tree: Any) -> Any:
    """The same values, each typed as different on every device of a jax.shard_map if any is."""
    axes = [jax.typeof(x).manual_axis_type.varying for x in jax.tree.leaves(tree)]
    every = frozenset().union(*axes)

    def cast(x: jax.Array) -> jax.Array:
        missing = every - jax.typeof(x).manual_axis_type.varying
        return lax.pcast(x, tuple(missing), to="varying") if missing else x

    return jax.tree.map(cast, tree)
