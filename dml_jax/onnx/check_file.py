"""Checks a .onnx file for `dml-jax check`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..core.structs.operator_desc import OperatorDesc
from ..errors import ConstraintError
from .free_dimensions import Sizes
from .model_descs import described

__all__ = ["check_nodes"]


def check_nodes(path: Path, level: Any, sizes: Sizes) -> Iterator[tuple[str, str | ConstraintError]]:
    """Yields the label of each node that DirectML has an operator for, and the operator, or why a level refuses it.

    Args:
      path: the model.
      level: of features.
      sizes: what the model leaves open.

    Raises:
      ConstraintError: the model cannot be read, or the sizes are not of it.
    """
    for node in described(path, sizes):
        if not isinstance(node.desc, OperatorDesc):
            yield node.label, node.desc
            continue
        try:
            node.desc.validate(level)
            yield node.label, node.desc.operator_type
        except ConstraintError as error:
            yield node.label, error
