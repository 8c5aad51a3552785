"""`BatchFunction`: compiles a function once for all batches, shards it over the local devices, reuses its buffers."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from ..errors import ConstraintError, DataTypeError, describe
from .batch_sources import Source

BATCH_BYTES = 64 * 10**6  # smaller batches cost calls and smaller writes
ALIGNMENT = 64  # bytes; XLA:CPU copies arrays that do not begin at a multiple


class BatchFunction:
    """A function compiled for batches of one size.

    Every device has rows of its own, with which `fn` runs as on one device: XLA puts no communication between them.

    Args:
      fn: takes one array per source, then the shared ones; gives one array of as many rows.
      sources: whose rows are batched.
      shared: arrays that every batch gets whole.
      batch_size: rows per batch; rounded up to a multiple of the devices that share it.

    Raises:
      ConstraintError: `fn` gives something else, or refuses its operands.
    """

    def __init__(
        self, fn: Callable[..., jax.Array], sources: Sequence[Source], shared: Sequence[np.ndarray], batch_size: int
    ):
        mesh = Mesh(np.array(_devices(batch_size)), ("batch",), axis_types=(AxisType.Auto,))
        rows, split, whole = -(-batch_size // mesh.size), PartitionSpec("batch"), PartitionSpec()
        self.batch_size: int = rows * mesh.size
        self._split, self._whole = NamedSharding(mesh, split), NamedSharding(mesh, whole)

        def local(*arrays: jax.Array) -> jax.Array:
            return _one_array(fn(*arrays), rows)

        specs = (*(split for _ in sources), *(whole for _ in shared))
        # Not check_vma: a scan that begins with zeros would have to say that they vary.
        mapped = jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=split, check_vma=False)
        self._fn = jax.jit(mapped)  # its trace for the shapes is found again when it is compiled
        arguments = [
            *(jax.ShapeDtypeStruct((self.batch_size, *s.item), s.dtype, sharding=self._split) for s in sources),
            *(jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=self._whole) for a in shared),
        ]
        self._mesh = mesh
        with self._own_context():
            self._result = jax.eval_shape(self._fn, *arguments)
        self._shared = shared
        self.dtype: np.dtype[Any] = np.dtype(self._result.dtype)
        self.item: tuple[int, ...] = self._result.shape[1:]

    def jitted(self) -> Callable[..., jax.Array]:
        """Returns the jitted function; it takes an output to overwrite, and one NumPy array per source.

        The old output is written over: fresh memory would cost a page fault per 4 KiB of every batch.
        """

        def into(old: jax.Array, *arguments: jax.Array) -> jax.Array:
            del old
            return lax.optimization_barrier(self._fn(*arguments))  # an argument is never handed through as the result

        # Called, not compiled ahead: jax 0.10 wants another layout of 4-bit arguments then than it gives them.
        jitted = jax.jit(into, donate_argnums=0, keep_unused=True, out_shardings=self._split)
        shared = [replicated(array, self._whole) for array in self._shared]

        def run(old: jax.Array, *rows: np.ndarray) -> jax.Array:
            placed = [jax.device_put(self._padded(r), self._split, may_alias=True) for r in rows]
            with self._own_context():
                return jitted(old, *placed, *shared)

        return run

    @contextmanager
    def _own_context(self) -> Iterator[None]:
        """Shields the block from the caller's context: a mesh, or disabled jit."""
        with jax.set_mesh(self._mesh), jax.disable_jit(False):
            yield

    def new_output(self) -> jax.Array:
        """A new buffer for one result."""
        zeros = np.zeros(self._result.shape, self.dtype)
        return jax.device_put(zeros, self._split, may_alias=False)

    def _padded(self, rows: np.ndarray) -> np.ndarray:
        if len(rows) == self.batch_size:
            return rows
        padded = np.zeros((self.batch_size, *rows.shape[1:]), rows.dtype)
        padded[: len(rows)] = rows
        return padded


def suitable_size(fn: Callable[..., jax.Array], sources: Sequence[Source], shared: Sequence[np.ndarray]) -> int:
    """Returns the batch size at which a batch of all inputs and of the output has BATCH_BYTES, one row at least."""
    function = BatchFunction(fn, sources, shared, 1)
    row = sum(prod(rows.item) * rows.dtype.itemsize for rows in (*sources, function))
    return max(1, BATCH_BYTES // max(row, 1))


def _devices(rows: int) -> list[Any]:
    """The devices that share a batch: all of them, but no more CPU devices than rows, because these share cores.

    Where the caller has chosen a default device, that one alone.
    """
    said: Any = jax.config  # whose types do not name its settings
    chosen = said.jax_default_device
    devices = [chosen] if isinstance(chosen, jax.Device) else jax.local_devices(backend=chosen)
    return devices[:rows] if devices[0].platform == "cpu" else devices


def replicated(array: np.ndarray, sharding: NamedSharding) -> jax.Array:
    """Returns the array on every device; CPU devices share one copy of it."""
    if array.ctypes.data % ALIGNMENT or not array.flags.c_contiguous:
        memory = np.empty(array.nbytes + ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % ALIGNMENT
        aligned = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        np.copyto(aligned, array)
        array = aligned
    return jax.device_put(array, sharding, may_alias=True)


def _one_array(result: Any, rows: int) -> jax.Array:
    rule = "map_batches: fn must return one array with a row per row of its batch"
    if result is None:
        raise ConstraintError(f"{rule}, but it returns None; did you forget `return`?")
    if not isinstance(result, jax.Array | np.ndarray):
        raise ConstraintError(f"{rule}, but it returns {type(result).__name__}; write one file per call")
    array = jnp.asarray(result)
    if jnp.issubdtype(array.dtype, jax.dtypes.extended):
        raise DataTypeError(f"{rule}, but it returns {array.dtype}, which no .npy file holds")
    if array.shape[:1] != (rows,):
        raise ConstraintError(f"{rule}, but for a batch of {rows} it returns {describe(array)}")
    return array


def host_rows(result: jax.Array, count: int) -> list[np.ndarray]:
    """Returns the first `count` rows, one array per device; on a CPU they are views of its memory."""
    parts = {shard.index[0].start or 0: shard.data for shard in result.addressable_shards}
    return [np.asarray(parts[start])[: count - start] for start in sorted(parts) if start < count]
