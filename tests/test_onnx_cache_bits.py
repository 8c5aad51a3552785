"""Caches of keys and values keep every bit: of the past, and of new ones that nothing is added to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits, sampled
from onnx_building import helper, model

from dml_jax.onnx import to_jax

pytestmark = pytest.mark.device

FEW, SIZE = 3, 8  # rows of a cache beside those with every number, and the size of a head


def in_rows(heads):
    """(batch, heads, rows, size) as (batch, rows, heads * size), which some operators take."""
    return heads.transpose(0, 2, 1, 3).reshape(heads.shape[0], heads.shape[2], -1)


def onnx_attention(new, past):
    node = helper.make_node("Attention", ["x", "x", "x", "", "past", "past"], ["y", "keys", "values"])
    return node, {"x": new, "past": past}, {}


def multi_head_attention(new, past):
    inputs = ["x", "x", "x", "", "", "", "past", "past"]
    node = helper.make_node("MultiHeadAttention", inputs, ["y", "keys", "values"], domain="com.microsoft", num_heads=2)
    return node, {"x": in_rows(new), "past": past}, {}


def grouped(new, past, *, room=0, **attributes):
    """GroupQueryAttention, whose cache may have room for the new keys."""
    inputs = ["x", "x", "x", "past", "past", "last", "total"]
    heads = {"num_heads": 2, "kv_num_heads": 2}
    node = helper.make_node(
        "GroupQueryAttention", inputs, ["y", "keys", "values"], domain="com.microsoft", **heads, **attributes
    )
    total = past.shape[2] + new.shape[2]
    cache = np.concatenate([past, np.zeros((1, 2, room, SIZE), past.dtype)], 2)
    return node, {"x": in_rows(new), "past": cache}, {"last": np.int32([total - 1]), "total": np.int32([total])}


def with_room(new, past):
    return grouped(new, past, room=new.shape[2])


def of_a_window(new, past):
    """The window is the whole past and the new keys: the cache keeps its size and loses nothing."""
    room = new.shape[2]
    return grouped(new, past, room=room, sliding_window_cache=1, local_window_size=past.shape[2] + room)


OPERATORS = (onnx_attention, multi_head_attention, grouped, with_room, of_a_window)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.float16])
@pytest.mark.parametrize("way", sampled(["argument", "constant", "eager"], ["argument", "constant"]))
@pytest.mark.parametrize("moves", ["past", "new"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_every_number(operator, moves, way, dtype):
    numbers = np.arange(2**16, dtype=np.uint16).view(dtype).reshape(1, 2, -1, SIZE)
    few = np.ones((1, 2, FEW, SIZE), dtype)
    past, new = (numbers, few) if moves == "past" else (few, numbers)
    node, arrays, known = operator(new, past)
    if way == "constant":
        known, arrays = {**known, "past": arrays["past"]}, {"x": arrays["x"]}
    function = to_jax(model([node], arrays, ["keys", "values"], known, opset=24))
    for cache in (function if way == "eager" else jax.jit(function))(*arrays.values()):
        assert_same_bits(cache, np.concatenate([past.view(np.uint16), new.view(np.uint16)], 2).view(dtype))


@pytest.mark.parametrize("operator", [grouped, with_room])
def test_gradients_reach_the_past(operator):
    """Each number of a cache comes from one number of the past, or of the new keys."""
    node, arrays, known = operator(np.ones((1, 2, FEW, SIZE), jnp.bfloat16), np.ones((1, 2, 4, SIZE), jnp.bfloat16))
    keys = to_jax(model([node], arrays, ["keys"], known, opset=24))
    weights = np.arange(2 * 7 * SIZE).reshape(1, 2, 7, SIZE).astype(jnp.bfloat16)
    of_x, of_past = jax.jit(jax.grad(lambda *x: (keys(*x) * weights).sum(), argnums=(0, 1)))(*arrays.values())
    np.testing.assert_array_equal(of_past[:, :, :4], weights[:, :, :4])
    np.testing.assert_array_equal(of_x, in_rows(weights[:, :, 4:]))
