"""`dml-jax check`: checks models without running them, and lists their operators and every fault."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..core.structs.feature_level import FeatureLevel
from ..dxdispatch.faults import Fault, ModelError
from ..errors import ConstraintError, Faults
from .graph_picture import PictureFile, write_picture
from .option_types import Named, sizes
from .shared_options import (
    FOLDER,
    MODEL,
    faults_of,
    feature_level,
    is_graph,
    is_onnx,
    json_output,
    max_nodes,
    need_onnx,
    print_json,
    refuse_options,
    show_faults,
)

if TYPE_CHECKING:
    from ..core.structs.computation import Computation
    from ..dxdispatch.model_file import Model
    from ..graphs.graph_desc import GraphDesc
    from ..onnx.free_dimensions import Sizes


@click.command(
    short_help="List every fault of model files, without running them.",
    epilog="""\b
Examples:
  dml-jax check docs/models/*.json
  dml-jax check model.onnx --feature-level 3_0
  dml-jax check model.onnx --shape batch=1 --shape image=1x3x224x224
  dml-jax check graph.bin
  dml-jax check model.json --json
  dml-jax check model.json --picture graph.svg""",
)
@click.argument("models", type=MODEL, nargs=-1, required=True)
@click.option(
    "--output-dir",
    type=FOLDER,
    show_default="the model's folder",
    help="Check whether files can be written to this folder, which `run` would write to.",
)
@click.option(
    "--picture",
    type=PictureFile(),
    help="Draw the graphs of one model without faults, as .svg, or as .dot or .gv for graphviz.",
)
@click.option(
    "--shape",
    "shapes",
    type=Named("NAME=SIZES", sizes, "n=2 or image=1x3x224x224"),
    multiple=True,
    help="Set sizes that an ONNX model leaves open: n=2 for a size, img=1x3x224x224 for an input; once each.",
)
@max_nodes
@feature_level
@json_output
def check(
    models: tuple[Path, ...],
    output_dir: Path | None,
    picture: Path | None,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    max_nodes: int | None,
    feature_level: FeatureLevel,
    as_json: bool,
) -> None:
    """Check MODELS and list every fault. Nothing runs, and nothing is written except the picture of --picture.

    MODELS are DxDispatch model files (.json), ONNX models (.onnx) and serialized graphs (.bin). Of an ONNX model it
    says first whether `dml-jax run` and `to_jax` take it, and with which arguments. For each operator of a graph, and
    each node of an ONNX model that moves data, it says whether the feature level of DirectML has it. Other nodes, such
    as Conv, Gemm and Relu, are counted.

    Exit status: 0 all are valid, 1 one has faults or no picture, 2 the command line is wrong, 130 interrupted.
    """
    if any(is_onnx(path) or is_graph(path) for path in models):
        refuse_options("DxDispatch model files", "output_dir")
    if any(map(is_onnx, models)):
        refuse_options("DxDispatch model files and serialized graphs", "picture")
        need_onnx()
    if not all(map(is_onnx, models)):
        refuse_options("ONNX models", "shapes", "max_nodes")
    if picture and len(models) > 1:
        raise click.UsageError(f"--picture is of one model, but {len(models)} are given")
    checked = []
    for path in models:
        model = _check(path, feature_level, output_dir, dict(shapes), max_nodes)
        checked.append(model)
        if not as_json:
            for line in model.lines:
                click.echo(f"{path}: {line}")
            show_faults(path, model.faults)
    if as_json:
        print_json({"feature_level": str(feature_level), "files": [model.as_json() for model in checked]})
    if any(model.faults for model in checked):
        sys.exit(1)
    if picture:
        _draw(picture, checked[0])


def _draw(picture: Path, checked: _Checked) -> None:
    try:
        write_picture(picture, checked.path, checked.graphs)
    except ConstraintError as error:
        show_faults(checked.path, [Fault.of(error)])
    except OSError as error:
        show_faults(picture, [Fault("", f"cannot be written: {error.strerror}")])
    else:
        return
    sys.exit(1)


@dataclass(frozen=True)
class _Checked:
    """The findings of `check` in one file.

    Args:
      path: the file.
      operators: where, and the DirectML operator that is accepted there.
      faults: all of them.
      lines: the lines about what is accepted.
      graphs: those among the operators, by name.
      findings: more entries of the JSON object.
    """

    path: Path
    operators: Sequence[tuple[str, str]]
    faults: Sequence[Fault]
    lines: Sequence[str]
    graphs: Mapping[str, GraphDesc] = field(default_factory=dict)
    findings: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The entry of this file in the output of `check --json`."""
        return {
            "path": str(self.path),
            "valid": not self.faults,
            "operators": [{"where": where, "operator": operator} for where, operator in self.operators],
            "faults": [{"where": fault.where, "line": fault.line, "what": fault.what} for fault in self.faults],
            **self.findings,
        }


def _check(path: Path, level: FeatureLevel, output: Path | None, sizes: Sizes, max_nodes: int | None) -> _Checked:
    if is_onnx(path):
        return _check_onnx(path, level, sizes, max_nodes)
    return _check_graph(path, level) if is_graph(path) else _check_model(path, level, output)


def _check_model(path: Path, level: FeatureLevel, output: Path | None) -> _Checked:
    """Checks a DxDispatch model file; `output` is the folder that it would write to."""
    from ..dxdispatch.commands import Dispatchable
    from ..dxdispatch.model_file import read_model
    from ..graphs.graph_desc import GraphDesc

    try:
        model = read_model(path, feature_level=level, output=output)
    except ModelError as error:
        return _Checked(path, [], error.faults, [])
    described = {name: d for name, d in model.dispatchables.items() if isinstance(d, Dispatchable)}
    operators = [
        (f"dispatchable {name!r}{of_node}", operator)
        for name, dispatchable in described.items()
        for of_node, operator in _operators(dispatchable.desc)
    ]
    graphs = {name: d.desc for name, d in described.items() if isinstance(d.desc, GraphDesc)}
    return _Checked(path, operators, [], [f"valid at feature level {level}, {_counted(model)}"], graphs)


def _operators(desc: Computation[Any]) -> Iterator[tuple[str, str]]:
    """Yields the place and the type of each operator in a dispatchable."""
    from ..graphs.graph_desc import GraphDesc

    if not isinstance(desc, GraphDesc):
        yield "", desc.operator_type
        return
    yield from ((f": node {name!r}", node.operator_type) for name, node in desc.operators.items())


def _check_onnx(path: Path, level: FeatureLevel, sizes: Sizes, max_nodes: int | None) -> _Checked:
    """Checks an ONNX model: who takes it, and its nodes that DirectML has an operator for."""
    from ..onnx.check_file import check_model

    try:
        model = check_model(path, level, sizes, max_nodes)
    except ConstraintError as error:
        return _Checked(path, [], faults_of(path, error), [])
    faults = [Fault(where, str(node)) for where, node in model.nodes if isinstance(node, ConstraintError)]
    operators = [(where, node) for where, node in model.nodes if not isinstance(node, ConstraintError)]
    lines = [model.calls.run, model.calls.to_jax]
    lines += [f"{where}: {operator} is accepted at feature level {level}" for where, operator in operators]
    if model.skipped:
        counts = ", ".join(f"{count} {operator}" for operator, count in sorted(model.skipped.items()))
        lines.append(f"not checked for DirectML, because they move no data or are constants: {counts}")
    findings = {"run": model.calls.run, "to_jax": model.calls.to_jax, "skipped": dict(model.skipped)}
    return _Checked(path, operators, faults, lines, findings=findings)


def _check_graph(path: Path, level: FeatureLevel) -> _Checked:
    """Checks a serialized graph: its operators, the files of its constants, and the memory that it takes."""
    from ..graphs.graph_files import constant_files, read_graph_file
    from ..graphs.working_set import check_graph

    errors = Faults()
    operators: list[tuple[str, str]] = []
    graphs: dict[str, GraphDesc] = {}
    with errors.at():
        graph = read_graph_file(path)
        graphs[path.stem] = graph
        for error in graph.faults(level):
            errors.add(ConstraintError(error.what, error.where[1:]))  # without "GRAPH", which the file is
        refused = {error.where[0] for error in errors.errors if error.where}
        nodes = [(f"node {name!r}", node) for name, node in graph.operators.items()]
        operators = [(where, node.operator_type) for where, node in nodes if where not in refused]
        with errors.at():
            constant_files(graph, path.parent)
        check_graph(graph)
    faults = [Fault.of(error) for error in errors.errors]
    lines = [f"{where}: {operator} is accepted at feature level {level}" for where, operator in operators]
    return _Checked(path, operators, faults, lines, graphs)


def _counted(model: Model) -> str:
    parts = (
        (len(model.buffers), "resource"),
        (len(model.dispatchables), "dispatchable"),
        (len(model.commands), "command"),
    )
    return ", ".join(f"{count} {what}{'s' * (count != 1)}" for count, what in parts)
