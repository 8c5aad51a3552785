"""Attention of ONNX Runtime's operators beside ONNX Runtime, and where that lacks it beside what it has."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_oracle import attended
from checks import sampled
from microsoft_nodes import FLOAT, Draw, close, computed, of_runtime
from onnx_building import with_changes
from operator_cases import f32

from dml_jax import TensorDesc
from dml_jax.descs import MultiheadAttentionDesc
from dml_jax.onnx import OnnxError, group_query_attention, ort_attention

# MultiHeadAttention and Attention.


def mask_of(draw, batch, rows, keys, kinds):
    """A mask of a kind that an operator knows; every query sees a key."""
    ends = draw.rng.integers(1, keys + 1, batch).astype(np.int32)
    flags = draw.rng.integers(0, 2, (batch, rows, keys)).astype(np.int32)
    flags[..., 0] = 1
    return {
        "none": None,
        "ends": ends,
        "ends and starts": np.concatenate([ends, draw.rng.integers(0, ends)]).astype(np.int32),
        "all lengths": np.concatenate([ends, np.arange(2 * batch + 2)]).astype(np.int32),
        "keys": flags[:, 0],
        "queries and keys": flags,
    }[draw.one_of(*kinds)]


COMMON_MASKS = ("none", "ends", "all lengths", "keys", "queries and keys")
LAYOUTS = ("past", "beside", "cross", "heads apart", "shared buffer")


def multi_head(seed):
    """Inputs and attributes of a node, and how many of its keys and values exist."""
    draw, layout = Draw(seed), LAYOUTS[seed % len(LAYOUTS)]
    batch, heads, size, rows = draw.below(1, 3), draw.below(1, 3), draw.one_of(4, 8), draw.below(1, 4)
    has_past = layout in ("past", "shared buffer")
    value_size = draw.one_of(size, 6) if layout in ("beside", "cross") else size
    keys = draw.below(1, 5) if layout in ("cross", "heads apart") else rows
    before, room = draw.below(1, 4) if has_past else 0, 3
    inputs = [draw(batch, n, heads * s) for n, s in ((rows, size), (keys, size), (keys, value_size))]
    if layout == "heads apart":
        inputs[1:] = draw(batch, heads, keys, size), draw(batch, heads, keys, value_size)
    inputs.append(draw(heads * (2 * size + value_size)) if draw.one_of(True, False) else None)
    masks = COMMON_MASKS if layout != "shared buffer" else ("none",)
    inputs.append(mask_of(draw, batch, rows, before + keys, masks))
    sizes = (draw.one_of(1, batch), draw.one_of(1, heads), rows, before + keys)
    inputs.append(draw(*sizes) if draw.one_of(True, False) else None)
    if has_past:
        length = before + (keys + room if layout == "shared buffer" else 0)
        inputs += [draw(batch, heads, length, size), draw(batch, heads, length, value_size)]
    if layout == "shared buffer":
        inputs.append(np.int32([before]))
    attributes = {"num_heads": heads, "unidirectional": draw.one_of(0, 1) if keys == rows else 0}
    if draw.one_of(True, False):
        attributes |= {"scale": 0.3, "mask_filter_value": -50.0}
    return inputs, attributes, before + keys


@pytest.mark.thinned(12)
@pytest.mark.parametrize("seed", range(35))
@pytest.mark.parametrize("dtype", sampled([np.float32, np.float16], [np.float32]))
def test_multi_head_attention(seed, dtype):
    inputs, attributes, exist = multi_head(seed)
    inputs = [x.astype(dtype) if x is not None and x.dtype == FLOAT else x for x in inputs]
    made = computed("MultiHeadAttention", inputs, 3, static=(8,) if seed % 2 else (), **attributes)
    wanted = of_runtime("MultiHeadAttention", inputs, 3, **attributes)
    close(made[0], wanted[0])
    for one, other in zip(made[1:], wanted[1:], strict=True):
        assert one.shape == other.shape
        close(one[:, :, :exist], other[:, :, :exist])


@pytest.mark.parametrize("part", sampled(["query", "key"], ["query"]))
def test_stacked_heads(part):
    """Which the CPU provider lacks: the same of a node that has them side by side."""
    draw, batch, rows, heads, size = Draw(1), 2, 3, 2, 4
    stacked, bias = draw(batch, rows, heads, 3, size), draw(3 * heads * size)
    query, key, value = (stacked[:, :, :, i].reshape(batch, rows, -1) for i in range(3))
    layouts = {"query": [stacked, None, None, bias], "key": [query, stacked[:, :, :, 1:], None, bias]}
    made = computed("MultiHeadAttention", layouts[part], num_heads=heads)
    close(made[0], of_runtime("MultiHeadAttention", [query, key, value, bias], num_heads=heads)[0])


@pytest.mark.thinned(12)
@pytest.mark.parametrize("seed", range(30))
def test_attention(seed):
    draw = Draw(seed)
    batch, heads, size, rows, width = (draw.below(1, most) for most in (3, 3, 6, 4, 7))
    has_past, has_sizes = draw.one_of(True, False), draw.one_of(True, False)
    sizes = [size, size, size if has_past or not has_sizes else draw.below(1, 6)]
    before = draw.below(1, 3) if has_past else 0
    mask = mask_of(draw, batch, rows, before + rows, (*COMMON_MASKS, "ends and starts"))
    inputs = [draw(batch, rows, width), draw(width, heads * sum(sizes)), draw(heads * sum(sizes)), mask]
    inputs.append(draw(2, batch, heads, before, size) if has_past else None)
    bias = draw(draw.one_of(1, batch), draw.one_of(1, heads), rows, before + rows)
    inputs.append(None if has_past else draw.one_of(bias, None))  # theirs takes one of both
    attributes = {"num_heads": heads, "unidirectional": draw.one_of(0, 1)}
    attributes |= {"qkv_hidden_sizes": [heads * n for n in sizes]} if has_sizes else {}
    attributes |= {"scale": 0.3, "mask_filter_value": -50.0} if draw.one_of(True, False) else {}
    outputs = 2 if has_past else 1
    made = computed("Attention", inputs, outputs, **attributes)
    for one, other in zip(made, of_runtime("Attention", inputs, outputs, **attributes), strict=True):
        close(one, other)


@pytest.mark.exhaustive
def test_attention_in_a_shared_buffer():
    """Which the CPU provider lacks: the same of a past that is as long as its keys."""
    draw, heads = Draw(2), 2
    inputs = [draw(2, 3, 5), draw(5, 24), draw(24)]
    past = draw(2, 2, heads, 7, 4)
    attributes = {"num_heads": heads, "unidirectional": 1}
    given = [*inputs, None, past, None, np.int32([2])]
    output, present = computed("Attention", given, 2, past_present_share_buffer=1, **attributes)
    wanted = of_runtime("Attention", [*inputs, None, past[:, :, :, :2]], 2, **attributes)
    close(output, wanted[0])
    close(present[:, :, :, :5], wanted[1])


WRONG_HEADS = {
    "query must have 5 dimensions if key is left out": {1: None, 2: None},
    "key must have 5 dimensions if value is left out": {2: None},
    "query must have a multiple of 3 heads": {"num_heads": 3},
    "query must have a multiple of 0 heads": {"num_heads": 0},
    r"key: its sizes must be \[2, \?, 8\]": {1: np.zeros((2, 3, 7), FLOAT)},
    r"bias: its sizes must be \[24\]": {3: np.zeros(8, FLOAT)},
    "the mask must be of": {4: np.zeros(3, np.int32)},
    r"the mask: its sizes must be \[\?, 3\]": {4: np.zeros((2, 4), np.int32)},
    r"attention_bias.shape\[0\] must be 1 or 2": {5: np.zeros((3, 1, 3, 3), FLOAT)},
    "past_key and past_value must be given together": {6: np.zeros((2, 2, 3, 4), FLOAT)},
    "with unidirectional there must be a new key for each query": {"unidirectional": 1, 0: np.zeros((2, 2, 8), FLOAT)},
    "the attributes of MultiHeadAttention-1 must be among": {"causal": 1},
}


@pytest.mark.parametrize("message", WRONG_HEADS)
def test_wrong_heads_are_refused(message):
    inputs, attributes = with_changes(
        WRONG_HEADS[message], [np.zeros((2, 3, 8), FLOAT)] * 3 + [None] * 7, {"num_heads": 2}
    )
    with pytest.raises(OnnxError, match=message):
        computed("MultiHeadAttention", inputs, **attributes)


WRONG_ATTENTION = {
    r"weights: its sizes must be \[5, \?\]": {1: np.zeros((4, 24), FLOAT)},
    "qkv_hidden_sizes must be 3": {"qkv_hidden_sizes": [8, 4, 12]},
    "past must be given, because past_present_share_buffer": {"past_present_share_buffer": 1},
    "past_sequence_length must be left out": {6: np.int32([1])},
    r"past: its sizes must be \[2, 1, 2, \?, 4\]": {4: np.zeros((2, 2, 2, 3, 4), FLOAT)},
}


@pytest.mark.parametrize("message", WRONG_ATTENTION)
def test_wrong_attention_is_refused(message):
    inputs, attributes = with_changes(
        WRONG_ATTENTION[message], [np.zeros((1, 3, 5), FLOAT), np.zeros((5, 24), FLOAT), *[None] * 5], {"num_heads": 2}
    )
    with pytest.raises(OnnxError, match=message):
        computed("Attention", inputs, **attributes)


# RotaryEmbedding.


@pytest.mark.thinned(6)
@pytest.mark.parametrize("seed", range(30))
def test_rotary_embedding(seed):
    draw = Draw(seed)
    batch, heads, rows, half = draw.below(1, 3), draw.below(1, 3), draw.below(1, 4), draw.one_of(2, 4, 8)
    is_partial, has_heads = draw.one_of(True, False), draw.one_of(True, False)
    size = 2 * half + (6 if is_partial else 0)
    attributes = {"interleaved": draw.one_of(0, 1)}
    attributes |= {"num_heads": heads, "rotary_embedding_dim": 2 * half} if is_partial or has_heads else {}
    x = draw(batch, heads, rows, size) if draw.one_of(True, False) else draw(batch, rows, heads * size)
    positions = draw.rng.integers(0, 5, draw.one_of((1,), (batch, rows)))
    inputs = [x, positions, draw(9, half), draw(9, half)]
    (made,) = computed("RotaryEmbedding", inputs, static=draw.one_of((), (1,)), **attributes)
    close(made, *of_runtime("RotaryEmbedding", inputs, **attributes))


def test_positions_behind_the_caches_give_nan():
    (made,) = computed("RotaryEmbedding", [np.ones((1, 3, 4), FLOAT), np.int64([7]), *[np.ones((9, 2), FLOAT)] * 2])
    np.testing.assert_array_equal(np.isnan(made), [[[False] * 4, [False] * 4, [True] * 4]])


WRONG_ROTATIONS = {
    "input must have 3 or 4 dimensions": {0: np.zeros((3, 8), FLOAT)},
    "num_heads must be given with rotary_embedding_dim": {"rotary_embedding_dim": 4},
    r"input.shape\[2\] must be a multiple of the size of a head, 4": {0: np.zeros((1, 3, 6), FLOAT)},
    r"sin_cache: its sizes must be \[9, 2\]": {3: np.zeros((9, 3), FLOAT)},
    r"cos_cache: its sizes must be \[\?, 3\]": {"num_heads": 1, "rotary_embedding_dim": 6},
    r"position_ids: its sizes must be \[1, 3\]": {1: np.zeros((3, 1), np.int64)},
}


@pytest.mark.parametrize("message", WRONG_ROTATIONS)
def test_wrong_rotations_are_refused(message):
    inputs, attributes = with_changes(
        WRONG_ROTATIONS[message], [np.zeros((1, 3, 8), FLOAT), np.int64([0]), *[np.zeros((9, 2), FLOAT)] * 2]
    )
    with pytest.raises(OnnxError, match=message):
        computed("RotaryEmbedding", inputs, **attributes)


# Gradients.


def of_query_without_keys():
    """Calls of queries, keys and values in heads, (1, 2, 3, 8), with scores of -inf for all keys of query 1."""
    bias = np.zeros((1, 1, 3, 3), FLOAT)
    bias[0, 0, 1] = -np.inf
    last = {"seqlens_k": np.int32([2]), "total_sequence_length": np.int32([3])}
    counts, scale = {"num_heads": 2}, {"scale": 0.5}

    def multi_head(q, k, v):
        given = {"query": q, "key": k, "value": v, "attention_bias": bias}
        return ort_attention.multi_head_attention(**given, **counts, **scale)[0]

    def grouped(q, k, v):
        given = {"query": q, "key": k, "value": v, "attention_bias": bias, **last}
        return group_query_attention.group_query_attention(**given, **counts, **scale, kv_num_heads=2, causal=0)[0]

    def struct(q, k, v):
        flags = np.broadcast_to(bias == 0, (1, 2, 3, 3)).astype(np.int32)
        rows, mask = f32(1, 3, 16), TensorDesc("INT32", flags.shape)
        masked = {"mask": mask, "mask_type": "BOOLEAN", "mask_filter_value": -np.inf}
        desc = MultiheadAttentionDesc(rows, rows, rows, output=rows, head_count=2, **scale, **masked)
        return desc.compute(q, k, v, flags)

    return {"MultiHeadAttention": multi_head, "GroupQueryAttention": grouped, "MULTIHEAD_ATTENTION": struct}


@pytest.mark.parametrize("operator", sampled(of_query_without_keys(), ["MultiHeadAttention"]))
def test_a_query_that_sees_no_key_has_no_gradient(operator):
    """Its output is NaN, as in ONNX Runtime; a program that leaves it out has finite derivatives."""
    draw, call = Draw(3), of_query_without_keys()[operator]
    heads = [draw(1, 2, 3, 8) for _ in range(3)]
    cotangent = draw(1, 2, 3, 8)
    cotangent[:, :, 1] = 0

    def flat(x):
        return x.transpose(0, 2, 1, 3).reshape(1, 3, 16)

    def total(*rows):
        output = call(*rows)
        return (jnp.where(jnp.isnan(output), 0, output) * flat(cotangent)).sum(), output

    slopes, output = jax.jit(jax.grad(total, argnums=range(3), has_aux=True))(*map(flat, heads))
    wanted = attended(*heads, np.array([[True], [False], [True]]), cotangent, scale=0.5)
    assert np.isnan(output[:, 1]).all()
    np.testing.assert_allclose(output[:, ::2], flat(wanted.output)[:, ::2], rtol=1e-5, atol=1e-6)
    for slope, expected in zip(slopes, (wanted.of_query, wanted.of_key, wanted.of_value), strict=True):
        np.testing.assert_allclose(slope, flat(expected), rtol=1e-5, atol=1e-6)
