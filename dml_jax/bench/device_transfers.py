"""Transfer bandwidth in GB/s: between devices, to and from the host, and between shardings."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from statistics import median
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from rich.table import Table

from .collectives import worded
from .mesh_call_table import hashed_data
from .parallel_efficiency import Looped, mesh_of_all, sampled
from .section import Job, Section, unframed
from .timing import Effort, Measured, seconds_of

HEADINGS = ["MB", "GB/s", "bus GB/s", "of peak", "in the program"]
OPERATOR, PAIR = "transfer", "transfer from device"
LEGEND = """\
GB/s             algorithm bandwidth: bytes over seconds. The bytes are those of the array that is moved; of collectives
                 those of the larger of what a device gives and gets, as nccl-tests count them
bus GB/s         the bytes that each device has to send, over the same seconds; of peak: of what its links can send"""
# Bytes a second that the links of a device send, by its kind (NVLink, NVIDIA's data sheets: 900 GB/s both ways).
PEAKS = {"NVIDIA H100 80GB HBM3": 450e9, "NVIDIA H200": 450e9}
WHOLE, ROWS, COLUMNS = PartitionSpec(), PartitionSpec("d"), PartitionSpec(None, "d")


def section(size: int) -> Section:
    """Every transfer, of an array of `size` bytes, or of as many that a device gives or gets."""
    on_host, put = partial(np.arange, size // 32 * 8, dtype=np.int32), partial(jax.device_put, may_alias=False)
    jobs = []
    for a, b in permutations(jax.local_devices(), 2):
        source = partial(_on, a, on_host)
        jobs.append(_job(f"from device {a.id} to {b.id}", source, partial(jax.device_put, device=b), part=1.0))
    parts = NamedSharding(mesh_of_all(AxisType.Auto), ROWS)
    for name, place in {"one device": jax.local_devices()[0], "all devices, in parts": parts}.items():
        jobs.append(_job(f"from host to {name}", on_host, partial(put, device=place)))
        # JAX keeps what the host has got of an array. np.array copies, as a CPU would give a view.
        jobs.append(_job(f"from {name} to host", partial(_on, place, on_host), np.array, is_new=True))
    resharded = [Job(f"transfer {name}", partial(_resharded, size, name)) for name in RESHARDINGS]
    return Section("transfers", [*jobs, *resharded], ["jax"], table, LEGEND)


def _scattered(x: jax.Array) -> jax.Array:
    """The sums of a column are one device's."""
    local = lambda x: lax.psum_scatter(x[0], "d", tiled=True)  # noqa: E731
    return jax.shard_map(local, mesh=mesh_of_all(AxisType.Auto), in_specs=ROWS, out_specs=ROWS)(x)


def _around(x: jax.Array) -> jax.Array:
    n = jax.local_device_count()
    ring = partial(lax.ppermute, axis_name="d", perm=[(k, (k + 1) % n) for k in range(n)])
    return jax.shard_map(ring, mesh=mesh_of_all(AxisType.Auto), in_specs=ROWS, out_specs=ROWS)(x)


def _sum(x: Any) -> Any:
    return x.sum(0)


@dataclass(frozen=True)
class Resharding:
    """A program whose operand has its rows on the devices.

    Args:
      after: how the result is sharded.
      shape: of the operand, of bytes and devices.
      sent: the part of the bytes that each device has to send, of the devices.
      function: of the operand.
      expected: the same in NumPy.
    """

    after: PartitionSpec
    shape: Callable[[int, int], tuple[int, ...]]
    sent: Callable[[int], float]
    function: Callable[[Any], Any] = lambda x: x
    expected: Callable[[np.ndarray], np.ndarray] = lambda x: x


def _others(n: int) -> float:
    return (n - 1) / n


def _blocks(size: int, n: int) -> tuple[int, int]:
    return 8 * n, size // 32 // n


def _row_each(size: int, n: int) -> tuple[int, int]:
    return n, size // 4 // n * n


RESHARDINGS = {
    "rows to columns (all-to-all)": Resharding(COLUMNS, lambda size, n: (8 * n * n, size // 32 // n), _others),
    "sharded to replicated (all-gather)": Resharding(WHOLE, _blocks, _others),
    "sum to replicated (all-reduce)": Resharding(WHOLE, _row_each, lambda n: 2 * _others(n), _sum, _sum),
    "sum to sharded (reduce-scatter)": Resharding(ROWS, _row_each, _others, _scattered, _sum),
    "to the next of a ring (collective-permute)": Resharding(
        ROWS, _row_each, lambda n: 1.0, _around, lambda x: np.roll(x, 1, 0)
    ),
}


def _resharded(size: int, name: str, effort: Effort) -> Sequence[Measured]:
    this, n, mesh = RESHARDINGS[name], jax.local_device_count(), mesh_of_all(AxisType.Auto)
    put = jax.device_put(hashed_data(this.shape(size, n), "8").astype(np.float32), NamedSharding(mesh, ROWS))
    expected = this.expected(np.asarray(put))
    reshard = jax.jit(this.function, out_shardings=NamedSharding(mesh, this.after))
    run = Looped(lambda out, x: reshard(x), None, [put])
    is_same = np.array_equal(run.out, expected)
    return [_row(name, size, sampled(run, effort), is_same, this.sent(n), run.collectives)]


def _on(place: Any, make: Callable[[], np.ndarray]) -> jax.Array:
    return jax.device_put(make(), place, may_alias=False)


def _job(
    name: str, make: Callable[[], Any], move: Callable[[Any], Any], *, part: float = 0.0, is_new: bool = False
) -> Job:
    """Moves an array, which is made anew each time if `is_new`; a device has to send this part of it."""

    def measured(effort: Effort) -> Sequence[Measured]:
        array, times = make(), []
        for _ in range(effort.rounds + 1):
            array = jax.block_until_ready(make() if is_new else array)
            times.append(seconds_of(lambda x=array: jax.block_until_ready(move(x)))[0])
        is_same = np.array_equal(move(array), array)
        return [_row(name, array.nbytes, times[1:], is_same, part, None)]

    return Job(f"{OPERATOR} {name}", measured)


def _row(name: str, size: int, times: Sequence[float], is_same: bool, part: float, found: Any) -> Measured:
    """A row of the table; `of_copy` is 0 if the peak of the links is unknown."""
    least = part * size / PEAKS.get(jax.local_devices()[0].device_kind, math.inf)
    bus = f"bus {part * size / median(times) / 1e9:.3g} GB/s" if part else ""
    rest: Any = {"moved": size, "same_bits": is_same, "collectives": found, "why": bus}
    return Measured.of(f"{OPERATOR} {name}", OPERATOR, "jax", times, least, **rest)


def lines(rows: Sequence[Measured]) -> Iterator[list[str]]:
    """The cells of each transfer; of pairs of devices the least and the median."""
    pairs = sorted((row for row in rows if row.case.startswith(PAIR)), key=lambda row: -row.seconds)
    if pairs:
        yield _cells("device to device, the slowest pair", pairs[0])
        yield _cells("device to device, the median pair", pairs[len(pairs) // 2])
    for row in rows:
        if row not in pairs:
            yield _cells(row.case.removeprefix(f"{OPERATOR} "), row)


def _cells(name: str, row: Measured) -> list[str]:
    bus, peak = row.why.removeprefix("bus ").removesuffix(" GB/s"), f"{row.of_copy:.0%}" if row.of_copy else "-"
    found = worded(row.collectives or {}) if row.same_bits else "differs"
    return [name, f"{row.moved / 1e6:.0f}", f"{row.moved / row.seconds / 1e9:.3g}", bus or "-", peak, found or "-"]


def table(title: str, rows: Sequence[Measured], *_: Any) -> Table:
    """A line for each transfer."""
    return unframed(title, ["transfer", *HEADINGS], lines(rows))
