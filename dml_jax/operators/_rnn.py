"""RNN: a recurrent network of one layer, in one direction or in both."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.activation import Activation
from ..core.data_type import DataType
from ..core.desc import OperatorDesc, set_fields
from ..core.feature_level import NEWEST
from ..core.fields import Input, OptionalIndexInput, OptionalInput, OptionalOutput, named
from ..core.fusion import FusedEach, Fusions, supported_activation
from ..core.kinds import Data, Indices, OutSharding
from ..core.operator import operator
from ..core.rules import (
    Operands,
    Rule,
    custom,
    floats,
    if_given,
    integer_indices,
    one_of,
    representable,
    same_dtype,
    sizes_follow,
)
from ..core.sharding import Dims
from ..core.struct_rules import right_aligned
from ..core.support import FLOATS, RANK_4, Support
from ..core.tensor import TensorDesc
from ..lowering.primitive import varying_alike
from ..lowering.values.accumulation_types import narrow_apart, wide_type

__all__ = ["RecurrentNetworkDirection", "RnnDesc", "rnn"]


class RecurrentNetworkDirection(enum.IntEnum):
    """DML_RECURRENT_NETWORK_DIRECTION: from the first step on, from the last one back, or both beside each other."""

    FORWARD = 0
    BACKWARD = 1
    BIDIRECTIONAL = 2


FieldDirection = Annotated[
    RecurrentNetworkDirection, named(RecurrentNetworkDirection, "DML_RECURRENT_NETWORK_DIRECTION_")
]


@dataclass(frozen=True)
class _Counts:
    """What sizes are made of."""

    steps: Any
    batch: Any
    inputs: Any
    directions: int
    hidden: Any

    @classmethod
    def of(cls, x: Operands) -> _Counts | None:
        """Those of a function's operands, or of a struct's; None if there are none."""
        input, recurrence = tuple(x["input"].shape), tuple(x["recurrence"].shape)
        both = x["direction"] in ("bidirectional", RecurrentNetworkDirection.BIDIRECTIONAL)
        if min(len(input), len(recurrence)) < 3:
            return None
        steps, batch, inputs = input[-3:]
        return cls(steps, batch, inputs, 1 + both, recurrence[-1])


# By operand, its sizes in words and by the counts.
_SIZES: Mapping[str, tuple[str, Callable[[_Counts], tuple[Any, ...]]]] = {
    "input": ("S, B, I", lambda n: (n.steps, n.batch, n.inputs)),
    "weight": ("D, H, I", lambda n: (n.directions, n.hidden, n.inputs)),
    "recurrence": ("D, H, H", lambda n: (n.directions, n.hidden, n.hidden)),
    "bias": ("D, 2 * H", lambda n: (n.directions, 2 * n.hidden)),
    "hidden_init": ("D, B, H", lambda n: (n.directions, n.batch, n.hidden)),
    "sequence_lengths": ("B", lambda n: (n.batch,)),
    "output_sequence": ("S, D, B, H", lambda n: (n.steps, n.directions, n.batch, n.hidden)),
    "output_single": ("D, B, H", lambda n: (n.directions, n.batch, n.hidden)),
}
# Of each direction of the network, one or two.
_IS_BACKWARD = {"forward": (False,), "backward": (True,), "bidirectional": (False, True)}
_OPTIONAL = ("bias", "hidden_init", "sequence_lengths")
_OUTPUTS = ("output_sequence", "output_single")


def _rule_of(name: str, *, is_tensor: bool = False) -> Rule:
    """The rule of the sizes of an operand; a tensor of a struct has leading sizes of 1 before them."""
    letters, sizes = _SIZES[name]

    def law(x: Operands) -> tuple[Any, ...] | None:
        counts = _Counts.of(x)
        return counts and right_aligned(sizes(counts), len(x["input"].shape) if is_tensor else len(sizes(counts)))

    ones = "1, " * (4 - len(letters.split(", "))) if is_tensor else ""
    rule = sizes_follow(name, law, f"({ones}{letters})")
    return if_given(name, rule) if name in (*_OPTIONAL, *_OUTPUTS) else rule


def _of_rank_3(name: str) -> Rule:
    def broken_by(x: Operands) -> str | None:
        rank = len(x[name].shape)
        return None if rank == 3 else f"it is {rank}"

    return custom(f"rank({name}, 3)", f"{{{name}}}.{{rank}} must be 3, ({_SIZES[name][0]})", broken_by)


def _one_each(name: str) -> Rule:
    def broken_by(x: Operands) -> str | None:
        counts = _Counts.of(x)
        count, wanted = 0 if x[name] is None else len(x[name]), 0 if counts is None else counts.directions
        return None if x[name] is None or counts is None or count == wanted else f"there are {count} for {wanted}"

    return custom(f"one_per_direction({name})", f"{{{name}}} must have one entry per direction", broken_by)


def _made(x: Operands) -> tuple[Any, ...] | None:
    counts = _Counts.of(x)
    return counts and _SIZES["output_sequence"][1](counts)


RULES = (
    one_of("direction", tuple(_IS_BACKWARD)),
    floats("input"),
    *(same_dtype(name, "input") for name in ("weight", "recurrence")),
    *(if_given(name, same_dtype(name, "input")) for name in ("bias", "hidden_init")),
    if_given("sequence_lengths", integer_indices("sequence_lengths")),
    _of_rank_3("input"),
    _of_rank_3("recurrence"),
    *(_rule_of(name) for name in ("weight", "recurrence", *_OPTIONAL)),
    _one_each("activations"),
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
    given = {name: names for name, names in operands.items() if x[name] is not None}
    return Dims(given, ["output step", "output direction", "batch", "output hidden"])


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
      sequence_lengths: [B], integers: how many steps each row of the batch has, of those of `input`; a number out of
        [0, S] counts as the nearest one. None if all have S. What lies behind is not read, and 0 in `sequence`.
      direction: whether it runs "forward", "backward" from the last step of a row to the first, or "bidirectional",
        both beside each other.
      activations: an `Activation` per direction, those that DirectML's RNN can be fused with; or None, tanh.
      out_sharding: of each output on a mesh, a NamedSharding or PartitionSpec of four dimensions; by default it follows
        from the operands. Where anything but the batch is sharded it must be given.

    Returns:
      sequence, [S, D, B, H], the states of all steps, each at its step; and single, [1, D, B, H], the last one that
      each direction came to, which for a row of no steps is that of `hidden_init`. Of the dtype of `input`.

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

    Source: DML_RNN_OPERATOR_DESC, which says neither what OutputSequence holds behind the end of a sequence, nor where
      the backward direction begins then; both are here as in ONNX.
    """
    dtype, wide = input.dtype, wide_type(input.dtype)
    steps, batch = input.shape[:2]
    x, weight, recurrence = (jnp.asarray(one, wide) for one in (input, weight, recurrence))
    is_step = None
    if sequence_lengths is not None:
        is_step = jnp.arange(steps, dtype=np.int32)[:, None, None] < _within(sequence_lengths, steps)[None, :, None]
        x = jnp.where(is_step, x, 0)
    sequences, singles = [], []
    for d, is_backward in enumerate(_IS_BACKWARD[direction]):
        driven = _product(x, weight[d])
        if bias is not None:
            driven = driven + jnp.asarray(bias[d], wide).reshape(2, 1, 1, -1).sum(0)
        first = jnp.zeros((batch, weight.shape[1]), wide) if hidden_init is None else jnp.asarray(hidden_init[d], wide)
        activation = Activation("ACTIVATION_TANH") if activations is None else activations[d]
        sequence, single = _run(driven, recurrence[d], first, is_step, activation, is_backward)
        sequences.append(sequence)
        singles.append(single)
    return narrow_apart(jnp.stack(sequences, 1), dtype), narrow_apart(jnp.stack(singles)[None], dtype)


def _within(lengths: Any, steps: Any) -> jax.Array:
    """Returns lengths as int32 in [0, steps]; narrower types might not hold the number of steps."""
    lengths = jnp.asarray(lengths)
    return jnp.clip(lengths if lengths.dtype.itemsize >= 4 else lengths.astype(np.int32), 0, steps).astype(np.int32)


def _product(x: jax.Array, matrix: jax.Array) -> jax.Array:
    return jnp.matmul(x, matrix.T, precision=lax.Precision.HIGHEST)


def _run(
    driven: jax.Array,
    recurrence: jax.Array,
    first: jax.Array,
    is_step: jax.Array | None,
    activation: Activation,
    is_backward: bool,
) -> tuple[jax.Array, jax.Array]:
    """Returns the states of all steps, and the last state of each row of the batch."""

    def step(before: jax.Array, given: tuple[jax.Array, jax.Array | None]) -> tuple[jax.Array, jax.Array]:
        now, is_one = given
        state = activation(now + _product(before, recurrence))
        return (state, state) if is_one is None else (jnp.where(is_one, state, before), jnp.where(is_one, state, 0))

    driven, recurrence, first, is_step = varying_alike(driven, recurrence, first, is_step)
    last, states = lax.scan(step, first, (driven, is_step), reverse=is_backward)
    return states, last


# The struct.


def _no_output(x: Operands) -> str | None:
    return "there is none" if all(x[name] is None for name in _OUTPUTS) else None


def _owned(x: Operands) -> str | None:
    inputs = ("input", "weight", "recurrence", *_OPTIONAL)
    return "one is" if any(x[name] is not None and x[name].flags for name in inputs) else None


@dataclass(frozen=True, init=False)
class RnnDesc(OperatorDesc[Any]):
    """DML_RNN_OPERATOR_DESC: runs a recurrent network of one layer over the steps of `input`.

    Args:
      input: (1, S, B, I): steps, batch, inputs.
      weight: (1, D, H, I), with H hidden units and D directions.
      recurrence: (1, D, H, H).
      bias: (1, 1, D, 2 * H): that of `weight`, then that of `recurrence`; or None, 0.
      hidden_init: (1, D, B, H), or None, 0.
      sequence_lengths: (1, 1, 1, B) of UINT32: how many steps each row of the batch has; or None, all.
      output_sequence: (S, D, B, H), the states of all steps; or None.
      output_single: (1, D, B, H), the last state that each direction came to; or None. One output at least is given.
      activation_descs: an `Activation` per direction.
      direction: a `RecurrentNetworkDirection`, or its DirectML name in full or as suffix.

    Raises:
      ConstraintError: a rule of `RnnDesc.wordings()` is broken, or an unknown direction.
      DataTypeError: a data type that DirectML does not take here.

    Example:
      >>> import numpy as np
      >>> from dml_jax import Activation, RnnDesc, TensorDesc
      >>> steps, one, states = (TensorDesc("FLOAT32", sizes) for sizes in ((1, 3, 1, 1), (1, 1, 1, 1), (3, 1, 1, 1)))
      >>> add = [Activation("ACTIVATION_IDENTITY")]
      >>> desc = RnnDesc(steps, one, one, None, None, None, states, None, add, "FORWARD")
      >>> x, weight = np.float32([1, 2, 3]).reshape(1, 3, 1, 1), np.float32([[[[1]]]])
      >>> print(desc.compute(x, weight, weight * 10).ravel())
      [  1.  12. 123.]

    Source: DML_RNN_OPERATOR_DESC.
    """

    input: Input
    weight: Input
    recurrence: Input
    bias: OptionalInput
    hidden_init: OptionalInput
    sequence_lengths: OptionalIndexInput
    output_sequence: OptionalOutput
    output_single: OptionalOutput
    activation_descs: FusedEach
    direction: FieldDirection

    operator_type: ClassVar[str] = "RNN"
    moves_words: ClassVar[bool] = False
    support: ClassVar[tuple[Support, ...]] = (
        Support.of("1_0", RANK_4, input=FLOATS, sequence_lengths=(DataType.UINT32,)),
    )
    constraints: ClassVar[tuple[Rule, ...]] = (
        custom("unowned(inputs)", "no input may be OWNED_BY_DML", _owned),
        *(_rule_of(name, is_tensor=True) for name in _SIZES),
        _one_each("activation_descs"),
        custom("some(outputs)", "{output_sequence} or {output_single} must be given", _no_output),
    )

    def __init__(
        self,
        input: TensorDesc,
        weight: TensorDesc,
        recurrence: TensorDesc,
        bias: TensorDesc | None,
        hidden_init: TensorDesc | None,
        sequence_lengths: TensorDesc | None,
        output_sequence: TensorDesc | None,
        output_single: TensorDesc | None,
        activation_descs: Sequence[Activation],
        direction: RecurrentNetworkDirection | str | int,
    ):
        tensors = (input, weight, recurrence, bias, hidden_init, sequence_lengths, output_sequence, output_single)
        set_fields(self, *tensors, activation_descs, direction)

    def compute_checked(
        self,
        input: jax.Array,
        weight: jax.Array,
        recurrence: jax.Array,
        bias: jax.Array | None = None,
        hidden_init: jax.Array | None = None,
        sequence_lengths: jax.Array | None = None,
    ) -> Any:
        direction: Any = self.direction.name.lower()
        sequence, single = rnn(
            input[0],
            weight[0],
            recurrence[0],
            None if bias is None else bias[0, 0],
            None if hidden_init is None else hidden_init[0],
            None if sequence_lengths is None else sequence_lengths[0, 0, 0],
            direction=direction,
            activations=self.activation_descs,
        )
        made = {"output_sequence": sequence, "output_single": single}
        outputs = [made[name] for name in self.output_ports()]
        return tuple(outputs) if len(outputs) > 1 else outputs[0]
