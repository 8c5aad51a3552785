"""Sliding windows as slices of one padded array on CPUs: XLA fuses all of them into one loop, which LLVM vectorises.

Windows of 3 elements over [1, 2, 3, 4, 5] begin at 1, 2 and 3. Their elements of each number are a slice, and the sums
of the windows a sum of slices:

    [1, 2, 3] + [2, 3, 4] + [3, 4, 5] = [6, 9, 12]

Convolutions by channel multiply each slice by a number, and those by group are convolutions of slices of the channels.
"""

from collections.abc import Sequence
from functools import partial, reduce
from operator import add

import jax
import jax.numpy as jnp
from jax import lax

from ..plain.convolution import ConvolutionCase
from ..plain.unfold import slices_of
from ..plain.window_slices import FEW, add_slices, are_sliceable, groups, have_few_phases, pad, read_slices
from ..plain.windows import WindowCase, Windows
from ..primitive import Move
from ..select import Variant
from ..values.accumulation_types import narrow_apart, wide_type
from .im2col import KEPT
from .unfused import in_branch

__all__ = ["VARIANTS"]

MOST_COMPILED = 128  # slices, or operations of one kind: more take seconds to compile
MOST_CONVOLUTIONS = 32  # likewise
REGISTERS = 25  # sums of so many vectors, of one phase, stay in the 32 registers of a core; of narrow numbers FEW do


# Convolutions.


def _convolve(case: ConvolutionCase) -> Move | None:
    if case.devices > 1 or case.call.groups == 1:
        return None
    if case.is_depthwise:
        return case.move(partial(_scale_slices, case)) if case.kernel <= MOST_COMPILED else None
    return case.move(partial(_split_groups, case)) if case.call.groups <= MOST_CONVOLUTIONS else None


def _convolution_pays(case: ConvolutionCase) -> bool:
    """XLA:CPU convolves groups element by element. The gradient of a depthwise input is a sum of padded slices."""
    return case.kernel > 1 and (case.gives != "input" if case.is_depthwise else case.column_bytes > KEPT)


def _scale_slices(case: ConvolutionCase, x: jax.Array, w: jax.Array) -> jax.Array:
    """Each channel times one number per element of its filters, moved and added up."""
    (count, made), groups, wide = (x.shape[0], w.shape[0]), case.call.groups, wide_type(x.dtype)
    counts = case.call.y.shape[2:]
    numbers = jnp.moveaxis(w.astype(wide).reshape(groups, made // groups, -1), 2, 0)
    slices = read_slices(x.astype(wide), range(2, x.ndim), case.call.windows)
    scaled = (
        each[:, :, None] * number[None, ..., *(None,) * len(counts)]
        for each, number in zip(slices, numbers, strict=True)
    )
    return reduce(add, scaled).astype(x.dtype).reshape(count, made, *counts)


def _split_groups(case: ConvolutionCase, x: jax.Array, w: jax.Array) -> jax.Array:
    """A convolution for each group."""
    groups, alone = case.call.groups, case.call.of_group
    parts = zip(jnp.split(x, groups, 1), jnp.split(w, groups, 0), strict=True)
    return jnp.concatenate([alone(*part) for part in parts], 1)


# Sums.


def _fold(case: WindowCase) -> Move | None:
    """XLA:CPU vectorises no sum of what is padded between its elements; tiles are no sums."""
    windows = case.windows
    can = are_sliceable(windows) and have_few_phases(windows) and not any(one.are_tiles for one in windows)
    return (lambda _, array: _add_elements(array, windows)) if can else None


def _add_elements(array: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    lead, left, dtype = array.ndim - 2 * len(windows), len(windows), array.dtype
    is_one_phase = all(one.stride == 1 for one in windows)
    few = REGISTERS if is_one_phase and dtype.itemsize >= 4 else FEW
    for dims, some in groups(range(left), windows, few):
        left -= len(some)
        array = add_slices(partial(_element, array, lead), [lead + left + d for d in dims], some)
    return narrow_apart(array, dtype)


def _element(array: jax.Array, lead: int, numbers: tuple[int, ...]) -> jax.Array:
    """Without the first dimensions from `lead` on: what is at these numbers there."""
    for number in numbers:
        array = lax.index_in_dim(array, number, lead, keepdims=False)
    return array.astype(wide_type(array.dtype))


def _sum(case: WindowCase) -> Move | None:
    return lambda _, array: _sum_slices(array, case.axes, case.windows)


def _sum_slices(array: jax.Array, axes: Sequence[int], windows: Sequence[Windows]) -> jax.Array:
    """Of windows that are apart the rows are added first, which leaves less to pad."""
    whole = pad(array, axes, windows, 0) if all(one.stride == 1 for one in windows) else None
    for axis, one in zip(axes, windows, strict=True):
        if whole is not None:
            whole = array = reduce(add, read_slices(whole, [axis], [one], padded=True))
        elif axis < array.ndim - 1:
            array = reduce(add, slices_of(array, axis, one))
        else:
            array = reduce(add, read_slices(array, [axis], [one]))
    return array


def _put(case: WindowCase) -> Move | None:
    """The numbers stored for all slices: XLA:CPU fuses through barriers, but with no branch."""
    if case.devices > 1:
        return None
    return lambda number, array: case.plain(in_branch(lambda number: number, number), array)


def _always(case: WindowCase) -> bool:
    return True


VARIANTS = (
    Variant("slices", "convolution", "cpu", _convolve, _convolution_pays),
    Variant("slices", "fold", "cpu", _fold, _always),
    Variant("slices", "sum_windows", "cpu", _sum, _always),
    Variant("slices", "put_in_windows", "cpu", _put, _always),
)
