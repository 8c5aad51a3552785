"""The arithmetic of attention, which DirectML's structs and ONNX's operators share: softmax(Q @ K.T * scale) @ V.

With a scale of 0.5, two keys whose products with a query are 0 and 2 have the scores 0 and 1, and the weights 0.27 and
0.73.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .softmax import compute_along
from .values.accumulation_types import in_type, wide_type
from .values.elementary_functions import tanh
from .values.wide_products import wide_product


class Attended(NamedTuple):
    """The output of attention, and the steps to it.

    Args:
      output: (batch, N heads, S queries, V).
      scores: of keys, (batch, N, S, T keys); -inf where a query does not see a key.
      weights: how much each key counts for each query, of the shape of the scores.
      is_seen: whether a query sees a key, to be broadcast; None if every query sees all keys.
    """

    output: jax.Array
    scores: jax.Array
    weights: jax.Array
    is_seen: jax.Array | None


def attention_steps(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    *,
    scale: float,
    softcap: float = 0.0,
    added: Sequence[jax.Array] = (),
    mask: jax.Array | None = None,
    kept: jax.Array | None = None,
    filter_value: float = 0.0,
    lengths: Any = None,
    starts: Any = None,
    window: tuple[int | None, int | None] = (None, None),
    sinks: jax.Array | None = None,
    softmax_type: Any = None,
    of_nothing: float = np.nan,
) -> Attended:
    """Returns sums of values by how much each key counts for each query, and the steps to them.

    A query sees a key unless the mask, the lengths or the window exclude it, or -inf is added to its score. A key that
    no query sees is not read: it may be NaN. The derivatives of a query that sees no key are 0.

    Args:
      query: (batch, N heads, S queries, D). Keys and values have its type: products of narrower floats than float32 are
        exact and added in float32, and weights are rounded to that type before they multiply values.
      key: (batch, G heads, T keys, D); N / G heads of queries share one.
      value: (batch, G heads, T keys, V).
      scale: products of queries and keys are multiplied with.
      softcap: the limit of the products, as in `cap`.
      added: arrays that are added to the scores, in order; each has 4 dimensions and broadcasts to (batch, N, S, T).
      mask: whether a query sees a key; of a shape as in `added`.
      kept: whether a key counts; of a shape as in `added`.
      filter_value: a number that is added to the scores of keys that do not count.
      lengths: the number of keys of each row of the batch; int32, (batch).
      starts: the index of the first query's own key, per row of the batch; int32, (batch), or an int for all rows. A
        window needs it.
      window: how many keys before its own one, and after it, a query sees; None for all. (None, 0) is causal.
      sinks: per head the score of one more key, which has no value; (N), or None.
      softmax_type: the type in which weights are computed; by default the type of the scores, float32 or wider.
      of_nothing: the output and the weights of a query that sees no key.
    """
    if kept is not None:
        # Not excluded: a query all of whose keys get the filter value weighs them as if none did.
        added = [*added, jnp.where(kept, 0, in_type(wide_type(query.dtype), filter_value))]
    is_seen = seen_keys(query.shape[2], key.shape[2], [*exclusions(added), mask], lengths, starts, window)
    read_key = key
    if is_seen is not None:
        # A weight of 0 does not hide a NaN, as 0 * NaN is NaN: values that no query sees become 0.
        is_read = read_keys(is_seen, query.shape[1], *key.shape[1:3])
        read_key, value = (jnp.where(is_read, rows, 0) for rows in (key, value))
    products = key_products(query, key, scale, read_key)
    if is_seen is not None:  # the slope of a cap at NaN is NaN, which times 0 is NaN
        products = jnp.where(is_seen, products, 0)
    # Capped before anything is added: a cap would make a finite score of -inf, which excludes a key.
    scores = reduce(jnp.add, (term.astype(products.dtype) for term in added), cap(products, softcap))
    if is_seen is not None:
        # Last, as a mask excludes a key whatever was added to its score.
        scores = jnp.where(is_seen, scores, -np.inf)
    weights = _weights(scores.astype(softmax_type or scores.dtype), sinks).astype(scores.dtype)
    output = value_sums(weights, value)
    if is_seen is not None:
        sees_any = is_seen.any(axis=-1, keepdims=True)
        weights, output = (jnp.where(sees_any, array, of_nothing) for array in (weights, output))
    return Attended(output, scores, weights, is_seen)


def key_products(query: jax.Array, key: jax.Array, scale: float, read_key: jax.Array | None = None) -> jax.Array:
    """Returns the scaled products of queries and keys, (batch, N, S, T); as in `attention_steps`.

    Derivatives read `read_key`, by default `key`. It has 0 in place of keys that no query sees, which may be NaN.
    """
    products = _multiply_keys(_by_group(query, key), key, read_key)
    return products.reshape(*query.shape[:3], key.shape[2]) * in_type(products.dtype, scale)


def cap(products: jax.Array, softcap: float) -> jax.Array:
    """Returns softcap * tanh(product / softcap), which stays within the softcap; products as they are if it is 0."""
    if not softcap:
        return products
    return tanh(products / in_type(products.dtype, softcap)) * in_type(products.dtype, softcap)


def value_sums(weights: jax.Array, value: jax.Array) -> jax.Array:
    """Returns the sums of values by the weights of their keys, (batch, N, S, V); as in `attention_steps`."""
    sums = _multiply_values(_by_group(weights.astype(value.dtype), value), value)
    return sums.reshape(*weights.shape[:3], value.shape[3])


def exclusions(added: Sequence[jax.Array]) -> Iterator[jax.Array]:
    """Returns a mask for each added array: -inf excludes a key."""
    return (term != -np.inf for term in added)


def seen_keys(
    queries: int,
    keys: int,
    masks: Sequence[jax.Array | None],
    lengths: Any,
    starts: Any,
    window: tuple[int | None, int | None],
) -> jax.Array | None:
    """Returns whether a query sees a key, to be broadcast to (batch, N, queries, keys); None if it sees all."""
    conditions, key = (
        [mask for mask in masks if mask is not None],
        jnp.arange(keys, dtype=np.int32).reshape(1, 1, 1, -1),
    )
    if lengths is not None:
        conditions.append(key < jnp.reshape(lengths, (-1, 1, 1, 1)))
    for side, most in zip((-1, 1), window, strict=True):
        if most is not None:
            own = jnp.reshape(starts, (-1, 1, 1, 1)) + jnp.arange(queries, dtype=np.int32).reshape(1, 1, -1, 1)
            # A key d places after the query's own one is seen if -left <= d <= right: the side -1 asks for -d <= left.
            # A window may be any integer, and no distance exceeds int32.
            conditions.append(side * (key - own) <= min(most, np.iinfo(np.int32).max))
    return reduce(jnp.logical_and, conditions) if conditions else None


def read_keys(is_seen: jax.Array, heads: int, groups: int, keys: int) -> jax.Array:
    """Returns whether any query sees a key, to be broadcast to (batch, groups, keys, size)."""
    batch, of_heads, queries, of_keys = is_seen.shape
    shape = (batch, *((groups, heads // groups) if of_heads == heads else (1, 1)), queries, of_keys)
    is_read = is_seen.reshape(shape).any(axis=(2, 3))
    return jnp.broadcast_to(is_read, (*is_read.shape[:2], keys))[..., None]


def _by_group(x: jax.Array, shared: jax.Array) -> jax.Array:
    """Divides heads into groups, each of which shares a head of keys or values."""
    return x.reshape(x.shape[0], shared.shape[1], x.shape[1] // shared.shape[1], *x.shape[2:])


def _product(equation: str) -> Callable[..., jax.Array]:
    """Returns a product of heads and the rows that their groups share."""
    return wide_product(partial(jnp.einsum, equation, precision=lax.Precision.HIGHEST))


_multiply_keys, _multiply_values = map(_product, ("bghsd,bgtd->bghst", "bghst,bgtv->bghsv"))


def _weights(scores: jax.Array, sinks: jax.Array | None) -> jax.Array:
    """Returns the softmax of the scores along the keys, beside the sink of a head if there is one."""
    if sinks is None:
        return compute_along(_softmax, scores, (-1,))
    # A sink takes weight from the keys, and gives no value: scores [0, 0] with a sink of 0 have weights 1/3 and 1/3.
    sink = jnp.broadcast_to(sinks.reshape(1, -1, 1, 1), (*scores.shape[:3], 1)).astype(scores.dtype)
    return compute_along(_softmax, jnp.concatenate([scores, sink], -1), (-1,))[..., :-1]


def _softmax(scores: jax.Array) -> jax.Array:
    """Along the last dimension, 0 where all scores are -inf.

    The greatest score is stored, because fused with the rest it may be rounded twice.
    """
    greatest = lax.stop_gradient(scores.max(axis=-1, keepdims=True, initial=-np.inf))
    powers = jnp.exp(scores - lax.optimization_barrier(jnp.where(greatest == -np.inf, 0, greatest)))
    total = powers.sum(axis=-1, keepdims=True)
    # Without any key total is 0, and 0 / 1 keeps derivatives free of NaN.
    return powers / jnp.where(total == 0, 1, total)
