"""Recurrent layers in NumPy's float64, row by row and step by step, and what the tests of LSTM and GRU share."""

from functools import partial
from itertools import product

import numpy as np
from activation_cases import activated
from draws import dims
from operator_cases import f32, u32

from dml_jax import Activation, RecurrentNetworkDirection

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
EACH = {"RNN": 1, "GRU": 2, "LSTM": 3}  # activations per direction
DEFAULTS = {"GRU": ("SIGMOID", "TANH"), "LSTM": ("SIGMOID", "TANH", "TANH")}  # those of ONNX


def layer(
    kind,
    input,
    weight,
    recurrence,
    bias=None,
    hidden_init=None,
    cell_mem_init=None,
    sequence_lengths=None,
    peephole=None,
    *,
    activations,
    direction="forward",
    clip=np.inf,
    linear_before_reset=False,
    couple_input_forget=False,
):
    """The states of all steps, then the last state and the last cell of each direction; activations are functions."""
    (steps, batch, inputs), (directions, _, hidden), gates = input.shape, recurrence.shape, GATES[kind]
    sequence, lasts = np.zeros((steps, directions, batch, hidden)), np.zeros((2, directions, batch, hidden))
    zeros = np.zeros((directions, 8 * hidden))

    def clipped(function):
        return lambda x: function(np.clip(x, -clip, clip))

    for d, b in product(range(directions), range(batch)):
        f, g, of_cell = (*activations[d * EACH[kind] : (d + 1) * EACH[kind]], None, None)[:3]
        f, g = clipped(f), clipped(g)
        w, r = weight[d].reshape(gates, hidden, inputs), recurrence[d].reshape(gates, hidden, hidden)
        biases = (zeros[:, : 2 * gates * hidden] if bias is None else bias)[d].reshape(2, gates, hidden)
        p_i, p_o, p_f = (zeros[:, : 3 * hidden] if peephole is None else peephole)[d].astype(float).reshape(3, hidden)
        h, c = (zeros[d, :hidden] if x is None else x[d, b].astype(float) for x in (hidden_init, cell_mem_init))
        length = steps if sequence_lengths is None else min(max(int(sequence_lengths[b]), 0), steps)
        for t in sorted(range(length), reverse=direction == "backward" or d == 1):
            of_x = [w[n].astype(float) @ input[t, b].astype(float) + biases[0, n].astype(float) for n in range(gates)]
            of_h = [r[n].astype(float) @ h + biases[1, n].astype(float) for n in range(gates)]
            both = [x + y for x, y in zip(of_x, of_h, strict=True)]
            if kind == "RNN":
                h = f(both[0])
            elif kind == "GRU":
                z, reset = f(both[0]), f(both[1])
                of_reset = r[2].astype(float) @ (reset * h) + biases[1, 2].astype(float)
                h = (1 - z) * g(of_x[2] + (reset * of_h[2] if linear_before_reset else of_reset)) + z * h
            else:
                i = f(both[0] + p_i * c)
                forget = 1 - i if couple_input_forget else f(both[2] + p_f * c)
                c = forget * c + i * g(both[3])
                h = f(both[1] + p_o * c) * of_cell(c)
            sequence[t, d, b] = h
        lasts[:, d, b] = h, c
    return sequence, *lasts


# Structs.


def sizes(kind, steps, batch, inputs, hidden, directions):
    """By field, the sizes of all tensors."""
    gates, state = GATES[kind], (1, directions, batch, hidden)
    of_lstm = kind == "LSTM"
    return {
        "input": (1, steps, batch, inputs),
        "weight": (1, directions, gates * hidden, inputs),
        "recurrence": (1, directions, gates * hidden, hidden),
        "bias": (1, 1, directions, 2 * gates * hidden),
        "hidden_init": state,
        **({"cell_mem_init": state} if of_lstm else {}),
        "sequence_lengths": (1, 1, 1, batch),
        **({"peephole": (1, 1, directions, 3 * hidden)} if of_lstm else {}),
        "output_sequence": (steps, directions, batch, hidden),
        "output_single": state,
        **({"output_cell_single": state} if of_lstm else {}),
    }


def tensors(kind, *counts, without=()):
    """By field, tensors of FLOAT32; None for those in `without`."""
    every = sizes(kind, *counts).items()
    return {n: None if n in without else (u32 if n == "sequence_lengths" else f32)(*of) for n, of in every}


def breaks(kind, desc):
    """Changes of a descriptor of both directions that break the rules which LSTM and GRU share."""
    given = {name: getattr(desc, name).sizes for name in desc.tensor_names()}
    longer = {name: (*of[:-1], of[-1] + 1) for name, of in given.items()}
    longer["input"] = (2, *given["input"][1:])
    longer["recurrence"] = (1, 2, given["recurrence"][2] + 1, given["recurrence"][3])
    word = {2: "two", 3: "three"}[EACH[kind]]
    return {
        "unowned(inputs)": {"weight": f32(*given["weight"], flags="OWNED_BY_DML")},
        **{f"sizes_follow({n})": {n: (u32 if n == "sequence_lengths" else f32)(*of)} for n, of in longer.items()},
        f"{word}_per_direction(activation_descs)": {"activation_descs": desc.activation_descs[1:]},
        "some(outputs)": dict.fromkeys(desc.output_names()),
    }


# Gates are in [0, 1], and new states small, so that states stay so.
GATED = [Activation(f"ACTIVATION_{name}") for name in ("SIGMOID", "HARD_SIGMOID")]
BOUNDED = [Activation(f"ACTIVATION_{name}") for name in ("TANH", "SIGMOID", "SOFTSIGN", "SCALED_TANH", "HARD_SIGMOID")]
OF_CELL = [*BOUNDED, Activation("ACTIVATION_RELU"), Activation("ACTIVATION_ELU", (0.5,))]


def draw(kind, rng):
    """Random fields; those of tensors that are optional may be left out."""
    direction = RecurrentNetworkDirection(int(rng.integers(0, 3)))
    count = 1 + (direction == RecurrentNetworkDirection.BIDIRECTIONAL)
    found = sizes(kind, *dims(rng, 4, 60), count)
    outputs = [name for name in found if name.startswith("output")]
    kept = rng.choice(outputs)
    for name in [*found][3:]:
        if name != kept and rng.random() < 0.4:
            found[name] = None
    choices = (GATED, BOUNDED, OF_CELL)[: EACH[kind]]
    activations = tuple(choice[rng.integers(0, len(choice))] for _ in range(count) for choice in choices)
    return {**found, "activation_descs": activations, "direction": direction}


def fill(rng, port, tensor, count):
    """Small numbers; any lengths."""
    return None if port == "sequence_lengths" else rng.normal(scale=0.4, size=count).astype(tensor.dtype)


def expected(kind, desc, *views, **attributes):
    """The outputs that a descriptor asks for."""
    ranks = {"bias": 2, "peephole": 2, "sequence_lengths": 1}
    given = dict(zip(desc.input_names(), views, strict=True))
    given = {n: None if x is None else x.reshape(x.shape[-ranks.get(n, 3) :]) for n, x in given.items()}
    activations = [partial(activated, activation=one) for one in desc.activation_descs]
    computed = layer(kind, **given, activations=activations, direction=desc.direction.name.lower(), **attributes)
    return tuple(x for x, n in zip(computed, desc.output_names(), strict=False) if getattr(desc, n) is not None)


def assert_nodes_of_onnx_agree(struct):
    """ONNX's own cases of the operator, computed by a struct of `struct`'s class; returns their names."""
    from onnx_building import helper
    from onnx_cases import all_cases, as_array

    names = {"X": "input", "W": "weight", "R": "recurrence", "B": "bias", "P": "peephole", "initial_h": "hidden_init"}
    names |= {"initial_c": "cell_mem_init", "sequence_lens": "sequence_lengths", "Y": "output_sequence"}
    names |= {"Y_h": "output_single", "Y_c": "output_cell_single"}
    directions = {"reverse": "BACKWARD", "bidirectional": "BIDIRECTIONAL"}
    cls, kind, found = type(struct.desc), struct.desc.operator_type, []
    for name, case in all_cases().items():
        (node, *more), ((inputs, outputs), *_) = case.model.graph.node, case.data_sets
        if more or node.op_type != kind:
            continue
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        assert attributes.keys() <= {"hidden_size", "layout", "direction"}
        values = [
            *zip(filter(None, node.input), inputs, strict=True),
            *zip(filter(None, node.output), outputs, strict=True),
        ]
        arrays = {names[port]: as_array(value) for port, value in values}
        if attributes.get("layout"):
            batch_first = {"input": (1, 0, 2), "output_sequence": (1, 2, 0, 3), "output_single": (1, 0, 2)}
            arrays |= {n: np.transpose(arrays[n], order) for n, order in batch_first.items() if n in arrays}
        arrays |= {n: x.astype(np.uint32) for n, x in arrays.items() if n == "sequence_lengths"}
        count, _, hidden = arrays["recurrence"].shape
        every = tensors(kind, *arrays["input"].shape, hidden, count)
        desc = cls(
            **struct.desc.operands()
            | {n: of if n in arrays else None for n, of in every.items()}
            | {"direction": directions.get(attributes.get("direction", b"").decode(), "FORWARD")}
            | {"activation_descs": [Activation(f"ACTIVATION_{n}") for n in DEFAULTS[kind]] * count}
        )
        shaped = {port: arrays[port].reshape(tensor.sizes) for port, tensor in desc.ports().items()}
        made = desc.compute(*(shaped[port] for port in desc.input_ports()))
        for port, computed in zip(desc.output_ports(), made if isinstance(made, tuple) else (made,), strict=True):
            np.testing.assert_allclose(computed, shaped[port], rtol=1e-5, atol=1e-6, err_msg=f"{name} {port}")
        found.append(name)
    return found
