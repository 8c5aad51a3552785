"""What `dml-jax bench` does: it measures with a progress bar, prints tables, writes files, and compares."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..atomic_write import discard_unfinished
from ..errors import ConstraintError
from .bench_compare import show
from .bench_files import Files
from .long_work import told_if_long

if TYPE_CHECKING:
    from rich.progress import Progress

    from ..bench.results import Results
    from ..bench.section import Job, Section
    from ..bench.timing import Effort, Measured

INTERRUPTED = 130  # the exit status after Ctrl-C
KEEPING = 10  # seconds until what was measured is written again, for a run that is killed
TELLING = 30  # seconds until a line says again how far it is, where no terminal shows it


def run(
    head: Results, sections: Sequence[Section], effort: Effort, files: Files, tolerance: float, *, is_strict: bool
) -> None:
    """Measures all sections, and ends the command with its exit status.

    Args:
      head: the device, the versions and the setup; no rows yet.
      sections: what is measured.
      effort: how often.
      files: what is written and read.
      tolerance: the part of its old ratio to a copy that a case may lose.
      is_strict: whether the command fails if the numbers are uncertain.
    """
    from ..bench.results import Results
    from ..bench.run_comparison import compared

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    failures: list[str] = []
    try:
        files.check()
        old = [*map(Results.read, files.old)]
        if len(old) > 1:
            compared(old)  # raises what it would raise after hours of measuring

        def with_rows(rows: Sequence[Measured], notes: Sequence[str] = ()) -> Results:
            said = {"peak": head.peak, "setup": head.setup, "notes": tuple(notes)}
            return Results.now(head.device, head.versions, rows, **said)

        results = with_rows(*_shown(head, sections, effort, failures, lambda rows: files.keep(with_rows(rows))))
        files.write(results)
    except (ConstraintError, OSError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:  # all is measured
        sys.exit(INTERRUPTED)
    if _interrupted:
        sys.exit(INTERRUPTED)
    is_slower = _compare(old, results, files.picture, tolerance)
    if not (results.rows or results.costs or failures):
        sys.exit("error: nothing was measured, as no program that was drawn has what -k asks for in its name")
    if failures:
        failed = "1 case" if len(failures) == 1 else f"{len(failures)} cases"
        sys.exit(f"error: {failed} failed, as said above; all others were measured")
    if is_strict and results.notes:
        sys.exit("error: the numbers are uncertain, as the notes above say; end other work, and measure again")
    if is_slower:
        sys.exit(1)


def _shown(
    head: Results,
    sections: Sequence[Section],
    effort: Effort,
    failures: list[str],
    keep: Callable[[Sequence[Measured]], None],
) -> tuple[list[Measured], list[str]]:
    """Measures, and prints for each section what makes it uncertain, and a table; last, what the columns are.

    Returns:
      All rows, and what was said of their certainty.
    """
    from ..bench import noise
    from ..bench.section import explained, print_wide

    tables: dict[str, list[Any]] = {}  # by legend
    shown, notes = [], _told(noise.busy_gpu())
    for section in sections:
        load = noise.Load()
        rows = _measured(section, effort, failures, lambda rows, before=tuple(shown): keep([*before, *rows]))
        if rows:
            notes += _told(chain(load.note(), noise.notes(rows)))
            table = section.table(f"{head.device}, {section.title}", rows, section.implementations, head.peak)
            print_wide(table)
            tables.setdefault(section.legend, []).append(table)
        shown += rows
    for legend, shown_with in tables.items():
        click.echo(f"\n{explained(legend, shown_with)}")
    return shown, [*notes, *(["The run was interrupted, and has not all cases."] if _interrupted else [])]


def _told(notes: Iterable[str]) -> list[str]:
    found = [*notes]
    for note in found:
        click.echo(f"Note: {note}")
    return found


def _measured(
    section: Section, effort: Effort, failures: list[str], keep: Callable[[Sequence[Measured]], None]
) -> list[Measured]:
    """The rows of all jobs; the names of those that fail, as of one that needs too much memory, go to `failures`."""
    rows: list[Measured] = []
    start, total = time.monotonic(), section.seconds or len([*section.jobs])
    kept = said = start
    with _progress() as progress:
        task = progress.add_task("", total=total)
        tell = partial(progress.console.print, markup=False, highlight=False, soft_wrap=True)  # above the bar
        for number, job in enumerate(section.jobs, 1):
            if _interrupted:
                break
            progress.update(task, description=job.name)
            try:
                with _told_if_long(job, tell):
                    found = job.measure(effort)
                rows += found
                faults = [*job.faults(found)]
            except KeyboardInterrupt:
                if not _interrupted:  # somebody else's: what is kept stays
                    raise
                break
            except ConstraintError as error:
                faults = [str(error)]
            except Exception as error:  # the others are worth their time, too
                faults = [f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"]
            failures += [job.name] * bool(faults)
            for fault in faults:
                tell(f"error: {job.name}: {fault}")
            now = time.monotonic()
            done = now - start if section.seconds else number
            progress.update(task, completed=done)
            if now > kept + KEEPING or job.doing:  # the next one may take long
                keep(rows)
                kept = now
            if progress.disable and now > said + TELLING:
                left = (now - start) * max(0, total / done - 1) / 60
                cases = f"{number} cases" if section.seconds else f"{number} of {total} cases"
                click.echo(f"{section.title}: {cases}, about {ceil(left)} min left", err=True)
                said = now
    return rows


def _told_if_long(job: Job, tell: Callable[[str], object]) -> AbstractContextManager[None]:
    """Context that says what a job is doing if it takes long, and tells."""
    doing = job.doing
    return told_if_long(lambda: f"{job.name}: {doing()}", tell) if doing else nullcontext()


def _progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    name = TextColumn(
        "{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True)
    )  # long ones are cut
    shown = (name, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    return Progress(*shown, console=console, transient=True, expand=True, disable=not console.is_terminal)


_interrupted: list[int] = []
_pressed: list[int] = []


def _interrupt(number: int, _: Any) -> None:
    """The first Ctrl-C waits for the case at hand, the second leaves it out, the third leaves at once."""
    _interrupted.append(number)
    if len(_interrupted) == 1:
        click.echo("interrupted: finishing the case at hand; once more leaves it out", err=True)
    elif len(_interrupted) == 2:
        raise KeyboardInterrupt
    else:
        sys.exit(INTERRUPTED)


def check_interrupted() -> None:
    """Called in another thread after each Ctrl-C, as `_interrupt` cannot run while XLA compiles: the second leaves."""
    _pressed.append(signal.SIGINT)
    if signal.getsignal(signal.SIGINT) is not _interrupt or len(_interrupted) >= len(_pressed):
        return
    if len(_pressed) == 1:
        click.echo("interrupted: XLA has to finish first; once more leaves at once", err=True)
    else:
        discard_unfinished()
        os._exit(INTERRUPTED)


def _compare(old: Sequence[Results], new: Results, picture: Path | None, tolerance: float) -> bool:
    """Shows a new run beside old ones; returns whether it is slower than one, of several one on the same device."""
    from ..bench.results import regressions

    if len(old) > 1:
        try:
            show([*old, replace(new, notes=())], picture)  # its notes stand above its tables
        except (ConstraintError, OSError) as error:
            sys.exit(f"error: {error}")
    alike = old if len(old) == 1 else [one for one in old if one.device == new.device]
    slower = [(one, *regressions(one, new, tolerance)) for one in alike]
    for note in dict.fromkeys(note for one, _, lines in slower for note in _notes(one, new, lines)):
        click.echo(f"Note: {note}", err=True)
    for one, count, lines in slower:
        click.echo(f"Compared with {one.date}: {count} measurements, {len(lines)} slower by more than {tolerance:.0%}")
        click.echo("".join(f"slower: {line}\n" for line in lines), nl=False)
        if not count:
            sys.exit("error: both runs have no case in common")
    return any(lines for *_, lines in slower)


def _notes(old: Results, new: Results, slower: Sequence[str]) -> Iterator[str]:
    """What makes a comparison with an older run uncertain."""
    if old.device != new.device:
        yield f"the old run was on {old.device}."
    if old.versions.get("jaxlib") != new.versions.get("jaxlib"):
        yield f"the old run had jaxlib {old.versions.get('jaxlib')}, which may copy faster or slower."
    if slower and (old.notes or new.notes):
        yield "that is uncertain, as notes of these runs say; --strict fails if a new run has notes."
