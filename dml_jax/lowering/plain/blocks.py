"""Blocks that move between the depth and the space of pictures: which letters the dimensions of both sides have."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import jax

__all__ = ["Blocks", "merge_letters", "sizes_of", "split_blocks"]

# The dimensions of both sides, outermost first: c channel, h row of blocks, w column of blocks,
# y row inside a block, x column inside a block. The letters of one word are one dimension.
_DEPTH_SIDE = {
    ("NCHW", "DCR"): ("yxc", "h", "w"),
    ("NCHW", "CRD"): ("cyx", "h", "w"),
    ("NHWC", "DCR"): ("h", "w", "yxc"),
    ("NHWC", "CRD"): ("h", "w", "cyx"),
}
_SPACE_SIDE = {"NCHW": ("c", "hy", "wx"), "NHWC": ("hy", "wx", "c")}


@dataclass(frozen=True)
class Blocks:
    """Which blocks move: a permutation of the letters of the last three dimensions.

    With to="space", order="CRD" and data_format="NCHW", the words ("cyx", "h", "w") become ("c", "hy", "wx"): the
    depth is split into a channel and the row and column inside of its block, and these join those of the blocks.

    Args:
      to: "space" or "depth".
      order: of the depth, "DCR" or "CRD".
      data_format: "NCHW" or "NHWC".
      size: height and width of a block.
    """

    to: str
    order: str
    data_format: str
    size: int

    @property
    def source(self) -> tuple[str, str, str]:
        """A word per dimension that is split."""
        return _SPACE_SIDE[self.data_format] if self.to == "depth" else _DEPTH_SIDE[self.data_format, self.order]

    @property
    def target(self) -> tuple[str, str, str]:
        """A word per dimension that is merged."""
        return self.inverse.source

    @property
    def inverse(self) -> "Blocks":
        """The way back, which is the transpose too."""
        return replace(self, to="space" if self.to == "depth" else "depth")


def sizes_of(input: jax.Array, blocks: Blocks) -> dict[str, int]:
    """Returns the size of each letter."""
    sizes = {"x": blocks.size, "y": blocks.size}
    for size, word in zip(input.shape[-3:], blocks.source, strict=True):
        free = next(letter for letter in word if letter not in "xy")
        sizes[free] = size // blocks.size ** (len(word) - 1)
    return sizes


def split_blocks(input: jax.Array, blocks: Blocks) -> jax.Array:
    """Returns `input` with a dimension per letter of `blocks.source` instead of its last three."""
    lead, sizes = input.ndim - 3, sizes_of(input, blocks)
    for i in reversed(range(3)):
        letters = [sizes[letter] for letter in blocks.source[i]]
        input = input.reshape(*input.shape[: lead + i], *letters, *input.shape[lead + i + 1 :])
    return input


def merge_letters(array: jax.Array, words: Sequence[str]) -> jax.Array:
    """Returns `array`, whose last dimensions are the letters of `words`, with a dimension per word."""
    lead = array.ndim - sum(map(len, words))
    for i, word in enumerate(words):
        shape = array.shape
        array = array.reshape(
            *shape[: lead + i], prod(shape[lead + i : lead + i + len(word)]), *shape[lead + i + len(word) :]
        )
    return array
