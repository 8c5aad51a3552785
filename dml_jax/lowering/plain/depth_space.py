"""The forms of depth to space and back: one permutation of letters, plainly, on words, or in tiles."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import gcd, prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..cpu.halves import transpose_in_halves
from ..forms import Choice, Form, Options, choose_form, forced_form, is_plain, known_bytes, shapes_of
from ..gpu.isolated_transpose import transpose_apart
from ..gpu.ranges import permute_in_ranges
from ..gpu.stacks import LONGEST_STACK
from ..gpu.tiles import permute_in_tiles
from ..partition import known_shards, move_on_each_device
from ..primitive import linear
from ..values.bits import as_bits, carry_bits, fence, is_float, is_narrow
from ..values.words import as_integers, becomes_words, from_words, join_lanes, lanes, sum_lanes, to_words
from .blocks import Blocks, merge_letters, sizes_of, split_blocks

__all__ = ["TABLE", "rearrange"]

# On an H200, 300 MB, and on two cores of a Xeon, 16 MB, bound outputs: bandwidth as a part of a copy's in the same run,
# and that of the plain form.
_NCHW, _LAST = {"data_format": {"NCHW"}}, {"data_format": {"NHWC"}}
_DCR, _CRD = {**_LAST, "order": {"DCR"}}, {**_LAST, "order": {"CRD"}}
_BYTES_TO_DEPTH = {**_CRD, "to": {"depth"}, "itemsize": {1}}
_BYTES_TO_SPACE = {**_CRD, "to": {"space"}, "itemsize": {1}}
_MANY = 2**62
_NO_POWERS = {*range(3, 16)} - {4, 8}  # blocks
_TO_DEPTH = {**_NCHW, "to": {"depth"}}
_LINES = {"aligned": {64, 128}}  # the greatest power of two up to 128 that divides the bytes of a row of w
_DIVIDED = {"devices": range(2, _MANY)}
_FROM_11, _FROM_12 = ({"jaxlib": range(minor, _MANY)} for minor in (11, 12))
_WHOLE = {"devices": {1}}  # not where a dimension may be sharded that the form merges with another
TABLE = (
    Choice("cuda", "words", {**_DCR, "itemsize": {1, 2, 8}}, "0.90-1.0; plain 0.40 of 1 byte, 0.77 of 2, 0.84 of 8"),
    # Rows of blocks, of three channels and others that fill no words: bytes move in pairs where rows are even.
    Choice(
        "cuda",
        "summed",
        {**_LAST, "itemsize": {1}, "run_aligned": {2, 4}},
        "0.71-1.2; plain 0.15-0.97, apart 0.39-1.0",
    ),
    Choice(
        "cuda",
        "summed",
        {**_DCR, "itemsize": {1}, "block_size": {3, 5, 9}},
        "0.40-0.78; plain 0.20-0.46, apart 0.40-0.65. Of b=7 0.34-0.72, of b=11 0.36, about as plain",
    ),
    Choice(
        "cuda",
        "tiles",
        {**_NCHW, "to": {"space"}, "itemsize": {1}, "block_size": {2, 4, 8}},
        "0.87-0.99; plain 0.40",
    ),
    Choice("cuda", "element_tiles", {**_NCHW, "to": {"space"}, "itemsize": {1}, "block_size": {3}}, "0.86; plain 0.42"),
    Choice(
        "cuda",
        "tiles",
        {**_NCHW, **_LINES, "to": {"space"}, "itemsize": {2}, "block_size": {2}},
        "1.16-1.23 times as fast as plain. Of other rows 1.05 times",
    ),
    Choice(
        "cuda",
        "element_tiles",
        {**_NCHW, "to": {"space"}, "itemsize": {2}, "block_size": {3, 4, 8}},
        "0.90-1.0; plain 0.81",
    ),
    Choice(
        "cuda",
        "element_tiles",
        {**_NCHW, "to": {"depth"}, "order": {"DCR"}, "itemsize": {2, 4}, "block_size": {4}},
        "0.92 of 2 bytes, 0.97 of 4; tiles 0.87, plain 0.64 and 0.49",
    ),
    Choice(
        "cuda",
        "tiles",
        {**_NCHW, "to": {"depth"}, "itemsize": {1, 2, 4}, "block_size": {2, 3, 4}, **_WHOLE},
        "0.79-0.99; plain 0.40 of 1 byte, 0.56-0.78 of 2, 0.47-0.82 of 4",
    ),
    Choice(
        "cuda",
        "element_tiles",
        {**_NCHW, "to": {"depth"}, "itemsize": {1, 2, 4}, "block_size": {2, 3, 4}},
        "0.76-1.0, and dimensions that may be sharded stay apart",
    ),
    Choice(
        "cuda",
        "element_tiles",
        {**_NCHW, "to": {"depth"}, "itemsize": {8}, "block_size": {2, 3, 4}},
        "0.98-1.0; plain 0.41-0.67",
    ),
    # Larger blocks. Where rows of w are no multiple of 64 bytes, XLA:GPU finds tiles for a transpose that is split.
    Choice(
        "cuda",
        "tiles",
        {**_TO_DEPTH, **_WHOLE, "itemsize": {1, 2, 4}, "block_size": {6}},
        "0.75-0.95; plain 0.38-0.57 of 1 byte, 0.55-0.69 of 2, 0.39-0.59 of 4",
    ),
    Choice(
        "cuda",
        "tiles",
        {**_TO_DEPTH, **_WHOLE, **_LINES, "itemsize": {1, 2, 4, 8}, "block_size": {8}},
        "0.80-0.92 of 1 and 2 bytes, 0.84-1.0 of more; plain 0.40-0.46, and 0.86-0.97 of other rows",
    ),
    Choice(
        "cuda",
        "rows_first",
        {**_TO_DEPTH, **_WHOLE, "aligned": {128}, "itemsize": {4}, "block_size": {10}, "behind_x": range(768, _MANY)},
        "0.80-0.86; tiles 0.67-0.74, plain 0.28. Of rows of 64 bytes 0.26-0.63, tiles 0.73-0.86",
    ),
    Choice(
        "cuda",
        "rows_first",
        {**_TO_DEPTH, **_WHOLE, **_LINES, "itemsize": {4}, "block_size": {11, 13}, "behind_x": range(768, _MANY)},
        "0.81-1.0, and 0.63-0.69 of rows of 64 bytes; split 0.50-0.74, plain 0.28",
    ),
    Choice(
        "cuda",
        "rows_first",
        {**_TO_DEPTH, **_WHOLE, **_LINES, "itemsize": {4, 8}, "block_size": {14}, "behind_x": range(768, _MANY)},
        "0.85-1.0; split 0.66, plain 0.25-0.50. Of 256 elements behind x 0.50, of rows of 37 0.42-0.69",
    ),
    Choice(
        "cuda",
        "tiles",
        {**_TO_DEPTH, **_WHOLE, **_LINES, "itemsize": {2}, "block_size": {9, 12}},
        "0.72-0.82; split 0.45-0.63, plain 0.26",
    ),
    Choice(
        "cuda",
        "tiles",
        {**_TO_DEPTH, **_WHOLE, **_LINES, "itemsize": {4}, "block_size": {9, 10, 12}},
        "0.73-0.91; split 0.42-0.64, plain 0.28",
    ),
    Choice(
        "cuda",
        "ranges",
        {**_TO_DEPTH, **_WHOLE, "aligned": {4, 8, 16, 32, 64, 128}, "itemsize": {1}, "block_size": {5, 9}},
        "0.50-0.84; split 0.42-0.64, plain 0.38-0.70. Of other rows 0.27",
    ),
    Choice(
        "cuda",
        "ranges",
        {**_TO_DEPTH, **_WHOLE, **_LINES, "itemsize": {1, 2}, "block_size": {7, 10, 11}},
        "0.67-0.92 of b=7, 0.58-0.73 of b=10, 0.60-0.70 of b=11; split 0.42-0.59, plain 0.30-0.51",
    ),
    Choice(
        "cuda",
        "ranges",
        {**_TO_DEPTH, **_WHOLE, **_LINES, "itemsize": {4}, "block_size": {5, 7}},
        "0.60-0.87; split 0.34-0.64, plain 0.32-0.64",
    ),
    Choice(
        "cuda",
        "split",
        {**_TO_DEPTH, "itemsize": {1, 2}, "block_size": {*range(6, 32)} - {8, 16}},
        "0.39-0.89 of 1 byte, 0.52-0.95 of 2; plain 0.14-0.74. The same for b=16 and b=32, 0.62-1.0; of b=5 0.82-1.16"
        " times as fast as plain",
    ),
    Choice(
        "cuda",
        "split",
        {**_TO_DEPTH, "itemsize": {4}, "block_size": {5, 7, *range(9, 16), 20}},
        "0.70-0.98 of rows that are no multiple of 64 bytes, 0.34-0.74 of others; plain 0.24-0.64",
    ),
    Choice(
        "cuda",
        "split",
        {**_TO_DEPTH, "itemsize": {8}, "block_size": {12, 14}},
        "1.4-1.9 times as fast as plain. Of b=5 as fast as plain; of b=20 0.64, plain 0.81",
    ),
    # From b * w = 8192 on with b = 8 and more, XLA transposes x and w on its own, and stores that.
    Choice(
        "cuda",
        "summed",
        {
            **_NCHW,
            **_LINES,
            "to": {"space"},
            "itemsize": {1},
            "block_size": {5, 6, 7, 9, 10, 12},
            "row_bytes": range(769),
        },
        "0.57-0.92; plain 0.35-0.68. On an H100 0.72-0.91; plain 0.55-0.70, joined 0.68-0.84 or 0.21-0.23 by the sizes."
        " Of rows of 100 bytes about as fast as plain; of b=16 and more 0.21",
    ),
    Choice(
        "cuda",
        "summed",
        {**_NCHW, "to": {"space"}, "itemsize": {1}, "block_size": {2}, "aligned": {2}, "row_bytes": range(23)},
        "0.75-1.0; plain 0.40-0.94. Of rows of 30 and 50 bytes as fast as plain",
    ),
    Choice(
        "cuda",
        "double_words",
        {**_CRD, **_WHOLE, "to": {"space"}, "itemsize": {1, 2}, "block_size": {2}},
        "0.90-0.98 of 1 byte, 0.84-0.94 of 2; tiles 0.75, plain 0.40 and 0.76",
    ),
    Choice(
        "cuda", "tiles", {**_CRD, **_WHOLE, "to": {"space"}, "itemsize": {1}, "block_size": {2}}, "0.75; plain 0.40"
    ),
    Choice(
        "cuda",
        "summed",
        {**_BYTES_TO_SPACE, "block_size": {3}, "channels": {3, 4, 5}},
        "0.58-0.86; element_tiles 0.73, plain 0.31-0.54. Of odd widths 0.39-0.49; apart 0.26-0.57",
    ),
    Choice(
        "cuda",
        "summed",
        {**_BYTES_TO_SPACE, "block_size": {2, 5}, "channels": {3}},
        "0.78-0.89 of b=2, 0.57 of b=5; plain 0.43-0.71. Of odd widths 0.37-0.45; plain 0.43",
    ),
    Choice(
        "cuda",
        "element_tiles",
        {**_CRD, "to": {"space"}, "itemsize": {1, 2, 4}, "block_size": {3}},
        "0.61-0.85 of 1 byte, 0.86-0.89 of 2, 0.83-0.93 of 4; plain 0.45, 0.75 and 0.47-0.69",
    ),
    Choice(
        "cuda",
        "element_tiles",
        {**_CRD, "to": {"space"}, "itemsize": {1, 2}, "block_size": {4}, "channels": range(33)},
        "0.77-0.79 of 1 byte, 0.83-0.90 of 2; plain 0.41 and 0.74, and of 64 channels 0.77 of both",
    ),
    Choice(
        "cuda",
        "element_tiles",
        {**_CRD, "to": {"space"}, "itemsize": {4}, "block_size": {4}, "channels": range(17)},
        "0.92-0.97; plain 0.60-0.80",
    ),
    Choice(
        "cuda",
        "apart",
        {**_CRD, **_WHOLE, "to": {"space"}, "itemsize": {1}, "block_size": _NO_POWERS - {5}},
        "0.49-0.82 of 16 channels, 0.56-0.74 of 50, 0.40-0.54 of 3; plain 0.24-0.45. Of powers of two 0.42-0.83, plain"
        " 0.41-0.87; of b=5 1.2 times as fast as plain",
    ),
    Choice(
        "cuda",
        "tiles",
        {**_CRD, **_WHOLE, "to": {"depth"}, "itemsize": {1, 2}, "block_size": {2}},
        "0.97-1.0; plain 0.42 of 1 byte, 0.82 of 2",
    ),
    Choice(
        "cuda",
        "summed",
        {**_BYTES_TO_DEPTH, "block_size": {2, 3, 4}},
        "0.74-0.98 of b=2 and b=4, 0.50-1.0 of b=3; apart 0.38-0.62 of b=3, plain 0.22-0.88. Of 222 and 639 pixels of"
        " one and three channels 0.37-0.51; apart 0.38-0.57",
    ),
    Choice(
        "cuda",
        "summed",
        {**_BYTES_TO_DEPTH, "block_size": {5}},
        "0.35-0.76; apart 0.28-0.58",
    ),
    Choice(
        "cuda",
        "summed",
        {**_BYTES_TO_DEPTH, "block_size": {6}, "channels": range(2, 7)},
        "0.57-0.80; apart 0.43-0.71. Of 12 and 16 channels as fast as apart, of 32 0.57; apart 0.73",
    ),
    Choice(
        "cuda",
        "summed",
        {**_BYTES_TO_DEPTH, "block_size": {7, 9}, "channels": {4, 8, 12, 16}},
        "0.41-0.71; plain 0.25-0.65. Of 3, 5 and 6 channels as fast as plain",
    ),
    Choice(
        "cuda",
        "summed",
        {**_BYTES_TO_DEPTH, "block_size": {8}, "channels": {4, 8}},
        "0.71-0.82; plain 0.43-0.48. Of others 0.7-0.85; plain 0.65-1.0",
    ),
    Choice(
        "cuda",
        "summed",
        {**_BYTES_TO_DEPTH, "block_size": {10}, "channels": {3, 5}},
        "0.56-0.63; apart 0.46-0.49. Of others 0.19-0.66; apart 0.5-0.78",
    ),
    Choice(
        "cuda",
        "joined",
        {**_LAST, "to": {"depth"}, "itemsize": {2}, "block_size": {2, 4}, "channels": {1}},
        "0.86-0.93; plain 0.49-0.75. Of 3 channels 0.20-0.93, by the width",
    ),
    Choice("cuda", "tiles", {**_CRD, **_WHOLE, "to": {"space"}, "itemsize": {8}, "block_size": {2}}, "1.0; plain 0.63"),
    Choice(
        "cuda",
        "tiles",
        {**_CRD, **_WHOLE, "to": {"depth"}, "itemsize": {2}, "block_size": {4}},
        "0.94-0.99; plain 0.80, and 0.98 of 200 channels",
    ),
    # On two cores of a Xeon, 16 MB, jaxlib 0.10, with AVX-512; and with AVX2, where XLA:CPU vectorises more of plain.
    Choice(
        "cpu",
        "halved",
        {**_NCHW, "to": {"space"}, "itemsize": {1, 2}},
        "of two channels and more 0.6-2.4; plain 0.1-0.8. With AVX2 0.5-1.9; plain 0.1-0.5, and 0.6-1.3 of b = 2, 4, 7,"
        " 8, 14 and 16",
    ),
    Choice(
        "cpu",
        "halved",
        {**_NCHW, "to": {"space"}, "itemsize": {4, 8}, "block_size": _NO_POWERS},
        "0.6-1.3; plain 0.3-0.7 of 4 bytes, 0.4-0.9 of 8. Others 1.0-1.5 times as fast as plain, with AVX2 0.6-1.0",
    ),
    Choice(
        "cpu",
        "halved",
        {**_LAST, "to": {"space"}, "itemsize": {1, 2}, "channels": range(2, 9)},
        "0.4-2.3; plain 0.2-1.0. With AVX2 0.4-1.9; plain 0.1-1.4. Of 4 bytes, and of 16 channels in CRD, as plain",
    ),
    Choice(
        "cpu",
        "joined",
        {**_DCR, **_FROM_12, "to": {"space"}, "itemsize": {1, 2}},
        "of 16 channels and more 1.2-3.0; halved 1.1-2.4, plain 0.4-0.7. With jaxlib 0.10 and 0.11 0.85-1.1 x plain",
    ),
    Choice(
        "cpu",
        "joined",
        {**_DCR, "to": {"depth"}, "itemsize": {1}, "block_size": {2}, "channels": range(16, _MANY)},
        "0.6-2.0; halved 0.6-1.7, plain 0.12-0.25. With jaxlib 0.12 2.1-2.9; halved 1.2-2.4, plain 0.8",
    ),
    Choice(
        "cpu",
        "halved",
        {**_LAST, "to": {"depth"}, "itemsize": {1, 2, 4, 8}, "row": range(14, _MANY)},
        "0.4-1.9 of 1 byte, 0.5-1.7 of 2, 0.5-1.9 of 4, 0.7-1.8 of 8; plain 0.1-0.5, 0.2-0.5, 0.3-0.8 and 0.4-1.3. With"
        " AVX2 0.3-2.8; plain 0.1-3.3: 0.35-1.1 times as fast where it vectorises, 2-10 times of b = 5 and 14 in CRD",
    ),
    Choice(
        "cpu",
        "halved",
        {**_LAST, "to": {"depth"}, "block_size": {*range(8, 14)}, "channels": {1}},
        "0.7-1.0; plain 0.1-0.5. Of b = 2 to 5 with rows of fewer than 14 elements 0.3-1.4; plain 0.5-1.5",
    ),
    # On the same Xeon with jaxlib 0.11 and 0.12, which compile more of what is concatenated to loops over vectors.
    Choice(
        "cpu",
        "halved",
        {**_NCHW, **_FROM_11, "to": {"space"}, "itemsize": {4, 8}},
        "of b = 2 and 4 0.8-2.2 of 4 bytes; plain 0.6-2.0, 1.2 times as fast in the mean",
    ),
    Choice(
        "cpu",
        "halved",
        {**_LAST, **_FROM_11, "to": {"space"}, "itemsize": {4, 8}, "channels": range(2, 9)},
        "of 4 bytes 0.7-2.4; plain 0.2-1.4",
    ),
    Choice(
        "cpu",
        "halved",
        {**_DCR, **_FROM_11, "to": {"space"}, "itemsize": {4, 8}, "channels": range(9, 33)},
        "of 16 channels and 4 bytes 0.9-1.6; plain 0.6-1.2. Of 64 channels 0.8-1.4 times as fast as plain",
    ),
    Choice(
        "cpu",
        "halved",
        {**_CRD, **_FROM_11, "to": {"space"}, "block_size": _NO_POWERS},
        "0.4-2.1 of 1 byte, 0.6-1.6 of 4; plain 0.2-0.6 and 0.4-0.7. Of b = 2 and 4 0.3-2.3 times as fast as plain",
    ),
    Choice(
        "cpu",
        "halved",
        {**_TO_DEPTH, **_FROM_11, "itemsize": {1, 2}},
        "of 1 byte 0.5-3.2; plain 0.3-1.2",
    ),
    *(
        Choice(
            "cpu",
            "halved",
            {**_TO_DEPTH, **_FROM_11, **where},
            "of 4 bytes 0.5-1.3; plain 0.2-1.0. Of CRD with b = 2 and 4 0.7-1.6 times as fast as plain",
        )
        for where in ({"order": {"DCR"}}, {"block_size": _NO_POWERS})
    ),
    *(
        Choice(
            "cpu",
            "halved",
            {**_LAST, **_FROM_11, "to": {"depth"}, **where},
            "on the EPYC 2-26 times as fast as plain, and 0.9-3.1 times of CRD with b = 2 and 4. Of other types there"
            " 0.3-2.1, and of rows of 4 and 8 elements 0.5-2.9",
        )
        for where in (
            {"block_size": _NO_POWERS},
            {"order": {"DCR"}, "row": {3, 5, 6, 7, 9, 10, 11, 12, 13}},
            {**_FROM_12, "order": {"CRD"}, "itemsize": {1}},
        )
    ),
    # Where a program has several devices, nothing is halved. On two cores of an EPYC.
    Choice(
        "cpu",
        "joined",
        {**_DCR, **_DIVIDED, "to": {"space"}, "itemsize": {1, 2}},
        "0.49-0.89 of 1 byte, 0.55-0.89 of 2; plain 0.26-0.53 and 0.34-0.59",
    ),
    Choice(
        "cpu",
        "joined",
        {**_DCR, **_DIVIDED, "to": {"depth"}, "itemsize": {1}, "channels": range(16, _MANY)},
        "0.49-0.89; plain 0.10-0.14. Of 3 channels 0.05-0.09 times as fast as plain",
    ),
    Choice(
        "cpu",
        "joined",
        {**_DCR, **_DIVIDED, "to": {"depth"}, "itemsize": {2}, "block_size": {2, 4, 8}},
        "0.62-0.94; plain 0.20-0.23. Not for b=3: 0.22, plain 0.28",
    ),
    Choice(
        "cpu",
        "joined",
        {**_NCHW, **_DIVIDED, "to": {"space"}, "itemsize": {2}, "block_size": {2, 8}},
        "0.62-0.98; plain 0.20-0.71",
    ),
    Choice(
        "cpu",
        "joined",
        {**_CRD, **_DIVIDED, "to": {"depth"}, "itemsize": {2}, "block_size": {4, 8}, "channels": range(16, _MANY)},
        "0.40-0.73; plain 0.20. Of 3 and 12 channels 0.83-0.88 times as fast as plain",
    ),
)

# Elements that are unrolled; larger tiles take too long to compile.
LARGEST_TILE = 64


def rearrange(input: jax.Array, blocks: Blocks) -> jax.Array:
    """Splits the last three dimensions of `input` and merges their parts, as `blocks` says."""
    form = forced_form()
    if is_plain(partial(_options, *shapes_of(input), blocks), TABLE, form):
        plain = partial(_plain, blocks=blocks)
        is_bfloat16 = input.dtype == jnp.bfloat16
        return carry_bits(fence(lambda _, input: plain(input)), None, input) if is_bfloat16 else plain(input)
    shards = known_shards()
    forward = move_on_each_device(_form(blocks, form), shards)
    back = move_on_each_device(_form(blocks.inverse, form), shards and shards.inverse)
    return linear(forward, lambda _, cotangent, like: [back(None, cotangent)])(None, input)


def _form(blocks: Blocks, forced: str | None) -> Form:
    def form(_: None, input: jax.Array) -> jax.Array:
        return choose_form(partial(_options, *shapes_of(input), blocks), TABLE, forced)(None, input)

    return form


def _options(input: jax.Array, blocks: Blocks, devices: int) -> Options:
    plain, split = partial(_plain, blocks=blocks), partial(_plain, blocks=blocks, transpose=_transpose_behind_barrier)
    forms: dict[str, Form] = {"plain": _keep_bits(plain, input.dtype), "split": _keep_bits(split, input.dtype)}
    count = lanes(input.dtype)
    if not known_bytes(input) or (count == 1 and input.dtype.itemsize < 4):
        return forms, {"bytes": 0}
    sizes, in_words = sizes_of(input, blocks), count * devices  # however a dimension is sharded, no word is torn
    if devices == 1:
        forms |= _of_one_device(input, blocks, sizes)
    if count > 1 and prod(sizes[letter] for letter in blocks.target[2]) % in_words == 0:
        forms["joined"] = lambda _, input: join_lanes(plain(as_integers(input)), input.dtype)
    if sizes["c" if blocks.data_format == "NHWC" else "w"] % in_words == 0:
        forms |= _of_whole_words(input, blocks, sizes, in_words)
    return forms, _case(input, blocks, sizes, devices)


def _case(input: jax.Array, blocks: Blocks, sizes: Mapping[str, int], devices: int) -> Mapping[str, Any]:
    itemsize = input.dtype.itemsize
    return {
        "to": blocks.to,
        "data_format": blocks.data_format,
        "order": "DCR" if (blocks.data_format, sizes["c"]) == ("NHWC", 1) else blocks.order,  # then both are one
        "block_size": blocks.size,
        "itemsize": itemsize,
        "aligned": gcd(sizes["w"] * itemsize, 128),
        "channels": sizes["c"],
        "row": blocks.size * sizes["c"],
        "row_bytes": sizes["w"] * itemsize,
        "behind_x": prod(sizes[letter] for letter in "".join(blocks.target).partition("x")[2]),
        "bytes": 2 * known_bytes(input),
        "run_aligned": gcd(_run(sizes, blocks) * itemsize, 4),
        "devices": devices,
    }


def _of_one_device(input: jax.Array, blocks: Blocks, sizes: Mapping[str, int]) -> dict[str, Form]:
    """Forms that merge dimensions, or cut them, which no mesh may share."""
    forms: dict[str, Form] = {}
    count = lanes(input.dtype)
    if sizes[blocks.target[0][0]] > 1:
        in_halves = partial(transpose_in_halves, axis=input.ndim - 3)
        forms["halved"] = as_bits(lambda _, input: _plain(input, blocks, transpose=in_halves), is_float)
    if blocks.to == "depth" and blocks.data_format == "NCHW":
        forms["rows_first"] = lambda _, input: _rows_first(input, blocks)
        forms["ranges"] = as_bits(lambda _, input: _in_ranges(input, blocks), is_narrow)
    if count > 1:
        forms["apart"] = as_bits(lambda _, input: _plain(input, blocks, transpose=transpose_apart), is_float)
    if count > 1 and input.size % count == 0:
        forms["summed"] = lambda _, input: _summed(input, blocks)
    return forms


def _of_whole_words(input: jax.Array, blocks: Blocks, sizes: Mapping[str, int], in_words: int) -> dict[str, Form]:
    """Words, where channels or rows of blocks fill them, and tiles of these."""
    count, is_last = lanes(input.dtype), blocks.data_format == "NHWC"
    if is_last and blocks.order == "DCR":
        move = partial(_plain, blocks=blocks)
        in_place: Form = lambda _, input: from_words(move(to_words(input)), input.dtype)  # noqa: E731
        return {"words": in_place} if becomes_words(input.dtype) else {}
    lane, tile = ("c", "yxl") if is_last else ("w", "xl")
    if blocks.to == "depth" and blocks.size > count and blocks.size % count == 0:
        tile = "xl"  # the row of a block fills words
    if blocks.size ** (len(tile) - 1) * count > LARGEST_TILE:
        return {}
    in_tiles = partial(_in_tiles, blocks=blocks, lane=lane, tile=tile)
    forms: dict[str, Form] = {"element_tiles": lambda _, input: in_tiles(input, read_words=False)}
    if blocks.to == "space" and is_last and count > 1 and sizes[lane] % (2 * in_words) == 0:
        forms["double_words"] = lambda _, input: _in_double_words(input, blocks, lane, tile)
    if (blocks.size, count) != (3, 4):  # XLA:GPU of jaxlib 0.11.2 gets words of bytes of three words wrong
        forms["tiles"] = lambda _, input: in_tiles(input, read_words=True)
    return forms


def _keep_bits(move: Callable[[jax.Array], jax.Array], dtype: Any) -> Form:
    keep: Form = lambda _, input: move(input)  # noqa: E731
    return as_bits(fence(keep)) if dtype == jnp.bfloat16 else keep


def _plain(input: jax.Array, blocks: Blocks, *, transpose: Callable[..., jax.Array] = jnp.transpose) -> jax.Array:
    """One dimension at a time: JAX follows an explicit sharding through such reshapes, and to XLA they are one."""
    lead, letters = input.ndim - 3, "".join(blocks.source)
    order = [lead + letters.index(letter) for letter in "".join(blocks.target)]
    return merge_letters(transpose(split_blocks(input, blocks), (*range(lead), *order)), blocks.target)


def _transpose_behind_barrier(array: jax.Array, axes: Sequence[int]) -> jax.Array:
    """XLA:GPU finds no tiles for a transpose where it fuses the split of dimensions with it."""
    return jnp.transpose(lax.optimization_barrier(array), axes)


def _in_tiles(
    input: jax.Array, blocks: Blocks, lane: str, tile: str, *, read_words: bool, write_double: bool = False
) -> jax.Array:
    """With the dimension `lane` in words, whose elements are "l", and x in parts "X" where it is too long a stack."""
    split, block_size = split_blocks(input, blocks), blocks.size
    sides: Sequence[Sequence[str]] = (blocks.source, blocks.target)
    splits, chosen = {lane: (lane + "l", lanes(input.dtype) * (2 if write_double else 1))}, ""
    stacked = max(n for n in range(1, LONGEST_STACK + 1) if block_size % n == 0)
    if blocks.target[-1] == "w" and block_size > LONGEST_STACK and stacked > 1:
        splits["x"], tile, chosen = ("Xx", stacked), tile + "X", "X"
    for letter, (letters, inner) in splits.items():
        at = input.ndim - 3 + "".join(sides[0]).index(letter)
        split = split.reshape(*split.shape[:at], split.shape[at] // inner, inner, *split.shape[at + 1 :])
        sides = tuple([word.replace(letter, letters) for word in side] for side in sides)
    before, after = ("".join(side) for side in sides)
    moved = permute_in_tiles(split, before, after, tile, chosen, read_words=read_words, write_double=write_double)
    return merge_letters(moved, sides[1])


def _in_double_words(input: jax.Array, blocks: Blocks, lane: str, tile: str) -> jax.Array:
    with jax.enable_x64(True):
        return _in_tiles(input, blocks, lane, tile, read_words=True, write_double=True)


def _rows_first(input: jax.Array, blocks: Blocks) -> jax.Array:
    """Whole rows of pixels move before their pixels: XLA:GPU tiles the second transpose and fuses the first.

    DCR moves (c, h, y, row) to (y, c, h, row), and then (w, x) of all rows behind a y to (x, w).
    """
    lead, size = input.ndim - 3, blocks.size
    *outer, channels, height, width = input.shape
    first = "ychW" if blocks.order == "DCR" else "cyhW"
    rows = input.reshape(*outer, channels, height // size, size, width)
    rows = jnp.transpose(rows, (*range(lead), *(lead + "chyW".index(letter) for letter in first)))
    before = rows.shape[: lead + 1 + first.index("y")]
    behind = rows.shape[len(before) : -1]
    columns = rows.reshape(prod(before), prod(behind) * (width // size), size).swapaxes(1, 2)
    return merge_letters(columns.reshape(*before, size, *behind, width // size), blocks.target)


def _run(sizes: Mapping[str, int], blocks: Blocks) -> int:
    """How many elements stay neighbours: rows of blocks, of one channel in both orders."""
    has_rows = blocks.data_format == "NHWC" and (blocks.order == "DCR" or sizes["c"] == 1)
    return blocks.size * sizes["c"] if has_rows else 1


def _summed(input: jax.Array, blocks: Blocks) -> jax.Array:
    """Bytes that stay neighbours move in pairs: DCR of NHWC swaps the y and w of (h, y, w, row of a block)."""
    sizes, integers = sizes_of(input, blocks), as_integers(input)
    run = _run(sizes, blocks)
    if input.dtype.itemsize > 1 or run % 2:
        return sum_lanes(_plain(integers, blocks), input.dtype)
    places = [sizes[letter] for letter in ("yw" if blocks.to == "depth" else "wy")]
    pairs = integers.reshape(*input.shape[:-3], sizes["h"], *places, run // 2, 2)
    moved = sum_lanes(lax.bitcast_convert_type(pairs, jnp.uint16).swapaxes(-3, -2), input.dtype)
    return moved.reshape(*input.shape[:-3], *(prod(sizes[letter] for letter in word) for word in blocks.target))


def _in_ranges(input: jax.Array, blocks: Blocks) -> jax.Array:
    return merge_letters(
        permute_in_ranges(split_blocks(input, blocks), "".join(blocks.source), "".join(blocks.target), "x"),
        blocks.target,
    )
