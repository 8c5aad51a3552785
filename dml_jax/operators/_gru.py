"""GRU: a layer of gated recurrent units, in one direction or in both."""

from __future__ import annotations

from typing import Any

import jax

from ..core.structs.fields import Bool
from ._recurrent_layers import GRU, GRU_LINEAR_BEFORE_RESET
from ._recurrent_rules import OneStateDesc, compute_layer, struct_rules

__all__ = ["GruDesc"]


class GruDesc(OneStateDesc):
    """DML_GRU_OPERATOR_DESC: runs a layer of gated recurrent units over the steps of `input`.

    The update gate z, the reset gate r and the new state are sums over the inputs of the step, x, and over the state of
    the step before it, h. With the activations f and g::

        z = f(x @ W_z.T + h @ R_z.T + biases)
        r = f(x @ W_r.T + h @ R_r.T + biases)
        new = g(x @ W_h.T + (r * h) @ R_h.T + biases)
        h = (1 - z) * new + z * h

    With `linear_before_reset`, new is g(x @ W_h.T + the bias of W_h + r * (h @ R_h.T + the bias of R_h)).

    Args:
      weight: (1, D, 3 * H, I), with H hidden units and D directions: the rows of z, r and h.
      recurrence: (1, D, 3 * H, H), in the same order.
      bias: (1, 1, D, 6 * H): those of `weight`, then those of `recurrence`; or None, 0.
      activation_descs: of each direction an `Activation` for f, and one for g.
      linear_before_reset: whether the reset gate multiplies the state's product with its weights, not the state.

    Example:
      >>> steps, weight, states = (TensorDesc("FLOAT32", sizes) for sizes in ((1, 3, 1, 1), (1, 1, 3, 1), (3, 1, 1, 1)))
      >>> both = [Activation("ACTIVATION_SIGMOID"), Activation("ACTIVATION_IDENTITY")]
      >>> desc = GruDesc(steps, weight, weight, None, None, None, states, None, both, "FORWARD", False)
      >>> x, only_h = np.float32([8, 8, 8]).reshape(1, 3, 1, 1), np.float32([0, 0, 1]).reshape(1, 1, 3, 1)
      >>> print(desc.compute(x, only_h, 0 * only_h).ravel())
      [4. 6. 7.]
    """

    linear_before_reset: Bool

    in_jax = "jax.lax.scan"
    constraints = struct_rules(GRU)

    def compute_checked(self, **arrays: jax.Array | None) -> Any:
        return compute_layer(self, GRU_LINEAR_BEFORE_RESET if self.linear_before_reset else GRU, arrays)
