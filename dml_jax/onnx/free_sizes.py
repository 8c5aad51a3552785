"""Gives numbers to sizes of inputs that a model leaves open, before it is taken apart."""

from collections.abc import Collection, Mapping
from typing import Literal

import onnx

from ..errors import ConstraintError, suggestion

__all__ = ["forget_names", "override_sizes"]


def override_sizes(
    model: onnx.ModelProto, kind: Literal["dim_param", "denotation"], sizes: Mapping[str, int], where: str
) -> None:
    """Sets, in the model, the free sizes of inputs that have a name, or a denotation.

    Args:
      model: is changed.
      kind: what a free size is found by.
      sizes: by name or denotation.
      where: the field or option that they come from.

    Raises:
      ConstraintError: no free size has the name or denotation.
    """
    free = [
        size
        for info in model.graph.input
        for size in info.type.tensor_type.shape.dim
        if not size.HasField("dim_value") and getattr(size, kind)
    ]
    known = sorted({getattr(size, kind) for size in free})
    for name in sizes:
        if name not in known:
            near = suggestion(name, known) if known else "there are none"
            raise ConstraintError(f"no free size of an input is called {name!r:.60}; {near}", (where,))
    for size in free:
        if getattr(size, kind) in sizes:
            size.dim_value = sizes[getattr(size, kind)]


def forget_names(model: onnx.ModelProto, inputs: Collection[str]) -> None:
    """Takes the names from the free sizes of some inputs, in the model: sizes of one name may then differ."""
    for info in model.graph.input:
        if info.name in inputs:
            for size in info.type.tensor_type.shape.dim:
                size.ClearField("dim_param")
