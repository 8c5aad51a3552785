"""Dispatchables of type `dmlSerializedGraph`: a graph in a file of its own, its constants in files beside that one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core.json_fields import shown
from ..core.structs.feature_level import FeatureLevel
from ..errors import ConstraintError, Faults
from ..graphs.graph_files import constant_files, read_graph_file
from .commands import Dispatchable
from .initial_value_files import find_file
from .json_fields import get, only


def read_serialized(json: Mapping[str, Any], folder: Path, feature_level: FeatureLevel | str) -> Dispatchable:
    """Reads and validates the graph that a dispatchable names; of constants it checks only the file sizes.

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
