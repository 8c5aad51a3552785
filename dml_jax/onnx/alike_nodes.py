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

__all__ = ["NotTracedError", "are_sizes_enough", "refuse_long_work", "shared_outputs", "sharing_outputs"]

FEW = 128  # elements of a constant that is compared by its numbers; larger ones must be the same array
MIB = 2**20  # bytes of constants that take as long to compute as a node takes to trace


class NotTracedError(Exception):
    """To trace nodes, or to compute constants, would take long.

    It is no ValueError, so that no branch and no loop takes it for a fault of its own.
    """


class _AlikeNodes:
    """The outputs of nodes, by all that sizes depend on.

    Args:
      most: how many nodes are traced, each MiB of constants counted as another one.
    """

    def __init__(self, most: float):
        self._left = most
        self._constants: dict[Hashable, Any] = {}
        self._traces: list[tuple[Any, dict[Hashable, Any]]] = []  # that lie in each other, the innermost last

    def outputs(self, node: Node, values: Sequence[Any], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Returns the outputs of a node by name; those of one that is alike if there was one in this trace.

        Raises:
          NotTracedError: too many nodes were traced.
        """
        key, traced = _key(node, values), self._of_this_trace()
        names = list(filter(None, node.outputs))
        for table in (self._constants, traced):
            if key in table:
                return dict(zip(names, table[key][0], strict=True))
        outputs = self.counted(node, values, compute)
        made = [outputs[name] for name in names]
        table = self._constants if _are_constants(made) else traced
        table[key] = made, values, node  # which keep their ids
        return outputs

    def counted(self, node: Node, values: Sequence[Any], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Returns the outputs of a node by name, which is traced, or computed of constants.

        Raises:
          NotTracedError: too many nodes were traced.
        """
        is_computed = _are_constants(values) and RANDOM not in node.captured
        self._count(0 if is_computed else 1)
        outputs = compute()
        if is_computed:
            arrays = [x for x in jax.tree.leaves([*values, *outputs.values()]) if isinstance(x, np.ndarray)]
            self._count(sum(x.nbytes for x in arrays) / MIB)
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
            raise NotTracedError

    @property
    def is_limited(self) -> bool:
        return self._left < inf


def _are_constants(values: Sequence[Any]) -> bool:
    return all(isinstance(x, np.ndarray) for x in jax.tree.leaves(list(values)))


def _key(node: Node, values: Sequence[Any]) -> Hashable:
    """Returns all that the sizes of the outputs depend on.

    Of constants beside data, such as weights, the floats and narrow integers are no sizes, except of a few operators.
    """
    is_exact = node.op_type in SIZED_BY_FLOATS or _are_constants(values)
    is_exact |= any(isinstance(value, Bounded) for value in values)
    schema, read = node.schema, tuple(map(bool, node.outputs))
    operator = node.function, schema.domain, schema.name, schema.since_version, read
    attributes = tuple((name, _of_value(value, True)) for name, value in node.attributes.items())
    return *operator, attributes, tuple(_of_value(value, is_exact) for value in values)


def _of_value(value: Any, is_exact: bool) -> Hashable:
    """Returns what sizes may depend on of an input or an attribute.

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
        return value.dtype, value.shape, value.tobytes() if value.size <= FEW else id(value)
    if isinstance(value, Bounded):
        return Bounded, value.dtype, value.range, _of_value(value.array, True)
    if isinstance(value, TensorSequence):
        return TensorSequence, value.dtype, tuple(_of_value(item, is_exact) for item in value.items)
    if isinstance(value, (list, tuple)):
        return tuple(value) if all(isinstance(x, (int, float, str, bytes)) for x in value) else id(value)
    return value if value is None or isinstance(value, (int, float, str, bytes, EmptyOptional)) else id(value)


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
    """Ends a trace whose nodes are limited, before something that takes long.

    Raises:
      NotTracedError: they are.
    """
    alike = _ALIKE.get()
    if alike is not None and alike.is_limited:
        raise NotTracedError


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
