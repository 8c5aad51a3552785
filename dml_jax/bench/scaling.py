"""Scaling: a run on all devices beside the same on one of them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

import jax
import numpy as np

from .collectives import worded
from .contenders import Run
from .looped import Looped
from .measuring import COMPARED, Effort, Measured

__all__ = ["LINEAR", "Alone", "alone", "quartiles", "sampled", "scaled"]

LINEAR = 0.9  # what is below is explained
ROUNDED = 2**-12  # of the largest number: sums in another order, of long rows
SHORT = 50e-6  # seconds: the device then waits for the program
LONGER = 10  # samples than on one device, as the start of a program takes longer


@dataclass(frozen=True)
class Alone:
    """One device: seconds of a call, and some of the results of the first one."""

    seconds: float
    result: np.ndarray
    bytes: int


def alone(run: Looped, effort: Effort) -> Alone:
    """Measures a run on one device."""
    times, result = _measured(run, effort)
    return Alone(median(times), result, _bytes_of_all(run))


def scaled(case: str, operator: str, run: Looped, baseline: Alone, effort: Effort) -> Measured:
    """Measures a run on all devices; its `of_copy` is the part of linear scaling."""
    times, result = _measured(run, effort)
    low, middle, high = quartiles(times)
    linear = baseline.seconds / (jax.local_device_count() * middle)
    why = _why(run, middle, baseline) if linear < LINEAR else ""
    found, moved, is_same = run.collectives, baseline.bytes, _is_close(result, baseline.result)
    return Measured(case, operator, "dml_jax", moved, middle, low, high, linear, is_same, None, found, why)


def _measured(run: Looped, effort: Effort) -> tuple[list[float], np.ndarray]:
    """Seconds, and results: those of a loop, or of the first step where each begins with the last one's."""
    first = run.value(COMPARED) if run.is_fed else None
    times = sampled(run, effort)
    return times, run.value(COMPARED) if first is None else first


def quartiles(times: Sequence[float]) -> tuple[float, float, float]:
    low, middle, high = quantiles(times, n=4) if len(times) > 1 else [*times] * 3
    return low, middle, high


def sampled(run: Run, effort: Effort) -> list[float]:
    """Seconds of a call in each sample, behind one that does not count, as it compiles."""

    def timed(calls: int) -> float:
        start = time.perf_counter()
        for turn in range(calls):
            run.step(turn)
        run.finish()
        return (time.perf_counter() - start) / calls

    timed(1)
    calls = max(1, min(1000, round(LONGER * effort.seconds / timed(2))))
    timed(calls)
    return [timed(calls) for _ in range(effort.rounds if calls > 1 else min(3, effort.rounds))]


def _why(run: Looped, seconds: float, baseline: Alone) -> str:
    """The first that is known."""
    if run.collectives:
        return worded(run.collectives)
    more = _bytes_of_all(run) - baseline.bytes
    if more > baseline.bytes / 8:
        return f"copies of {more / 1e6:.3g} MB that all devices have whole"
    return f"short calls of {seconds * 1e6:.0f} us" if seconds < SHORT else ""


def _bytes_of_all(run: Looped) -> int:
    """Of arrays and results, on all devices together."""
    arrays: Any = jax.tree.leaves((run.arrays, run.out))
    return sum(shard.data.nbytes for array in arrays for shard in array.addressable_shards)


def _is_close(value: np.ndarray, other: np.ndarray) -> bool:
    """Numbers of floats nearly, others exactly."""
    if value.dtype.kind != other.dtype.kind or value.shape != other.shape:
        return False
    if value.dtype.kind in "iub":
        return np.array_equal(value, other)
    value, other = (one.astype(np.float64) for one in (value, other))
    return bool(np.allclose(value, other, rtol=0, atol=ROUNDED * max(np.abs(other).max(initial=0), 1e-30)))
