"""Sharded operators: each device of a mesh computes its part alone, where the sharding is known while tracing."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import jax
from jax import lax
from jax.custom_batching import custom_vmap
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec, get_abstract_mesh

from .primitive import by_target


@dataclass(frozen=True)
class Shards:
    """How the arrays of an operator are sharded, of which each device computes its part.

    Args:
      operands: by name; every device has the whole of an operand that is not here.
      output: one for all of several.
    """

    operands: Mapping[str, PartitionSpec]
    output: PartitionSpec

    @property
    def inverse(self) -> "Shards":
        """The shards of the inverse of an operator of one operand."""
        (name, spec), *_ = self.operands.items()
        return Shards({name: self.output}, spec)


_KNOWN: ContextVar[Shards | None] = ContextVar("shards", default=None)


@contextmanager
def knowing(shards: Shards) -> Iterator[None]:
    """Tells the lowering of the operator that is traced inside how its arrays are sharded."""
    token = _KNOWN.set(shards)
    try:
        yield
    finally:
        _KNOWN.reset(token)


def known_shards() -> Shards | None:
    """The value of the innermost `knowing`; None outside."""
    return _KNOWN.get()


@dataclass(frozen=True)
class TableShards:
    """How a read or write through lax.gather or lax.scatter is sharded, where every device has its part of each array.

    Args:
      table: that is read, or written.
      indices: with or without their last dimension, the coordinates of a tuple.
      slices: the slices that are read, or the updates.
    """

    table: PartitionSpec
    indices: PartitionSpec
    slices: PartitionSpec


def on_each_device(
    function: Callable[..., jax.Array], operands: Sequence[PartitionSpec], output: PartitionSpec
) -> Callable[..., jax.Array]:
    """`function` on each device, of its shards alone, if that gives its shard of the output; without a derivative.

    Only the program is divided so, when it is lowered: jax.grad, jax.vmap and the like see whole arrays before.

    Args:
      function: of arrays, of any sizes.
      operands: how they are sharded, on an Explicit mesh.
      output: how the result of the function is sharded.
    """
    axes = _axes(output)
    # An operand is divided over an axis over which the output is not: a device needs parts of others, from XLA.
    if not all(_axes(spec) <= axes for spec in operands):
        return function

    def divided(devices: int, manual: frozenset[str]) -> Callable[..., jax.Array]:
        # One device has whole arrays; so has each of several, if the output is divided over no axis.
        if devices == 1 or not manual:
            return function
        return jax.shard_map(function, in_specs=tuple(operands), out_specs=output, axis_names=manual, check_vma=False)

    @custom_vmap
    def bound(*arrays: jax.Array) -> jax.Array:
        def on_whole_mesh(devices: int) -> Callable[..., jax.Array]:
            return divided(devices, frozenset(get_abstract_mesh().axis_names))

        return _by_devices(on_whole_mesh, function)(*arrays)

    @bound.def_vmap
    def batched(size: int, is_batched: Sequence[bool], *arrays: jax.Array) -> tuple[jax.Array, bool]:
        """The sharding under vmap: the axes that are left may shard the new dimension."""
        where = [0 if each else None for each in is_batched]

        def mapped(function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
            return jax.vmap(function, where, axis_size=size)

        return _by_devices(lambda devices: mapped(divided(devices, axes)), mapped(function))(*arrays), True

    return bound


def _by_devices(function: Callable[[int], Callable[..., jax.Array]], plain: Callable[..., jax.Array]) -> Any:
    chosen = by_target(lambda target: lambda _, *arrays: function(target.devices)(*arrays), lambda _, *x: plain(*x))
    return partial(chosen, None)


def on_one_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function in a program of one device, or of each device's part, where no device is named.

    While JAX lowers a function with jax.experimental.custom_partitioning, it asks for the devices of the program. A
    function that `choose` returns is traced without them. A mesh of one device, over which nothing is divided, needs
    none.
    """

    def alone(*arrays: Any) -> Any:
        # Inside of a jax.shard_map over all axes every program is one of a device.
        mesh = get_abstract_mesh()
        if not mesh.empty and set(mesh.axis_names) == set(mesh.manual_axes):
            return function(*arrays)
        mesh = AbstractMesh((1,), ("device",)) if mesh.empty else mesh
        whole = PartitionSpec()
        return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=whole, out_specs=whole, check_vma=False))(*arrays)

    return alone


def shard_mapped(function: Callable[..., Any], arrays: Any, parts: Any, result: PartitionSpec) -> Callable[..., Any]:
    """`function` as a jax.shard_map of each device's parts, if no device needs to send any; else as it is.

    Unlike `on_each_device`, it is divided while it is traced, and has the derivatives of the function.

    Args:
      function: of arrays.
      arrays: its arguments, on an Explicit mesh all axes of which the result is sharded over. Derivatives of second
        order fail where it is over some of them.
      parts: how each device has them.
      result: how it is sharded.
    """
    meshes = (jax.typeof(x).sharding.mesh for x in jax.tree.leaves(arrays))
    mesh = next((mesh for mesh in meshes if not mesh.empty), AbstractMesh((), ()))
    free = frozenset(mesh.axis_names).difference(mesh.manual_axes)
    kinds = {kind for axis, kind in zip(mesh.axis_names, mesh.axis_types, strict=True) if axis in free}
    if kinds != {AxisType.Explicit} or not free <= _axes(result):
        return function

    def is_there(x: jax.Array, part: PartitionSpec) -> bool:
        return all(own in (None, axes) for own, axes in zip(jax.typeof(x).sharding.spec, part, strict=True))

    if not all(jax.tree.leaves(jax.tree.map(is_there, arrays, parts))):
        return function

    def divided(*arrays: Any) -> Any:
        placed = jax.tree.map(lambda x, part: jax.sharding.reshard(x, NamedSharding(mesh, part)), arrays, parts)
        of_parts = jax.shard_map(function, mesh=mesh, in_specs=parts, out_specs=result, axis_names=free)
        return of_parts(*placed)

    return divided


def move_on_each_device(form: Callable[..., jax.Array], shards: Shards) -> Callable[..., jax.Array]:
    """`form`, of None and the operands in their order; see `on_each_device`."""
    specs, output = list(shards.operands.values()), shards.output

    def moved(where: None, *operands: jax.Array) -> jax.Array:
        whole = [PartitionSpec()] * (len(operands) - len(specs))
        return on_each_device(partial(form, where), [*specs, *whole], output)(*operands)

    return moved


def shape_of_shard(shape: Sequence[Any], spec: PartitionSpec) -> tuple[Any, ...]:
    """The shape of a device's part where it computes alone; elsewhere the shape of the whole array."""
    mesh = get_abstract_mesh()
    parts = [prod(mesh.shape[axis] for axis in _names(axes) if axis in mesh.manual_axes) for axes in spec]
    return tuple(n // part for n, part in zip(shape, [*parts, *[1] * (len(shape) - len(parts))], strict=True))


def mesh_of_axes(devices: int, *arrays: jax.Array) -> Any:
    """The mesh that has the arrays, if it has several axes, else None: on those XLA computes some programs wrongly.

    Where JAX does not know the mesh, as in jax.jit(..., in_shardings=...) of NumPy arrays, one of as many devices:
    `whole_along` asks for nothing else.
    """
    meshes = (*(jax.typeof(x).sharding.mesh for x in arrays), get_abstract_mesh())
    for mesh in meshes:
        if not mesh.empty:
            return mesh if sum(size > 1 for size in mesh.axis_sizes) > 1 else None
    return AbstractMesh((devices,), ("devices",), axis_types=(AxisType.Auto,))


def whole_along(
    mesh: Any, function: Callable[..., jax.Array], operands: Sequence[Sequence[int]], result: Sequence[int]
) -> Callable[..., jax.Array]:
    """`function`, where every device has all elements of its arrays along some dimensions; XLA may divide the others.

    Args:
      mesh: as `mesh_of_axes` finds it.
      function: of arrays.
      operands: the dimensions, by operand.
      result: the dimensions of the result.
    """

    def constrain(x: jax.Array, dims: Sequence[int]) -> jax.Array:
        spec = [None if d in dims else PartitionSpec.UNCONSTRAINED for d in range(x.ndim)]
        return lax.with_sharding_constraint(x, NamedSharding(mesh, PartitionSpec(*spec)))

    return lambda *arrays: constrain(function(*map(constrain, arrays, operands)), result)


def _axes(spec: PartitionSpec) -> frozenset[str]:
    return frozenset(axis for axes in spec for axis in _names(axes))


def _names(axes: Any) -> tuple[str, ...]:
    return axes if isinstance(axes, tuple) else () if axes is None else (axes,)
