"""Pictures of a run: bars of how near cases come to a copy; and the bandwidth of caches by size."""

import io
import textwrap
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import accumulate, pairwise
from math import ceil, floor, log10
from pathlib import Path
from statistics import geometric_mean, mean
from typing import Any

from ..errors import ConstraintError
from . import bandwidth_ceilings, cache_bandwidth
from .case import mib
from .results import Results, group_of
from .timing import Measured

MARKERS = "o^sDv"
LINES = {"warm": {"ls": "-", "marker": "."}, "cold": {"ls": "--", "marker": "x"}}
WIDTH, LINE = 4.0, 0.16  # inches: of a phone, and of a line of text
LABEL, NAME = 28, 52  # letters of a line
SIZE = 8  # points
NAMED, THIN = 60, 0.12  # cases that have labels; of more, operators have them, and a bar takes so much of a line
TICKS = ((1.5, (1, 2, 5)), (2.5, (1, 3)), (99, (1,)))  # up to so many powers of ten, as many as have room
UNIT = "part of the speed of a copy, or of a product of matrices"
# What matplotlib's colours are for viewers who prefer dark pages; letters are filled with what the root has.
DARK = {
    "fill: #ffffff": "fill: #0d1117",
    "stroke: #000000": "stroke: #f0f6fc",
    "stroke: #b0b0b0": "stroke: #6e7681",
    "fill: #8c564b": "fill: #c49c94",
    "stroke: #8c564b": "stroke: #c49c94",
}


def check_drawable(path: Path) -> None:
    """Checks what `draw` needs, before anything is measured.

    Raises:
      ConstraintError: neither .png nor .svg, or matplotlib is missing.
    """
    if path.suffix.lower() not in (".png", ".svg"):
        raise ConstraintError(f"the picture must be a .png or .svg file, but it is {str(path)!r}")
    if not find_spec("matplotlib"):
        raise ConstraintError("the picture needs the package matplotlib; pip install '.[bench]' in a clone installs it")


def draw(results: Results, path: Path) -> None:
    """Draws a picture, PNG or SVG by the ending of `path`, which `check_drawable` accepts."""
    if any(row.operator == cache_bandwidth.OPERATOR for row in results.rows):
        save(lambda axes: _fill_caches(axes, results), (9, 5.5), path)
    else:
        _bars(results, path)


def save(fill: Callable[[Any], None], inches: tuple[float, float], path: Path, description: str | None = None) -> None:
    """Writes a picture.

    Args:
      fill: draws into axes of matplotlib.
      inches: its width and height.
      path: PNG or SVG by the ending.
      description: of an SVG, for those who cannot see it.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=inches, layout="constrained")
    FigureCanvasAgg(figure)
    fill(figure.add_subplot())
    if path.suffix.lower() == ".svg":
        text = io.StringIO()
        with rc_context({"svg.hashsalt": path.name}):  # else names of its parts are random
            figure.savefig(text, format="svg", metadata={"Date": None, "Description": description})
        path.write_text(with_dark_mode(text.getvalue()))
    else:
        figure.savefig(path)


def with_dark_mode(svg: str) -> str:
    """A picture of matplotlib with a style for viewers who prefer dark pages."""
    rules = (f'[style*="{light}"] {{ {dark} !important }}' for light, dark in DARK.items())
    lines = ("@media (prefers-color-scheme: dark) {", " svg { fill: #f0f6fc }", *(f" {rule}" for rule in rules), "}")
    style = "\n".join(("<style>", *lines, "</style>"))
    return svg.replace(" <metadata>", f" {style}\n <metadata>", 1)


def _bars(results: Results, path: Path) -> None:
    """A bar for each case, from the speed of a copy to its own, with its quartiles; the nearest to a copy on top."""
    ours = (row for row in results.rows if row.contender == "dml_jax" or row.operator == bandwidth_ceilings.OPERATOR)
    rows = sorted((row for row in ours if row.of_copy), key=lambda row: -row.of_copy)
    groups: dict[str, list[Measured]] = {}
    for row in rows:
        groups.setdefault(row.case if len(rows) <= NAMED else group_of(row), []).append(row)
    members = sorted(groups.items(), key=lambda pair: -geometric_mean(row.of_copy for row in pair[1]))
    labels = [textwrap.fill(name, LABEL) for name, _ in members]
    ends = [0.0, *accumulate(max(lines(s), THIN * len(rows)) for s, (_, rows) in zip(labels, members, strict=True))]
    title = textwrap.fill(f"dml_jax on {results.device}, {results.date[:10]}: cases and their quartiles", NAME)

    def fill(axes: Any) -> None:
        for number, ((_, rows), (start, end)) in enumerate(zip(members, pairwise(ends), strict=True)):
            step = (end - start) / len(rows)
            places = [start + (i + 0.5) * step for i in range(len(rows))]
            axes.barh(places, [row.of_copy - 1 for row in rows], 0.8 * min(step, 1), 1, color=f"C{9 * (number % 2)}")
            slow, fast = ([r.of_copy * r.seconds / getattr(r, end) for r in rows] for end in ("high", "low"))
            axes.hlines(places, slow, fast, color="C1", lw=0.8)
        axes.axvline(1, color="0.6", lw=1)
        axes.set(xscale="log", ylim=(ends[-1] or 1, 0))
        axes.set_xlim(min(axes.get_xlim()[0], 0.5), max(axes.get_xlim()[1], 2))
        label_rows(axes, [*map(mean, pairwise(ends))], labels)
        axes.figure.suptitle(title, fontsize=SIZE, x=0.02, ha="left")

    save(fill, (WIDTH, LINE * (ends[-1] + lines(title) + 5)), path)


def lines(text: str) -> int:
    """How many lines a text has."""
    return 1 + text.count("\n")


def label_rows(axes: Any, places: Sequence[float], labels: Sequence[str]) -> None:
    """Labels rows of parts of a copy, and the axis of these."""
    label_decades(axes.xaxis)
    axes.set_yticks(places, labels)
    axes.tick_params(labelsize=SIZE, length=0)
    axes.grid(alpha=0.3, lw=0.4)
    axes.figure.supxlabel(UNIT, fontsize=SIZE)


def label_decades(axis: Any) -> None:
    """Labels several numbers of a logarithmic axis."""
    least, most = map(log10, axis.get_view_interval())
    steps = next(steps for decades, steps in TICKS if most - least < decades)
    ticks = [step * 10.0**power for power in range(floor(least), ceil(most)) for step in steps]
    axis.set_ticks([tick for tick in ticks if least <= log10(tick) <= most])
    axis.set_ticks([], minor=True)
    axis.set_major_formatter("{x:g}")


def _fill_caches(axes: Any, results: Results) -> None:
    """A line for each kernel, dashed where it is cold, and a vertical one at the size of each cache."""
    sizes: set[int] = set()
    for name in cache_bandwidth.CURVES:
        kernel, state = name.split(", ")
        points = cache_bandwidth.points(results.rows, name)
        speeds = [speed / 1e9 for _, speed in points]
        colour = f"C{[*cache_bandwidth.KERNELS].index(kernel)}"
        sizes |= {size for size, _ in points}
        axes.plot([size for size, _ in points], speeds, color=colour, label=name, **LINES[state])
    for cache, size in results.versions.items():
        if cache.endswith(" cache"):
            at = int(size.removesuffix(" KiB")) * 2**10
            axes.axvline(at, color="0.6", lw=1, ls=":")
            axes.text(at, 1.01, cache, transform=axes.get_xaxis_transform(), ha="center", fontsize="x-small")
    axes.set(xscale="log", yscale="log", xlabel="working set", ylabel="GB/s")
    axes.set_title(f"caches on {results.device}, {results.date[:10]}", loc="left", pad=14)
    axes.set_xticks(shown := sorted(sizes)[::2], map(mib, shown))
    axes.set_xticks([], minor=True)
    label_decades(axes.yaxis)
    axes.grid(alpha=0.3, lw=0.4)
    axes.figure.legend(loc="outside right upper", fontsize="x-small")
