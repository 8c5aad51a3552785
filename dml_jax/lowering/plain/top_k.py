"""Where the greatest of some integers lie."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..forms import Choice, choose_anywhere, forced_form, known_bytes
from ..values.sort_keys import float_in_order

__all__ = ["TABLE", "greatest"]

_MANY = 2**62
BLOCK = 32  # elements of which one is the greatest
# On two cores of an EPYC, of float32; milliseconds.
TABLE = (
    Choice(
        "cpu",
        "rounds",
        {"n": range(1, 129), "k": range(1, 9)},
        "4096x64: 2 in 0.39 and 8 in 1.4, plain 0.98 and 3.1; 6 of 2048x128 in 1.0, plain 1.7; 8 of 1024x256 as plain",
    ),
    Choice(
        "cpu",
        "blocks",
        {"n_of_each": range(256, _MANY)},
        "64x32000: 1 in 0.23 and 50 in 1.9, plain 2.6 and 3.8; 1 of 256x1000 in 0.26, plain 0.45; 100 of 10000 slower",
    ),
    # On an H200.
    Choice(
        "cuda",
        "blocks",
        {"n_of_each": range(128, _MANY), "k": range(2, _MANY)},
        "2 of 64x32000 in 0.05, 50 of it in 0.09, 50 of 256x128256 in 0.16; plain 0.25, 0.26 and 2.2",
    ),
)


def greatest(keys: jax.Array, k: int, axis: int) -> jax.Array:
    """The places of the k greatest integers along an axis, the greatest first; of equal ones the first one first."""
    plain = partial(_in_order, k=k, axis=axis)
    n, is_known = keys.shape[axis], known_bytes(keys) > 0
    if keys.dtype != jnp.int32 or axis != keys.ndim - 1 or not is_known or not k:
        return plain(keys)
    forms: dict[str, Callable[[jax.Array], jax.Array]] = {"plain": plain, "rounds": partial(_in_rounds, k=k)}
    if -(-n // BLOCK) >= k:
        forms["blocks"] = partial(_among_blocks, k=k)
    case = {"bytes": known_bytes(keys), "n": n, "k": k, "n_of_each": n // k}
    return choose_anywhere(forms, TABLE, case, forced_form())(keys)


def _in_order(keys: jax.Array, *, k: int, axis: int) -> jax.Array:
    def of_integers(keys: jax.Array) -> jax.Array:
        return lax.top_k(keys, k, axis=axis)[1]

    def of_floats(keys: jax.Array) -> jax.Array:
        return lax.top_k(float_in_order(keys), k, axis=axis)[1]

    if keys.dtype != jnp.int32:
        return of_integers(keys)
    # XLA:CPU sorts all integers, but takes only the first k of floats, which it compares by their bits: 16 of 1024x1024
    # in 4.3 instead of 130 ms, 50 of 16x50000 in 1.4 instead of 140. XLA:GPU sorts both; one pass finds one.
    one = partial(_first_of_all, axis=axis) if k == 1 and keys.shape[axis] else of_integers
    return lax.platform_dependent(keys, cpu=of_floats, default=one)


def _in_rounds(keys: jax.Array, *, k: int) -> jax.Array:
    """Each round finds the greatest of those that come after the last one found."""
    number = lax.broadcasted_iota(np.float32, keys.shape, keys.ndim - 1)
    is_left, places = jnp.ones(keys.shape, bool), []
    for _ in range(k):
        found = jnp.max(jnp.where(is_left, keys, jnp.iinfo(keys.dtype).min), -1, keepdims=True)
        place = jnp.min(jnp.where(is_left & (keys == found), number, np.inf), -1, keepdims=True)
        is_left = (keys < found) | (keys == found) & (number > place)
        places.append(place)
    return jnp.concatenate(places, -1).astype(np.int32)


def _among_blocks(keys: jax.Array, *, k: int) -> jax.Array:
    """Only the k blocks with the greatest maxima are looked into, the first ones of equals."""
    edges = [(0, 0, 0)] * (keys.ndim - 1) + [(0, -keys.shape[-1] % BLOCK, 0)]
    padded = lax.pad(keys, np.asarray(jnp.iinfo(keys.dtype).min, keys.dtype), edges)
    blocks = padded.reshape(*keys.shape[:-1], -1, BLOCK)
    chosen = jnp.sort(_first(jnp.max(blocks, -1), k), -1)
    among = _read(blocks, chosen[..., None], -2).reshape(*keys.shape[:-1], -1)
    place = _first(among, k)
    return _read(chosen, place // BLOCK, -1) * BLOCK + place % BLOCK


def _first(keys: jax.Array, k: int) -> jax.Array:
    last = keys.ndim - 1
    return _first_of_all(keys, last) if k == 1 else _in_order(keys, k=k, axis=last)


def _first_of_all(keys: jax.Array, axis: int) -> jax.Array:
    return jnp.expand_dims(lax.argmax(keys, axis, np.int32), axis)


def _read(array: jax.Array, places: jax.Array, axis: int) -> jax.Array:
    return jnp.take_along_axis(array, places, axis, mode="promise_in_bounds")
