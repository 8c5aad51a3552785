"""ONNX's RotaryEmbedding against pairs turned one by one in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_oracle import merged
from checks import sampled
from onnx_building import one_node, with_changes

from dml_jax.onnx import OnnxError, to_jax

POSITIONS = np.int64([[0, 5, 2], [4, 4, 8]])


def turned(x, cosines, sines, positions, interleaved):
    """Of (batch, heads, rows, size) the first features, of which each cosine turns a pair."""
    y, half = x.astype(np.float64), cosines.shape[-1]
    for b, h, t, i in np.ndindex(*x.shape[:3], half):
        first, second = (2 * i, 2 * i + 1) if interleaved else (i, i + half)
        at = (b, t) if positions is None else (positions[b, t],)
        cosine, sine = np.float64(cosines[at][i]), np.float64(sines[at][i])
        p, q = x[b, h, t, [first, second]].astype(np.float64)
        y[b, h, t, first], y[b, h, t, second] = p * cosine - q * sine, p * sine + q * cosine
    return y


@pytest.mark.parametrize("interleaved", sampled([0, 1], [1]))
@pytest.mark.parametrize("has_positions", [True, False])
@pytest.mark.parametrize("half", sampled([0, 1, 3, 4], [3]))  # of a head of 8
@pytest.mark.parametrize("is_flat", sampled([True, False], [True]))
@pytest.mark.parametrize("dtype", sampled([np.float32, np.float16, jnp.bfloat16], [np.float32]))
def test_rotations_and_their_gradients(interleaved, has_positions, half, is_flat, dtype):
    """A gradient is turned back. A dimension of 0 stands for the whole head."""
    rng = np.random.default_rng(0)
    x, back = (rng.standard_normal((2, 4, 3, 8)).astype(dtype) for _ in range(2))
    shape = (9, half or 4) if has_positions else (2, 3, half or 4)
    cosines, sines = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
    positions = POSITIONS if has_positions else None
    inputs = [merged(x) if is_flat else x, cosines, sines, positions]
    attributes = {"interleaved": interleaved, "rotary_embedding_dim": 2 * half, **({"num_heads": 4} if is_flat else {})}
    proto, named = one_node("RotaryEmbedding", inputs, opset=23, **attributes)
    function = to_jax(proto, int32=["x3"] if has_positions else [])
    given = {name: array.astype(np.int32) if name == "x3" else array for name, array in named.items()}
    y, pull = jax.vjp(jax.jit(lambda x: function(**given | {"x0": x})), inputs[0])
    (slope,) = pull(jnp.asarray(merged(back) if is_flat else back))
    off = 2 * float(jnp.finfo(dtype).eps) + 1e-6
    for actual, of, sign in ((y, x, 1), (slope, back, -1)):
        wanted = turned(of, cosines, sign * sines, positions, interleaved)
        assert actual.dtype == dtype
        np.testing.assert_allclose(np.float64(actual), merged(wanted) if is_flat else wanted, rtol=off, atol=off)


def test_positions_behind_the_caches_give_nan():
    inputs = [np.ones((1, 1, 3, 4), np.float32), *[np.ones((9, 2), np.float32)] * 2, np.int64([[7, 8, 9]])]
    proto, _ = one_node("RotaryEmbedding", inputs, opset=23)
    made = jax.jit(to_jax(proto, static={"x3": inputs[3]}))(*inputs[:3])
    assert np.isnan(made[0, 0]).tolist() == [[False] * 4, [False] * 4, [True] * 4]


WRONG = {
    "X must have 3 or 4 dimensions, but it has 2": {0: np.zeros((3, 8), np.float32)},
    "num_heads must be at least 1 and divide the 8 columns of X, which has 3 dimensions": {
        0: np.zeros((2, 3, 8), np.float32)
    },
    r"cos_cache: its sizes must be \[\?, 4\]": {1: np.zeros((9, 3), np.float32)},
    r"cos_cache: its sizes must be \[2, 3, 4\]": {3: None},
    r"sin_cache: its sizes must be \[9, 4\]": {2: np.zeros((8, 4), np.float32)},
    r"position_ids: its sizes must be \[2, 3\]": {3: POSITIONS[:1]},
    "rotary_embedding_dim must be at most the size of a head, 8, but it is 10": {
        **dict.fromkeys((1, 2), np.zeros((9, 5), np.float32)),
        "rotary_embedding_dim": 10,
    },
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_operands_are_refused(message):
    inputs, attributes = with_changes(
        WRONG[message], [np.zeros((2, 4, 3, 8), np.float32), *[np.zeros((9, 4), np.float32)] * 2, POSITIONS]
    )
    proto, named = one_node("RotaryEmbedding", inputs, opset=23, **attributes)
    with pytest.raises(OnnxError, match=message), jax.enable_x64(True):
        to_jax(proto)(**named)
