"""`dml-jax run`: executes a DxDispatch model file, an ONNX model or a serialized graph."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ..core.feature_level import FeatureLevel
from ..dxdispatch.faults import Fault, ModelError
from ..errors import ConstraintError
from .devices import choose, devices, label
from .shared import FOLDER, MODEL, feature_level, is_graph, is_onnx, need_onnx, print_json, refuse_options, show_faults
from .types import Milliseconds

if TYPE_CHECKING:
    from ..dxdispatch.model_file import Model
    from ..dxdispatch.timing import Timing

__all__ = ["run"]


@click.command(
    short_help="Run a DxDispatch model file, an ONNX model or a graph.",
    epilog="""\b
Examples:
  dml-jax run docs/models/gather.json
  dml-jax run docs/models/photo.json --output-dir out
  dml-jax run docs/models/gather.json --milliseconds 500 --verbosity 1
  dml-jax run docs/models/gather.json --iterations 100 --json
  dml-jax run model.onnx --input mask=mask.npy --input picture=picture.npy
  dml-jax run graph.bin --input x=x.npy --output-dir out
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
    help="A .npy file for an input of an ONNX model or a graph, by name or in order; once per input.",
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
    """Run MODEL: a DxDispatch model file (.json), or an ONNX model (.onnx) or a serialized graph (.bin), whose outputs
    are written as .npy files.

    A model file is checked first; if it has faults, they are listed and nothing runs. The constants of a graph that
    have names are read from NAME.bin beside it. Files are written to the folder of the model, or to --output-dir, and
    nowhere else.

    Exit status: 0 done, 1 the model has faults or failed, 2 the command line is wrong, 130 interrupted.
    """
    if show_devices:
        _show_devices(as_json)
        return
    if model is None:
        raise click.UsageError("Missing argument 'MODEL'.")
    if is_onnx(model) or is_graph(model):
        refuse_options("a DxDispatch model file", *timing, "feature_level", "as_json")
        _run_on_arrays(model, inputs, device, output_dir or model.parent)
        return
    refuse_options("a .onnx or .bin file", "inputs")
    from ..dxdispatch.timing import Timing

    checked = _read(model, feature_level=feature_level, output=output_dir)
    _run_model(checked, choose(device), Timing(**timing), output_dir, as_json)


def _show_devices(as_json: bool) -> None:
    found = devices()
    if as_json:
        listed = [{"label": label(d), "kind": d.device_kind, "platform": d.platform, "id": d.id} for d in found]
        print_json({"devices": listed})
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

    def show(text: str) -> None:
        click.echo(text, nl=False, err=as_json)

    say(f"Running on '{device.device_kind}'")
    try:
        run_model(model, device, say, timing=timing, output=output, record=record, show=show)
    except ModelError as error:
        _fail(error.path, error.faults)
    except ConstraintError as error:  # a source that changed since it was checked
        _fail(model.path, [Fault("", str(error))])
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        _fail(model.path, [_device_fault(device, error)])
    if as_json:
        print_json({"device": label(device), "dispatches": dispatches})


def _run_on_arrays(path: Path, inputs: tuple[str, ...], part: str, folder: Path) -> None:
    """Runs an ONNX model or a graph, on .npy files."""
    import jax

    run_file = _file_runner(path)
    device = choose(part)
    click.echo(f"Running on '{device.device_kind}'")
    try:
        run_file(path, inputs, device, folder, click.echo)
    except ConstraintError as error:
        _fail(path, _faults(path, error))
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        _fail(path, [_device_fault(device, error)])


def _file_runner(path: Path) -> Callable[..., None]:
    if is_graph(path):
        from ..graphs.files import run_graph_file

        return run_graph_file
    need_onnx()
    from ..onnx.model_files import run_file

    return run_file


def _faults(path: Path, error: ConstraintError) -> list[Fault]:
    """The faults that an error tells of; that of a file which cannot be read has its path."""
    errors = getattr(error, "errors", [error])
    return [Fault("", one.what) if one.where == (str(path),) else Fault("", str(one)) for one in errors]


def _device_fault(device: Any, error: Exception) -> Fault:
    return Fault("", f"{device.device_kind} failed: {str(error) or 'out of memory'}")


def _read(path: Path, **options: Any) -> Model:
    from ..dxdispatch.model_file import read_model

    try:
        return read_model(path, **options)
    except ModelError as error:
        _fail(path, error.faults)


def _fail(path: Path, faults: Sequence[Fault]) -> NoReturn:
    show_faults(path, faults)
    sys.exit(1)
