"""ONNX's FlexAttention: attention whose scores and weights graphs of the model change."""

from math import sqrt

import jax
import numpy as np

from ..operations.attention_steps import key_products, value_sums
from ..operations.softmax import compute_along, softmax
from ..operations.values.accumulation_types import narrow_apart, wide_type
from .attention import check_groups, heads_of
from .block_execution import Body
from .model_loading import dtype_of
from .operand_checks import check_shape, check_value
from .values import Array, Operators, as_wide, on_device


def flex_attention(
    *,
    q: Array,
    k: Array,
    v: Array,
    score_mod: Body | None = None,
    prob_mod: Body | None = None,
    scale: float | None = None,
    softmax_precision: int | None = None,
) -> jax.Array:
    """FlexAttention: the graphs get scores and weights in the type of `softmax_precision`, by default the wide one."""
    query, key, value = (heads_of(name, x, 4, 0, "") for name, x in (("Q", q), ("K", k), ("V", v)))
    check_groups(query, key, value)
    wide = wide_type(q.dtype)
    dtype = wide if softmax_precision is None else dtype_of(softmax_precision, "softmax_precision")
    products = key_products(as_wide(query), as_wide(key), 1 / sqrt(max(q.shape[3], 1)) if scale is None else scale)
    scores = _changed("score_mod", score_mod, products.astype(dtype))
    weights = _changed("prob_mod", prob_mod, compute_along(lambda x: softmax(x, (3,)), scores, (3,)))
    computed = np.promote_types(wide, wide_type(dtype))
    return narrow_apart(value_sums(weights.astype(computed), value.astype(computed)), v.dtype)


def _changed(name: str, graph: Body | None, x: jax.Array) -> jax.Array:
    """Returns what a graph makes of scores or weights: as many, of their type."""
    if graph is None:
        return x
    graph.check(inputs=1, outputs=1)
    changed = on_device(graph(x)[0])
    check_shape(f"the output of {name}", changed, x.shape)
    check_value(f"the type of the output of {name}", changed.dtype, (x.dtype,))
    return changed


OPERATORS: Operators = {"ai.onnx.preview::FlexAttention": {1: flex_attention}}
