"""`check` traces nodes that are alike once: of one operator, with equal attributes, types and sizes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from jax.extend.core import get_opaque_trace_state

from .int64_ranges import Bounded
from .node import Node
from .random_keys import RANDOM
from .sequence_pytrees import EmptyOptional, TensorSequence
from .traced_memory import SIZED_BY_FLOATS

FEW = 128  # elements of a constant that is compared by its numbers; larger ones are alike to none
MIB = 2**20  # bytes of constants that take as long to compute as a node takes to trace


class NotTracedError(Exception):
    """To trace nodes, or to compute constants, would take long; its text says which.

    It is no ValueError, so that no branch and no loop takes it for a fault of its own.
    """


class _AlikeNodes:
    """The outputs of nodes, by all that sizes depend on.

    Args:
      most: how many nodes are traced, each MiB of constants counted as another one.
    """

    def __init__(self, most: float):
        self._most = self._left = most
        self._traces: list[tuple[Any, dict[Hashable, Any]]] = []  # that lie in each other, the innermost last

    def outputs(self, node: Node, values: Sequence[Any], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Returns the outputs of a node by name; those of one that is alike if there was one in this trace.

        Outputs that hold constants are not shared: these count by their numbers, and would be kept.

        Raises:
          NotTracedError: too many nodes were traced.
        """
        if _are_constants(values):
            return self.counted(node, values, compute)
        key, alike = _key(node, values), self._of_this_trace()
        names = list(filter(None, node.outputs))
        if key in alike:
            return dict(zip(names, alike[key], strict=True))
        outputs = self.counted(node, values, compute)
        if not any(isinstance(x, np.ndarray) for x in jax.tree.leaves(outputs)):
            alike[key] = [outputs[name] for name in names]
        return outputs

    def counted(self, node: Node, values: Sequence[Any], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Returns the outputs of a node by name, which is traced, or computed of constants.

        Raises:
          NotTracedError: too many nodes were traced.
        """
        are_constants = _are_constants(values) and RANDOM not in node.captured
        self._count(0 if are_constants else 1)
        outputs = compute()
        if are_constants:
            arrays = [x for x in jax.tree.leaves([*values, *outputs.values()]) if isinstance(x, np.ndarray)]
            is_left_out = not _are_constants(list(outputs.values()))
            self._count(is_left_out + sum(x.nbytes for x in arrays) / MIB)
        return outputs

    def _of_this_trace(self) -> dict[Hashable, Any]:
        """Returns the outputs in the trace of JAX that runs now, which no other may use."""
        state = get_opaque_trace_state()
        while self._traces and self._traces[-1][0] != state and any(state == outer for outer, _ in self._traces):
            self._traces.pop()
        if not self._traces or self._traces[-1][0] != state:
            self._traces.append((state, {}))
        return self._traces[-1][1]

    def _count(self, nodes: float) -> None:
        self._left -= nodes
        if self._left < 0:
            fact = f"more than {self._most} nodes had to be traced in all, each MiB of constants counted as a node"
            raise NotTracedError(fact)

    @property
    def is_limited(self) -> bool:
        return self._left < inf


def _are_constants(values: Sequence[Any]) -> bool:
    return all(isinstance(x, np.ndarray) for x in jax.tree.leaves(list(values)))


def _key(node: Node, values: Sequence[Any]) -> Hashable:
    """Returns all that the sizes of the outputs depend on.

    Of constants beside data, such as weights, the floats and narrow integers are no sizes, except of a few operators.
    """
    is_exact = node.op_type in SIZED_BY_FLOATS or any(isinstance(value, Bounded) for value in values)
    schema, read = node.schema, tuple(map(bool, node.outputs))
    operator = node.function, schema.domain, schema.name, schema.since_version, read
    attributes = tuple((name, _of_value(value, True)) for name, value in node.attributes.items())
    return *operator, attributes, tuple(_of_value(value, is_exact) for value in values)


def _of_value(value: Any, is_exact: bool) -> Hashable:
    """Returns what sizes may depend on of an input or an attribute; what is like no other is a new object.

    Args:
      value: it.
      is_exact: whether the numbers of every constant count, not those alone that have the type of sizes or conditions.
    """
    if isinstance(value, Tracer):
        return jax.typeof(value)
    if isinstance(value, np.ndarray):
        can_be_sizes = value.dtype.kind in "iu" and value.dtype.itemsize >= 4
        if not (is_exact or can_be_sizes or value.dtype == bool):
            return value.dtype, value.shape
        return value.dtype, value.shape, value.tobytes() if value.size <= FEW else object()
    if isinstance(value, Bounded):
        return Bounded, value.dtype, value.range, _of_value(value.array, True)
    if isinstance(value, TensorSequence):
        return TensorSequence, value.dtype, tuple(_of_value(item, is_exact) for item in value.items)
    if isinstance(value, (list, tuple)):
        return repr(value) if all(isinstance(x, (int, float, str, bytes)) for x in value) else object()
    if isinstance(value, (int, float, str, bytes)):
        return repr(value)  # 0.0 and -0.0 are equal
    return value if value is None or isinstance(value, EmptyOptional) else object()


_ALIKE: ContextVar[_AlikeNodes | None] = ContextVar("alike", default=None)


@contextmanager
def sharing_outputs(most: float = inf) -> Iterator[None]:
    """Context in which only the sizes of what nodes make are asked for, so that alike ones are traced once.

    One around it stays, with its limit.

    Args:
      most: how many nodes are traced; beyond it, `NotTracedError` is raised.
    """
    token = _ALIKE.set(_ALIKE.get() or _AlikeNodes(most))
    try:
        yield
    finally:
        _ALIKE.reset(token)


def are_sizes_enough() -> bool:
    """Whether only sizes are asked for, so that large constants need not be computed."""
    return _ALIKE.get() is not None


def refuse_long_work() -> None:
    """Ends a trace whose nodes are limited, before constants are computed that may take long.

    Raises:
      NotTracedError: they are.
    """
    alike = _ALIKE.get()
    if alike is not None and alike.is_limited:
        raise NotTracedError("to compute its constants may take long")


def shared_outputs(
    node: Node, values: Sequence[Any], has_own: bool, compute: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """Returns `compute()`, the outputs of a node by name, or those of a node that is alike, in `sharing_outputs`.

    Args:
      node: it.
      values: its inputs.
      has_own: whether it has graphs or random numbers of its own, so that no other is alike.
      compute: computes the outputs.

    Raises:
      NotTracedError: too many nodes were traced.
    """
    alike = _ALIKE.get()
    if alike is None:
        return compute()
    return alike.counted(node, values, compute) if has_own else alike.outputs(node, values, compute)
