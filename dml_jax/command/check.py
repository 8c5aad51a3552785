"""`dml-jax check`: the operators that models may use, and every fault; nothing is run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..core.feature_level import FeatureLevel
from ..dxdispatch.faults import Fault, ModelError
from ..errors import ConstraintError
from .graph_picture import PictureFile, write_picture
from .shared import (
    FOLDER,
    MODEL,
    feature_level,
    is_onnx,
    json_output,
    need_onnx,
    print_json,
    refuse_options,
    show_faults,
)

if TYPE_CHECKING:
    from ..core.computation import Computation
    from ..dxdispatch.model_file import Model

__all__ = ["check"]


@click.command(
    short_help="List every fault of model files, running nothing.",
    epilog="""\b
Examples:
  dml-jax check docs/models/*.json
  dml-jax check model.onnx --feature-level 3_0
  dml-jax check model.json --json
  dml-jax check model.json --picture graph.svg""",
)
@click.argument("models", type=MODEL, nargs=-1, required=True)
@click.option(
    "--output-dir",
    type=FOLDER,
    show_default="the model's folder",
    help="Folder that `run` would write to: whether files can be written there is checked.",
)
@click.option(
    "--picture",
    type=PictureFile(),
    help="Draw the graphs of the only model, unless it has faults: as .svg, or as .dot or .gv for graphviz.",
)
@feature_level
@json_output
def check(
    models: tuple[Path, ...],
    output_dir: Path | None,
    picture: Path | None,
    feature_level: FeatureLevel,
    as_json: bool,
) -> None:
    """Check MODELS and list every fault; run nothing, and write nothing but the picture that is asked for.

    They are DxDispatch model files (.json) and ONNX models (.onnx). Of an ONNX model, it says for each node that
    DirectML has an operator for whether the feature level takes it.

    Exit status: 0 all are valid, 1 one has faults or no picture, 2 the command line is wrong.
    """
    if any(map(is_onnx, models)):
        refuse_options("DxDispatch model files", "output_dir", "picture")
        need_onnx()
    if picture and len(models) > 1:
        raise click.UsageError(f"--picture is of one model, but {len(models)} are given")
    checked = []
    for path in models:
        found = _check_onnx(path, feature_level) if is_onnx(path) else _check_model(path, feature_level, output_dir)
        checked.append(found)
        if not as_json:
            for line in found.lines:
                click.echo(f"{path}: {line}")
            show_faults(path, found.faults)
    if as_json:
        print_json({"feature_level": str(feature_level), "files": [found.as_json() for found in checked]})
    if any(found.faults for found in checked):
        sys.exit(1)
    if picture:
        _draw(picture, checked[0])


def _draw(picture: Path, checked: _Checked) -> None:
    assert checked.model is not None
    try:
        write_picture(picture, checked.model)
    except ConstraintError as error:
        show_faults(checked.path, [Fault.of(error)])
    except OSError as error:
        show_faults(picture, [Fault("", f"cannot be written: {error.strerror}")])
    else:
        return
    sys.exit(1)


@dataclass(frozen=True)
class _Checked:
    """What `check` finds in one file.

    Args:
      path: the file.
      operators: where, and the DirectML operator that is accepted there.
      faults: all of them.
      lines: the lines about what is accepted.
      model: a model file that is valid.
    """

    path: Path
    operators: Sequence[tuple[str, str]]
    faults: Sequence[Fault]
    lines: Sequence[str]
    model: Model | None = None

    def as_json(self) -> dict[str, Any]:
        """What `check --json` prints of the file."""
        return {
            "path": str(self.path),
            "valid": not self.faults,
            "operators": [{"where": where, "operator": operator} for where, operator in self.operators],
            "faults": [{"where": fault.where, "what": fault.what} for fault in self.faults],
        }


def _check_model(path: Path, level: FeatureLevel, output: Path | None) -> _Checked:
    """Checks a DxDispatch model file; `output` is the folder that it would write to."""
    from ..dxdispatch.model_file import read_model

    try:
        model = read_model(path, feature_level=level, output=output)
    except ModelError as error:
        return _Checked(path, [], error.faults, [])
    operators = [
        (f"dispatchable {name!r}{of_node}", operator)
        for name, dispatchable in model.dispatchables.items()
        for of_node, operator in _operators(dispatchable.desc)
    ]
    return _Checked(path, operators, [], [f"valid at feature level {level}, {_counted(model)}"], model)


def _operators(desc: Computation[Any]) -> Iterator[tuple[str, str]]:
    """The operators of what is dispatched: where in it, and their types."""
    nodes = getattr(desc, "nodes", None)
    if nodes is None:
        yield "", desc.operator_type
    for name, node in (nodes or {}).items():
        yield f": node {name!r}", node.operator_type


def _check_onnx(path: Path, level: FeatureLevel) -> _Checked:
    """Checks the nodes of an ONNX model that DirectML has an operator for."""
    from ..onnx.model_files import check_nodes

    operators, faults = [], []
    try:
        for where, found in check_nodes(path, level):
            if isinstance(found, ConstraintError):
                faults.append(Fault(where, str(found)))
            else:
                operators.append((where, found))
    except ConstraintError as error:
        faults.append(Fault("", str(error)))
    lines = [f"{where}: {operator} is accepted at feature level {level}" for where, operator in operators]
    return _Checked(path, operators, faults, lines)


def _counted(model: Model) -> str:
    parts = (
        (len(model.buffers), "resource"),
        (len(model.dispatchables), "dispatchable"),
        (len(model.commands), "command"),
    )
    return ", ".join(f"{count} {what}{'s' * (count != 1)}" for count, what in parts)
