"""`dml-jax run`: executes a DxDispatch model file, an ONNX model or a serialized graph."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ..core.structs.feature_level import FeatureLevel
from ..dxdispatch.faults import Fault, ModelError
from ..errors import ConstraintError, escaped
from .devices import choose, devices, label
from .long_work import told_if_long
from .model_readers import doing, reader
from .option_groups import GroupedCommand
from .run_options import ALIASES, GROUPS, IN_MODEL_FILES, ONNX, ONNX_SETTINGS, TIMES, onnx_options, timing_options
from .shared_options import (
    FOLDER,
    MODEL,
    faults_of,
    feature_level,
    given,
    input_files,
    is_graph,
    is_onnx,
    need_onnx,
    print_json,
    refuse_options,
    show_faults,
)

if TYPE_CHECKING:
    from ..array_models.array_model import ArrayModel
    from ..array_models.run import ArrayRun
    from ..dxdispatch.model_file import Model
    from ..dxdispatch.timing import Timing


@click.command(
    cls=GroupedCommand,
    groups=GROUPS,
    aliases=ALIASES,
    short_help="Run a DxDispatch model file, an ONNX model or a graph.",
    epilog="""\b
Examples:
  dml-jax run docs/models/gather.json
  dml-jax run docs/models/photo.json --output-dir out
  dml-jax run docs/models/gather.json --milliseconds 500 --verbosity 1
  dml-jax run docs/models/gather.json --iterations 100 --json
  dml-jax run model.onnx --input mask=mask.npy --input picture=picture.npy
  dml-jax run graph.bin --input x=x.npy --output-dir out
  dml-jax run model.onnx --iterations 100 -f batch=8
  dml-jax run --show-devices""",
)
@click.argument("model", type=MODEL, required=False)
@click.option(
    "-a",
    "--device",
    default="",
    metavar="PART",
    show_default="the first one listed",
    help="Run on the first device whose line in --show-devices contains this text.",
)
@click.option("-s", "--show-devices", is_flag=True, help="List the devices and exit; no MODEL is needed.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the times, or with --show-devices the devices, as JSON; other text to the standard error.",
)
@timing_options
@input_files
@click.option(
    "--input-path",
    type=FOLDER,
    show_default="a model file's own folder, or the current one",
    help="Folder that the files of --input, and every sourcePath of a model file, are relative to.",
)
@click.option(
    "--output-dir",
    type=FOLDER,
    show_default="the model's folder",
    help="Folder to write files to; it is created if needed.",
)
@click.option("--print-commands", is_flag=True, help="Print a line before each command, and one after it.")
@onnx_options
@feature_level
def run(
    model: Path | None,
    device: str,
    show_devices: bool,
    as_json: bool,
    inputs: tuple[str, ...],
    input_path: Path | None,
    output_dir: Path | None,
    print_commands: bool,
    feature_level: FeatureLevel,
    **options: Any,
) -> None:
    """Run MODEL: a DxDispatch model file (.json), an ONNX model (.onnx) or a serialized graph (.bin).

    A model file is checked first; if it has faults, they are listed and nothing runs. A constant of a graph that has a
    name is read from NAME.bin beside the graph.

    The outputs of an ONNX model or a graph are written as .npy files. With an option about times, or if an input
    has no file, it is a benchmark: such inputs are zeros, and outputs are written only to --output-dir.

    Files are written only to the folder of the model, or to --output-dir. Options are also accepted in DxDispatch's
    spelling, such as --dispatch_iterations.

    Exit status: 0 done, 1 the model has faults or failed, 2 the command line is wrong, 130 interrupted.
    """
    if show_devices:
        _show_devices(as_json)
        return
    if model is None:
        raise click.UsageError("Missing argument 'MODEL'.")
    _refuse_senseless(model)
    for option in given(*ONNX_SETTINGS):
        click.echo(f"note: {option} is a setting of ONNX Runtime and changes nothing here", err=True)
    if is_onnx(model):
        need_onnx()
    from ..dxdispatch.timing import Timing

    timing = Timing(**{name: options[name] for name in TIMES})
    started = _Run(model, choose(device), as_json, print_commands)
    if is_onnx(model) or is_graph(model):
        from ..array_models.run import ArrayRun

        asked = ArrayRun(
            given=inputs,
            given_from=input_path or Path(),
            shapes=options["shapes"],
            output=output_dir,
            timing=timing if given(*TIMES, "as_json") else None,
            shows_bindings=options["shows_bindings"],
        )
        _run_arrays(started, reader(model, options, feature_level), asked)
    else:
        checked = _read(model, feature_level=feature_level, output=output_dir, sources=input_path)
        _run_model(started, checked, timing, output_dir)


def _refuse_senseless(model: Path) -> None:
    """Refuses options that this kind of model does not take."""
    if is_onnx(model):
        hint = "`dml-jax check` says what a feature level takes of a .onnx file"
        refuse_options("a model file or a graph", "feature_level", instead=hint)
        return
    if not is_graph(model):
        refuse_options("a .onnx file", *IN_MODEL_FILES, instead="set it in the model file, or leave it out")
        refuse_options("a .onnx or .bin file", "inputs", instead="a model file has sourcePath")
    refuse_options("a .onnx file", *ONNX)


def _show_devices(as_json: bool) -> None:
    available = devices()
    if as_json:
        listed = [{"label": label(d), "kind": d.device_kind, "platform": d.platform, "id": d.id} for d in available]
        print_json({"devices": listed})
        return
    for device in available:
        click.echo(label(device))


@dataclass(frozen=True)
class _Run:
    """A run of a model: its device, and its form of output.

    Args:
      model: that is run.
      device: of JAX, that it runs on.
      as_json: whether times are JSON, and lines go to the standard error.
      tells_commands: whether each command is told of.
    """

    model: Path
    device: Any
    as_json: bool
    tells_commands: bool

    def say(self, text: str) -> None:
        click.echo(escaped(text), err=self.as_json)

    def show(self, text: str) -> None:
        click.echo(text, nl=False, err=self.as_json)

    def print_times(self, dispatches: Sequence[Mapping[str, Any]]) -> None:
        if self.as_json:
            print_json({"device": label(self.device), "dispatches": dispatches})

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Prints the device, runs the block, and on an error lists the faults and ends the command."""
        import jax

        self.say(f"Running on '{self.device.device_kind}'")
        try:
            yield
        except ModelError as error:
            _fail(error.path, error.faults)
        except ConstraintError as error:
            _fail(self.model, faults_of(self.model, error))
        except (MemoryError, jax.errors.JaxRuntimeError) as error:
            text = str(error) or "out of memory"
            _fail(self.model, [Fault("", f"{self.device.device_kind} failed: {text}")])


def _run_model(started: _Run, model: Model, timing: Timing, output: Path | None) -> None:
    from ..dxdispatch.run import run_model

    dispatches: list[dict[str, Any]] = []

    def record(name: str, samples: Sequence[float]) -> None:
        dispatches.append({"dispatchable": name, "milliseconds": list(samples), "warmup": timing.cold(samples)})

    with started.guarded():
        run_model(
            model,
            started.device,
            started.say,
            timing=timing,
            output=output,
            record=record,
            show=started.show,
            tells_commands=started.tells_commands,
        )
    started.print_times(dispatches)


def _run_arrays(started: _Run, read: Callable[[], ArrayModel], asked: ArrayRun) -> None:
    """Runs an ONNX model or a graph."""
    from ..array_models.run import run_arrays
    from ..dxdispatch.buffer_printing import told

    name = started.model.name
    saying = doing(started.model)
    with started.guarded(), told_if_long(saying) if saying else nullcontext():
        model = read()
        command = {"type": "dispatch", "dispatchable": name}
        with told(0, command, started.say) if started.tells_commands else nullcontext():
            times = run_arrays(model, asked, started.device, started.say)
    if times:
        row = {"dispatchable": name, "milliseconds": list(times.samples), "warmup": times.warmup}
        started.print_times([row | {"compile_seconds": times.compile_seconds}])


def _read(path: Path, **options: Any) -> Model:
    from ..dxdispatch.model_file import read_model

    try:
        return read_model(path, **options)
    except ModelError as error:
        _fail(path, error.faults)


def _fail(path: Path, faults: Sequence[Fault]) -> NoReturn:
    show_faults(path, faults)
    sys.exit(1)
