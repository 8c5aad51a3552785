"""An array with a border of its own elements, in few slices; the gradient adds the copies up in wide numbers."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import gcd
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..cpu.windowed_pad import fits_windows, pad_in_windows
from ..forms import Choice, Form, Options, choose_form, forced_form, known_bytes, shapes_of
from ..partition import known_shards, move_on_each_device
from ..primitive import Move, linear
from ..values.accumulation_types import narrow_apart, wide_type
from ..values.bits import as_bits, as_guarded_bits, index_dtype, is_key
from .borders import PERIODS, Run, cut_runs, source_of
from .gather import Read
from .narrow import join_form
from .slices import Slices

__all__ = ["TABLE", "pad_with_copies"]

# On an H200, 128 MB, borders of 3 along two dimensions; bandwidth as a part of a copy's in the same run.
TABLE = (
    Choice("cuda", "joined", {"itemsize": {2}, "devices": {1}}, "0.74-1.06; plain 0.11"),
    Choice("cuda", "gathered", {"itemsize": {4}, "devices": {1}}, "1.0; plain 0.23-0.43"),
    Choice(
        "cuda",
        "gathered",
        {"itemsize": {1}, "devices": {1}, "axes": range(2, 65)},
        "0.36-0.40; plain 0.06",
    ),
    Choice(
        "cuda",
        "gathered",
        {"itemsize": {1}, "devices": {1}, "axes": {1}, "aligned": {1}},
        "0.41-0.43; plain, which writes single bytes where a border or the dimension is odd, 0.11. Of even ones"
        " 0.16-0.43; plain 0.22-0.47",
    ),
    # On two cores of an EPYC, 16 and 32 MB into a bound output, borders of 1 and 3 along two dimensions.
    Choice("cpu", "windowed", {"itemsize": {1, 2, 4, 8}}, "1.6-4.5 times as fast as plain, which has a temporary"),
)

# As many slices are put together one by one; of more, whole periods are tiled. XLA:CPU adds the cotangents of those up
# a hundred times as slowly.
MOST_PARTS = 64


def pad_with_copies(array: jax.Array, start: Sequence[int], end: Sequence[int], mode: str) -> jax.Array:
    """The array with `start` elements before it and `end` behind it along each dimension, copied as BORDERS says."""

    def move(_: None, array: jax.Array) -> jax.Array:
        # The last dimension first: what comes later copies longer rows.
        for axis in reversed(range(len(start))):
            if start[axis] or end[axis]:
                array = BORDERS[mode](array, axis, start[axis], end[axis])
        return array

    def back(_: None, cotangent: jax.Array, like: Sequence[jax.Array]) -> Sequence[jax.Array]:
        wide = wide_type(cotangent.dtype)
        zeros = jnp.zeros_like(like[0], wide)
        (added,) = jax.vjp(lambda x: move(None, x), zeros)[1](cotangent.astype(wide))
        return [narrow_apart(added, cotangent.dtype)]

    form = forced_form()

    def forward(_: None, array: jax.Array) -> jax.Array:
        made = jax.eval_shape(move, None, array)
        return choose_form(partial(_options, *shapes_of(array, made), move, start, end, mode), TABLE, form)(None, array)

    return linear(move_on_each_device(forward, known_shards()), back)(None, array)


def _options(
    array: Any, made: Any, move: Move, start: Sequence[int], end: Sequence[int], mode: str, devices: int
) -> Options:
    forms: dict[str, Form] = {"plain": as_guarded_bits(move)}
    if is_key(array) or not known_bytes(array):
        return forms, {"bytes": 0}

    def gather(_: None, array: jax.Array) -> jax.Array:
        return _gathered(array, start, end, mode)

    forms["gathered"] = as_bits(gather)
    if devices == 1 and fits_windows(array, start, end, mode):
        forms["windowed"] = lambda _, array: pad_in_windows(array, start, end, mode, partial(move, None))
    if joined := join_form(gather, made, devices):
        forms["joined"] = joined
    bordered = [sizes for sizes in zip(start, array.shape, end, strict=True) if sizes[0] or sizes[2]]
    case = {
        "itemsize": array.dtype.itemsize,
        "axes": len(bordered),
        "aligned": gcd(*(size for sizes in bordered for size in sizes), 16),  # divides every part
        "bytes": known_bytes(array, made),
        "devices": devices,
    }
    return forms, case


def _gathered(array: jax.Array, start: Sequence[int], end: Sequence[int], mode: str) -> jax.Array:
    """Reads every element where it comes from; of what is concatenated twice XLA:GPU makes long chains of choices."""
    axes = [d for d in range(array.ndim) if start[d] or end[d]]
    sizes = [start[d] + array.shape[d] + end[d] for d in axes]
    dtype = index_dtype([2 * max(array.shape) + max(sizes)])
    output = [lax.broadcasted_iota(dtype, sizes, i) for i in range(len(axes))]
    sources = [source_of(mode, i, start[d], array.shape[d]) for i, d in zip(output, axes, strict=True)]
    others = tuple(d for d in range(array.ndim) if d not in axes)
    read = Read(Slices(array.ndim, tuple(axes), placed=others), "promise_in_bounds")
    return read(jnp.stack(sources, -1), array)


def _edge(array: jax.Array, axis: int, start: int, end: int) -> jax.Array:
    size = array.shape[axis]

    def copies(at: Any, count: int) -> jax.Array:
        one = lax.slice_in_dim(array, at, at + 1, axis=axis)
        return jnp.broadcast_to(one, (*array.shape[:axis], count, *array.shape[axis + 1 :]))

    return lax.concatenate([copies(0, start), array, copies(size - 1, end)], axis)


def _periodic(runs_of: Callable[[int], list[Run]]) -> Callable[..., jax.Array]:
    def border(array: jax.Array, axis: int, start: int, end: int) -> jax.Array:
        runs = runs_of(array.shape[axis])
        period, total = sum(stop - first for first, stop, _ in runs), start + array.shape[axis] + end
        before = -start % period  # elements of the first period that are left out
        if (before + total) // period * len(runs) <= MOST_PARTS:
            return _joined(array, axis, cut_runs(runs, before, before + total))
        once = _joined(array, axis, runs)
        repeats = [1] * array.ndim
        repeats[axis] = -(-(before + total) // period)
        return lax.slice_in_dim(jnp.tile(once, repeats), before, before + total, axis=axis)

    return border


def _joined(array: jax.Array, axis: int, runs: list[Run]) -> jax.Array:
    def part(first: int, stop: int, is_reversed: bool) -> jax.Array:
        cut = lax.slice_in_dim(array, first, stop, axis=axis)
        return lax.rev(cut, (axis,)) if is_reversed else cut

    return lax.concatenate([part(*run) for run in runs], axis)


# By mode: what pads one dimension.
BORDERS: Mapping[str, Callable[[jax.Array, int, int, int], jax.Array]] = {
    "edge": _edge,
    **{mode: _periodic(runs_of) for mode, runs_of in PERIODS.items()},
}
