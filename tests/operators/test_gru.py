"""GRU: update and reset gates, step by step."""

from functools import partial

import numpy as np
import pytest
import recurrent_cases
from checks import assert_same_bits
from operator_cases import Example, Struct

from dml_jax import Activation, ConstraintError, compile_operator
from dml_jax.descs import GruDesc

pytestmark = pytest.mark.device

SIGMOID, TANH = Activation("ACTIVATION_SIGMOID"), Activation("ACTIVATION_TANH")
IDENTITY = Activation("ACTIVATION_IDENTITY")
tensors = partial(recurrent_cases.tensors, "GRU")


def draw(rng):
    return {**recurrent_cases.draw("GRU", rng), "linear_before_reset": bool(rng.integers(0, 2))}


def expected(desc, *views):
    return recurrent_cases.expected("GRU", desc, *views, linear_before_reset=desc.linear_before_reset)


DESC = GruDesc(
    **tensors(3, 2, 2, 3, 2),
    activation_descs=(SIGMOID, TANH, SIGMOID, TANH),
    direction="BIDIRECTIONAL",
    linear_before_reset=False,
)
# An update gate of 0.5, so that each state is the mean of the input and the state before.
MEANS = GruDesc(
    **tensors(3, 1, 1, 1, 1, without=("bias", "hidden_init", "sequence_lengths")),
    activation_descs=(SIGMOID, IDENTITY),
    direction="FORWARD",
    linear_before_reset=False,
)
STRUCTS = (
    Struct(
        DESC,
        breaks=recurrent_cases.breaks("GRU", DESC),
        examples=(Example(MEANS, [[8, 8, 8], [0, 0, 1], [0, 0, 0]], [[4, 6, 7], [7]]),),
        draw=draw,
        expected=expected,
        fill=recurrent_cases.fill,
        units=64,
    ),
)


def changed(desc, **changes):
    return GruDesc(**desc.operands() | changes)


@pytest.mark.parametrize(("is_linear", "wanted"), [(False, 1 + 4 * 3 * 2 + 6), (True, 1 + 4 * (3 * 2 + 6))])
def test_what_the_reset_gate_is_applied_to(is_linear, wanted):
    """A gate of 4 and a state of 3, which is doubled: with its bias of 6, or without; nothing of the state stays."""
    tensors_of_one = tensors(1, 1, 1, 1, 1, without=("sequence_lengths", "output_sequence"))
    desc = changed(MEANS, **tensors_of_one, activation_descs=(IDENTITY,) * 2, linear_before_reset=is_linear)
    arrays = ([1], [0, 0, 1], [0, 0, 2], [0, 4, 0, 0, 0, 6], [3])
    assert_same_bits(compile_operator(desc)(*map(np.float32, arrays)), np.float32([wanted]))


@pytest.mark.parametrize("left_out", DESC.output_names())
def test_an_output_that_is_left_out(left_out):
    run = compile_operator(changed(MEANS, **{left_out: None}))
    made = run(*map(np.float32, ([8, 8, 8], [0, 0, 1], [0, 0, 0])))
    assert_same_bits(made, np.float32([7] if left_out == "output_sequence" else [4, 6, 7]))


def test_two_activations_per_direction():
    with pytest.raises(ConstraintError, match="must have two entries per direction, but there are 2 for 4"):
        changed(DESC, activation_descs=(SIGMOID, TANH))


@pytest.mark.exhaustive
def test_nodes_of_onnx():
    assert len(recurrent_cases.assert_nodes_of_onnx_agree(STRUCTS[0])) >= 6
