"""Transposes, copies, windows and their input kept out of fusions on CPUs: XLA:CPU fuses no branch and no loop."""

from collections.abc import Sequence
from functools import partial
from math import prod

import jax
import jax.numpy as jnp
from jax import lax

from ...operations.convolution_sums import ConvolutionSumsCase
from ...operations.data_movement import MoveCase
from ...operations.max_pool import are_apart
from ...operations.permute import PermuteCase
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from ...operations.reread_input import InputCase
from ...operations.sliding_windows import WindowCase
from ...operations.split import Part
from ...operations.values.bit_exact import as_bits, fence, hide_constant, is_narrow, stored


def copy_in_a_loop(array: jax.Array) -> jax.Array:
    """A copy by a loop over all elements: a condition that XLA does not know selects each of them."""
    return lax.select(hide_constant(True), array, jnp.zeros_like(array))


# Parts of pictures of 16 columns: 100 of their 200 rows are cut out of runs of 200 * 16 elements as runs of 100 * 16. A
# loop over rows of 16 LLVM would unroll, and copy single elements.

UNROLLED = 75  # elements: the loop over a shorter row LLVM unrolls, as each costs 4 of 300
RUN = 1024  # bytes: a shorter run gains less than the branch and its loop take to begin


def _cut(case: MoveCase) -> Move | None:
    part = case.move
    return partial(_cut_flat, part, case.result.shape) if isinstance(part, Part) and case.bytes > 0 else None


def _has_short_rows(case: MoveCase) -> bool:
    """Branches of several parts run at the same time; images of narrow floats pass a loop of their own."""
    part, dtype = case.move, case.result.dtype
    if not isinstance(part, Part) or part.is_whole or case.itemsize > 2 or is_narrow(dtype):
        return False
    *inner, row = case.result.shape[part.axis + 1 :] or (UNROLLED,)
    return row < UNROLLED and part.size * prod(inner) * row * case.itemsize >= RUN


def _cut_flat(part: Part, shape: Sequence[int], _: None, array: jax.Array) -> jax.Array:
    """Merges the dimensions from the axis on, so that the loop over them is long."""
    *outer, size = array.shape[: part.axis + 1]
    run = prod(array.shape[part.axis + 1 :])
    flat = Part(1, part.start * run, part.size * run, part.is_whole)
    rows = array.reshape(prod(outer), size * run)
    cut = partial(as_bits(fence(flat)), None)  # casts outside of the branch would be passes
    return lax.cond(hide_constant(True), cut, lambda rows: jnp.zeros_like(cut(rows)), rows).reshape(shape)


# A transpose after a barrier, which is not fused with the split of dimensions before it: XLA:CPU transposes by blocks.


def _permute(case: PermuteCase) -> Move | None:
    """None for floats that XLA:CPU quiets: to move them as integers after a barrier takes two more passes."""
    return None if is_narrow(case.operand.dtype) else partial(_permute_after_barrier, case)


def _has_far_sides(case: PermuteCase) -> bool:
    """XLA:CPU transposes by blocks only over two long loops: those of a matrix, or of sides that lie apart."""
    return not case.is_operand and not case.has_rows and (case.is_matrix or not case.has_neighbours)


def _permute_after_barrier(case: PermuteCase, _: None, array: jax.Array) -> jax.Array:
    split = lax.optimization_barrier(lax.reshape(array, case.sizes))
    return lax.reshape(lax.transpose(split, case.order), case.permutation.shape)


def _store(case: WindowCase | InputCase | ConvolutionSumsCase) -> Move:
    return lambda *operands: stored(case.plain(*operands))


# Max pooling with strides, apart from a convolution behind it that is a product of matrices: fused with the reshape of
# that, it is a loop over merged dimensions, which divides for each element, and is not vectorised.

SHORT = 16  # elements: a row of so few takes as long on its own, and fills few vectors


def _are_strided(case: WindowCase) -> bool:
    """Padding, and windows at every place, are loops of their own anyway."""
    has_long_rows = case.windows[-1].count > SHORT
    return has_long_rows and all(w.stride > 1 and w.start == w.end == 0 and are_apart(w) for w in case.windows)


# The input of a convolution or of a pool of bytes, which divisions and roundings make. Fused with its windows, it is
# computed again in each of them; fused with their padding, it is a branch for each element, which is not vectorised.


def _hold_several(case: InputCase) -> bool:
    """Windows of one element read each element once; floats are stored in as much time as most are computed in."""
    return case.array.dtype.itemsize == 1 and case.reads > case.results


# The input of an interpolation along one of several dimensions. Fused with it, the exponential of a SiLU, or the
# interpolation along the dimension before, is computed again in each read, and by single elements.


def _grows(case: InputCase) -> bool:
    """Each element is then read twice at least; that is as much as to store it, and to read it once."""
    return prod(case.array.shape) < case.results < case.reads


# Depthwise convolutions of bytes, which are sums of slices. Fused with a product or a sum behind them, they are a loop
# over merged dimensions or along others, which is not vectorised.


def _are_depthwise(case: ConvolutionSumsCase) -> bool:
    return 1 < case.groups == case.x.shape[1]


VARIANTS = (
    Variant("unfused", "max_pool", "cpu", _store, _are_strided, on_several=True),
    Variant("unfused", "window_input", "cpu", _store, _hold_several),
    Variant("unfused", "interpolation_input", "cpu", _store, _grows, on_several=True),
    Variant("unfused", "convolution_sums", "cpu", _store, _are_depthwise),
    Variant("unfused", "move", "cpu", _cut, _has_short_rows),
    Variant("unfused", "permute", "cpu", _permute, _has_far_sides),
)
