"""`dml-jax bench`: options, progress, files, and the comparison with an older run."""

from __future__ import annotations

import fnmatch
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..atomic_write import write_whole
from ..errors import ConstraintError
from .devices import CPU_DEVICES, arrange_cpu_devices, cores, devices, local_devices, measured_kind
from .shared_options import FILE

if TYPE_CHECKING:
    from rich.console import Console

    from ..bench.case import Case
    from ..bench.contenders import Contender
    from ..bench.measuring import Effort, Measured
    from ..bench.results import Results

__all__ = ["bench"]


@click.command(
    short_help="Measure every operator beside a copy and other libraries.",
    epilog="""\b
Examples:
  dml-jax bench --quick
  dml-jax bench --only 'gather*' --json new.json --csv new.csv
  dml-jax bench --compare old.json --tolerance 0.1""",
)
@click.option("--quick", "is_quick", is_flag=True, help="Measure a few cases of 4 MB: under a minute on two cores.")
@click.option(
    "-k",
    "--only",
    multiple=True,
    metavar="PATTERN",
    help="Measure the cases whose name contains this text, where * is any text; repeatable.",
)
@click.option(
    "--size", type=click.IntRange(1), metavar="MIB", show_default="64 on a CPU, else 256", help="MiB of data per case."
)
@click.option(
    "--rounds",
    type=click.IntRange(1),
    metavar="N",
    show_default="9, with --quick 3",
    help="Samples of each contender, taken in turn.",
)
@click.option(
    "--cpu-devices",
    type=CPU_DEVICES,
    metavar="N",
    help="Measure batches that are sharded over so many devices of the CPU instead; best one per core.",
)
@click.option(
    "--sharded",
    "is_sharded",
    is_flag=True,
    help="Measure batches that are sharded over all devices instead, such as the GPUs of a server.",
)
@click.option(
    "--peers/--no-peers",
    default=True,
    help="Measure the other libraries that are installed, or none; torch.compile not with --quick.",
)
@click.option("--list", "only_list", is_flag=True, help="List the cases and exit.")
@click.option("--json", "json_file", type=FILE, help="Write all that was measured to this file as JSON.")
@click.option("--csv", "csv_file", type=FILE, help="Write the same as CSV.")
@click.option("--picture", type=FILE, help="Draw bandwidths below the copy's, as .png or .svg; needs the extra bench.")
@click.option(
    "--compare", type=FILE, metavar="OLD.json", help="Compare with what an earlier --json wrote; exit 1 if slower."
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0, 1),
    default=0.15,
    metavar="PART",
    help="Part of its old ratio to the copy that a case may lose before --compare reports it as slower.",
)
def bench(
    is_quick: bool,
    only: tuple[str, ...],
    size: int | None,
    rounds: int | None,
    cpu_devices: int | None,
    is_sharded: bool,
    peers: bool,
    only_list: bool,
    json_file: Path | None,
    csv_file: Path | None,
    picture: Path | None,
    compare: Path | None,
    tolerance: float,
) -> None:
    """Measure every operator beside a copy of as many bytes, plain jax.numpy and other libraries.

    All contenders take turns on the same data, into bound outputs. `of copy` is dml_jax's bandwidth divided by
    that of the copy. `x NAME` is how many times as fast as NAME dml_jax is, and `x fresh` how many times as fast as
    without a bound output. Ctrl-C ends it after the current case and prints the results so far.

    Exit status: 0 done, 1 failed or slower than --compare allows, 2 the command line is wrong, 130 interrupted.
    """
    from ..batch import BatchError

    if cpu_devices:
        arrange_cpu_devices(cpu_devices)
    platform = devices()[0].platform
    if cpu_devices and platform != "cpu":
        raise click.UsageError(f"--cpu-devices needs JAX to run on a CPU, not on {platform}: set JAX_PLATFORMS=cpu")
    count = local_devices()
    if is_sharded and count == 1:
        raise click.UsageError("--sharded needs several devices, but JAX has 1; on a CPU --cpu-devices makes some")
    plan = _planned_for_all(count, size, only) if cpu_devices or is_sharded else _planned(is_quick, size, only)
    if not plan.names:
        raise click.UsageError(f"no case has {' or '.join(map(repr, only))} in its name; --list shows them")
    if only_list:
        for name in plan.names:
            click.echo(name)
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        old, results = _reported(plan, rounds or (3 if is_quick else 9), peers, json_file, csv_file, picture, compare)
    except (BatchError, ConstraintError, OSError) as error:
        sys.exit(f"error: {error}")
    if _interrupted:
        sys.exit(130)
    if old:
        _show_regressions(old, results, tolerance)


@dataclass(frozen=True)
class _Plan:
    """What is measured.

    Args:
      cases: into bound outputs.
      calls: of small arrays.
      sums: gradients.
      graphs: several operators each.
      networks: of ONNX.
      files: bytes of the input files.
      names: of all of them.
      sharded: over all devices, where these are measured instead.
      is_quick: whether nothing is compiled for seconds only to be compared.
    """

    cases: Sequence[Case]
    calls: Sequence[Case]
    sums: Sequence[Case]
    graphs: Sequence[Case]
    networks: Sequence[Case]
    files: Sequence[int]
    names: Sequence[str]
    sharded: Sequence[Case] = ()
    is_quick: bool = False


def _planned(is_quick: bool, size: int | None, only: Sequence[str]) -> _Plan:
    from ..bench import accumulate, graphs, networks
    from ..bench.cases import small
    from ..bench.streaming import name_of

    cases = list(_wanted(_cases(is_quick, size), only))
    calls = [] if is_quick else list(_wanted(small(), only))
    sums = [] if is_quick else list(_wanted(accumulate.cases(_size(size)), only))
    several = [] if is_quick else list(_wanted(graphs.cases(_size(size)), only))
    whole = [] if is_quick else list(_wanted(networks.cases(), only))
    files = [count for count in _file_sizes(is_quick, size) if _is_wanted(name_of(count), only)]
    names = [*(case.name for case in (*cases, *calls, *sums, *several, *whole)), *map(name_of, files)]
    return _Plan(cases, calls, sums, several, whole, files, names, is_quick=is_quick)


def _planned_for_all(devices: int, size: int | None, only: Sequence[str]) -> _Plan:
    from ..bench.sharded import cases

    found = list(_wanted(cases(_size(size), devices), only))
    return _Plan((), (), (), (), (), (), [case.name for case in found], found)


def _reported(
    plan: _Plan,
    rounds: int,
    peers: bool,
    json_file: Path | None,
    csv_file: Path | None,
    picture: Path | None,
    compare: Path | None,
) -> tuple[Results | None, Results]:
    """The results of the older run and of this one, whose files are written."""
    from ..bench.measuring import Effort
    from ..bench.picture import check_drawable, draw
    from ..bench.results import Results

    for path in filter(None, (json_file, csv_file, picture)):
        _check_writable(path)
    old = Results.read(compare) if compare else None
    if picture:
        check_drawable(picture)
    measured = _measured_on_all if plan.sharded else _measured
    results = measured(plan, Effort(rounds, seconds=0.002 if plan.is_quick else 0.01), peers)
    for path, text in ((json_file, results.json), (csv_file, results.csv)):
        if path:
            write_whole(path, text().encode())
    if picture:
        draw(results, picture)
    return old, results


def _check_writable(path: Path) -> None:
    """Before anything is measured."""
    folder = path.parent
    if not folder.is_dir():
        raise ConstraintError(f"{path} cannot be written: the folder {str(folder)!r} must exist; make it first")
    if not os.access(folder, os.W_OK):
        raise ConstraintError(f"{path} cannot be written: no permission in {str(folder)!r}")


def _cases(is_quick: bool, size: int | None) -> Iterable[Case]:
    from ..bench.cases import full, quick, real, sweep

    if is_quick:
        return quick()
    count = _size(size)
    return {case.name: case for case in (*full(count), *real(count), *sweep(count))}.values()


def _size(size: int | None) -> int:
    """Bytes of data per case."""
    import jax

    return (size or (64 if jax.default_backend() == "cpu" else 256)) * 2**20


def _file_sizes(is_quick: bool, size: int | None) -> list[int]:
    """Bytes of the input files: enough of them that compiling the program is little of the time."""
    return [2**26 if is_quick else 16 * size * 2**20 if size else 2**30]


def _wanted(cases: Iterable[Case], only: Sequence[str]) -> Iterable[Case]:
    return (case for case in cases if _is_wanted(case.name, only))


def _is_wanted(name: str, only: Sequence[str]) -> bool:
    return not only or any(fnmatch.fnmatchcase(name, f"*{part}*") for part in only)


def _measured(plan: _Plan, effort: Effort, peers: bool) -> Results:
    """Measures all cases, with a progress bar, and prints a table for each kind."""
    import jax
    from rich.console import Console

    from ..bench import accumulate, graphs, networks
    from ..bench.contenders import own
    from ..bench.peers import contenders, versions
    from ..bench.report import LEGEND
    from ..bench.results import Results
    from ..bench.streaming import streamed

    device, console = measured_kind(), Console()
    if jax.default_backend() == "cpu":
        device = f"{device}, {cores()} cores"
    rows: list[Measured] = []
    kinds = [
        ("into bound outputs", plan.cases, False),
        ("calls of small arrays, eager against jitted", plan.calls, True),
    ]
    for title, cases, eager in kinds:
        found = contenders(eager=eager, compiled=not plan.is_quick and bool(cases)) if peers else own(eager=eager)
        done = _each(cases, found, effort)
        _print(console, f"{device}, {title}", done, [c.name for c in found])
        rows += [*done] if not eager else [_as_call(row) for row in done]
    moved = "beside a copy of what has to move"
    for title, cases, found in (
        (f"gradients, {moved}", plan.sums, accumulate.contenders(peers=peers)),
        (f"graphs, {moved}", plan.graphs, graphs.contenders(peers=peers)),
        ("networks, beside a product of matrices", plan.networks, networks.contenders(peers=peers)),
    ):
        done = _each(cases, found, effort)
        _print(console, f"{device}, {title}", done, [c.name for c in found])
        rows += done
    for size in plan.files:
        if not _interrupted:
            done = streamed(size, effort.rounds)
            _print(console, f"{device}, from file to file, beside a NumPy copy", done, [row.contender for row in done])
            rows += done
    if rows:
        click.echo(f"\n{LEGEND}")
    return Results.now(device, versions(), rows)


def _measured_on_all(plan: _Plan, effort: Effort, peers: bool) -> Results:
    """The same for what is sharded."""
    import jax
    from rich.console import Console

    from ..bench import sharded
    from ..bench.peers import versions
    from ..bench.report import LEGEND
    from ..bench.results import Results

    device = f"{measured_kind()}, {jax.local_device_count()} devices on {cores()} cores"
    found, threads = sharded.contenders(peers=peers), sharded.torch_threads(cores())
    rows = _each(plan.sharded, found, effort, ceiling=sharded.copied, in_turn=False)
    _print(Console(), f"{device}, batches sharded over all, beside a copy that is", rows, [c.name for c in found])
    if rows:
        click.echo(f"\n{LEGEND}")
    return Results.now(device, {**versions(), **threads}, rows)


def _print(console: Console, title: str, rows: Sequence[Measured], contenders: Sequence[str]) -> None:
    from rich.console import Console

    from ..bench.report import table
    from ..bench.results import Results

    if rows:
        wide = console if console.is_terminal else Console(width=200)
        wide.print(table(title, list(Results.now("", {}, rows).by_case()), contenders))


def _as_call(row: Measured) -> Measured:
    return replace(row, case=f"{row.case}, call")


def _each(cases: Sequence[Case], found: Sequence[Contender], effort: Effort, **how: Any) -> list[Measured]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from ..bench.measuring import measure

    rows: list[Measured] = []
    shown = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*shown, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=len(cases))
        for case in cases:
            if _interrupted:
                break
            progress.update(task, description=case.name)
            rows += measure(case, found, effort, **how)
            progress.advance(task)
    return rows


_interrupted: list[int] = []


def _interrupt(number: int, _: Any) -> None:
    """The first Ctrl-C waits for the case at hand, the second does not."""
    if _interrupted:
        sys.exit(130)
    _interrupted.append(number)
    click.echo("interrupted: finishing the case at hand; once more leaves at once", err=True)


def _show_regressions(old: Results, new: Results, tolerance: float) -> None:
    from ..bench.results import regressions

    count, lines = regressions(old, new, tolerance)
    if old.device != new.device:
        click.echo(f"Note: the old run was on {old.device}.", err=True)
    if old.versions.get("jaxlib") != new.versions.get("jaxlib"):
        click.echo(
            f"Note: the old run had jaxlib {old.versions.get('jaxlib')}, which may copy faster or slower.", err=True
        )
    click.echo(f"Compared with {old.date}: {count} measurements, {len(lines)} slower by more than {tolerance:.0%}")
    for line in lines:
        click.echo(f"slower: {line}")
    if not count:
        sys.exit("error: both runs have no case in common")
    if lines:
        sys.exit(1)
