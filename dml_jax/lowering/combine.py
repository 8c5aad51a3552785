"""The forms of a scatter that combines what it writes: sums, products and extremes, and the gradients of gathers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import pairwise
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap

from ..errors import ConstraintError
from .bits import as_bits, hide_constant
from .bounded import SHORT
from .chunks import add_chunks, as_image, widen
from .forms import Choice, Form, Options, choose_form, known_bytes, shapes_of
from .numbered import add_numbers
from .one_row import Sum, unless_one_row
from .pulled import pull_sums
from .ranks import number_of_rank, rank
from .rows import Rows, Write
from .runs import combine_runs
from .sample import many_meet
from .shards import on_each_device, shape_of_shard
from .words import from_words, lanes, to_words

__all__ = [
    "ADD",
    "MAX",
    "MIN",
    "MUL",
    "TABLE",
    "Reduction",
    "check_sortable",
    "combine_updates",
    "computed_type",
    "wide_type",
    "widen_apart",
]


def wide_type(dtype: Any) -> Any:
    """In which numbers of a type are added and multiplied: float32 for narrower floats."""
    is_narrow = jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).bits < 32
    return np.dtype(np.float32) if is_narrow else dtype


def computed_type(dtype: Any) -> Any:
    """The same, and eight bits at least for integers: XLA:GPU ends the process over scans of fewer."""
    if jnp.issubdtype(dtype, jnp.integer) and jnp.iinfo(dtype).bits < 8:
        return jnp.uint8 if jnp.issubdtype(dtype, jnp.unsignedinteger) else jnp.int8
    return wide_type(dtype)


def widen_apart(array: Any, dtype: Any) -> jax.Array:
    """An array in a wider type; of types that few devices have, in memory of its own.

    XLA:GPU reads int4 at the wrong places where it fuses the cast with a reduction, and finds no convolution of float8
    where it fuses it with one.
    """
    wide = jnp.asarray(array).astype(dtype)
    is_float8 = jnp.issubdtype(array.dtype, jnp.floating) and jnp.finfo(array.dtype).bits <= 8
    is_rare = is_float8 or (jnp.issubdtype(array.dtype, jnp.integer) and jnp.iinfo(array.dtype).bits < 8)
    return lax.optimization_barrier(wide) if is_rare else wide


@dataclass(frozen=True)
class Reduction:
    """How two numbers that meet in one element become one.

    Args:
      combine: of two encoded arrays.
      scatter: what lax has, of encoded numbers.
      identity: of the type of encoded numbers, the one that changes no other.
      encode: numbers as those that are combined.
      decode: encoded numbers as numbers of a type.
      rounds: whether the order decides about the last bit, of floats.
    """

    combine: Callable[[jax.Array, jax.Array], jax.Array]
    scatter: Callable[..., jax.Array]
    identity: Callable[[Any], Any]
    encode: Callable[[jax.Array], jax.Array] = lambda x: x.astype(wide_type(x.dtype))
    decode: Callable[[jax.Array, Any], jax.Array] = lambda x, dtype: x.astype(dtype)
    rounds: bool = True


ADD = Reduction(jnp.add, lax.scatter_add, lambda dtype: np.zeros((), dtype))
MUL = Reduction(jnp.multiply, lax.scatter_mul, lambda dtype: np.ones((), dtype))
# Devices differ about NaNs and zeros of both signs, but not about the order of integers.
MIN = Reduction(
    jnp.minimum,
    lax.scatter_min,
    lambda dtype: np.asarray(jnp.iinfo(dtype).max, dtype),
    partial(rank, nan="least"),
    partial(number_of_rank, nan="least"),
    rounds=False,
)
MAX = Reduction(
    jnp.maximum,
    lax.scatter_max,
    lambda dtype: np.asarray(jnp.iinfo(dtype).min, dtype),
    partial(rank, nan="greatest"),
    partial(number_of_rank, nan="greatest"),
    rounds=False,
)

_MANY = 2**62
COPIES = 16
PARTS = 4
_NARROW = {"rounds": {True}, "itemsize": {1, 2}}
_FRESH = {"itemsize": {2}, "takes": {"rows"}, "widened_bytes": range(2**25, _MANY)}
# On an H200; milliseconds for ids that are uniform / Zipf 1.3 / all one, of updates of bfloat16 and float32.
TABLE = (
    Choice(
        "cuda",
        "inverse",
        {"row_bytes": range(64, _MANY)},
        "0.31-0.40 and 0.60 of 65536x4096; plain, which stores, 0.47-0.71 and 0.91, and 1.55 and 1.25 unpromised",
    ),
    Choice(
        "cuda",
        "copies",
        {"rounds": {True}, "takes": {"rows"}, "copies_bytes": range(2**25), "updates_per_row": range(8, _MANY)},
        "0.20/0.39/0.67 and 0.25/0.38/0.70 of 1,000,000 into 1000x128; plain 0.23/1.8/4.8 and 0.27/1.8/4.8",
    ),
    # Atomic additions to one address follow each other at 5 ns; narrow sums would need a wide table besides.
    Choice(
        "cuda",
        "runs",
        {**_NARROW, "takes": {"rows"}, "updates": range(2**15, _MANY)},
        "0.36/0.39/0.38 of 65536 into 128256x1024; plain 0.57/0.59/1.0",
    ),
    Choice(
        "cuda",
        "runs",
        {**_NARROW, "takes": {"rows"}, "updates": range(2**13, _MANY), "wide_bytes": range(2**26, _MANY)},
        "0.14/0.15/0.14 of 16384 into 32000x1024; plain 0.15/0.16/0.27",
    ),
    Choice(
        "cuda",
        "sampled",
        {"itemsize": {4}, "takes": {"rows"}, "updates": range(2**18, _MANY)},
        "0.33/0.52/0.53 of 1,000,000 of float32 into 1000000x64; plain 0.31/1.4/4.8, runs 0.46/0.46/0.45",
    ),
    Choice(
        "cuda",
        "runs",
        {"rounds": {True}, "takes": {"rows"}, "updates": range(2**18, _MANY)},
        "0.46/0.46/0.46 of 1,000,000 of float32 into 1000000x64; plain 0.31/1.7/4.8",
    ),
    *(
        Choice(platform, "runs", {"is_few": {True}}, "costs the updates; plain encodes the table, and decodes it")
        for platform in ("cuda", "cpu")
    ),
    Choice(
        "cuda",
        "parts",
        {**_NARROW, "wide_bytes": range(2**25, 2**28)},
        "0.32/0.40/0.23 of bfloat16 (8192, 2048) along axis 0; plain 0.64/0.35/0.18: float32 sums leave the L2 cache",
    ),
    Choice(
        "cuda",
        "filled",
        {"itemsize": {1, 2}},
        "bfloat16 labels of 4096x50257 0.13, of 4096x32000 0.09; plain, which writes zeros one by one, 0.26 and 0.17",
    ),
    # On two cores of an EPYC, bound output. XLA:CPU widens updates and table to memory that is fresh in every call if
    # both take 32 MiB together, as the C library keeps no more; a page of it costs 0.1 us and more.
    Choice(
        "cpu",
        "inverse",
        {"width": range(SHORT.stop, _MANY), "itemsize": {2, 4}},
        "5.9 of bfloat16 8192x4096 and 7.9 of float32; plain, which stores, 23 and 14, torch 9.9 and 12",
    ),
    Choice(
        "cpu",
        "pulled",
        {"itemsize": {2}, "takes": {"rows"}, "updates_per_row": range(4), "width": range(256, _MANY)},
        "7.2/11/5.4 of 8192 into 8192x4096 and 1.0/1.0/0.4 of 2048 into 4000x1024; plain 61/59/57 and 1.9/1.7/1.6",
    ),
    Choice(
        "cpu",
        "pulled",
        {**_FRESH, "updates_per_row": range(4), "width": range(64, _MANY)},
        "8.5/8.1/1.0 of 125000 into 125000x64; plain 17/15/14. Below 64 chunks are as fast",
    ),
    Choice(
        "cpu",
        "pulled",
        {**_FRESH, "updates_per_row": range(32), "width": range(512, _MANY)},
        "1.8/-/0.6 of 8192 into 1024x1024; plain 8.7/-/8.5, chunks 2.5/-/2.3",
    ),
    Choice(
        "cpu",
        "chunks",
        {**_FRESH, "updates_per_row": range(1, _MANY)},
        "2.6/3.8/1.2 of 125000 into 1000x128; plain 16/15/15. With kept memory plain is 1.3 times as fast",
    ),
    Choice(
        "cpu",
        "numbered",
        {"takes": {"elements"}, "is_float": {True}, "itemsize": {2, 4}, "updates_per_row": range(1, _MANY)},
        "2.2/2.5/2.5 of float32 (256, 8192) along axis 1 and 4.1/4.3/3.2 of (1024, 2048) along axis 0; plain, which"
        " adds in one thread, 4.2/6.7/8.1 and 7.5/8.6/2.7",
    ),
    Choice("cuda", "wide", {"is_float": {False}}, "plain compares and swaps words: 58 times as long where ids meet"),
)


def combine_updates(
    indices: jax.Array,
    table: jax.Array | None,
    updates: jax.Array,
    shape: tuple[int, ...],
    write: Write,
    reduction: Reduction,
    forced: str | None,
) -> jax.Array:
    """Combines `updates` with what `table` holds where `indices` say; has no derivative.

    8- and 16-bit floats are combined as float32 and rounded once.

    Args:
      indices: in the rank that lax.scatter wants.
      table: of `shape`; None for one that holds the identity of the reduction.
      updates: its dtype.
      shape: of the table.
      write: how.
      reduction: what is done where two meet.
      forced: the name of a form, or None.
    """
    batch = prod(shape[d] for d in write.slices.along)
    if prod(indices.shape[:-1]) == batch:
        write = replace(write, unique_indices=True)  # one index has none to meet, such as the label of a row of logits
    rounds = reduction.rounds and jnp.issubdtype(updates.dtype, jnp.inexact)
    if write.deterministic and rounds and not write.unique_indices:
        check_sortable("deterministic", indices, shape, write)
    data = (updates,) if table is None else (table, updates)
    shards = write.shards

    def chosen(indices: jax.Array, *data: jax.Array) -> jax.Array:
        table = shape_of_shard(shape, shards.table) if shards else shape
        options = partial(_options, *shapes_of(indices, data[-1]), table, write, reduction, len(data) > 1)
        return choose_form(options, TABLE, forced)(indices, *data)

    if shards:
        tables = [shards.table] * (len(data) - 1)
        chosen = on_each_device(chosen, (shards.indices, *tables, shards.slices), shards.table)
    return chosen(indices, *data)


def check_sortable(what: str, indices: Any, shape: tuple[Any, ...], write: Write) -> None:
    """Refuses what cannot be sorted by the number of its row.

    Raises:
      ConstraintError: a size is symbolic, or there are 2**31 elements or updates.
    """
    if not Rows(shape, write).are_numbered(indices):
        raise ConstraintError(
            f"{what} needs sizes that are known while tracing, and fewer than 2**31 elements and updates,"
            f" but the sizes are {shape}, and {indices.shape[:-1]} of the updates"
        )


def _options(
    indices: jax.Array,
    updates: jax.Array,
    shape: tuple[int, ...],
    write: Write,
    reduction: Reduction,
    has_table: bool,
    devices: int,
) -> Options:
    dtype, rows, of = updates.dtype, Rows(shape, write), (shape, write, reduction)
    plain = partial(_plain, *of)
    if not rows.are_numbered(indices):
        return {"plain": plain}, {"bytes": 0}
    in_runs, is_float, number = partial(_in_runs, *of), jnp.issubdtype(dtype, jnp.inexact), prod(indices.shape[:-1])
    rounds = reduction.rounds and is_float
    if write.deterministic and rounds and not write.unique_indices:
        return {"plain": partial(_by_order, plain, in_runs)}, {"bytes": 0}
    takes = "elements" if rows.width == 1 and write.slices.along else "rows"
    case = {
        "is_float": is_float,
        "rounds": rounds,
        "itemsize": dtype.itemsize,
        "takes": takes,
        "updates": number,
        "updates_per_row": number // max(1, rows.count),
        "is_few": has_table and is_float and 8 * number <= rows.count and _encodes(reduction, updates),
        "width": rows.width,
        "row_bytes": rows.width * dtype.itemsize,
        "copies_bytes": COPIES * prod(shape) * wide_type(dtype).itemsize,
        "wide_bytes": prod(shape) * wide_type(dtype).itemsize,
        "widened_bytes": (prod(shape) + number * rows.width) * wide_type(dtype).itemsize,
        "bytes": known_bytes(updates, indices) + prod(shape) * dtype.itemsize,
    }
    adds_to_zeros = reduction is ADD and is_float and not has_table
    applies = {
        "inverse": not has_table and write.unique_indices and write.mode != "fill" and number == rows.count,
        **dict.fromkeys(("chunks", "pulled"), adds_to_zeros and not write.unique_indices and rows.are_stored),
        "numbered": adds_to_zeros and not write.unique_indices and takes == "elements" and _parted(rows) is not None,
        "filled": adds_to_zeros and write.unique_indices and lanes(dtype) > 1 and prod(shape) % lanes(dtype) == 0,
        "copies": adds_to_zeros and not write.unique_indices and COPIES * rows.count < 2**31,
        "sampled": reduction is ADD and is_float and not write.unique_indices and rows.are_stored,
        "runs": is_float and not write.unique_indices and rows.are_stored,
        "parts": adds_to_zeros and not write.unique_indices and takes == "elements" and not rows.are_stored,
        "wide": not is_float and not write.unique_indices and dtype.itemsize < 4 and dtype != jnp.bool_,
    }
    forms = {
        "inverse": partial(_through_inverse, *of),
        "filled": partial(_filled, *of),
        "copies": partial(_in_copies, *of),
        "sampled": _unless_mapped(partial(_sampled, *of), in_runs),
        "runs": in_runs,
        "parts": partial(_in_parts, *of),
        "wide": partial(_wide, *of),
        "chunks": _unless_mapped(partial(_summed, add_chunks, *of), plain),
        "pulled": _unless_mapped(partial(_summed, pull_sums, *of), plain),
        "numbered": partial(_numbered, *of),
    }
    found = {name: form for name, form in forms.items() if applies[name] and devices == 1 and number > 0}
    return {"plain": plain, **found}, case


def _encodes(reduction: Reduction, numbers: jax.Array) -> bool:
    return not reduction.rounds or wide_type(numbers.dtype) != numbers.dtype


def _plain(
    shape: tuple[int, ...], write: Write, reduction: Reduction, indices: jax.Array, *data: jax.Array
) -> jax.Array:
    """Stores where nothing meets and nothing was, else combines encoded numbers."""
    *table, updates = data
    dtype = updates.dtype
    if write.unique_indices and not table:
        return _store(indices, jnp.full(shape, reduction.identity(dtype)), updates, write)
    encoded = reduction.encode(updates)
    into = reduction.encode(table[0]) if table else jnp.full(shape, reduction.identity(encoded.dtype))
    return reduction.decode(reduction.scatter(into, indices, encoded, write.numbers, **write.promises), dtype)


def _store(indices: jax.Array, table: jax.Array, updates: jax.Array, write: Write) -> jax.Array:
    def store(indices: jax.Array, table: jax.Array, updates: jax.Array) -> jax.Array:
        return lax.scatter(table, indices, updates, write.numbers, **write.promises)

    return as_bits(store)(indices, table, updates)


def _filled(
    shape: tuple[int, ...], write: Write, reduction: Reduction, indices: jax.Array, updates: jax.Array
) -> jax.Array:
    """Stores the updates into zeros that are written by words."""
    dtype = updates.dtype
    words = jnp.broadcast_to(hide_constant(jnp.uint32(0)), (prod(shape) // lanes(dtype),))
    zeros = from_words(words, dtype).reshape(shape)
    return _store(indices, zeros, updates, write)


def _sampled(
    shape: tuple[int, ...], write: Write, reduction: Reduction, indices: jax.Array, *data: jax.Array
) -> jax.Array:
    """Adds all at once where few updates meet, and in runs where many do."""
    rows = Rows(shape, write)
    in_runs, plain = (partial(form, shape, write, reduction) for form in (_in_runs, _plain))
    return lax.cond(many_meet(rows.row_of_each(indices), rows.count), in_runs, plain, indices, *data)


def _by_order(plain: Form, in_runs: Form, indices: jax.Array, *data: jax.Array) -> jax.Array:
    """XLA:CPU scatters one update after the other, in order."""
    return lax.platform_dependent(indices, *data, cpu=plain, default=in_runs)


def _in_runs(
    shape: tuple[int, ...], write: Write, reduction: Reduction, indices: jax.Array, *data: jax.Array
) -> jax.Array:
    *table, updates = data
    rows = Rows(shape, write)
    held = rows.fold(table[0]) if table else None
    found = combine_runs(rows.row_of_each(indices), held, rows.fold_updates(updates), rows.count, reduction)
    return rows.unfold(found)


def _in_copies(
    shape: tuple[int, ...], write: Write, reduction: Reduction, indices: jax.Array, updates: jax.Array
) -> jax.Array:
    """Adds to several tables in turn, and those up: fewer additions wait for each other."""
    rows, wide = Rows(shape, write), wide_type(updates.dtype)
    row = rows.row_of_each(indices)
    turn = lax.iota(jnp.int32, row.shape[0]) % np.int32(COPIES)
    at = jnp.where(row < rows.count, row + turn * np.int32(rows.count), np.int32(COPIES * rows.count))
    tables = jnp.zeros((COPIES * rows.count, rows.width), wide)
    tables = tables.at[at].add(rows.fold_updates(updates).astype(wide), mode="drop")
    parts = tables.reshape(COPIES, rows.count, rows.width)
    return rows.unfold(reduce(jnp.add, [parts[i] for i in range(COPIES)]).astype(updates.dtype))


def _in_parts(
    shape: tuple[int, ...], write: Write, reduction: Reduction, indices: jax.Array, updates: jax.Array
) -> jax.Array:
    """Halves of the last dimension, which goes along with the indices', one after the other."""
    half = shape[-1] // 2
    ranges = [(0, half), (half, shape[-1])]
    parts = []
    for start, stop in ranges:
        of = (*shape[:-1], stop - start)
        cut = [lax.slice_in_dim(indices, start, stop, axis=-2), lax.slice_in_dim(updates, start, stop, axis=-1)]
        wide = wide_type(updates.dtype)
        parts.append(_plain(of, write, reduction, cut[0], cut[1].astype(wide)))  # wide already: nothing is rounded yet
    return lax.concatenate(parts, len(shape) - 1).astype(updates.dtype)


def _unless_mapped(form: Form, plain: Form) -> Form:
    """`form`, and under jax.vmap `plain`: loops and branches would go on for all of a batch until the last is done."""
    alone = custom_vmap(form)

    @alone.def_vmap
    def _(size: int, is_batched: Sequence[bool], *arrays: jax.Array) -> tuple[jax.Array, bool]:
        return jax.vmap(plain, [0 if each else None for each in is_batched], axis_size=size)(*arrays), True

    return alone


def _summed(
    sum_rows: Sum, shape: tuple[int, ...], write: Write, reduction: Reduction, indices: jax.Array, updates: jax.Array
) -> jax.Array:
    rows, wide, add = Rows(shape, write), wide_type(updates.dtype), unless_one_row(sum_rows)
    return rows.unfold(add(rows.row_of_each(indices), rows.fold_updates(updates), rows.count, wide))


def _parted(rows: Rows) -> int | None:
    """Which of the dimensions that go along is cut into parts: the first that is long enough; None if none is."""
    sizes = [rows.shape[d] for d in rows.slices.along]
    return next((i for i, size in enumerate(sizes) if size >= PARTS), None)


def _numbered(
    shape: tuple[int, ...], write: Write, reduction: Reduction, indices: jax.Array, updates: jax.Array
) -> jax.Array:
    """Tables of one dimension, which XLA:CPU adds to at once."""
    which, wide = _parted(Rows(shape, write)), wide_type(updates.dtype)
    assert which is not None
    dim, of_indices = write.slices.along[which], write.slices.indices_along[which]
    bounds = [shape[dim] * part // PARTS for part in range(PARTS + 1)]
    mode = "drop" if write.mode == "fill" else "promise_in_bounds"
    parts = []
    for start, stop in pairwise(bounds):
        of = (*shape[:dim], stop - start, *shape[dim + 1 :])
        own, added = (lax.slice_in_dim(x, start, stop, axis=of_indices) for x in (indices, updates))
        length = added.shape[-1] if write.slices.indexed == (len(shape) - 1,) else 1  # where neighbours may meet
        at, numbers = Rows(of, write).element_of_each(own), widen(as_image(added), wide)
        parts.append(add_numbers(at.reshape(-1, length), numbers.reshape(-1, length), prod(of), mode).reshape(of))
    return lax.concatenate(parts, dim).astype(updates.dtype)


def _wide(
    shape: tuple[int, ...], write: Write, reduction: Reduction, indices: jax.Array, *data: jax.Array
) -> jax.Array:
    """Integers of 32 bits, which a GPU combines where they are; the lower bits are those of the narrow type."""
    *table, updates = data
    dtype = updates.dtype
    wide = jnp.uint32 if jnp.issubdtype(dtype, jnp.unsignedinteger) else jnp.int32
    into = table[0].astype(wide) if table else jnp.full(shape, reduction.identity(dtype).astype(wide))
    return reduction.scatter(into, indices, updates.astype(wide), write.numbers, **write.promises).astype(dtype)


def _through_inverse(
    shape: tuple[int, ...], write: Write, reduction: Reduction, indices: jax.Array, updates: jax.Array
) -> jax.Array:
    """Reads the one update of each row: as many rows as updates, and none twice, are a permutation."""
    rows = Rows(shape, write)
    source = jnp.zeros(rows.count, jnp.int32)
    number = lax.iota(jnp.int32, rows.count)
    source = source.at[rows.row_of_each(indices)].set(number, mode="promise_in_bounds", unique_indices=True)
    read = lax.platform_dependent(source, rows.fold_updates(updates), cpu=_read_rows, default=_read_words)
    return rows.unfold(read)


def _read_words(source: jax.Array, rows: jax.Array) -> jax.Array:
    if rows.shape[1] % lanes(rows.dtype):
        return rows.at[source].get(mode="promise_in_bounds")
    return from_words(to_words(rows).at[source].get(mode="promise_in_bounds"), rows.dtype)


@as_bits
def _read_rows(source: jax.Array, rows: jax.Array) -> jax.Array:
    return rows.at[lax.optimization_barrier(source)].get(mode="promise_in_bounds")
