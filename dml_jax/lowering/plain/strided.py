"""Reads strided layouts: the table of forms, and how each of them reads."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import gcd, prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ...strides.layout import Layout
from ..cpu.halves import transpose_in_halves
from ..cpu.unfused import in_branch
from ..forms import Choice, Form, Options, choose_form, is_plain, known_bytes, shapes_of
from ..gpu.isolated_transpose import transpose_apart
from ..gpu.matrices import matrices_of, ways_to_turn
from ..primitive import linear, transpose_of
from ..values.accumulation_types import narrow_apart, wide_type
from ..values.bits import (
    as_bits,
    carry_bits,
    fence,
    is_float,
    is_half,
    is_key,
    is_narrow,
    never_one,
    permute_as_integers,
)
from ..values.words import (
    as_integers,
    becomes_words,
    from_words,
    join_lanes,
    lanes,
    sum_lanes,
    to_words,
    words_per_element,
)
from .strided_reads import as_shown, as_stored, read_view

__all__ = ["TABLE", "view"]


_MANY = 2**62
_UP_TO_10, _FROM_11, _FROM_12 = ({"jaxlib": minors} for minors in (range(11), range(11, _MANY), range(12, _MANY)))
# Barriers and halves keep XLA from fusing a view with the operator that reads it, such as one of channels last.
_ALONE = {**_FROM_11, "is_operand": {False}}
_MOVES = {**_ALONE, "is_dense": {True}, "is_cast": {False}}
_MOVES_11 = {**_MOVES, "jaxlib": {11}}
_BFLOAT16 = {**_ALONE, "is_half": {True}, "is_cast": {True}}
# On an H200, 256 MB; bandwidth as a part of a copy's in the same run.
TABLE = (
    Choice(
        "cuda",
        "words",
        {"itemsize": {1, 2, 8}, "fills_words": {True}},
        "padded rows 0.98-1.0; plain 0.41 of 1 byte, 0.80 of 2, 0.88 of 8. Broadcast rows of 8 0.82; plain 0.52",
    ),
    # Elements at the end that fill no word are cut off first, by a copy: a small one where elements repeat.
    Choice(
        "cuda",
        "words",
        {"itemsize": {1, 2}, "is_broadcast": {True}},
        "0.83 of 1 byte, 0.84 of 2; plain 0.22 and 0.43; a fill is 0.82",
    ),
    # Pixels of a few channels become planes, and planes become pixels: a word is assembled in a register.
    Choice(
        "cuda", "tiles", {"itemsize": {1, 2}, "columns": {2}}, "0.95-1.0; split 0.70 of 1 byte, plain 0.42 and 0.80"
    ),
    Choice(
        "cuda",
        "element_tiles",
        {"itemsize": {1}, "columns": {3, 4, 6, 8}},
        "0.85-1.0; apart 0.38-0.99, plain 0.40-0.45. Of 12 0.78-0.93, apart 0.76-0.97",
    ),
    Choice(
        "cuda",
        "element_tiles",
        {"itemsize": {2}, "columns": {3, 4, 6, 8, 12}},
        "0.82-1.0; plain 0.40-0.83. Apart 0.42-1.0 by the width",
    ),
    Choice(
        "cuda",
        "tiles",
        {"itemsize": {1}, "rows": {2, 4, 8}},
        "0.75-1.0; plain 0.18-0.47, apart 0.42-0.99",
    ),
    Choice("cuda", "element_tiles", {"itemsize": {1}, "rows": {3}}, "0.86-1.0; apart 0.54-0.70, plain 0.43"),
    Choice(
        "cuda",
        "element_tiles",
        {"itemsize": {2}, "rows": {3, 4, 6, 8}},
        "0.87-1.0; plain 0.42-0.82. Of 2 0.75-0.85 both",
    ),
    # Planes of a few channels become pixels. From 8 planes on that have 8192 bytes together, XLA transposes them first.
    Choice(
        "cuda",
        "summed",
        {"itemsize": {1}, "rows": {5, 7}, "columns": range(128, _MANY)},
        "0.66-0.92; apart 0.55-0.81, and plain 0.28-0.47 of powers of two",
    ),
    Choice(
        "cuda",
        "summed",
        {"itemsize": {1}, "rows": {9}, "columns": range(49, 896)},
        "0.64-0.73; apart and plain 0.48-0.58",
    ),
    # Runs change places: heads of attention, blocks of pixels.
    Choice(
        "cuda",
        "joined",
        {"itemsize": {1}, "is_dense": {True}, "run_aligned": {32}, "last_size": range(33, _MANY)},
        "0.95-1.0 of powers of two, 0.59-0.84 of others; plain 0.40-0.51, apart 0.40-0.53. Of other runs 0.40-0.74,"
        " apart 0.71-0.99",
    ),
    Choice(
        "cuda",
        "joined",
        {"itemsize": {2}, "is_dense": {True}, "last_size": range(64, _MANY), "last_stride": {1}},
        "0.86-0.99; plain 0.79-0.83. Of 50 elements 0.78, plain 0.80",
    ),
    # XLA leaves these to Triton: as matrices, without the dimensions of the view, where its rows are powers of two and
    # tiles hold whole ones, and behind barriers elsewhere.
    Choice(
        "cuda",
        "matrices",
        {"itemsize": {1}, "columns": {128, 256}, "columns_aligned": {2**k for k in range(4, 13)}},
        "0.81-1.0; apart 0.67-0.82, plain 0.43-1.0. Of other columns 0.49-0.71, apart 0.66-0.76",
    ),
    Choice(
        "cuda",
        "matrices",
        {"itemsize": {1}, "columns": {64, 512}, "columns_aligned": {2**k for k in range(6, 13)}},
        "0.86-0.98; apart 0.57-0.92, plain 0.50-0.63. Of other columns 0.39-0.87, apart 0.57-0.91",
    ),
    Choice(
        "cuda",
        "matrices_apart",
        {"itemsize": {1}, "short_side": range(32, _MANY)},
        "0.60-0.94; apart 0.57-0.90, plain 0.32-0.69",
    ),
    Choice("cuda", "apart", {"itemsize": {1}, "is_dense": {True}, "is_binary": {False}}, "0.55-1.0; plain 0.15-0.60"),
    Choice(
        "cuda",
        "matrices",
        {"itemsize": {2}, "columns": {32, 64}},
        "0.79-0.98; apart 0.74-0.97, plain 0.59-0.96",
    ),
    Choice(
        "cuda",
        "matrices_apart",
        {"itemsize": {2}, "aligned": {4, 8, 16, 32, 64}, "short_side": range(32, _MANY)},
        "0.78-0.97; plain 0.57-0.85. Of rows of multiples of 128 bytes about as fast as plain",
    ),
    Choice(
        "cuda",
        "apart",
        {"itemsize": {2}, "row_bytes": range(256, _MANY), "columns_aligned": {8}},
        "0.69-0.75; plain 0.57-0.61: tokens of 14x14 patches",
    ),
    Choice(
        "cuda",
        "apart",
        {"itemsize": {2}, "short_side": range(5, 32)},
        "0.51-0.97; plain 0.42-0.84",
    ),
    # On two cores of an EPYC, 1 and 16 MB into a bound output, jaxlib 0.11 and 0.12: times as fast as plain. Since 0.11
    # XLA:CPU transposes by blocks what it does not fuse with the split of a buffer, and writes halves that it puts
    # together by loops over vectors.
    Choice(
        "cpu",
        "halved",
        {**_MOVES, "last_stride": {1}},
        "times plain: runs of 72 elements and more 1.0-6 with 0.12 and 1.0-2.8 with 0.11, of 64 0.8-1.9 and 0.6-2.1, of"
        " 20 2.0-3.4 and 1.2-2.6; on a Xeon 1.5-12 of 48, 0.7-0.9 of 64",
    ),
    Choice(
        "cpu",
        "halved",
        {**_MOVES, "short_side": range(2, 8)},
        "times plain: of 1 and 2 bytes 1.6-90 with 0.12 and 1.7-37 with 0.11; split 0.6-18. Of 4 and 8 0.8-6.6 and"
        " 1.5-8.4; split 0.6-4.7. Of 8 columns 0.8-0.95 with 0.12; split 1.0-1.35",
    ),
    Choice(
        "cpu",
        "split",
        {**_MOVES, **_FROM_12},
        "0.9-27 times plain; halved 0.8-15",
    ),
    Choice(
        "cpu",
        "split",
        {**_MOVES_11, "aligned": {512, 1024, 2048, 4096}},
        "0.9-19 times plain; halved 0.7-2.1. Of 256 bytes 0.8-1.2; halved 1.2-2.1",
    ),
    Choice(
        "cpu",
        "split",
        {**_MOVES_11, "is_turned": {True}},
        "2.4-16 times plain; halved 0.6-1.1",
    ),
    Choice(
        "cpu",
        "halved",
        _MOVES_11,
        "1.2-5.3 times plain of 4 and 8 bytes, 0.8-5.1 of 1 and 2; split 0.7-4.1 and 0.3-2.4",
    ),
    # On two cores of an EPYC and of a Xeon, 16 and 32 MB: matrices whose rows become columns, and lie so far apart that
    # few sets of the cache hold them. Panels take one thread, as torch does: 0.8-1.8 times as fast on the EPYC, 1.0-3.7
    # times on the Xeon, which reads few long rows of wide elements as fast in any order.
    Choice(
        "cpu",
        "panels",
        {**_UP_TO_10, "itemsize": {4}, "rows": range(256, _MANY), "aligned": {1024, 2048, 4096}},
        "1.1-7 times as fast as plain on the EPYC, 1.2-2.6 on the Xeon. There 0.65-0.95 times of matrices of up to 1 MB"
        " and of 256 rows of 64 KB, of which the latter are 2.9 times as fast on the EPYC",
    ),
    Choice(
        "cpu",
        "panels",
        {**_UP_TO_10, "itemsize": {8}, "rows": range(768, _MANY), "aligned": {1024, 2048, 4096}},
        "1.1-2 times as fast as plain. Of 64 to 512 rows 2 on the EPYC and 0.3-0.7 on the Xeon",
    ),
    Choice(
        "cpu",
        "panels",
        {**_UP_TO_10, "itemsize": {1, 2}, "aligned": {1024, 2048, 4096}},
        "multiples of 4096 bytes apart 3-9 times as fast as plain, others 1.9-3.7, of several matrices 0.9-2.4. Of one"
        " matrix branched is 1.1-2 times as fast as panels on the EPYC, but no faster than plain on the Xeon",
    ),
    Choice(
        "cpu",
        "panels",
        {
            **_UP_TO_10,
            "itemsize": {1, 2},
            "row_bytes": range(4096, _MANY),
            "columns_aligned": {4096},
            "aligned": {256, 512},
        },
        "1.6-4.7 times as fast as plain, 1.3-4 as branched",
    ),
    Choice(
        "cpu",
        "panels",
        {**_UP_TO_10, "itemsize": {1, 2}, "matrices": {1}, "aligned": {512}},
        "on the Xeon 2.8 times as fast as plain of 1 byte, which branched is not",
    ),
    # On two cores of an EPYC, 16 and 32 MB into a bound output. Neighbours of the result lie so far apart that few sets
    # of the cache hold them. XLA:CPU permutes what comes out of a branch by blocks, but not where it fuses the reshape
    # of the buffer with it. Takes a temporary of the size of the view.
    Choice(
        "cpu",
        "branched",
        {**_UP_TO_10, "itemsize": {1, 2}, "is_turned": {True}},
        "2.4-8 times as fast as plain of 1 byte, 1.3-4 of 2; no more than plain of 4 bytes in some runs, nor of 8",
    ),
    # XLA:CPU vectorises no loop that moves floats of 16 bits one by one.
    Choice(
        "cpu",
        "integers",
        {**_UP_TO_10, "is_half": {True}},
        "1.0-14 times as fast as plain: pixels 1.6 ms instead of 14. With jaxlib 0.11 and 0.12 0.2-2.4 times",
    ),
    # bfloat16 moves as integers.
    Choice(
        "cpu",
        "panels",
        {**_BFLOAT16, "matrices": {1}, "rows": range(768, _MANY), "aligned": {1024, 2048, 4096}},
        "1.1-3.5 times as fast as plain. Of several matrices 0.5-0.8 times, of less aligned rows 0.15-0.5 times",
    ),
    Choice(
        "cpu",
        "halved",
        {**_BFLOAT16, "is_dense": {True}},
        "0.1-1.2; plain 0.1-0.9, 1.35 times as fast in the mean",
    ),
)

# Bytes: a stride that is a multiple of it, and so many elements, meet in few sets of a cache.
SET, MET = 2048, 64
# Bytes: rows that are a multiple of it apart lie in one set of the first cache.
PAGE = 4096
# Elements of the largest tile of whole rows that XLA:GPU gives to Triton.
TILE = 2**14


def view(
    buffer: Any, layout: Layout, form: str | None, deterministic: bool = False, *, is_operand: bool = False
) -> jax.Array:
    """Reads a view that lies inside `buffer`.

    Args:
      buffer: of one dimension.
      layout: of the view, in elements.
      form: the name of the forced one, or None.
      deterministic: whether the gradient adds up in one order.
      is_operand: whether an operator reads the view, which XLA is then to fuse with it.
    """

    def back(_: None, cotangent: jax.Array, like: Sequence[jax.Array]) -> Sequence[jax.Array]:
        wide = wide_type(cotangent.dtype)  # what is read more than once is added up in it, and rounded once
        read = transpose_of(lambda _, buffer: read_view(buffer, layout, deterministic))
        (added,) = read(None, cotangent.astype(wide), [like[0].astype(wide)])
        return [narrow_apart(added, cotangent.dtype)]

    options = partial(_options, *shapes_of(buffer), layout, is_operand)
    adds_up = not layout.is_nested or (layout.repeats and wide_type(buffer.dtype) != buffer.dtype)
    if not adds_up and is_plain(options, TABLE, form):
        move = lambda _, buffer: read_view(buffer, layout)  # noqa: E731
        is_cast = buffer.dtype == jnp.bfloat16 and layout.is_dense
        return carry_bits(fence(move) if is_cast else move, None, buffer)
    return linear(choose_form(options, TABLE, form), back)(None, buffer)


def _options(buffer: jax.Array, layout: Layout, is_operand: bool, devices: int) -> Options:
    forms: dict[str, Form] = {"plain": _plain(buffer.dtype, layout, devices)}
    if is_key(buffer) or not known_bytes(buffer) or 0 in layout.sizes:
        return forms, {"bytes": 0}
    count = lanes(buffer.dtype)
    words = layout.in_words(count, words_per_element(buffer.dtype)) if becomes_words(buffer.dtype) else None
    if words and not layout.is_dense:  # XLA moves casts to words past a permutation alone
        whole = buffer.shape[0] - buffer.shape[0] % count

        def in_words(_: None, buffer: jax.Array) -> jax.Array:
            cut = lax.slice_in_dim(as_integers(buffer), 0, whole)
            return from_words(read_view(to_words(cut), words), buffer.dtype)

        forms["words"] = in_words
    is_permuted = layout.is_dense and layout.dims != tuple(sorted(layout.dims))
    if count > 1 and is_permuted and prod(layout.sizes) % count == 0 and devices == 1:
        forms["joined"] = lambda _, buffer: _joined(buffer, layout)
        forms["summed"] = lambda _, buffer: sum_lanes(read_view(as_integers(buffer), layout), buffer.dtype)
    if count > 1 and is_permuted and devices == 1:
        forms["apart"] = as_bits(lambda _, buffer: _apart(buffer, layout), is_float)
    if devices == 1 and layout.is_dense:
        forms["branched"] = lambda _, buffer: _branched(buffer, layout)
    if devices == 1 and is_permuted:
        forms["split"] = as_bits(lambda _, buffer: _split(buffer, layout), is_narrow)
        forms["halved"] = as_bits(lambda _, buffer: _halved(buffer, layout), is_narrow)
    if layout.is_dense and is_half(buffer.dtype):
        forms["integers"] = permute_as_integers(lambda _, buffer: read_view(buffer, layout))
    matrices = _matrices(layout)
    if devices == 1 and matrices[1]:
        forms |= ways_to_turn(layout, matrices, buffer.dtype)
    return forms, _case(buffer, layout, is_operand, devices)


def _matrices(layout: Layout) -> tuple[int, int, int]:
    """Batch, rows and columns of the matrices that a dense view transposes; zeros for others."""
    return (matrices_of(layout) if layout.is_dense else None) or (0, 0, 0)


def _case(buffer: jax.Array, layout: Layout, is_operand: bool, devices: int) -> Mapping[str, Any]:
    count, itemsize = lanes(buffer.dtype), buffer.dtype.itemsize
    batch, rows, columns = _matrices(layout)
    return {
        "itemsize": itemsize,
        "is_dense": layout.is_dense,
        "is_operand": is_operand,
        "is_half": is_half(buffer.dtype),
        "is_cast": is_narrow(buffer.dtype),
        "last_size": layout.sizes[-1] if layout.sizes else 1,
        "last_stride": layout.strides[-1] if layout.strides else 0,
        "run_aligned": _run_aligned(layout, itemsize),
        "is_binary": layout.is_dense and _is_binary(layout) and columns * min(rows, 32) <= TILE,
        "is_turned": layout.is_dense and _is_turned(layout, itemsize),
        "matrices": batch,
        "rows": rows,
        "columns": columns,
        "short_side": min(rows, columns),
        "row_bytes": columns * itemsize,
        "aligned": gcd(columns * itemsize, PAGE) if rows >= MET else 0,
        "columns_aligned": gcd(rows * itemsize, PAGE),
        "fills_words": buffer.shape[0] % (count * devices) == 0,
        "is_broadcast": layout.repeats,
        "bytes": 2 * prod(layout.sizes) * itemsize,
    }


def _plain(dtype: Any, layout: Layout, devices: int) -> Form:
    # XLA:CPU flushes subnormal bfloat16 where it fuses the bitcast back with a gather (0.11) or a broadcast.
    is_bfloat16 = dtype == jnp.bfloat16

    def read(_: None, buffer: jax.Array) -> jax.Array:
        x = read_view(buffer, layout)
        if is_bfloat16 and layout.repeats and buffer.dtype == jnp.uint16:
            x |= _hidden_zeros(layout).astype(x.dtype)
        return lax.optimization_barrier(x) if is_bfloat16 and not layout.is_nested else x

    # Where the buffer may be sharded, devices add up what each has gathered.
    added = devices > 1 and not layout.is_nested
    move = fence(read) if is_bfloat16 and layout.is_dense else read
    return as_bits(move, is_float if added else is_narrow)


def _hidden_zeros(layout: Layout) -> jax.Array:
    """0 for every coordinate, but computed from those along which elements repeat, so that they differ to XLA."""
    along = [d for d, (n, s) in enumerate(zip(layout.sizes, layout.strides, strict=True)) if n > 1 and s == 0]
    indices = (lax.broadcasted_iota(jnp.uint32, layout.sizes, d) for d in along)
    return never_one(sum(indices, jnp.zeros(layout.sizes, jnp.uint32)))


def _apart(buffer: jax.Array, layout: Layout) -> jax.Array:
    """Permutes a dense view in a kernel of its own."""
    turned = transpose_apart(as_stored(buffer, layout), [layout.dims.index(d) for d in sorted(layout.dims)])
    return lax.broadcast_in_dim(turned, layout.sizes, sorted(layout.dims))


def _split(buffer: jax.Array, layout: Layout) -> jax.Array:
    """Permutes a dense view behind a barrier, so that XLA:CPU does not fuse the split of the buffer with it."""
    shown = as_shown(lax.optimization_barrier(as_stored(buffer, layout)), layout)
    return lax.broadcast_in_dim(shown, layout.sizes, sorted(layout.dims))


def _halved(buffer: jax.Array, layout: Layout) -> jax.Array:
    """Permutes the halves of a dense view, and puts them one after the other."""
    stored, order = as_stored(buffer, layout), [layout.dims.index(d) for d in sorted(layout.dims)]
    first = next(axis for axis, place in enumerate(order) if stored.shape[place] > 1)
    return lax.broadcast_in_dim(transpose_in_halves(stored, order, first), layout.sizes, sorted(layout.dims))


def _joined(buffer: jax.Array, layout: Layout) -> jax.Array:
    return join_lanes(read_view(as_integers(buffer), layout).reshape(-1), buffer.dtype).reshape(layout.sizes)


def _is_turned(layout: Layout, itemsize: int) -> bool:
    """Whether elements that lie side by side in the view lie in few sets of a cache."""
    last = max(layout.dims, default=None)
    if last is None or last == layout.dims[-1]:
        return False
    return layout.sizes[last] >= MET and layout.strides[last] * itemsize % SET == 0


def _run_aligned(layout: Layout, itemsize: int) -> int:
    """The greatest power of two up to 32 that divides the bytes of the last dimension; 0 if it is no run."""
    return gcd(layout.sizes[-1] * itemsize, 32) if layout.strides and layout.strides[-1] == 1 else 0


def _is_binary(layout: Layout) -> bool:
    """Whether all sizes behind the first dimension that changes its place are powers of two, as a buffer stores them.

    A view of NHWC as NCHW moves rows of C channels, and one of (batch, tokens, heads, lanes) as (batch, heads, tokens,
    lanes) rows of heads and lanes.
    """
    places = zip(layout.dims, sorted(layout.dims), strict=True)
    first = next((i for i, (stored, shown) in enumerate(places) if stored != shown), 0)
    return all(n.bit_count() == 1 for n in layout.stored_sizes[first + 1 :])


def _branched(buffer: jax.Array, layout: Layout) -> jax.Array:
    """Permutes a dense view in a branch, which XLA:CPU fuses with nothing."""
    permute = permute_as_integers(lambda _, buffer: as_shown(as_stored(buffer, layout), layout))
    return lax.broadcast_in_dim(in_branch(partial(permute, None), buffer), layout.sizes, sorted(layout.dims))
