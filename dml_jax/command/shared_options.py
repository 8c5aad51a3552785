"""Options that several subcommands share, kinds of model files, and printing of faults and JSON."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ..core.structs.feature_level import NEWEST
from ..dxdispatch.faults import Fault
from ..errors import ConstraintError
from .option_types import Level

FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
MODEL = click.Path(path_type=Path)

feature_level = click.option(
    "--feature-level",
    type=Level(),
    default=str(NEWEST),
    help="Apply the rules of this DirectML feature level, such as 3_0.",
)
input_files = click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="[NAME=]FILE",
    help="A .npy file for an input of an ONNX model or a graph, by name or in order; once per input.",
)
# As dml_jax.onnx.node_limits has it, which no option may import: help needs no JAX.
max_nodes = click.option(
    "--max-nodes",
    type=click.IntRange(1),
    show_default="16384",
    metavar="N",
    help="Most nodes that an ONNX model may run: those of functions in each call, those of unrolled loops each time.",
)
json_output = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def is_onnx(path: Path) -> bool:
    """Whether a file is an ONNX model, by its name."""
    return path.suffix.lower() == ".onnx"


def is_graph(path: Path) -> bool:
    """Whether a file is a serialized graph, by its name."""
    return path.suffix.lower() == ".bin"


def need_onnx() -> None:
    """Ends the command where the extra `onnx` is not installed, and says how to get it."""
    try:
        from .. import onnx  # noqa: F401
    except ImportError as error:
        sys.exit(f"dml-jax: {error}")


def given(*names: str) -> list[str]:
    """Returns the options, in their long form, and arguments that are on the command line."""
    context = click.get_current_context()
    params = [p for p in context.command.params if p.name in names]
    found = [p for p in params if context.get_parameter_source(p.name or "") is ParameterSource.COMMANDLINE]
    return [p.opts[-1] if isinstance(p, click.Option) else p.human_readable_name for p in found]


def refuse_options(only: str, *names: str, instead: str = "leave it out") -> None:
    """Refuses options that do nothing for this kind of model."""
    for option in given(*names):
        raise click.UsageError(f"{option} is for {only} only; {instead}")


def print_json(value: Any) -> None:
    """Prints a value as JSON."""
    click.echo(json.dumps(value, indent=2))


def faults_of(path: Path, error: ConstraintError) -> list[Fault]:
    """Returns the faults of an error; the fault of a file that cannot be read has its path."""
    errors = getattr(error, "errors", [error])
    return [Fault("", error.what) if error.where == (str(path),) else Fault("", str(error)) for error in errors]


def show_faults(path: Path, faults: Sequence[Fault]) -> None:
    """Prints a line per fault of a file, on the standard error."""
    for fault in faults:
        click.echo(f"error: {fault.at(path)}", err=True)
