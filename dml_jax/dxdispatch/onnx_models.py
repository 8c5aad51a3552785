"""Dispatchables of type `onnx`: a model in a file of its own, and the free sizes that are overridden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..core.json_fields import as_object, shown
from ..errors import ConstraintError
from .initial_value_files import find_file
from .json_fields import get, integer, only

if TYPE_CHECKING:
    from ..onnx.function import OnnxFunction
    from ..onnx.graph import Graph


@dataclass(frozen=True)
class OnnxModel:
    """An ONNX model in memory; a dispatch chooses its free sizes.

    Args:
      files: that it is read from.
      graph: the model.
      function: the same, as a function on arrays.
    """

    files: tuple[Path, ...]
    graph: Graph
    function: OnnxFunction


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
        from ..onnx.free_dimensions import override_sizes
        from ..onnx.function import OnnxFunction
        from ..onnx.graph import read_tensor_graph
        from ..onnx.model_loading import external_files, load_model, without_initializers
    except ImportError as error:
        raise ConstraintError(str(error)) from None
    try:
        model, beside = load_model(path)
        for field, kind in _OVERRIDES.items():
            override_sizes(model, kind, _sizes(field, json.get(field, {})), repr(field))
        graph = read_tensor_graph(model, beside)
        function = OnnxFunction(graph, source=(without_initializers(model, beside), {}))
        return OnnxModel((path, *external_files(model, beside)), graph, function)
    except ConstraintError as error:
        of_file = ConstraintError(error.what) if error.where == (str(path),) else error
        raise of_file.at(repr(path.name)) from None


# The key of a free size: its name, or its denotation.
_OVERRIDES: dict[str, Literal["dim_param", "denotation"]] = {
    "freeDimensionNameOverrides": "dim_param",
    "freeDimensionDenotationOverrides": "denotation",
}
# Settings of ONNX Runtime: they have no meaning here.
_LEVELS = ("graphOptimizationLevel", "loggingLevel")
_ENTRIES = "sessionOptionsConfigEntries"


def _sizes(field: str, json: Any) -> dict[str, int]:
    """Returns the sizes that a field sets, by the name or the denotation of the size."""
    sizes = {name: integer(as_object(repr(field), json), name) for name in as_object(repr(field), json)}
    for name, size in sizes.items():
        if not 1 <= size < 2**32:
            raise ConstraintError(f"{name!r} must be in [1, 2**32 - 1], but it is {size}", (repr(field),))
    return sizes
