"""Measures dispatches in a loop with DxDispatch's options, and words the results as DxDispatch does."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any


@dataclass(frozen=True)
class Timing:
    """DxDispatch's timing options.

    Args:
      iterations: dispatch, wait; repeated this often.
      repeat: dispatches inside one iteration.
      milliseconds: how long to go on; overrides `iterations`.
      warmup: samples at most that are left out as cold; one sample always stays.
      interval: milliseconds at least from one iteration to the next.
      verbosity: 0 the median, 1 cold and hot statistics, 2 every iteration.
    """

    iterations: int = 1
    repeat: int = 1
    milliseconds: float | None = None
    warmup: int = 1
    interval: float = 0
    verbosity: int = 0

    def cold(self, samples: Sequence[float]) -> int:
        """How many samples are left out as warm-up."""
        return min(self.warmup, len(samples) - 1)


def measure(dispatch: Callable[[], Any], wait: Callable[[Any], Any], timing: Timing) -> tuple[list[float], Any]:
    """Runs the loop; returns the milliseconds of one dispatch per iteration, and the last result."""
    samples: list[float] = []
    loop = time.perf_counter()
    result = None
    while True:
        start = time.perf_counter()
        for _ in range(timing.repeat):
            result = dispatch()
        wait(result)
        spent = (time.perf_counter() - start) * 1e3
        samples.append(spent / timing.repeat)
        pause = max(0.0, timing.interval - spent)
        if timing.milliseconds is None:
            done = len(samples) >= timing.iterations
        else:
            done = (time.perf_counter() - loop) * 1e3 + pause > timing.milliseconds
        if done:
            return samples, result
        time.sleep(pause / 1e3)


def report(name: str, samples: Sequence[float], timing: Timing) -> Iterator[str]:
    """Yields the lines about one dispatch."""
    cold, hot = samples[: timing.cold(samples)], samples[timing.cold(samples) :]
    if timing.verbosity == 0:
        yield f"Dispatch {name!r}: {len(samples)} iterations, {median(hot):.4f} ms median (CPU)"
        return
    yield f"Dispatch {name!r}: {len(samples)} iterations"
    for label, part in (("Cold) ", cold), ("Hot)  ", hot)):
        if part:
            yield (
                f"CPU Timings ({label}: {len(part)} samples, {mean(part):.4f} ms average, {min(part):.4f} ms min, "
                f"{median(part):.4f} ms median, {max(part):.4f} ms max"
            )
    if timing.verbosity >= 2:
        yield "The timings of each iteration:"
        yield from (f"iteration {i}: {sample:.4f} ms (CPU)" for i, sample in enumerate(samples))
