"""A node of ONNX that does what an operator does."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .case import Arrays

__all__ = ["OnnxNode"]


@dataclass(frozen=True)
class OnnxNode:
    """A node.

    Args:
      name: of the operator.
      attributes: of the node.
      constants: inputs after the arrays, in order; None for one that is left out.
      arrays: what the node takes of a case's arrays.
    """

    name: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    constants: tuple[np.ndarray | None, ...] = ()
    arrays: Callable[[Arrays], Arrays] = lambda arrays: arrays
