"""MULTIHEAD_ATTENTION and MULTIHEAD_ATTENTION1: softmax(Q @ K.T * scale + mask) @ V, of every head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core.structs.feature_level_tables import FLOATS, Support
from ..core.structs.field_types import Named, default
from ..core.structs.fields import Float, OptionalIndexInput, OptionalInput, OptionalOutput, Output, UInt, named
from ..core.structs.operator_desc import OperatorDesc
from ..core.tensors.data_type import DataType
from ..operations.attention import attend
from ..operations.values.accumulation_types import wide_type
from ._attention_formulas import KEPT, append, arange_int32, merge_heads, split_heads
from ._attention_rules import (
    HOLDS,
    OF_OTHER_RANK,
    PAST,
    RULES,
    RULES_OF_1,
    SOURCES,
    Counts,
    MultiheadAttentionMaskType,
    source_of,
)

__all__ = ["MultiheadAttention1Desc", "MultiheadAttentionDesc", "MultiheadAttentionMaskType"]

Arrays = Mapping[str, Any]
_INT32 = (DataType.INT32,)
MaskType = Annotated[
    Named[MultiheadAttentionMaskType], named(MultiheadAttentionMaskType, "DML_MULTIHEAD_ATTENTION_MASK_TYPE_")
]


def _heads(part: str, arrays: Arrays, n: Counts) -> jax.Array | None:
    """Queries, new keys or new values, (batch, heads, rows, size of a head); None if there are none."""
    name = source_of(part, arrays)
    if name is None:
        return None
    array, heads = arrays[name], n.heads if part == "query" else n.key_heads
    if name == part:
        return split_heads(array.reshape(n.batch, *array.shape[-2:]), heads)
    return array[:, :, :, HOLDS[name].index(part)].transpose(0, 2, 1, 3)


def _add_bias(parts: Mapping[str, Any], bias: jax.Array, n: Counts) -> Mapping[str, Any]:
    """Adds their own parts of a bias to queries, keys and values."""
    pieces = jnp.split(bias.reshape(-1), np.cumsum(n.widths)[:-1])
    return {
        part: rows if rows is None else rows + piece.reshape(1, rows.shape[1], 1, -1)
        for (part, rows), piece in zip(parts.items(), pieces, strict=True)
    }


def _attend(desc: Any, arrays: Arrays) -> Any:
    """The outputs of a struct."""
    n: Any = Counts.of(desc.operands())
    dtype = desc.output.dtype
    wide = {name: x if x is None else jnp.asarray(x, wide_type(x.dtype)) for name, x in arrays.items()}
    parts: Mapping[str, Any] = {part: _heads(part, wide, n) for part in SOURCES}
    if wide["bias"] is not None:
        parts = _add_bias(parts, wide["bias"], n)
    lengths = wide.get("past_sequence_lengths")
    starts = None if lengths is None else jnp.clip(lengths.reshape(-1), 0, n.keys - n.queries)
    pasts = {part: _of_rank_4(wide[past]) for part, past in PAST.items()}
    key, value = (append(past, parts[part], starts) for part, past in pasts.items())
    bias, mask = arrays["relative_position_bias"], arrays["mask"]
    attended = attend(
        *(parts["query"], key, value),
        dtype=dtype,
        scale=desc.scale,
        added=[] if bias is None else [jnp.asarray(bias).reshape(n.batch, n.heads, n.queries, n.keys)],
        kept=None if mask is None else _kept(desc.mask_type, mask, n),
        filter_value=desc.mask_filter_value,
        starts=starts,
        window=(None, None if starts is None else 0),
    )
    results = {"output": merge_heads(attended), "output_present_key": key, "output_present_value": value}
    outputs = [_fit_sizes(results[name], tensor.sizes).astype(dtype) for name, tensor in desc.output_ports().items()]
    return tuple(outputs) if len(outputs) > 1 else outputs[0]


def _of_rank_4(past: jax.Array | None) -> jax.Array | None:
    return None if past is None else past.reshape(past.shape[-4:])


def _kept(mask_type: MultiheadAttentionMaskType, mask: jax.Array, n: Counts) -> jax.Array:
    """Whether a key counts, to be broadcast to (batch, heads, queries, keys)."""
    is_whole = mask_type == MultiheadAttentionMaskType.BOOLEAN
    fitted = mask.reshape(n.batch, n.heads, n.queries, n.keys) if is_whole else mask
    return KEPT[mask_type](jnp.asarray(fitted), arange_int32(n.keys).reshape(1, 1, 1, -1))


def _fit_sizes(array: jax.Array, sizes: tuple[int, ...]) -> jax.Array:
    """An array in the sizes of a tensor, which may differ by ones; a cache that is begun has zeros after the keys."""
    room = sizes[-2] - array.shape[2] if array.ndim == 4 else 0
    padded = jnp.pad(array, ((0, 0), (0, 0), (0, room), (0, 0))) if room else array
    return padded.reshape(sizes)


class _VersionDesc(OperatorDesc[Any], is_base=True):
    """The base of both versions: the tensors that they read."""

    query: OptionalInput = None
    key: OptionalInput = None
    value: OptionalInput = None
    stacked_query_key: OptionalInput = None
    stacked_key_value: OptionalInput = None
    stacked_query_key_value: OptionalInput = None
    bias: OptionalInput = None
    mask: OptionalIndexInput = None
    relative_position_bias: OptionalInput = None
    past_key: OptionalInput = None
    past_value: OptionalInput = None

    in_jax = "jax.nn.dot_product_attention"

    def compute_checked(self, **arrays: Any) -> Any:
        return _attend(self, arrays)


class MultiheadAttentionDesc(_VersionDesc):
    """DML_MULTIHEAD_ATTENTION_OPERATOR_DESC: attention of several heads, softmax(Q @ K.T * scale + mask) @ V.

    Queries, keys and values each come from one tensor. Sizes are made of B, the batch; S queries; L new keys; P keys of
    the past; T = P + L keys in all; N heads; D, the size of a query or a key of one head; V, that of a value. Leading
    sizes of 1 may be added.

    Args:
      query: (B, S, N * D), or None.
      key: (B, L, N * D), or None.
      value: (B, L, N * V), or None.
      stacked_query_key: (B, S, N, 2, D), of each head a query, then a key; or None.
      stacked_key_value: (B, L, N, 2, D), of each head a key, then a value; or None.
      stacked_query_key_value: (B, S, N, 3, D), of each head a query, a key, and a value; or None.
      bias: (N * D + N * D + N * V), added to queries, keys and values; or None.
      mask: INT32 numbers that say which keys count, by `mask_type`; None if that is NONE.
      relative_position_bias: (B, N, S, T), added to the products of queries and keys; or None.
      past_key: (B, N, P, D), before the new keys; or None. Without new ones it has all keys.
      past_value: (B, N, P, V), before the new values; or None.
      output: (B, S, N * V).
      output_present_key: (B, N, T, D), all keys; or None.
      output_present_value: (B, N, T, V), all values; or None.
      scale: a number that products of queries and keys are multiplied with, usually 1 / sqrt(D).
      mask_filter_value: a number that is added where a key does not count.
      head_count: N.
      mask_type: a `MultiheadAttentionMaskType`, or its DirectML name in full or as suffix. NONE: no mask.
        KEY_SEQUENCE_LENGTH: one of (1, B) says how many keys count. KEY_SEQUENCE_END_START: one of (2, B) has the end,
        one past the last key to count, and the start. KEY_QUERY_SEQUENCE_LENGTH_START_END: of (3 * B + 2) the first B
        say how many keys count. BOOLEAN: those count where one of (B, N, S, T) is not 0.

    Example:
      >>> rows = TensorDesc("FLOAT32", (1, 2, 4))
      >>> desc = MultiheadAttentionDesc(rows, rows, rows, output=rows, scale=0.0, head_count=2)
      >>> x = np.float32([[[1, 2, 3, 4], [5, 6, 7, 8]]])
      >>> print(desc.compute(x, x, x))
      [[[3. 4. 5. 6.]
        [3. 4. 5. 6.]]]
    """

    _: KW_ONLY
    output: Output
    output_present_key: OptionalOutput = None
    output_present_value: OptionalOutput = None
    scale: Float
    mask_filter_value: Float = -10000.0
    head_count: UInt
    mask_type: MaskType = default(MultiheadAttentionMaskType.NONE)

    support = (Support.of("6_1", range(3, 6), output=FLOATS, mask=_INT32),)
    other_ranks = OF_OTHER_RANK
    other_types = OF_OTHER_RANK
    constraints = RULES


class MultiheadAttention1Desc(_VersionDesc):
    """DML_MULTIHEAD_ATTENTION1_OPERATOR_DESC: attention of several heads, which may share keys, and a cache of keys.

    As MULTIHEAD_ATTENTION, with G heads of keys and values: head h of the queries uses head h // (N / G) of the keys.

    With `past_sequence_lengths` the past is a cache of T keys. Row b of the batch has past_sequence_lengths[b] keys of
    the past; the S new ones come after them, in their places of the cache. Query i sees the keys of the past and the
    new ones up to number i. Lengths count as the nearest ones in [0, T - S].

    Args:
      query: (B, S, N * D), or None.
      key: (B, L, G * D), or None.
      value: (B, L, G * V), or None.
      stacked_query_key: (B, S, N, 2, D), where N is G; or None.
      stacked_key_value: (B, L, G, 2, D), or None.
      stacked_query_key_value: (B, S, N, 3, D), where N is G; or None.
      bias: (N * D + G * D + G * V), or None.
      mask: INT32 numbers, as of MULTIHEAD_ATTENTION; None if `mask_type` is NONE.
      relative_position_bias: (B, N, S, T), or None.
      past_key: (B, G, P, D); with `past_sequence_lengths` the cache, (B, G, T, D); or None.
      past_value: (B, G, P, V), or the cache, (B, G, T, V); or None.
      past_sequence_lengths: (B) of INT32; or None: all keys count for every query.
      output: (B, S, N * V).
      output_present_key: (B, G, T, D), or None. Without a past it may be longer than the keys; the rest is 0.
      output_present_value: (B, G, T, V), or None; as the keys.
      scale: a number that products of queries and keys are multiplied with, usually 1 / sqrt(D).
      mask_filter_value: a number that is added where a key does not count by the mask.
      query_head_count: N, a multiple of G.
      key_value_head_count: G.

    Example:
      >>> row, cache = TensorDesc("FLOAT32", (1, 1, 2)), TensorDesc("FLOAT32", (1, 1, 3, 2))
      >>> desc = MultiheadAttention1Desc(
      ...     *(row, row, row), past_key=cache, past_value=cache, past_sequence_lengths=TensorDesc("INT32", (1,)),
      ...     output=row, output_present_value=cache, scale=0.0, query_head_count=1, key_value_head_count=1,
      ... )
      >>> x, past = np.float32([[[5, 6]]]), np.float32([[[[1, 2], [0, 0], [0, 0]]]])
      >>> for array in desc.compute(x, x, x, past, past, np.int32([1])):
      ...     print(array.tolist())
      [[[3.0, 4.0]]]
      [[[[1.0, 2.0], [5.0, 6.0], [0.0, 0.0]]]]

    Source: DML_MULTIHEAD_ATTENTION1_OPERATOR_DESC, whose page describes nothing yet: the cache is that of
      ONNX Runtime's GroupQueryAttention, which uses this operator.
    """

    past_sequence_lengths: OptionalIndexInput = None
    _: KW_ONLY
    output: Output
    output_present_key: OptionalOutput = None
    output_present_value: OptionalOutput = None
    scale: Float
    mask_filter_value: Float = -10000.0
    query_head_count: UInt
    key_value_head_count: UInt
    mask_type: MaskType = default(MultiheadAttentionMaskType.NONE)

    support = (Support.of("6_3", range(3, 6), output=FLOATS, mask=_INT32, past_sequence_lengths=_INT32),)
    other_ranks = (*OF_OTHER_RANK, "past_sequence_lengths")
    other_types = (*OF_OTHER_RANK, "past_sequence_lengths")
    constraints = RULES_OF_1
