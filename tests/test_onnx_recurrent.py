"""ONNX's RNN, GRU and LSTM: against ONNX Runtime, and against NumPy in float64, step by step."""

import itertools

import jax
import ml_dtypes
import numpy as np
import pytest
from checks import sampled
from jax.test_util import check_grads
from onnx_building import helper, model, runtime
from recurrent_cases import EACH, GATES, layer

from dml_jax.onnx import Backend, OnnxError, run_node, to_jax

STATES = {"RNN": 1, "GRU": 1, "LSTM": 2}
STEPS, BATCH, INPUTS, UNITS = 5, 3, 4, 2
LENGTHS = np.int32([2, 5, 3])
NAMES = ["x", "w", "r", "b", "sequence_lens", "initial_h", "initial_c", "p"]


def operands(kind, *, directions=1, without=(), seed=0, dtype=np.float32, units=UNITS):
    """Every input by its name, but those in `without`."""
    rng, gates = np.random.default_rng(seed), GATES[kind]
    shapes = {
        "x": (STEPS, BATCH, INPUTS),
        "w": (directions, gates * units, INPUTS),
        "r": (directions, gates * units, units),
        "b": (directions, 2 * gates * units),
        "sequence_lens": None,
        "initial_h": (directions, BATCH, units),
        "initial_c": (directions, BATCH, units),
        "p": (directions, 3 * units),
    }
    without = {*without, *(() if kind == "LSTM" else ("initial_c", "p"))}
    made = {n: LENGTHS if s is None else (rng.standard_normal(s) * 1.2).astype(dtype) for n, s in shapes.items()}
    return {name: array for name, array in made.items() if name not in without}


def node_of(kind, given, **attributes):
    names = [name if name in given else "" for name in NAMES[: 8 if kind == "LSTM" else 6]]
    while not names[-1]:
        names.pop()
    attributes = {"hidden_size": given["r"].shape[-1]} | attributes
    return helper.make_node(kind, names, ["y", "y_h", "y_c"][: 1 + STATES[kind]], **attributes)


# Step by step.

FUNCTIONS = {
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Tanh": np.tanh,
    "Relu": lambda x: np.maximum(x, 0),
}


def stepped(kind, given, *, activations=None, linear_before_reset=0, input_forget=0, direction="forward"):
    """The outputs, in float64."""
    names = activations or {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}[kind] * 2
    x, w, r, b, lengths, h, c, p = (given.get(name) for name in NAMES)
    functions = [FUNCTIONS[name] for name in names[: EACH[kind] * len(r)]]
    backward = "backward" if direction == "reverse" else direction
    attributes = {"linear_before_reset": linear_before_reset, "couple_input_forget": input_forget}
    outputs = layer(kind, x, w, r, b, h, c, lengths, p, activations=functions, direction=backward, **attributes)
    return [*outputs[: 1 + STATES[kind]]]


CASES = [
    *itertools.product(GATES, ["forward", "reverse", "bidirectional"], [(), ("sequence_lens", "p")], [{}]),
    *itertools.product(GATES, ["forward"], [("b", "initial_h", "initial_c", "sequence_lens"), ("b",)], [{}]),
    *itertools.product(["GRU"], ["forward", "bidirectional"], [(), ("b",)], [{"linear_before_reset": 1}]),
    *itertools.product(["LSTM"], ["forward"], [(), ("p",)], [{"input_forget": 1}]),
    ("LSTM", "forward", (), {"activations": ["Sigmoid", "Relu", "Tanh"]}),
    ("GRU", "bidirectional", (), {"activations": ["Tanh", "Relu", "Sigmoid", "Tanh"]}),
    ("RNN", "bidirectional", (), {"activations": ["Relu", "Sigmoid"]}),
]
FEW = [
    CASES.index(case)
    for case in (("GRU", "bidirectional", (), {"linear_before_reset": 1}), ("LSTM", "bidirectional", (), {}))
]


@pytest.mark.parametrize("which", sampled(range(len(CASES)), FEW))
def test_layers_are_those_of_onnx_runtime_and_of_the_specification(which):
    kind, direction, without, attributes = CASES[which]
    given = operands(kind, directions=1 + (direction == "bidirectional"), without=without)
    node = node_of(kind, given, direction=direction, **attributes)
    proto = model([node], given, node.output, opset=14)
    exact = stepped(kind, given, direction=direction, **attributes)
    actual = Backend.run_model(proto, list(given.values()))
    for y, wanted, real in zip(actual, runtime(proto, given), exact, strict=True):
        assert y.dtype == np.float32
        np.testing.assert_allclose(y, real, rtol=1e-5, atol=2e-6)
        np.testing.assert_allclose(wanted, real, rtol=1e-5, atol=2e-6)


PARAMETERS = {
    "Affine": (0.3, 0.4),
    "Elu": (0.3,),
    "HardSigmoid": (0.3, 0.4),
    "LeakyRelu": (0.3,),
    "Relu": (),
    "ScaledTanh": (0.3, 0.4),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Tanh": (),
    "ThresholdedRelu": (0.3,),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", PARAMETERS)
def test_activations_are_those_of_onnx_runtime(name):
    """In any case; those that have parameters take them in order."""
    given = operands("GRU", directions=2)
    alpha, beta, *_ = (*PARAMETERS[name], None, None)
    own = {"activation_alpha": [0.25, alpha, alpha]} if alpha else {"activation_alpha": [0.25]}
    own |= {"activation_beta": [0.45, beta, beta]} if beta else {"activation_beta": [0.45]}
    names = ["HardSigmoid", name, "SIGMOID", name.lower()]
    node = node_of("GRU", given, direction="bidirectional", activations=names, **own)
    wanted = runtime(model([node], given, node.output, opset=14), given)
    for y, expected in zip(run_node(node, list(given.values()), opset=14), wanted, strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.exhaustive
def test_parameters_that_are_left_out_are_those_of_the_operators():
    """Those of HardSigmoid, 0.2 and 0.5, and of Affine, 1 and 0, which ONNX Runtime takes for 0 and 0."""
    given = operands("RNN")
    for name, numbers in (("HardSigmoid", (0.2, 0.5)), ("Affine", (1.0, 0.0)), ("ScaledTanh", (1.0, 1.0))):
        alpha, beta = ([number] for number in numbers)
        said = node_of("RNN", given, activations=[name], activation_alpha=alpha, activation_beta=beta)
        left_out = node_of("RNN", given, activations=[name])
        results = (run_node(node, list(given.values())) for node in (said, left_out))
        for y, same in zip(*results, strict=True):
            np.testing.assert_array_equal(y, same)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", GATES)
def test_gates_are_clipped_as_in_onnx_runtime(kind):
    """Not what the last activation of LSTM is applied to."""
    given = operands(kind)
    node = node_of(kind, given, clip=0.3)
    wanted = runtime(model([node], given, node.output, opset=14), given)
    for y, expected in zip(run_node(node, list(given.values()), opset=14), wanted, strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", GATES)
def test_batches_first(kind):
    given = operands(kind, directions=2)
    exact = stepped(kind, given, direction="bidirectional")
    turned = {n: v.swapaxes(0, 1) if n in ("x", "initial_h", "initial_c") else v for n, v in given.items()}
    y, *last = run_node(node_of(kind, given, direction="bidirectional", layout=1), list(turned.values()))
    np.testing.assert_allclose(y, np.moveaxis(exact[0], 2, 0), rtol=1e-5, atol=2e-6)
    for one, real in zip(last, exact[1:], strict=True):
        np.testing.assert_allclose(one, real.swapaxes(0, 1), rtol=1e-5, atol=2e-6)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
@pytest.mark.parametrize("kind", GATES)
def test_states_are_kept_wide(kind, dtype):
    """Rounded once, as outputs; floats of 64 bits stay such."""
    given = operands(kind, dtype=dtype)
    with jax.enable_x64(True):
        results = run_node(node_of(kind, given), list(given.values()))
    step = float(ml_dtypes.finfo(dtype).eps)
    for y, real in zip(results, stepped(kind, given), strict=True):
        assert y.dtype == dtype
        np.testing.assert_allclose(
            y, real, rtol=0.51 * step if step > 1e-6 else 1e-12, atol=1e-6 if step > 1e-6 else 1e-12
        )


@pytest.mark.exhaustive
@pytest.mark.parametrize("opset", [1, 3, 7, 14, 22])
@pytest.mark.parametrize("kind", GATES)
def test_every_version(kind, opset):
    """Without a direction too, whose default in the schema of GRU-1 is misspelled."""
    given = operands(kind)
    attributes = {"output_sequence": 1} if opset < 7 else {}
    for y, real in zip(
        run_node(node_of(kind, given, **attributes), list(given.values()), opset=opset),
        stepped(kind, given),
        strict=True,
    ):
        np.testing.assert_allclose(y, real, rtol=1e-5, atol=2e-6)


# Transformations.


def function_of(kind, given, **attributes):
    return to_jax(model([node_of(kind, given, **attributes)], given, ["y", "y_h"], opset=22))


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", GATES)
def test_derivatives_are_those_of_differences(kind):
    given = operands(kind, directions=2, seed=2)
    function = function_of(kind, given, direction="bidirectional")
    lengths = given["sequence_lens"]
    given = {name: v for name, v in given.items() if name != "sequence_lens"}

    def floats(*values):
        named = dict(zip(given, values, strict=True)) | {"sequence_lens": lengths}
        return function(*(named[spec.name] for spec in function.inputs))

    check_grads(jax.jit(floats), list(given.values()), 1, modes=["rev"], eps=1e-2, atol=3e-2, rtol=3e-2)


@pytest.mark.exhaustive
def test_what_lies_behind_the_end_is_not_read():
    """Neither by the outputs nor by their derivatives."""
    given = operands("LSTM")
    behind = np.arange(STEPS)[:, None] >= LENGTHS
    broken = given | {"x": np.where(behind[..., None], np.float32(np.nan), given["x"])}
    function = function_of("LSTM", given)
    y, last = function(*broken.values())
    np.testing.assert_array_equal(y, function(*given.values())[0])
    assert np.isfinite(y).all()
    assert np.isfinite(last).all()
    gradient = jax.jit(jax.grad(lambda *a: function(*a)[0].sum(), (0, 1, 2, 3)))(*broken.values())
    assert all(np.isfinite(one).all() for one in gradient)
    np.testing.assert_array_equal(np.asarray(gradient[0])[behind], 0)


@pytest.mark.parametrize("kind", sampled(list(GATES), ["LSTM"]))
def test_the_last_states_of_an_empty_sequence_are_the_first_ones(kind):
    """In ONNX Runtime they are 0; its outputs are 0 as here."""
    given = operands(kind) | {"sequence_lens": np.int32([2, 0, 3])}
    y, *states = run_node(node_of(kind, given), list(given.values()))
    assert not y[:, :, 1].any()
    for state, name in zip(states, ("initial_h", "initial_c"), strict=False):
        np.testing.assert_array_equal(state[:, 1], given[name][:, 1])


@pytest.mark.exhaustive
def test_vmap_and_lengths_that_are_data():
    given = operands("GRU")
    function = jax.jit(function_of("GRU", given))
    lengths = np.int32([[2, 5, 3], [1, 1, 5]])
    mapped = jax.vmap(lambda n: function(*(given | {"sequence_lens": n}).values()))(lengths)
    for i, row in enumerate(lengths):
        for y, real in zip(mapped, stepped("GRU", given | {"sequence_lens": row}), strict=True):
            np.testing.assert_allclose(y[i], real, rtol=1e-5, atol=2e-6)


# What is refused.


@pytest.mark.parametrize(
    ("change", "attributes", "message"),
    [
        ({"w": (1, 8, 3)}, {}, "w must be of (1, 8, 4), for 1 directions, 2 hidden units, a batch of 3 and 4 inputs"),
        ({"r": (1, 7, 2)}, {}, "r must be of (1, 8, 2)"),
        ({"b": (1, 8)}, {}, "b must be of (1, 16)"),
        ({"p": (1, 8)}, {}, "p must be of (1, 6)"),
        ({"initial_c": (2, 3, 2)}, {}, "initial_c must be of (1, 3, 2)"),
        ({"x": (5, 3)}, {}, "x and r must have 3 dimensions"),
        ({}, {"hidden_size": 3}, "w must be of (1, 12, 4)"),
        ({}, {"direction": "backward"}, "direction must be forward, reverse or bidirectional, but it is 'backward'"),
        ({}, {"activations": ["Tanh"]}, "there must be 3 activations per direction, 3, but they are Tanh"),
        ({}, {"activations": ["Tanh", "Tanh", "Celu"]}, "activations must be among affine, elu"),
        ({}, {"clip": -1.0}, "clip must be positive, but it is -1.0"),
    ],
)
def test_what_does_not_fit(change, attributes, message):
    given = operands("LSTM") | {name: np.zeros(shape, np.float32) for name, shape in change.items()}
    node = node_of("LSTM", operands("LSTM"), **attributes)
    with pytest.raises(OnnxError) as caught:
        run_node(node, list(given.values()))
    assert message in str(caught.value)
