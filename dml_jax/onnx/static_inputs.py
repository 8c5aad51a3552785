"""Finds inputs that must be compile-time constants: floats that are not trainable, and what an error asks for."""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise

from .block_execution import Block, FunctionCall, Step
from .errors import NotConstantError
from .node import Node
from .stated_sizes import Maximum

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
# Those of them that `to_jax(maximum=...)` makes data. Thresholds stay: they are no weights.
_DATA_WITH_MAXIMUM: Mapping[str, Collection[int]] = {
    "NonMaxSuppression": (0, 1),
    "NonZero": (0,),
    "Unique": (0,),
}


def deciding_floats(steps: Sequence[Step]) -> set[str]:
    """Returns the values from which static float inputs are computed, also inside branches and functions."""
    names: set[str] = set()
    for step in reversed(steps):
        if not names.isdisjoint(step.outputs) and not _tells_a_shape(step):
            names.update((*step.inputs, *step.captured))
        names.update(_read_by(step))
    return names - {""}


def values_behind(error: NotConstantError, steps: Sequence[Step]) -> set[str]:
    """Returns the values from which a graph computes the unknown value that an error of one of its steps is about."""
    chain, cause = [error], error.__cause__
    while isinstance(cause, NotConstantError):
        chain.append(cause)
        cause = cause.__cause__
    names: set[str] = set()
    for inner, outer in pairwise(reversed(chain)):  # from the inside to the outside
        step = outer.step
        if inner.step is not None:
            names = _outside(step, lambda block, names=names: _behind(block.steps, names))
        elif isinstance(step, Node):
            named = zip(step.inputs, step.schema.inputs, strict=False)
            names = {name for name, formal in named if formal.name.lower() == inner.parameter}
        names = names or {*step.inputs, *step.captured}
    return _behind(steps, names)


def _behind(steps: Sequence[Step], names: Collection[str]) -> set[str]:
    """Returns values, and all from whose numbers they are computed."""
    behind = set(names)
    for step in reversed(steps):
        if not behind.isdisjoint(step.outputs) and not _tells_a_shape(step):
            behind.update((*step.inputs, *step.captured))
    return behind - {""}


def _tells_a_shape(step: Step) -> bool:
    """Whether the outputs of a step depend on the shapes of its inputs alone."""
    return isinstance(step, Node) and step.op_type in ("Shape", "Size")


def _has_stated_size(step: Node) -> bool:
    """Whether the size of the output is stated, so that the data that would decide it need not be known."""
    maximum = step.attributes.get("maximum")
    return isinstance(maximum, Maximum) and maximum.of() is not None


def _read_by(step: Step) -> set[str]:
    """Returns the values that a step itself reads as static float inputs."""
    read = _outside(step, lambda block: deciding_floats(block.steps))
    if not isinstance(step, Node):
        return read
    data = _DATA_WITH_MAXIMUM.get(step.op_type, ()) if _has_stated_size(step) else ()
    deciding = set(_DECIDING.get(step.op_type, ())).difference(data)
    return read.union(step.inputs[i] for i in deciding if i < len(step.inputs))


def _outside(step: Step, names_inside: Callable[[Block], Collection[str]]) -> set[str]:
    """Returns the values that a step reads for values in its graphs, or in the function that it calls."""
    if isinstance(step, FunctionCall):
        inside = names_inside(step.own) if step.own else ()
        pairs = zip(step.inputs, step.own.inputs if step.own else (), strict=False)
        return {given for given, name in pairs if name in inside}
    blocks = [(value, set(names_inside(value))) for value in step.attributes.values() if isinstance(value, Block)]
    read = {name for block, names in blocks for name in names.intersection(block.captured)}
    for block, names in blocks:  # the last inputs of a loop are those of its body
        given = step.inputs[len(step.inputs) - len(block.inputs) :]
        read.update(outer for outer, inner in zip(given, block.inputs, strict=True) if inner in names)
    return read
