"""Attention of ONNX Runtime's operators beside ONNX Runtime, and where that lacks it beside what it has."""

import jax
import numpy as np
import pytest
from checks import sampled
from onnx_building import one_node, runtime

from dml_jax.onnx import OnnxError, to_jax

FLOAT = np.float32


class Draw:
    """Random numbers by a seed."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def __call__(self, *shape):
        return self.rng.standard_normal(shape).astype(FLOAT)

    def one_of(self, *values):
        return values[int(self.rng.integers(len(values)))]

    def below(self, least, most):
        return int(self.rng.integers(least, most + 1))


def computed(kind, inputs, outputs=1, static=(), **attributes):
    """The outputs of a jitted node, whose inputs at these positions are known."""
    model, named = one_node(kind, inputs, outputs, "com.microsoft", **attributes)
    known = {name: named.pop(name) for name in [f"x{i}" for i in static] if name in named}
    wide = [name for name, array in named.items() if array.dtype == np.int64]
    named = {name: array.astype(np.int32) if name in wide else array for name, array in named.items()}
    return jax.tree.leaves(jax.jit(to_jax(model, static=known, int32=wide))(**named))


def of_runtime(kind, inputs, outputs=1, **attributes):
    return runtime(*one_node(kind, inputs, outputs, "com.microsoft", **attributes))


def close(actual, expected):
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    narrow = 2e-3 if expected.dtype == np.float16 else 1e-5
    np.testing.assert_allclose(np.asarray(actual, FLOAT), np.asarray(expected, FLOAT), rtol=narrow, atol=narrow)


# GroupQueryAttention.

QUERY, KEY, VALUE, PAST_KEY, PAST_VALUE, LENGTHS, TOTAL, COS, SIN, POSITIONS, BIAS, SINK = range(12)
CHUNK = 16
KINDS = ("prompt", "prompt in a cache", "one more", "one more in a cache", "some more in a cache", "padded chunk")


def grouped(seed):
    """Inputs and attributes of a node, which rows of queries count, and how many keys each row of the batch has."""
    draw, kind = Draw(seed), KINDS[seed % len(KINDS)]
    batch = 1 if kind.startswith("some") else draw.below(1, 3)
    shared, group, size = draw.below(1, 2), draw.below(1, 3), draw.one_of(8, 16, 32)
    rows = 1 if kind.startswith("one") else draw.below(2, 5)
    room = {"prompt": 0, "one more": draw.below(1, 6)}.get(kind, rows + draw.below(3, 6))
    total = room + 1 if kind == "one more" else rows if "prompt" in kind else draw.below(rows + 1, room - 1)
    ends = np.full(batch, total, np.int32)
    if kind != "some more in a cache":
        ends[1:] = draw.rng.integers(rows if kind.startswith("padded") else 1, total + 1, batch - 1)
    new = np.minimum(rows, ends)
    if kind == "padded chunk":
        new = np.int32([draw.below(max(1, rows + end - room), rows) for end in ends])
    inputs = [None] * 17
    heads = shared * group
    parts = [draw(batch, rows, n * size) for n in (heads, shared, shared)]
    inputs[:3] = [np.concatenate(parts, -1), None, None] if draw.one_of(True, False) else parts
    if room:
        inputs[PAST_KEY], inputs[PAST_VALUE] = draw(batch, shared, room, size), draw(batch, shared, room, size)
    inputs[LENGTHS], inputs[TOTAL] = ends - np.int32(1), np.int32([total])
    if kind == "padded chunk":
        inputs[CHUNK] = new
    attributes = {"num_heads": heads, "kv_num_heads": shared}
    if size > 8 and draw.one_of(True, True, False):
        half = draw.one_of(8, size // 2)
        inputs[COS], inputs[SIN] = draw(20, half), draw(20, half)
        attributes |= {"do_rotary": 1, "rotary_interleaved": draw.one_of(0, 1)}
        if draw.one_of(True, False):
            inputs[POSITIONS] = draw.rng.integers(0, 15, (batch, rows))
    if draw.one_of(True, False):
        inputs[BIAS] = draw(draw.one_of(1, batch), draw.one_of(1, heads), rows, total)
    if draw.one_of(True, False):
        inputs[SINK] = draw(heads)
    elif draw.one_of(True, False):
        attributes["smooth_softmax"] = 1
    if draw.one_of(True, False):
        attributes["softcap"] = 0.8
    if draw.one_of(True, False):
        attributes["scale"] = 0.4
    if draw.one_of(True, False):
        attributes["local_window_size"] = draw.below(1, 4)
    elif kind != "padded chunk" and draw.one_of(True, False):
        attributes["causal"] = 0
    attributes["qk_output"] = draw.one_of(0, 1, 2)
    return inputs, attributes, np.arange(rows) < new[:, None], ends


@pytest.mark.thinned(5)
@pytest.mark.parametrize("seed", range(36))
@pytest.mark.parametrize("dtype", sampled([np.float32, np.float16], [np.float32]))
def test_group_query_attention(seed, dtype):
    """Rows of padding, and keys behind the last one, may be anything. Where it can, the total length is data."""
    inputs, attributes, counts, ends = grouped(seed)
    inputs = [x.astype(dtype) if x is not None and x.dtype == FLOAT else x for x in inputs]
    outputs = 4 if attributes["qk_output"] else 3
    wanted = of_runtime("GroupQueryAttention", inputs, outputs, **attributes)
    room = 0 if inputs[PAST_KEY] is None else inputs[PAST_KEY].shape[2]
    is_data = outputs == 3 and inputs[BIAS] is None and wanted[1].shape[2] in (room, inputs[QUERY].shape[1])
    made = computed("GroupQueryAttention", inputs, outputs, static=() if is_data else (TOTAL,), **attributes)
    close(made[0][counts], wanted[0][counts])
    for one, other in zip(made[1:3], wanted[1:3], strict=True):
        assert one.shape == other.shape
        exists = np.arange(one.shape[2]) < ends[:, None]
        close(one.transpose(0, 2, 1, 3)[exists], other.transpose(0, 2, 1, 3)[exists])
    if outputs == 4:
        close(made[3].transpose(0, 2, 1, 3)[counts], wanted[3].transpose(0, 2, 1, 3)[counts])


def test_a_cache_without_room_gives_nan():
    """Where the lengths are data; known ones are refused."""
    inputs, attributes, *_ = grouped(3)
    inputs[LENGTHS] = np.full_like(inputs[LENGTHS], inputs[PAST_KEY].shape[2])
    assert np.isnan(computed("GroupQueryAttention", inputs, **attributes)[0]).all()
    with pytest.raises(OnnxError, match=r"seqlens_k must be in \[0, "):
        computed("GroupQueryAttention", inputs, static=(LENGTHS, TOTAL), **attributes)


def test_normalized_heads():
    """Queries and keys by the root of the mean of their squares, which the CPU provider lacks."""
    draw, shared, heads, size = Draw(0), 2, 4, 8
    query, key, value = (draw(2, 3, n * size) for n in (heads, shared, shared))
    weights, epsilons = (draw(size), draw(size)), {"q_norm_epsilon": 0.5, "qk_norm_epsilon": 0.25}
    rest = [None, None, np.int32([2, 2]), np.int32([3])]
    attributes = {"num_heads": heads, "kv_num_heads": shared}
    made = computed("GroupQueryAttention", [query, key, value, *rest, *[None] * 7, *weights], **attributes, **epsilons)
    normalized = []
    for x, weight, epsilon in ((query, weights[0], 0.5), (key, weights[1], 0.25)):
        by_head = x.reshape(2, 3, -1, size).astype(np.float64)
        by_head *= weight / np.sqrt((by_head**2).mean(-1, keepdims=True) + epsilon)
        normalized.append(by_head.reshape(x.shape).astype(FLOAT))
    close(made[0], of_runtime("GroupQueryAttention", [*normalized, value, *rest], **attributes)[0])


WRONG_GROUPED = {
    "num_heads must be a multiple of kv_num_heads": {"kv_num_heads": 3},
    r"query: its sizes must be \[\?, \?, \?\]": {QUERY: np.zeros((1, 32), FLOAT)},
    r"query.shape\[2\] must be a multiple of 4 heads": {QUERY: np.zeros((1, 1, 33), FLOAT)},
    "key and value must be given together": {VALUE: None},
    "past_key and past_value must be given together": {PAST_VALUE: None},
    r"past_value: its sizes must be \[1, 2, 6, 8\]": {PAST_VALUE: np.zeros((1, 2, 5, 8), FLOAT)},
    "seqlens_k.size must be 1": {LENGTHS: np.int32([1, 1])},
    "total_sequence_length.size must be 1": {TOTAL: np.int32([3, 3])},
    r"total_sequence_length must be 7, or in \[1, 6\]": {TOTAL: np.int32([9])},
    "cos_cache must be given, because do_rotary is 1": {"do_rotary": 1},
    r"attention_bias.shape\[1\] must be 1 or 4": {BIAS: np.zeros((1, 3, 1, 5), FLOAT)},
    r"attention_bias: its sizes must be \[\?, \?, \?, 5\]": {BIAS: np.zeros((1, 4, 1, 6), FLOAT)},
    r"head_sink: its sizes must be \[4\]": {SINK: np.zeros(3, FLOAT)},
    "local_window_size": {"causal": 0, "local_window_size": 2},
    "qk_output must be 0 or 1 or 2": {"qk_output": 3},
    "k_scale must be left out": {12: np.ones(1, FLOAT)},
    "k_quant_type must be NONE": {"k_quant_type": "PER_TENSOR"},
    "sliding_window_cache must be 0": {"sliding_window_cache": 1},
    "q_norm_weight and k_norm_weight must be given together": {14: np.ones(8, FLOAT)},
    "past_key must be given, because query_seqlens": {CHUNK: np.int32([1]), PAST_KEY: None, PAST_VALUE: None},
    "past_key of GroupQueryAttention-1 must be one of float": {PAST_KEY: np.zeros((1, 2, 6, 8), np.int8)},
}


@pytest.mark.parametrize("message", WRONG_GROUPED)
def test_wrong_groups_are_refused(message):
    inputs = [np.zeros((1, 1, n * 8), FLOAT) for n in (4, 2, 2)] + [np.zeros((1, 2, 6, 8), FLOAT)] * 2
    inputs += [np.int32([4]), np.int32([5]), *[None] * 10]
    attributes = {"num_heads": 4, "kv_num_heads": 2}
    for where, value in WRONG_GROUPED[message].items():
        if isinstance(where, int):
            inputs[where] = value
        else:
            attributes[where] = value
    with pytest.raises(OnnxError, match=message):
        computed("GroupQueryAttention", inputs, static=(TOTAL,), **attributes)


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


@pytest.mark.thinned(6)
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


@pytest.mark.thinned(6)
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
    "cache_indirection must be left out": {9: np.zeros((2, 1, 3), np.int32)},
    "with unidirectional there must be a new key for each query": {"unidirectional": 1, 0: np.zeros((2, 2, 8), FLOAT)},
    "the attributes of MultiHeadAttention-1 must be among": {"causal": 1},
}


@pytest.mark.parametrize("message", WRONG_HEADS)
def test_wrong_heads_are_refused(message):
    inputs, attributes = [np.zeros((2, 3, 8), FLOAT)] * 3 + [None] * 7, {"num_heads": 2}
    for where, value in WRONG_HEADS[message].items():
        if isinstance(where, int):
            inputs[where] = value
        else:
            attributes[where] = value
    with pytest.raises(OnnxError, match=message):
        computed("MultiHeadAttention", inputs, **attributes)


WRONG_ATTENTION = {
    r"weights: its sizes must be \[5, \?\]": {1: np.zeros((4, 24), FLOAT)},
    "qkv_hidden_sizes must be 3": {"qkv_hidden_sizes": [8, 4, 12]},
    "do_rotary must be 0": {"do_rotary": 1},
    "past must be given, because past_present_share_buffer": {"past_present_share_buffer": 1},
    "past_sequence_length must be left out": {6: np.int32([1])},
    r"past: its sizes must be \[2, 1, 2, \?, 4\]": {4: np.zeros((2, 2, 2, 3, 4), FLOAT)},
}


@pytest.mark.parametrize("message", WRONG_ATTENTION)
def test_wrong_attention_is_refused(message):
    inputs, attributes = [np.zeros((1, 3, 5), FLOAT), np.zeros((5, 24), FLOAT), *[None] * 5], {"num_heads": 2}
    for where, value in WRONG_ATTENTION[message].items():
        if isinstance(where, int):
            inputs[where] = value
        else:
            attributes[where] = value
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
    "scale must be 1.0": {"scale": 2.0},
    "input must have 3 or 4 dimensions": {0: np.zeros((3, 8), FLOAT)},
    "num_heads must be given with rotary_embedding_dim": {"rotary_embedding_dim": 4},
    r"input.shape\[2\] must be a multiple of the size of a head, 4": {0: np.zeros((1, 3, 6), FLOAT)},
    r"sin_cache: its sizes must be \[9, 2\]": {3: np.zeros((9, 3), FLOAT)},
    r"cos_cache: its sizes must be \[\?, 3\]": {"num_heads": 1, "rotary_embedding_dim": 6},
    r"position_ids: its sizes must be \[1, 3\]": {1: np.zeros((3, 1), np.int64)},
}


@pytest.mark.parametrize("message", WRONG_ROTATIONS)
def test_wrong_rotations_are_refused(message):
    inputs, attributes = [np.zeros((1, 3, 8), FLOAT), np.int64([0]), *[np.zeros((9, 2), FLOAT)] * 2], {}
    for where, value in WRONG_ROTATIONS[message].items():
        if isinstance(where, int):
            inputs[where] = value
        else:
            attributes[where] = value
    with pytest.raises(OnnxError, match=message):
        computed("RotaryEmbedding", inputs, **attributes)
