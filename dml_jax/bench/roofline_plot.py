"""Draws roofline plots: bandwidth by bytes moved, below a copy of as many bytes; and cache bandwidth by size."""

import io
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import ConstraintError
from . import bandwidth_ceilings, cache_bandwidth
from .results import Results

COLOURS, MARKERS = 10, "o^sDv"  # matplotlib has so many colours; then the next marker begins
LINES = {"warm": {"ls": "-", "marker": "."}, "cold": {"ls": "--", "marker": "x"}}
ROWS = 28  # of the legend that are as high as the picture
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
    is_of_caches = any(row.operator == cache_bandwidth.OPERATOR for row in results.rows)
    save(lambda axes: (_fill_caches if is_of_caches else _fill)(axes, results), (9, 5.5), path)


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


def _fill(axes: Any, results: Results) -> None:
    ours = [row for row in results.rows if row.contender == "dml_jax" or row.operator == bandwidth_ceilings.OPERATOR]
    copies = sorted({(row.moved, row.moved / row.seconds / row.of_copy / 1e9) for row in ours})
    axes.plot(*zip(*copies, strict=True), color="0.6", lw=1, zorder=1, label="a copy of as many bytes")
    operators = dict.fromkeys(row.operator for row in ours)
    for number, operator in enumerate(operators):
        points = [(row.moved, row.moved / row.seconds / 1e9) for row in ours if row.operator == operator]
        marker = MARKERS[number // COLOURS % len(MARKERS)]
        axes.scatter(*zip(*points, strict=True), s=14, marker=marker, color=f"C{number}", label=operator, zorder=2)
    _finish(axes, results, "dml_jax", "bytes that have to move", columns=1 + len(operators) // ROWS)


def _fill_caches(axes: Any, results: Results) -> None:
    """A line for each kernel, dashed where it is cold, and a vertical one at the size of each cache."""
    for name in cache_bandwidth.CURVES:
        kernel, state = name.split(", ")
        points = cache_bandwidth.points(results.rows, name)
        speeds = [speed / 1e9 for _, speed in points]
        colour = f"C{[*cache_bandwidth.KERNELS].index(kernel)}"
        axes.plot([size for size, _ in points], speeds, color=colour, label=name, **LINES[state])
    for cache, size in results.versions.items():
        if cache.endswith(" cache"):
            at = int(size.removesuffix(" KiB")) * 2**10
            axes.axvline(at, color="0.6", lw=1, ls=":")
            axes.text(at, 1.01, cache, transform=axes.get_xaxis_transform(), ha="center", fontsize="x-small")
    _finish(axes, results, "caches", "bytes of the working set", columns=1)


def _finish(axes: Any, results: Results, subject: str, size: str, *, columns: int) -> None:
    axes.set(xscale="log", yscale="log", xlabel=size, ylabel="GB/s")
    axes.set_title(f"{subject} on {results.device}, {results.date[:10]}", loc="left", pad=14)
    axes.grid(alpha=0.3, which="both", lw=0.4)
    axes.figure.legend(loc="outside right upper", fontsize="x-small", ncols=columns)
