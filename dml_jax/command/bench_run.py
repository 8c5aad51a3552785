"""What `dml-jax bench` does: it measures with a progress bar, prints tables, writes files, and compares."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import ConstraintError
from ..files import write_whole

if TYPE_CHECKING:
    from rich.progress import Progress

    from ..bench.measuring import Effort, Measured
    from ..bench.results import Results
    from ..bench.section import Section

__all__ = ["Files", "run"]

INTERRUPTED = 130  # the exit status after Ctrl-C
KEEPING = 10  # seconds until what was measured is written again, for a run that is killed


@dataclass(frozen=True)
class Files:
    """What is written and read; None for none.

    Args:
      json: all that was measured.
      csv: the same.
      picture: bandwidths.
      old: an earlier run's JSON, which this one is compared with.
    """

    json: Path | None
    csv: Path | None
    picture: Path | None
    old: Path | None

    def check(self) -> None:
        """Checks that all can be written, before anything is measured.

        Raises:
          ConstraintError: one cannot.
        """
        from ..bench.picture import check_drawable

        for path in filter(None, (self.json, self.csv, self.picture)):
            _check_writable(path)
        if self.picture:
            check_drawable(self.picture)

    def keep(self, results: Results) -> None:
        """Writes JSON and CSV."""
        for path, text in ((self.json, results.json), (self.csv, results.csv)):
            if path:
                write_whole(path, text().encode())

    def write(self, results: Results) -> None:
        """Writes each of them."""
        from ..bench.picture import draw

        self.keep(results)
        if self.picture:
            draw(results, self.picture)


def run(
    device: str,
    sections: Sequence[Section],
    effort: Effort,
    files: Files,
    tolerance: float,
    versions: Mapping[str, str],
) -> None:
    """Measures all sections, and ends the command with its exit status.

    Args:
      device: what it runs on, for people.
      sections: what is measured.
      effort: how often.
      files: what is written and read.
      tolerance: the part of its old ratio to a copy that a case may lose.
      versions: of what is compared, beside those of the packages.
    """
    from ..batch import BatchError
    from ..bench import peers
    from ..bench.results import Results

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        files.check()
        old = Results.read(files.old) if files.old else None
        compared = {**peers.versions(), **versions}
        rows = _shown(device, sections, effort, lambda rows: files.keep(Results.now(device, compared, rows)))
        results = Results.now(device, compared, rows)
        files.write(results)
    except (BatchError, ConstraintError, OSError) as error:
        sys.exit(f"error: {error}")
    if _interrupted:
        sys.exit(INTERRUPTED)
    if old:
        _show_regressions(old, results, tolerance)


def _check_writable(path: Path) -> None:
    folder = path.parent
    if not folder.is_dir():
        raise ConstraintError(f"{path} cannot be written: the folder {str(folder)!r} must exist; make it first")
    if not os.access(folder, os.W_OK):
        raise ConstraintError(f"{path} cannot be written: no permission in {str(folder)!r}")


def _shown(
    device: str, sections: Sequence[Section], effort: Effort, keep: Callable[[Sequence[Measured]], None]
) -> list[Measured]:
    """Measures, prints a table for each section, and says last what their columns are."""
    from rich.console import Console

    shown, legends = [], {}
    console = Console()
    for section in sections:
        rows = _measured(section, effort, lambda rows, before=tuple(shown): keep([*before, *rows]))
        if rows:
            wide = console if console.is_terminal else Console(width=200)
            wide.print(section.table(f"{device}, {section.title}", rows, section.contenders))
            legends[section.legend] = None
        shown += rows
    for legend in legends:
        click.echo(f"\n{legend}")
    return shown


def _measured(section: Section, effort: Effort, keep: Callable[[Sequence[Measured]], None]) -> list[Measured]:
    rows: list[Measured] = []
    kept = time.monotonic()
    total = len(section.jobs) if isinstance(section.jobs, Sequence) else None
    with _progress() as progress:
        task = progress.add_task("", total=total)
        for job in section.jobs:
            if _interrupted:
                break
            progress.update(task, description=job.name)
            rows += job.measure(effort)
            progress.advance(task)
            if time.monotonic() > kept + KEEPING:
                keep(rows)
                kept = time.monotonic()
    return rows


def _progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    shown = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    return Progress(*shown, console=console, transient=True, disable=not console.is_terminal)


_interrupted: list[int] = []


def _interrupt(number: int, _: Any) -> None:
    """The first Ctrl-C waits for the case at hand, the second does not."""
    if _interrupted:
        sys.exit(INTERRUPTED)
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
