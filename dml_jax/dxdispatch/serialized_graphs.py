"""Dispatchables of type `dmlSerializedGraph`: a graph in a file of its own, its constants in files beside that one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..core.feature_level import FeatureLevel
from ..core.tensor import TensorDesc
from ..errors import ConstraintError, Faults
from ..graphs.files import constant_files, read_graph_file
from .commands import Dispatchable
from .json_fields import get, only, shown
from .source_files import find_file

__all__ = ["read_constants", "read_serialized"]


def read_serialized(json: Mapping[str, Any], folder: Path, feature_level: FeatureLevel | str) -> Dispatchable:
    """Reads and judges the graph that a dispatchable names; of its constants only the sizes of their files.

    Args:
      json: the dispatchable.
      folder: where the model file lies.
      feature_level: the level whose rules hold.

    Raises:
      SeveralErrors: all that is wrong with the graph, or with the files of its constants.
      ConstraintError: there is no such file, or it is no graph.
    """
    # executionFlags choose how DirectML compiles and have no meaning here.
    only(json, ("type", "sourcePath", "executionFlags", "bindings"))
    if json.get("bindings", {}) != {}:
        fact = f"but they are {shown(json['bindings'])}"
        raise ConstraintError(f"'bindings' must be empty, as constants come from the files beside the graph, {fact}")
    path = find_file(get(json, "sourcePath", str), folder)
    faults = Faults()
    with faults.at(repr(path.name)):
        graph = read_graph_file(path)
        for error in graph.faults(feature_level):
            faults.add(ConstraintError(error.what, error.where[1:]), repr(path.name))  # "GRAPH" is the file
        constants = constant_files(graph, path.parent)
    faults.finish()
    return Dispatchable(graph, {}, source=path, constants=constants)


def read_constants(dispatchable: Dispatchable) -> dict[str, np.ndarray]:
    """Reads the constants that lie in files, by the inputs of the graph that take them.

    Raises:
      ConstraintError: a file changed since its size was checked.
    """
    tensors = dispatchable.desc.input_ports()
    return {name: _elements(name, tensors[name], path) for name, path in dispatchable.constants.items()}


def _elements(name: str, tensor: TensorDesc, path: Path) -> np.ndarray:
    try:
        elements = np.fromfile(path, tensor.dtype, tensor.element_span)
    except OSError as error:
        raise ConstraintError(f"{path} cannot be read: {error.strerror or error}", (f"constant {name!r}",)) from None
    if elements.size < tensor.element_span:
        raise ConstraintError(f"{path} became shorter since it was checked", (f"constant {name!r}",))
    return elements
