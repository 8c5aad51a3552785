"""RNN: a recurrent network of one layer, in one direction or in both."""

from __future__ import annotations

from typing import Any, Literal

import jax

from ..core.arguments.kinds import Data, Indices, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import Operands, Rule, custom, floats, if_given, integer_indices, one_of, representable, same_dtype
from ..core.sharding import Dims
from ..core.structs.activation import Activation
from ..core.structs.activation_fusion import Fusions, supported_activation
from ..core.structs.feature_level import NEWEST
from ._recurrent_layers import RNN, recurrent_layer
from ._recurrent_rules import (
    BACKWARD,
    Counts,
    OneStateDesc,
    RecurrentNetworkDirection,
    compute_layer,
    per_direction,
    sizes_of,
    sizes_rule,
    struct_rules,
)

__all__ = ["RecurrentNetworkDirection", "RnnDesc", "rnn"]


def _of_rank_3(name: str) -> Rule:
    def broken_by(x: Operands) -> str | None:
        rank = len(x[name].shape)
        return None if rank == 3 else f"it is {rank}"

    return custom(f"rank({name}, 3)", f"{{{name}}}.{{rank}} must be 3, ({sizes_of(1)[name][0]})", broken_by)


def _made(x: Operands) -> tuple[Any, ...] | None:
    counts = Counts.of(x)
    return counts and sizes_of(1)["output_sequence"][1](counts)


RULES = (
    one_of("direction", tuple(BACKWARD)),
    floats("input"),
    *(same_dtype(name, "input") for name in ("weight", "recurrence")),
    *(if_given(name, same_dtype(name, "input")) for name in ("bias", "hidden_init")),
    if_given("sequence_lengths", integer_indices("sequence_lengths")),
    _of_rank_3("input"),
    _of_rank_3("recurrence"),
    *map(sizes_rule, ("weight", "recurrence", "bias", "hidden_init", "sequence_lengths")),
    per_direction("activations"),
    supported_activation("activations", "RNN", NEWEST),
    representable("input", _made),
)


def _dims(x: Operands) -> Dims:
    """The batch keeps its sharding, because its rows do not depend on each other."""
    operands = {
        "input": ["step", "batch", "input"],
        "weight": ["direction", "hidden", "input"],
        "recurrence": ["direction", "hidden", "added up"],
        "bias": ["direction", "hidden twice"],
        "hidden_init": ["direction", "batch", "hidden"],
        "sequence_lengths": ["batch"],
    }
    present = {name: names for name, names in operands.items() if x[name] is not None}
    return Dims(present, ["output step", "output direction", "batch", "output hidden"])


@operator(*RULES, dims=_dims)
def rnn(
    input: Data,
    weight: Data,
    recurrence: Data,
    bias: Data | None = None,
    hidden_init: Data | None = None,
    sequence_lengths: Indices | None = None,
    *,
    direction: Literal["forward", "backward", "bidirectional"] = "forward",
    activations: Fusions | None = None,
    out_sharding: OutSharding = None,
) -> tuple[jax.Array, jax.Array]:
    """Runs a recurrent network of one layer over the steps of `input`: h = f(x @ weight.T + h @ recurrence.T + bias).

    sequence[t, d, b] = f_d(input[t, b] @ weight[d].T + h @ recurrence[d].T + bias[d, :H] + bias[d, H:]), with h the one
    of the step before: sequence[t - 1, d, b], backward sequence[t + 1, d, b], at first hidden_init[d, b].

    States are kept in float32 between the steps where floats have 8 or 16 bits; outputs are rounded once. Products are
    as exact as the type: no TF32 on GPUs, no bfloat16 on TPUs.

    Args:
      input: [S, B, I]: steps, batch, inputs; floats of any width.
      weight: [D, H, I], with H hidden units, and D 2 if `direction` is "bidirectional" and 1 otherwise; the dtype of
        `input`.
      recurrence: [D, H, H], the dtype of `input`.
      bias: [D, 2 * H]: that of `weight`, then that of `recurrence`, which are added up; or None, 0.
      hidden_init: [D, B, H], the dtype of `input`; or None, 0.
      sequence_lengths: [B], integers or a list of them: how many steps each row of the batch has, of those of `input`;
        a number out of [0, S] counts as the nearest one. None if all have S. Later steps are not read, and are 0 in
        `sequence`.
      direction: whether it runs "forward", "backward" from the last step of a row to the first, or "bidirectional",
        both beside each other.
      activations: an `Activation` per direction, those that DirectML's RNN can be fused with; or None, tanh.
      out_sharding: of each output on a mesh, a NamedSharding or PartitionSpec of four dimensions; by default it follows
        from the operands. Where anything but the batch is sharded it must be given.

    Returns:
      sequence, [S, D, B, H], the states of all steps, each at its step; and single, [1, D, B, H], the last one that
      each direction came to, which for a row of no steps is that of `hidden_init`. Both have the dtype of `input`.

    Raises:
      ConstraintError: sizes that do not fit each other, not an activation per direction, or one for other operators.
      DataTypeError: `input` has no floats, another operand has others, `sequence_lengths` has no integers, an
        activation is no `Activation`, or 64-bit floats while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x, one = np.float32([[[1]], [[2]], [[3]]]), np.ones((1, 1, 1), np.float32)
      >>> add = [dml_jax.Activation("ACTIVATION_IDENTITY")]
      >>> sequence, single = dml_jax.rnn(x, one, one * 10, activations=add)
      >>> print(sequence.ravel(), single.ravel())
      [  1.  12. 123.] [123.]
      >>> sequence, single = dml_jax.rnn(x, one, one * 10, direction="backward", activations=add)
      >>> print(sequence.ravel(), single.ravel())
      [321.  32.   3.] [321.]

    Source: DML_RNN_OPERATOR_DESC, which says neither what OutputSequence holds after the end of a sequence, nor where
      the backward direction begins then; both are here as in ONNX.
    """
    is_backward = BACKWARD[direction]
    sequence, single = recurrent_layer(
        RNN,
        input,
        weight,
        recurrence,
        bias,
        hidden_init,
        sequence_lengths=sequence_lengths,
        activations=(Activation("ACTIVATION_TANH"),) * len(is_backward) if activations is None else activations,
        is_backward=is_backward,
    )
    return sequence, single[None]


# The struct.


class RnnDesc(OneStateDesc):
    """DML_RNN_OPERATOR_DESC: runs a recurrent network of one layer over the steps of `input`.

    Args:
      weight: (1, D, H, I), with H hidden units and D directions.
      recurrence: (1, D, H, H).
      bias: (1, 1, D, 2 * H): that of `weight`, then that of `recurrence`; or None, 0.
      activation_descs: an `Activation` per direction.

    Example:
      >>> steps, one, states = (TensorDesc("FLOAT32", sizes) for sizes in ((1, 3, 1, 1), (1, 1, 1, 1), (3, 1, 1, 1)))
      >>> add = [Activation("ACTIVATION_IDENTITY")]
      >>> desc = RnnDesc(steps, one, one, None, None, None, states, None, add, "FORWARD")
      >>> x, weight = np.float32([1, 2, 3]).reshape(1, 3, 1, 1), np.float32([[[[1]]]])
      >>> print(desc.compute(x, weight, weight * 10).ravel())
      [  1.  12. 123.]
    """

    constraints = struct_rules(RNN)

    def compute_checked(self, **arrays: jax.Array | None) -> Any:
        return compute_layer(self, RNN, arrays)
