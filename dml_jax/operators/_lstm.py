"""LSTM: a layer of long short-term memory, in one direction or in both."""

from __future__ import annotations

from typing import Any

import jax

from ..core.rules import Operands, custom
from ..core.structs.activation_fusion import FusedEach
from ..core.structs.fields import Bool, Float, Input, OptionalInput, OptionalOutput
from ..core.structs.operator_desc import OperatorDesc
from ._recurrent_layers import LSTM, LSTM_COUPLED
from ._recurrent_rules import LEVELS, FieldDirection, InitialState, SequenceLengths, Steps, compute_layer, struct_rules

__all__ = ["LstmDesc"]


def _non_positive_clip(x: Operands) -> str | None:
    return f"it is {x['clip_threshold']}" if x["use_clip_threshold"] and not x["clip_threshold"] > 0 else None


class LstmDesc(OperatorDesc[Any]):
    """DML_LSTM_OPERATOR_DESC: runs a layer of long short-term memory over the steps of `input`.

    The gates i, o and forget, and the new cell, are sums over the inputs of the step, x, and over the state of the step
    before it, h. With the activations f, g and of_cell::

        i = f(x @ W_i.T + h @ R_i.T + P_i * c + biases)
        forget = f(x @ W_f.T + h @ R_f.T + P_f * c + biases), or 1 - i with couple_input_forget
        c = forget * c + i * g(x @ W_c.T + h @ R_c.T + biases)
        o = f(x @ W_o.T + h @ R_o.T + P_o * c + biases), with the new c
        h = o * of_cell(c)

    Args:
      weight: (1, D, 4 * H, I), with H hidden units and D directions: the rows of i, o, forget and c.
      recurrence: (1, D, 4 * H, H), in the same order.
      bias: (1, 1, D, 8 * H): those of `weight`, then those of `recurrence`; or None, 0.
      cell_mem_init: (1, D, B, H), or None, 0.
      peephole: (1, 1, D, 3 * H): P_i, P_o and P_f; or None, 0.
      output_sequence: (S, D, B, H), h of all steps; or None.
      output_single: (1, D, B, H), the last h that each direction came to; or None.
      output_cell_single: (1, D, B, H), the last c that each direction came to; or None.
      activation_descs: of each direction an `Activation` for f, one for g, and one for of_cell.
      clip_threshold: the operands of f and g are first bounded to [-clip_threshold, clip_threshold].
      use_clip_threshold: whether it is.
      couple_input_forget: whether forget is 1 - i.

    Example:
      >>> steps, weight, bias = (TensorDesc("FLOAT32", sizes) for sizes in ((1, 3, 1, 1), (1, 1, 4, 1), (1, 1, 1, 8)))
      >>> identity, absent = Activation("ACTIVATION_IDENTITY"), (None,) * 4
      >>> tensors = (steps, weight, weight, bias, *absent, TensorDesc("FLOAT32", (3, 1, 1, 1)), None, None)
      >>> desc = LstmDesc(*tensors, [identity] * 3, "FORWARD", 0, False, False)
      >>> x, only_c = np.float32([1, 2, 3]).reshape(1, 3, 1, 1), np.float32([0, 0, 0, 1]).reshape(1, 1, 4, 1)
      >>> ones = np.float32([1, 1, 1, 0, 0, 0, 0, 0]).reshape(1, 1, 1, 8)
      >>> print(desc.compute(x, only_c, 0 * only_c, ones).ravel())
      [1. 3. 6.]

    Source: DML_LSTM_OPERATOR_DESC. That P_o is multiplied by the new c is ONNX's rule.
    """

    input: Steps
    weight: Input
    recurrence: Input
    bias: OptionalInput
    hidden_init: InitialState
    cell_mem_init: OptionalInput
    sequence_lengths: SequenceLengths
    peephole: OptionalInput
    output_sequence: OptionalOutput
    output_single: OptionalOutput
    output_cell_single: OptionalOutput
    activation_descs: FusedEach
    direction: FieldDirection
    clip_threshold: Float
    use_clip_threshold: Bool
    couple_input_forget: Bool

    in_jax = "jax.lax.scan"
    support = LEVELS
    constraints = (
        *struct_rules(LSTM),
        custom(
            "positive(clip_threshold)", "{clip_threshold} must be positive if {use_clip_threshold}", _non_positive_clip
        ),
    )

    def compute_checked(self, **arrays: jax.Array | None) -> Any:
        cell = LSTM_COUPLED if self.couple_input_forget else LSTM
        return compute_layer(self, cell, arrays, self.clip_threshold if self.use_clip_threshold else None)
