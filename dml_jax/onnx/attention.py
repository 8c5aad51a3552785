"""ONNX's Attention, by the formula of MULTIHEAD_ATTENTION; of 16-bit floats, sums and softmax are in float32."""

from collections.abc import Callable
from functools import partial
from math import sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import ConstraintError, DataTypeError
from ..operations.attention import attend
from ..operations.attention_steps import Attended, attention_steps, cap, key_products
from ..operations.values.accumulation_types import narrow_apart, wide_type
from ..operators._attention_formulas import append, merge_heads, split_heads
from .model_loading import dtype_of
from .operand_checks import check_both, check_shape, check_value, refuse
from .values import X64_OFF, Array, Operators, is_narrowed, on_device

_FLOATS = (1, 10, 11, 16)  # float, float16, double and bfloat16


def attention(
    *,
    q: Array,
    k: Array,
    v: Array,
    attn_mask: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    nonpad_kv_seqlen: Array | None = None,
    q_num_heads: int = 0,
    kv_num_heads: int = 0,
    is_causal: int = 0,
    left_window_size: int = -1,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
    qk_matmul_output_mode: int = 0,
    is_mask_padded: bool,
    count: int = 1,
) -> tuple[jax.Array, ...]:
    """Attention: row b of the batch has nonpad_kv_seqlen[b] keys, or those of the past and the new ones.

    A window counts from the place of a query among the keys: the queries are the last of nonpad_kv_seqlen[b] keys, or
    follow the past. A query that sees no key gives 0.
    """
    check_value("qk_matmul_output_mode", qk_matmul_output_mode, range(4))
    check_both(past_key=past_key, past_value=past_value)
    query = heads_of("Q", q, q.ndim, q_num_heads, "q_num_heads")
    new_key, new_value = (heads_of(n, x, q.ndim, kv_num_heads, "kv_num_heads") for n, x in (("K", k), ("V", v)))
    check_groups(query, new_key, new_value)
    key, value = _append_to_past(new_key, new_value, past_key, past_value, nonpad_kv_seqlen)
    lengths, starts = _places(nonpad_kv_seqlen, query, new_key.shape[2], key.shape[2])
    common = jnp.promote_types(q.dtype, v.dtype)
    wide = wide_type(common)
    operands = [x.astype(common) for x in (query, key, value)]
    scale = 1 / sqrt(max(query.shape[3], 1)) if scale is None else scale
    given: dict[str, Any] = {
        "scale": scale,
        "softcap": softcap,
        **_masks(attn_mask, (*query.shape[:3], key.shape[2]), wide, is_mask_padded),
        "lengths": lengths,
        "starts": starts,
        "window": _window(left_window_size, right_window_size, is_causal),
        "softmax_type": _softmax_type(softmax_precision, wide),
        "of_nothing": 0.0,
    }
    steps = []
    if count == 4:
        attended, products = attention_steps(*operands, **given), partial(key_products, *operands[:2], scale)
        output = narrow_apart(attended.output, q.dtype)
        steps = [narrow_apart(_step(qk_matmul_output_mode, products, softcap, attended), q.dtype)]
    else:
        output = attend(*operands, dtype=q.dtype, **given)
    return (*[merge_heads(output) if q.ndim == 3 else output, key, value][:count], *steps)


def heads_of(name: str, x: Array, rank: int, count: int, attribute: str) -> jax.Array:
    """Returns (batch, heads, rows, size of a head) of queries, keys or values; those of rank 3 have `count` heads.

    Raises:
      ConstraintError: another rank, or the count, which messages call `attribute`, does not fit.
    """
    if rank not in (3, 4):
        raise ConstraintError(f"{name} must have 3 or 4 dimensions, but it has {rank}")
    check_shape(name, x, (None,) * rank)
    if rank == 4:
        return on_device(x)
    if count < 1 or x.shape[2] % count:
        rule = f"{attribute} must be at least 1 and divide the {x.shape[2]} columns of {name}, which has 3 dimensions"
        raise ConstraintError(f"{rule}, but it is {count or 'missing'}")
    return split_heads(on_device(x), count)


def check_groups(query: jax.Array, key: jax.Array, value: jax.Array) -> None:
    """Compares heads of queries, keys and values: keys have their own number of heads, which divides that of queries.

    Raises:
      OnnxError: sizes do not fit.
    """
    check_shape("K", key, (query.shape[0], None, None, query.shape[3]))
    check_shape("V", value, (*key.shape[:3], None))
    heads, shared = query.shape[1], key.shape[1]
    if not shared or heads % shared:
        raise ConstraintError(f"heads of Q must be a multiple of those of K, but they are {heads} and {shared}")


def _append_to_past(
    key: jax.Array, value: jax.Array, past_key: Array | None, past_value: Array | None, lengths: Array | None
) -> tuple[jax.Array, jax.Array]:
    """Returns all keys and values: those of the past, if there is one, and the new ones."""
    if past_key is None or past_value is None:
        return key, value
    refuse("there is a past", nonpad_kv_seqlen=lengths)
    check_shape("past_key", past_key, (*key.shape[:2], None, key.shape[3]))
    check_shape("past_value", past_value, (*key.shape[:2], past_key.shape[2], value.shape[3]))
    return append(on_device(past_key), key, None), append(on_device(past_value), value, None)


def _places(lengths: Array | None, query: jax.Array, new: int, keys: int) -> tuple[Array | None, Array | int]:
    """Returns how many keys each row of the batch has, None for all, and the place of its first query among them."""
    batch, _, rows, _ = query.shape
    if lengths is None:
        return None, keys - new
    check_shape("nonpad_kv_seqlen", lengths, (batch,))
    lengths = lengths.clip(0, keys).astype(np.int32)
    return lengths, lengths - np.int32(rows)


def _step(mode: int, products: Callable[[], jax.Array], softcap: float, attended: Attended) -> jax.Array:
    """Returns the fourth output by `qk_matmul_output_mode`: products, those within the softcap, scores, or weights."""
    if mode >= 2:
        return (attended.scores, attended.weights)[mode - 2]
    return cap(products(), softcap if mode else 0.0)


def _softmax_type(precision: int | None, wide: Any) -> Any:
    """Returns the type in which softmax is computed: the wider one of `wide` and ONNX's number of a type, if any.

    Raises:
      DataTypeError: JAX would narrow it.
    """
    if precision is None:
        return wide
    check_value("softmax_precision", precision, _FLOATS)
    chosen = np.promote_types(wide, wide_type(dtype_of(precision, "softmax_precision")))
    if is_narrowed(chosen):
        raise DataTypeError(f"softmax_precision {chosen} must not be narrowed, but {X64_OFF}")
    return chosen


def _masks(mask: Array | None, sizes: tuple[int, ...], wide: Any, is_padded: bool) -> dict[str, Any]:
    """Returns the argument of `attend` that a mask is: flags, or numbers that are added."""
    if mask is None:
        return {}
    fitted = _fit_mask(mask, sizes, wide, is_padded)
    return {"mask": fitted} if fitted.dtype == bool else {"added": (fitted,)}


def _fit_mask(mask: Array, sizes: tuple[int, ...], wide: Any, is_padded: bool) -> jax.Array:
    """Returns a mask of rank 4 that broadcasts to `sizes`; the keys after a shorter one are excluded if `is_padded`."""
    if not 1 <= mask.ndim <= 4:
        raise ConstraintError(f"attn_mask must have 1 to 4 dimensions, but its shape is {mask.shape}")
    rank4 = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    missing = sizes[3] - rank4.shape[3] if is_padded else 0
    shape = (*rank4.shape[:3], max(rank4.shape[3], sizes[3]) if is_padded else rank4.shape[3])
    if any(n not in (1, m) for n, m in zip(shape, sizes, strict=True)):
        raise ConstraintError(f"attn_mask must broadcast to {sizes}, but its shape is {mask.shape}")
    is_flag = mask.dtype == bool
    is_exact = jnp.issubdtype(mask.dtype, jnp.floating) and mask.dtype.itemsize <= wide.itemsize
    numbers = on_device(rank4 if is_flag or is_exact else rank4.astype(wide))
    if missing <= 0:
        return numbers
    return jnp.pad(numbers, ((0, 0), (0, 0), (0, 0), (0, missing)), constant_values=False if is_flag else -np.inf)


def _window(left: int, right: int, is_causal: int) -> tuple[int | None, int | None]:
    """Returns how many keys before and after its own one a query sees; None for all of them."""
    for name, size in (("left_window_size", left), ("right_window_size", right)):
        if size < -1:
            raise ConstraintError(f"{name} must be at least -1, but it is {size}")
    return None if left < 0 else left, 0 if is_causal else None if right < 0 else right


OPERATORS: Operators = {
    "Attention": {23: partial(attention, is_mask_padded=False), 24: partial(attention, is_mask_padded=True)},
}
