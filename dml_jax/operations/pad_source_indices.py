"""Sources of the elements of a reflected, repeated or periodic border: one by one, or in runs."""

from collections.abc import Callable, Mapping

import jax
from jax import lax

# The period by the size of a dimension: runs of elements, as first, end, and whether they are in reverse order.
Run = tuple[int, int, bool]
PERIODS: Mapping[str, Callable[[int], list[Run]]] = {
    "reflection": lambda n: [(0, n, False), (1, n - 1, True)],
    "symmetric": lambda n: [(0, n, False), (0, n, True)],
    "wrap": lambda n: [(0, n, False)],
}


def source_of(mode: str, i: jax.Array, start: int, n: int) -> jax.Array:
    """Where elements i of the output come from, in a dimension of n."""
    number = i.dtype.type
    if mode == "edge":
        return lax.clamp(number(0), lax.sub(i, number(start)), number(n - 1))
    # The reflection of 3 elements has the period 0 1 2 1, whose place 3 is element 4 - 3 = 1. The symmetric border has
    # 0 1 2 2 1 0, whose place 3 is element 5 - 3 = 2.
    period = sum(stop - first for first, stop, _ in PERIODS[mode](n))
    at = lax.rem(lax.add(i, number(-start % period)), number(period))
    back = lax.sub(number(period - 1 if mode == "symmetric" else period), at)
    return at if period == n else lax.select(lax.lt(at, number(n)), at, back)


def cut_runs(period: list[Run], first: int, end: int) -> list[Run]:
    """The runs between `first` and `end` of the period, repeated without end."""
    runs, at = [], 0
    while at < end:
        for low, high, is_reversed in period:
            # A reversed run that is cut at its start, as the result has it, is cut at its end in the array.
            skipped, left = max(0, first - at), max(0, at + high - low - end)
            at += high - low
            if skipped + left < high - low:
                runs.append((low + left, high - skipped, True) if is_reversed else (low + skipped, high - left, False))
    return runs
