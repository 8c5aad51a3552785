"""ONNX's RNN, GRU and LSTM: reads their attributes and calls `operators/_recurrent_layers.py`."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..core.structs.activation import Activation
from ..errors import ConstraintError
from ..operators._recurrent_layers import (
    GRU,
    GRU_LINEAR_BEFORE_RESET,
    LSTM,
    LSTM_COUPLED,
    RNN,
    Cell,
    Product,
    recurrent_layer,
)
from .values import Array, Operators, on_device

# Per direction, whether it runs from the last step to the first; "foward" is a slip of GRU-1's schema.
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
# Where a node names none, those of one direction, by how many there are.
_DEFAULTS = {1: ("Tanh",), 2: ("Sigmoid", "Tanh"), 3: ("Sigmoid", "Tanh", "Tanh")}


def rnn(**given: Any) -> tuple[jax.Array, ...]:
    return recurrent(RNN, **given)


def gru(*, linear_before_reset: int = 0, **given: Any) -> tuple[jax.Array, ...]:
    """GRU; `linear_before_reset` applies the reset gate after the state's matrix product, else before."""
    return recurrent(GRU_LINEAR_BEFORE_RESET if linear_before_reset else GRU, **given)


def lstm(*, input_forget: int = 0, **given: Any) -> tuple[jax.Array, ...]:
    """LSTM; `input_forget` couples the gates: forget = 1 - input."""
    return recurrent(LSTM_COUPLED if input_forget else LSTM, **given)


def recurrent(
    cell: Cell,
    *,
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    sequence_lens: Array | None = None,
    initial_h: Array | None = None,
    initial_c: Array | None = None,
    p: Array | None = None,
    activations: Sequence[bytes] | None = None,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    output_sequence: int = 0,
    count: int = 1,
    product: Product | None = None,
    **of_weights: Array,
) -> tuple[jax.Array, ...]:
    """Returns the states of all steps, then each final state, whatever `output_sequence` and `count` ask for.

    With a `product` the weights are in columns, and each has a scale and a zero point.
    """
    if direction not in _IS_BACKWARD:
        raise ConstraintError(f"direction must be forward, reverse or bidirectional, but it is {direction!r}")
    if clip is not None and not clip > 0:
        raise ConstraintError(f"clip must be positive, but it is {clip}")
    is_backward = _IS_BACKWARD[direction]
    given = {"x": x, "w": w, "r": r, "b": b, "initial_h": initial_h, "initial_c": initial_c}
    given |= {"sequence_lens": sequence_lens, "p": p}
    in_columns = product is not None
    _check_sizes(given, cell.gates, len(is_backward), hidden_size, batch_first=bool(layout), in_columns=in_columns)
    names = _names(activations, _DEFAULTS[cell.activations], len(is_backward))
    arrays = {name: None if value is None else on_device(value) for name, value in given.items()}
    if layout:
        batch_first = {name: arrays[name] for name in ("x", "initial_h", "initial_c")}
        arrays |= {name: None if value is None else jnp.swapaxes(value, 0, 1) for name, value in batch_first.items()}
    if in_columns:
        arrays |= {name: _quantized_rows(name, weights, **of_weights) for name, weights in (("w", w), ("r", r))}
    every, *lasts = recurrent_layer(
        cell,
        *arrays.values(),
        activations=_functions(names, activation_alpha, activation_beta),
        is_backward=is_backward,
        clip=clip,
        product=product,
    )
    return (jnp.moveaxis(every, 2, 0), *(jnp.swapaxes(last, 0, 1) for last in lasts)) if layout else (every, *lasts)


def _quantized_rows(name: str, weights: Array, **parameters: Array) -> tuple[Array, ...]:
    """Returns weights in rows with scales and zero points, one per direction or one per row."""
    directions, _, count = weights.shape
    arrays = [weights.swapaxes(1, 2)]
    for kind in (f"{name}_scale", f"{name}_zero_point"):
        shape = parameters[kind].shape
        if shape not in ((directions,), (directions, count)):
            raise ConstraintError(f"{kind} must be of {(directions,)} or {(directions, count)}, but it is of {shape}")
        arrays.append(jnp.broadcast_to(on_device(parameters[kind]).reshape(directions, -1, 1), (directions, count, 1)))
    return tuple(arrays)


# Attributes and sizes.


def _names(given: Sequence[bytes] | None, defaults: Sequence[str], directions: int) -> list[str]:
    names = [*defaults] * directions if given is None else [name.decode() for name in given]
    if names == ["Tanh", "Tanh"] and len(defaults) == 1:  # what the schema of RNN has for any direction
        names = names[:directions]
    if len(names) != len(defaults) * directions:
        rule = f"there must be {len(defaults)} activations per direction, {len(defaults) * directions}"
        raise ConstraintError(f"{rule}, but they are {', '.join(names) or 'none'}")
    return names


def _functions(names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]) -> list[Activation]:
    """Reads the activations; those with an alpha take the next entry of the list, and so for beta."""
    left, functions = [[*alphas], [*betas]], []
    for name in names:
        if name.lower() not in _ACTIVATIONS:
            rule = f"activations must be among {', '.join(_ACTIVATIONS)}"
            raise ConstraintError(f"{rule}, in upper or lower case, but there is {name!r}")
        operator, defaults = _ACTIVATIONS[name.lower()]
        numbers = [given.pop(0) if given else default for given, default in zip(left, defaults, strict=False)]
        functions.append(Activation(f"ACTIVATION_{operator}", tuple(map(float, numbers))))
    return functions


def _check_sizes(
    given: dict[str, Array | None],
    gates: int,
    directions: int,
    hidden_size: int | None,
    *,
    batch_first: bool,
    in_columns: bool,
) -> None:
    x, r = given["x"], given["r"]
    assert x is not None
    assert r is not None
    if x.ndim != 3 or r.ndim != 3:
        raise ConstraintError(f"x and r must have 3 dimensions, but their shapes are {x.shape} and {r.shape}")
    batch, inputs = x.shape[0 if batch_first else 1], x.shape[2]
    units = r.shape[1 if in_columns else 2] if hidden_size is None else hidden_size
    state = (batch, directions, units) if batch_first else (directions, batch, units)
    weights = {"w": (directions, gates * units, inputs), "r": (directions, gates * units, units)}
    wanted = {
        **{name: (d, n, m) if in_columns else (d, m, n) for name, (d, m, n) in weights.items()},
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
