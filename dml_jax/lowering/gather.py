"""The forms of a read through lax.gather: plainly, as words, joined to words, within bounds, indices or axis first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .bits import as_bits, is_float, is_float8
from .bounded import SHORT, as_unsigned, from_unsigned, has_unsigned, never_one, within_bounds
from .branches import materialize
from .combine import combine_updates
from .forms import Choice, Form, Options, choose_form, known_bytes, shapes_of
from .linear import linear
from .reduction import ADD
from .rows import Write
from .shards import TableShards, on_each_device
from .slices import Slices
from .words import as_integers, from_words, join_elements, lanes, to_words

__all__ = ["TABLE", "Read", "gather_slices", "read_of", "reading"]

_MANY = 2**62
_FAR = {
    "slab_bytes": range(48 * 2**20, _MANY),
    "bytes": range(8 * 2**30),
    "is_sorted": {False},
    "devices": {1},
}
_COLD = {"slab_bytes": range(32 * 2**20, _MANY), "read_bytes": range(2**20, _MANY), "is_sorted": {False}}
# On an H200, tables of 128 to 512 MB and random indices; bandwidth as a part of a copy's in the same run.
TABLE = (
    Choice(
        "cuda",
        "words",
        {"itemsize": {1, 2}, "row_bytes": range(32, _MANY)},
        "rows of 32 bytes 0.48, of 128 and more 0.77-0.88; plain at most 0.40 of 1 byte, 0.67 of 2",
    ),
    Choice(
        "cuda",
        "words",
        {"itemsize": {1}, "row_bytes": range(4, 32)},
        "in ascending order 0.84-0.98, plain 0.44-0.55; in random order both read 64 bytes a row, 0.12-0.32",
    ),
    Choice(
        "cuda",
        "joined",
        {"itemsize": {1, 2}, "takes": {"elements"}, "axis_size": range(2048, _MANY)},
        "an axis of 4096 0.93 of 1 byte, 0.68 of 2; plain 0.68 and 0.51. Below 2048 both are the same",
    ),
    Choice(
        "cuda",
        "joined",
        {"itemsize": {1, 2}, "takes": {"elements"}, "axis_size": range(512, 2048), "is_computed": {True}},
        "rows of 512 reversed 0.72 of 1 byte, 0.87 of 2; plain 0.37-0.42 and 0.76",
    ),
    Choice(
        "cuda",
        "joined",
        {"itemsize": {1, 2}, "takes": {"slices"}, "axis_size": range(64, _MANY)},
        "the last axis, of 64 to 8192: 0.31-0.60 of 1 byte, 0.49-0.92 of 2; plain 0.19-0.41 and 0.33-0.80",
    ),
    # Takes temporaries of the size of all operands: only where it is 1.5 times as fast. The slab is what a column of
    # indices can reach: larger than the L2 cache, every element read is a memory transaction of its own. Not for so
    # much that it would not fit, nor where operands may be sharded.
    Choice(
        "cuda",
        "axis_last",
        {**_FAR, "itemsize": {1, 2}, "axis_size": range(32, _MANY)},
        "0.14-0.29; plain 0.07-0.10: 1.8 to 4.2 times as fast. Sorted indices are faster plain: say so",
    ),
    Choice(
        "cuda",
        "axis_last",
        {**_FAR, "itemsize": {4}, "axis_size": range(1024, 2**16)},
        "0.25; plain 0.14. An axis of 323 or 262144 gains 1.3 to 1.5 times only, and 8 bytes 1.2 to 1.4",
    ),
    # On two cores of an EPYC, 64 MB, from tables that no cache holds. A core looks 256 instructions ahead: the
    # fewer of them a row takes, the more rows it waits for at once. Needs memory for indices: not for shorter rows.
    Choice(
        "cpu",
        "indices_first",
        {"width": {4, 8}, "row_bytes": range(32, _MANY), **_COLD},
        "1.5-1.9 times as fast as plain in random order, 0.92-1.2 times in ascending order",
    ),
    Choice(
        "cpu",
        "indices_first",
        {"width": {12, 16}, "itemsize": {4}, **_COLD},
        "12 elements 1.2-1.8 times as fast as plain in random order, 16 elements 1.02-1.6; in ascending order 0.8-1.0",
    ),
    Choice(
        "cpu",
        "indices_first",
        {"width": SHORT, "itemsize": {1, 2}, **_COLD},
        "rows of 64 bytes 4.2 ms of 1 byte, 5.6 of 2; bounded 6.8 and 6.5, plain 45 and 26. In ascending order 3.8-4.2,"
        " bounded 3.6-3.8",
    ),
    # On two cores of an EPYC, 16 MB into a bound output. To see elements as bytes does the same up to jaxlib 0.10.
    Choice(
        "cpu",
        "bounded",
        {"width": SHORT},
        "rows of 64 elements: 1.6 ms of 1 byte, 1.0 of 2, 0.9 of 4 and 8; plain 10, 6.0, 3.0 and 1.9, torch 2.2-0.9",
    ),
    # Of 32 MB. What is left of a row when vectors have taken their part passes the bounds one by one.
    Choice(
        "cpu",
        "bounded",
        {"width": {16, 24}, "itemsize": {1, 2}},
        "rows of 16 elements: 11 ms of 1 byte, 7-11 of 2; plain 25 and 13-15, torch 16-17 and 9-17. Of 31 bytes 86,"
        " plain 47",
    ),
    Choice(
        "cpu",
        "bounded",
        {"width": {24}, "itemsize": {4}},
        "8.1 ms; plain 12, torch 3.6-5.9. Of 16 elements 8.2-9.2, plain 9.4-10; of 28 no more than plain",
    ),
)


@dataclass(frozen=True)
class Read:
    """How lax.gather reads: its attributes, under its names, and what else is known.

    Args:
      slices: which slices of the input are read.
      mode: "clip", "promise_in_bounds", or "fill" for zeros.
      indices_are_sorted: what XLA is promised, about all indices in row-major order.
      sorted_along_axis: whether they ascend along the one axis that is indexed.
      unique_indices: whether no two that are in range address one element.
      drops: whether nothing flows back from an index out of range, although it reads the nearest element.
      deterministic: whether what flows back has the same bits in every run.
      computed: whether the program computes the indices, so that none are loaded.
      shards: where every device reads on its own.
    """

    slices: Slices
    mode: str
    indices_are_sorted: bool = False
    sorted_along_axis: bool = False
    unique_indices: bool = False
    drops: bool = False
    deterministic: bool = False
    computed: bool = False
    shards: TableShards | None = None

    def __call__(self, indices: jax.Array, input: jax.Array) -> jax.Array:
        return lax.gather(
            input,
            indices,
            self.slices.reads,
            self.slices.sizes(input.shape),
            mode=self.mode,
            indices_are_sorted=self.indices_are_sorted,
            fill_value=0 if self.mode == "fill" else None,
        )

    @property
    def transpose(self) -> Write:
        """What adds up again what was read."""
        mode = "fill" if self.drops else self.mode
        return Write(self.slices, mode, self.unique_indices, self.indices_are_sorted, self.deterministic, self.shards)


def read_of(write: Write) -> Read:
    """What reads where `write` writes, and zeros where it drops."""
    return Read(write.slices, write.mode, write.indices_are_sorted, shards=write.shards)


def gather_slices(indices: jax.Array, input: jax.Array, read: Read, form: str | None) -> jax.Array:
    """Reads `input` where `indices` say; its transpose adds up what was read more than once.

    Args:
      indices: in the rank that lax.gather wants.
      input: any dtype.
      read: how.
      form: the forced one, or None.
    """

    def back(indices: jax.Array, cotangent: jax.Array, like: Sequence[jax.Array]) -> Sequence[jax.Array]:
        return [combine_updates(indices, None, cotangent, like[0].shape, read.transpose, ADD, form)]

    return linear(reading(read, form), back)(indices, input)


def reading(read: Read, forced: str | None) -> Form:
    """What reads an array; it has no derivative."""

    def form(indices: jax.Array, input: jax.Array) -> jax.Array:
        return choose_form(partial(_options, read, *shapes_of(indices, input)), TABLE, forced)(indices, input)

    shards = read.shards
    return on_each_device(form, (shards.indices, shards.table), shards.slices) if shards else form


def _options(read: Read, indices: jax.Array, input: jax.Array, devices: int) -> Options:
    of = is_float8 if devices == 1 else is_float  # devices add up what each has read
    forms: dict[str, Form] = {"plain": as_bits(read, of)}
    if not all(isinstance(n, int) for n in (*input.shape, *indices.shape)) or 0 in input.shape:
        return forms, {"bytes": 0}
    count, itemsize = lanes(input.dtype), input.dtype.itemsize
    slices = read.slices
    row, axis = slices.row(indices.ndim), slices.indexed[0]
    output = jax.ShapeDtypeStruct(slices.shape(input.shape, indices.shape), input.dtype)
    width = prod(input.shape[input.ndim - row :]) if row else 0
    case = {
        "itemsize": itemsize,
        "width": width,
        "row_bytes": width * itemsize,
        "takes": slices.kind,
        "axis_size": input.shape[axis],
        "slab_bytes": prod(input.shape[axis:]) * itemsize,
        "read_bytes": known_bytes(output),
        "bytes": known_bytes(input, indices, output),
        "is_sorted": read.sorted_along_axis or read.indices_are_sorted,
        "is_computed": read.computed,
        "devices": devices,
    }
    if row and devices == 1 and has_unsigned(input.dtype):
        forms["bounded"] = partial(_bounded, read, row)
    if row and devices == 1 and read.mode != "fill":
        within = replace(read, mode="promise_in_bounds")
        move = partial(_bounded, within, row) if width in SHORT and "bounded" in forms else as_bits(within, of)
        forms["indices_first"] = lambda indices, input: move(_clip_apart(indices, input.shape, slices), input)
    if row and input.shape[-1] % (count * devices) == 0:
        row = 1  # dimensions that may be sharded stay apart
    elif devices > 1:
        row = 0
    if count > 1 and row and prod(input.shape[input.ndim - row :]) % count == 0:
        forms["words"] = partial(_in_words, read, row)
    if slices.kind == "elements" and axis < input.ndim - 1:
        forms["axis_last"] = as_bits(partial(_axis_last, read), of)
    elif count > 1 and slices.ends_free(indices.ndim) and indices.shape[-2] % (count * devices) == 0:
        forms["joined"] = lambda indices, input: _joined(read, indices, input)
    return forms, case


def _in_words(read: Read, row: int, indices: jax.Array, input: jax.Array) -> jax.Array:
    return _of_rows(lambda rows, read: from_words(read(indices, to_words(rows)), rows.dtype), read, row, input)


def _bounded(read: Read, row: int, indices: jax.Array, input: jax.Array) -> jax.Array:
    zero = never_one(indices.reshape(-1)[0])

    def read_rows(rows: jax.Array, read: Read) -> jax.Array:
        return from_unsigned(within_bounds(read(indices, as_unsigned(rows)), zero), rows.dtype)

    return _of_rows(read_rows, read, row, input)


def _clip_apart(indices: jax.Array, shape: Sequence[int], slices: Slices) -> jax.Array:
    """Indices within a table of `shape`, as unsigned integers, which the loop over rows only loads."""
    most = np.asarray([shape[axis] - 1 for axis in slices.indexed], indices.dtype)
    clipped = jnp.clip(indices, 0, most.reshape((1,) * (indices.ndim - 1) + (-1,)))
    return materialize(clipped.astype(f"uint{8 * indices.dtype.itemsize}"))


def _of_rows(read_rows: Callable[[jax.Array, Read], jax.Array], read: Read, row: int, input: jax.Array) -> jax.Array:
    """What is read of `input` with its last `row` dimensions as one."""
    outer, sizes = input.shape[: input.ndim - row], input.shape[input.ndim - row :]
    result = read_rows(input.reshape(*outer, prod(sizes)), replace(read, slices=read.slices.merged(row)))
    return result.reshape(*result.shape[:-1], *sizes)


def _joined(read: Read, indices: jax.Array, input: jax.Array) -> jax.Array:
    """Every lane of the words of the result by a gather of its own, which XLA fuses."""
    *outer, last, one = indices.shape
    count, integers = lanes(input.dtype), as_integers(input)
    split = indices.reshape(*outer, last // count, count, one)
    parts = [read(split[..., lane, :], integers) for lane in range(count)]
    return from_words(join_elements(parts, input.dtype), input.dtype)


def _axis_last(read: Read, indices: jax.Array, input: jax.Array) -> jax.Array:
    """Transposes input and indices, so that what is read together lies in one row, and the result back."""
    (axis,), last = read.slices.indexed, input.ndim - 1
    order, others = [*(d for d in range(input.ndim) if d != axis), axis], tuple(range(last))
    rows = replace(read, slices=Slices(input.ndim, (last,), others, others), indices_are_sorted=False)
    turned = [_stored(array.transpose(order)) for array in (indices[..., 0], input)]
    result = _stored(rows(turned[0][..., None], turned[1]))
    return result.transpose([order.index(d) for d in range(input.ndim)])


def _stored(array: jax.Array) -> jax.Array:
    """The array in row-major order of its own: flat, as XLA could choose another order for more dimensions."""
    return lax.optimization_barrier(array.reshape(-1)).reshape(array.shape)
