"""`Layout`: a view of a flat buffer by sizes and strides, and the reshapes of the buffer that reach its elements."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod


@dataclass(frozen=True)
class Group:
    """Dimensions that select rows, once the buffer is split into rows of `unit` elements.

    Args:
      unit: elements per row, and from one row to the next.
      sizes: of the dimensions; more than one if they overlap or interleave, so that no further split parts them.
      steps: rows from one coordinate to the next, per dimension.
      inner: elements of a row, from the first to the last, that the following groups address.
    """

    unit: int
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    inner: int

    @property
    def rows(self) -> int:
        """Rows from the first to the last that are addressed, both included."""
        return span(self.sizes, self.steps)

    @property
    def is_run(self) -> bool:
        """Whether the dimensions address every row once, in order."""
        return len(self.sizes) == 1


@dataclass(frozen=True)
class Layout:
    """A view of a flat buffer: coordinate c is element offset + sum(c * strides).

    Args:
      sizes: of the view, each at least 1.
      strides: in elements, not negative, one per size.
      offset: of the first element.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def span(self) -> int:
        """How many elements there are from the first to the last that is addressed, both included."""
        return span(self.sizes, self.strides)

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions that move through the buffer, in storage order: the largest stride first."""
        moving = [d for d, (n, s) in enumerate(zip(self.sizes, self.strides, strict=True)) if n > 1 and s > 0]
        return tuple(sorted(moving, key=lambda d: (-self.strides[d], -self.sizes[d])))

    @property
    def stored_sizes(self) -> tuple[int, ...]:
        """The sizes in storage order."""
        return tuple(self.sizes[d] for d in self.dims)

    @property
    def is_dense(self) -> bool:
        """Whether the view addresses every element of its span exactly once."""
        return prod(self.sizes) == self.span and self.is_nested and not self.repeats

    def in_words(self, elements: int, words: int) -> "Layout | None":
        """Returns the layout in words, where `elements` elements make `words` words; None if some word is not whole."""
        lengths = (self.offset, self.sizes[-1], *self.strides[:-1]) if self.sizes else ()
        if not lengths or self.strides[-1] != 1 or any(length % elements for length in lengths):
            return None
        offset, last, *strides = (length // elements * words for length in lengths)
        return Layout((*self.sizes[:-1], last), (*strides, 1), offset)

    @property
    def is_nested(self) -> bool:
        """Whether every dimension is a run: then no element is addressed twice, but by dimensions of stride 0."""
        return all(group.is_run for group in self.groups)

    @property
    def repeats(self) -> bool:
        """Whether a dimension of stride 0 reads elements more than once."""
        return any(n > 1 and s == 0 for n, s in zip(self.sizes, self.strides, strict=True))

    @property
    def merged_groups(self) -> tuple[Group, ...]:
        """The groups, neighbouring runs without a gap between them as one run."""
        merged: list[Group] = []
        for group in self.groups:
            outer = merged[-1] if merged else None
            if outer and outer.is_run and group.is_run and outer.unit == group.unit * group.rows:
                merged[-1] = Group(group.unit, (outer.rows * group.rows,), (1,), group.inner)
            else:
                merged.append(group)
        return tuple(merged)

    @property
    def groups(self) -> tuple[Group, ...]:
        """The splits that reach the elements, from the outermost to the innermost; none for a single element.

        Dimensions are split off together until what is left fits between two of their rows. Where all are runs, there
        is one group per dimension of `dims`.

        Sizes (2, 3) with strides (5, 1), rows padded to 5: rows of unit 5, of which 2 are addressed and in each the
        first 3 elements (inner 3); then rows of unit 1, of which 3. Both are runs, so splits and slices reach all.
        Sizes (3, 3) with strides (1, 1), overlapping windows: dimension 0 alone would need rows of 1 that hold 3
        elements; so both form one group of unit 1, with steps (1, 1), which is no run: it is read by offsets.
        """
        groups: list[Group] = []
        dims = [(self.sizes[d], self.strides[d]) for d in self.dims]
        while dims:
            count, unit, inner = next(filter(None, (_fitting(dims, i) for i in range(1, len(dims) + 1))))
            sizes, strides = zip(*dims[:count], strict=True)
            groups.append(Group(unit, sizes, tuple(s // unit for s in strides), inner))
            dims = dims[count:]
        return tuple(groups)

    def window(self, length: int) -> "Window | None":
        """Returns the window that the view is, once a buffer of `length` elements is reshaped; None if it is no window.

        The array has a dimension for each of `dims` if possible, because XLA:CPU loops fastest over those.
        """
        windows = (_window(groups, self.offset, length) for groups in (self.groups, self.merged_groups))
        return next(filter(None, windows), None)

    @property
    def whole_length(self) -> int:
        """The least length of a buffer that can be reshaped so that the view is a window; the span if none can."""
        length = self.groups[0].rows * self.groups[0].unit if self.groups else self.span
        return length if self.window(length) else self.span


@dataclass(frozen=True)
class Window:
    """A part of an array of the sizes `array_sizes`: from `starts` on, of the sizes `sizes`."""

    array_sizes: tuple[int, ...]
    starts: tuple[int, ...]
    sizes: tuple[int, ...]


def _window(groups: Sequence[Group], offset: int, length: int) -> Window | None:
    array_sizes, starts, inner = [], [], length
    for group in groups:
        count, over = divmod(inner, group.unit)
        start, offset = divmod(offset, group.unit)
        if over or not group.is_run or start + group.rows > count:
            return None
        array_sizes, starts, inner = [*array_sizes, count], [*starts, start], group.unit
    sizes = [group.rows for group in groups]
    if inner > 1 or not groups:
        array_sizes, starts, sizes = [*array_sizes, inner], [*starts, offset], [*sizes, 1]
    return Window(tuple(array_sizes), tuple(starts), tuple(sizes))


def span(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Returns how many elements there are from the first to the last that sizes and strides address."""
    return 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))


def _fitting(dims: Sequence[tuple[int, int]], count: int) -> tuple[int, int, int] | None:
    """Returns count, unit and inner of a group of the first `count` dimensions; None if the others exceed its rows."""
    unit = gcd(*(stride for _, stride in dims[:count]))
    inner = 1 + sum((n - 1) * s for n, s in dims[count:])
    return (count, unit, inner) if inner <= unit else None
