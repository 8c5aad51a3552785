"""The command line: `run` and `check` model files, and list the operators with their rules."""

import math
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import click
from click.core import ParameterSource
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .batch.command import batch
from .bench.command import bench
from .descriptors.feature_level import FeatureLevel, columns
from .descriptors.json_form import suggestion
from .descriptors.operator import NEWEST, OperatorDesc
from .descriptors.registry import CLASSES, OPERATORS
from .descriptors.tensor import FIELDS, TENSOR
from .errors import ConstraintError
from .model.file import Model, ModelError, read_model
from .model.timing import Timing

__all__ = ["command"]

MODEL = click.Path(path_type=Path)
SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 100}


class _Level(click.ParamType):
    name = "level"

    def convert(self, value: Any, param: Any, ctx: Any) -> FeatureLevel:
        try:
            return FeatureLevel.of(value)
        except ConstraintError as error:
            self.fail(str(error), param, ctx)


class _Milliseconds(click.ParamType):
    name = "ms"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        milliseconds = math.nan
        with suppress(ValueError):
            milliseconds = float(value)
        if not 0 <= milliseconds <= DAY:
            self.fail(f"{value!r} is no number of milliseconds from 0 to {DAY}, a day", param, ctx)
        return milliseconds


DAY = 86_400_000
feature_level = click.option(
    "--feature-level", type=_Level(), default=str(NEWEST), help="DirectML feature level whose rules hold, such as 3_0."
)


@click.group(context_settings=SETTINGS)
@click.version_option(package_name="dml_jax")
def command() -> None:
    """DirectML's index and depth/space operators on any device that JAX has.

    Exit status: 0 done, 1 a model has faults or failed, 2 the command line is wrong, 130 interrupted.
    """


@command.command()
@click.argument("model", type=MODEL, required=False)
@click.option("-a", "--device", default="", help="Part of the name of the device to run on; the first match is taken.")
@click.option("-s", "--show-devices", is_flag=True, help="List the devices and exit.")
@click.option("-i", "--iterations", type=click.IntRange(1), default=1, help="Dispatch-and-wait loops per dispatch.")
@click.option("-r", "--repeat", type=click.IntRange(1), default=1, help="Dispatches inside one iteration.")
@click.option("-t", "--milliseconds", type=_Milliseconds(), help="Time to run each dispatch for; overrides -i.")
@click.option("-w", "--warmup", type=click.IntRange(0), default=1, help="Most samples to leave out as warm-up.")
@click.option("-I", "--interval", type=_Milliseconds(), default=0.0, help="Least milliseconds between iterations.")
@click.option("-v", "--verbosity", type=click.IntRange(0, 2), default=0, help="0 medians, 1 cold and hot, 2 all.")
@click.option("--input", "inputs", multiple=True, metavar="[NAME=]FILE", help="A .npy file for an input of a .onnx.")
@click.option("--output-dir", type=click.Path(file_okay=False, path_type=Path), help="Folder that files go to.")
@feature_level
def run(
    model: Path | None,
    device: str,
    show_devices: bool,
    inputs: tuple[str, ...],
    output_dir: Path | None,
    feature_level: FeatureLevel,
    **timing: Any,
) -> None:
    """Run MODEL: a DxDispatch model file, or a .onnx file, whose outputs are written as .npy files.

    Files are written to the folder of the model, or to --output-dir, and nowhere else.
    """
    import jax

    from .model.run import run_model

    if show_devices:
        for found in _devices():
            click.echo(f"{found.device_kind} ({found.platform}:{found.id})")
        return
    if model is None:
        raise click.UsageError("Missing argument 'MODEL'.")
    if _is_onnx(model):
        _refuse_options("a DxDispatch model file", *timing, "feature_level")
        _run_onnx(model, inputs, _choose(device), output_dir or model.parent)
        return
    _refuse_options("a .onnx file", "inputs")
    checked = _read(model, feature_level=feature_level, output=output_dir)
    chosen = _choose(device)
    click.echo(f"Running on '{chosen.device_kind}'")
    try:
        run_model(checked, chosen, click.echo, timing=Timing(**timing), output=output_dir)
    except ModelError as error:
        _fail(error)
    except ConstraintError as error:  # a source that changed since it was checked
        sys.exit(f"error: {model}: {error}")
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        sys.exit(f"error: {model}: {chosen.device_kind} failed: {str(error) or 'out of memory'}")


@command.command()
@click.argument("models", type=MODEL, nargs=-1, required=True)
@click.option("--output-dir", type=click.Path(file_okay=False, path_type=Path), help="Folder that writeFile may use.")
@feature_level
def check(models: tuple[Path, ...], output_dir: Path | None, feature_level: FeatureLevel) -> None:
    """Check the DxDispatch model files MODELS and list every fault; run and write nothing.

    Of a .onnx file, it says for each node that DirectML has an operator for whether the feature level takes it.
    """
    if any(map(_is_onnx, models)):
        _refuse_options("DxDispatch model files", "output_dir")
    errors: list[ConstraintError] = []
    for path in models:
        if _is_onnx(path):
            errors += _check_onnx(path, feature_level)
            continue
        try:
            model = read_model(path, feature_level=feature_level, output=output_dir)
            click.echo(f"{path}: valid at feature level {feature_level}, {_counted(model)}")
        except ModelError as error:
            errors.append(error)
            _show(error)
    if errors:
        sys.exit(1)


@command.command()
@click.argument("name", required=False)
@click.option("--feature-level", type=_Level(), default=str(NEWEST), help="Level whose rules are listed.")
def ops(name: str | None, feature_level: FeatureLevel) -> None:
    """List the operators; with NAME, such as GATHER_ND1, its fields, rules and feature levels."""
    console = Console()
    if name is None:
        table = Table("operator", "since", "fields", box=None, pad_edge=False)
        for cls in CLASSES:
            table.add_row(cls.operator_type, str(cls.support[-1].since), ", ".join(cls.directml_names().values()))
        console.print(table)
        return
    key = name.removeprefix("DML_OPERATOR_").upper()
    if key not in OPERATORS:
        raise click.UsageError(f"unknown operator {name!r}; {suggestion(key, OPERATORS)}")
    _show_operator(console, OPERATORS[key], feature_level)


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


def _run_onnx(path: Path, inputs: tuple[str, ...], device: Any, folder: Path) -> None:
    import jax

    _need_onnx()
    from .onnx.command import run_model

    click.echo(f"Running on '{device.device_kind}'")
    try:
        run_model(path, inputs, device, folder, click.echo)
        return
    except ConstraintError as error:
        text = str(error)
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        text = f"{device.device_kind} failed: {str(error) or 'out of memory'}"
    click.echo(f"error: {path}: {text}", err=True)
    sys.exit(1)


def _check_onnx(path: Path, level: FeatureLevel) -> list[ConstraintError]:
    """Says of each node whether the level takes it, and returns why not."""
    _need_onnx()
    from .onnx.command import check_model

    refused = []
    try:
        for text, error in check_model(path, level):
            if error is None:
                click.echo(f"{path}: {text} is accepted at feature level {level}")
            else:
                refused.append(error)
                click.echo(f"error: {path}: {text}: {error}", err=True)
    except ConstraintError as error:
        refused.append(error)
        click.echo(f"error: {path}: {error}", err=True)
    return refused


def _need_onnx() -> None:
    try:
        from . import onnx  # noqa: F401
    except ImportError as error:
        sys.exit(f"dml-jax: {error}")


def _show_operator(console: Console, cls: type[OperatorDesc], level: FeatureLevel) -> None:
    console.print(f"[bold]DML_OPERATOR_{cls.operator_type}[/bold]  {escape(_summary(cls))}\n")
    console.print(f"fields: {', '.join(cls.directml_names().values())}\n")
    console.print(f"rules at feature level {level}:")
    _show_rules(console, cls.wordings(level).values())
    console.print("\nrules of every tensor:")
    _show_rules(console, (rule.worded(FIELDS) for rule in TENSOR))
    table = Table(*columns(cls.support[0]), box=None, pad_edge=False)
    for row in cls.support:
        table.add_row(*columns(row).values())
    console.print()
    console.print(table)


def _show_rules(console: Console, texts: Iterable[str]) -> None:
    for text in texts:
        console.print(f"  - {escape(text)}", highlight=False, soft_wrap=True)


def _summary(cls: type[OperatorDesc]) -> str:
    return (cls.__doc__ or "").splitlines()[0].split(": ", 1)[1].replace("`", "")


def _read(path: Path, **options: Any) -> Model:
    try:
        return read_model(path, **options)
    except ModelError as error:
        _fail(error)


def _fail(error: ModelError) -> NoReturn:
    _show(error)
    sys.exit(1)


def _show(error: ModelError) -> None:
    for fault in error.faults:
        click.echo(f"error: {error.path}: {fault}", err=True)


def _counted(model: Model) -> str:
    parts = (
        (len(model.buffers), "resource"),
        (len(model.dispatchables), "dispatchable"),
        (len(model.commands), "command"),
    )
    return ", ".join(f"{count} {what}{'s' * (count != 1)}" for count, what in parts)


def _devices() -> list[Any]:
    """The default backend's devices, then the CPU's."""
    import jax

    found = jax.devices()
    return found if found[0].platform == "cpu" else [*found, *jax.devices("cpu")]


def _choose(part: str) -> Any:
    devices = _devices()
    for device in devices:
        if part.casefold() in f"{device.device_kind} ({device.platform}:{device.id})".casefold():
            return device
    names = ", ".join(f"{d.device_kind} ({d.platform}:{d.id})" for d in devices)
    raise click.UsageError(f"no device matches {part!r}; there are {names}")
