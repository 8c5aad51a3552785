"""Corners of MULTIHEAD_ATTENTION: every layout and mask, ONNX Runtime, derivatives, halves, no keys, odd lengths."""

import jax
import numpy as np
import pytest
from checks import assert_close, assert_same_bits, together
from jax.test_util import check_grads
from operator_cases import f16, f32

from dml_jax import TensorDesc
from dml_jax.descs import MultiheadAttention1Desc, MultiheadAttentionDesc, MultiheadAttentionMaskType
from operators.test_multihead_attention import (
    HOLDS,
    LAYOUTS,
    STRUCTS,
    B,
    D,
    L,
    N,
    P,
    S,
    computed,
    expected,
    fill,
    i32,
    numbers,
)

pytestmark = pytest.mark.device


@pytest.mark.thinned(2)
@pytest.mark.parametrize("shift", range(2))
def test_every_layout_with_every_mask(shift, exhaustive):
    """By default each layout of a struct has one mask, and each mask one layout."""
    struct, kinds, drawn = STRUCTS[shift], len(MultiheadAttentionMaskType), {}
    for number in range(200):
        fields = struct.draw(np.random.default_rng(number))
        layout = frozenset(name for name in ("query", "key", "value", *HOLDS) if fields.get(name))
        drawn.setdefault((layout, fields["mask_type"]), fields)
    pairs = [(i, j) for i in range(len(LAYOUTS)) for j in range(kinds) if exhaustive or (i + j + shift) % kinds == 0]
    assert len(drawn) == len(LAYOUTS) * kinds
    rng, cls, calls = np.random.default_rng(0), type(struct.desc), []
    for layout, mask_type in ((frozenset(LAYOUTS[i]), j) for i, j in pairs):
        fields = drawn[layout, mask_type]
        types = {name: "INT32" if cls.fields()[name].is_index else "FLOAT32" for name in cls.tensor_names()}
        desc = cls(**fields | {name: TensorDesc(types[name], fields[name]) for name in types if fields.get(name)})
        ports = desc.input_ports()
        calls.append((desc, [fill(rng, port, one, one.element_span).reshape(one.sizes) for port, one in ports.items()]))
    made = together([(desc.compute, *arrays) for desc, arrays in calls])
    for (desc, arrays), outputs in zip(calls, made, strict=True):
        by_field = dict.fromkeys(desc.input_names()) | dict(zip(desc.input_ports(), arrays, strict=True))
        wanted = jax.tree.leaves(expected(desc, *by_field.values()))
        for one, exactly in zip(jax.tree.leaves(outputs), wanted, strict=True):
            assert_close(one, exactly.reshape(one.shape), units=struct.units)


# ONNX Runtime.


def by_onnxruntime(operator, inputs, outputs, **attributes):
    """What a contributed operator of ONNX Runtime computes; inputs of None are left out."""
    import onnx_building as building

    proto, named = building.one_node(operator, inputs, outputs, "com.microsoft", **attributes)
    return building.runtime(proto, named)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("mask", ["KEY_SEQUENCE_LENGTH", "KEY_QUERY_SEQUENCE_LENGTH_START_END", "BOOLEAN", None])
@pytest.mark.parametrize("has_past", [False, True])
def test_heads_are_those_of_onnxruntime(mask, has_past):
    rng = np.random.default_rng(0)
    keys, size = (L + P, D) if has_past else (L, D + 2)  # beside a past its values are as long as its keys
    x = {
        "query": numbers(rng, B, S, N * D),
        "key": numbers(rng, B, L, N * D),
        "value": numbers(rng, B, L, N * size),
        "bias": numbers(rng, 2 * N * D + N * size),
        "relative_position_bias": numbers(rng, B, N, S, keys),
    }
    if has_past:
        x |= {"past_key": numbers(rng, B, N, P, D), "past_value": numbers(rng, B, N, P, size)}
    # Rows of the batch with 3 keys and with all; of the last kind every key has a number.
    truths = (np.arange(keys) < [[3], [keys]]).astype(np.int32)
    theirs = {
        "KEY_SEQUENCE_LENGTH": np.int32([3, keys]),
        "KEY_QUERY_SEQUENCE_LENGTH_START_END": np.int32([3, keys, 0, S, 2 * S, 0, keys, 2 * keys]),
        "BOOLEAN": truths,
    }
    ours = theirs | {
        "KEY_SEQUENCE_LENGTH": np.int32([[3, keys]]),
        "BOOLEAN": np.broadcast_to(truths[:, None, None], (B, N, S, keys)),
    }
    given = (x[name] for name in ("query", "key", "value", "bias"))
    wanted = by_onnxruntime(
        "MultiHeadAttention",
        [*given, theirs.get(mask), x["relative_position_bias"], x.get("past_key"), x.get("past_value")],
        outputs=3,
        num_heads=N,
        scale=0.3,
        mask_filter_value=-50.0,
    )
    if mask:
        x["mask"] = ours[mask]
    made = computed(
        MultiheadAttentionDesc,
        x,
        {
            "output": f32(B, S, N * size),
            "output_present_key": f32(B, N, keys, D),
            "output_present_value": f32(B, N, keys, size),
        },
        scale=0.3,
        mask_filter_value=-50,
        head_count=N,
        mask_type=mask or "NONE",
    )
    for one, other in zip(made, wanted, strict=True):
        assert_close(one, other.astype(np.float64), units=64)


def test_a_cache_is_that_of_onnxruntime():
    """A prompt, and then one more query for each row, whose past has its own length; two heads share each key."""
    rng = np.random.default_rng(1)
    groups, room = 2, 6
    for lengths, queries in (([0, 0], 4), ([5, 2], 1)):
        x = {
            "query": numbers(rng, B, queries, 4 * 8),
            "key": numbers(rng, B, queries, groups * 8),
            "value": numbers(rng, B, queries, groups * 8),
        }
        has_past = max(lengths) > 0
        if has_past:
            x |= {"past_key": numbers(rng, B, groups, room, 8), "past_value": numbers(rng, B, groups, room, 8)}
        total = room if has_past else queries
        last = np.int32(lengths) + np.int32(queries - 1)
        wanted = by_onnxruntime(
            "GroupQueryAttention",
            [*x.values(), *([] if has_past else [None, None]), last, np.int32([total])],
            outputs=3,
            num_heads=4,
            kv_num_heads=groups,
            scale=0.4,
        )
        x["past_sequence_lengths"] = np.int32(lengths)
        made = computed(
            MultiheadAttention1Desc,
            x,
            {
                "output": f32(B, queries, 4 * 8),
                "output_present_key": f32(B, groups, total, 8),
                "output_present_value": f32(B, groups, total, 8),
            },
            scale=0.4,
            query_head_count=4,
            key_value_head_count=groups,
        )
        assert_close(made[0], wanted[0].astype(np.float64), units=64)
        for one, other in zip(made[1:], wanted[1:], strict=True):
            for b, length in enumerate(lengths):  # behind the keys theirs has anything
                assert_same_bits(one[b, :, : length + queries], other[b, :, : length + queries])


# Derivatives, and numbers at the edge.


@pytest.mark.thinned(2)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_derivatives_in_both_directions(dtype):
    rng = np.random.default_rng(2)
    x = {"query": numbers(rng, B, S, N * D), "stacked_key_value": numbers(rng, B, L, N, 2, D)}
    desc = MultiheadAttentionDesc(
        **{name: TensorDesc(dtype, array.shape) for name, array in x.items()},
        output=TensorDesc(dtype, (B, S, N * D)),
        scale=0.5,
        head_count=N,
    )
    arrays = [array.astype(dtype) for array in x.values()]
    if dtype == "float32":
        check_grads(jax.jit(desc.compute), arrays, order=1, atol=0.02, rtol=0.02)
    else:
        back = jax.jit(jax.grad(lambda q: desc.compute(q, arrays[1]).astype(np.float32).sum()))(arrays[0])
        assert back.dtype == dtype


def test_halves_are_computed_in_float32():
    """Products of 4096 ones with 1, which have no float16 between 2048 and 4096 that is odd, and weights of them."""
    wide = f16(1, 1, 4096)
    desc = MultiheadAttentionDesc(wide, wide, wide, output=wide, scale=1, head_count=1)
    ones = np.ones((1, 1, 4096), np.float16)
    assert_same_bits(desc.compute(ones, ones, ones * 3), ones * 3)
    two = f16(1, 2, 4096)
    desc = MultiheadAttentionDesc(wide, two, two, output=wide, scale=1, head_count=1)
    keys = np.concatenate([ones, ones], axis=1)
    keys[0, 1, 0] = 2  # 4096 and 4097, which is no float16
    values = np.concatenate([ones * 0, ones], axis=1)
    assert_close(desc.compute(ones, keys, values), ones.astype(np.float64) / (1 + np.exp(-1)), units=16)


def test_a_row_without_keys_is_the_mean_of_its_values():
    """The number of a mask is added to every key, which changes no weight; of an infinite one nothing is left."""
    query, rows = f32(1, 1, 2), f32(1, 3, 2)
    x, values = np.ones((1, 1, 2), np.float32), np.float32([[[1, 2], [3, 4], [5, 9]]])
    for number, wanted in ((-10000, [[[3, 5]]]), (-np.inf, [[[np.nan, np.nan]]])):
        desc = MultiheadAttentionDesc(
            *(query, rows, rows),
            mask=i32(1, 1),
            output=query,
            scale=1,
            mask_filter_value=number,
            head_count=1,
            mask_type="KEY_SEQUENCE_LENGTH",
        )
        made = desc.compute(x, np.zeros((1, 3, 2), np.float32), values, np.int32([[0]]))
        np.testing.assert_allclose(made, wanted, rtol=1e-6)


def test_a_length_out_of_range_counts_as_the_nearest_one():
    rows, cache = f32(4, 2, 1), f32(4, 1, 5, 1)
    desc = MultiheadAttention1Desc(
        *(rows, rows, rows),
        past_key=cache,
        past_value=cache,
        past_sequence_lengths=i32(4),
        output=rows,
        output_present_value=cache,
        scale=1,
        query_head_count=1,
        key_value_head_count=1,
    )
    x, old = np.full((4, 2, 1), 9, np.float32), np.arange(20, dtype=np.float32).reshape(4, 1, 5, 1)
    _, present = desc.compute(x, x, x, old, old, np.int32([-1, 0, 2, 9]))
    for row, start in enumerate([0, 0, 2, 3]):
        wanted = old[row].copy()
        wanted[:, start : start + 2] = 9
        assert_same_bits(present[row], wanted)
