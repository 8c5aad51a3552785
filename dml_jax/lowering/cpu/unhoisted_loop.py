"""Loops on CPUs whose conversions stay inside.

XLA:CPU moves a conversion of an array out of a loop, as no iteration changes its result. So it would widen all numbers
to memory before a loop that widens a few of them at a time, which stay in the cache:

    for i in 0, 1: sum += widen(numbers)[i]        all numbers are widened before the loop
    for i in 0, 1: sum += widen(barrier(numbers, i))[i]        each is widened where it is added
"""

from collections.abc import Callable
from typing import Any

import jax
from jax import lax

from ...operations.programs.mesh_types import varying_alike


def unhoisted_loop(first: int, end: Any, step: Callable[[Any, Any, Any], Any], state: Any, arrays: Any) -> Any:
    """Repeats `step(turn, state, arrays)` from turn `first` to before `end`, where arrays are read behind a barrier.

    The number of the turn passes the barrier too, so that its results are of this turn alone.
    """
    state, arrays = varying_alike(state, arrays)

    def pass_barrier(turn: jax.Array, state: Any) -> Any:
        turn, now = lax.optimization_barrier((turn, arrays))
        return step(turn, state, now)

    return lax.fori_loop(first, end, pass_barrier, state)
