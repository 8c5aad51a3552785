"""Rotary position embedding (RoPE): rotates pairs of features by angles proportional to the position."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import ConstraintError
from ..operations.values.accumulation_types import narrow_apart
from ..operators import gather
from ..operators._attention_formulas import merge_heads, split_heads
from .attention import heads_of
from .contrib_schemas import optional, schema
from .operand_checks import check_shape
from .values import Array, Operators, as_wide, on_device


def rotate(x: jax.Array, positions: Any | None, cosines: Array, sines: Array, *, is_interleaved: bool) -> jax.Array:
    """Rotates the first features of each head: two for each cosine and sine of a position.

    [1, 2, 3, 4] has the pairs (1, 3) and (2, 4), or (1, 2) and (3, 4) if they are interleaved.

    Args:
      x: (batch, heads, rows, size), floats of 32 bits or more.
      positions: (batch or 1, rows), integers; one past the last row of the caches gives NaN. None: each row of the
        batch has caches of its own.
      cosines: (positions, half of the numbers that are turned), or (batch, rows, half of them) without positions.
      sines: as `cosines`.
      is_interleaved: whether the two numbers of a pair stand side by side.
    """
    half, axis = cosines.shape[-1], -1 if is_interleaved else -2
    pairs = (half, 2) if is_interleaved else (2, half)
    caches = [on_device(cache).astype(x.dtype) for cache in (cosines, sines)]
    if positions is not None:
        caches = [gather(cache, positions, 0, mode="fill", fill_value=np.nan) for cache in caches]
    cosine, sine = (cache[:, None] for cache in caches)
    a, b = jnp.moveaxis(x[..., : 2 * half].reshape(*x.shape[:3], *pairs), axis, 0)
    turned = jnp.stack([a * cosine - b * sine, a * sine + b * cosine], axis).reshape(*x.shape[:3], 2 * half)
    return jnp.concatenate([turned, x[..., 2 * half :]], axis=-1)


def check_caches(cosines: Array, sines: Array, turned: int | None = None, size: int | None = None) -> None:
    """Checks the shapes of the caches against each other, the rotated features and the head size."""
    check_shape("cos_cache", cosines, (None, None if turned is None else turned // 2))
    check_shape("sin_cache", sines, cosines.shape)
    if size is not None and 2 * cosines.shape[1] > size:
        rule = f"cos_cache.shape[1] must be at most half the size of a head, {size}"
        raise ConstraintError(f"{rule}, but it is {cosines.shape[1]}")


def rotary_embedding_by_heads(
    *,
    x: Array,
    cos_cache: Array,
    sin_cache: Array,
    position_ids: Array | None = None,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> jax.Array:
    """ONNX's RotaryEmbedding: without positions each row of the batch has caches of its own."""
    heads = as_wide(heads_of("X", x, x.ndim, num_heads, "num_heads"))
    batch, _, rows, size = heads.shape
    half = (rotary_embedding_dim or size) // 2
    check_shape("cos_cache", cos_cache, (batch, rows, half) if position_ids is None else (None, half))
    check_shape("sin_cache", sin_cache, cos_cache.shape)
    if 2 * half > size:
        raise ConstraintError(f"rotary_embedding_dim must be at most the size of a head, {size}, but it is {2 * half}")
    check_shape("position_ids", position_ids, (batch, rows))
    turned = rotate(heads, position_ids, cos_cache, sin_cache, is_interleaved=bool(interleaved))
    return narrow_apart(turned if x.ndim == 4 else merge_heads(turned), x.dtype)


def rotary_embedding(
    *,
    input: Array,
    position_ids: Array,
    cos_cache: Array,
    sin_cache: Array,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    is_packed_batching: int = 0,  # which changes no number
    scale: float = 1.0,  # supported_options.py refuses others
) -> jax.Array:
    """ONNX Runtime's RotaryEmbedding; a single position is the first row's. The caches tell the size of a head."""
    if input.ndim not in (3, 4):
        raise ConstraintError(f"input must have 3 or 4 dimensions, but its shape is {input.shape}")
    if rotary_embedding_dim and not num_heads:
        raise ConstraintError(f"num_heads must be given with rotary_embedding_dim, {rotary_embedding_dim}, but it is 0")
    check_caches(cos_cache, sin_cache, rotary_embedding_dim or None)
    x = as_wide(input)
    if input.ndim == 3:
        size = input.shape[2] // num_heads if rotary_embedding_dim else 2 * cos_cache.shape[1]
        if size < 1 or input.shape[2] % size:
            rule = f"input.shape[2] must be a multiple of the size of a head, {size}"
            raise ConstraintError(f"{rule}, but it is {input.shape[2]}")
        x = split_heads(x, input.shape[2] // size)
    check_caches(cos_cache, sin_cache, rotary_embedding_dim or x.shape[-1], x.shape[-1])
    batch, rows = x.shape[0], x.shape[2]
    if position_ids.shape == (1,):
        position_ids = position_ids.reshape(1, 1) + np.arange(rows, dtype=position_ids.dtype)[None]
    else:
        check_shape("position_ids", position_ids, (batch, rows))
    turned = rotate(x, position_ids, cos_cache, sin_cache, is_interleaved=bool(interleaved))
    return narrow_apart(turned if input.ndim == 4 else merge_heads(turned), input.dtype)


OPERATORS: Operators = {
    "RotaryEmbedding": {23: rotary_embedding_by_heads},
    "com.microsoft::RotaryEmbedding": {1: rotary_embedding},
}
SCHEMAS = (
    schema(
        "RotaryEmbedding",
        "input T, position_ids M, cos_cache T, sin_cache T",
        "output T",
        {
            "interleaved": optional("INT"),
            "num_heads": optional("INT"),
            "rotary_embedding_dim": optional("INT"),
            "is_packed_batching": optional("INT"),
            "scale": optional("FLOAT"),
        },
        T="float float16 bfloat16",
        M="int64",
    ),
)
