"""An ONNX model in a file, to run on arrays."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from ..onnx.backend import compiled, node_by_node
from ..onnx.errors import NotConstantError
from ..onnx.free_dimensions import forget_names, override_sizes
from ..onnx.function import OnnxFunction
from ..onnx.graph import read_tensor_graph
from ..onnx.model_loading import external_files, load_model
from ..onnx.node_limits import MAX_NODES
from ..onnx.progress import DOING
from .array_model import ArrayModel, Program


def read_onnx_file(
    path: Path,
    names: Mapping[str, int],
    denotations: Mapping[str, int],
    shaped: Collection[str],
    seed: int = 0,
    max_nodes: int | None = None,
) -> ArrayModel:
    """Reads an ONNX model.

    Args:
      path: the file.
      names: the free sizes of inputs by what the model calls them.
      denotations: free sizes by what they mean, such as "DATA_BATCH".
      shaped: inputs whose shapes are given, and whose free sizes no name ties to others.
      seed: of its random numbers.
      max_nodes: how many nodes it may run; None for the default.

    Raises:
      OnnxError: it cannot be read, or cannot be run here.
      ConstraintError: no free size has such a name or denotation.
    """
    DOING.text = "it is read"
    model, folder = load_model(path)
    override_sizes(model, "dim_param", names, "--onnx-free-dim-name-override")
    override_sizes(model, "denotation", denotations, "--onnx-free-dim-denotation-override")
    forget_names(model, shaped)
    graph = read_tensor_graph(model, folder, max_nodes or MAX_NODES)
    function = OnnxFunction(graph)

    def prepare(arrays: Sequence[Any]) -> Program:
        key = jax.random.key(seed) if graph.is_random else None
        try:
            return Program(compiled(function, arrays, key))
        except NotConstantError as error:
            return Program(node_by_node(function, arrays, key), str(error))

    files = (path, *external_files(model, folder))
    return ArrayModel(path, function.inputs, function.output_names, files, prepare, graph.is_random)
