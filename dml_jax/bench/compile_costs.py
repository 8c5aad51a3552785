"""Seconds to trace, lower and compile each operator, and its peak memory, beside jax.numpy."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median
from typing import Any, ClassVar

import jax
from rich.table import Table

from ..core.executable import compile_in_steps
from . import gather_gradients
from .case import Case
from .implementations import jnp_of
from .operators import quick
from .section import Job, Section, unframed
from .timing import Effort, by_case, quartiles

Function = Callable[..., Any]

STEPS = {"trace": "tracing", "lower": "lowering", "compile": "compiling"}  # in headings, and in `Cost`
LEGEND = """\
ms to trace      what JAX takes to trace a call of dml_jax, in milliseconds: the median, as of all that follows
ms to lower      the same for StableHLO to be made of what was traced
ms to compile    the same for XLA to compile that
of floor         bytes of arguments, outputs and temporary arrays, as a part of arguments and outputs alone
x jnp            time or memory of jax.numpy's twin, divided by that of dml_jax: above 1.00 dml_jax takes less"""


@dataclass(frozen=True)
class Cost:
    """One implementation in one case.

    Args:
      case: its name.
      operator: of the case.
      contender: its name.
      tracing: seconds until a call was traced, the median.
      lowering: seconds from then on until StableHLO was made of it.
      compiling: seconds from then on until XLA had compiled that.
      spread: half the distance of the quartiles of all three together, as a part of the median.
      peak: bytes of arguments, outputs and temporary arrays while it runs; None where XLA does not tell.
      floor: bytes of arguments and outputs alone.
      loading: seconds to read the file of a model.
      samples: of each round, the seconds of tracing, lowering and compiling; older files and models have none.
    """

    case: str
    operator: str
    contender: str
    tracing: float
    lowering: float
    compiling: float
    spread: float
    peak: int | None
    floor: int
    loading: float = 0.0
    samples: tuple[Sequence[float], ...] = ()
    control: ClassVar[None] = None  # nothing is copied here


def costs_section() -> Section:
    """The first quick case of every operator, and the gradient of a gather."""
    first: dict[str, Case] = {}
    for case in quick():
        first.setdefault(case.operator, case)
    gradient = gather_gradients.of_rows(2**16, 64, 2**16, "float32", "uniform", {})
    jobs = [_job(case) for case in (*first.values(), gradient)]
    return Section("costs beside running", jobs, ["dml_jax", "jnp"], table, LEGEND)


def _job(case: Case) -> Job:
    other = jnp_of(case)
    functions = {"dml_jax": case.written(len(case.arrays)), **({"jnp": other} if other else {})}
    return Job(case.name, lambda effort: _measure(case, functions, effort))


def _measure(case: Case, functions: dict[str, Function], effort: Effort) -> list[Cost]:
    """Measures the functions in random order, round by round. The first round warms up imports and does not count."""
    arrays, order, found = case.make(), random.Random(0), {name: [] for name in functions}
    with jax.enable_x64(case.needs_x64):
        for _ in range(effort.rounds + 1):
            for name in order.sample([*functions], len(functions)):
                found[name].append(_compiled(functions[name], arrays))
    return [_cost(case, name, *zip(*samples[1:], strict=True)) for name, samples in found.items()]


def _compiled(function: Function, arrays: Sequence[Any]) -> tuple[tuple[float, ...], int | None, int]:
    """Seconds of each step of a new function, of which JAX has kept nothing, and bytes."""
    jax.clear_caches()
    executable = compile_in_steps(function, arrays)
    return executable.seconds, executable.peak, executable.floor


def _cost(case: Case, name: str, steps: Sequence[Any], peaks: Sequence[Any], floors: Sequence[int]) -> Cost:
    sums = [sum(of) for of in steps]
    low, middle, high = quartiles(sums)
    tracing, lowering, compiling = map(median, zip(*steps, strict=True))
    found = tracing, lowering, compiling, (high - low) / 2 / middle, peaks[0], floors[0]
    return Cost(case.name, case.operator, name, *found, samples=tuple(steps))


def table(title: str, rows: Sequence[Cost], implementations: Sequence[str], peak: float | None) -> Table:
    """A line for each case, and the geometric means."""
    pairs = [*((f"ms to {step}", step) for step in STEPS), ("of floor", "memory")]
    headings = [part for heading, subject in pairs for part in (heading, f"{subject} x {implementations[1]}")]
    lines = {case: [*_numbers(*measured.values())] for case, measured in by_case(rows)}
    columns = zip(*lines.values(), strict=True)
    means = [geometric_mean(filter(None, column)) if any(column) else None for column in columns]
    lines["geometric mean"] = means
    words = ([case, *("-" if n is None else f"{n:.2f}" for n in numbers)] for case, numbers in lines.items())
    return unframed(title, ["case", *headings], words)


def _numbers(ours: Cost, other: Cost | None = None) -> Iterator[float | None]:
    """Each number of ours, followed by its ratio other / ours, or None without another."""
    for name in STEPS.values():
        yield 1e3 * getattr(ours, name)
        yield getattr(other, name) / getattr(ours, name) if other else None
    yield ours.peak / ours.floor if ours.peak else None
    yield other.peak / ours.peak if ours.peak and other and other.peak else None
