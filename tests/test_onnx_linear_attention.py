"""LinearAttention against a loop over tokens in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import sampled
from onnx_building import one_node, onnx, with_changes
from slope_oracle import assert_slopes

from dml_jax.onnx import OnnxError, to_jax

if not onnx.defs.has("LinearAttention"):
    pytest.skip("onnx has no such operator", allow_module_level=True)


def looped(query, key, value, past, decay, beta, *, heads, shared, scale=None):
    """Token by token and head by head: the output, and the state."""
    batch, rows, width = query.shape
    size, of_value = width // heads, value.shape[2] // shared
    state = np.zeros((batch, shared, size, of_value)) if past is None else past.astype(np.float64)
    output = np.zeros((batch, rows, heads, of_value))
    q, k, v = (
        np.float64(x).reshape(batch, rows, n, x.shape[2] // n)
        for x, n in ((query, heads), (key, shared), (value, shared))
    )
    for b, t, g in np.ndindex(batch, rows, shared):
        if decay is not None:
            state[b, g] *= np.exp(np.float64(decay[b, t].reshape(shared, -1)[g]))[:, None]
        new = v[b, t, g]
        if beta is not None:
            new = np.float64(beta[b, t].ravel()[g % beta.shape[2]]) * (new - k[b, t, g] @ state[b, g])
        state[b, g] += np.outer(k[b, t, g], new)
        for h in range(g * heads // shared, (g + 1) * heads // shared):
            output[b, t, h] = (scale or size**-0.5) * (q[b, t, h] @ state[b, g])
    return output.reshape(batch, rows, heads * of_value), state


def drawn(rule, *, batch=2, rows=3, heads=4, shared=2, size=3, of_value=2, has_past=True, per_key=True, per_head=True):
    rng = np.random.default_rng(0)

    def draw(*sizes):
        return rng.standard_normal(sizes).astype(np.float32)

    q, k, v = (draw(batch, rows, n) for n in (heads * size, shared * size, shared * of_value))
    past = draw(batch, shared, size, of_value) if has_past else None
    decay = -abs(draw(batch, rows, shared * (size if per_key else 1))) if "gated" in rule else None
    beta = abs(draw(batch, rows, shared if per_head else 1)) if "delta" in rule else None
    return [q, k, v, past, decay, beta], {"heads": heads, "shared": shared}


RULES = ("linear", "gated", "delta", "gated_delta")
SIZES = {
    "usual": {},
    "no past": {"has_past": False},
    "one decay and one beta": {"per_key": False, "per_head": False},
    "one head": {"heads": 1, "shared": 1, "size": 1, "of_value": 1, "rows": 1},
    "no tokens": {"rows": 0},
    "no batch": {"batch": 0},
}


def function_of(arrays, counts, rule, **attributes):
    heads = {"q_num_heads": counts["heads"], "kv_num_heads": counts["shared"]}
    return to_jax(one_node("LinearAttention", arrays, 2, opset=27, update_rule=rule, **heads, **attributes)[0])


@pytest.mark.parametrize("rule", sampled(RULES, ["gated_delta"]))
@pytest.mark.parametrize("sizes", sampled(SIZES, ["usual"]))
@pytest.mark.parametrize("dtype", sampled([np.float32, np.float16, jnp.bfloat16], [np.float32]))
def test_outputs_and_states(rule, sizes, dtype):
    arrays, counts = drawn(rule, **SIZES[sizes])
    arrays = [x if x is None else x.astype(dtype) for x in arrays]
    function = function_of(arrays, counts, rule, scale=0.3)
    made = jax.jit(function)(*(x for x in arrays if x is not None))
    off = 4 * float(jnp.finfo(dtype).eps) + 1e-6
    for actual, expected in zip(made, looped(*arrays, **counts, scale=0.3), strict=True):
        assert actual.dtype == dtype
        np.testing.assert_allclose(np.float64(actual), expected, rtol=off, atol=off)


@pytest.mark.parametrize("rule", sampled(RULES, ["delta"]))
def test_gradients(rule):
    arrays, counts = drawn(rule)
    function = function_of(arrays, counts, rule)
    places = [i for i, x in enumerate(arrays) if x is not None]

    def oracle(*given):
        by_place = dict(zip(places, given, strict=True))
        return looped(*(by_place.get(i) for i in range(6)), **counts)[0]

    assert_slopes(lambda *x: function(*x)[0], oracle, [arrays[i] for i in places])


@pytest.mark.exhaustive
def test_steps_continue_a_prompt():
    """As one call: the state of three tokens, then two more."""
    arrays, counts = drawn("gated_delta", rows=5, has_past=False)
    whole = looped(*arrays, **counts)
    first = function_of([x if x is None else x[:, :3] for x in arrays], counts, "gated_delta")
    _, state = first(*(x[:, :3] for x in arrays if x is not None))
    given = [*(x[:, 3:] for x in arrays[:3]), np.asarray(state), *(x[:, 3:] for x in arrays[4:])]
    output, state = function_of(given, counts, "gated_delta")(*given)
    np.testing.assert_allclose(output, whole[0][:, 3:], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(state, whole[1], rtol=1e-5, atol=1e-5)


WRONG = {
    "update_rule must be linear or gated or delta or gated_delta": {"update_rule": "other"},
    "decay must be given, because update_rule is gated_delta": {4: None},
    "beta must be left out, because update_rule is gated": {"update_rule": "gated"},
    "q_num_heads must be a multiple of kv_num_heads": {"kv_num_heads": 3},
    r"key: its sizes must be \[2, 3, 6\]": {1: np.zeros((2, 3, 5), np.float32)},
    r"past_state: its sizes must be \[2, 2, 3, 2\]": {3: np.zeros((2, 2, 2, 3), np.float32)},
    r"decay.shape must be \(2, 3, 2\) or \(2, 3, 6\)": {4: np.zeros((2, 3, 4), np.float32)},
    r"beta.shape must be \(2, 3, 1\) or \(2, 3, 2\)": {5: np.zeros((2, 3, 4), np.float32)},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_operands_are_refused(message):
    inputs, attributes = with_changes(WRONG[message], drawn("gated_delta")[0], {"q_num_heads": 4, "kv_num_heads": 2})
    proto, named = one_node("LinearAttention", inputs, 2, opset=27, **attributes)
    with pytest.raises(OnnxError, match=message):
        to_jax(proto)(**named)
