"""CausalConvWithState against a loop in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_same_bits, sampled
from onnx_building import one_node, onnx, with_changes
from slope_oracle import assert_slopes

from dml_jax.onnx import OnnxError, to_jax

if not onnx.defs.has("CausalConvWithState"):
    pytest.skip("onnx has no such operator", allow_module_level=True)


def looped(input, weight, bias, past, activation):
    k = weight.shape[2]
    past = np.zeros((*input.shape[:2], k - 1), input.dtype) if past is None else past
    whole, output = np.concatenate([past, input], axis=2), np.zeros(input.shape)
    for b, c, t in np.ndindex(input.shape):
        y = np.float64(whole[b, c, t : t + k]) @ np.float64(weight[c, 0]) + (0 if bias is None else np.float64(bias[c]))
        output[b, c, t] = y if activation == "none" else y / (1 + np.exp(-y))
    return output, whole[:, :, input.shape[2] :]


def drawn(batch=2, channels=3, length=5, k=4, has_bias=True, has_past=True):
    rng = np.random.default_rng(0)
    sizes = ((batch, channels, length), (channels, 1, k), (channels,), (batch, channels, k - 1))
    arrays = [rng.standard_normal(n).astype(np.float32) for n in sizes]
    return [*arrays[:2], arrays[2] if has_bias else None, arrays[3] if has_past else None]


SIZES = {
    "usual": {},
    "first": {"has_bias": False, "has_past": False},
    "shorter than the state": {"length": 2},
    "of 20": {"k": 20},
    "one": {"batch": 1, "channels": 1, "length": 1, "k": 1},
    **{f"no {name}": {name: 0} for name in ("batch", "channels", "length")},
}


@pytest.mark.parametrize("activation", sampled(["none", "silu", "swish"], ["silu"]))
@pytest.mark.parametrize("sizes", sampled(SIZES, ["usual"]))
@pytest.mark.parametrize("dtype", sampled([np.float32, np.float16, jnp.bfloat16], [np.float32]))
def test_outputs_and_states(activation, sizes, dtype):
    arrays = [x if x is None else x.astype(dtype) for x in drawn(**SIZES[sizes])]
    proto, named = one_node("CausalConvWithState", arrays, 2, opset=27, activation=activation)
    output, state = jax.jit(to_jax(proto))(**named)
    wanted = looped(*arrays, activation)
    off = float(jnp.finfo(dtype).eps) + 1e-6
    assert output.dtype == dtype
    np.testing.assert_allclose(np.float64(output), wanted[0], rtol=off, atol=off)
    assert_same_bits(state, wanted[1])


@pytest.mark.parametrize("activation", sampled(["none", "silu"], ["silu"]))
def test_gradients(activation):
    arrays = drawn()
    function = to_jax(one_node("CausalConvWithState", arrays, 2, opset=27, activation=activation)[0])
    assert_slopes(lambda *x: function(*x)[0], lambda *x: looped(*x, activation)[0], arrays)


WRONG = {
    "activation must be none or silu or swish": {"activation": "relu"},
    r"input: its sizes must be \[\?, \?, \?\]": {0: np.zeros((3, 5), np.float32)},
    r"weight: its sizes must be \[3, 1, \?\]": {1: np.zeros((3, 2, 4), np.float32)},
    "weight must have at least 1 number for each channel": {1: np.zeros((3, 1, 0), np.float32)},
    r"bias: its sizes must be \[3\]": {2: np.zeros(4, np.float32)},
    r"past_state: its sizes must be \[2, 3, 3\]": {3: np.zeros((2, 3, 4), np.float32)},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_operands_are_refused(message):
    inputs, attributes = with_changes(WRONG[message], drawn())
    proto, named = one_node("CausalConvWithState", inputs, 2, opset=27, **attributes)
    with pytest.raises(OnnxError, match=message):
        to_jax(proto)(**named)
