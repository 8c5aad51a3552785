"""Runs a subcommand of `dml-jax batch`: opens the files and calls `map_batches`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ..core.arguments.ports import argument_of, by_argument, ports_of
from ..errors import ConstraintError
from .batch_progress import Interruption, ProgressBar
from .devices import arrange_cpu_devices, devices

if TYPE_CHECKING:
    import jax

    from ..batch.batch_map import Progress
    from ..batch.hosts import Hosts
    from ..batch.jobs import Share
    from .batch_options import BatchOperator


def run_operator(
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
    """Runs an operator over files. It is the callback of its subcommand, so its arguments are that one's.

    Args:
      name: of the operator.
      operator: of the subcommand.
      rest: the files of the operands, and the operator's attributes.

    All other arguments are the options that every subcommand has.
    """
    import jax

    from ..batch.batch_map import map_batches
    from ..batch.errors import BatchError
    from ..batch.jobs import Share
    from ..batch.npy_file import NpyFile, load_whole
    from ..batch.output_checks import check_output

    paths = {operand: rest.pop(operand) for operand in operator.operands}
    _check_shared(operator, shared)
    arrange_cpu_devices(cpu_devices)
    hosts = _hosts(coordinator, num_processes, process_id)
    attributes = operator.named(rest)
    files = {port: NpyFile(path, None if operator.is_index(port) else dtype) for port, path in ports_of(paths).items()}
    share = Share(hosts.index, hosts.count) if hosts else Share()
    interruption = Interruption()

    def follow(progress: Progress) -> None:
        bar.show(progress)
        interruption.check(progress)

    interruption.begin()
    try:
        check_output(output, files.values(), share, overwrite)
        with hosts.joined() if hosts else nullcontext(), jax.enable_x64(True), ProgressBar(output) as bar:
            devices()
            last = map_batches(
                _itemwise(operator, paths, shared, attributes),
                tuple(file for port, file in files.items() if argument_of(port) not in shared),
                output,
                batch_size=batch_size,
                shared=[load_whole(file) for port, file in files.items() if argument_of(port) in shared],
                identity={"operator": name, "attributes": {k: str(v) for k, v in attributes.items()}, "shared": shared},
                overwrite=overwrite,
                restart=restart,
                progress=follow,
                share=(share.index, share.count),
            )
    except (KeyboardInterrupt, BatchError, ConstraintError, OSError, MemoryError, jax.errors.JaxRuntimeError) as error:
        _tell(error, interruption, output, share)
    click.echo(_summary(output, last))


def _tell(error: BaseException, interruption: Interruption, output: Path, share: Share) -> NoReturn:
    """Ends the command with one line about an error, or about an interruption."""
    import jax

    if isinstance(error, KeyboardInterrupt):
        interruption.report(output, share)
    if isinstance(error, MemoryError | jax.errors.JaxRuntimeError):
        text = str(error) or "out of memory"
        _fail(f"{jax.local_devices()[0].device_kind} failed: {text}; a smaller --batch-size needs less memory")
    _fail(_in_options(str(error)))


def _itemwise(
    operator: BatchOperator, operands: Mapping[str, Any], shared: tuple[str, ...], attributes: Mapping[str, Any]
) -> Callable[..., jax.Array]:
    """Returns the operator as a function of batches: an array per port of its operands, the shared ones last."""
    import jax

    ports = sorted(ports_of(operands), key=lambda port: argument_of(port) in shared)
    return jax.vmap(
        lambda *arrays: operator.function(
            **by_argument(dict(zip(ports, arrays, strict=True)), like=operands), **attributes
        ),
        in_axes=tuple(None if argument_of(port) in shared else 0 for port in ports),
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


# Options, by patterns of the arguments that the library's messages name.
_OPTIONS = {
    "overwrite=True": "--overwrite",
    "restart=True": "--restart",
    r"say which type: NpyFile\(path, dtype\)": "say which type with --dtype",
    "leave out dtype": "leave out --dtype",
    r"window_sizes=\((\d+),\)": r"--window-sizes \1,",
    r"window_sizes=\((\d+), (\d+)\) along": r"--window-sizes \1,\2 along",
}


def _in_options(text: str) -> str:
    for argument, option in _OPTIONS.items():
        text = re.sub(argument, option, text)
    return text


def _fail(text: str) -> NoReturn:
    click.echo(f"error: {text}", err=True)
    sys.exit(1)


def _summary(output: Path, last: Progress) -> str:
    speed = last.bytes / max(last.seconds, 1e-9)
    earlier = f", {last.resumed} of them by earlier runs" if last.resumed else ""
    moved = f"{last.bytes / 1e9:.3g} GB in {last.seconds:.3g} s, {speed / 1e9:.2f} GB/s"
    return f"{output}: {last.rows} items{earlier}; {moved}"
