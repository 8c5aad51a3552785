"""Permutations of dimensions: depth to space, space to depth, and views that read each element of a buffer once.

All of them split dimensions, permute the parts, and merge parts that lie side by side then.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .programs.primitive import Move
from .programs.variant_selection import choose, known_bytes, shapes_of
from .values.bit_exact import as_bits, fence, is_key
from .values.packed_words import lanes


@dataclass(frozen=True)
class Permutation:
    """A split, a transpose and a merge of dimensions.

    Depth to space of (n, 4 * c, h, w) in blocks of 2 has source ((n,), (2, 2, c), (h,), (w,)), order (0, 3, 4, 1, 5, 2)
    and target (1, 1, 2, 2): of the parts (n, c, h, 2, w, 2) the last four are merged to (h * 2, w * 2).

    Args:
      source: for each dimension of the operand, the sizes of its parts.
      order: the parts as the result has them, each by its index in the operand.
      target: for each dimension of the result, how many parts it merges; of none it has size 1.
    """

    source: tuple[tuple[Any, ...], ...]
    order: tuple[int, ...]
    target: tuple[int, ...]

    @cached_property
    def parts(self) -> tuple[Any, ...]:
        """The sizes of all parts of the operand."""
        return tuple(size for sizes in self.source for size in sizes)

    @cached_property
    def merged(self) -> tuple[tuple[Any, ...], ...]:
        """For each dimension of the result, the sizes of its parts."""
        sizes = iter(self.parts[d] for d in self.order)
        return tuple(tuple(next(sizes) for _ in range(count)) for count in self.target)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape of the result."""
        return tuple(prod(sizes) for sizes in self.merged)

    @property
    def inverse(self) -> "Permutation":
        """The way back, which is also the transpose."""
        places = tuple(self.order.index(d) for d in range(len(self.order)))
        return Permutation(self.merged, places, tuple(map(len, self.source)))

    @cached_property
    def flat(self) -> "Permutation":
        """This permutation from the flat operand to the flat result, with as few parts as possible.

        Sizes of 1 are gone, and neighbours that stay neighbours are one: NHWC to NCHW moves (n, h * w, c).
        """
        stored = [d for d, size in enumerate(self.parts) if size != 1]
        runs: list[list[int]] = []
        for d in (stored.index(d) for d in self.order if self.parts[d] != 1):
            if runs and runs[-1][-1] + 1 == d:
                runs[-1].append(d)
            else:
                runs.append([d])
        sizes = tuple(prod(self.parts[stored[d]] for d in run) for run in sorted(runs))
        return Permutation((sizes,), tuple(sorted(runs).index(run) for run in runs), (len(runs),))

    def in_words(self, count: int) -> "Permutation | None":
        """Returns it in words of `count` elements; None if some word is not whole."""
        if not self.order or self.order[-1] + 1 != len(self.order) or self.parts[-1] % count:
            return None
        *outer, (*sizes, last) = self.source
        return Permutation((*outer, (*sizes, last // count)), self.order, self.target)

    def __call__(self, array: jax.Array) -> jax.Array:
        """One reshape, transpose and reshape, or on a mesh one dimension at a time.

        JAX follows an explicit sharding through such reshapes alone. To XLA they are one.
        """
        if jax.typeof(array).sharding.mesh.empty:
            return lax.reshape(lax.transpose(lax.reshape(array, self.parts), self.order), self.shape)
        for axis, sizes in reversed([*enumerate(self.source)]):
            array = lax.reshape(array, (*array.shape[:axis], *sizes, *array.shape[axis + 1 :]))
        array = lax.transpose(array, self.order)
        for axis, sizes in enumerate(self.merged):
            array = lax.reshape(array, (*array.shape[:axis], prod(sizes), *array.shape[axis + len(sizes) :]))
        return array


@dataclass(frozen=True)
class PermuteCase:
    """One permutation, for the choice between implementations.

    Args:
      permutation: of the operand.
      operand: shape and type.
      is_operand: whether an operator reads the result, so that XLA should fuse the two.
      devices: among which XLA may divide an array.
    """

    permutation: Permutation
    operand: Any
    is_operand: bool
    devices: int

    @property
    def bytes(self) -> int:
        """Read and written; 0 if nothing moves, if elements do not fill bytes, or if a size is symbolic."""
        if is_key(self.operand) or (self.itemsize < 4 and lanes(self.operand.dtype) == 1):
            return 0
        known = known_bytes(self.operand)
        return 2 * known if known and len(self.order) > 1 else 0

    @property
    def plain(self) -> Move:
        """XLA:CPU moves bfloat16 through wider floats, one by one."""
        # As integers, and apart from the casts to these, which XLA:CPU would take away in pairs.
        move: Move = lambda _, array: self.permutation(array)  # noqa: E731
        return as_bits(fence(move)) if self.operand.dtype == jnp.bfloat16 else move

    @property
    def result(self) -> jax.ShapeDtypeStruct:
        """Shape and type of the result."""
        return jax.ShapeDtypeStruct(self.permutation.shape, self.operand.dtype)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.operand.dtype.itemsize

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the parts of `flat`."""
        return self.permutation.flat.parts

    @property
    def order(self) -> tuple[int, ...]:
        """Order of the parts of `flat`."""
        return self.permutation.flat.order

    @property
    def has_rows(self) -> bool:
        """Whether the last part stays the last, so that whole rows move."""
        return self.order[-1] + 1 == len(self.order)

    @property
    def is_matrix(self) -> bool:
        """Whether matrices are transposed."""
        return self.order in {(1, 0), (0, 2, 1)}

    @property
    def has_neighbours(self) -> bool:
        """Whether its `sides` lie next to each other, in the operand or in the result."""
        last = len(self.order) - 1
        return self.order[-1] == last - 1 or self.order[-2] == last

    @property
    def sides(self) -> tuple[int, int]:
        """Elements that lie side by side in the operand, and in the result."""
        return self.sizes[-1], self.sizes[self.order[-1]]

    @cached_property
    def divisors(self) -> tuple[int, ...]:
        """Sizes by which the split of dimensions divides, after the first part that moves."""
        parts, source = self.permutation.parts, self.permutation.source
        stored, shown = ([d for d in order if parts[d] != 1] for order in (range(len(parts)), self.permutation.order))
        moved = next(d for d, other in zip(stored, shown, strict=True) if d != other)
        whole = {sum(map(len, source[:axis])) for axis in range(len(source))}
        return tuple(parts[d] for d in range(moved + 1, len(parts)) if d not in whole)


def permute(array: jax.Array, permutation: Permutation, *, is_operand: bool = False) -> jax.Array:
    """Permutes the elements of an array of any dtype; bits are moved.

    Args:
      array: as `permutation` splits it.
      permutation: its split, order and merge.
      is_operand: whether an operator reads the result.
    """

    def back(_: None, cotangent: jax.Array, __: Sequence[jax.Array]) -> Sequence[jax.Array]:
        return [permute(cotangent, permutation.inverse)]

    case_of = partial(PermuteCase, permutation, *shapes_of(array), is_operand)
    return choose("permute", case_of, back, is_opaque=array.dtype == jnp.bfloat16)(None, array)
