"""What the library aims at, and where the stored results reach it: the tables "targets" of docs/benchmarks.md."""

import re
from collections.abc import Callable, Iterator, Mapping
from math import ceil
from statistics import geometric_mean
from typing import NamedTuple

from dml_jax.bench.measuring import Measured

__all__ = ["HEAD", "LARGE", "TARGETS", "Target", "verdict"]

# One case: the contenders by name.
Case = Mapping[str, Measured]

LARGE = 2**24  # bytes moved


class Target(NamedTuple):
    """What some cases should reach.

    Args:
      text: which cases, for a reader.
      cases: a pattern that begins the names of the cases.
      unit: what a case is measured in, of `UNITS`.
      each: the least that every case should have; None if the mean alone counts.
      mean: the least that the geometric mean should have; None if every case alone counts.
      least_moved: bytes; cases that move fewer are left out, as calls decide their speed.
    """

    text: str
    cases: str
    unit: str
    each: float | None = None
    mean: float | None = None
    least_moved: int = LARGE


PICTURES, NARROW = "(depth_to_space|space_to_depth)", "(uint8|float16|bfloat16)"
USUAL_BLOCKS, REAL_BLOCKS = f"{PICTURES} N.* b=[2348] .*", f"{PICTURES} real .* b=[2348] of"
LARGE_BLOCKS = rf"{PICTURES} real .*b=[123]\d of .*"
REORDERED = f"as_strided (transposed|NHWC|real).*{NARROW}"
MOVED = "(slice|split|join|pad|tile|upsample_2d)"
LONG_ROWS = r"gather (real embedding|rows of (128|256|512|\d{4}) bytes)"
SHORT_ROWS = r"gather rows of (4|16|64) bytes .*random 256 MiB"
INDEXED = "(gather|gather_nd|gather_elements|scatter_nd|scatter_elements|as_strided (padded|broadcast) rows) "

TARGETS: Mapping[str, tuple[Target, ...]] = {
    "h200": (
        Target("depth and space, b = 2, 3, 4, 8", USUAL_BLOCKS + "(uint8|float16|float32)", "copy", 0.90, 0.95),
        Target("depth and space, b = 2, 3, 4, 8, shapes of real programs", REAL_BLOCKS, "copy", 0.90, 0.95),
        Target("patches, tubelets and blocks of 10 to 32, 4 bytes", LARGE_BLOCKS + "float32", "copy", 0.70),
        Target("patches, tubelets and blocks of 10 to 32, 2 bytes", LARGE_BLOCKS + "float16", "copy", 0.60),
        Target("patches, tubelets and blocks of 10 to 32, 1 byte", LARGE_BLOCKS + "uint8", "copy", 0.55),
        Target("depth and space, NHWC CRD, 1 and 2 bytes", f"{PICTURES} .*NHWC CRD .*{NARROW}", "copy", 0.85),
        Target("depth and space, NCHW b=3, 1 byte", f"{PICTURES} .*NCHW .* b=3 .*uint8", "copy", 0.85),
        Target("views in another order, 1 and 2 bytes", REORDERED, "copy", 0.80),
        Target("padded and broadcast rows as views", "as_strided (padded|broadcast)", "copy", 0.90),
        Target("gathered rows of 128 bytes and more", LONG_ROWS, "copy", 0.85),
        Target("gathered rows of 4, 16 and 64 bytes, random", SHORT_ROWS, "sectors", 0.80),
        Target("`gather_elements`, sorted", "gather_elements .*sorted", "copy", 0.80),
        Target("`gather_elements`", "gather_elements", "torch", 1.0),
        Target("slices, splits, joins, borders, repeats, 4 bytes", f"{MOVED} .*float32", "copy", 0.80),
        Target("slices, splits, joins, borders, repeats, 1 and 2 bytes", f"{MOVED} .*{NARROW}", "copy", 0.75),
        Target("`reverse_subsequences`, 1 to 4 bytes", "reverse_subsequences .*(float32|float16|uint8)", "copy", 0.75),
        Target("every operator into a bound output", ".", "fresh", 0.95, 1.0),
        Target("every operator", ".", "jnp", 0.95),
    ),
    "cpu": (
        Target("gathers, scatters and strided rows", INDEXED, "torch", 0.70, 1.0),
        Target("`scatter_nd` and `scatter_elements`", "scatter_(nd|elements)", "torch", 1.0),
        Target("views in another order, 1 and 2 bytes", REORDERED, "torch", 0.90),
        Target("`depth_to_space`, 1 byte", "depth_to_space .*uint8", "copy", 0.50),
        Target("depth and space, NHWC CRD, 1 byte", f"{PICTURES} .*NHWC CRD .*uint8", "copy", 0.50),
        Target("depth and space", PICTURES, "others", mean=3.0),
        Target("slices, splits, joins, borders, repeats", f"({MOVED}|reverse_subsequences) ", "others", mean=1.0),
        Target("every operator into a bound output", ".", "fresh", 0.95, 1.0),
        Target("every operator", ".", "jnp", 0.95),
    ),
    "h200_gradients": (Target("gradients", ".", "torch", 1.0, 1.0, least_moved=0),),
    "cpu_gradients": (Target("gradients", ".", "torch", 0.60, 1.0, least_moved=0),),
}

SECTOR = 64  # bytes that the memory of an H200 reads at a time
LEAST = 3  # cases that are named where a target is missed


def _beside(is_meant: Callable[[str], bool]) -> Callable[[Case], float | None]:
    """How many times as fast dml_jax is as the fastest of some contenders whose result is right; None without one."""

    def ratio(case: Case) -> float | None:
        found = [one.seconds for name, one in case.items() if is_meant(name) and one.same_bits]
        return min(found) / case["dml_jax"].seconds if found else None

    return ratio


def _of_sectors(case: Case) -> float | None:
    """The part of a copy, if a row that is read counts with all of the sectors that it lies in.

    A row of 4 bytes costs 64 to read, 4 to write, and 4 for its index: 72, of which 12 count as moved.
    """
    ours = case["dml_jax"]
    (width,) = map(int, re.findall(r"rows of (\d+) bytes", ours.case))
    counted, moved = 2 * width + 4, ceil(width / SECTOR) * SECTOR + width + 4
    return ours.of_copy * moved / counted


UNITS: Mapping[str, Callable[[Case], float | None]] = {
    "copy": lambda case: case["dml_jax"].of_copy,
    "sectors": _of_sectors,
    "torch": _beside(lambda name: name.startswith("torch")),
    "fresh": _beside(lambda name: name == "fresh"),
    "jnp": _beside(lambda name: name == "jnp"),
    "others": _beside(lambda name: name not in ("dml_jax", "fresh", "jnp", "one each", "deterministic")),
}
SHOWN = {"copy": "of a copy", "sectors": "of a copy, in whole sectors"}
HEAD = ("cases", "unit", "each", "mean", "reached", "by", "has in the mean", "the least")


def verdict(target: Target, cases: Mapping[str, Case]) -> list[str]:
    """A line of the table, as `HEAD` names its columns; numbers count as they are shown, with two digits.

    Raises:
      ValueError: no case is meant.
    """
    found = dict(sorted(_measured(target, cases), key=lambda one: one[1]))
    if not found:
        raise ValueError(f"no case matches {target.cases!r} of the target {target.text!r}")
    mean = round(geometric_mean(found.values()), 2)
    missed = [name for name, value in found.items() if round(value, 2) < (target.each or 0)]
    is_reached = mean >= (target.mean or 0) and not missed
    least = missed[:LEAST] or list(found)[:1]
    return [
        target.text,
        SHOWN.get(target.unit, f"x {target.unit}"),
        *(f"{bound:.2f}" if bound else "-" for bound in (target.each, target.mean)),
        "yes" if is_reached else "no",
        f"{len(found) - len(missed)} of {len(found)}" if target.each else "-",
        f"{mean:.2f}",
        "<br>".join(f"{found[name]:.2f} {name}" for name in least),
    ]


def _measured(target: Target, cases: Mapping[str, Case]) -> Iterator[tuple[str, float]]:
    for name, case in cases.items():
        if re.match(target.cases, name) and case["dml_jax"].moved >= target.least_moved:
            value = UNITS[target.unit](case)
            if value is not None:
                yield name, value
