"""`Block`: a sequence of nodes. Constants are folded in NumPy with 64 bits; data are traced by JAX."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import jax
import numpy as np
from jax.errors import InconclusiveDimensionOperation, JaxRuntimeError
from onnx import TypeProto, defs

from ..core.sharding import wording_refusals
from ..errors import DataTypeError
from .alike_nodes import are_sizes_enough, refuse_long_work, shared_outputs
from .constant_work import are_long_products, is_left_out, is_long_loop
from .deferred import Deferred, plain
from .eager_nodes import compute
from .errors import NotConstantError, OnnxError, UnsupportedError
from .int64_ranges import TAKES_BOUNDED, compute_bounded, index_bounded, without_range
from .memory_limits import check_arrays, hold, holding
from .node import Node
from .node_limits import count_node
from .node_order import in_order
from .progress import DOING
from .random_keys import RANDOM
from .traced_memory import MANY, are_large, as_data, check_node, may_be_large
from .values import Array, as_tuple, at_once, is_narrowed, on_device

Scope = Mapping[str, Any]  # arrays, None for those that are left out


@dataclass(frozen=True)
class FunctionCall:
    """One node whose operator is a function: one that ONNX defines by a body, or one that the model defines.

    Args:
      label: for messages.
      op_type: its operator.
      body: takes the dtype and sizes of each input, None for one that is left out; returns the nodes to run.
      inputs: names of values, "" for one that is left out.
      outputs: names of values, "" for one that nothing needs.
      schema: of a function that ONNX defines; None for one of the model.
      own: the body of a function of the model, which does not depend on the inputs; else None.
      captured: `RANDOM` if the function draws random numbers, else nothing: it sees its inputs alone.
      number: other than those of all nodes beside it.
    """

    label: str
    op_type: str
    body: Callable[[Sequence[Any]], Block]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    schema: defs.OpSchema | None = None
    own: Block | None = None
    captured: tuple[str, ...] = ()
    number: int = 0
    takes_deferred: ClassVar[bool] = False


@dataclass(frozen=True)
class Unsupported:
    """A node whose operator is not done, or one in a graph or function that it runs; harmless if nothing needs it.

    Args:
      label: for messages.
      error: what it raises.
      inputs: names of values, "" for one that is left out.
      outputs: names of values.
      captured: names of values that the graphs among its attributes read.
    """

    label: str
    error: UnsupportedError
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    captured: tuple[str, ...]


Step = Node | FunctionCall
ReadStep = Step | Unsupported


@dataclass(frozen=True)
class Block:
    """A sequence of steps: a graph, a branch of `If`, or the body of a loop or a function.

    Args:
      inputs: names of the values that a caller gives.
      outputs: names of the values that it returns.
      constants: values of its own, by name.
      steps: those that an output needs, in order.
      captured: names of values outside of it that its steps read.
      types: that a graph declares for its outputs.
      nodes: after expansion: those of functions in each call, those of branches and loops once.
      depth: of the graphs and functions in it.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, np.ndarray]
    steps: tuple[Step, ...]
    captured: tuple[str, ...]
    types: tuple[TypeProto, ...] = ()
    nodes: int = 0
    depth: int = 0

    @classmethod
    def of(
        cls,
        inputs: Sequence[str],
        outputs: Sequence[str],
        constants: Mapping[str, np.ndarray],
        steps: Sequence[ReadStep],
    ) -> Block:
        """Makes a block of the steps that the outputs need; "" is an output that nothing reads.

        Raises:
          UnsupportedError: an output needs operators that are not done; the message lists all of these.
          OnnxError: two values have one name, or nodes form a cycle.
        """
        if len(set(inputs)) < len(inputs):
            raise OnnxError(f"every input must have a name of its own, but they are {', '.join(map(repr, inputs))}")
        defined = _defined_names({*inputs, *constants}, steps)
        kept = tuple(_needed_steps(in_order(steps), outputs))
        if errors := [step.error for step in kept if isinstance(step, Unsupported)]:
            raise UnsupportedError([node for error in errors for node in error.nodes], errors[0].supported)
        done = tuple(step for step in kept if not isinstance(step, Unsupported))
        read = (*(name for step in done for name in (*step.inputs, *step.captured)), *outputs)
        captured = tuple(dict.fromkeys(name for name in read if name and name not in defined))
        inner = [block for step in done for block in blocks_of(step)]
        nodes, depth = len(done) + sum(b.nodes for b in inner), 1 + max((b.depth for b in inner), default=0)
        return cls(tuple(inputs), tuple(outputs), constants, done, captured, nodes=nodes, depth=depth)

    def run(self, *arguments: Any, scope: Scope | None = None) -> tuple[Any, ...]:
        """Runs the steps and returns the outputs; an argument that is missing is an input that is left out."""
        given = dict.fromkeys(self.inputs) | dict(zip(self.inputs, arguments, strict=False))
        captured = {name: scope[name] for name in self.captured} if scope else {}
        with holding() as keep:
            outputs = run(self.steps, {**captured, **self.constants, **given}, self.outputs)
            keep(outputs)
        return outputs


@dataclass(frozen=True)
class Body:
    """A block that is an attribute of a node; it can read the values in the scope around the node.

    Args:
      block: the attribute.
      scope: the values by name.
      read: names of the outputs of the node, "" for one that nothing needs.
      label: of the node, for messages.
    """

    block: Block
    scope: Scope
    read: tuple[str, ...]
    label: str

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        return self.block.run(*arguments, scope=self.scope)

    def at(self, number: Any) -> Body:
        """Returns the block of an iteration, which draws random numbers of its own."""
        if RANDOM not in self.block.captured:
            return self
        return replace(self, scope={**self.scope, RANDOM: self.scope[RANDOM].at(getattr(number, "array", number))})

    def check(self, inputs: int, outputs: int) -> None:
        """Compares the numbers of inputs and outputs with those that the node asks for.

        Raises:
          OnnxError: there are other inputs, or fewer outputs.
        """
        counts = len(self.block.inputs), len(self.block.outputs)
        if counts[0] != inputs or counts[1] < outputs:
            rule = f"the body must have {inputs} inputs and at least {outputs} outputs"
            raise OnnxError(f"{rule}, but it has {counts[0]} and {counts[1]}")


def blocks_of(step: ReadStep) -> list[Block]:
    """Returns the blocks that a step runs, as far as they do not depend on types."""
    if isinstance(step, Node):
        return [value for value in step.attributes.values() if isinstance(value, Block)]
    return [step.own] if isinstance(step, FunctionCall) and step.own else []


def _defined_names(defined: set[str], steps: Iterable[ReadStep]) -> set[str]:
    """Adds the outputs of all steps to the names of values.

    Raises:
      OnnxError: a name is there already.
    """
    for step in steps:
        for name in filter(None, step.outputs):
            if name in defined:
                raise OnnxError(f"{step.label}: an output must have a new name, but {name!r} exists before the node")
            defined.add(name)
    return defined


def _needed_steps(steps: Sequence[ReadStep], outputs: Sequence[str]) -> Iterator[ReadStep]:
    """Returns the steps that an output depends on, in order; outputs of them that nothing reads are named ""."""
    needed, kept = set(filter(None, outputs)), []
    for step in reversed(steps):
        if needed.intersection(step.outputs):
            used = tuple(name if name in needed else "" for name in step.outputs)
            kept.append(replace(step, outputs=used))
            needed.update(filter(None, (*step.inputs, *step.captured)))
    return reversed(kept)


def run(steps: Iterable[Step], values: dict[str, Any], outputs: Sequence[str]) -> tuple[Any, ...]:
    """Runs steps on values by name, adds what they compute to `values`, and returns those that `outputs` names."""
    for step in steps:
        values.update(evaluate(step, values))
    return tuple(without_range(plain(values[name])) if name else None for name in outputs)


# Nodes whose outputs the nodes of their bodies made, each as a constant if it is one. So do functions.
_PASSES_ON = ("If", "SequenceMap")


def evaluate(step: Step, scope: Scope) -> dict[str, Array]:
    """Returns the outputs of a step by name; they are constants, computed at once, if all that it reads are."""
    values = [scope[name] if name else None for name in step.inputs]
    if not step.takes_deferred:
        values = list(map(plain, values))
    # Computed here, as a branch may be traced on its own.
    scope = {name: plain(scope[name]) for name in step.captured}
    read = [*values, *(scope[name] for name in step.captured)]
    try:
        leaves = jax.tree.leaves(read)
        before = count_node(len(leaves))
        DOING.text = f"{step.label}, after {before} {'node' if before == 1 else 'nodes'}"
        compute = partial(_outputs, step, values, scope, all(map(_is_known, leaves)))
        if isinstance(step, FunctionCall):
            return compute()
        outputs = shared_outputs(step, values, bool(step.captured or blocks_of(step)), compute)
        if step.op_type not in _PASSES_ON:
            hold(outputs, leaves)
        return outputs
    except UnsupportedError as error:  # in a body that depends on types
        raise UnsupportedError([f"{step.label}: {node}" for node in error.nodes], error.supported) from None
    except JaxRuntimeError:  # of the device
        raise
    except (TypeError, ValueError, IndexError, ArithmeticError, RuntimeError, InconclusiveDimensionOperation) as error:
        raise _located(step, error) from error


def _outputs(step: Step, values: Sequence[Any], scope: Scope, are_known: bool) -> dict[str, Array]:
    """Returns the outputs of a step by name, and compares each with the memory that there is.

    Args:
      step: it.
      values: its inputs.
      scope: the values that it captures.
      are_known: whether all of these are constants.
    """
    makes_constants = are_known and isinstance(step, Node) and step.op_type not in _PASSES_ON
    with wording_refusals(step.op_type, lambda: dict(zip(step.inputs, values, strict=True))):
        results = (_constants if makes_constants else _results)(step, values, scope)
    named = [(i, name) for i, name in enumerate(step.outputs) if name]
    if absent := [name for i, name in named if i >= len(results) or results[i] is None]:
        raise OnnxError(f"every output that is read must be computed, but {absent[0]!r} is not")
    outputs = {name: _as_declared(step, i, results[i], values) for i, name in named}
    check_arrays(outputs)
    return outputs


def _located(step: Step, error: Exception) -> OnnxError | DataTypeError:
    """Returns an error with the label of the step before it."""
    text = f"{step.label}: {error}"
    if isinstance(error, NotConstantError):
        return NotConstantError(text, step=step)
    return (type(error) if isinstance(error, (OnnxError, DataTypeError)) else OnnxError)(text)


def _constants(step: Step, values: Sequence[Any], scope: Scope) -> list[Any]:
    """Returns the outputs of a step whose values are all known; they are known, too, unless they are left out.

    Raises:
      OnnxError: they do not fit in memory.
      NotTracedError: only sizes are asked for, in a limited time, and computing them takes long.
    """
    if isinstance(step, Node) and are_sizes_enough():
        if is_long_loop(step, values):
            refuse_long_work()
        if not blocks_of(step) and may_be_large(step, values):
            with suppress(NotConstantError):
                with jax.enable_x64(True):
                    results = list(_results(step, as_data(values), scope))
                are_long = are_long_products(step, values, results)
                are_kept = not any(is_narrowed(x.dtype) for x in jax.tree.leaves(results))
                if (are_long or are_large(results)) and are_kept and is_left_out(step.label):
                    return results
                if are_long or are_large(results, MANY):
                    refuse_long_work()
    try:
        with at_once():
            return jax.tree.map(_as_known, list(_results(step, values, scope)))
    except (MemoryError, JaxRuntimeError) as error:
        raise OnnxError(f"its constant outputs must fit in memory, but {error or 'there is too little'}") from error


def _is_known(value: Any) -> bool:
    return value.is_known if isinstance(value, Deferred) else isinstance(value, np.ndarray)


def _as_known(value: Any) -> Any:
    return value.known() if isinstance(value, Deferred) else np.asarray(value)


def _results(step: Step, values: Sequence[Any], scope: Scope) -> tuple[Any, ...]:
    """Returns the outputs of a step. The attributes of a node that are graphs run in `scope`.

    Raises:
      OnnxError: the operator takes no such types, or not together.
    """
    if RANDOM in step.captured:
        scope = {**scope, RANDOM: scope[RANDOM].at(step.number)}
    if isinstance(step, FunctionCall):
        types = [(value.dtype, value.shape) if hasattr(value, "shape") else None for value in values]
        return step.body(types).run(*values, scope={name: scope[name] for name in step.captured})
    step.check_types(values)
    if not blocks_of(step):
        check_node(step, values)
    step = _with_bodies(step, scope)
    if step.op_type in TAKES_BOUNDED:
        values = list(map(without_range, values))
    elif is_narrowed(np.int64) and (results := compute_bounded(step, values)) is not None:
        return results
    return as_tuple(compute(step, values))


def _with_bodies(node: Node, scope: Scope) -> Node:
    """Returns a node with `Body` for each `Block`, and with the keys of the random numbers that it draws itself."""
    bodies = {
        name: Body(block, scope, node.outputs, node.label).at(number)
        for number, (name, block) in enumerate(node.attributes.items())
        if isinstance(block, Block)
    }
    keys = {"random": scope[RANDOM]} if RANDOM in node.captured and not bodies else {}
    return replace(node, attributes={**node.attributes, **bodies, **keys}) if bodies or keys else node


def _as_declared(step: Step, which: int, result: Any, values: Sequence[Any]) -> Any:
    """Returns an output as int64 if its schema allows no other type: then it is an index into the first input."""
    if step.schema is None:
        return result
    variable = step.schema.outputs[min(which, len(step.schema.outputs) - 1)].type_str
    accepted = {c.type_param_str: list(c.allowed_type_strs) for c in step.schema.type_constraints}
    if accepted.get(variable, [variable]) == ["tensor(int64)"] and result.dtype != np.int64:
        if isinstance(result, np.ndarray) or not is_narrowed(np.int64):
            return result.astype(np.int64)
        axis = step.attributes.get("axis") if isinstance(step, Node) else None
        bounded = index_bounded(step.op_type, result, values[0], axis)
        return bounded or on_device(np.zeros((), np.int64))  # raises: no 64 bits
    return result
