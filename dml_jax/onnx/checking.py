"""What `dml-jax check` says of a .onnx file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..core.desc import OperatorDesc
from ..errors import ConstraintError
from .descs import described

__all__ = ["check_nodes"]


def check_nodes(path: Path, level: Any) -> Iterator[tuple[str, str | ConstraintError]]:
    """The label of each node that DirectML has an operator for, and that operator, or why a feature level refuses it.

    Raises:
      ConstraintError: the model cannot be read.
    """
    for node in described(path):
        if not isinstance(node.desc, OperatorDesc):
            yield node.label, node.desc
            continue
        try:
            node.desc.validate(level)
            yield node.label, node.desc.operator_type
        except ConstraintError as error:
            yield node.label, error
