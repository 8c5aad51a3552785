"""Interleaved timing: rounds of all implementations of a case in turn, so that other load hits all alike."""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median, quantiles
from typing import Any

import jax
import numpy as np

from .case import Arrays, Case
from .collectives import Collectives
from .implementations import Implementation, Run, ceiling_of

CACHE = 2**28  # bytes that few caches hold
COMPARED = 1_000_000  # elements
TOO_SLOW = 0.1  # seconds of a call; then FEW are enough
FEW = 3
REST = 0.005  # seconds between samples, at least
IDLE = 0.1  # of one core: what a process uses while none of its threads spins
SPINNING = 1.0  # seconds; nobody is waited for longer


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Args:
      rounds: samples per implementation.
      seconds: that a sample takes at least.
    """

    rounds: int
    seconds: float


@dataclass(frozen=True)
class Measured:
    """One implementation in one case.

    Args:
      case: its name.
      operator: of the case.
      contender: its name.
      moved: bytes that have to move in a call.
      seconds: of one call, the median.
      low: the first quartile; of three samples, which slow calls have, the least.
      high: the third quartile, or the greatest.
      of_copy: the speed as a part of the ceiling's in the same rounds: a copy, or a product of matrices.
      same_bits: whether the result is that of dml_jax, by the tolerance of the case.
      control: how many times as fast the copy was as itself in the same rounds, 1.0 on a quiet machine; None if there
        was no control.
      collectives: of the program, by name: how many, and the bytes of their results on each device; None if not read.
      why: what explains a part of linear scaling below 0.9, or what has to be said of a model; empty for nothing.
      error: how far the results of dml_jax are from those of this one, as a part of its largest; None if not measured.
      samples: seconds of one call, one each, in order; older files have none.
    """

    case: str
    operator: str
    contender: str
    moved: int
    seconds: float
    low: float
    high: float
    of_copy: float
    same_bits: bool
    control: float | None = None
    collectives: Collectives | None = None
    why: str = ""
    error: float | None = None
    samples: tuple[float, ...] = ()

    @classmethod
    def of(
        cls, case: str, operator: str, contender: str, samples: Sequence[float], ceiling: float, **rest: Any
    ) -> "Measured":
        """A row of samples, beside the seconds of what nobody beats; `rest` has the other fields."""
        low, middle, high = quartiles(samples)
        numbers: Any = {"seconds": middle, "low": low, "high": high, "of_copy": ceiling / middle}
        return cls(case, operator, contender, **numbers, samples=tuple(samples), **rest)

    @property
    def spread(self) -> float:
        """Half the distance of the quartiles, as a part of the median."""
        return (self.high - self.low) / 2 / self.seconds


def by_case(rows: Iterable[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Pairs of a case and its rows by implementation, in order."""
    cases: dict[str, dict[str, Any]] = {}
    for row in rows:
        cases.setdefault(row.case, {})[row.contender] = row
    yield from cases.items()


def measure(case: Case, implementations: Sequence[Implementation], effort: Effort) -> list[Measured]:
    """Measures the implementations that offer the case, the first one among them, beside its ceiling.

    All take turns, and the ceiling runs twice in each round; products of matrices are measured one after the other.
    """
    arrays = case.make()
    with jax.enable_x64(case.needs_x64):
        turns = _rotated(case, arrays)
        if case.operations:
            first, *others = implementations
            ceiling = partial(Implementation, start=lambda case, turns: ceiling_of(case, len(turns)))
            samples, same = _one_by_one(case, [first, ceiling("copy"), *others, ceiling("control")], turns, effort)
        else:
            runs = {c.name: run for c in implementations if (run := c.start(case, turns))}
            same = _compare(runs, case.tolerance)
            copy = _warm(ceiling_of(case, len(turns)))
            samples = _rounds({"copy": copy, "control": copy, **runs}, effort)
    copied, again = (median(samples.pop(name)) for name in ("copy", "control"))
    return [_summary(case, name, times, copied, same[name], copied / again) for name, times in samples.items()]


def measure_runs(case: Case, runs: Mapping[str, Run], effort: Effort, ceiling: str) -> list[Measured]:
    """Measures runs that have their data already, in turn; their results are not compared.

    Args:
      case: what they are measured as.
      runs: by implementation.
      effort: how often.
      ceiling: the implementation that the others are a part of; it runs twice in each round.
    """
    warm = {name: _warm(run) for name, run in runs.items()}
    samples = _rounds({**warm, "control": warm[ceiling]}, effort)
    copied, again = median(samples[ceiling]), median(samples.pop("control"))
    return [_summary(case, name, times, copied, True, copied / again) for name, times in samples.items()]


def _rotated(case: Case, arrays: tuple[np.ndarray, ...]) -> list[tuple[np.ndarray, ...]]:
    """The inputs and copies of them, so that no call finds its input in a cache; not for less than a megabyte."""
    count = 1 if case.moved < 2**20 else max(1, min(8, -(-CACHE // case.moved)))
    return [arrays, *(tuple(array.copy() for array in arrays) for _ in range(count - 1))]


def _compare(runs: dict[str, Run], tolerance: float) -> dict[str, bool]:
    """Warms up, and compares every result with the first one's: all of it, or a million elements spread evenly."""
    values = {}
    for name, run in runs.items():
        values[name] = _warm(run).value(COMPARED)
    return _same(values, tolerance)


def _one_by_one(
    case: Case, implementations: Sequence[Implementation], turns: Sequence[Arrays], effort: Effort
) -> tuple[dict[str, list[float]], dict[str, bool]]:
    """Times one implementation after the other: others' spinning threads cost XLA a third of its speed on two cores."""
    samples, values = {}, {}
    for implementation in implementations:
        run = implementation.start(case, turns)
        if run is not None:
            values[implementation.name] = _warm(run).value(COMPARED)
            samples |= _rounds({implementation.name: run}, effort)
        del run
    return samples, _same(values, case.tolerance)


def _same(values: dict[str, np.ndarray], tolerance: float) -> dict[str, bool]:
    first = next(iter(values.values()))
    return {name: value.shape == first.shape and _is_same(value, first, tolerance) for name, value in values.items()}


def _warm(run: Run) -> Run:
    for turn in (0, 1):
        run.step(turn)
    run.finish()
    return run


def _is_same(value: np.ndarray, first: np.ndarray, tolerance: float) -> bool:
    if tolerance:
        value, first = (one.astype(np.float64) for one in (value, first))
        return bool(np.abs(value - first).max() <= tolerance * np.abs(first).max())
    if value.dtype.itemsize != first.dtype.itemsize:  # indices, which others count in 64 bits
        return np.array_equal(value, first)
    a, b = (np.ascontiguousarray(one).view(np.uint8) for one in (value, first))
    return np.array_equal(a, b)


def _rounds(runs: dict[str, Run], effort: Effort) -> dict[str, list[float]]:
    first = {name: _first(run) for name, run in runs.items()}
    samples = {name: times for name, times in first.items() if median(times) > TOO_SLOW}
    runs = {name: run for name, run in runs.items() if name not in samples}
    calls = {name: max(1, min(1000, round(effort.seconds / timed(run, 2)))) for name, run in runs.items()}
    samples |= {name: [] for name in runs}
    order, shuffler = list(runs), random.Random(0)
    for _ in range(effort.rounds):
        shuffler.shuffle(order)  # whoever comes after a slow one finds colder caches
        for name in order:
            samples[name].append(timed(runs[name], calls[name], rested=True))
    return {name: samples[name] for name in first}


def _first(run: Run) -> list[float]:
    """The first call, which touches every page. If it was slow, two more tell whether it alone was."""
    once = timed(run, 1, rested=True)
    return [once, *(timed(run, 1, rested=True) for _ in range(FEW - 1))] if once > TOO_SLOW else [once]


def _rest() -> None:
    """Waits until no thread of whoever was called last spins, for on two cores it takes one from whoever is next.

    After a call, threads of OpenMP spin for 5 ms, those of ONNX Runtime for 100.
    """
    end = time.perf_counter() + SPINNING
    while time.perf_counter() < end:
        used = time.process_time()
        time.sleep(REST)
        if time.process_time() - used < IDLE * REST:
            return


def timed(run: Run, calls: int, *, rested: bool = False) -> float:
    """Seconds of one call; `rested` for one that counts."""
    if rested:
        _rest()
    start = time.perf_counter()
    for turn in range(calls):
        run.step(turn)
    run.finish()
    return (time.perf_counter() - start) / calls


def seconds_of(function: Callable[[], Any]) -> tuple[float, Any]:
    """The seconds of a call, and its result."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def quartiles(times: Sequence[float]) -> tuple[float, float, float]:
    low, middle, high = quantiles(times, n=4) if len(times) > 1 else [*times] * 3
    return low, middle, high


def _summary(case: Case, name: str, times: list[float], copied: float, same: bool, control: float) -> Measured:
    rest: Any = {"moved": case.moved, "same_bits": same, "control": control}
    return Measured.of(case.name, case.operator, name, times, copied, **rest)
