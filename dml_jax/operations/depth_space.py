"""Depth to space and space to depth (pixel shuffle), as a split of dimensions, a transpose and a merge."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax

from .permute import Permutation, permute
from .programs.partition import known_shards, move_on_each_device
from .programs.primitive import Move, linear

# The dimensions of both sides, outermost first: c channel, h row of blocks, w column of blocks,
# y row inside a block, x column inside a block. The letters of one word are one dimension.
# DirectML's orders of the depth: in DCR the place inside a block comes first, in CRD the channel. With 3 channels and
# blocks of 2, channel 1 in row 0 and column 1 of a block is 1 * 3 + 1 = 4 in DCR, and 1 * 4 + 1 = 5 in CRD.
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
    depth is split into a channel and the row and column inside of a block, which are merged with the row and the
    column of the block.

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
        """The way back, which is also the transpose."""
        return replace(self, to="space" if self.to == "depth" else "depth")

    def permutation(self, shape: Sequence[int]) -> Permutation:
        """Returns the permutation of an operand of that shape, of three dimensions or more."""
        lead, letters = len(shape) - 3, "".join(self.source)
        words = zip(self.source, shape[lead:], strict=True)
        blocks = [tuple(self._size(letter, word, size) for letter in word) for word, size in words]
        order = (*range(lead), *(lead + letters.index(letter) for letter in "".join(self.target)))
        return Permutation((*((n,) for n in shape[:lead]), *blocks), order, (*[1] * lead, *map(len, self.target)))

    def _size(self, letter: str, word: str, size: int) -> int:
        """The size of a letter of a word; one letter of each word is no coordinate inside of a block."""
        return self.size if letter in "xy" else size // self.size ** (len(word) - 1)


def rearrange(input: jax.Array, blocks: Blocks) -> jax.Array:
    """Splits the last three dimensions of `input` and merges their parts, as `blocks` says."""
    shards = known_shards()
    if shards is None:
        return permute(input, blocks.permutation(input.shape))
    # Each device permutes its own shard, whose sizes are others: so the permutation is made of them, not of `input`.
    forward = move_on_each_device(_move(blocks), shards)
    back = move_on_each_device(_move(blocks.inverse), shards.inverse)
    return linear(forward, lambda _, cotangent, like: [back(None, cotangent)])(None, input)


def _move(blocks: Blocks) -> Move:
    """The move of one device's operand, whatever its shape."""
    return lambda _, input: permute(input, blocks.permutation(input.shape))
