"""Dispatchables of type `onnx`: a model in a file of its own, and the free sizes that are overridden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConstraintError, suggestion
from .json_fields import as_object, get, integer, only, shown
from .source_files import find_file

if TYPE_CHECKING:
    from ..onnx.graph import Graph

__all__ = ["OnnxModel", "read_onnx"]


@dataclass(frozen=True)
class OnnxModel:
    """An ONNX model, taken apart; a dispatch chooses its free sizes."""

    source: Path
    graph: Graph

    @property
    def files(self) -> list[Path]:
        """The files that it is read from."""
        return [self.source]


def read_onnx(json: Mapping[str, Any], folder: Path, _: Any) -> OnnxModel:
    """Reads the model that a dispatchable names.

    Args:
      json: the dispatchable.
      folder: where the model file lies.

    Raises:
      ConstraintError: there is no such model, or it cannot be run; or the extra `onnx` is not installed.
    """
    only(json, ("type", "sourcePath", *_OVERRIDES, *_LEVELS, _ENTRIES))
    path = find_file(get(json, "sourcePath", str), folder)
    for field in _LEVELS:
        integer(json, field, 0)
    for key, value in as_object(repr(_ENTRIES), json.get(_ENTRIES, {})).items():
        if not isinstance(value, str):
            raise ConstraintError(f"{_ENTRIES!r}: {key!r} must be a string, but it is {shown(value)}")
    try:
        from ..onnx.graph import read_graph
        from ..onnx.loading import load_model
    except ImportError as error:
        raise ConstraintError(str(error)) from None
    try:
        model, beside = load_model(path)
        for field, kind in _OVERRIDES.items():
            _override(model, field, kind, json.get(field, {}))
        return OnnxModel(path, read_graph(model, beside))
    except ConstraintError as error:
        of_file = ConstraintError(error.what) if error.where == (str(path),) else error
        raise of_file.at(repr(path.name)) from None


# What a free size is found by: its name, or what it means.
_OVERRIDES = {"freeDimensionNameOverrides": "dim_param", "freeDimensionDenotationOverrides": "denotation"}
# Settings of ONNX Runtime: they have no meaning here.
_LEVELS = ("graphOptimizationLevel", "loggingLevel")
_ENTRIES = "sessionOptionsConfigEntries"


def _override(model: Any, field: str, kind: str, json: Any) -> None:
    """Sets the free sizes of inputs that have a name, or a denotation."""
    sizes = as_object(repr(field), json)
    free = [
        size
        for info in model.graph.input
        for size in info.type.tensor_type.shape.dim
        if not size.HasField("dim_value") and getattr(size, kind)
    ]
    known = {getattr(size, kind) for size in free}
    for name in sizes:
        if name not in known:
            near = suggestion(name, sorted(known)) if known else "there are none"
            raise ConstraintError(f"{field!r}: no free size of an input is called {name!r:.60}; {near}")
        if not 1 <= integer(sizes, name) < 2**32:
            raise ConstraintError(f"{field!r}: {name!r} must be in [1, 2**32 - 1], but it is {sizes[name]}")
    for size in free:
        if getattr(size, kind) in sizes:
            size.dim_value = sizes[getattr(size, kind)]
