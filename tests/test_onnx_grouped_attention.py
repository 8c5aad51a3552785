"""GroupQueryAttention beside ONNX Runtime's, and where that lacks something beside what it has."""

import jax
import numpy as np
import pytest
from checks import sampled
from microsoft_nodes import FLOAT, Draw, close, computed, of_runtime
from onnx_building import helper, model, onnx, with_changes

from dml_jax.onnx import OnnxError, to_jax

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


@pytest.mark.thinned(20)
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


@pytest.mark.parametrize("is_shared", [True, False])
def test_lengths_of_a_mask(is_shared):
    """As files of onnxruntime-genai have them: sums of a mask of int64 that is data, and the size of the mask.

    A mask as long as a shared buffer is longer than the keys that there are.
    """
    draw, shared, heads, size, before, room = Draw(4), 2, 4, 8, 3, 7
    inputs = [draw(2, 1, n * size) for n in (heads, shared, shared)] + [draw(2, shared, before, size) for _ in range(2)]
    wanted = of_runtime(
        "GroupQueryAttention",
        [*inputs, np.int32([before] * 2), np.int32([before + 1])],
        3,
        num_heads=heads,
        kv_num_heads=shared,
    )
    nodes = [
        helper.make_node("ReduceSum", ["mask", "one"], ["sums"]),
        helper.make_node("Sub", ["sums", "one"], ["last64"]),
        helper.make_node("Cast", ["last64"], ["last"], to=onnx.TensorProto.INT32),
        helper.make_node("Shape", ["mask"], ["shape"]),
        helper.make_node("Gather", ["shape", "second"], ["total64"]),
        helper.make_node("Cast", ["total64"], ["total"], to=onnx.TensorProto.INT32),
        helper.make_node(
            "GroupQueryAttention",
            [*(names := ["q", "k", "v", "past_key", "past_value"]), "last", "total"],
            ["y", "key", "value"],
            domain="com.microsoft",
            num_heads=heads,
            kv_num_heads=shared,
        ),
    ]
    mask = np.ones((2, before + 1), np.int64)
    if is_shared:
        mask = np.pad(mask, ((0, 0), (0, room - before - 1)))
        inputs[3:] = [np.pad(x, ((0, 0), (0, 0), (0, room - before), (0, 0))) for x in inputs[3:]]
    named = dict(zip(names, inputs, strict=True)) | {"mask": mask}
    constants = {"one": np.int64([1]), "second": np.int64(1)}
    with jax.enable_x64(True):
        made = jax.jit(to_jax(model(nodes, named, ["y", "key", "value"], constants)))(**named)
    for one, other in zip(made, wanted, strict=True):
        close(one[:, :, : before + 1], other[:, :, : before + 1])


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


# Rows of a cache, the window, and the new keys of each step, longer than the cache among them.
WINDOWS = {
    "as large as its window": (3, 3, (2, 1, 1, 1, 1)),
    "with room for more": (5, 3, (2, 1, 1, 1, 1, 1, 1)),
    "of one key": (1, 1, (1, 1, 1)),
    "with steps of many": (4, 3, (6, 2, 5)),
}


@pytest.mark.parametrize("kind", sampled(WINDOWS, ["with steps of many"]))
@pytest.mark.parametrize("is_data", sampled([True, False], [True]))
@pytest.mark.parametrize("dtype", sampled([np.float32, np.float16], [np.float32]))
def test_cache_of_a_sliding_window(kind, is_data, dtype):
    """It holds the last keys, of which some are evicted at once where it has room for more than the window."""
    room, window, steps = WINDOWS[kind]
    draw, batch, shared, heads, size = Draw(5), 2 if max(steps[1:]) == 1 else 1, 2, 4, 16
    caches = [np.full((batch, shared, room, size), np.nan, dtype) for _ in range(2)]
    theirs = [np.zeros_like(cache) for cache in caches]
    attributes = {"num_heads": heads, "kv_num_heads": shared, "local_window_size": window, "sliding_window_cache": 1}
    attributes |= {"do_rotary": 1, "softcap": 0.8}
    rotations, total = [draw(40, size // 2).astype(dtype) for _ in range(2)], 0
    for rows in steps:
        total += rows
        # After the prompt, whose last key is written anew, the second row of the batch is one key behind.
        last = np.int32([total - 1, total - 1 - (total > rows)])[:batch]
        inputs = [draw(batch, rows, n * size).astype(dtype) for n in (heads, shared, shared)]
        lengths = [last, np.int32([total]), *rotations, None, draw(1, heads, rows, total).astype(dtype)]
        static = () if is_data else (LENGTHS, TOTAL)
        output, *caches = computed("GroupQueryAttention", [*inputs, *caches, *lengths], 3, static=static, **attributes)
        wanted, *theirs = of_runtime("GroupQueryAttention", [*inputs, *theirs, *lengths], 3, **attributes)
        counts = np.arange(rows) <= last[:, None]
        close(np.asarray(output)[counts], wanted[counts])
        caches = [np.asarray(cache) for cache in caches]
        for b, count in enumerate(last + 1):
            held = count - (room - window + 1) * max(0, -(-(count - room) // (room - window + 1)))
            for made, expected in zip(caches, theirs, strict=True):
                close(made[b, :, :held], expected[b, :, :held])


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
    "q_norm_weight and k_norm_weight must be given together": {14: np.ones(8, FLOAT)},
    "past_key must be given, because query_seqlens": {CHUNK: np.int32([1]), PAST_KEY: None, PAST_VALUE: None},
    r"local_window_size must be in \[1, 6\], because sliding_window_cache is 1": {"sliding_window_cache": 1},
    "past_key must be given, because sliding_window_cache is 1": {
        "sliding_window_cache": 1,
        "local_window_size": 2,
        **dict.fromkeys((PAST_KEY, PAST_VALUE)),
    },
    "qk_output must be 0, but it is 1": {"sliding_window_cache": 1, "local_window_size": 2, "qk_output": 1},
    "past_key of GroupQueryAttention-1 must be one of float": {PAST_KEY: np.zeros((1, 2, 6, 8), np.int8)},
}


@pytest.mark.parametrize("message", WRONG_GROUPED)
def test_wrong_groups_are_refused(message):
    inputs = [np.zeros((1, 1, n * 8), FLOAT) for n in (4, 2, 2)] + [np.zeros((1, 2, 6, 8), FLOAT)] * 2
    inputs += [np.int32([4]), np.int32([5]), *[None] * 10]
    inputs, attributes = with_changes(WRONG_GROUPED[message], inputs, {"num_heads": 4, "kv_num_heads": 2})
    with pytest.raises(OnnxError, match=message):
        computed("GroupQueryAttention", inputs, static=(TOTAL,), **attributes)
