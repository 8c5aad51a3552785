"""Exceptions of ONNX models: unreadable files, unsupported operators, wrong calls."""

from collections.abc import Sequence
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


class UnsupportedError(OnnxError):
    """A model has operators that are not supported here; `nodes` lists all of them."""

    def __init__(self, nodes: Sequence[str], supported: Sequence[str]):
        lines = "\n".join(f"  {node}" for node in nodes)
        rule = (
            f"the model must have only operators that are supported here, {len(supported)} and functions made of them"
        )
        super().__init__(f"{rule}, but has\n{lines}")
        self.nodes: tuple[str, ...] = tuple(nodes)
        self.supported: tuple[str, ...] = tuple(supported)

    def __reduce__(self) -> Any:
        return type(self), (self.nodes, self.supported)


class NotConstantError(OnnxError):
    """A shape depends on data that is not known while tracing."""
