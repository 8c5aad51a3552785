"""A picture of runs beside each other: a row for each operator, with a dot for each run."""

import textwrap
from collections.abc import Sequence
from itertools import accumulate
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

from .comparing import Comparison
from .picture import MARKERS, save

__all__ = ["described", "draw"]

WIDTH, LINE = 4.0, 0.16  # inches: of a phone, and of a line of text
LABEL, NAME = 28, 52  # letters of a line
SIZE = 8  # points
TICKS = ((1.5, (1, 2, 5)), (2.5, (1, 3)), (99, (1,)))  # up to so many powers of ten, as many as have room
UNIT = "1 is as fast as a copy, or as a product of matrices"


def draw(comparison: Comparison, path: Path) -> None:
    """Draws a picture, PNG or SVG by the ending of `path`, which `check_drawable` accepts."""
    labels = [textwrap.fill(name, LABEL) for name in comparison.matches]
    names = [textwrap.fill(name, NAME) for name in (comparison.title, *comparison.names)]
    height = LINE * (sum(map(_lines, labels + names)) + 5)
    save(lambda axes: _fill(axes, comparison, labels, names), (WIDTH, height), path, described(comparison))


def described(comparison: Comparison) -> str:
    """The table as a text."""
    head, body = comparison.table()
    return "\n".join("; ".join(row) for row in (head, *body))


def _lines(text: str) -> int:
    return 1 + text.count("\n")


def _fill(axes: Any, comparison: Comparison, labels: Sequence[str], names: Sequence[str]) -> None:
    """A label is in the middle of as many lines as it has."""
    ends, (title, *names) = [*accumulate(map(_lines, labels))], names
    places = [end - _lines(label) / 2 for end, label in zip(ends, labels, strict=True)]
    axes.axvline(1, color="0.6", lw=1, zorder=1)
    for number, (name, of) in enumerate(zip(names, zip(*comparison.means().values(), strict=True), strict=True)):
        axes.scatter(of, places, s=18, marker=MARKERS[number % len(MARKERS)], color=f"C{number}", label=name, zorder=2)
    axes.set(xscale="log", ylim=(ends[-1], 0))
    least, most = map(log10, axes.get_xlim())
    steps = next(steps for decades, steps in TICKS if most - least < decades)
    ticks = [step * 10.0**power for power in range(floor(least), ceil(most)) for step in steps]
    axes.set_xticks([tick for tick in ticks if least <= log10(tick) <= most], minor=False)
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_yticks(places, labels)
    axes.tick_params(labelsize=SIZE, length=0)
    axes.grid(alpha=0.3, lw=0.4)
    axes.figure.supxlabel(UNIT, fontsize=SIZE)
    axes.figure.legend(loc="outside upper left", fontsize=SIZE, frameon=False, title=title, title_fontsize=SIZE)
