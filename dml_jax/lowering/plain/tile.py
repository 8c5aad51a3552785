"""Copies of an array side by side along each dimension: broadcast, joined, or as words."""

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..cpu.unfused import in_branch
from ..forms import Choice, Form, Options, choose_form, forced_form, known_bytes, shapes_of
from ..partition import known_shards, move_on_each_device
from ..primitive import linear
from ..values.accumulation_types import narrow_apart, wide_type
from ..values.bits import as_bits, as_guarded_bits, is_key
from ..values.words import becomes_words, from_words, lanes, to_words
from .narrow import join_form

SHORT = range(32, 77)

__all__ = ["TABLE", "repeat_whole"]

_MANY = 2**62
PARTS = (4, 3, 2)  # of a concatenation that XLA:GPU writes in one thread
# On two cores of a Xeon, 32 MB, of an EPYC, 16 MB, and on an H200, 256 MB; bound outputs.
TABLE = (
    Choice(
        "cpu",
        "branched",
        {"itemsize": {1, 2}, "axes": range(2, _MANY), "row": range(SHORT.stop, _MANY)},
        "6 x plain and concatenated, which has a temporary",
    ),
    Choice(
        "cpu",
        "branched",
        {"itemsize": {4}, "row": range(SHORT.stop, _MANY)},
        "1.6-2.4 x plain; 1 x of 512 columns. Of 8 bytes 1.0-1.1 x",
    ),
    Choice(
        "cpu",
        "concatenated",
        {"itemsize": {1, 2}, "inner": {True}},
        "2-8 x plain along inner dimensions; 0.5 x along the first",
    ),
    Choice(
        "cuda",
        "fanned_out",
        {"parts": PARTS, "fills": {True}, "input_bytes": range(2**23, _MANY)},
        "8 copies of 32 MiB 0.87, 16 of 16 MiB 0.82, 3 of 85 MiB 0.81; plain, which reads each again, 0.58, 0.74, 0.69",
    ),
    Choice(
        "cuda",
        "words",
        {"itemsize": {1, 2, 8}, "fills_words": {True}},
        "0.75-0.95 of 1 and 2 bytes, 0.8-1.0 of 8; plain 0.27, 0.5 and 0.6",
    ),
    Choice("cuda", "joined", {"itemsize": {1, 2}}, "rows of 3 and 257: 1.1-1.5; plain 0.53 of 1 byte, 1.0 of 2"),
)

MOST = 32  # operands of a concatenation


def repeat_whole(input: jax.Array, repeats: Sequence[int]) -> jax.Array:
    """As jnp.tile does it; cotangents of narrow floats are added up in float32 and rounded once."""
    form = forced_form()

    def forward(_: None, input: jax.Array) -> jax.Array:
        made = jax.eval_shape(lambda input: jnp.tile(input, repeats), input)
        return choose_form(partial(_options, *shapes_of(input, made), repeats), TABLE, form)(None, input)

    def back(_: None, cotangent: jax.Array, like: Sequence[jax.Array]) -> Sequence[jax.Array]:
        apart = [n for pair in zip(repeats, like[0].shape, strict=True) for n in pair]
        wide = cotangent.astype(wide_type(cotangent.dtype)).reshape(apart)
        return [narrow_apart(wide.sum(range(0, len(apart), 2)), cotangent.dtype)]

    return linear(move_on_each_device(forward, known_shards()), back)(None, input)


def _options(input: Any, made: Any, repeats: Sequence[int], devices: int) -> Options:
    def move(_: None, input: jax.Array) -> jax.Array:
        return jnp.tile(input, repeats)

    forms: dict[str, Form] = {"plain": as_guarded_bits(move)}
    if is_key(input) or not known_bytes(input) or not repeats or 0 in repeats:
        return forms, {"bytes": 0}
    if devices == 1:
        forms["branched"] = as_bits(lambda _, input: _branched(input, repeats))
    forms["concatenated"] = as_guarded_bits(lambda _, input: _concatenated(input, repeats))
    fills_words = becomes_words(input.dtype) and input.shape[-1] % lanes(input.dtype) == 0
    if fills_words:
        forms["words"] = lambda _, input: from_words(jnp.tile(to_words(input), repeats), input.dtype)
    parts = _parts(input.shape, repeats)
    if parts and devices == 1:
        forms["fanned_out"] = as_bits(lambda _, input: _fan_out(input, repeats, parts, in_words=fills_words))
    if joined := join_form(move, made, devices):
        forms["joined"] = joined
    case = {
        "itemsize": input.dtype.itemsize,
        "fills_words": fills_words and input.shape[-1] % (lanes(input.dtype) * devices) == 0,
        "axes": sum(count > 1 for count in repeats),
        "inner": any(count > 1 and prod(input.shape[:d]) > 1 for d, count in enumerate(repeats)),
        "row": input.shape[-1] if repeats and repeats[-1] > 1 else 0,
        "parts": parts,
        "fills": fills_words or input.dtype.itemsize >= 4,
        "input_bytes": known_bytes(input),
        "bytes": known_bytes(input, made),
    }
    return forms, case


def _branched(x: jax.Array, repeats: Sequence[int]) -> jax.Array:
    """XLA:CPU divides each coordinate where it fuses the reshape of the copies with them."""
    apart = [n for pair in zip(repeats, x.shape, strict=True) for n in pair]
    copies = in_branch(lambda x: lax.broadcast_in_dim(x, apart, range(1, len(apart), 2)), x)
    return copies.reshape([count * n for count, n in zip(repeats, x.shape, strict=True)])


def _concatenated(x: jax.Array, repeats: Sequence[int]) -> jax.Array:
    """The last dimension first, so that few bytes move often; XLA:CPU copies whole runs."""
    for d in reversed(range(x.ndim)):
        x = _along(x, d, repeats[d])
    return x


def _parts(sizes: Sequence[int], repeats: Sequence[int]) -> int:
    """In how many parts a result of whole copies can be cut; 0 if it is not made of them."""
    which = next((d for d, count in enumerate(repeats) if count > 1), None)
    if which is None or prod(sizes[:which]) != 1:
        return 0
    return next((parts for parts in PARTS if repeats[which] % parts == 0), 0)


def _fan_out(x: jax.Array, repeats: Sequence[int], parts: int, *, in_words: bool) -> jax.Array:
    """Eight copies are four times two: a thread reads an element of those two and writes it to the four."""
    which = next(d for d, count in enumerate(repeats) if count > 1)
    fewer = [count // parts if d == which else count for d, count in enumerate(repeats)]
    # XLA would make one broadcast of what it knows to be the same, and stores one by one if a part has odd rows.
    same = lax.optimization_barrier((to_words(x) if in_words else x,) * parts)
    made = lax.concatenate([jnp.tile(one, fewer).reshape(-1) for one in same], 0)
    sizes = [n * count for n, count in zip(x.shape, repeats, strict=True)]
    return (from_words(made, x.dtype) if in_words else made).reshape(sizes)


def _along(x: jax.Array, axis: int, count: int) -> jax.Array:
    """70 copies, for example, are 2 of 32 and 6."""
    if count <= MOST:
        return lax.concatenate([x] * count, axis) if count > 1 else x
    whole, rest = divmod(count, MOST)
    many = _along(_along(x, axis, MOST), axis, whole)
    return lax.concatenate([many, _along(x, axis, rest)], axis) if rest else many
