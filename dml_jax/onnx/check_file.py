"""Checks a .onnx file for `dml-jax check`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.structs.operator_desc import OperatorDesc
from ..errors import ConstraintError
from .alike_nodes import NotTracedError, sharing_outputs
from .errors import OnnxError
from .free_dimensions import Sizes, with_sizes
from .graph import Graph, read_graph
from .model_descs import Described, described_in
from .model_loading import load_model
from .node_limits import MAX_NODES
from .possible_calls import Calls, possible_calls
from .shape_inference import Shapes, infer_shapes

# Nodes that are traced, in all traces of a model together; each takes about a millisecond.
MOST_TRACED = 4000


@dataclass(frozen=True)
class CheckedModel:
    """The findings about a model.

    Args:
      calls: who takes it.
      nodes: the labels of the nodes that DirectML has an operator for, each with the operator, or why it is refused.
      skipped: by operator, how many nodes have none, or follow from constants.
    """

    calls: Calls
    nodes: Sequence[tuple[str, str | ConstraintError]]
    skipped: Mapping[str, int]


def check_model(path: Path, level: Any, sizes: Sizes, max_nodes: int | None = None) -> CheckedModel:
    """Checks a model, and its data movement against a feature level of DirectML.

    Args:
      path: the model.
      level: of features.
      sizes: what the model leaves open.
      max_nodes: how many nodes it may run; None for the default.

    Raises:
      ConstraintError: the model cannot be read, the sizes are not of it, or it cannot be run.
    """
    model, folder = load_model(path)
    graph = with_sizes(read_graph(model, folder, max_nodes=max_nodes or MAX_NODES), sizes)
    nodes: dict[str, str | ConstraintError] = {}
    with sharing_outputs(MOST_TRACED):
        try:
            shapes = _shapes(graph)
            calls = possible_calls(model, graph, shapes)
            nodes = {node.label: _accepted(node, level) for node in described_in(graph, shapes.arrays)}
        except NotTracedError as error:
            run = f"not traced, because {error}; `dml-jax run` traces all"
            calls = Calls(run, "`to_jax(model)` takes it; not traced")
    skipped = Counter(step.op_type for step in graph.steps if step.label not in nodes)
    return CheckedModel(calls, list(nodes.items()), skipped)


def _shapes(graph: Graph) -> Shapes:
    try:
        return infer_shapes(graph)
    except (ConstraintError, NotTracedError):
        raise
    except Exception as error:
        raise OnnxError(f"it cannot be traced: {error}") from error


def _accepted(node: Described, level: Any) -> str | ConstraintError:
    """Returns the operator of a node if the feature level takes it, or why not."""
    if not isinstance(node.desc, OperatorDesc):
        return node.desc
    try:
        node.desc.validate(level)
    except ConstraintError as error:
        return error
    return node.desc.operator_type
