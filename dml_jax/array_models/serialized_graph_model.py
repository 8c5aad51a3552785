"""A serialized graph in a file, to run on arrays."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from ..core.executable import compile_in_steps
from ..core.structs.feature_level import FeatureLevel
from ..core.tensors.stored_tensor import StoredTensor
from ..core.tensors.tensor_spec import TensorSpec
from ..errors import ConstraintError, Faults
from ..graphs.graph_files import constant_files, owned_inputs, read_constants, read_graph_file
from ..graphs.working_set import check_graph
from .array_model import ArrayModel, Program


def read_graph_model(path: Path, feature_level: FeatureLevel | str) -> ArrayModel:
    """Reads a serialized graph; of its constants only the sizes of their files.

    Args:
      path: the file.
      feature_level: the level whose rules hold.

    Raises:
      ConstraintError: it is no graph, or one of other operators; all rules that it breaks; files of constants; or
        too little memory.
    """
    graph = read_graph_file(path)
    faults = Faults()
    for error in graph.faults(feature_level):
        faults.add(ConstraintError(error.what, error.where[1:]))  # without "GRAPH", which the file is
    constants: dict[str, Path] = {}
    with faults.at():
        constants = constant_files(graph, path.parent)
    with faults.at():
        check_graph(graph)
    faults.finish()
    owned = owned_inputs(graph)
    inputs = tuple(TensorSpec(name, t.dtype, t.sizes) for name, t in graph.inputs.items() if name not in owned)

    def prepare(arrays: Sequence[Any]) -> Program:
        read = read_constants(constants, owned).items()
        given = dict(zip((spec.name for spec in inputs), arrays, strict=True))
        given |= {name: StoredTensor(owned[name], words=False).view(jnp.asarray(flat)) for name, flat in read}
        ordered = [given[name] for name in graph.inputs]
        return Program(compile_in_steps(lambda *x: tuple(jax.tree.leaves(graph.compute(*x))), ordered))

    return ArrayModel(path, inputs, tuple(graph.outputs), (path, *constants.values()), prepare)
