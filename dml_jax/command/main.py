"""The command line: `run` and `check` model files, and list the operators with their rules."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click
from click.core import ParameterSource

from .. import __version__
from ..catalogue import DESCS
from ..core.desc import OperatorDesc
from ..core.feature_level import NEWEST, FeatureLevel
from ..dxdispatch.model_file import Fault, Model, ModelError, read_model
from ..dxdispatch.timing import Timing
from ..errors import ConstraintError
from . import ops as listing
from .batch import batch
from .bench import bench
from .check import check_model, check_onnx
from .devices import choose, devices, label
from .types import Level, Milliseconds, Operator

__all__ = ["command"]

MODEL = click.Path(path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 100}


feature_level = click.option(
    "--feature-level", type=Level(), default=str(NEWEST), help="DirectML feature level whose rules hold, such as 3_0."
)
json_output = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


@click.group(
    context_settings=SETTINGS,
    epilog="""\b
Examples:
  dml-jax run docs/models/gather.json
  dml-jax check docs/models/*.json --feature-level 3_0
  dml-jax ops GATHER_ND1

`dml-jax COMMAND --help` explains a command.""",
)
@click.version_option(__version__)
def command() -> None:
    """Run DirectML's index and depth/space operators on any device that JAX has.

    Results go to the standard output, errors and progress to the standard error. Exit status: 0 done, 1 failed,
    2 the command line is wrong, 130 interrupted.
    """


@command.command(
    short_help="Run a DxDispatch model file or an ONNX model.",
    epilog="""\b
Examples:
  dml-jax run docs/models/gather.json
  dml-jax run docs/models/photo.json --output-dir out
  dml-jax run docs/models/gather.json --milliseconds 500 --verbosity 1
  dml-jax run docs/models/gather.json --iterations 100 --json
  dml-jax run model.onnx --input mask=mask.npy --input picture=picture.npy
  dml-jax run --show-devices""",
)
@click.argument("model", type=MODEL, required=False)
@click.option(
    "-a",
    "--device",
    default="",
    metavar="PART",
    show_default="the first one listed",
    help="Run on the first device whose line in --show-devices has this in it.",
)
@click.option("-s", "--show-devices", is_flag=True, help="List the devices and exit; no MODEL is needed.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the times of a DxDispatch model file, or with --show-devices the devices, as JSON, and all else on the "
    "standard error.",
)
@click.option(
    "-i",
    "--iterations",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="Dispatch and wait this often, for every dispatch command.",
)
@click.option(
    "-r",
    "--repeat",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="Dispatches in one iteration, before it waits; an iteration's time is divided by it.",
)
@click.option(
    "-t",
    "--milliseconds",
    type=Milliseconds(),
    help="Go on with iterations for so many milliseconds, instead of --iterations.",
)
@click.option(
    "-w",
    "--warmup",
    type=click.IntRange(0),
    default=1,
    metavar="N",
    help="Leave out the first iterations as warm-up: at most so many, never the last one.",
)
@click.option(
    "-I",
    "--interval",
    type=Milliseconds(),
    default=0.0,
    help="Least milliseconds from the beginning of one iteration to that of the next.",
)
@click.option(
    "-v",
    "--verbosity",
    type=click.IntRange(0, 2),
    default=0,
    metavar="N",
    help="What is said of times: 0 the median; 1 cold and hot statistics, and memory; 2 every iteration too.",
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="[NAME=]FILE",
    help="A .npy file for an input of an ONNX model, by name or in order; once per input.",
)
@click.option(
    "--output-dir", type=FOLDER, show_default="the model's folder", help="Folder that files go to; made when needed."
)
@feature_level
def run(
    model: Path | None,
    device: str,
    show_devices: bool,
    as_json: bool,
    inputs: tuple[str, ...],
    output_dir: Path | None,
    feature_level: FeatureLevel,
    **timing: Any,
) -> None:
    """Run MODEL: a DxDispatch model file (.json), or an ONNX model (.onnx), whose outputs are written as .npy files.

    A model file is checked first; if it has faults, they are listed and nothing runs. Files are written to the folder
    of the model, or to --output-dir, and nowhere else.

    Exit status: 0 done, 1 the model has faults or failed, 2 the command line is wrong, 130 interrupted.
    """
    if show_devices:
        _show_devices(as_json)
        return
    if model is None:
        raise click.UsageError("Missing argument 'MODEL'.")
    if _is_onnx(model):
        _refuse_options("a DxDispatch model file", *timing, "feature_level", "as_json")
        _need_onnx()
        _run_onnx(model, inputs, choose(device), output_dir or model.parent)
        return
    _refuse_options("a .onnx file", "inputs")
    checked = _read(model, feature_level=feature_level, output=output_dir)
    _run_model(checked, choose(device), Timing(**timing), output_dir, as_json)


@command.command(
    short_help="List every fault of model files, running nothing.",
    epilog="""\b
Examples:
  dml-jax check docs/models/*.json
  dml-jax check model.onnx --feature-level 3_0
  dml-jax check model.json --json""",
)
@click.argument("models", type=MODEL, nargs=-1, required=True)
@click.option(
    "--output-dir",
    type=FOLDER,
    show_default="the model's folder",
    help="Folder that `run` would write to: whether files can be written there is checked.",
)
@feature_level
@json_output
def check(models: tuple[Path, ...], output_dir: Path | None, feature_level: FeatureLevel, as_json: bool) -> None:
    """Check MODELS and list every fault; run and write nothing.

    They are DxDispatch model files (.json) and ONNX models (.onnx). Of an ONNX model, it says for each node that
    DirectML has an operator for whether the feature level takes it.

    Exit status: 0 all are valid, 1 one has faults, 2 the command line is wrong.
    """
    if any(map(_is_onnx, models)):
        _refuse_options("DxDispatch model files", "output_dir")
        _need_onnx()
    checked = []
    for path in models:
        found = check_onnx(path, feature_level) if _is_onnx(path) else check_model(path, feature_level, output_dir)
        checked.append(found)
        if not as_json:
            for line in found.lines:
                click.echo(f"{path}: {line}")
            _show_faults(path, found.faults)
    if as_json:
        _print_json({"feature_level": str(feature_level), "files": [found.as_json() for found in checked]})
    if any(found.faults for found in checked):
        sys.exit(1)


@command.command(
    short_help="List the operators, or one's fields, rules and feature levels.",
    epilog="""\b
Examples:
  dml-jax ops
  dml-jax ops GATHER_ND1 --feature-level 3_0
  dml-jax ops --json""",
)
@click.argument("operator", type=Operator(), required=False)
@feature_level
@json_output
def ops(operator: type[OperatorDesc] | None, feature_level: FeatureLevel, as_json: bool) -> None:
    """List the operators; or the fields, rules and feature levels of OPERATOR, such as GATHER_ND1.

    Exit status: 0 done, 2 the command line is wrong.
    """
    if as_json:
        _print_json(listing.as_json([operator] if operator else DESCS, feature_level))
    elif operator:
        listing.show_one(operator, feature_level)
    else:
        listing.show_all(DESCS)


command.add_command(batch)
command.add_command(bench)


def _is_onnx(path: Path) -> bool:
    return path.suffix.lower() == ".onnx"


def _refuse_options(only: str, *names: str) -> None:
    """Options that are given, but do nothing for this kind of model."""
    context = click.get_current_context()
    for option in context.command.params:
        if option.name in names and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option.opts[-1]} is for {only} only")


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2))


# Running.


def _show_devices(as_json: bool) -> None:
    found = devices()
    if as_json:
        listed = [{"label": label(d), "kind": d.device_kind, "platform": d.platform, "id": d.id} for d in found]
        _print_json({"devices": listed})
        return
    for device in found:
        click.echo(label(device))


def _run_model(model: Model, device: Any, timing: Timing, output: Path | None, as_json: bool) -> None:
    import jax

    from ..dxdispatch.run import run_model

    dispatches: list[dict[str, Any]] = []

    def say(line: str) -> None:
        click.echo(line, err=as_json)

    def record(name: str, samples: Sequence[float]) -> None:
        dispatches.append({"dispatchable": name, "milliseconds": list(samples), "warmup": timing.cold(samples)})

    say(f"Running on '{device.device_kind}'")
    try:
        run_model(model, device, say, timing=timing, output=output, record=record)
    except ModelError as error:
        _fail(error.path, error.faults)
    except ConstraintError as error:  # a source that changed since it was checked
        _fail(model.path, [Fault("", str(error))])
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        _fail(model.path, [_device_fault(device, error)])
    if as_json:
        _print_json({"device": label(device), "dispatches": dispatches})


def _run_onnx(path: Path, inputs: tuple[str, ...], device: Any, folder: Path) -> None:
    import jax

    from ..onnx.model_files import run_model

    click.echo(f"Running on '{device.device_kind}'")
    try:
        run_model(path, inputs, device, folder, click.echo)
    except ConstraintError as error:
        _fail(path, [Fault("", str(error).removeprefix(f"{path}: "))])
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        _fail(path, [_device_fault(device, error)])


def _device_fault(device: Any, error: Exception) -> Fault:
    return Fault("", f"{device.device_kind} failed: {str(error) or 'out of memory'}")


def _read(path: Path, **options: Any) -> Model:
    try:
        return read_model(path, **options)
    except ModelError as error:
        _fail(path, error.faults)


def _fail(path: Path, faults: Sequence[Fault]) -> NoReturn:
    _show_faults(path, faults)
    sys.exit(1)


def _show_faults(path: Path, faults: Sequence[Fault]) -> None:
    for fault in faults:
        click.echo(f"error: {path}: {fault}", err=True)


def _need_onnx() -> None:
    try:
        from .. import onnx  # noqa: F401
    except ImportError as error:
        sys.exit(f"dml-jax: {error}")
