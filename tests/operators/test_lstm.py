"""LSTM: input, output and forget gates, and the cell state, step by step."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import recurrent_cases
from checks import assert_close, assert_same_bits
from operator_cases import Example, Struct
from small_arrays import on_explicit_mesh

from dml_jax import Activation, ConstraintError, compile_operator
from dml_jax.descs import LstmDesc

pytestmark = pytest.mark.device

SIGMOID, TANH = Activation("ACTIVATION_SIGMOID"), Activation("ACTIVATION_TANH")
IDENTITY = Activation("ACTIVATION_IDENTITY")
tensors = partial(recurrent_cases.tensors, "LSTM")


def draw(rng):
    return {
        **recurrent_cases.draw("LSTM", rng),
        "clip_threshold": float(rng.uniform(0.1, 1)),
        "use_clip_threshold": bool(rng.integers(0, 2)),
        "couple_input_forget": bool(rng.integers(0, 2)),
    }


def expected(desc, *views):
    clip = desc.clip_threshold if desc.use_clip_threshold else np.inf
    return recurrent_cases.expected("LSTM", desc, *views, clip=clip, couple_input_forget=desc.couple_input_forget)


DESC = LstmDesc(
    **tensors(3, 2, 2, 3, 2),
    activation_descs=(SIGMOID, TANH, TANH, SIGMOID, TANH, TANH),
    direction="BIDIRECTIONAL",
    clip_threshold=2,
    use_clip_threshold=True,
    couple_input_forget=False,
)
# The cell is multiplied by 10, and the input added: digits are appended.
DIGITS = LstmDesc(
    **tensors(3, 1, 1, 1, 1, without=("hidden_init", "cell_mem_init", "sequence_lengths", "peephole")),
    activation_descs=(IDENTITY,) * 3,
    direction="FORWARD",
    clip_threshold=0,
    use_clip_threshold=False,
    couple_input_forget=False,
)
DIGITS_INPUTS = [[1, 2, 3], [0, 0, 0, 1], [0, 0, 0, 0], [1, 1, 10, 0, 0, 0, 0, 0]]
STRUCTS = (
    Struct(
        DESC,
        breaks={**recurrent_cases.breaks("LSTM", DESC), "positive(clip_threshold)": {"clip_threshold": 0}},
        examples=(Example(DIGITS, DIGITS_INPUTS, [[1, 12, 123], [123], [123]]),),
        draw=draw,
        expected=expected,
        fill=recurrent_cases.fill,
        units=64,
    ),
)


def changed(desc, **changes):
    return LstmDesc(**desc.operands() | changes)


@pytest.mark.parametrize("left_out", DESC.output_names())
def test_an_output_that_is_left_out(left_out):
    run, inputs = compile_operator(changed(DIGITS, **{left_out: None})), [np.float32(x) for x in DIGITS_INPUTS]
    wanted = dict(zip(DIGITS.output_names(), ([1, 12, 123], [123], [123]), strict=True))
    made = dict(zip(run.desc.output_ports(), run(*inputs), strict=True))
    assert made.keys() == wanted.keys() - {left_out}
    for name, numbers in made.items():
        assert_same_bits(numbers, np.float32(wanted[name]))


def test_a_bound_that_is_not_used_may_be_anything():
    assert changed(DESC, clip_threshold=-1, use_clip_threshold=False).clip_threshold == -1
    for threshold in (-1, float("nan")):
        with pytest.raises(ConstraintError, match="ClipThreshold must be positive if UseClipThreshold, but it is"):
            changed(DESC, clip_threshold=threshold)


def test_the_bound_is_not_that_of_the_last_activation():
    """Of gates and new cells alone: the cell is 1 + 1 + 1, and what is put out is not 1."""
    desc = changed(DIGITS, clip_threshold=1, use_clip_threshold=True)
    arrays = [np.float32(x) for x in ([5, 6, 7], [0, 0, 0, 1], [0, 0, 0, 0], [9, 9, 9, 0, 0, 0, 0, 0])]
    for made, wanted in zip(compile_operator(desc)(*arrays), ([1, 2, 3], [3], [3]), strict=True):
        assert_same_bits(made, np.float32(wanted))


def test_three_activations_per_direction():
    with pytest.raises(ConstraintError, match="must have three entries per direction, but there are 3 for 6"):
        changed(DESC, activation_descs=(SIGMOID, TANH, TANH))


@pytest.mark.exhaustive
def test_nodes_of_onnx():
    """Among them peepholes, where the output gate reads the new cell."""
    plain = replace(STRUCTS[0], desc=changed(DESC, use_clip_threshold=False))
    assert "test_lstm_with_peepholes" in recurrent_cases.assert_nodes_of_onnx_agree(plain)


def test_sharded_batches():
    """The rows of a batch do not depend on each other."""
    rng = np.random.default_rng(0)
    desc = changed(DESC, sequence_lengths=None)
    arrays = {n: rng.normal(size=tensor.sizes).astype(np.float32) for n, tensor in desc.input_ports().items()}
    wanted = expected(desc, *(arrays.get(n) for n in desc.input_names()))
    arrays["input"] = on_explicit_mesh(arrays["input"], None, None, "d", None)
    for made, one in zip(desc.compute(*arrays.values()), wanted, strict=True):
        assert_close(made.reshape(one.shape), one, units=64)
