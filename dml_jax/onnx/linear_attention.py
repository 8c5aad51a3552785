"""ONNX's LinearAttention: a matrix of values by keys, updated by each token, in float32 and rounded once."""

from collections.abc import Mapping
from functools import partial
from math import sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..operations.values.accumulation_types import narrow_apart
from ..operations.values.wide_products import wide_product
from ..operators._attention_formulas import merge_heads, split_heads
from .operand_checks import check_head_counts, check_shape, check_value, needed, refuse
from .values import Array, Operators, as_wide

# By the rule of an update: whether the state decays, and whether its answer to a key is taken off the new value.
_RULES: Mapping[str, tuple[bool, bool]] = {
    "linear": (False, False),
    "gated": (True, False),
    "delta": (False, True),
    "gated_delta": (True, True),
}


def linear_attention(
    *,
    query: Array,
    key: Array,
    value: Array,
    past_state: Array | None = None,
    decay: Array | None = None,
    beta: Array | None = None,
    q_num_heads: int,
    kv_num_heads: int,
    update_rule: str = "gated_delta",
    scale: float = 0.0,
    chunk_size: int = 64,  # which changes no number
) -> tuple[jax.Array, jax.Array]:
    """LinearAttention: token by token the state is multiplied with exp(decay), and key * value is added to it.

    An output is scale * query @ state. With a delta rule the value is beta * (value - key @ state).
    """
    _check_rule(update_rule, decay=decay, beta=beta)
    size, value_size = _head_sizes(query, key, value, q_num_heads, kv_num_heads)
    batch, rows, _ = query.shape
    check_shape("past_state", past_state, (batch, kv_num_heads, size, value_size))
    if decay is not None:
        check_value("decay.shape", decay.shape, [(batch, rows, kv_num_heads * n) for n in (1, size)])
    if beta is not None:
        check_value("beta.shape", beta.shape, [(batch, rows, n) for n in (1, kv_num_heads)])
    grouped = (batch, kv_num_heads, q_num_heads // kv_num_heads, rows, size)
    tokens = {
        "query": split_heads(as_wide(query), q_num_heads).reshape(grouped),
        "key": split_heads(as_wide(key), kv_num_heads),
        "value": split_heads(as_wide(value), kv_num_heads),
        "decay": None if decay is None else split_heads(as_wide(decay), kv_num_heads),
        "beta": None if beta is None else split_heads(as_wide(beta), beta.shape[2]),
    }
    by_row = {name: x if x is None else jnp.moveaxis(x, -2, 0) for name, x in tokens.items()}
    state = (
        jnp.zeros((batch, kv_num_heads, size, value_size), np.float32) if past_state is None else as_wide(past_state)
    )
    state, outputs = lax.scan(_step, state, by_row)
    heads = jnp.moveaxis(outputs, 0, -2).reshape(batch, q_num_heads, rows, value_size)
    output = merge_heads(heads) * np.float32(scale or 1 / sqrt(max(size, 1)))
    return narrow_apart(output, query.dtype), narrow_apart(state, (query if past_state is None else past_state).dtype)


def _check_rule(update_rule: str, **operands: Array | None) -> None:
    """Checks that the operands of the update, decay and beta, are those of its rule."""
    check_value("update_rule", update_rule, _RULES)
    reason = f"update_rule is {update_rule}"
    for (name, operand), is_needed in zip(operands.items(), _RULES[update_rule], strict=True):
        if is_needed:
            needed(name, operand, reason)
        else:
            refuse(reason, **{name: operand})


def _head_sizes(query: Array, key: Array, value: Array, heads: int, shared: int) -> tuple[int, int]:
    """Checks queries, keys and values, (batch, rows, heads * size); returns the sizes of a head's key and value."""
    check_head_counts("q_num_heads", heads, shared)
    check_shape("query", query, (None, None, None))
    batch, rows, width = query.shape
    size = width // heads
    check_shape("query", query, (batch, rows, heads * size))
    check_shape("key", key, (batch, rows, shared * size))
    check_shape("value", value, (batch, rows, None))
    value_size = value.shape[2] // shared
    check_shape("value", value, (batch, rows, shared * value_size))
    return size, value_size


def _step(state: jax.Array, token: Mapping[str, Any]) -> tuple[jax.Array, jax.Array]:
    """Returns the state, (batch, G heads, D, V), after a token, and the queries' products with it."""
    key, value = token["key"], token["value"]
    if token["decay"] is not None:
        state = state * jnp.exp(token["decay"])[..., None]
    if token["beta"] is not None:
        value = token["beta"] * (value - _product("bgdv,bgd->bgv", state, key))
    state = state + key[..., None] * value[..., None, :]
    return state, _product("bghd,bgdv->bghv", token["query"], state)


def _product(equation: str, a: jax.Array, b: jax.Array) -> jax.Array:
    return wide_product(partial(jnp.einsum, equation, precision=lax.Precision.HIGHEST))(a, b)


OPERATORS: Operators = {"LinearAttention": {27: linear_attention}}
