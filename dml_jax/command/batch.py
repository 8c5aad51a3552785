"""`dml-jax batch`: one subcommand per operator, over .npy files of any size."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.shell_completion import CompletionItem

from ..errors import ConstraintError, suggestion
from .devices import CPU_DEVICES, arrange_cpu_devices, devices
from .names import function_names, items
from .shared import FILE

if TYPE_CHECKING:
    import jax

    from ..batch.hosts import Hosts
    from ..batch.jobs import Share
    from ..batch.mapping import Progress
    from .batch_options import BatchOperator

__all__ = ["batch"]


class _DataType(click.ParamType):
    name = "type"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        import jax.numpy as jnp

        try:
            return jnp.dtype(value)
        except TypeError:
            raise click.BadParameter(f"{value!r} is not a type such as bfloat16", ctx, param) from None


class _Address(click.ParamType):
    name = "host:port"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        host, _, port = value.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 2**16:
            raise click.BadParameter(f"{value!r} is not a HOST:PORT such as 10.0.0.1:1234", ctx, param)
        return value


class _Operators(click.Group):
    """A subcommand per operator. Making one needs the operator, and so JAX; listing them does not."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(function_names())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in function_names():
            return None
        from .batch_options import batch_operators

        return _subcommand(cmd_name, batch_operators()[cmd_name])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # Click suggests only subcommands that are made already, which is none of them.
        if args[0][:1] != "-" and args[0] not in (names := function_names()) and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}; {suggestion(args[0].replace('-', '_'), names)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _sentence(does)) for name, does in sorted(function_names().items())])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return [*items(function_names(), incomplete), *click.Command.shell_complete(self, ctx, incomplete)]


def _sentence(line: str) -> str:
    """The first line of a docstring, up to what it adds."""
    return line.partition(";")[0].rstrip(".") + "."


@click.group(
    cls=_Operators,
    short_help="Apply an operator to .npy files larger than memory.",
    epilog="""\b
Examples:
  dml-jax batch depth_to_space pictures.npy result.npy --block-size 2
  dml-jax batch gather table.npy indices.npy rows.npy --axis 0 --shared input""",
)
def batch() -> None:
    """Apply an operator to every item of .npy files that need not fit in memory.

    The leading dimension of every file counts the items. The operator sees one item at a time, so --axis counts the
    dimensions of an item. The output is written under a temporary name and renamed when it is complete. After an
    interruption, run the same command again to continue.

    Exit status: 0 done, 1 failed, 2 the command line is wrong, 130 interrupted.
    """


_COMMON = (
    click.Option(
        ["--dtype"],
        type=_DataType(),
        show_default="the files'",
        help="Type of the data, if a file does not name it: numpy.save does not name bfloat16 and float8.",
    ),
    click.Option(
        ["--batch-size"],
        type=click.IntRange(1),
        metavar="N",
        show_default="64 MB of them, read and written",
        help="How many items are computed at a time.",
    ),
    click.Option(
        ["--cpu-devices"],
        type=CPU_DEVICES,
        metavar="N",
        show_default="one per core",
        help="How many devices JAX makes of the CPU; they share every batch. On a GPU it does nothing.",
    ),
    click.Option(["--restart"], is_flag=True, help="Forget the progress of an earlier run."),
    click.Option(["--overwrite"], is_flag=True, help="Replace an existing output when the new one is complete."),
    click.Option(
        ["--coordinator"],
        type=_Address(),
        help="Address of process 0, if several share the work; needs the next two options.",
    ),
    click.Option(["--num-processes"], type=click.IntRange(1), metavar="N", help="How many processes share the work."),
    click.Option(
        ["--process-id"], type=click.IntRange(0), metavar="I", help="Which of these processes this one is, from 0."
    ),
)


def _shared_options(operands: Sequence[str]) -> list[click.Option]:
    """`--shared`, where another operand is left that has items."""
    option = click.Option(
        ["--shared"],
        multiple=True,
        metavar="OPERAND",
        help=f"Read this operand whole and use it for every item; repeatable. One of {', '.join(operands)}.",
        shell_complete=lambda context, option, begun: [name for name in operands if name.startswith(begun)],
    )
    return [option] if len(operands) > 1 else []


def _subcommand(name: str, operator: BatchOperator) -> click.Command:
    arguments = {**operator.operands, "output": False}
    files = [click.Argument([a], type=FILE, nargs=-1 if lists else 1, required=True) for a, lists in arguments.items()]
    shared = _shared_options(list(operator.operands))
    first = _sentence(function_names()[name])
    return click.Command(
        name,
        callback=partial(_run, name, operator),
        params=[*files, *operator.attributes, *shared, *_COMMON],
        help=f"{first}\n\n{_FILES.format(', but for those named by --shared' if shared else '')}",
        epilog=f"\b\nExample:\n  dml-jax batch {name} {' '.join(f'{a}.npy' for a in arguments)} {operator.example}",
    )


_FILES = """All are .npy files, with the items along the leading dimension{}.

Exit status: 0 done, 1 failed, 2 the command line is wrong, 130 interrupted: run it again to continue."""


def _run(
    name: str,
    operator: BatchOperator,
    output: Path,
    dtype: Any,
    batch_size: int | None,
    cpu_devices: int | None,
    restart: bool,
    overwrite: bool,
    coordinator: str | None,
    num_processes: int | None,
    process_id: int | None,
    shared: tuple[str, ...] = (),
    **rest: Any,
) -> None:
    import jax

    from ..batch.errors import BatchError
    from ..batch.jobs import Share, refuse_existing
    from ..batch.mapping import map_batches
    from ..batch.npy import NpyFile, load_whole

    paths = operator.slots({operand: rest.pop(operand) for operand in operator.operands})
    _check_shared(operator, shared)
    arrange_cpu_devices(cpu_devices)
    hosts = _hosts(coordinator, num_processes, process_id)
    attributes = operator.named(rest)
    files = {slot: NpyFile(path, None if operator.is_index(slot) else dtype) for slot, path in paths.items()}
    share = Share(hosts.index, hosts.count) if hosts else Share()
    _interruption.begin()
    try:
        refuse_existing(output, share, overwrite)
        with hosts.joined() if hosts else nullcontext(), jax.enable_x64(True), _Display(output) as display:
            devices()
            last = map_batches(
                _itemwise(operator, list(files), shared, attributes),
                tuple(file for slot, file in files.items() if base_of(slot) not in shared),
                output,
                batch_size=batch_size,
                shared=[load_whole(file) for slot, file in files.items() if base_of(slot) in shared],
                identity={"operator": name, "attributes": {k: str(v) for k, v in attributes.items()}, "shared": shared},
                overwrite=overwrite,
                restart=restart,
                progress=display.show,
                share=(share.index, share.count),
            )
    except KeyboardInterrupt:
        _interruption.tell(output, share)
    except (BatchError, ConstraintError, OSError) as error:
        _fail(_in_options(str(error)))
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        text = str(error) or "out of memory"
        _fail(f"{jax.local_devices()[0].device_kind} failed: {text}; a smaller --batch-size needs less memory")
    click.echo(_summary(output, last))


def base_of(slot: str) -> str:
    """The operand that a file belongs to: inputs of `inputs[0]`."""
    return slot.partition("[")[0]


def _itemwise(
    operator: BatchOperator, slots: Sequence[str], shared: tuple[str, ...], attributes: dict[str, Any]
) -> Callable[..., jax.Array]:
    """The operator on batches; the shared operands come last."""
    import jax

    order = sorted(slots, key=lambda slot: base_of(slot) in shared)
    return jax.vmap(
        lambda *arrays: operator.function(**operator.grouped(dict(zip(order, arrays, strict=True))), **attributes),
        in_axes=tuple(None if base_of(slot) in shared else 0 for slot in order),
    )


def _check_shared(operator: BatchOperator, shared: tuple[str, ...]) -> None:
    for name in shared:
        if name not in operator.operands:
            raise click.UsageError(f"--shared {name}: the operands are {', '.join(operator.operands)}")
    if set(shared) == set(operator.operands):
        raise click.UsageError("--shared names every operand: at least one must have items")


def _hosts(coordinator: str | None, count: int | None, index: int | None) -> Hosts | None:
    if coordinator is None and count is None and index is None:
        return None
    from ..batch.hosts import Hosts

    if coordinator is None or count is None or index is None:
        raise click.UsageError("--coordinator, --num-processes and --process-id go together")
    if index >= count:
        raise click.UsageError(f"--process-id {index} must be below --num-processes {count}")
    return Hosts(coordinator, index, count)


# What messages of the library call the arguments of `map_batches`, and what they are here.
_OPTIONS = {
    "overwrite=True": "--overwrite",
    "restart=True": "--restart",
    "say which type: NpyFile(path, dtype)": "say which type with --dtype",
    "leave out dtype": "leave out --dtype",
}


def _in_options(text: str) -> str:
    for argument, option in _OPTIONS.items():
        text = text.replace(argument, option)
    return text


def _fail(text: str) -> NoReturn:
    click.echo(f"error: {text}", err=True)
    sys.exit(1)


def _summary(output: Path, last: Progress) -> str:
    speed = last.bytes / max(last.seconds, 1e-9)
    earlier = f", {last.resumed} of them by earlier runs" if last.resumed else ""
    moved = f"{last.bytes / 1e9:.3g} GB in {last.seconds:.3g} s, {speed / 1e9:.2f} GB/s"
    return f"{output}: {last.rows} items{earlier}; {moved}"


class _Display:
    """A progress bar on the standard error, where that is a terminal."""

    def __init__(self, output: Path):
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[speed]:.2f} GB/s"),
            TimeRemainingColumn(),
        )
        self._output, self._has_begun = output, False
        console = Console(stderr=True)
        self._bar = Bar(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task(output.name, total=1, speed=0.0)

    def show(self, progress: Progress) -> None:
        """Moves the bar, and ends the job if it was interrupted."""
        if not self._has_begun and progress.resumed:
            said = f"{self._output}: continues from item {progress.resumed} of {progress.total}"
            self._bar.console.print(said, markup=False, highlight=False, soft_wrap=True)
        self._has_begun = True
        speed = progress.bytes / max(progress.seconds, 1e-9) / 1e9
        self._bar.update(self._task, completed=progress.rows, total=progress.total, speed=speed)
        _interruption.seen(progress)

    def __enter__(self) -> _Display:
        self._bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.stop()


class _Interruption:
    """The first Ctrl-C ends the job after the batch at hand and records it; the second leaves at once."""

    def __init__(self) -> None:
        self._asked, self._last = False, None

    def begin(self) -> None:
        self.__init__()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._signalled)

    def seen(self, progress: Progress) -> None:
        self._last = progress
        if self._asked:
            raise KeyboardInterrupt

    def tell(self, output: Path, share: Share) -> NoReturn:
        from ..batch.journal import progress_path, read_record

        rows = read_record(progress_path(output, share.index, share.count)).rows
        where = f"item {rows} of {self._last.total}" if self._last and self._last.total else "where it was"
        click.echo(f"interrupted: {output}: run it again to continue from {where}", err=True)
        sys.exit(130)

    def _signalled(self, *_: Any) -> None:
        if self._asked or self._last is None:  # nothing is at work, or it takes too long
            shown = b"\x1b[?25h" if os.isatty(2) else b""  # the bar hides the cursor
            os.write(2, shown + b"interrupted: run it again to continue\n")
            os._exit(130)
        self._asked = True


_interruption = _Interruption()
