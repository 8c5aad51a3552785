"""Many calls in one program: on several devices, starting a program can take longer than all that it does."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.layout import Layout, with_layout_constraint
from jax.sharding import NamedSharding, PartitionSpec

from .collectives import collectives
from .contenders import joined, spread

__all__ = ["Looped"]

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
        return joined([spread(np.asarray(one), most) for one in jax.tree.leaves(self.out)])


def _shardings(arrays: Any) -> Any:
    return jax.tree.map(lambda array: array.sharding, arrays)


def _locally(function: Callable[[jax.Array, jax.Array], jax.Array], sharding: Any) -> Callable[..., jax.Array]:
    """The function of what each device has."""
    if not isinstance(sharding, NamedSharding):
        return function
    specs = (sharding.spec, PartitionSpec())
    return jax.shard_map(function, mesh=sharding.mesh, in_specs=specs, out_specs=sharding.spec, check_vma=False)


def _in_order(x: jax.Array, _: jax.Array) -> jax.Array:
    """In memory as it is outside of the loop: else XLA may leave a transpose to what follows the loop."""
    return with_layout_constraint(x, Layout(tuple(range(x.ndim))))


def _touched(x: jax.Array, one: jax.Array) -> jax.Array:
    """The first element multiplied, in place."""
    first = lax.slice(x, (0,) * x.ndim, (1,) * x.ndim)
    return lax.dynamic_update_slice(x, first * one.astype(x.dtype), (jnp.int32(0),) * x.ndim)
