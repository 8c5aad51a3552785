"""Keys that no query sees are not read: NaN and infinity in unused room of a cache, or in padding, change nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_oracle import attended, merged, seen_keys
from checks import sampled
from onnx_building import one_node

from dml_jax import TensorDesc
from dml_jax.descs import MultiheadAttention1Desc
from dml_jax.onnx import to_jax

B, N, G, S, ROOM, D = 2, 4, 2, 1, 8, 8
LENGTHS = np.int32([5, 4])  # keys of the past
SCALE = 0.4


def apart(rows):
    return rows.reshape(*rows.shape[:2], N, -1).transpose(0, 2, 1, 3)


def node(kind, arrays, outputs=1, domain="com.microsoft", opset=24, static=(), **attributes):
    """A function of all inputs of a node, by its position; `static` ones are known."""
    dummy = [None if x is None else np.zeros(x.shape, x.dtype) for x in arrays]
    proto, named = one_node(kind, dummy, outputs, domain, opset, **attributes)
    known = {f"x{i}": np.asarray(arrays[i]) for i in static}
    function = to_jax(proto, static=known)

    def run(*given):
        results = function(**{name: given[int(name[1:])] for name in named if name not in known})
        return results[0] if isinstance(results, tuple) else results

    return run


def grouped(window=0, softcap=0.0, sinks=None, *, is_static=False):
    """GroupQueryAttention: the new keys are written behind those of the past."""

    def run(q, k, v, key, value):
        of_heads = None if sinks is None else sinks.astype(q.dtype)
        lengths, total = LENGTHS + np.int32(S - 1), np.int32([ROOM])
        inputs = [*map(merged, (q, k, v)), key, value, lengths, total, *[None] * 4, of_heads]
        static = (5, 6) if is_static else ()
        attributes = {"local_window_size": window or -1, "softcap": softcap, "scale": SCALE}
        call = node("GroupQueryAttention", inputs, 3, static=static, num_heads=N, kv_num_heads=G, **attributes)
        return apart(call(*inputs))

    return run


def struct(q, k, v, key, value):
    """MULTIHEAD_ATTENTION1."""
    arrays = dict(zip(("query", "key", "value"), map(merged, (q, k, v)), strict=True))
    arrays |= {"past_key": key, "past_value": value, "past_sequence_lengths": LENGTHS}
    tensors = {name: TensorDesc(x.dtype, x.shape) for name, x in arrays.items()}
    counts = {"query_head_count": N, "key_value_head_count": G}
    desc = MultiheadAttention1Desc(**tensors, output=tensors["query"], scale=SCALE, **counts)
    return apart(desc.compute(*arrays.values()))


def in_static_cache(q, k, v, key, value):
    """ONNX's TensorScatter and Attention."""
    key, value = (
        jax.vmap(lambda x, new, at: jax.lax.dynamic_update_slice_in_dim(x, new, at, 1))(x, new, LENGTHS)
        for x, new in ((key, k), (value, v))
    )
    arrays = [q, key, value, *[None] * 3, LENGTHS.astype(np.int64) + S]
    return node("Attention", arrays, domain="", static=(6,), scale=SCALE, is_causal=1)(*arrays)


def shared_buffer(operator):
    """MultiHeadAttention, or Attention, of ONNX Runtime: every row of the batch has as many keys of the past."""

    def run(q, k, v, key, value):
        rows, length = [merged(x) for x in (q, k, v)], np.int32([5])
        if operator == "MultiHeadAttention":
            inputs = [*rows, None, None, None, key, value, length]
        else:
            weights = np.eye(3 * N * D, dtype=q.dtype)
            inputs = [jnp.concatenate(rows, -1), weights, None, None, jnp.stack([key, value]), None, length]
        attributes = {"past_present_share_buffer": 1} if operator == "Attention" else {}
        call = node(operator, inputs, 2 if operator == "Attention" else 1, num_heads=N, scale=SCALE, **attributes)
        return apart(call(*inputs))

    return run


SINKS = np.float32([0.5, -1, 0, 2])
OPERATORS = {
    "GroupQueryAttention": (grouped(), {}),
    "of known lengths": (grouped(is_static=True), {}),
    "with a window": (grouped(window=3), {"before": 2}),
    "with a softcap": (grouped(softcap=0.7), {"softcap": 0.7}),
    "with sinks": (grouped(sinks=SINKS), {"sinks": SINKS}),
    "MULTIHEAD_ATTENTION1": (struct, {}),
    "Attention-24": (in_static_cache, {}),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("operator", ["MultiHeadAttention", "Attention"])
@pytest.mark.parametrize("garbage", [np.nan, np.inf])
def test_unused_room_of_a_shared_buffer(operator, garbage):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((B, N, rows, D)).astype(np.float32) for rows in (S, S, S, ROOM, ROOM)]
    q, k, v, key, value = arrays
    for cache in (key, value):
        cache[:, :, 5 + S :] = garbage
    whole = [np.concatenate([cache[:, :, :5], new], axis=2) for cache, new in ((key, k), (value, v))]
    wanted = attended(q, *whole, True, scale=SCALE)
    call = shared_buffer(operator)
    slopes, output = jax.jit(jax.grad(lambda *x: (call(*x).sum(), call(*x)), argnums=range(5), has_aux=True))(*arrays)
    expected = [wanted.output, wanted.of_query]
    for actual, numbers in zip((output, slopes[0]), expected, strict=True):
        np.testing.assert_allclose(actual, numbers, rtol=2e-6, atol=2e-6)
    for of_new, of_cache, of_whole in zip(slopes[1:3], slopes[3:], (wanted.of_key, wanted.of_value), strict=True):
        np.testing.assert_allclose(of_new, of_whole[:, :, 5:], rtol=2e-6, atol=2e-6)
        np.testing.assert_allclose(of_cache[:, :, :5], of_whole[:, :, :5], rtol=2e-6, atol=2e-6)
        assert not np.asarray(of_cache[:, :, 5:]).any()


@pytest.mark.parametrize(
    "operator", sampled(OPERATORS, ["GroupQueryAttention", "MULTIHEAD_ATTENTION1", "Attention-24"])
)
@pytest.mark.parametrize("garbage", sampled([np.nan, np.inf, -np.inf], [np.nan]))
@pytest.mark.parametrize("dtype", sampled([np.float32, np.float16], [np.float32]))
def test_unused_room_of_a_cache(operator, garbage, dtype):
    """Of 8 rows 5 and 4 have keys; a new one is written behind them."""
    call, options = OPERATORS[operator]
    rng = np.random.default_rng(0)
    q, k, v, key, value = (
        rng.standard_normal(shape).astype(dtype)
        for shape in ((B, N, S, D), *[(B, G, S, D)] * 2, *[(B, G, ROOM, D)] * 2)
    )
    cotangent = rng.standard_normal(q.shape)
    own = (np.arange(ROOM) >= LENGTHS[:, None]) & (np.arange(ROOM) < LENGTHS[:, None] + S)
    unused = np.arange(ROOM) >= LENGTHS[:, None] + S
    whole = []
    for cache, new in ((key, k), (value, v)):
        written = cache.transpose(0, 2, 1, 3).copy()
        written[own] = new.transpose(0, 2, 1, 3).reshape(-1, G, D)
        whole.append(written.transpose(0, 2, 1, 3))
        cache.transpose(0, 2, 1, 3)[unused] = garbage
    before = options.get("before")
    seen = seen_keys(S, LENGTHS + S, ROOM, LENGTHS, before, 0)
    numbers = {name: x for name, x in options.items() if name != "before"}
    wanted = attended(q, *whole, seen, cotangent, scale=SCALE, **numbers)

    def total(*arrays):
        output = call(*arrays)
        return (output.astype(np.float32) * cotangent.astype(np.float32)).sum(), output

    slopes, output = jax.jit(jax.grad(total, argnums=range(5), has_aux=True))(q, k, v, key, value)
    off = 3e-3 if dtype == np.float16 else 2e-6
    np.testing.assert_allclose(output, wanted.output, rtol=off, atol=off)
    np.testing.assert_allclose(slopes[0], wanted.of_query, rtol=off, atol=off)
    for of_new, of_cache, expected in zip(slopes[1:3], slopes[3:], (wanted.of_key, wanted.of_value), strict=True):
        by_row = expected.transpose(0, 2, 1, 3)
        np.testing.assert_allclose(of_new.transpose(0, 2, 1, 3).reshape(-1, G, D), by_row[own], rtol=off, atol=off)
        np.testing.assert_allclose(of_cache.transpose(0, 2, 1, 3)[~own], by_row[~own], rtol=off, atol=off)


MASKS = ("flags", "numbers")


@pytest.mark.parametrize("mask", sampled(MASKS, ["numbers"]))
def test_keys_that_a_mask_excludes(mask):
    """ONNX's Attention of padding: flags of False, and -inf that is added; the padding is NaN, infinite and -inf."""
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((B, heads, rows, D)).astype(np.float32) for heads, rows in ((N, 3), (G, 5), (G, 5)))
    flags = np.arange(5) < np.int32([3, 4])[:, None, None, None]
    for x in (k, v):
        x[0, :, 3:], x[1, 0, 4], x[1, 1, 4] = np.nan, np.inf, -np.inf
    given = flags if mask == "flags" else np.where(flags, np.float32(0.25), -np.inf)
    call = node("Attention", [q, k, v, given], domain="", scale=SCALE)
    wanted = attended(q, k, v, flags, scale=SCALE)
    slopes, output = jax.jit(
        jax.grad(lambda *x: (call(*x, given).sum(), call(*x, given)), argnums=range(3), has_aux=True)
    )(q, k, v)
    for actual, expected in zip(
        (output, *slopes), (wanted.output, wanted.of_query, wanted.of_key, wanted.of_value), strict=True
    ):
        np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=2e-6)


def test_a_donated_cache_that_overflowed_serves_the_next_request():
    """The first request's values are infinite in float16; the next one begins at key 0 of the same memory."""
    rng = np.random.default_rng(2)
    q, k, v = (rng.standard_normal((1, 1, heads * D)).astype(np.float16) for heads in (N, G, G))
    inputs = [q, k, v, *[np.zeros((1, G, 4, D), np.float16)] * 2, np.int32([0]), np.int32([4])]
    counts = {"num_heads": N, "kv_num_heads": G}
    step = jax.jit(
        to_jax(one_node("GroupQueryAttention", inputs, 3, "com.microsoft", **counts)[0]), donate_argnums=(3, 4)
    )
    cache = [jnp.array(x) for x in inputs[3:5]]
    for last in (0, 1):
        _, *cache = step(q, k, v * np.float16(np.inf), *cache, np.int32([last]), np.int32([4]))
    output, *_ = step(q, k, v, *cache, np.int32([0]), np.int32([4]))
    np.testing.assert_array_equal(output, np.repeat(v.reshape(1, 1, G, D), N // G, axis=2).reshape(1, 1, -1))
