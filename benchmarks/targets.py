"""What the library aims at, and where the stored results reach it: the tables "targets" of docs/benchmarks.md."""

import re
from collections.abc import Callable, Iterator, Mapping
from math import ceil
from statistics import geometric_mean
from typing import NamedTuple

from dml_jax.bench.measuring import Measured

__all__ = ["TARGETS", "Target", "verdict"]

# One case: the contenders by name.
Case = Mapping[str, Measured]


class Target(NamedTuple):
    """What some cases should reach.

    Args:
      text: what it says, for a reader.
      cases: a pattern that the names of the cases match; small cases never count.
      unit: what a case is measured in, of `UNITS`.
      each: the least that every case should have; None if the mean alone counts.
      mean: the least that the geometric mean should have; None if every case alone counts.
    """

    text: str
    cases: str
    unit: str
    each: float | None = None
    mean: float | None = None


PICTURES, LAID = "(depth_to_space|space_to_depth)", "(transposed|NHWC|real)"
NARROW = "(uint8|float16|bfloat16)"
OLD_BLOCKS = f"{PICTURES} N.* b=[2348] "
REAL_BLOCKS = rf"{PICTURES} real .*b=(8|9|[123]\d) of .*"
MOVES = "(slice|split|join|pad|tile|upsample_2d|reverse_subsequences)"
ROWS = r"gather rows of (128|256|512|\d{4}) bytes .* 256 MiB"
SHORT_ROWS = r"gather rows of (4|16|64) bytes .*random 256 MiB"
AS_ROWS = "(gather|gather_nd|gather_elements|scatter_nd|scatter_elements|as_strided (padded|broadcast) rows) "
AS_FRESH = "a bound output is as fast as a fresh one, except for noise"
AS_JNP = "nothing is slower than `jnp`, except for noise"

TARGETS: Mapping[str, tuple[Target, ...]] = {
    "h200": (
        Target("depth and space, b = 2, 3, 4, 8", OLD_BLOCKS + ".*(uint8|float16|float32)", "copy", 0.90, 0.95),
        Target("patches and blocks of 8 to 32, 4 bytes", REAL_BLOCKS + "float32", "copy", 0.70),
        Target("the same, 2 bytes", REAL_BLOCKS + "float16", "copy", 0.60),
        Target("the same, 1 byte", REAL_BLOCKS + "uint8", "copy", 0.55),
        Target("NHWC CRD of 1 and 2 bytes", f"{PICTURES} .*NHWC CRD .*{NARROW}", "copy", 0.85),
        Target("NCHW b=3 of 1 byte", f"{PICTURES} NCHW .* b=3 uint8", "copy", 0.85),
        Target("views in another order, 1 and 2 bytes", f"as_strided {LAID}.*{NARROW}", "copy", 0.80),
        Target("padded and broadcast rows as views", "as_strided (padded|broadcast)", "copy", 0.90),
        Target("gathered rows of 128 bytes and more", ROWS, "copy", 0.85),
        Target("gathered rows of up to 64 bytes, random", SHORT_ROWS, "sectors", 0.80),
        Target("`gather_elements`, sorted", "gather_elements .*sorted", "copy", 0.80),
        Target("`gather_elements`", "gather_elements", "torch", 1.0),
        Target("slices, joins, borders, repeats, 4 bytes", f"{MOVES} .*float32", "copy", 0.80),
        Target("the same, 1 and 2 bytes", f"{MOVES} .*{NARROW}", "copy", 0.75),
        Target(AS_FRESH, ".", "fresh", 0.95, 1.0),
        Target(AS_JNP, ".", "jnp", 0.95),
    ),
    "cpu": (
        Target("gathers, scatters and strided rows", AS_ROWS, "torch", 0.70, 1.0),
        Target("`scatter_nd` and `scatter_elements`", "scatter_(nd|elements)", "torch", 1.0),
        Target("views in another order, 1 and 2 bytes", f"as_strided {LAID}.*{NARROW}", "torch", 0.90),
        Target("`depth_to_space` of 1 byte", "depth_to_space .*uint8", "copy", 0.50),
        Target("NHWC CRD of 1 byte", f"{PICTURES} .*NHWC CRD .*uint8", "copy", 0.50),
        Target("depth and space", PICTURES, "others", mean=3.0),
        Target("slices, joins, borders, repeats", f"{MOVES} ", "others", mean=1.0),
        Target(AS_FRESH, ".", "fresh", 0.95, 1.0),
        Target(AS_JNP, ".", "jnp", 0.95),
    ),
    "h200_gradients": (Target("gradients", ".", "torch", 1.0, 1.0),),
    "cpu_gradients": (Target("gradients", ".", "torch", 0.60, 1.0),),
}

LARGE = 2**24  # bytes moved: what moves fewer is decided by the cost of a call
SECTOR = 64  # bytes that the memory of an H200 reads at a time
LEAST = 3  # cases that are named where a target is missed


def _beside(names: Callable[[str], bool]) -> Callable[[Case], float | None]:
    """How many times as fast dml_jax is as the fastest of some contenders whose result is right."""

    def ratio(case: Case) -> float | None:
        found = [one.seconds for name, one in case.items() if names(name) and one.same_bits]
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
SHOWN = {"copy": "of a copy", "sectors": "of a copy, in whole sectors of 64 bytes"}


def verdict(target: Target, cases: Mapping[str, Case]) -> list[str]:
    """A line of the table: the target, how many cases have it, their mean, how many reach it, and the least of them.

    Raises:
      ValueError: no case is meant.
    """
    found = dict(sorted(_measured(target, cases), key=lambda one: one[1]))
    if not found:
        raise ValueError(f"no case matches {target.cases!r} of the target {target.text!r}")
    mean = geometric_mean(found.values())
    reached = {name for name, value in found.items() if round(value, 2) >= (target.each or 0)}
    is_reached = round(mean, 2) >= (target.mean or 0) and len(reached) == len(found)
    least = "<br>".join(f"{value:.2f} {name}" for name, value in list(found.items())[: 1 if is_reached else LEAST])
    return [
        _told(target),
        "yes" if is_reached else "no",
        f"{len(reached)} of {len(found)}" if target.each else "-",
        f"{mean:.2f}",
        least,
    ]


def _measured(target: Target, cases: Mapping[str, Case]) -> Iterator[tuple[str, float]]:
    for name, case in cases.items():
        if re.match(target.cases, name) and (case["dml_jax"].moved >= LARGE or "gradient" in name):
            value = UNITS[target.unit](case)
            if value is not None:
                yield name, value


def _told(target: Target) -> str:
    unit = SHOWN.get(target.unit, f"x {target.unit}")
    each = f"{target.each:.2f} {unit}" if target.each else ""
    mean = f"{target.mean:.2f}{'' if each else f' {unit}'} in the mean" if target.mean else ""
    return f"{target.text}: {', '.join(filter(None, (each, mean)))}"
