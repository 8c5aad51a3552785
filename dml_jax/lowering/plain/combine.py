"""Scatters that combine what they write, the gradients of gathers among them: which form runs where."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..cpu.cache_chunks_sum import add_chunks
from ..cpu.flat_index import add_by_number, dim_in_parts
from ..cpu.gather_side_sum import pull_sums
from ..cpu.single_segment import sum_by_row
from ..forced import forced_form
from ..forms import Choice, Form, Options, choose_form, known_bytes, shapes_of
from ..gpu.contention_probe import combine_by_sample
from ..gpu.fan_out import can_fan_out, fill_fanned_out
from ..gpu.heavy_hitters import SAMPLE, add_hottest_apart, length_of_rows
from ..gpu.int32_atomics import combine_as_words
from ..gpu.inverse import read_through_inverse
from ..gpu.parts import add_in_halves
from ..gpu.privatized import COPIES, add_in_copies
from ..gpu.sorted_segments import combine_in_runs
from ..not_under_vmap import unless_mapped
from ..partition import on_each_device, shape_of_shard
from ..values.accumulation_types import wide_type
from .reduction import ADD, Reduction
from .rows import Rows, Write, check_sortable
from .scatter_reduce import combine_at_once

SHORT = range(32, 77)

__all__ = ["TABLE", "combine_updates"]

_MANY = 2**62
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
        "0.34/0.36/0.36 of 65536 into 128256x1024; plain 0.57/0.59/1.0. Of 16384 into 32000x1024 0.14/0.15/0.15; plain"
        " 0.15/0.16/0.27",
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
    Choice(
        "cuda",
        "runs",
        {"is_few": {True}, "itemsize": {1, 2}},
        "1.4-2.1 times as fast as plain, which encodes the table, and decodes it; of 4 bytes 0.8-1.0 times",
    ),
    Choice(
        "cuda",
        "parts",
        {**_NARROW, "wide_bytes": range(2**25, 2**28)},
        "0.32/0.40/0.23 of bfloat16 (8192, 2048) along axis 0; plain 0.64/0.35/0.18: float32 sums leave the L2 cache",
    ),
    Choice(
        "cuda",
        "hottest",
        {"takes": {"elements"}, "itemsize": {2, 4}, "length": range(2**17, _MANY), "updates": range(2**20, _MANY)},
        "0.31/1.0/0.30 of rows of 131072; plain 0.24/2.6/8.2. Of 32768 0.83/1.07/- and of 8192 0.80/1.18/2.6 times as"
        " fast as plain",
    ),
    Choice(
        "cuda",
        "filled",
        {"is_unique": {True}, "table_bytes": range(2**24, _MANY)},
        "bfloat16 labels of 4096x50257 0.11, of 4096x32000 0.07; plain, which writes zeros one by one, 0.26 and 0.17."
        " Of float32 0.19 and 0.26. Where rows are added 0.87-1.2 times as fast",
    ),
    Choice(
        "cpu",
        "runs",
        {"is_few": {True}, "itemsize": {1, 2}, "widened_bytes": range(2**25, _MANY)},
        "1.0-2.0 times as fast as plain, which encodes the table, and decodes it; of less memory 0.2-0.5 times",
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
    Choice(
        "cuda",
        "wide",
        {"is_float": {False}, "is_extreme": {False}},
        "9-220 times as fast as plain, which compares and swaps words, where ids meet; where few do 0.5-1.1 times. Of"
        " maxima, which change seldom, 0.7-1.3 times",
    ),
)


def combine_updates(
    indices: jax.Array,
    table: jax.Array | None,
    updates: jax.Array,
    shape: tuple[int, ...],
    write: Write,
    reduction: Reduction,
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
        return choose_form(options, TABLE, forced_form())(indices, *data)

    if shards:
        tables = [shards.table] * (len(data) - 1)
        chosen = on_each_device(chosen, (shards.indices, *tables, shards.slices), shards.table)
    return chosen(indices, *data)


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
    plain = partial(combine_at_once, *of)
    if not rows.are_numbered(indices):
        return {"plain": plain}, {"bytes": 0}
    in_runs, number = partial(combine_in_runs, *of), prod(indices.shape[:-1])
    is_float, meets = jnp.issubdtype(dtype, jnp.inexact), not write.unique_indices
    rounds = reduction.rounds and is_float
    if write.deterministic and rounds and meets:
        return {"plain": partial(_by_order, plain, in_runs)}, {"bytes": 0}
    takes = _takes(rows)
    adds_to_zeros = reduction is ADD and is_float and not has_table
    sums = adds_to_zeros and meets
    applies = {
        "inverse": not has_table and not meets and write.mode != "fill" and number == rows.count,
        **dict.fromkeys(("chunks", "pulled"), sums and rows.are_stored),
        "numbered": sums and takes == "elements" and dim_in_parts(rows) is not None,
        "filled": adds_to_zeros and not meets and can_fan_out(shape, dtype),
        "copies": sums and COPIES * rows.count < 2**31,
        "sampled": reduction is ADD and is_float and meets and rows.are_stored,
        "runs": is_float and meets and rows.are_stored,
        "hottest": sums and takes == "elements" and length_of_rows(write, updates) >= SAMPLE,
        "parts": sums and takes == "elements" and not rows.are_stored,
        "wide": not is_float and meets and dtype.itemsize < 4 and dtype != jnp.bool_,
    }
    forms = {
        "inverse": partial(read_through_inverse, *of),
        "filled": partial(combine_at_once, *of, fill=fill_fanned_out),
        "copies": partial(add_in_copies, *of),
        "sampled": unless_mapped(partial(combine_by_sample, *of), in_runs),
        "runs": in_runs,
        "hottest": unless_mapped(partial(add_hottest_apart, *of), plain),
        "parts": partial(add_in_halves, *of),
        "wide": partial(combine_as_words, *of),
        "chunks": unless_mapped(partial(sum_by_row, add_chunks, *of), plain),
        "pulled": unless_mapped(partial(sum_by_row, pull_sums, *of), plain),
        "numbered": partial(add_by_number, *of),
    }
    found = {name: form for name, form in forms.items() if applies[name] and devices == 1 and number > 0}
    return {"plain": plain, **found}, _case(indices, updates, rows, reduction, has_table)


def _case(
    indices: jax.Array, updates: jax.Array, rows: Rows, reduction: Reduction, has_table: bool
) -> Mapping[str, Any]:
    dtype, number, is_float = updates.dtype, prod(indices.shape[:-1]), jnp.issubdtype(updates.dtype, jnp.inexact)
    takes, elements, wide = _takes(rows), prod(rows.shape), wide_type(dtype).itemsize
    return {
        "is_float": is_float,
        "rounds": reduction.rounds and is_float,
        "is_extreme": not reduction.rounds,
        "itemsize": dtype.itemsize,
        "takes": takes,
        "updates": number,
        "updates_per_row": number // max(1, rows.count),
        "is_few": has_table and is_float and 8 * number <= rows.count and reduction.encodes(dtype),
        "length": length_of_rows(rows.write, updates) if takes == "elements" else 0,
        "is_unique": rows.write.unique_indices,
        "table_bytes": elements * dtype.itemsize,
        "width": rows.width,
        "row_bytes": rows.width * dtype.itemsize,
        "copies_bytes": COPIES * elements * wide,
        "wide_bytes": elements * wide,
        "widened_bytes": (elements + number * rows.width) * wide,
        "bytes": known_bytes(updates, indices) + elements * dtype.itemsize,
    }


def _takes(rows: Rows) -> str:
    """What an update is: an element along an axis, or a row."""
    return "elements" if rows.width == 1 and rows.slices.along else "rows"


def _by_order(plain: Form, in_runs: Form, indices: jax.Array, *data: jax.Array) -> jax.Array:
    """XLA:CPU scatters one update after the other, in order."""
    return lax.platform_dependent(indices, *data, cpu=plain, default=in_runs)
