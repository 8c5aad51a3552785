"""Moves of narrow elements: each on its own, or four bytes of the result put together to a word before it is stored."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..forms import Choice, Form, Options, choose_form, forced_form, is_plain, known_bytes, shapes_of
from ..partition import known_shards, move_on_each_device
from ..primitive import Back, Move, linear, transpose_of
from ..values.bits import as_bits, carry_bits, is_key
from ..values.words import as_integers, from_words, join_all, join_lanes, lanes, to_words, words_per_element

__all__ = ["TABLE", "join_form", "move_narrow", "per_word"]

# A number of elements to the move of words of so many.
InWords = Callable[[int], Move | None]

# On an H200, 128 MB; bandwidth as a part of a copy's in the same run.
TABLE = (
    Choice("cuda", "fanned_out", {}, "fills and one_hot of 4 bytes 1.0-1.1, of 1 byte 0.8-1.1; plain 0.82 and 0.22"),
    Choice(
        "cuda",
        "words",
        {"itemsize": {1, 2}},
        "windows of whole words 0.97 of 1 byte, 0.95 of 2, parts 0.88-0.92; plain 0.43 and 0.78-0.85",
    ),
    Choice(
        "cuda",
        "words",
        {"itemsize": {8}},
        "odd columns 0.93-1.0, borders 0.97, joined 1.0, pixels repeated 0.84-0.96; plain 0.58, 0.87, 0.72-0.79 and"
        " 0.59-0.67. Odd rows joined 0.78; plain 0.93",
    ),
    Choice(
        "cuda",
        "joined",
        {"itemsize": {1, 2}, "in_runs": {False}},
        "of 1 and 2 bytes: mirrored 1.0, odd columns 0.78 and 0.90, odd rows joined 0.49 and 0.75, pixels repeated 0.9;"
        " plain 0.42 and 0.82, 0.44 and 0.81, 0.22 and 0.43, 0.28 and 0.54. Long runs 0.54-0.7; plain 0.8-1.0. With a"
        " cut in the last word, 262657x1021 of 1 byte in 0.31 ms; plain 1.28",
    ),
    # On two cores of an EPYC, 16 and 32 MB into bound outputs.
    Choice(
        "cpu",
        "branched",
        {"itemsize": {1, 2}},
        "parts of pictures of 16 to 64 columns: of 1 byte 2.0-2.3 times as fast as plain, of 2 1.5-1.8, of 4 1.0-1.2",
    ),
    Choice(
        "cpu",
        "flattened",
        {},
        "joined along the first dimension 1.3 times as fast as plain of 1 byte, 2 times of 2, 4 and 8: XLA:CPU copies"
        " one dimension by a loop, several by calls of memcpy for each input",
    ),
    Choice(
        "cpu",
        "windowed",
        {"itemsize": {1}},
        "borders of a constant: 2.3-5 times as fast as plain, as fast along one side. Of 2 bytes 0.6-1.3, of more 0.5",
    ),
)


def move_narrow(
    move: Move,
    where: Any,
    *data: Any,
    words: InWords | None = None,
    back: Back | None = None,
    in_runs: bool = False,
    in_bytes: bool = False,
    others: Mapping[str, Move] | None = None,
) -> jax.Array:
    """As `carry_bits`, in a form that is fast for the dtype.

    Args:
      move: moves elements of `data` without looking at them.
      where: says what moves; None where nothing varies.
      data: arrays of one dtype.
      words: takes a number of elements; returns the same move of arrays whose last dimension is words of so many, or
        None where parts of a word move.
      back: what transposes it; by default what JAX makes of `move`.
      in_runs: whether what moves are few long runs, or many of whole words, which XLA:GPU copies fast.
      in_bytes: see `carry_bits`.
      others: the same move of the whole on one device, by the names of forms that fit its sizes; they change no bit.
    """
    form = forced_form()

    def options(where: Any, *data: Any) -> Callable[[int], Options]:
        made, *shapes = shapes_of(jax.eval_shape(move, where, *data), *data)  # x64 may be off again while it is lowered
        return partial(_options, move, words, in_runs, in_bytes, others or {}, made, shapes)

    def chosen(where: Any, *data: Any) -> jax.Array:
        return choose_form(options(where, *data), TABLE, form)(where, *data)

    if back is None and is_plain(options(where, *data), TABLE, form):
        return carry_bits(move, where, *data, in_bytes=in_bytes)
    return linear(move_on_each_device(chosen, known_shards()), back or transpose_of(move))(where, *data)


def _options(
    move: Move,
    words: InWords | None,
    in_runs: bool,
    in_bytes: bool,
    others: Mapping[str, Move],
    made: Any,
    data: Sequence[Any],
    devices: int,
) -> Options:
    forms: dict[str, Form] = {"plain": as_bits(move, in_bytes=in_bytes)}
    if is_key(made) or not known_bytes(made, *data):
        return forms, {"bytes": 0}
    count, dtype = lanes(made.dtype), made.dtype
    has_words = count > 1 and all(x.ndim and x.shape[-1] % (count * devices) == 0 for x in (made, *data))
    if words and has_words and (in_words := words(count)):
        forms["words"] = lambda where, *data: from_words(in_words(where, *map(to_words, data)), dtype)
    elif words_per_element(dtype) == 2:
        forms["words"] = partial(_in_halves, move)
    if joined := join_form(move, made, devices):
        forms["joined"] = joined
    if devices == 1:
        forms |= others
    return forms, {"itemsize": dtype.itemsize, "in_runs": in_runs, "bytes": known_bytes(made, *data)}


def _in_halves(move: Move, where: Any, *data: jax.Array) -> jax.Array:
    """The same move of each half of the elements: XLA:GPU moves 8 bytes at as little as half of the rate of 4."""
    halves = [lax.bitcast_convert_type(x, jnp.uint32) for x in data]
    moved = jax.vmap(lambda *halves: move(where, *halves), in_axes=-1, out_axes=-1)(*halves)
    return lax.bitcast_convert_type(moved, data[0].dtype)


def join_form(move: Move, made: Any, devices: int) -> Form | None:
    """The form for results like `made`; None where no elements make a word, or where devices would share one."""
    count, dtype = lanes(made.dtype), made.dtype
    in_rows = made.ndim > 0 and made.shape[-1] % (count * devices) == 0
    if count == 1 or not (in_rows or devices == 1):
        return None

    def joined(where: Any, *data: jax.Array) -> jax.Array:
        moved = move(where, *map(as_integers, data))
        return join_lanes(moved, dtype) if in_rows else join_all(moved, dtype)

    return joined


def per_word(numbers: Sequence[Any], count: int) -> tuple[Any, ...]:
    """Sizes or offsets with the last one in words of `count` elements."""
    return tuple(numbers) if count == 1 else (*numbers[:-1], numbers[-1] // count)
