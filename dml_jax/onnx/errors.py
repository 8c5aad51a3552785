"""Exceptions of ONNX models: unreadable files, unsupported operators, wrong calls."""

from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import ConstraintError


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
        known = f"which are {len(supported)}, or functions of these"
        rule = f"the model must have only operators that are supported here, {known}"
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


# Stands in messages for the inputs of the model that make a value known.
STATIC = "static={name: value}"


class NotConstantError(OnnxError):
    """A value that must be known while tracing, such as a shape, depends on data.

    Args:
      what: the message; it has `STATIC` until the inputs are found.
      parameter: the input of the node that has the value, by its name in the schema; "" if it may be any.
      step: the node, in the error that names it.
    """

    def __init__(self, what: str, parameter: str = "", step: Any = None):
        super().__init__(what)
        self.parameter: str = parameter
        self.step: Any = step
        self.inputs: tuple[str, ...] = ()

    def __reduce__(self) -> Any:
        return type(self), (self.what,)

    def naming(self, inputs: Sequence[str]) -> "NotConstantError":
        """Returns the error with inputs of the model that `to_jax` can make known."""
        shown = static_text(inputs) if inputs else STATIC
        named = NotConstantError(self.what.replace(STATIC, shown))
        named.inputs = tuple(inputs) if STATIC in self.what else ()
        return named


def static_text(names: Sequence[str]) -> str:
    """Returns the argument of `to_jax` that makes inputs known: "static={'sr': value}"."""
    return f"static={{{', '.join(f'{name!r}: value' for name in names)}}}"
