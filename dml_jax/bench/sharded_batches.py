"""Batches sharded over all local devices, beside one device and multi-threaded torch.

On a CPU these are virtual devices, which together use every core.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import starmap
from math import prod
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from rich.table import Table

import dml_jax

from ..batch.batch_program import replicated
from .case import INT32, Arrays, Case, Drawn, data, mib, random_indices
from .implementations import Implementation, Run
from .operators.operator_benchmark import Attributes, Operator
from .parallel_efficiency import LINEAR, Looped, mesh_of_all, sampled
from .peers import has_torch, torch_form
from .section import Job, Section, ratio, unframed
from .timing import COMPARED, Effort, Measured, by_case

LEGEND = """\
of copy          the bandwidth as a part of that of a copy of as many bytes on all devices
of linear        parallel efficiency, t(1 device) / (N x t(N devices)): 1.00 is linear scaling
x NAME           how many times as fast all devices are as NAME: one device, or torch with a thread per core"""
ROWS, FEW, WIDTH = 1024, 128, 64  # the rows of each table that a scatter writes to, those that it writes, and columns
PATCHES = {"block_size": 14, "order": "DCR", "data_format": "NCHW"}  # of vision transformers
BLOCKS = {"block_size": 2, "order": "CRD", "data_format": "NCHW"}


# Cases.


@dataclass(frozen=True, kw_only=True)
class BatchCase(Case):
    """A case of a batch that is sharded over the devices: its call computes any part of the batch.

    Args:
      way: the name of torch's form.
      whole: the number of operands, the first ones, that every device has whole; the others begin with the batch.
    """

    way: str
    whole: int = 0

    @property
    def split(self) -> tuple[bool, ...]:
        """Per operand, whether its first dimension is the batch."""
        return tuple(place >= self.whole for place in range(len(self.arrays)))


def cases(size: int, devices: int) -> Iterator[BatchCase]:
    """Cases that move about `size` bytes of data, in batches that `devices` share evenly."""

    def batch(*item: int, kind: int | str = 4) -> Drawn:
        itemsize = jnp.dtype(kind).itemsize if isinstance(kind, str) else kind
        return data((max(1, round(size / (itemsize * prod(item)) / devices)) * devices, *item), kind)

    x = batch(2**14)
    negation: Any = {"function": jnp.negative, "forms": Operator(torch={"neg": _negated}), "way": "neg"}
    yield BatchCase("copy", f"(negation) float32 {mib(x.nbytes)}", {}, [x], **negation)
    # torch's pixel_shuffle takes three to five times as long as these copies.
    for kind in (4, 1):
        x = batch(64, 64, 64, kind=kind)
        yield BatchCase("depth_to_space", f"NCHW CRD b=2 {x.dtype} {mib(x.nbytes)}", BLOCKS, [x], way="copy_")
    x = batch(3, 224, 224, kind="bfloat16")
    yield BatchCase("space_to_depth", f"NCHW DCR b=14 {x.dtype} {mib(x.nbytes)}", PATCHES, [x], way="copy_")
    x = batch(WIDTH)
    ids, detail = random_indices(x.shape[0], x.shape[:1]), f"rows of 256 bytes float32 {mib(x.nbytes)}, of one table"
    yield BatchCase("gather", detail, {"axis": 0}, [x, ids], way="index_select", whole=1)
    x = batch(4096)
    ids, detail = random_indices(4096, x.shape), f"last axis of 4096 float32 {mib(x.nbytes)}"
    yield BatchCase("gather_elements", detail, {"axis": 1}, [x, ids], way="gather")
    yield from _scatters(batch(ROWS, WIDTH))


def _scatters(x: Drawn) -> Iterator[BatchCase]:
    """An eighth of the rows of each table, as elements and as rows."""
    updates = data((x.shape[0], FEW, WIDTH), 4).then(np.flipud)

    def distinct() -> np.ndarray:
        """Rows of each table, none of them twice."""
        drawn = np.random.default_rng(1).random((x.shape[0], ROWS), np.float32)
        return np.argsort(drawn, axis=1)[:, :FEW, None].astype(np.int32)

    rows = Drawn((x.shape[0], FEW, 1), INT32, distinct)
    elements = Drawn(updates.shape, INT32, lambda: np.repeat(distinct(), WIDTH, axis=2))
    detail = f"an eighth along axis 1 of {ROWS}x{WIDTH} float32 {mib(x.nbytes)}"
    yield BatchCase("scatter_elements", detail, {"axis": 1}, [x, elements, updates], way="scatter_")
    yield BatchCase(
        "scatter_nd",
        f"an eighth of {ROWS} rows of 256 bytes float32 {mib(x.nbytes)}",
        {},
        [x, rows, updates],
        function=jax.vmap(dml_jax.scatter_nd),
        forms=Operator(torch={"scatter_": _rows_written}),
        way="scatter_",
    )


def _negated(torch: Any, _: Attributes) -> Callable[..., Any]:
    return lambda out, x: torch.neg(x, out=out)


def _rows_written(_: Any, __: Attributes) -> Callable[..., Any]:
    return lambda out, x, i, u: out.copy_(x).scatter_(1, i.expand(-1, -1, WIDTH), u)


# Measuring.


class ShardedRun(Looped):
    """Calls that each device computes on its part of the batch (shard_map)."""

    def __init__(self, function: Callable[..., Any], arrays: Arrays, split: Sequence[bool]):
        mesh = mesh_of_all(AxisType.Auto)
        batch, whole = NamedSharding(mesh, PartitionSpec("d")), NamedSharding(mesh, PartitionSpec())
        specs = tuple(batch.spec if is_split else whole.spec for is_split in split)
        local = jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=batch.spec, check_vma=False)

        def placed(array: np.ndarray, is_split: bool) -> jax.Array:
            return jax.device_put(array, batch) if is_split else replicated(array, whole)

        super().__init__(lambda out, *arrays: local(*arrays), None, [*map(placed, arrays, split)])


def section(size: int, *, peers: bool) -> Section:
    """A job for each case of about `size` bytes; on CPUs `peers` adds torch."""
    found = implementations(peers=peers)
    jobs = [Job(case.name, partial(measured, case, found)) for case in cases(size, jax.local_device_count())]
    title = "batches sharded over all devices, relative to a copy sharded the same way"
    return Section(title, jobs, [one.name for one in found], table, LEGEND)


def measured(case: BatchCase, found: Sequence[Implementation], effort: Effort) -> list[Measured]:
    """Measures implementations one at a time: another's spinning threads would slow XLA."""
    arrays, rows = case.make(), []
    copied = median(sampled(copied_by_all(case), effort))
    first = np.empty(0)
    for implementation in found:
        run: Any = implementation.start(case, [arrays])
        if run is None:
            continue
        samples, value = sampled(run, effort), run.value(COMPARED)
        first = first if rows else value
        is_same = value.shape == first.shape and value.tobytes() == first.tobytes()
        rest: Any = {"moved": case.moved, "same_bits": is_same}
        rows.append(Measured.of(case.name, case.operator, implementation.name, samples, copied, **rest))
        del run
    return rows


def of_linear(measured: Mapping[str, Measured], devices: int) -> float:
    """Parallel efficiency: t(1 device) / (N x t(N devices)); 1.00 is linear scaling."""
    return measured["one device"].seconds / (devices * measured["dml_jax"].seconds)


def table(title: str, rows: Sequence[Measured], implementations: Sequence[str], peak: float | None) -> Table:
    """A line for each case."""

    def cells(case: str, by_name: Mapping[str, Measured]) -> list[str]:
        ours, linear = by_name["dml_jax"], of_linear(by_name, jax.local_device_count())
        why = "" if linear >= LINEAR else ours.why or f"{ours.seconds * 1e3:.3g} ms a call"
        others = [ratio(ours, by_name.get(name)) for name in implementations[1:]]
        return [case, f"{ours.of_copy:.2f}", f"{linear:.2f}", *others, why or "-"]

    headings = ["case", "of copy", "of linear", *(f"x {name}" for name in implementations[1:]), "below 0.9"]
    return unframed(title, headings, starmap(cells, by_case(rows)))


def implementations(*, peers: bool) -> list[Implementation]:
    """This library on all devices, then on one device, then, on a CPU, torch with a thread per core."""
    found = [Implementation("dml_jax", _sharded), Implementation("one device", _on_one)]
    has_peer = peers and jax.default_backend() == "cpu" and has_torch()
    return [*found, Implementation("torch", _torch)] if has_peer else found


def copied_by_all(case: Case) -> Run:
    """The ceiling: a sharded negation, which reads half of the case's bytes and writes the other half."""
    devices = jax.local_device_count()
    ones = np.ones((devices, max(1, case.moved // 8 // devices)), np.float32)
    return ShardedRun(jnp.negative, (ones,), (True,))


def torch_threads(cores: int) -> dict[str, str]:
    """Sets torch's threads to `cores`; returns their number for the stored versions."""
    if not find_spec("torch"):
        return {}
    import torch  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(cores)
    return {"threads of torch": str(torch.get_num_threads())}


def _sharded(case: Any, turns: Sequence[Arrays]) -> Run:
    return ShardedRun(case.call, turns[0], case.split)


def _on_one(case: Case, turns: Sequence[Arrays]) -> Run:
    return Looped(lambda out, *arrays: case.call(*arrays), None, [*map(jnp.asarray, turns[0])])


def _torch(case: Any, turns: Sequence[Arrays]) -> Run | None:
    return torch_form(case.way, case, turns)
