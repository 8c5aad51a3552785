"""The operators that these examples call, as people write them in plain jax.numpy.

They take the same arguments, as far as the examples need them, and pass promises on to
`jax.numpy`.
"""

import jax
import jax.numpy as jnp


def gather(
    input: jax.Array,
    indices: jax.Array,
    axis: int,
    *,
    mode: str = "clip",
    unique_indices: bool = False,
):
    """x[i], of any dimension."""
    at = input.at[(*[slice(None)] * axis, indices)]
    return at.get(mode=mode, fill_value=0, unique_indices=unique_indices)


def gather_elements(
    input: jax.Array, indices: jax.Array, axis: int, *, unique_indices: bool = False
):
    """jnp.take_along_axis, which takes no promise of uniqueness."""
    return jnp.take_along_axis(input, indices, axis=axis, mode="clip")


def gather_nd(
    input: jax.Array,
    indices: jax.Array,
    *,
    batch_dims: int = 0,
    mode: str = "clip",
    unique_indices: bool = False,
):
    """x[i, j], mapped over the dimensions of a batch."""

    def read(input: jax.Array, indices: jax.Array) -> jax.Array:
        at = input.at[tuple(jnp.moveaxis(indices, -1, 0))]
        return at.get(mode=mode, fill_value=0, unique_indices=unique_indices)

    for _ in range(batch_dims):
        read = jax.vmap(read)
    return read(input, indices)


def scatter_nd(
    input: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    mode: str,
    unique_indices: bool,
):
    """x.at[i, j].set(y)."""
    return input.at[tuple(jnp.moveaxis(indices, -1, 0))].set(
        updates, mode=mode, unique_indices=unique_indices
    )


def scatter_elements(
    input: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    axis: int,
    *,
    reduction: str | None = None,
    unique_indices: bool = False,
):
    """x.at[i].set(y), or add, of one dimension."""
    at = input.at[indices]
    return (at.set if reduction is None else at.add)(updates, unique_indices=unique_indices)


def cumulative_summation(input: jax.Array, axis: int):
    """jnp.cumsum."""
    return jnp.cumsum(input, axis=axis)


def depth_to_space(input: jax.Array, block_size: int, *, order: str):
    """A reshape, a transpose and a reshape, for order="CRD"."""
    assert order == "CRD"
    n, c, h, w = input.shape
    split = input.reshape(n, c // block_size**2, block_size, block_size, h, w)
    return split.transpose(0, 1, 4, 2, 5, 3).reshape(n, -1, h * block_size, w * block_size)


def space_to_depth(input: jax.Array, block_size: int, *, order: str):
    """The inverse."""
    assert order == "CRD"
    n, c, h, w = input.shape
    split = input.reshape(n, c, h // block_size, block_size, w // block_size, block_size)
    return split.transpose(0, 1, 3, 5, 2, 4).reshape(
        n, -1, h // block_size, w // block_size
    )
