"""`dml-jax batch graph`: computes a graph in JSON form for every item of files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import ConstraintError, describe
from .batch_run import check_shared, fail, per_item, run_files, split_files, typed

if TYPE_CHECKING:
    import jax

    from ..core.tensors.tensor_desc import TensorDesc
    from ..graphs.graph_desc import GraphDesc


def run_graph(graph: Path, inputs: tuple[str, ...], output: str, shared: tuple[str, ...], **rest: Any) -> None:
    """Runs a graph over files. It is the callback of the subcommand, so its arguments are that one's."""
    import jax

    try:
        desc = _read(graph)
    except ConstraintError as error:
        fail(f"{graph}: {error}")
    files, wanted = (*inputs, output), [*desc.inputs, *desc.outputs]
    if len(files) != len(wanted):
        names = ", ".join(map(repr, wanted))
        rule = f"{graph} needs a file for each of its inputs and outputs, {names}"
        raise click.UsageError(f"{rule}, but there are {len(files)}")
    inputs, outputs = split_files(files, len(desc.outputs))
    shared += tuple(path for path, tensor in zip(inputs, desc.inputs.values(), strict=True) if tensor.flags)
    check_shared(inputs, shared)

    def of_item(*arrays: jax.Array) -> Any:
        given = zip(arrays, inputs, desc.inputs.items(), strict=True)
        read = [_as_tensor(array, path, path in shared, *of) for array, path, of in given]
        results = zip(jax.tree.leaves(desc.compute(*read)), desc.outputs.values(), strict=True)
        items = [result.reshape(_item(tensor)) for result, tensor in results]
        return items if len(items) > 1 else items[0]

    whole = [path in shared for path in inputs]
    # DirectML's numbers of 4 bits are those that a file does not name.
    types = (tensor.dtype if tensor.dtype.kind == "V" else None for tensor in desc.inputs.values())
    operands = [typed(path, dtype) for path, dtype in zip(inputs, types, strict=True)]
    known = {"operator": "graph", "shared": whole}
    run_files(lambda: per_item(of_item, whole), operands, whole, known, outputs=outputs, **rest)


def _read(path: Path) -> GraphDesc:
    """Reads a graph.

    Raises:
      ConstraintError: it has a fault, or takes too much memory.
    """
    from ..desc_json import desc_from_json, is_graph
    from ..dxdispatch.json_text import parse, read_text
    from ..graphs.graph_desc import GraphDesc
    from ..graphs.json_form import GRAPH
    from ..graphs.working_set import check_graph

    form = parse(read_text(path))
    graph = desc_from_json(form) if is_graph(form) else None
    if not isinstance(graph, GraphDesc):
        raise ConstraintError(f'it must be a graph as desc_to_json(graph) returns it, {{"type": "{GRAPH}", "desc": …}}')
    check_graph(graph)
    return graph


def _item(tensor: TensorDesc) -> tuple[int, ...]:
    """Returns the shape of an item: a first size of 1 is the place of the items."""
    return tensor.sizes[1:] if tensor.sizes[0] == 1 else tensor.sizes


def _as_tensor(array: jax.Array, path: str, is_whole: bool, name: str, tensor: TensorDesc) -> jax.Array:
    """Returns an item, or the array of a shared file, in the sizes of an input.

    Raises:
      ConstraintError: it has another shape or type.
    """
    sizes = tensor.sizes if is_whole else _item(tensor)
    if (array.shape, array.dtype) != (sizes, tensor.dtype):
        what, of = ("an array", "it is") if is_whole else ("items", "its items are")
        wanted = f"{what} of {tensor.dtype}[{','.join(map(str, sizes))}]"
        raise ConstraintError(
            f"{path}: input {name!r} of the graph is {tensor.describe()}, which takes {wanted}, but {of} "
            f"{describe(array)}; a graph is computed for one item at a time"
        )
    return array.reshape(tensor.sizes)
