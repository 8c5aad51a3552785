"""Grid sampling (`grid_sample`, DeformConv): sums of the elements around positions that are data, weighted by distance.

All neighbours of all positions are read at once, so that a gradient adds up all that was read in one scatter:

    input [10, 20, 30], positions 0.25 and 1.5      element    0   1   1   2
    linear                                          weight   .75 .25  .5  .5
    result [12.5, 25]
"""

from collections.abc import Sequence
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .cubic_weights import far, near
from .gather import Read, gather_slices
from .gather_scatter_dimension_numbers import Slices
from .values.accumulation_types import narrow_apart, wide_type
from .values.bit_exact import as_guarded_bits, carry_bits

# The coefficient of torch and OpenCV.
COEFFICIENT = -0.75
# Per neighbour of each position, (N, neighbours, positions): its index, whether it is inside, its weight.
Neighbors = tuple[jax.Array, jax.Array, jax.Array]


def sample_grid(input: jax.Array, grid: jax.Array, mode: str, padding_mode: str, aligns: bool) -> jax.Array:
    """Reads [N, C, spatial sizes] at positions [N, count, coordinates, the last dimension's first] as [N, C, count].

    Args:
      input: with at least one element along each spatial dimension, and fewer than 2**30 of them.
      grid: floats; -1 and 1 are the edges, or with `aligns` the centres of the outermost elements.
      mode: "nearest", "bilinear" or "bicubic".
      padding_mode: "zeros", "border" or "reflection".
      aligns: see `grid`.
    """
    places, reflects = grid.astype(wide_type(grid.dtype)), padding_mode == "reflection"
    elements = [_elements(places[..., -d], size, reflects, aligns) for d, size in enumerate(input.shape[2:], 1)]
    return _sample(input, elements, mode, padding_mode, aligns)


def sample_pixels(input: jax.Array, positions: jax.Array) -> jax.Array:
    """Reads [N, C, spatial sizes] by linear interpolation at positions [N, count, coordinates] as [N, C, count].

    The coordinate 0.5 is halfway from the first element to the second; beyond the outermost elements are zeros.

    Args:
      input: as in `sample_grid`.
      positions: floats of 32 bits or more, the first dimension's first.
    """
    return _sample(input, [*jnp.moveaxis(positions, 2, 0)], "bilinear", "zeros", aligns=True)


def _sample(input: jax.Array, positions: Sequence[jax.Array], mode: str, padding_mode: str, aligns: bool) -> jax.Array:
    """Reads at positions in elements, (N, count) along each spatial dimension."""
    sizes = input.shape[2:]
    index, inside, weight = _neighbors(positions[0], sizes[0], mode, padding_mode, aligns)
    for at, size in zip(positions[1:], sizes[1:], strict=True):
        by_one = _neighbors(at, size, mode, padding_mode, aligns)
        # Neighbours of all dimensions so far, each with each neighbour along this one: 2 by 2 are 4 of linear sampling.
        index, inside, weight = (
            (index * np.int32(size))[:, :, None] + by_one[0][:, None],
            inside[:, :, None] & by_one[1][:, None],
            weight[:, :, None] * by_one[2][:, None],
        )
        index, inside, weight = (
            x.reshape(x.shape[0], x.shape[1] * x.shape[2], x.shape[3]) for x in (index, inside, weight)
        )

    is_copy = mode == "nearest"
    wide = input.dtype if is_copy else wide_type(input.dtype)
    # Widened, and its channels last, before it is read: cotangents are then added up in wide rows, one per neighbour.
    rows = carry_bits(_channels_last, None, input.astype(wide))
    read = Read(Slices(3, (1,), (0,), (0,), (3,)), "promise_in_bounds")
    elements = gather_slices(index[..., None], rows, read)
    nothing = jnp.zeros((), wide)
    elements = carry_bits(jnp.where, inside[..., None], elements, nothing, carry=as_guarded_bits)
    # The nearest element is copied bit for bit, of any type.
    elements = elements[:, 0] if is_copy else (elements * weight.astype(wide)[..., None]).sum(1)
    return narrow_apart(carry_bits(_channels_second, None, elements), input.dtype)


def _channels_last(_: None, input: jax.Array) -> jax.Array:
    return jnp.moveaxis(input.reshape(*input.shape[:2], prod(input.shape[2:])), 1, 2)


def _channels_second(_: None, rows: jax.Array) -> jax.Array:
    return jnp.moveaxis(rows, 1, 2)


def _elements(places: jax.Array, size: int, reflects: bool, aligns: bool) -> jax.Array:
    """Converts positions from -1 to 1 along one dimension to positions in elements, which begin at 0."""
    if reflects:  # here, where no number is too great: -1 and 1 are the ends of either convention
        places = _reflect(places)
    return (places + 1) / 2 * (size - 1) if aligns else ((places + 1) * size - 1) / 2


def _neighbors(at: jax.Array, size: int, mode: str, padding_mode: str, aligns: bool) -> Neighbors:
    """Along one dimension, of positions (N, count) in elements."""
    reflects = padding_mode == "reflection"
    at = jnp.clip(at, -4, size + 4)  # where there is nothing either, and numbers fit into integers
    if mode == "nearest":
        first, weights = jnp.round(jnp.clip(at, 0, size - 1) if reflects else at), {0: jnp.ones_like(at)}
    else:
        first = jnp.floor(at)
        weights = _weights(at - first, mode)
    index = first.astype(np.int32)[:, None] + np.array([*weights], np.int32).reshape(1, -1, 1)
    inside = (index >= 0) & (index < size) if padding_mode == "zeros" else jnp.ones(index.shape, bool)
    if reflects:
        index = _reflect_index(index, size, aligns)
    return jnp.clip(index, 0, size - 1), inside, jnp.stack([*weights.values()], 1)


def _weights(w: jax.Array, mode: str) -> dict[int, jax.Array]:
    """Weights of neighbours by their offset from the first one, for positions at distance w after that."""
    if mode == "bilinear":
        return {0: 1 - w, 1: w}
    a = COEFFICIENT
    return {-1: far(w + 1, a), 0: near(w, a), 1: near(1 - w, a), 2: far(2 - w, a)}


def _reflect(places: jax.Array) -> jax.Array:
    """Reflects positions at -1 and 1 as often as needed, exactly for any number: 5.5 becomes 1.5, and 0.5."""
    rest = lax.rem(places, np.asarray(4, places.dtype))
    length, sign = jnp.abs(rest), jnp.sign(rest)
    return jnp.where(length <= 1, rest, jnp.where(length <= 3, 2 * sign - rest, rest - 4 * sign))


def _reflect_index(index: jax.Array, size: int, aligns: bool) -> jax.Array:
    """Reflects indices of neighbours at the outermost elements, or at their edges, where the outermost comes twice."""
    if aligns and size == 1:
        return jnp.zeros_like(index)
    period, last = (2 * size - 2, 0) if aligns else (2 * size, 1)
    # Of 4 elements 0 to 3, index 5 becomes 1 with a period of 6 (0 1 2 3 2 1), or 2 with 8 (0 1 2 3 3 2 1 0).
    beyond = index % np.int32(period)
    return jnp.minimum(beyond, np.int32(period - last) - beyond)
