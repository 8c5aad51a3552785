"""Functions that are told, when they are lowered, for how many devices: only the program knows, not the host."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from math import prod
from typing import Any

import jax
from jax.custom_batching import custom_vmap
from jax.extend.core import Primitive
from jax.interpreters import mlir

from .words import becomes_words

__all__ = ["by_devices"]

WIDE = ("int64", "uint64", "float64", "complex128")
# The number of devices to a function of arrays.
ByDevices = Callable[[int], Callable[..., jax.Array]]


def by_devices(function: ByDevices, plain: ByDevices) -> Callable[..., jax.Array]:
    """`function(devices)` of arrays, with the number of devices among which the program may divide an array.

    An array on one device of eight makes a program of one device; so do an export, and what is inside of a
    jax.shard_map over all axes. Differentiate around it: it has no derivative.

    Args:
      function: returns functions of equal shapes and types for all numbers.
      plain: the same, quick to trace and without words: jax.export cannot refine casts to them in a symbolic batch.
    """

    @custom_vmap
    def bound(*arrays: jax.Array) -> jax.Array:
        aval = jax.make_jaxpr(plain(1))(*arrays).out_avals[0]
        return _by_devices.bind(*arrays, function=function, aval=aval)

    @bound.def_vmap
    def batched(size: int, is_batched: Sequence[bool], *arrays: jax.Array) -> tuple[jax.Array, bool]:
        axes = [0 if each else None for each in is_batched]

        def mapped(function: ByDevices) -> ByDevices:
            return lambda devices: jax.vmap(function(devices), axes, axis_size=size)

        has_words = any(becomes_words(array.dtype) for array in arrays)
        chosen = function if isinstance(size, int) or not has_words else plain
        return by_devices(mapped(chosen), mapped(plain))(*arrays), True

    return bound


_by_devices = Primitive("dml_jax_by_devices")


@_by_devices.def_abstract_eval
def _abstract(*_: Any, function: ByDevices, aval: Any) -> Any:
    return aval


@_by_devices.def_impl
def _evaluate(*arrays: jax.Array, function: ByDevices, aval: Any) -> jax.Array:
    """Without jax.jit, as under jax.disable_jit."""
    on_devices = [array.sharding for array in arrays if isinstance(array, jax.Array)]
    return function(max((len(sharding.device_set) for sharding in on_devices), default=1))(*arrays)


def _lower(context: mlir.LoweringRuleContext, *operands: Any, function: ByDevices, aval: Any) -> Any:
    devices = _devices(context.module_context.axis_context)
    lower = mlir.lower_fun(partial(_called, function, devices), multiple_results=False)
    # A compiled operator computes with 64 bits, and is lowered when they are off again: a cast back would be cut.
    is_wide = any(str(getattr(one, "dtype", "")) in WIDE for one in (aval, *context.avals_in))
    with jax.enable_x64(True) if is_wide else nullcontext():
        return lower(context, *operands)


def _called(function: ByDevices, devices: int, *arrays: jax.Array) -> jax.Array:
    return function(devices)(*arrays)


def _devices(context: Any) -> int:
    """How many devices XLA may divide an array among, by what JAX knows while it lowers."""
    if isinstance(context, mlir.SPMDAxisContext):
        return prod(n for name, n in context.mesh.shape.items() if name not in context.manual_axes)
    return context.num_devices if isinstance(context, mlir.ShardingContext) else jax.device_count()


mlir.register_lowering(_by_devices, _lower)
