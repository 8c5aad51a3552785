"""Transposes on CPUs by blocks of sixteen rows, of which a cache holds a line each.

XLA:CPU writes the columns of a matrix one after the other, and reads a line of every row for each. Lines of rows that
lie 8192 bytes apart share few places of a cache, so that 2048 of them are gone before the next column needs them. A
loop over blocks of rows reads sixteen lines again and again:

    rows 0-15 -> columns 0-15 of the result; rows 16-31 -> columns 16-31; the last rows of 40, 24-39 -> columns 24-39
"""

from collections.abc import Sequence
from functools import partial
from math import gcd, prod

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...operations.permute import PermuteCase
from ...operations.programs.mesh_types import varying_alike
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from ...operations.values.bit_exact import as_bits
from ...operations.values.xla_workarounds import DROPS_BARRIERS
from .machine import CACHE, LINE, WAYS

HEIGHT = 16  # rows of a block: XLA:CPU unrolls the loop over so many; a loop over 64 takes 3 times as long
BLOCK = 2**13  # bytes: a smaller block takes no longer than a step of the loop
TOO_MANY = 4  # times the lines that the second cache holds: of fewer, most come back in time from the next one


def _run(case: PermuteCase) -> Move | None:
    return None if case.has_rows else as_bits(partial(_move_blocks, case))


def _move_blocks(case: PermuteCase, _: None, array: jax.Array) -> jax.Array:
    array, turned = lax.reshape(array, case.sizes), case.order[-1]
    sizes = [1] * (array.ndim - 1) + [array.shape[-1]]
    sizes[turned] = min(HEIGHT, array.shape[turned])
    steps = [-(-whole // size) for whole, size in zip(array.shape, sizes, strict=True)]

    def write(step: jax.Array, result: jax.Array) -> jax.Array:
        left, starts = step.astype(np.uint32), [jnp.zeros((), np.uint32)] * array.ndim
        for d in reversed([d for d, count in enumerate(steps) if count > 1]):
            left, number = left // np.uint32(steps[d]), left % np.uint32(steps[d])
            starts[d] = number * np.uint32(sizes[d])  # JAX moves the last block of rows back, in both arrays alike
        block = lax.transpose(lax.dynamic_slice(array, starts, sizes), case.order)
        return lax.dynamic_update_slice(result, block, [starts[d] for d in case.order])

    _, empty = varying_alike(array, jnp.zeros([array.shape[d] for d in case.order], array.dtype))
    return lax.reshape(lax.fori_loop(0, prod(steps), write, empty), case.permutation.shape)


def _pays(case: PermuteCase) -> bool:
    """Whether a cache loses the lines that the next column needs.

    Where XLA keeps barriers, the transpose after one is up to twice as fast, and has several threads.
    """
    if not DROPS_BARRIERS or case.is_operand or case.has_rows:
        return False
    row, rows = case.sides
    is_long = HEIGHT * row * case.itemsize >= BLOCK and rows >= 4 * HEIGHT
    return is_long and _lines_read(case) >= TOO_MANY * _lines_held(case)


def _column(case: PermuteCase) -> Sequence[int]:
    """Dimensions along which a line of each row is read before the first line is read again."""
    return case.order[case.order.index(len(case.order) - 1) + 1 :]


def _lines_read(case: PermuteCase) -> int:
    return prod(case.sizes[d] for d in _column(case))


def _lines_held(case: PermuteCase) -> int:
    """How many lines of rows a cache holds: 16,384 of rows of 100 bytes, 128 of rows that lie 8192 bytes apart."""
    apart = gcd(*(prod(case.sizes[d + 1 :]) * case.itemsize for d in _column(case)))
    return CACHE // max(LINE, gcd(apart, CACHE // WAYS))


VARIANTS = (Variant("blocked_transpose", "permute", "cpu", _run, _pays),)
