"""MULTIHEAD_ATTENTION and MULTIHEAD_ATTENTION1: softmax(Q @ K.T * scale + mask) @ V, of every head."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from checks import assert_close
from draws import dims
from operator_cases import Example, Struct, f16, f32
from refusals import refuses

from dml_jax import ConstraintError, Expression, GraphBuilder, TensorDesc
from dml_jax.descs import MultiheadAttention1Desc, MultiheadAttentionDesc, MultiheadAttentionMaskType

pytestmark = pytest.mark.device


def i32(*sizes):
    return TensorDesc("INT32", sizes)


# By example.


# One head, whose queries are its keys, [1, 0] and [0, 1]; the weights are e / (1 + e) and 1 / (1 + e).
ROWS, UNITS, VALUES = f32(1, 2, 2), [1, 0, 0, 1], [1, 2, 3, 4]
LENGTH = MultiheadAttentionDesc(
    ROWS, ROWS, ROWS, mask=i32(1, 1), output=ROWS, scale=1, head_count=1, mask_type="KEY_SEQUENCE_LENGTH"
)
CAUSAL = MultiheadAttention1Desc(
    *(ROWS, ROWS, ROWS),
    past_sequence_lengths=i32(1),
    output=ROWS,
    output_present_value=f32(1, 1, 3, 2),
    scale=1,
    query_head_count=1,
    key_value_head_count=1,
)
EXAMPLES = (
    Example(LENGTH, [UNITS, UNITS, VALUES, [1]], [[1, 2, 1, 2]]),
    Example(LENGTH, [UNITS, UNITS, VALUES, [2]], [[1.537883, 2.537883, 2.462117, 3.462117]]),
)
EXAMPLES1 = (Example(CAUSAL, [UNITS, UNITS, VALUES, [0]], [[1, 2, 2.462117, 3.462117], [1, 2, 3, 4, 0, 0]]),)


# The oracle.


HOLDS = {
    "stacked_query_key": ("query", "key"),
    "stacked_key_value": ("key", "value"),
    "stacked_query_key_value": ("query", "key", "value"),
}


def rows_of(part, arrays, heads):
    """Queries, keys or values, (batch, rows, heads, size), as they were given."""
    for name, parts in HOLDS.items():
        if part in parts and arrays[name] is not None:
            return arrays[name][..., parts.index(part), :].astype(np.float64)
    if arrays[part] is None:
        return None
    x = arrays[part]
    return x.reshape(*x.shape[-3:-1], heads, -1).astype(np.float64)


def is_kept(mask, mask_type, batch, at):
    """Whether a key counts: `at` is (row of the batch, head, query, key)."""
    b, _, _, key = at
    numbers = None if mask is None else mask.ravel().tolist()
    match MultiheadAttentionMaskType(mask_type).name:
        case "NONE":
            return True
        case "KEY_SEQUENCE_END_START":
            return numbers[batch + b] <= key < numbers[b]
        case "BOOLEAN":
            return mask.reshape(mask.shape[-4:])[at] != 0
    return key < numbers[b]


def exact(x, arrays):
    """In float64, query by query: the output, all keys, all values."""
    heads = x.get("head_count", x.get("query_head_count"))
    key_heads = x.get("head_count", x.get("key_value_head_count"))
    query, key, value = (
        rows_of(part, arrays, heads if part == "query" else key_heads) for part in ("query", "key", "value")
    )
    if arrays["bias"] is not None:
        bias, at = arrays["bias"].ravel().astype(np.float64), 0
        size = query.shape[-1]
        value_size = value.shape[-1] if value is not None else arrays["past_value"].shape[-1]
        for part, count, of in ((query, heads, size), (key, key_heads, size), (value, key_heads, value_size)):
            if part is not None:
                part += bias[at : at + count * of].reshape(count, of)
            at += count * of
    batch, queries = query.shape[:2]
    lengths = None if arrays.get("past_sequence_lengths") is None else arrays["past_sequence_lengths"].ravel().tolist()
    all_keys, all_values, firsts = [], [], []
    for b in range(batch):
        of_row = []
        for part, past in ((key, arrays["past_key"]), (value, arrays["past_value"])):
            new = None if part is None else part[b].swapaxes(0, 1)
            old = None if past is None else past.reshape(past.shape[-4:])[b].astype(np.float64)
            if lengths is None:
                of_row.append(np.concatenate([one for one in (old, new) if one is not None], axis=1))
                continue
            cache = np.zeros_like(new) if old is None else old.copy()
            first = min(max(lengths[b], 0), cache.shape[1] - queries)
            cache[:, first : first + queries] = new
            of_row.append(cache)
        all_keys.append(of_row[0])
        all_values.append(of_row[1])
        firsts.append(None if lengths is None else first)
    output = np.zeros((batch, queries, heads, all_values[0].shape[-1]))
    for b, h, s in np.ndindex(batch, heads, queries):
        keys, values = (all_of[b][h * key_heads // heads] for all_of in (all_keys, all_values))
        scores = np.float64(x["scale"]) * (keys @ query[b, s, h])
        if arrays["relative_position_bias"] is not None:
            table = arrays["relative_position_bias"]
            scores = scores + table.reshape(table.shape[-4:])[b, h, s]
        for t in range(len(scores)):
            if not is_kept(arrays["mask"], x["mask_type"], batch, (b, h, s, t)):
                scores[t] += x["mask_filter_value"]
            if firsts[b] is not None and t > firsts[b] + s:
                scores[t] = -np.inf
        weights = np.exp(scores - scores.max())
        output[b, s, h] = weights @ values / weights.sum()
    return output.reshape(batch, queries, -1), np.array(all_keys), np.array(all_values)


def expected(desc, *arrays):
    output, *present = exact(desc.operands(), dict(zip(desc.input_names(), arrays, strict=True)))
    made = [output]
    for name, all_of in zip(("output_present_key", "output_present_value"), present, strict=True):
        if (tensor := getattr(desc, name)) is not None:
            room = np.zeros((*all_of.shape[:2], tensor.sizes[-2], all_of.shape[-1]))
            room[:, :, : all_of.shape[2]] = all_of
            made.append(room)
    return tuple(made) if len(made) > 1 else output


# The structs.


def fill(rng, port, tensor, count):
    """Small numbers, whose weights differ; lengths and truths from -1 to 5."""
    if tensor.data_type.name == "INT32":
        return rng.integers(-1, 6, count).astype(np.int32)
    return rng.normal(scale=0.7, size=count).astype(tensor.dtype)


# Where queries, keys and values come from; of the last one keys and values are those of the past.
LAYOUTS = (
    ("query", "key", "value"),
    ("stacked_query_key", "value"),
    ("query", "stacked_key_value"),
    ("stacked_query_key_value",),
    ("query",),
)


def draw_of(rng, has_groups):
    batch, queries, new, key_heads, size, value_size = dims(rng, 6, 200)
    layout = LAYOUTS[rng.integers(0, len(LAYOUTS))]
    is_stacked, has_new = layout[0] != "query", layout != ("query",)
    is_cached = bool(has_groups and has_new and rng.random() < 0.5)
    heads = key_heads * int(rng.integers(1, 4)) if has_groups and not is_stacked else key_heads
    new = (queries if is_stacked or is_cached else new) if has_new else 0
    value_size = value_size if "value" in layout or not has_new else size
    past = int(rng.integers(1, 5)) if not has_new or rng.random() < 0.5 else 0
    keys = past + new
    # The past is a cache with room for the new keys, or a cache begins, which may have room for more.
    old = keys if is_cached and past else past
    room = keys + int(rng.integers(0, 3)) if is_cached and not past else keys
    mask_type = MultiheadAttentionMaskType(int(rng.integers(0, 5)))
    layouts = {
        "query": (batch, queries, heads * size),
        "key": (batch, new, key_heads * size),
        "value": (batch, new, key_heads * value_size),
        "stacked_query_key": (batch, queries, heads, 2, size),
        "stacked_key_value": (batch, new, key_heads, 2, size),
        "stacked_query_key_value": (batch, queries, heads, 3, size),
    }
    masks = ((), (1, batch), (2, batch), (3 * batch + 2,), (batch, heads, queries, keys))
    some = {
        "bias": (heads * size + key_heads * size + key_heads * value_size,),
        "relative_position_bias": (batch, heads, queries, keys),
        "output_present_key": (batch, key_heads, room, size),
        "output_present_value": (batch, key_heads, room, value_size),
    }
    tensors = {
        **{name: layouts[name] for name in layout},
        **{name: sizes for name, sizes in some.items() if rng.random() < 0.5},
        **({"mask": masks[mask_type]} if mask_type else {}),
        **(
            {"past_key": (batch, key_heads, old, size), "past_value": (batch, key_heads, old, value_size)}
            if past
            else {}
        ),
        **({"past_sequence_lengths": (batch,)} if is_cached else {}),
        "output": (batch, queries, heads * value_size),
    }
    counts = {"query_head_count": heads, "key_value_head_count": key_heads} if has_groups else {"head_count": heads}
    return {
        # With leading ones, or without.
        **{name: (*(1,) * int(rng.integers(0, 6 - len(sizes))), *sizes) for name, sizes in tensors.items()},
        "scale": float(rng.choice([1, 0.5, -0.3])),
        "mask_filter_value": float(rng.choice([-20, -7.5])),
        "mask_type": mask_type,
        **counts,
    }


def breaks_of(desc):
    """A change per rule that both structs have."""
    tensors = {name: getattr(desc, name) or desc.output for name in desc.tensor_names()}
    inner = [name for name in tensors if name != "output"]
    floats = [name for name in inner if not desc.fields()[name].is_index]
    given = [name for name in tensors if getattr(desc, name)]
    # (B, S or L, N, 3 or 4 in the place of 2 or 3, D)
    stacked = {
        "stacked_query_key": {"query": None, "key": None, "stacked_query_key": f32(1, 2, 2, 3, 2)},
        "stacked_key_value": {"key": None, "value": None, "stacked_key_value": f32(1, 2, 2, 3, 2)},
        "stacked_query_key_value": {
            **dict.fromkeys(("query", "key", "value")),
            "stacked_query_key_value": f32(1, 2, 2, 4, 2),
        },
    }
    return {
        **{f"rank_of({name})": {name: TensorDesc(tensors[name].data_type, (1,) * 6)} for name in inner},
        **{f"same_dtype({name}, output)": {name: TensorDesc("FLOAT16", tensors[name].sizes)} for name in floats},
        **{f"sizes_of({name})": {name: longer(tensors[name])} for name in given},
        **{f"sizes_of({name})": change for name, change in stacked.items()},
        "one_source(query)": {"query": None},
        "one_source(key)": {"stacked_key_value": f32(1, 2, 2, 2, 2)},
        "one_source(value)": {"stacked_key_value": f32(1, 2, 2, 2, 2)},
        "both(past)": {"past_value": None},
        "given(mask)": {"mask": None},
    }


def longer(tensor):
    """One element more in the last dimension."""
    return TensorDesc(tensor.data_type, (*tensor.sizes[:-1], tensor.sizes[-1] + 1))


# Two heads of size 2, whose values have size 3; two queries, and one key of the past before two new ones.
TENSORS = {
    "query": f32(1, 2, 4),
    "key": f32(1, 2, 4),
    "value": f32(1, 2, 6),
    "bias": f32(14),
    "mask": i32(1, 2, 2, 3),
    "relative_position_bias": f32(1, 2, 2, 3),
    "past_key": f32(1, 2, 1, 2),
    "past_value": f32(1, 2, 1, 3),
    "output": f32(1, 2, 6),
    "output_present_key": f32(1, 2, 3, 2),
    "output_present_value": f32(1, 2, 3, 3),
}
DESC = MultiheadAttentionDesc(**TENSORS, scale=0.5, head_count=2, mask_type="BOOLEAN")
CACHE = {"past_key": f32(1, 2, 3, 2), "past_value": f32(1, 2, 3, 3), "past_sequence_lengths": i32(1)}
DESC1 = MultiheadAttention1Desc(
    **TENSORS | CACHE, scale=0.5, query_head_count=2, key_value_head_count=2, mask_type="BOOLEAN"
)
STRUCTS = (
    Struct(
        DESC,
        breaks={**breaks_of(DESC), "at_least(head_count, 1)": {"head_count": 0}},
        examples=EXAMPLES,
        draw=lambda rng: draw_of(rng, has_groups=False),
        expected=expected,
        fill=fill,
        units=64,
    ),
    Struct(
        DESC1,
        breaks={
            **breaks_of(DESC1),
            "at_least(query_head_count, 1)": {"query_head_count": 0},
            "at_least(key_value_head_count, 1)": {"key_value_head_count": 0},
            "grouped": {"query_head_count": 3},
            "stacked_heads": {
                **dict.fromkeys(("query", "key", "value")),
                "stacked_query_key_value": f32(1, 2, 2, 3, 2),
                "key_value_head_count": 1,
            },
            "cached": {"key": f32(1, 3, 4), "value": f32(1, 3, 6)},
        },
        examples=EXAMPLES1,
        draw=lambda rng: draw_of(rng, has_groups=True),
        expected=expected,
        fill=fill,
        units=64,
    ),
)


test_what_the_struct_refuses = refuses(
    DESC,
    ({"head_count": 3}, r"QueryTensor.Sizes must be \(B, S, N \* D\), but \(1, 2, 4\) is not \(1, 2, 3\)"),
    ({"mask_type": "NONE"}, "MaskTensor must be given if MaskType is not NONE, .* one is given and NONE"),
    ({"mask_type": "SOME"}, "MaskType must be one of NONE, KEY_SEQUENCE_LENGTH, .* it is 'SOME'"),
    ({"past_key": None, "past_value": None}, r"MaskTensor.Sizes must be .* \(1, 2, 2, 3\) is not \(1, 2, 2, 2\)"),
    ({"key": None}, "one of KeyTensor, .* must be given, or neither keys nor values .* but 0 of them are given"),
    ({"query": f32(3, 1, 2, 4)}, r"QueryTensor.Sizes .* \(3, 1, 2, 4\) is not \(1, 2, 4\)"),
    ({"scale": "1"}, "Scale must be a real number"),
    ({"value": f16(1, 2, 6)}, "ValueTensor.DataType must equal OutputTensor.DataType"),
)


def test_a_cache_has_room_for_the_new_keys():
    small = {"past_key": f32(1, 2, 1, 2), "past_value": f32(1, 2, 1, 3), "mask": None, "mask_type": "NONE"}
    present = dict.fromkeys(("relative_position_bias", "output_present_key", "output_present_value"))
    with pytest.raises(ConstraintError, match="there are 2 queries, 2 new keys, and room for 1"):
        replace(DESC1, **small, **present)
    with pytest.raises(ConstraintError, match="PastKeyTensor must have room for them"):
        replace(DESC1, key=f32(1, 1, 4), value=f32(1, 1, 6))


# Beside jax.nn, and in a graph.


def numbers(rng, *sizes):
    return rng.normal(size=sizes).astype(np.float32)


def like(array):
    return None if array is None else TensorDesc(array.dtype, array.shape)


def computed(struct, arrays, outputs, **attributes):
    """The outputs of a struct on arrays by field."""
    desc = struct(**{name: like(x) for name, x in arrays.items()}, **outputs, **attributes)
    return desc.compute(*(arrays[name] for name in desc.input_ports()))


B, S, L, P, N, D = 2, 3, 4, 2, 2, 4


def test_it_is_the_function_of_jax():
    rng = np.random.default_rng(4)
    x = {"query": numbers(rng, B, S, 2 * N * D), "key": numbers(rng, B, L, N * D), "value": numbers(rng, B, L, N * D)}
    made = computed(
        MultiheadAttention1Desc,
        x,
        {"output": f32(B, S, 2 * N * D)},
        scale=0.7,
        query_head_count=2 * N,
        key_value_head_count=N,
    )
    split = [one.reshape(*one.shape[:2], -1, D) for one in x.values()]
    wanted = jax.nn.dot_product_attention(*split, scale=0.7)
    assert_close(made, np.float64(wanted).reshape(made.shape), units=64)


def test_what_follows_is_left_out_in_a_graph():
    """The sizes of outputs; and which tensors are not given."""
    graph = GraphBuilder()
    query, new = graph.input("query", ("FLOAT16", (B, S, N * D))), graph.input("new", ("FLOAT16", (B, L, N, 2, D)))
    past = graph.input("past", ("FLOAT16", (B, N, P, D)))
    made = graph.multihead_attention(
        query,
        stacked_key_value=new,
        past_key=past,
        past_value=past,
        scale=0.5,
        head_count=N,
        output_present_key="FLOAT16",
        output_present_value=(B, N, P + L, D),
    )
    assert [one.sizes for one in made] == [(B, S, N * D), (B, N, P + L, D), (B, N, P + L, D)]
    assert {one.data_type.name for one in made} == {"FLOAT16"}
    assert isinstance(graph.multihead_attention(query, query, query, scale=1, head_count=1), Expression)
