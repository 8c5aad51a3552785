"""Runs a subcommand of `dml-jax batch`: opens the files and calls `map_batches`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ..core.arguments.ports import argument_of, by_argument, ports_of
from ..errors import ConstraintError
from .batch_progress import Interruption, ProgressBar, byte_count, speed_of
from .devices import arrange_cpu_devices, devices

if TYPE_CHECKING:
    import jax
    import numpy as np

    from ..batch.batch_map import Progress
    from ..batch.hosts import Hosts
    from ..batch.jobs import Share
    from ..batch.npy_file import NpyFile
    from .batch_options import BatchOperator


def run_operator(name: str, operator: BatchOperator, dtype: Any, shared: tuple[str, ...] = (), **rest: Any) -> None:
    """Runs an operator over files. It is the callback of its subcommand, so its arguments are that one's.

    Args:
      name: of the operator.
      operator: of the subcommand.
      dtype: of data whose file does not name it.
      shared: the operands that every item gets whole.
      rest: the files of the operands, the operator's attributes, and the options of `run_files`.
    """
    paths = {operand: rest.pop(operand) for operand in operator.operands}
    check_shared(operator.operands, shared)
    options = {option.name or "": rest.pop(option.name) for option in operator.attributes}
    attributes = operator.named(options)
    ports = ports_of(paths)
    whole = [argument_of(port) in shared for port in ports]

    def of_item(*arrays: jax.Array) -> jax.Array:
        return operator.function(**by_argument(dict(zip(ports, arrays, strict=True)), like=paths), **attributes)

    run_files(
        lambda: per_item(of_item, whole),
        [typed(path, None if operator.is_index(port) else dtype) for port, path in ports.items()],
        whole,
        {"operator": name, "attributes": {k: str(v) for k, v in attributes.items()}, "shared": shared},
        outputs=[rest.pop("output")],
        **rest,
    )


def typed(path: str, dtype: Any) -> str | NpyFile:
    """Returns an input, with the type of its elements if that is given; only .npy files do not name all types."""
    from ..batch.array_files import is_npy
    from ..batch.npy_file import NpyFile

    return path if dtype is None or not is_npy(path) else NpyFile(path, dtype)


def whole_array(given: str | NpyFile) -> np.ndarray:
    """Reads a shared operand: a .npy file of any rank, or all rows of any other input."""
    from ..batch.array_files import is_npy
    from ..batch.npy_file import NpyFile, load_whole
    from ..batch.sources import as_source

    if isinstance(given, NpyFile) or is_npy(given):
        return load_whole(given if isinstance(given, NpyFile) else NpyFile(given))
    source = as_source("--shared", given)
    return source.read(0, source.rows or 0)


def per_item(function: Callable[..., jax.Array], whole: Sequence[bool]) -> Callable[..., jax.Array]:
    """Returns a function of items as one of batches; where `whole` is true, it gets an array as it is."""
    import jax

    return jax.vmap(function, in_axes=tuple(None if shared else 0 for shared in whole))


def run_files(
    make: Callable[[], Callable[..., Any]],
    files: Sequence[str | NpyFile],
    whole: Sequence[bool],
    identity: Mapping[str, Any],
    *,
    outputs: Sequence[str],
    batch_size: int | None,
    cpu_devices: int | None,
    restart: bool,
    overwrite: bool,
    coordinator: str | None,
    num_processes: int | None,
    process_id: int | None,
) -> None:
    """Runs a function over files, with the options that every subcommand has.

    Args:
      make: returns the function of the arrays of all files. It is called once the devices are arranged.
      files: of the arrays, in order.
      whole: which files are shared: the function gets their arrays whole, and a batch of the others.
      identity: distinguishes this job from others.
      outputs: a path for each array that the function returns, in order.
    """
    import jax

    from ..batch.batch_map import map_batches
    from ..batch.errors import BatchError
    from ..batch.jobs import Share
    from ..batch.output_checks import check_outputs, named

    arrange_cpu_devices(cpu_devices)
    hosts = _hosts(coordinator, num_processes, process_id)
    share = Share(hosts.index, hosts.count) if hosts else Share()
    interruption = Interruption()

    def follow(progress: Progress) -> None:
        bar.show(progress)
        interruption.check(progress)

    interruption.begin()
    try:
        targets = [*map(named, outputs)]
        check_outputs(targets, files, share, overwrite)
        with hosts.joined() if hosts else nullcontext(), jax.enable_x64(True), ProgressBar(targets[0]) as bar:
            devices()
            function = _shared_last(make(), whole)
            last = map_batches(
                _in_order(function),
                tuple(file for file, shared in zip(files, whole, strict=True) if not shared),
                targets[0] if len(targets) == 1 else (*targets,),
                batch_size=batch_size,
                shared=[whole_array(file) for file, shared in zip(files, whole, strict=True) if shared],
                identity=identity,
                overwrite=overwrite,
                restart=restart,
                progress=follow,
                share=(share.index, share.count),
            )
    except (KeyboardInterrupt, BatchError, ConstraintError, OSError, MemoryError, jax.errors.JaxRuntimeError) as error:
        _tell(error, interruption, named(outputs[0]), share)
    click.echo(_summary(outputs, last))


def _tell(error: BaseException, interruption: Interruption, output: Path | str, share: Share) -> NoReturn:
    """Ends the command with one line about an error, or about an interruption."""
    import jax

    if isinstance(error, KeyboardInterrupt):
        interruption.report(output, share)
    if isinstance(error, MemoryError | jax.errors.JaxRuntimeError):
        text = str(error) or "out of memory"
        fail(f"{jax.local_devices()[0].device_kind} failed: {text}; a smaller --batch-size needs less memory")
    fail(_in_options(str(error)))


def _shared_last(function: Callable[..., Any], whole: Sequence[bool]) -> Callable[..., Any]:
    """Returns the function with its shared arguments behind the others, as `map_batches` gives them."""
    order = sorted(range(len(whole)), key=whole.__getitem__)
    return lambda *arrays: function(*(arrays[order.index(i)] for i in range(len(whole))))


def split_files(files: Sequence[str], outputs: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the inputs and the outputs, which are last.

    Raises:
      UsageError: there is no input.
    """
    if len(files) <= outputs:
        raise click.UsageError(f"there must be an input, but of {len(files)} files {outputs} are outputs")
    return (*files[:-outputs],), (*files[-outputs:],)


def _in_order(function: Callable[..., Any]) -> Any:
    """Returns the function with its result as one array, or a tuple of several, for outputs in order."""
    import jax

    def in_order(*arrays: Any) -> Any:
        result = function(*arrays)
        leaves = jax.tree.leaves(result)
        return leaves[0] if len(leaves) == 1 else (*leaves,) or result  # `map_batches` refuses one without arrays

    return in_order


def check_shared(names: Iterable[Any], shared: Iterable[Any]) -> None:
    """Checks that the option `--shared` names some of the operands, and not all.

    Raises:
      UsageError: it does not.
    """
    for name in shared:
        if name not in names:
            raise click.UsageError(f"--shared {name}: the operands are {', '.join(map(str, names))}")
    if set(shared) == set(names):
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
    "map_batches: fn must": "the function must",
    "map_batches: all inputs must have the same number of rows(.*)": r"all inputs must have the same number of "
    r"items\1; --shared reads one of them whole, for every item",
    r"window_sizes=\((\d+),\)": r"--window-sizes \1,",
    r"window_sizes=\((\d+), (\d+)\) along": r"--window-sizes \1,\2 along",
}


def _in_options(text: str) -> str:
    for argument, option in _OPTIONS.items():
        text = re.sub(argument, option, text)
    return re.sub(r"map_batches: output must be .* but fn returns (.*) and output is .*", _outputs, text)


def _outputs(told: re.Match[str]) -> str:
    return f"the function returns {told[1]}, so it needs --outputs {told[1].count('*')}"


def fail(text: str) -> NoReturn:
    """Ends the command with a line about an error."""
    click.echo(f"error: {text}", err=True)
    sys.exit(1)


def _summary(outputs: Sequence[str], last: Progress) -> str:
    earlier = f", {last.resumed} of them by earlier runs" if last.resumed else ""
    moved = f"{byte_count(last.bytes)} in {last.seconds:.3g} s, {speed_of(last)}"
    return f"{', '.join(outputs)}: {last.rows} items{earlier}; {moved}"
