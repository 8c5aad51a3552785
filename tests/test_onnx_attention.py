"""Attention of ONNX Runtime's operators beside ONNX Runtime, and where that lacks it beside what it has."""

import jax
import numpy as np
import pytest
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
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
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
