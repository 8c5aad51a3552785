"""RMSNormalization, and ONNX Runtime's forms of it and of LayerNormalization, in float32 or wider."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import ConstraintError
from ..operations.values.accumulation_types import narrow_apart, wide_type
from ..operators import gather
from ..operators._normalization_formulas import inverse_deviation, mean_of_squares, moments, normalize
from .contrib_schemas import optional, schema
from .layout import axis_of
from .normalization import spread
from .operand_checks import check_shape, check_value, needed
from .values import Array, Operators, as_wide, on_device


def rms_normalization(
    *, x: Array, scale: Array, axis: int, epsilon: float, stash_type: int = 1, count: int = 1
) -> tuple[jax.Array, ...]:
    """RMSNormalization: x / sqrt(mean(x²) + epsilon) * scale, in the type of the scale; `stash_type` changes nothing.

    The second output is 1 / sqrt(mean(x²) + epsilon).
    """
    factors = spread("scale", scale, x.shape)
    real = on_device(x).astype(np.result_type(wide_type(x.dtype), factors.dtype))
    squares = mean_of_squares(real, range(axis_of("axis", axis, x.ndim), x.ndim))
    y = normalize(real, None, squares, factors, None, epsilon=epsilon)
    return (narrow_apart(y, scale.dtype), inverse_deviation(squares, epsilon).astype(np.float32))[:count]


def _skip(*, is_centred: bool) -> Callable[..., tuple[jax.Array, ...]]:
    """Returns the normalization of input + skip + bias; the sum is not rounded before."""

    def normalized(
        *,
        input: Array,
        skip: Array,
        gamma: Array,
        beta: Array | None = None,
        bias: Array | None = None,
        epsilon: float,
        count: int = 1,
    ) -> tuple[jax.Array, ...]:
        if input.ndim not in (2, 3):
            raise ConstraintError(f"input must have 2 or 3 dimensions, but its shape is {input.shape}")
        check_value("skip.shape", skip.shape, {input.shape, (1, *input.shape[-2:]), input.shape[-2:]})
        total = as_wide(input) + jnp.broadcast_to(as_wide(skip), input.shape)
        if bias is not None:
            total = total + _row("bias", bias, total)
        y, mean, variance = _normalize_rows(total, gamma, beta, epsilon, is_centred=is_centred)
        saved = (array.astype(np.float32) for array in (mean, inverse_deviation(variance, epsilon)))
        return (narrow_apart(y, input.dtype), *saved, narrow_apart(total, input.dtype))[:count]

    return normalized


def embed_layer_normalization(
    *,
    input_ids: Array,
    segment_ids: Array | None = None,
    word_embedding: Array,
    position_embedding: Array,
    segment_embedding: Array | None = None,
    gamma: Array,
    beta: Array,
    mask: Array | None = None,
    position_ids: Array | None = None,
    epsilon: float,
    mask_index_type: int = 1,  # the index is made if it is read
    count: int = 1,
) -> tuple[jax.Array, ...]:
    """EmbedLayerNormalization: the normalized sum of embeddings, and the count of ones in each row of the mask."""
    check_shape("input_ids", input_ids, (None, None))
    batch, rows = input_ids.shape
    check_shape("word_embedding", word_embedding, (None, None))
    size = word_embedding.shape[1]
    check_shape("position_embedding", position_embedding, (None, size))
    check_shape("segment_embedding", segment_embedding, (None, size))
    check_shape("segment_ids", segment_ids, (batch, rows))
    check_shape("mask", mask, (batch, rows))
    total = _looked_up(word_embedding, input_ids)
    if position_ids is None:
        if position_embedding.shape[0] < rows:
            rule = f"position_embedding must have a row for each of {rows} positions"
            raise ConstraintError(f"{rule}, but it has {position_embedding.shape[0]}")
        positions = as_wide(position_embedding)[None, :rows]
    else:
        check_value("position_ids.shape", position_ids.shape, {(batch, rows), (1, rows)})
        positions = _looked_up(position_embedding, position_ids)
    total = total + positions
    if segment_ids is not None:
        table = needed("segment_embedding", segment_embedding, "segment_ids are given")
        total = total + _looked_up(table, segment_ids)
    y, *_ = _normalize_rows(total, gamma, beta, epsilon, is_centred=True)
    lengths = np.zeros(batch, np.int32) if mask is None else (on_device(mask) == 1).sum(1, dtype=np.int32)
    dtype = word_embedding.dtype
    return (narrow_apart(y, dtype), on_device(lengths), narrow_apart(total, dtype))[:count]


def _normalize_rows(total: jax.Array, gamma: Array, beta: Array | None, epsilon: float, *, is_centred: bool) -> Any:
    """Normalizes rows; returns them with mean and variance. Without `is_centred` the mean is 0."""
    if is_centred:
        y, mean, variance = moments(total, (-1,))
    else:
        y, variance = total, mean_of_squares(total, (-1,))
        mean = jnp.zeros_like(variance)
    scale, bias = (None if x is None else _row(name, x, total) for name, x in (("gamma", gamma), ("beta", beta)))
    return normalize(y, None, variance, scale, bias, epsilon=epsilon), mean, variance


def _row(name: str, numbers: Array, x: jax.Array) -> jax.Array:
    """Reshapes numbers for the last dimension of x."""
    check_shape(name, numbers, x.shape[-1:])
    return as_wide(numbers).reshape((1,) * (x.ndim - 1) + numbers.shape)


def _looked_up(table: Array, ids: Array) -> jax.Array:
    return as_wide(gather(on_device(table), ids, 0))


_SKIP = {"epsilon": 1e-12}
_SAVED = "output T, mean? U, inv_std_var? U, input_skip_bias_sum? T"
_FLOATS = "float float16 bfloat16"
_ALL = f"{_FLOATS} double"
OPERATORS: Operators = {
    "RMSNormalization": {23: rms_normalization},
    "SimplifiedLayerNormalization": {1: rms_normalization},  # its name before opset 23
    "com.microsoft::EmbedLayerNormalization": {1: embed_layer_normalization},
    "com.microsoft::SkipLayerNormalization": {1: _skip(is_centred=True)},
    "com.microsoft::SkipSimplifiedLayerNormalization": {1: _skip(is_centred=False)},
}
_OF_LAYERS = {"axis": -1, "epsilon": 1e-5, "stash_type": 1}
SCHEMAS = (
    # Of ONNX's own domain, which has LayerNormalization from opset 17 on.
    schema(
        "LayerNormalization",
        "X T, Scale V, B? V",
        "Y V, Mean? U, InvStdDev? U",
        _OF_LAYERS,
        domain="",
        T=_ALL,
        V=_ALL,
        U="float bfloat16",
    ),
    schema(
        "SimplifiedLayerNormalization",
        "X T, scale V",
        "Y V, inv_std_var? U",
        _OF_LAYERS,
        domain="",
        T=_ALL,
        V=_ALL,
        U="float",
    ),
    schema(
        "EmbedLayerNormalization",
        "input_ids I, segment_ids? I, word_embedding T, position_embedding T, segment_embedding? T, gamma T, beta T, "
        "mask? I, position_ids? I",
        "output T, mask_index? I, embedding_sum? T",
        {"epsilon": 1e-12, "mask_index_type": optional("INT")},
        T="float float16",
        I="int32",
    ),
    schema("SkipLayerNormalization", "input T, skip T, gamma T, beta? T, bias? T", _SAVED, _SKIP, T=_FLOATS, U="float"),
    schema(
        "SkipSimplifiedLayerNormalization", "input T, skip T, gamma T, bias? T", _SAVED, _SKIP, T=_FLOATS, U="float"
    ),
)
