"""Recurrent layers, RNN, GRU and LSTM: one matrix product of all inputs, then a scan over the steps.

The gates of all units lie beside each other, [..., gates * H]: those of GRU in the order z, r, h (update, reset, new
state), those of LSTM in the order i, o, f, c (input, output, forget, new cell). Floats of 8 and 16 bits are computed in
float32, the states between the steps too, and outputs are rounded once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.structs.activation_table import in_type_of
from ..operations.programs.mesh_types import varying_alike
from ..operations.values.accumulation_types import narrow_apart, wide_type
from ..operations.values.wide_products import wide_product

Function = Callable[[jax.Array], jax.Array]
Gates = Sequence[jax.Array]
States = tuple[jax.Array, ...]
# Multiplies by the transpose of a matrix whose rows belong to a number of gates; returns an array for each of them.
Product = Callable[[jax.Array, Any, int], Gates]
# Takes the sums over the inputs, the states before the step, the weights and the activations; returns the states after
# it, the first of which is the output. The gates share no sum: of one XLA:CPU makes a function that reads the number of
# the step from memory for each element, and LLVM finds no vectors.
Step = Callable[[Gates, States, "_Weights", Sequence[Function]], States]


@dataclass(frozen=True)
class Cell:
    """The arithmetic of one step.

    Args:
      gates: number of gates.
      activations: number of activation functions per direction; `clip` applies to the inputs of the first two only,
        as in ONNX Runtime.
      states: number of carried states (1: h; 2: h, c).
      step: computes the states.
    """

    gates: int
    activations: int
    states: int
    step: Step


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Weights:
    """The weights of one direction that every step needs.

    Args:
      recurrence: [gates * H, H]; or a tree of arrays that `product` takes as a matrix, each of as many rows.
      bias: that of the recurrence, [1, gates * H].
      peepholes: [1, 3 * H].
      product: multiplies by the recurrence.
    """

    recurrence: Any
    bias: jax.Array | None
    peepholes: jax.Array | None
    product: Product = field(metadata={"static": True})

    def recurrent(self, h: jax.Array, first: int, stop: int) -> Gates:
        """The products of a state and the recurrence, with its bias, for the gates from `first` to `stop`."""
        size = h.shape[-1]
        rows = jax.tree.map(lambda array: array[first * size : stop * size], self.recurrence)
        products, bias = self.product(h, rows, stop - first), self.bias
        if bias is None:
            return products
        return [y + bias[:, gate * size : (gate + 1) * size] for gate, y in enumerate(products, first)]

    def peephole(self, gate: int, c: jax.Array) -> jax.Array | int:
        return 0 if self.peepholes is None else jnp.split(self.peepholes, 3, axis=-1)[gate] * c


def _rnn_step(driven: Gates, states: States, weights: _Weights, functions: Sequence[Function]) -> States:
    (h,), (f,) = states, functions
    return (f(driven[0] + weights.recurrent(h, 0, 1)[0]),)


def _gru_step(driven: Gates, states: States, weights: _Weights, functions: Sequence[Function]) -> States:
    """The reset gate is applied to the state."""
    (h,), (f, g) = states, functions
    update, reset = map(f, _add(driven[:2], weights.recurrent(h, 0, 2)))
    new = g(driven[2] + weights.recurrent(reset * h, 2, 3)[0])
    return ((1 - update) * new + update * h,)


def _gru_step_linear_before_reset(
    driven: Gates, states: States, weights: _Weights, functions: Sequence[Function]
) -> States:
    """The reset gate is applied to the product of the state and the recurrence, with its bias."""
    (h,), (f, g) = states, functions
    *recurrent, of_new = weights.recurrent(h, 0, 3)
    update, reset = map(f, _add(driven[:2], recurrent))
    new = g(driven[2] + reset * of_new)
    return ((1 - update) * new + update * h,)


def _lstm_step(
    driven: Gates, states: States, weights: _Weights, functions: Sequence[Function], *, couples: bool
) -> States:
    """If `couples`, forget = 1 - input."""
    (h, c), (f, g, of_cell) = states, functions
    i, o, forget, new = _add(driven, weights.recurrent(h, 0, 4))
    i = f(i + weights.peephole(0, c))
    forget_gate = 1 - i if couples else f(forget + weights.peephole(2, c))
    c = forget_gate * c + i * g(new)
    return f(o + weights.peephole(1, c)) * of_cell(c), c


def _add(sums: Gates, others: Gates) -> Gates:
    return [x + y for x, y in zip(sums, others, strict=True)]


RNN = Cell(1, 1, 1, _rnn_step)
GRU, GRU_LINEAR_BEFORE_RESET = (Cell(3, 2, 1, step) for step in (_gru_step, _gru_step_linear_before_reset))
LSTM, LSTM_COUPLED = (Cell(4, 3, 2, partial(_lstm_step, couples=couples)) for couples in (False, True))


def recurrent_layer(
    cell: Cell,
    input: Any,
    weight: Any,
    recurrence: Any,
    bias: Any = None,
    hidden_init: Any = None,
    cell_mem_init: Any = None,
    sequence_lengths: Any = None,
    peephole: Any = None,
    *,
    activations: Sequence[Function],
    is_backward: Sequence[bool],
    clip: float | None = None,
    product: Product | None = None,
) -> tuple[jax.Array, ...]:
    """The output of all steps, [S, D, B, H], then the last of each state, [D, B, H], in the dtype of `input`.

    Args:
      cell: the kind of layer.
      input: [S, B, I]: steps, batch, inputs.
      weight: [D, gates * H, I].
      recurrence: [D, gates * H, H].
      bias: [D, 2 * gates * H]: that of `weight`, then that of `recurrence`; or None, 0.
      hidden_init: [D, B, H], or None, 0.
      cell_mem_init: [D, B, H], or None, 0; of cells with two states.
      sequence_lengths: [B], integers; None: every sequence has S steps. Inputs past a sequence's end are
        ignored, outputs there are 0.
      peephole: [D, 3 * H], by which the cell is multiplied for the gates i, o and f; or None, 0.
      activations: those of the first direction, then those of the second.
      is_backward: of each direction, whether it runs from the last step of a row to the first.
      clip: the bound of the operands of activations; None if there is none.
      product: multiplies by `weight` and `recurrence`, which may be pytrees whose leaves start with [D, gates * H];
        None multiplies float arrays.
    """
    dtype, wide = input.dtype, wide_type(input.dtype)
    steps, batch = input.shape[:2]
    of_states = (hidden_init, cell_mem_init)[: cell.states]
    input, bias, peephole, *of_states = (
        None if array is None else jnp.asarray(array, wide) for array in (input, bias, peephole, *of_states)
    )
    if product is None:
        weight, recurrence, product = jnp.asarray(weight, wide), jnp.asarray(recurrence, wide), _product
    is_step = None
    if sequence_lengths is not None:
        is_step = jnp.arange(steps, dtype=np.int32)[:, None, None] < _within(sequence_lengths, steps)[None, :, None]
        input = jnp.where(is_step, input, 0)  # not even a derivative reads steps past the end
    of_input, of_recurrence = (None, None) if bias is None else jnp.split(bias, 2, axis=-1)
    outputs, lasts = [], []
    for d, backward in enumerate(is_backward):
        to_gates, recurrent = jax.tree.map(lambda each, d=d: each[d], (weight, recurrence))
        driven = product(input, to_gates, cell.gates)
        if of_input is not None:
            driven = _add(driven, jnp.split(of_input[None, d : d + 1], cell.gates, axis=-1))
        others = (None if array is None else array[d : d + 1] for array in (of_recurrence, peephole))
        weights = _Weights(recurrent, *others, product=product)
        state_shape = (batch, driven[0].shape[-1])
        first = tuple(jnp.zeros(state_shape, wide) if state is None else state[d] for state in of_states)
        own = activations[d * cell.activations : (d + 1) * cell.activations]
        functions = [_clip_operand(function, clip) if n < 2 else function for n, function in enumerate(own)]
        output, last = _scan(cell.step, driven, first, weights, functions, is_step, backward)
        outputs.append(output)
        lasts.append(last)
    stacked = (jnp.stack(outputs, 1), *(jnp.stack(states) for states in zip(*lasts, strict=True)))
    return tuple(narrow_apart(array, dtype) for array in stacked)


def _within(lengths: Any, steps: Any) -> jax.Array:
    """Returns lengths as int32 in [0, steps]; narrower types might not hold the number of steps."""
    lengths = jnp.asarray(lengths)
    return jnp.clip(lengths if lengths.dtype.itemsize >= 4 else lengths.astype(np.int32), 0, steps).astype(np.int32)


def _product(x: jax.Array, matrix: jax.Array, gates: int) -> Gates:
    product = wide_product(partial(jnp.matmul, precision=lax.Precision.HIGHEST))(x, matrix.T)
    return jnp.split(product, gates, axis=-1)


def _clip_operand(function: Function, clip: float | None) -> Function:
    return function if clip is None else lambda x: function(lax.clamp(in_type_of(x, -clip), x, in_type_of(x, clip)))


def _scan(
    step: Step,
    driven: Gates,
    first: States,
    weights: _Weights,
    functions: Sequence[Function],
    is_step: jax.Array | None,
    is_backward: bool,
) -> tuple[jax.Array, States]:
    """All outputs, 0 past each sequence's length, and each sequence's states after its last step."""
    driven, first, weights, is_step = varying_alike(driven, first, weights, is_step)

    def body(before: States, given: tuple[Gates, jax.Array | None]) -> tuple[States, jax.Array]:
        now, is_inside = given
        states = step(now, before, weights, functions)
        if is_inside is None:
            return states, states[0]
        kept = tuple(jnp.where(is_inside, new, old) for new, old in zip(states, before, strict=True))
        return kept, jnp.where(is_inside, states[0], 0)

    last, outputs = lax.scan(body, first, (driven, is_step), reverse=is_backward)
    return outputs, last
