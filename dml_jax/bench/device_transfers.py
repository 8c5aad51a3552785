"""Transfer bandwidth in GB/s: between devices, to and from the host, and between shardings."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from rich.table import Table

from .collectives import worded
from .mesh_call_table import hashed_data
from .parallel_efficiency import Looped, sampled
from .section import Job, Section, unframed
from .timing import Effort, Measured

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
    devices = jax.local_devices()
    pairs = [(a, b) for a in devices for b in devices if a != b]
    jobs = [Job(f"{PAIR} {a.id} to {b.id}", partial(_between, size, a, b)) for a, b in pairs]
    hosts = {"to one device": devices[0], "to all devices, in parts": NamedSharding(_mesh(), ROWS)}
    for name, place in hosts.items():
        jobs.append(Job(f"transfer from host {name}", partial(_to_devices, size, place, f"from host {name}")))
        back = name.replace("to ", "from ") + " to host"
        jobs.append(Job(f"transfer {back}", partial(_to_host, size, place, back)))
    resharded = [Job(f"transfer {name}", partial(_resharded, size, name)) for name in RESHARDINGS]
    return Section("transfers", [*jobs, *resharded], ["jax"], table, LEGEND)


def _scattered(x: jax.Array) -> jax.Array:
    """The sums of a column are one device's."""
    local = lambda x: lax.psum_scatter(x[0], "d", tiled=True)  # noqa: E731
    return jax.shard_map(local, mesh=_mesh(), in_specs=ROWS, out_specs=ROWS)(x)


def _around(x: jax.Array) -> jax.Array:
    n = jax.local_device_count()
    ring = partial(lax.ppermute, axis_name="d", perm=[(k, (k + 1) % n) for k in range(n)])
    return jax.shard_map(ring, mesh=_mesh(), in_specs=ROWS, out_specs=ROWS)(x)


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


def _mesh() -> Any:
    n = jax.local_device_count()
    return jax.make_mesh((n,), ("d",), axis_types=(AxisType.Auto,), devices=jax.local_devices())


def _resharded(size: int, name: str, effort: Effort) -> Sequence[Measured]:
    this, n, mesh = RESHARDINGS[name], jax.local_device_count(), _mesh()
    put = jax.device_put(hashed_data(this.shape(size, n), "8").astype(np.float32), NamedSharding(mesh, ROWS))
    expected = this.expected(np.asarray(put))
    reshard = jax.jit(this.function, out_shardings=NamedSharding(mesh, this.after))
    run = Looped(lambda out, x: reshard(x), None, [put])
    is_same = np.array_equal(run.out, expected)
    return [_row(name, size, sampled(run, effort), is_same, this.sent(n), run.collectives)]


def _between(size: int, a: Any, b: Any, effort: Effort) -> Sequence[Measured]:
    x = jax.device_put(hashed_data((size // 4,), "8"), a)
    times = [_seconds(lambda: jax.device_put(x, b).block_until_ready()) for _ in range(effort.rounds + 1)]
    is_same = np.array_equal(jax.device_put(x, b)[-9:], x[-9:])
    return [_row(f"from device {a.id} to {b.id}", size, times[1:], is_same, 1.0, None)]


def _to_devices(size: int, place: Any, name: str, effort: Effort) -> Sequence[Measured]:
    x = np.arange(size // 32 * 8, dtype=np.int32)
    put = lambda: jax.block_until_ready(jax.device_put(x, place, may_alias=False))  # noqa: E731
    times = [_seconds(put) for _ in range(effort.rounds + 1)]
    return [_row(name, x.nbytes, times[1:], np.array_equal(put(), x), 0.0, None)]


def _to_host(size: int, place: Any, name: str, effort: Effort) -> Sequence[Measured]:
    """Copies a new array each time: JAX caches an array's host value. np.array copies, as a CPU would give a view."""
    host = np.arange(size // 32 * 8, dtype=np.int32)
    put = [jax.block_until_ready(jax.device_put(host, place, may_alias=False)) for _ in range(effort.rounds + 1)]
    times = [_seconds(partial(np.array, x)) for x in put]
    return [_row(name, host.nbytes, times[1:], np.array_equal(put[0], host), 0.0, None)]


def _seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


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
