"""The rules that RNN, GRU and LSTM share, the sizes of their operands, and how a struct calls the layer."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import jax

from ..core.rules import Operands, Rule, custom, if_given, sizes_follow
from ..core.structs.activation_fusion import FusedEach
from ..core.structs.feature_level_tables import FLOATS, RANK_4, Support
from ..core.structs.field_types import Named
from ..core.structs.fields import Input, OptionalIndexInput, OptionalInput, OptionalOutput, named
from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.struct_rules import right_aligned
from ..core.tensors.data_type import DataType
from ._recurrent_layers import Cell, recurrent_layer


class RecurrentNetworkDirection(enum.IntEnum):
    """DML_RECURRENT_NETWORK_DIRECTION: from the first step on, from the last one back, or both beside each other."""

    FORWARD = 0
    BACKWARD = 1
    BIDIRECTIONAL = 2


FieldDirection = Annotated[
    Named[RecurrentNetworkDirection], named(RecurrentNetworkDirection, "DML_RECURRENT_NETWORK_DIRECTION_")
]
Steps = Annotated[Input, "(1, S, B, I): steps, batch, inputs."]
InitialState = Annotated[OptionalInput, "(1, D, B, H), or None, 0."]
SequenceLengths = Annotated[
    OptionalIndexInput, "(1, 1, 1, B) of UINT32: how many steps each row of the batch has; or None, all."
]
# Per direction of the network, one or two: whether it runs from the last step to the first.
BACKWARD = {"forward": (False,), "backward": (True,), "bidirectional": (False, True)}
LEVELS = (Support.of("1_0", RANK_4, input=FLOATS, sequence_lengths=(DataType.UINT32,)),)


class OneStateDesc(OperatorDesc[Any], is_base=True):
    """The base of RNN and GRU; LSTM has a second state, and its fields between these.

    Args:
      output_sequence: (S, D, B, H), the states of all steps; or None.
      output_single: (1, D, B, H), the last state that each direction came to; or None. One output at least is given.
    """

    input: Steps
    weight: Input
    recurrence: Input
    bias: OptionalInput
    hidden_init: InitialState
    sequence_lengths: SequenceLengths
    output_sequence: OptionalOutput
    output_single: OptionalOutput
    activation_descs: FusedEach
    direction: FieldDirection

    support = LEVELS


@dataclass(frozen=True)
class Counts:
    """The counts that make up sizes."""

    steps: Any
    batch: Any
    inputs: Any
    directions: int
    hidden: Any

    @classmethod
    def of(cls, x: Operands) -> Counts | None:
        """The counts of the operands of a function, or of a struct; None if a rank is too small."""
        input, recurrence = tuple(x["input"].shape), tuple(x["recurrence"].shape)
        both = x["direction"] in ("bidirectional", RecurrentNetworkDirection.BIDIRECTIONAL)
        if min(len(input), len(recurrence)) < 3:
            return None
        steps, batch, inputs = input[-3:]
        return cls(steps, batch, inputs, 1 + both, recurrence[-1])


def sizes_of(gates: int) -> Mapping[str, tuple[str, Callable[[Counts], tuple[Any, ...]]]]:
    """The sizes of each operand, in words and as a function of the counts."""
    state = ("D, B, H", lambda n: (n.directions, n.batch, n.hidden))
    rows = "H" if gates == 1 else f"{gates} * H"
    return {
        "input": ("S, B, I", lambda n: (n.steps, n.batch, n.inputs)),
        "weight": (f"D, {rows}, I", lambda n: (n.directions, gates * n.hidden, n.inputs)),
        "recurrence": (f"D, {rows}, H", lambda n: (n.directions, gates * n.hidden, n.hidden)),
        "bias": (f"D, {2 * gates} * H", lambda n: (n.directions, 2 * gates * n.hidden)),
        "hidden_init": state,
        "cell_mem_init": state,
        "sequence_lengths": ("B", lambda n: (n.batch,)),
        "peephole": ("D, 3 * H", lambda n: (n.directions, 3 * n.hidden)),
        "output_sequence": ("S, D, B, H", lambda n: (n.steps, n.directions, n.batch, n.hidden)),
        "output_single": state,
        "output_cell_single": state,
    }


def sizes_rule(name: str, gates: int = 1, *, is_tensor: bool = False) -> Rule:
    """The rule of the sizes of an operand; a tensor of a struct has leading sizes of 1 before them."""
    letters, sizes = sizes_of(gates)[name]

    def law(x: Operands) -> tuple[Any, ...] | None:
        counts = Counts.of(x)
        return counts and right_aligned(sizes(counts), len(x["input"].shape) if is_tensor else len(sizes(counts)))

    ones = "1, " * (4 - len(letters.split(", "))) if is_tensor else ""
    rule = sizes_follow(name, law, f"({ones}{letters})")
    return rule if name in ("input", "weight", "recurrence") else if_given(name, rule)


def per_direction(name: str, each: int = 1) -> Rule:
    """The rule that an attribute has `each` entries per direction of the network."""
    word, entries = {1: ("one", "entry"), 2: ("two", "entries"), 3: ("three", "entries")}[each]

    def broken_by(x: Operands) -> str | None:
        counts = Counts.of(x)
        count, wanted = 0 if x[name] is None else len(x[name]), 0 if counts is None else each * counts.directions
        return None if x[name] is None or counts is None or count == wanted else f"there are {count} for {wanted}"

    return custom(f"{word}_per_direction({name})", f"{{{name}}} must have {word} {entries} per direction", broken_by)


def struct_rules(cell: Cell) -> tuple[Rule, ...]:
    """The rules of a struct; only LSTM has tensors of a second state."""
    of_lstm = ("cell_mem_init", "peephole", "output_cell_single")
    tensors = [name for name in sizes_of(cell.gates) if cell.states == 2 or name not in of_lstm]
    outputs = [name for name in tensors if name.startswith("output")]

    def owned(x: Operands) -> str | None:
        inputs = {*tensors} - {*outputs}
        return "one is" if any(x[name] is not None and x[name].flags for name in inputs) else None

    def no_output(x: Operands) -> str | None:
        return "there is none" if all(x[name] is None for name in outputs) else None

    *first, last = (f"{{{name}}}" for name in outputs)
    return (
        custom("unowned(inputs)", "no input may be OWNED_BY_DML", owned),
        *(sizes_rule(name, cell.gates, is_tensor=True) for name in tensors),
        per_direction("activation_descs", cell.activations),
        custom("some(outputs)", f"{', '.join(first)} or {last} must be given", no_output),
    )


def compute_layer(
    desc: OperatorDesc[Any], cell: Cell, arrays: Mapping[str, jax.Array | None], clip: float | None = None
) -> Any:
    """The outputs that a struct asks for; its tensors have leading sizes of 1, which the layer has not."""
    ranks = {name: len(letters.split(", ")) for name, (letters, _) in sizes_of(cell.gates).items()}
    own: Any = {name: None if x is None else x.reshape(x.shape[-ranks[name] :]) for name, x in arrays.items()}
    fields: Any = desc
    is_backward = BACKWARD[fields.direction.name.lower()]
    computed = recurrent_layer(cell, **own, activations=fields.activation_descs, is_backward=is_backward, clip=clip)
    by_name = dict(zip(desc.output_names(), computed, strict=True))
    outputs = [by_name[name].reshape(tensor.sizes) for name, tensor in desc.output_ports().items()]
    return tuple(outputs) if len(outputs) > 1 else outputs[0]
