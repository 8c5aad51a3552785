"""Exceptions of ONNX models: unreadable files, unsupported operators, wrong calls."""

from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import ConstraintError

__all__ = ["NotConstantError", "OnnxError", "UnreadableError", "UnsupportedError"]


class OnnxError(ConstraintError):
    """A model cannot be read, breaks ONNX's rules, or is called with other inputs than it takes."""


class UnreadableError(OnnxError):
    """A model cannot be read: `what` is wrong with `source`, its path or "the model"."""

    def __init__(self, source: str, what: str):
        super().__init__(what, (source,))
        self.source = source

    def __reduce__(self) -> Any:
        return type(self), (self.source, self.what)


_OF_NODE = " (node "  # between an operator and the name of its node
# Operators that the level "all" writes: their weights are in blocks of as many channels as the CPU's vectors have.
_NCHWC = "com.microsoft.nchwc::"
_OF_ONE_CPU = (
    '\nONNX Runtime optimised this file for one kind of CPU: save it again at the level "extended", '
    "with SessionOptions.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_EXTENDED"
)


class UnsupportedError(OnnxError):
    """A model has operators that are not supported here; `nodes` lists all of them, the message by operator.

    Args:
      nodes: such as "If node 'choice': then_branch: StringConcat (node 'joined')".
      supported: the operators that are.
    """

    def __init__(self, nodes: Sequence[str], supported: Sequence[str]):
        lines = "\n".join(f"  {line}" for line in _by_operator(nodes))
        rule = (
            f"the model must have only operators that are supported here, {len(supported)} and functions made of them"
        )
        hint = _OF_ONE_CPU if any(_NCHWC in node for node in nodes) else ""
        super().__init__(f"{rule}, but has\n{lines}{hint}")
        self.nodes: tuple[str, ...] = tuple(nodes)
        self.supported: tuple[str, ...] = tuple(supported)

    def __reduce__(self) -> Any:
        return type(self), (self.nodes, self.supported)


def _by_operator(nodes: Sequence[str]) -> Iterator[str]:
    """Yields a line for each operator: its only node, or how many it has and the first two, without its name."""
    groups: dict[str, list[str]] = {}
    for node in nodes:
        groups.setdefault(node.partition(_OF_NODE)[0].rpartition(": ")[2], []).append(node)
    for operator, group in groups.items():
        names = " and ".join(node.replace(f"{operator}{_OF_NODE}", "", 1).removesuffix(")") for node in group[:2])
        such_as = "such as " if len(group) > 2 else ""
        yield group[0] if len(group) == 1 else f"{operator} ({len(group)} nodes, {such_as}{names})"


class NotConstantError(OnnxError):
    """A shape depends on data that is not known while tracing."""
