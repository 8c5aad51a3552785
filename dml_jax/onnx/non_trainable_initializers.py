"""Finds initializers that are not trainable: literals, such as the 2 of `x * 2`, scales and zero points."""

from collections.abc import Iterator, Sequence

from .block_execution import Block, FunctionCall, Step
from .graph import Graph
from .node import Node

# Operators of several operands, any of which a program may write as a literal.
_ELEMENTWISE = {
    *("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "Sum", "Mean", "Clip", "Where"),
    *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
}
_COPIES = {"Cast", "CastLike", "Identity"}  # of the first input: what reads the output counts
_PRODUCTS = {"MatMul"}  # an exporter adds the bias of a linear layer after it
# Ends of the names of inputs that say how integers stand for numbers.
_SCALES = ("_scale", "_zero_point", "scales", "zero_points")
# The ways to read a value: as an operand, as the bias of a product, to quantise, and any other.
OPERAND, BIAS, SCALE, OTHER = "operand", "bias", "scale", "other"
Uses = dict[str, set[str]]


def literals(graph: Graph) -> set[str]:
    """Returns the initializers of one element that are operands of elementwise operators and nothing else.

    A 1-D one that is added to a product of matrices is no literal, but the bias of a linear layer with one output.
    """
    uses, names = _uses(graph.steps, graph.outputs), set()
    for name, value in graph.initializers.items():
        accepted = {OPERAND, BIAS} if value.ndim == 0 else {OPERAND}
        if value.size == 1 and name not in graph.defaults and uses.get(name) and uses[name] <= accepted:
            names.add(name)
    return names


def quantizing(graph: Graph) -> set[str]:
    """Returns the initializers that are scales or zero points, or numbers that are quantised, such as float8."""
    return {name for name, ways in _uses(graph.steps, graph.outputs).items() if SCALE in ways}


def _is_scale(step: Node, number: int) -> bool:
    name = step.schema.inputs[min(number, len(step.schema.inputs) - 1)].name.lower()
    return name.endswith(_SCALES) or step.op_type in ("DequantizeLinear", "QLinearConcat")


def _uses(steps: Sequence[Step], outputs: Sequence[str]) -> Uses:
    """Returns the ways in which values are read, by name, inside of branches and functions too."""
    uses: Uses = {name: {OTHER} for name in outputs}
    products = {name for step in steps if step.op_type in _PRODUCTS for name in step.outputs}
    for step in reversed(steps):
        for name, ways in list(_uses_by(step, uses, products)):
            uses.setdefault(name, set()).update(ways)
    return uses


def _uses_by(step: Step, uses: Uses, products: set[str]) -> Iterator[tuple[str, set[str]]]:
    """Yields the values that a step reads, and the ways of reading; `uses` has those of later steps."""
    if isinstance(step, FunctionCall):
        inside = _uses(step.own.steps, step.own.outputs) if step.own else {}
        names = step.own.inputs if step.own else ()
        for i, name in enumerate(step.inputs):
            yield name, inside.get(names[i], set()) if i < len(names) else {OTHER}
        return
    for block in step.attributes.values():
        if isinstance(block, Block):
            inside = _uses(block.steps, block.outputs)
            yield from ((name, inside.get(name, set())) for name in block.captured)
    for i, name in enumerate(step.inputs):
        if step.op_type in _ELEMENTWISE:
            is_bias = step.op_type == "Add" and not products.isdisjoint(step.inputs)
            yield name, {BIAS if is_bias else OPERAND}
        elif step.op_type in _COPIES and i == 0:
            yield name, uses.get(step.outputs[0], set())
        elif _is_scale(step, i):
            yield name, {SCALE}
        else:
            yield name, {OTHER}
