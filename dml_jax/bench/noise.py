"""Measurement noise: notes on samples that vary, and on what else the machine did meanwhile."""

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from .timing import Measured, by_case

SPREAD = 0.2  # half the distance of the quartiles, as a part of the median; a quiet machine has 0.01 to 0.1
CONTROL = 0.1  # what a copy may be faster or slower than itself; a quiet machine has 0.01 to 0.05
CORES = 0.1  # of the cores of this process, what others may use
GPU = 5  # percent of the time, before anything was measured
USAGE = ("nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits")
_STAT = Path("/proc/stat")


class Load:
    """Tells how many cores others keep busy from its making on."""

    def __init__(self) -> None:
        self.cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
        self.start, self.others = time.monotonic(), self._others()

    def note(self) -> Iterator[str]:
        """A sentence if others used much."""
        others, seconds = self._others(), time.monotonic() - self.start
        if others is None or self.others is None or not seconds:
            return
        used = (others - self.others) / seconds
        if used > CORES * len(self.cores):
            yield f"Other processes kept {used:.1f} of {len(self.cores)} cores busy while this was measured."

    def _others(self) -> float | None:
        """Seconds of the cores of this process that others used; None where the system does not tell."""
        try:
            lines = [line.split() for line in _STAT.read_text().splitlines()]
        except OSError:
            return None
        mine = {f"cpu{core}" for core in self.cores}
        counts = [[int(count) for count in line[1:9]] for line in lines if line and line[0] in mine]
        idle, waits = 3, 4  # of the counts: all others are work, that of other virtual machines too
        ticks = sum(sum(of) - of[idle] - of[waits] for of in counts)
        return ticks / os.sysconf("SC_CLK_TCK") - time.process_time() if ticks else None


def told_by(*command: str) -> str:
    """What a program prints; nothing if it is not here or fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""


def busy_gpu() -> Iterator[str]:
    """A sentence if a GPU works although this process gives it nothing to do."""
    try:
        busiest = max(int(line) for line in told_by(*USAGE).split())
    except ValueError:  # nobody tells
        return
    if busiest > GPU:
        yield f"A GPU was busy for {busiest} % of the time before anything was measured: another process uses it."


def notes(rows: Sequence[Measured]) -> Iterator[str]:
    """Sentences on cases whose samples differ, and on copies that were not as fast as themselves."""
    first = [next(iter(measured.values())) for _, measured in by_case(rows)]
    uneven = [row for row in first if row.spread > SPREAD]
    if uneven:
        worst = max(uneven, key=lambda row: row.spread)
        yield (
            f"{len(uneven)} of {len(first)} cases vary by more than {SPREAD:.0%}, the most by ±{worst.spread:.0%} "
            f"({worst.case}): the machine was busy or changed its clock, and these numbers say little."
        )
    apart = [abs(row.control - 1) for row in first if row.control and abs(row.control - 1) > CONTROL]
    if apart:
        yield (
            f"In {len(apart)} of {len(first)} cases two timings of the same copy in the same rounds differ, by up to "
            f"{max(apart):.0%}: smaller differences than that say nothing."
        )
