"""Attention by cuDNN, which has no scores in memory: some queries meet some keys at a time, and sums are corrected.

cuDNN is told how many keys the rows of a batch have, and whether query i sees the keys up to i. Whatever else excludes
keys becomes an array of flags.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap

from ...operations.attention import AttentionCase, Seen, cotangents_of
from ...operations.attention_steps import exclusions, read_keys, seen_keys
from ...operations.programs.partition import on_one_device
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant, known_bytes
from ...operations.values.accumulation_types import in_type

# Numbers that, added to the scores of some keys, leave these no weight; added to all, they change none by 0.001.
NO_WEIGHT = (-(2**14), -(2**12))
OVERHEAD = 2**26  # bytes that memory moves while cuDNN is called
SCORE = 16  # bytes that are moved for each score: it is written and read, as its weight is
# Bytes that memory moves while cuDNN computes a score: without and with an array that is added, or of flags.
COMPUTED, COMPUTED_WITH_ARRAY = 1, 4
FAR = 2**30  # keys: no window is wider, so that places and windows add up in 32 bits
TILE, PROCESSORS = 128, 132  # queries that are computed together, fewer as many; tiles at once


class _Exclusions(NamedTuple):
    """The rules that keep queries from seeing keys.

    Args:
      flags: arrays of whether a query sees a key.
      lengths: how many keys the rows of the batch have, or None.
      start: the index of the first query's own key.
      window: how many keys before its own one, and after it, a query sees.
    """

    flags: Sequence[Any]
    lengths: Any
    start: Any
    window: tuple[int | None, int | None]

    @property
    def is_causal(self) -> bool:
        return self.window[1] == 0 and isinstance(self.start, int) and self.start == 0

    @property
    def is_only_causal(self) -> bool:
        return self.is_causal and not self.flags and self.lengths is None and self.window[0] is None

    def seen(self, queries: int, keys: int) -> jax.Array | None:
        return seen_keys(queries, keys, self.flags, self.lengths, self.start, self.window)


def _attend_in_tiles(case: AttentionCase) -> Move | None:
    if not _can(case):
        return None
    is_output = case.gives == "attention"
    move = partial(_attention, case, 1) if is_output else cotangents_of(partial(_attention, case, 2))
    try:  # JAX knows which heads cuDNN takes, and whether the host has it
        jax.eval_shape(move, case.seen, *case.data)
    except (NotImplementedError, RuntimeError, ValueError):
        return None
    return _with_batches_as_rows(move, case.data[0].shape[0])


def _can(case: AttentionCase) -> bool:
    """cuDNN adds an array of 16-bit floats to scores, and makes weights in float32."""
    added = case.data[3:] if case.gives == "attention" else case.data[3:-1]
    softmax_type, filter_value = case.numbers.get("softmax_type"), case.numbers.get("filter_value", 0.0)
    return (
        [term.dtype for term in added] in ([], [case.dtype])
        and (softmax_type is None or softmax_type == np.float32)
        and (case.seen.kept is None or NO_WEIGHT[0] <= filter_value <= NO_WEIGHT[1])
    )


def _attention(case: AttentionCase, multiple: int, seen: Seen, *data: jax.Array) -> jax.Array:
    """The output; queries and keys are padded to a multiple, as cuDNN has no derivatives of an odd number."""
    query, key, value = (x.astype(case.dtype) for x in data[:3])
    queries, keys = query.shape[2], key.shape[2]
    added = data[3] if len(data) > 3 else None
    flags = [each for each in (*exclusions(data[3:]), seen.mask) if each is not None]
    left, right = (None if most is None else min(most, FAR) for most in case.numbers.get("window", (None, None)))
    excluded = _Exclusions(flags, seen.lengths, case.numbers.get("starts", seen.starts), (left, right))
    is_seen = excluded.seen(queries, keys)
    if seen.kept is not None:
        excluded = excluded._replace(flags=[*flags, _counting(seen.kept, is_seen)])
    known = _known_to_cudnn(excluded, queries, keys)
    if is_seen is None or (excluded.is_only_causal and keys <= queries):
        return _cudnn(query, key, value, added, known, case, multiple)
    is_read = read_keys(is_seen, query.shape[1], *key.shape[1:3])
    key, value = (jnp.where(is_read, rows, jnp.zeros((), rows.dtype)) for rows in (key, value))
    sees_any = is_seen.any(axis=-1, keepdims=True)
    if known.flags:  # where a query sees nothing, or adds -inf to every score, cuDNN makes NaN of derivatives
        added = None if added is None else jnp.where(known.flags[0], added, jnp.zeros((), added.dtype))
        known = known._replace(flags=[known.flags[0] | ~sees_any])
    output = _cudnn(query, key, value, added, known, case, multiple)
    return jnp.where(sees_any, output, in_type(case.dtype, case.numbers.get("of_nothing", np.nan)))


def _counting(kept: jax.Array, is_seen: jax.Array | None) -> jax.Array:
    """Whether a key has a weight: if it counts, or if none does that the query sees."""
    is_kept = kept if is_seen is None else kept & is_seen
    return kept | ~is_kept.any(axis=-1, keepdims=True)


def _known_to_cudnn(excluded: _Exclusions, queries: int, keys: int) -> _Exclusions:
    """The same rules in the terms of cuDNN: lengths, a window that ends with the own key, and flags for the rest.

    A single query whose key is the fifth of eight, and which sees no later one, has five keys.
    """
    flags, lengths, start, (left, right) = excluded
    if queries == 1 and right is not None:
        lengths, right = jnp.minimum(keys if lengths is None else lengths, start + 1 + right), None
    if _Exclusions(flags, lengths, start, (left, right)).is_causal:
        rest = seen_keys(queries, keys, flags, None, None, (None, None))
        return _Exclusions([] if rest is None else [rest], lengths, start, (left, right))
    rest = seen_keys(queries, keys, flags, None, start, (left, right))
    return _Exclusions([] if rest is None else [rest], lengths, 0, (None, None))


def _cudnn(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    added: jax.Array | None,
    excluded: _Exclusions,
    case: AttentionCase,
    multiple: int,
) -> jax.Array:
    (batch, _, queries, _), keys = query.shape, key.shape[2]
    more_queries, more_keys = -queries % multiple, -keys % multiple

    def rows(x: jax.Array, more: int) -> jax.Array:
        return jnp.pad(x, ((0, 0), (0, 0), (0, more), (0, 0))).transpose(0, 2, 1, 3)

    def scores(x: jax.Array) -> jax.Array:
        whole = jnp.broadcast_to(x, (*x.shape[:2], queries, keys))
        return jnp.pad(whole, ((0, 0), (0, 0), (0, more_queries), (0, more_keys)))

    flags = scores(excluded.flags[0]) if excluded.flags else None
    bias = None if added is None else scores(added)
    lengths = excluded.lengths
    if lengths is None and more_keys:
        lengths = keys
    if lengths is not None:  # of none cuDNN makes NaN of derivatives
        lengths = jnp.broadcast_to(jnp.clip(jnp.asarray(lengths), 1, keys).astype(np.int32), (batch,))
    left, is_causal = excluded.window[0], excluded.is_causal
    output = jax.nn.dot_product_attention(
        rows(query, more_queries),
        rows(key, more_keys),
        rows(value, more_keys),
        bias=bias,
        mask=flags,
        scale=case.numbers["scale"],
        is_causal=is_causal,
        key_value_seq_lengths=lengths,
        local_window_size=(left, 0) if is_causal and left is not None else None,
        implementation="cudnn",
    )
    return output[:, :queries].transpose(0, 2, 1, 3)


def _with_batches_as_rows(move: Callable[..., Any], batch: int) -> Callable[..., Any]:
    """The function; jax.vmap makes its dimension more rows of the batch. Arrays have as many rows as it, or 1."""
    function = custom_vmap(on_one_device(move))

    @function.def_vmap
    def _(size: int, is_batched: Any, *arrays: Any) -> tuple[Any, Any]:
        def fold(x: jax.Array, is_batched: bool) -> jax.Array:
            each = x if is_batched else jnp.broadcast_to(x, (size, *x.shape))
            rows = jnp.broadcast_to(each, (size, batch, *each.shape[2:]))
            return rows.reshape(size * batch, *rows.shape[2:])

        def unfold(x: jax.Array, rows: int) -> jax.Array:
            each = x.reshape(size, batch, *x.shape[1:])
            return each if rows == batch else each.sum(1, keepdims=True)

        results = _with_batches_as_rows(move, size * batch)(*jax.tree.map(fold, arrays, tuple(is_batched)))
        if not isinstance(results, tuple):
            return unfold(results, batch), True
        like = [x.shape[1 if each else 0] for x, each in zip(arrays[1:], is_batched[1:], strict=True)]
        return tuple(map(unfold, results, like[:-1])), (True,) * len(results)

    return function


def _pays(case: AttentionCase) -> bool:
    """A single query has a kernel of its own, forward, which divides the keys."""
    query, key, value, *_ = case.data
    (batch, heads, queries, _), keys = query.shape, key.shape[2]
    scores = batch * heads * queries * keys
    tiles = max(batch * heads * -(-queries // TILE), PROCESSORS)
    computed = scores if queries == 1 and case.gives == "attention" else tiles * TILE * keys
    each = COMPUTED_WITH_ARRAY if _has_array(case) else COMPUTED
    return SCORE * scores + known_bytes(key, value) // 2 >= OVERHEAD + each * computed


def _has_array(case: AttentionCase) -> bool:
    mask, kept, _, starts = case.seen
    window, start = case.numbers.get("window", (None, None)), case.numbers.get("starts", starts)
    is_known = window == (None, None) or case.data[0].shape[2] == 1 or _Exclusions((), None, start, window).is_causal
    return not is_known or mask is not kept or len(case.data) > (3 if case.gives == "attention" else 4)


VARIANTS = (
    Variant("flash_attention", "attention", "cuda", _attend_in_tiles, _pays),
    Variant("flash_attention", "attention_cotangents", "cuda", _attend_in_tiles, _pays),
)
