"""Progress bar and Ctrl-C handling of a batch job."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from ..batch.batch_map import Progress
    from ..batch.jobs import Share


def byte_count(count: float) -> str:
    """Returns a number of bytes with four digits, such as "6.144 kB"."""
    unit, of_unit = next(((unit, size) for unit, size in _UNITS.items() if count >= size), ("B", 1))
    return f"{count / of_unit:.4g} {unit}"


_UNITS = {"TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3}


def speed_of(progress: Progress) -> str:
    """Returns the bytes that were moved each second, such as "1.2 GB/s"."""
    return f"{byte_count(progress.bytes / max(progress.seconds, 1e-9))}/s"


class Interruption:
    """The first Ctrl-C ends the job after the batch at hand and records it; the second leaves at once."""

    def __init__(self) -> None:
        self._asked: bool = False
        self._last: Progress | None = None

    def begin(self) -> None:
        """Takes over SIGINT and SIGTERM."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._signalled)

    def check(self, progress: Progress) -> None:
        """Raises KeyboardInterrupt, after a batch, if there was a first Ctrl-C."""
        self._last = progress
        if self._asked:
            raise KeyboardInterrupt

    def report(self, output: Path | str, share: Share) -> NoReturn:
        """Says where the same command goes on, and exits."""
        from ..batch.journal import progress_path, read_record

        rows = read_record(progress_path(output, share.index, share.count)).rows
        total = self._last.total if self._last else None
        where = f"continue from item {rows} of {total}" if total else "continue from where it was"
        what = where if rows != total else f"rename the output: all {total} items are written"
        click.echo(f"interrupted: {output}: run it again to {what}", err=True)
        sys.exit(130)

    def _signalled(self, *_: Any) -> None:
        if self._asked or self._last is None:  # nothing is at work, or it takes too long
            shown = b"\x1b[?25h" if os.isatty(2) else b""  # the bar hides the cursor
            os.write(2, shown + b"interrupted: run it again to continue\n")
            os._exit(130)
        self._asked = True


class ProgressBar:
    """A progress bar on the standard error, where that is a terminal."""

    def __init__(self, output: Path | str):
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[said]}"),
            TimeRemainingColumn(),
        )
        self._output, self._has_begun = output, False
        console = Console(stderr=True)
        self._bar = Bar(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task(Path(output).name, total=None, said="")

    def show(self, progress: Progress) -> None:
        """Moves the bar; the first call prints where an earlier run stopped."""
        if not self._has_begun and progress.resumed:
            said = f"{self._output}: continues from item {progress.resumed} of {progress.total}"
            self._bar.console.print(said, markup=False, highlight=False, soft_wrap=True)
        self._has_begun = True
        items = progress.rows if progress.total is None else f"{progress.rows}/{progress.total}"
        said = f"{items} items, {speed_of(progress)}"
        self._bar.update(self._task, completed=progress.rows, total=progress.total, said=said)

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.stop()
