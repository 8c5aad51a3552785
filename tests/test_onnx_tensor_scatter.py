"""TensorScatter against a loop over rows; and static caches: TensorScatter with Attention."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_oracle import attended, seen_keys
from checks import assert_same_bits, sampled
from onnx_building import helper, model, one_node, with_changes

from dml_jax.onnx import OnnxError, to_jax


def scattered(cache, update, first, axis, mode):
    """Row by row; what lies outside of a linear cache is dropped."""
    written, room = np.moveaxis(cache.copy(), axis, 1), cache.shape[axis]
    for b, i in np.ndindex(cache.shape[0], update.shape[axis]):
        row = int(first[b]) + i
        row = row % room if mode == "circular" else row
        if 0 <= row < room:
            written[b, row] = np.moveaxis(update, axis, 1)[b, i]
    return np.moveaxis(written, 1, axis)


# The sizes of a cache, the axis, and the rows that are written.
SHAPES = {
    "4D": ((3, 2, 5, 4), -2, 2),
    "one row": ((3, 1, 1, 1), 2, 1),
    "2D": ((3, 4), 1, 3),
    "last": ((3, 2, 4), -1, 4),
}
SHAPES |= {"no rows": ((3, 2, 5, 4), -2, 0), "no batch": ((0, 2, 5, 4), -2, 2), "no room": ((3, 0, 4), 1, 0)}
FIRST = {"inside": [0, 2, 1], "outside": [-1, 9, -7], "far": [2**40, -(2**62), 2**31 - 1]}
TYPES = [np.float32, np.float16, jnp.bfloat16, np.float64, np.int8, np.int64, np.uint16, np.complex64, np.bool_]
TYPES += [jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.int4, jnp.uint4]


def drawn(shape, axis, count, dtype):
    rng, along = np.random.default_rng(0), axis % len(shape)
    sizes = (*shape[:along], count, *shape[along + 1 :])
    return [rng.integers(0, 2 if dtype == np.bool_ else 7, n).astype(dtype) for n in (shape, sizes)]


@pytest.mark.parametrize("mode", sampled(["linear", "circular"], ["linear"]))
@pytest.mark.parametrize("shape", sampled(SHAPES, ["4D"]))
@pytest.mark.parametrize("first", sampled(FIRST, ["outside"]))
def test_rows_are_written(mode, shape, first):
    assert_written(mode, shape, first, np.float32)


@pytest.mark.parametrize("dtype", sampled(TYPES, [jnp.bfloat16]))
def test_every_type_is_written(dtype):
    assert_written("circular", "4D", "inside", dtype)


def assert_written(mode, shape, first, dtype):
    sizes, axis, count = SHAPES[shape]
    cache, update = drawn(sizes, axis, count, np.dtype(dtype))
    indices = np.int64(FIRST[first][: sizes[0]])
    proto, named = one_node("TensorScatter", [cache, update, indices], opset=24, axis=axis, mode=mode)
    with jax.enable_x64(True):
        made = jax.jit(to_jax(proto))(**named)
    assert_same_bits(made, scattered(cache, update, indices, axis, mode))


@pytest.mark.parametrize("first", sampled(FIRST, ["far"]))
def test_known_indices_of_64_bits_without_x64(first):
    cache, update = drawn((3, 2, 5, 4), -2, 2, np.float32)
    indices = np.int64(FIRST[first])
    proto, _ = one_node("TensorScatter", [cache, update, indices], opset=24)
    made = jax.jit(to_jax(proto, static={"x2": indices}))(cache, update)
    assert_same_bits(made, scattered(cache, update, indices, -2, "linear"))


def test_without_indices_writing_begins_at_0():
    """Nor does a NaN lose its bits."""
    cache, update = drawn((3, 2, 5, 4), -2, 2, np.float32)
    update.view(np.uint32)[...] = 0xFF812345
    proto, _ = one_node("TensorScatter", [cache, update], opset=24)
    assert_same_bits(jax.jit(to_jax(proto))(cache, update), scattered(cache, update, [0, 0, 0], -2, "linear"))


def test_gradients():
    """Of rows that are replaced, and of those that are dropped, they are 0."""
    cache, update = drawn((2, 1, 4, 2), -2, 2, np.float32)
    proto, _ = one_node("TensorScatter", [cache, update, np.int64([1, 3])], opset=24)
    function = to_jax(proto, static={"x2": np.int64([1, 3])})
    of_cache, of_update = jax.jit(jax.grad(lambda *x: function(*x).sum(), argnums=(0, 1)))(cache, update)
    assert of_cache[:, 0, :, 0].tolist() == [[1, 0, 0, 1], [1, 1, 1, 0]]
    assert of_update[:, 0, :, 0].tolist() == [[1, 1], [1, 0]]


@pytest.mark.parametrize("mode", sampled(["linear", "circular"], ["circular"]))
def test_a_static_cache_of_attention(mode):
    """Each step writes a key for each sequence, and donates the cache; a circular one has the last four keys."""
    batch, heads, room, size, steps = 2, 1, 4, 3, 3 if mode == "linear" else 6
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((steps, batch, heads, 1, size)).astype(np.float32) for _ in range(3))
    begun = np.int32([1, 0])  # keys that there are before the first step
    caches = [np.full((batch, heads, room, size), np.nan, np.float32) for _ in range(2)]
    past = [rng.standard_normal((batch, heads, 1, size)).astype(np.float32) for _ in range(2)]
    for cache, first in zip(caches, past, strict=True):
        cache[0, :, :1] = first[0]
    nodes = [
        *(
            helper.make_node("TensorScatter", [f"{x}_cache", x, "at"], [f"{x}_whole"], mode=mode)
            for x in ("key", "value")
        ),
        helper.make_node("Attention", ["q", "key_whole", "value_whole", "", "", "", "valid"], ["y"]),
    ]
    named = {"q": q[0], "key": k[0], "value": v[0], "key_cache": caches[0], "value_cache": caches[1]}
    named |= {"at": np.int64(begun), "valid": np.int64(begun)}
    function = to_jax(model(nodes, named, ["y", "key_whole", "value_whole"], opset=24), int32=["at", "valid"])
    step = jax.jit(function, donate_argnums=(3, 4))
    caches = [jnp.array(x) for x in caches]
    for i in range(steps):
        at = begun + np.int32(i)
        output, *caches = step(q[i], k[i], v[i], *caches, at, np.minimum(at + np.int32(1), np.int32(room)))
        whole = [np.concatenate([first, *all_of[: i + 1]], axis=2) for first, all_of in zip(past, (k, v), strict=True)]
        there = seen_keys(1, np.full(batch, i + 2), i + 2, np.full(batch, i + 1), before=room - 1)
        there = there & (np.arange(i + 2) >= 1 - begun.reshape(-1, 1, 1, 1))  # key 0 is of the first sequence alone
        np.testing.assert_allclose(output, attended(q[i], *whole, there, scale=size**-0.5).output, atol=2e-6)


WRONG = {
    "mode must be linear or circular": {"mode": "other"},
    "axis must not be 0": {"axis": 0},
    r"axis must be in \[-4, 3\]": {"axis": 4},
    r"update: its sizes must be \[2, 1, \?, 3\]": {1: np.zeros((2, 1, 2, 4), np.float32)},
    "update must have at most the 4 rows of past_cache, but it has 5": {1: np.zeros((2, 1, 5, 3), np.float32)},
    r"write_indices: its sizes must be \[2\]": {2: np.int64([1])},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_operands_are_refused(message):
    inputs, attributes = with_changes(
        WRONG[message], [np.zeros((2, 1, 4, 3), np.float32), np.zeros((2, 1, 1, 3), np.float32), np.int64([0, 0])]
    )
    proto, named = one_node("TensorScatter", inputs, opset=24, **attributes)
    with pytest.raises(OnnxError, match=message), jax.enable_x64(True):
        to_jax(proto)(**named)
