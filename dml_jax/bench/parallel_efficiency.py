"""Parallel efficiency, t(1) / (N x t(N)): programs of many calls on all devices, relative to one device."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.experimental.layout import Layout, with_layout_constraint
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from .collectives import collectives, worded
from .implementations import Run, joined, thin
from .timing import COMPARED, Effort, Measured, timed

FEW = 4  # calls that are no loop


class Looped:
    """Calls of `step`, each after the one before; the calls of a sample are one program, with a loop.

    In the loop, each device multiplies the first element that it has of every array by a 1 of which the compiler knows
    nothing. So nothing is the same in each turn, and no turn can be left out; it takes a few microseconds.

    Args:
      step: takes `out` and `arrays`, returns the next `out`.
      start: the first `out`, which is donated; None for a step that makes its output of the arrays alone.
      arrays: on one device, or on a mesh.
    """

    def __init__(self, step: Callable[..., Any], start: Any, arrays: Sequence[jax.Array]):
        self.is_fed, self.arrays, self.pending = start is not None, tuple(arrays), 0
        kept = {"out_shardings": _shardings(start)} if self.is_fed else {}
        self._once = jax.jit(step, donate_argnums=0, **kept).lower(start, *arrays).compile()
        self.collectives = collectives(self._once.as_text() or "")
        self.out = self._once(start, *arrays)
        shardings = _shardings((self.out, self.arrays))
        ordered = jax.tree.map(partial(_locally, _in_order), shardings[0])
        touched = [_locally(_touched, sharding) for sharding in shardings[1]]

        def several(times: int, one: jax.Array, carried: Any) -> Any:
            def turn(_: Any, carried: Any) -> Any:
                out, arrays = carried
                arrays = lax.optimization_barrier(
                    tuple(touch(x, one) for touch, x in zip(touched, arrays, strict=True))
                )
                return jax.tree.map(lambda order, x: order(x, one), ordered, step(out, *arrays)), arrays

            return lax.fori_loop(0, times, turn, carried)

        self._several = jax.jit(several, static_argnums=0, donate_argnums=2, out_shardings=shardings)
        self._loops: dict[int, Any] = {}

    def step(self, turn: int) -> None:
        self.pending += 1

    def finish(self) -> None:
        if self.pending < FEW:
            for _ in range(self.pending):
                self.out = self._once(self.out if self.is_fed else None, *self.arrays)
        else:
            self.out, self.arrays = self._looped(self.pending)(np.int32(1), (self.out, self.arrays))
        self.pending = 0
        jax.block_until_ready(self.out)

    def _looped(self, times: int) -> Any:
        """The program of so many calls."""
        if times not in self._loops:
            carried = self.out, self.arrays
            self._loops[times] = self._several.lower(times, np.int32(1), carried).compile()
        return self._loops[times]

    def value(self, most: int) -> np.ndarray:
        return joined([thin(np.asarray(one), most) for one in jax.tree.leaves(self.out)])


def _shardings(arrays: Any) -> Any:
    return jax.tree.map(lambda array: array.sharding, arrays)


def _locally(function: Callable[[jax.Array, jax.Array], jax.Array], sharding: Any) -> Callable[..., jax.Array]:
    """The function of what each device has."""
    if not isinstance(sharding, NamedSharding):
        return function
    specs = (sharding.spec, PartitionSpec())
    return jax.shard_map(function, mesh=sharding.mesh, in_specs=specs, out_specs=sharding.spec, check_vma=False)


def _in_order(x: jax.Array, _: jax.Array) -> jax.Array:
    """Pins the row-major layout inside the loop: else XLA may defer a transpose until after the loop."""
    return with_layout_constraint(x, Layout(tuple(range(x.ndim))))


def _touched(x: jax.Array, one: jax.Array) -> jax.Array:
    """Multiplies the first element by `one`, in place, so that each iteration depends on the last one."""
    # At an index that the compiler does not know: with a constant one XLA reads a slice, and copies all of the array.
    at = (one - 1,) * x.ndim
    first = lax.dynamic_slice(x, at, (1,) * x.ndim)
    return lax.dynamic_update_slice(x, first * one.astype(x.dtype), at)


def mesh_of_all(kind: AxisType) -> Mesh:
    """The mesh of all devices, along one axis."""
    return jax.make_mesh((jax.local_device_count(),), ("d",), axis_types=(kind,), devices=jax.local_devices())


LINEAR = 0.9  # what is below is explained
ROUNDED = 2**-12  # of the largest number: sums in another order, of long rows
SHORT = 50e-6  # seconds: the device then waits for the program
LONGER = 10  # samples than on one device, as the start of a program takes longer


@dataclass(frozen=True)
class Alone:
    """Baseline on one device: seconds of a call, and a sample of its results."""

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
    linear = baseline.seconds / jax.local_device_count()
    rest: Any = {"moved": baseline.bytes, "same_bits": _is_close(result, baseline.result)}
    row = Measured.of(case, operator, "dml_jax", times, linear, collectives=run.collectives, **rest)
    return replace(row, why=_why(run, row.seconds, baseline)) if row.of_copy < LINEAR else row


def _measured(run: Looped, effort: Effort) -> tuple[list[float], np.ndarray]:
    """Seconds, and results: those of a loop, or of the first step where each begins with the last one's."""
    first = run.value(COMPARED) if run.is_fed else None
    times = sampled(run, effort)
    return times, run.value(COMPARED) if first is None else first


def sampled(run: Run, effort: Effort) -> list[float]:
    """Seconds of a call in each sample, behind one that does not count, as it compiles."""
    timed(run, 1)
    calls = max(1, min(1000, round(LONGER * effort.seconds / timed(run, 2))))
    timed(run, calls)
    return [timed(run, calls) for _ in range(effort.rounds if calls > 1 else min(3, effort.rounds))]


def _why(run: Looped, seconds: float, baseline: Alone) -> str:
    """The first that is known."""
    if run.collectives:
        return worded(run.collectives)
    more = _bytes_of_all(run) - baseline.bytes
    if more > baseline.bytes / 8:
        return f"copies of {more / 1e6:.3g} MB that all devices have whole"
    return f"short calls of {seconds * 1e6:.0f} us" if seconds < SHORT else ""


def _bytes_of_all(run: Looped) -> int:
    """Bytes of arguments and results, summed over all devices."""
    arrays: Any = jax.tree.leaves((run.arrays, run.out))
    return sum(shard.data.nbytes for array in arrays for shard in array.addressable_shards)


def _is_close(value: np.ndarray, other: np.ndarray) -> bool:
    """Whether two results agree: floats within a tolerance, all others exactly."""
    if value.dtype.kind != other.dtype.kind or value.shape != other.shape:
        return False
    if value.dtype.kind in "iub":
        return np.array_equal(value, other)
    value, other = (one.astype(np.float64) for one in (value, other))
    return bool(np.allclose(value, other, rtol=0, atol=ROUNDED * max(np.abs(other).max(initial=0), 1e-30)))
