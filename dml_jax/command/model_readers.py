"""Readers of the files that run on arrays, ONNX models and serialized graphs, and what is told while they take long."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.structs.feature_level import NEWEST, FeatureLevel
from .shared_options import is_graph, is_onnx

if TYPE_CHECKING:
    from ..array_models.array_model import ArrayModel


def reader(path: Path, options: Mapping[str, Any], level: FeatureLevel = NEWEST) -> Callable[[], ArrayModel]:
    """Returns the reader for an ONNX model or a graph.

    Args:
      path: the file; its name says which it is.
      options: of ONNX models, by the names of their parameters.
      level: the feature level whose rules a graph keeps.
    """
    if is_graph(path):
        from ..array_models.serialized_graph_model import read_graph_model

        return partial(read_graph_model, path, level)
    from ..array_models.onnx_model import read_onnx_file

    asked = (options[name] for name in ("names", "denotations", "shapes", "seed", "max_nodes"))
    return partial(read_onnx_file, path, *asked)


def doing(path: Path) -> Callable[[], str] | None:
    """Returns a function that says which node of an ONNX model is traced, or that XLA compiles; None for others."""
    if not is_onnx(path):
        return None
    from ..onnx.progress import DOING

    return lambda: DOING.text
