"""ONNX's recurrent layers, RNN, GRU and LSTM: the products of all inputs at once, then a scan over the steps.

The gates of all units lie beside each other, [..., gates * H], in ONNX's order. Floats of 8 and 16 bits are computed in
float32, the states between the steps too, and outputs are rounded once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.activation import Activation
from ..errors import ConstraintError
from ..lowering.primitive import varying_alike
from ..lowering.values.accumulation_types import wide_type
from .values import Array, Operators, on_device

__all__ = ["OPERATORS", "gru", "lstm", "rnn"]

# Of each direction whether it runs from the last step back; the second name is a slip of GRU-1's schema.
_IS_BACKWARD = {
    "forward": (False,),
    "foward": (False,),
    "reverse": (True,),
    "bidirectional": (False, True),
}
# By ONNX's name, that of DirectML and the numbers where none are given: alpha, then beta.
_ACTIVATIONS: dict[str, tuple[str, tuple[float, ...]]] = {
    "affine": ("LINEAR", (1.0, 0.0)),
    "elu": ("ELU", (1.0,)),
    "hardsigmoid": ("HARD_SIGMOID", (0.2, 0.5)),
    "leakyrelu": ("LEAKY_RELU", (0.01,)),
    "relu": ("RELU", ()),
    "scaledtanh": ("SCALED_TANH", (1.0, 1.0)),
    "sigmoid": ("SIGMOID", ()),
    "softplus": ("SOFTPLUS", ()),
    "softsign": ("SOFTSIGN", ()),
    "tanh": ("TANH", ()),
    "thresholdedrelu": ("THRESHOLDED_RELU", (1.0,)),
}

Function = Callable[[jax.Array], jax.Array]
States = tuple[jax.Array, ...]
# What drives a step, the states before it, and the weights of a direction, to the states after it.
Cell = Callable[[jax.Array, States, "_Weights", Sequence[Function]], States]


@dataclass(frozen=True)
class _Kind:
    """One of the three layers.

    Args:
      gates: how many there are.
      activations: where a node names none.
      cell: computes a step; the first of its states is the output.
    """

    gates: int
    activations: tuple[str, ...]
    cell: Cell


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Weights:
    """Of the steps of one direction: recurrence, [gates * H, H], its bias where that is not added before, peepholes."""

    recurrence: jax.Array
    bias: jax.Array | None = None
    peepholes: jax.Array | None = None


def _rnn_step(driven: jax.Array, states: States, weights: _Weights, functions: Sequence[Function]) -> States:
    (h,), (f,) = states, functions
    return (f(driven + _product(h, weights.recurrence)),)


def _gru_step(driven: jax.Array, states: States, weights: _Weights, functions: Sequence[Function]) -> States:
    (h,), (f, g) = states, functions
    units = h.shape[-1]
    gates = f(driven[:, : 2 * units] + _product(h, weights.recurrence[: 2 * units]))
    update, reset = gates[:, :units], gates[:, units:]
    return (_updated(g(driven[:, 2 * units :] + _product(reset * h, weights.recurrence[2 * units :])), h, update),)


def _gru_step_linear_before_reset(
    driven: jax.Array, states: States, weights: _Weights, functions: Sequence[Function]
) -> States:
    (h,), (f, g) = states, functions
    units, recurrent = h.shape[-1], _product(h, weights.recurrence)
    gates = f(driven[:, : 2 * units] + recurrent[:, : 2 * units])
    update, reset = gates[:, :units], gates[:, units:]
    hidden = recurrent[:, 2 * units :]
    hidden = hidden if weights.bias is None else hidden + weights.bias
    return (_updated(g(driven[:, 2 * units :] + reset * hidden), h, update),)


def _updated(new: jax.Array, old: jax.Array, update: jax.Array) -> jax.Array:
    return (1 - update) * new + update * old


def _lstm_step(driven: jax.Array, states: States, weights: _Weights, functions: Sequence[Function]) -> States:
    return _long_short(driven, states, weights, functions, couples=False)


def _lstm_step_of_coupled_gates(
    driven: jax.Array, states: States, weights: _Weights, functions: Sequence[Function]
) -> States:
    return _long_short(driven, states, weights, functions, couples=True)


def _long_short(
    driven: jax.Array, states: States, weights: _Weights, functions: Sequence[Function], *, couples: bool
) -> States:
    """`couples`: what the input gate lets in is forgotten."""
    (h, c), (f, g, last) = states, functions
    i, o, forget, new = jnp.split(driven + _product(h, weights.recurrence), 4, axis=-1)
    peeps = [0.0, 0.0, 0.0] if weights.peepholes is None else jnp.split(weights.peepholes, 3, axis=-1)
    i = f(i + peeps[0] * c)
    kept = 1 - i if couples else f(forget + peeps[2] * c)
    c = kept * c + i * g(new)
    return f(o + peeps[1] * c) * last(c), c


RNN = _Kind(1, ("Tanh",), _rnn_step)
GRUS = tuple(_Kind(3, ("Sigmoid", "Tanh"), cell) for cell in (_gru_step, _gru_step_linear_before_reset))
LSTMS = tuple(_Kind(4, ("Sigmoid", "Tanh", "Tanh"), cell) for cell in (_lstm_step, _lstm_step_of_coupled_gates))


def rnn(*, initial_h: Array | None = None, **given: Any) -> tuple[jax.Array, ...]:
    return _run(RNN, {"initial_h": initial_h}, **given)


def gru(*, initial_h: Array | None = None, linear_before_reset: int = 0, **given: Any) -> tuple[jax.Array, ...]:
    """With `linear_before_reset` the gate is applied to the product of the state, else to the state."""
    is_before = bool(linear_before_reset)
    return _run(GRUS[is_before], {"initial_h": initial_h}, keeps_bias=is_before, **given)


def lstm(
    *,
    initial_h: Array | None = None,
    initial_c: Array | None = None,
    p: Array | None = None,
    input_forget: int = 0,
    **given: Any,
) -> tuple[jax.Array, ...]:
    """With `input_forget` the input gate decides alone: what it does not let in is kept."""
    first = {"initial_h": initial_h, "initial_c": initial_c}
    return _run(LSTMS[bool(input_forget)], first, p=p, **given)


def _run(
    kind: _Kind,
    first: dict[str, Array | None],
    *,
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    sequence_lens: Array | None = None,
    p: Array | None = None,
    keeps_bias: bool = False,
    activations: Sequence[bytes] | None = None,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    output_sequence: int = 0,
    count: int = 1,
) -> tuple[jax.Array, ...]:
    """The states of all steps, then the last of each kind, whatever `output_sequence` and `count` ask for.

    Args:
      keeps_bias: whether the cell adds the bias of the recurrence of the last gate.
    """
    if direction not in _IS_BACKWARD:
        raise ConstraintError(f"direction must be forward, reverse or bidirectional, but it is {direction!r}")
    ways = _IS_BACKWARD[direction]
    given = {"x": x, "w": w, "r": r, "b": b, "sequence_lens": sequence_lens, "p": p, **first}
    _check_sizes(given, kind.gates, len(ways), hidden_size, batch_first=bool(layout))
    names = _names(activations, kind.activations, len(ways))
    functions = _functions(names, activation_alpha, activation_beta)
    per_way = len(kind.activations)  # of which those of gates are clipped, as ONNX Runtime does
    functions = [_clipped(one, clip) if n % per_way < 2 else one for n, one in enumerate(functions)]
    wide, units = wide_type(x.dtype), r.shape[-1]
    x_, w_, r_ = (on_device(value).astype(wide) for value in (x, w, r))
    b_, p_, *first_ = (None if one is None else on_device(one).astype(wide) for one in (b, p, *first.values()))
    if layout:
        x_ = jnp.swapaxes(x_, 0, 1)
        first_ = [None if one is None else jnp.swapaxes(one, 0, 1) for one in first_]
    steps, batch = x_.shape[:2]
    is_step = None
    if sequence_lens is not None:
        is_step = jnp.arange(steps, dtype=np.int32)[:, None, None] < on_device(sequence_lens)[None, :, None]
        x_ = jnp.where(is_step, x_, 0)  # what lies behind the end is not read, not even by a derivative
    sequences, lasts = [], []
    for d, is_backward in enumerate(ways):
        driven, kept = _product(x_, w_[d]), None
        if b_ is not None:
            of_input, of_recurrence = jnp.split(b_[d], 2)
            if keeps_bias:
                kept, of_recurrence = of_recurrence[2 * units :], of_recurrence.at[2 * units :].set(0)
            driven = driven + (of_input + of_recurrence)[None, None]
        weights = _Weights(r_[d], None if kept is None else kept[None], None if p_ is None else p_[d][None])
        states = tuple(jnp.zeros((batch, units), wide) if one is None else one[d] for one in first_)
        own = functions[d * per_way : (d + 1) * per_way]
        sequence, last = _scan(kind.cell, driven, states, weights, own, is_step, is_backward)
        sequences.append(sequence)
        lasts.append(last)
    every = jnp.stack(sequences, 1).astype(x.dtype)
    single = [jnp.stack(states).astype(x.dtype) for states in zip(*lasts, strict=True)]
    if layout:
        every, single = jnp.moveaxis(every, 2, 0), [jnp.swapaxes(one, 0, 1) for one in single]
    return (every, *single)


def _scan(
    cell: Cell,
    driven: jax.Array,
    first: States,
    weights: _Weights,
    functions: Sequence[Function],
    is_step: jax.Array | None,
    is_backward: bool,
) -> tuple[jax.Array, States]:
    """The output of all steps, 0 behind the end of a row of the batch, and the last states that it came to."""
    driven, first, weights, is_step = varying_alike(driven, first, weights, is_step)

    def step(before: States, given: tuple[jax.Array, jax.Array | None]) -> tuple[States, jax.Array]:
        now, is_one = given
        states = cell(now, before, weights, functions)
        if is_one is None:
            return states, states[0]
        kept = tuple(jnp.where(is_one, new, old) for new, old in zip(states, before, strict=True))
        return kept, jnp.where(is_one, states[0], 0)

    last, outputs = lax.scan(step, first, (driven, is_step), reverse=is_backward)
    return outputs, last


def _product(x: jax.Array, matrix: jax.Array) -> jax.Array:
    return jnp.matmul(x, matrix.T, precision=lax.Precision.HIGHEST)


# Attributes and sizes.


def _names(given: Sequence[bytes] | None, defaults: Sequence[str], directions: int) -> list[str]:
    names = [*defaults] * directions if given is None else [name.decode() for name in given]
    if names == ["Tanh", "Tanh"] and len(defaults) == 1:  # what the schema of RNN has for any direction
        names = names[:directions]
    if len(names) != len(defaults) * directions:
        rule = f"there must be {len(defaults)} activations per direction, {len(defaults) * directions}"
        raise ConstraintError(f"{rule}, but they are {', '.join(names) or 'none'}")
    return names


def _functions(names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]) -> list[Function]:
    """Those that have an alpha take the next one, and so for beta."""
    left, functions = [[*alphas], [*betas]], []
    for name in names:
        if name.lower() not in _ACTIVATIONS:
            rule = f"activations must be among {', '.join(_ACTIVATIONS)}"
            raise ConstraintError(f"{rule}, in upper or lower case, but there is {name!r}")
        operator, defaults = _ACTIVATIONS[name.lower()]
        numbers = [one.pop(0) if one else default for one, default in zip(left, defaults, strict=False)]
        functions.append(Activation(f"ACTIVATION_{operator}", tuple(map(float, numbers))))
    return functions


def _clipped(function: Function, clip: float | None) -> Function:
    if clip is None:
        return function
    if not clip > 0:
        raise ConstraintError(f"clip must be positive, but it is {clip}")
    return lambda x: function(jnp.clip(x, -clip, clip))


def _check_sizes(
    given: dict[str, Array | None], gates: int, directions: int, hidden_size: int | None, *, batch_first: bool
) -> None:
    x, r = given["x"], given["r"]
    assert x is not None
    assert r is not None
    if x.ndim != 3 or r.ndim != 3:
        raise ConstraintError(f"x and r must have 3 dimensions, but their shapes are {x.shape} and {r.shape}")
    batch, inputs = x.shape[0 if batch_first else 1], x.shape[2]
    units = r.shape[-1] if hidden_size is None else hidden_size
    state = (batch, directions, units) if batch_first else (directions, batch, units)
    wanted = {
        "w": (directions, gates * units, inputs),
        "r": (directions, gates * units, units),
        "b": (directions, 2 * gates * units),
        "sequence_lens": (batch,),
        "p": (directions, 3 * units),
        "initial_h": state,
        "initial_c": state,
    }
    for name, shape in wanted.items():
        value = given.get(name)
        if value is not None and value.shape != shape:
            counts = f"{directions} directions, {units} hidden units, a batch of {batch} and {inputs} inputs"
            raise ConstraintError(f"{name} must be of {shape}, for {counts}, but it is of {value.shape}")


OPERATORS: Operators = {"GRU": {1: gru}, "LSTM": {1: lstm}, "RNN": {1: rnn}}
