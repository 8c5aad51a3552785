"""Finds float inputs that must be compile-time constants, such as the scales of a Resize, and so are not trainable."""

from collections.abc import Collection, Mapping, Sequence

from .block_execution import Block, FunctionCall, Step
from .node import Node

__all__ = ["deciding_floats"]

# Inputs of that kind which are floats, by position.
_DECIDING: Mapping[str, Collection[int]] = {
    "Dropout": (1,),
    "MelWeightMatrix": (3, 4),
    "NonMaxSuppression": range(5),
    "NonZero": (0,),
    "OneHot": (1,),
    "Range": (0, 1, 2),
    "Resize": (1, 2),
    "Unique": (0,),
    "Upsample": (1,),
}


def deciding_floats(steps: Sequence[Step]) -> set[str]:
    """Returns the values from which static float inputs are computed, also inside branches and functions."""
    names: set[str] = set()
    for step in reversed(steps):
        if not names.isdisjoint(step.outputs) and not _tells_a_shape(step):
            names.update((*step.inputs, *step.captured))
        names.update(_read_by(step))
    return names - {""}


def _tells_a_shape(step: Step) -> bool:
    """Whether the outputs of a step depend on the shapes of its inputs alone."""
    return isinstance(step, Node) and step.op_type in ("Shape", "Size")


def _read_by(step: Step) -> set[str]:
    """Returns the values that a step itself reads as static float inputs."""
    if isinstance(step, FunctionCall):
        block = step.own
        inside = deciding_floats(block.steps) if block else set()
        pairs = zip(step.inputs, block.inputs if block else (), strict=False)
        return {given for given, name in pairs if name in inside}
    blocks = [value for value in step.attributes.values() if isinstance(value, Block)]
    inside = [(block, deciding_floats(block.steps)) for block in blocks]
    read = {name for block, names in inside for name in names.intersection(block.captured)}
    for block, names in inside:  # the last inputs of a loop are those of its body
        given = step.inputs[len(step.inputs) - len(block.inputs) :]
        read.update(outer for outer, inner in zip(given, block.inputs, strict=False) if inner in names)
    return read.union(step.inputs[i] for i in _DECIDING.get(step.op_type, ()) if i < len(step.inputs))
