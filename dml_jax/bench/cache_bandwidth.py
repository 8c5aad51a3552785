"""Cache bandwidth by working set size: warm, from the caches that hold it, and cold, from memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, starmap, takewhile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from rich.table import Table

from .bandwidth_ceilings import known_device
from .case import Case, mib
from .section import Job, Section, unframed
from .timing import Effort, Measured, by_case, measure_runs

OPERATOR = "caches"
EMPTY = 2**8  # bytes: a pass over so few tells how long it takes to start one
SMALLEST, LARGEST = 2**14, 2**30
COLD = 2**29  # bytes, more than caches hold
FEW, MANY = 4, 2**12  # passes that a call makes at least, and at most
# Bytes that a call passes over, and passes in a step of its loop, by platform; else LOOP. On a GPU a call takes 0.2 ms
# to start, so it passes over more; and XLA makes a CUDA graph of a step, in which a kernel starts sooner.
LOOPS, LOOP = {"cpu": (2**26, 1)}, (2**33, 16)
SUMMED = 8  # rows: with so many XLA unrolls the sum on CPUs, and reads faster than with more
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
LEGEND = """\
working set      bytes that a pass reads, or that it reads and writes, each half of them; a call makes many passes
copy, read       GB/s of a negation of int32, and of sums of it, which move a quarter more that does not count
warm             the same set again and again, which lies in the smallest cache that holds it
cold             another set in each pass, out of 512 MiB or of two larger sets, so that it comes from memory
empty pass       the part of its time that a pass of 256 bytes takes, too: above half, GB/s say how fast passes start"""


@dataclass(frozen=True)
class Kernel:
    """A pass over one of the sets in memory.

    Args:
      arrays: into which a set is divided; the output is one of them, or sums.
      out: the shape of the output, of the number of sets and of elements of an array of a set.
      move: the new output, of the output, the values of a set, and which set it is.
    """

    arrays: int
    out: Callable[[int, int], tuple[int, ...]]
    move: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]


def _copy(out: jax.Array, values: jax.Array, at: jax.Array) -> jax.Array:
    return lax.dynamic_update_index_in_dim(out, ~values, at, 0)


def _read(out: jax.Array, values: jax.Array, at: jax.Array) -> jax.Array:
    """Sums the values. The barrier keeps XLA from fusing several passes into one kernel."""
    return lax.optimization_barrier(out) + jnp.sum(values.reshape(SUMMED, -1), axis=0, dtype=values.dtype)


KERNELS = {
    "copy": Kernel(2, lambda sets, n: (sets, n), _copy),
    "read": Kernel(1, lambda sets, n: (n // SUMMED,), _read),
}
STATES = {"warm": 0, "cold": 1}  # the step from a set to the next
CURVES = [f"{kernel}, {state}" for kernel in KERNELS for state in STATES]


class Sets:
    """Sets of one size in memory, and a program that passes over them with a kernel.

    Which set comes next is data: warm and cold are one program. There are two sets at least, as XLA would pass over one
    that is alone once, and not again.

    Elements are int32, as XLA gives the sum of floats on CPUs to a library, and copies each set for that.

    Args:
      kernel: what a pass does.
      size: bytes of a set, a power of two.
      memory: bytes of all sets, if two sets are not larger; a power of two.
    """

    def __init__(self, kernel: Kernel, size: int, memory: int):
        sets, n = max(2, memory // size), size // kernel.arrays // 4
        call, unroll = LOOPS.get(jax.default_backend(), LOOP)
        passes = min(MANY, max(FEW, call // size))
        self.count, self.passes = sets, passes
        self.x = jnp.ones((sets, n), jnp.int32)
        self.out = jnp.zeros(kernel.out(sets, n), jnp.int32)

        def pass_over(out: jax.Array, first: jax.Array, x: jax.Array, step: jax.Array) -> tuple[jax.Array, jax.Array]:
            def body(i: jax.Array, out: jax.Array) -> jax.Array:
                at = first + i * step & sets - 1
                return kernel.move(out, lax.dynamic_index_in_dim(x, at, keepdims=False), at)

            return lax.fori_loop(0, passes, body, out, unroll=unroll), first + passes * step

        self.called = jax.jit(pass_over, donate_argnums=(0, 1))

    def call(self, first: jax.Array, step: jax.Array) -> jax.Array:
        """Starts a call: passes from a set on, over every `step`-th of them, 0 for that one alone; returns the next."""
        self.out, behind = self.called(self.out, first, self.x, step)
        return behind


class SetsRun:
    """Calls one after the other, each of which begins where the last one ended.

    Args:
      sets: what they pass over.
      next_set: how far the next set is from the last one; 0 for the same again.
    """

    def __init__(self, sets: Sets, next_set: int):
        self.sets, self.first, self.next_set = sets, jnp.int32(0), jnp.int32(next_set)

    def step(self, turn: int) -> None:
        self.first = self.sets.call(self.first, self.next_set)

    def finish(self) -> None:
        jax.block_until_ready(self.sets.out)

    def value(self, most: int) -> np.ndarray:
        return np.asarray(self.sets.out).reshape(-1)[:most]


def section(largest: int | None = None) -> Section:
    """Working sets from 16 KiB to `largest` bytes, or 1 GiB, each twice as large as the last; and an empty pass."""
    powers = takewhile(lambda size: size <= (largest or LARGEST), (SMALLEST << i for i in count()))
    jobs = [Job(case.name, partial(_measured, case)) for case in map(_case, (EMPTY, *powers))]
    return Section("warm and cold caches, in GB/s", jobs, CURVES, table, LEGEND)


def _case(size: int) -> Case:
    return Case(OPERATOR, mib(size) if size >= 2**10 else f"{size} B", needed=size)


def _measured(case: Case, effort: Effort) -> list[Measured]:
    """A row for each kernel, warm and cold; seconds are of a pass."""
    found = {name: Sets(kernel, case.moved, COLD) for name, kernel in KERNELS.items()}
    runs = {f"{name}, {state}": SetsRun(sets, step) for name, sets in found.items() for state, step in STATES.items()}
    passes = found["copy"].passes
    return [_of_a_pass(row, passes) for row in measure_runs(case, runs, effort, "copy, cold")]


def _of_a_pass(row: Measured, passes: int) -> Measured:
    seconds, low, high, *samples = (time / passes for time in (row.seconds, row.low, row.high, *row.samples))
    return replace(row, seconds=seconds, low=low, high=high, samples=tuple(samples))


def table(title: str, rows: Sequence[Measured], implementations: Sequence[str], peak: float | None = None) -> Table:
    """A line for each size: GB/s of each kernel, warm and cold, and what starting a pass takes at most."""
    cases = dict(by_case(rows))
    empty = cases.get(_case(EMPTY).name)

    def cells(case: str, found: dict[str, Measured]) -> list[str]:
        speeds = (f"{found[name].moved / found[name].seconds / 1e9:.1f}" for name in implementations)
        share = [f"{max(empty[name].seconds / found[name].seconds for name in implementations):.0%}"] if empty else []
        return [case.removeprefix(f"{OPERATOR} "), *speeds, *share]

    headings = ["working set", *implementations, *(["empty pass"] if empty else [])]
    return unframed(title, headings, starmap(cells, cases.items()))


def points(rows: Sequence[Measured], curve: str) -> list[tuple[int, float]]:
    """Sizes and bytes a second of a curve; not of sets over which a pass takes less than twice an empty one."""
    found = {row.moved: row.seconds for row in rows if row.operator == OPERATOR and row.contender == curve}
    start = found.pop(EMPTY, 0.0)
    return [(size, size / seconds) for size, seconds in found.items() if seconds > 2 * start]


def cache_sizes(kind: str) -> dict[str, str]:
    """The sizes of a device's caches in KiB, by the system or a data sheet; of a CPU those of a core."""
    if jax.default_backend() != "cpu":
        device = known_device(kind)
        return {"L2 cache": f"{device.cache // 2**10} KiB"} if device and device.cache else {}
    caches = ({name: (path / name).read_text().strip() for name in ("level", "type", "size")} for path in _indices())
    return {f"L{c['level']} cache": f"{c['size'].removesuffix('K')} KiB" for c in caches if c["type"] != "Instruction"}


def _indices() -> list[Path]:
    return sorted(_CACHES.glob("index*"))
