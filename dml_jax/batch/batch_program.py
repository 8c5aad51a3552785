"""`BatchProgram`: a function compiled once for all batches, sharded over the local devices; it reuses its buffers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from ..errors import ConstraintError, DataTypeError, describe

PINNED = "pinned_host"
ALIGNMENT = 64  # bytes; XLA:CPU copies arrays that do not begin at a multiple


class BatchProgram:
    """A function compiled for batches of one size.

    Every device has rows of its own, with which `fn` runs as on one device: XLA puts no communication between them.

    Args:
      fn: takes a tree of arrays, the batch, and the shared tree; gives a tree of arrays with as many rows.
      row: shapes and types of one row: the tree of the batch, with a struct for each of its arrays.
      shared: tree of arrays that every batch gets whole.
      batch_size: rows per batch; rounded up to a multiple of the devices that share it.
      caller: for messages.
      axis: the name of the dimension of the mesh.
      devices: most devices that share it.

    Attributes:
      batch_size: as it was rounded up.
      rows_per_device: the rows of a batch that one device has.
      result: shapes and types of the result of a batch: a tree of structs.

    Raises:
      ConstraintError: `fn` gives something else, or refuses its operands.
    """

    def __init__(
        self,
        fn: Callable[[Any, Any], Any],
        row: Any,
        shared: Any,
        batch_size: int,
        caller: str,
        axis: str,
        devices: int | None = None,
    ):
        mesh = Mesh(np.array(devices_of(batch_size)[:devices]), (axis,), axis_types=(AxisType.Auto,))
        rows, split, whole = -(-batch_size // mesh.size), PartitionSpec(axis), PartitionSpec()
        self.batch_size: int = rows * mesh.size
        self.rows_per_device: int = rows
        self._split, self._whole = NamedSharding(mesh, split), NamedSharding(mesh, whole)
        self._host = _on_host(self._split)

        def local(batch: Any, shared: Any) -> Any:
            return _arrays_of_rows(fn(batch, shared), rows, caller)

        # Not check_vma: a scan that begins with zeros would have to say that they vary.
        mapped = jax.shard_map(local, mesh=mesh, in_specs=(split, whole), out_specs=split, check_vma=False)
        self._fn = jax.jit(mapped)  # its trace for the shapes is found again when it is compiled
        self._batch = jax.tree.map(lambda r: _struct((self.batch_size, *r.shape), r.dtype, self._split), row)
        self._mesh = mesh
        with self._own_context():
            self._wholes = jax.tree.map(lambda a: _struct(a.shape, a.dtype, self._whole), shared)
            self.result: Any = jax.eval_shape(self._fn, self._batch, self._wholes)
        self._shared = shared

    def compiled(self) -> Callable[..., Any]:
        """Returns the jitted function; it takes an output to overwrite, and a tree of NumPy arrays.

        The old output is written over: fresh memory would cost a page fault per 4 KiB of every batch. It returns the
        new output, to be overwritten by a later call, and the same in memory of the host, which is being copied still.
        """

        def into(old: Any, *arguments: Any) -> Any:
            del old
            return lax.optimization_barrier(self._fn(*arguments))  # an argument is never handed through as the result

        # Called, not compiled ahead: jax 0.10 wants another layout of 4-bit arguments then than it gives them.
        jitted = jax.jit(into, donate_argnums=0, keep_unused=True, out_shardings=self._split)
        shared = jax.tree.map(lambda array: replicated(array, self._whole), self._shared)

        def run(old: Any, batch: Any) -> Any:
            placed = jax.tree.map(lambda r: jax.device_put(self._padded(r), self._split, may_alias=True), batch)
            with self._own_context():
                output = jitted(old, placed, shared)
            return output, output if self._host is None else jax.device_put(output, self._host)

        return run

    def lowered(self) -> Any:
        """Returns the module of StableHLO, which has the constants, and none of the shared arrays.

        It is that of CPUs, whatever the devices are, unless something in it is for these devices only.
        """
        with self._own_context():
            traced = self._fn.trace(self._batch, self._wholes)
            try:
                lowered = traced.lower(lowering_platforms=("cpu",))
            except Exception:  # kernels of GPUs raise errors of many kinds
                lowered = traced.lower()
            return lowered.compiler_ir("stablehlo")

    @contextmanager
    def _own_context(self) -> Iterator[None]:
        """Shields the block from the caller's context: a mesh, or disabled jit."""
        with jax.set_mesh(self._mesh), jax.disable_jit(False):
            yield

    @property
    def row_bytes(self) -> int:
        """The bytes of a row of the batch and of its result."""
        structs = jax.tree.leaves((self._batch, self.result))
        return sum(prod(struct.shape[1:]) * struct.dtype.itemsize for struct in structs)

    def new_output(self) -> Any:
        """New buffers for one result."""

        def buffer(struct: jax.ShapeDtypeStruct) -> jax.Array:
            return jax.device_put(np.zeros(struct.shape, struct.dtype), self._split, may_alias=False)

        return jax.tree.map(buffer, self.result)

    def _padded(self, rows: np.ndarray) -> np.ndarray:
        if len(rows) == self.batch_size:
            return rows
        padded = np.empty((self.batch_size, *rows.shape[1:]), rows.dtype)
        padded[: len(rows)], padded[len(rows) :] = rows, rows[-1]
        return padded


def _on_host(sharding: NamedSharding) -> NamedSharding | None:
    """Returns where devices write results that the host reads; None where it reads their own memory.

    Memory of other kinds is copied once more by the driver, one device after the other.
    """
    device = next(iter(sharding.device_set))
    kinds = {memory.kind for memory in device.addressable_memories()}
    return sharding.with_memory_kind(PINNED) if device.platform != "cpu" and PINNED in kinds else None


def _struct(shape: tuple[int, ...], dtype: Any, sharding: NamedSharding) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)


def devices_of(rows: int) -> list[Any]:
    """The devices that share a batch: all of them, but no more CPU devices than rows, because these share cores.

    Where the caller has chosen a default device, that one alone.
    """
    said: Any = jax.config  # whose types do not name its settings
    chosen = said.jax_default_device
    devices = [chosen] if isinstance(chosen, jax.Device) else jax.local_devices(backend=chosen)
    return devices[:rows] if devices[0].platform == "cpu" else devices


def aligned(array: np.ndarray) -> np.ndarray:
    """Returns a copy in C order that CPU devices use where it is."""
    memory = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    np.copyto(copy, array)
    return copy


def replicated(array: np.ndarray, sharding: NamedSharding) -> jax.Array:
    """Returns the array on every device; CPU devices share one copy of it."""
    if array.ctypes.data % ALIGNMENT or not array.flags.c_contiguous:
        array = aligned(array)
    return jax.device_put(array, sharding, may_alias=True)


def _arrays_of_rows(result: Any, rows: int, caller: str) -> Any:
    """Returns what `fn` gives as JAX arrays, in the same tree."""
    rule = f"{caller}: fn must return arrays with a row per row of its batch"
    if result is None:
        raise ConstraintError(f"{rule}, but it returns None; did you forget `return`?")

    def array(path: Any, leaf: Any) -> jax.Array:
        where = f"its result{jax.tree_util.keystr(path)} is" if path else "it returns"
        if not isinstance(leaf, jax.Array | np.ndarray):
            raise ConstraintError(f"{rule}, but {where} {type(leaf).__name__}")
        array = jnp.asarray(leaf)
        if array.dtype == jax.dtypes.float0 or jnp.issubdtype(array.dtype, jax.dtypes.extended):
            raise DataTypeError(f"{rule}, but {where} {array.dtype}, no type of NumPy")
        if array.shape[:1] != (rows,):
            raise ConstraintError(f"{rule}, but for a batch of {rows} {where} {describe(array)}")
        return array

    arrays = jax.tree.map_with_path(array, result, is_leaf=lambda leaf: leaf is None)
    if not jax.tree.leaves(arrays):
        raise ConstraintError(f"{rule}, but it returns {result!r}")
    return arrays


def host_rows(result: jax.Array, count: int) -> list[np.ndarray]:
    """Returns the first `count` rows, one array per device; on a CPU they are views of its memory."""
    parts = {shard.index[0].indices(len(result))[:2]: shard.data for shard in result.addressable_shards}
    # The data of a shard may have more rows: jax 0.10 gives every device the whole of an array of no bytes.
    return [np.asarray(parts[part])[: min(part[1], count) - part[0]] for part in sorted(parts) if part[0] < count]
