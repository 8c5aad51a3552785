"""Layout: the splits that it names reach exactly the offsets of the address law; no array is needed to see it."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dml_jax.strides.layout import Group, Layout, Window

SMALL = [(n, s) for n in itertools.product((1, 2, 3), repeat=3) for s in itertools.product(range(7), repeat=3)]


def law(layout):
    """Every coordinate's offset."""
    steps = (s * c for s, c in zip(layout.strides, np.indices(layout.sizes), strict=True))
    return sum(steps, np.full(layout.sizes, layout.offset))


def reached(layout, groups):
    """The offsets that the groups reach, in storage order: rows of rows."""
    offsets = np.array([layout.offset])
    for group in groups:
        rows = sum(s * c for s, c in zip(group.steps, np.indices(group.sizes), strict=True))
        offsets = (offsets[:, None] + group.unit * rows.ravel()).ravel()
    return offsets


def check(layout):
    stored = law(layout)[tuple(slice(None) if d in layout.dims else 0 for d in range(len(layout.sizes)))]
    stored = stored.transpose([sorted(layout.dims).index(d) for d in layout.dims])
    np.testing.assert_array_equal(reached(layout, layout.groups), stored.ravel())
    np.testing.assert_array_equal(reached(layout, layout.merged_groups), stored.ravel())
    assert layout.span == law(layout).max() - layout.offset + 1
    for outer, inner in itertools.pairwise(layout.groups):
        assert outer.inner == 1 + (inner.rows - 1) * inner.unit + inner.inner - 1
        assert outer.inner <= outer.unit


def test_groups_follow_the_address_law(exhaustive):
    for sizes, strides in SMALL if exhaustive else SMALL[::5]:
        check(Layout(sizes, strides))


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 300)), max_size=6), st.integers(0, 9))
def test_groups_follow_the_address_law_in_more_dimensions(dims, offset):
    check(Layout(tuple(n for n, _ in dims), tuple(s for _, s in dims), offset))


@pytest.mark.parametrize(
    ("sizes", "strides", "groups"),
    [
        ((2, 3), (3, 1), [Group(1, (6,), (1,), 1)]),  # packed: one run
        ((2, 3), (1, 2), [Group(1, (6,), (1,), 1)]),  # column-major too, in another order
        ((2, 3), (5, 1), [Group(5, (2,), (1,), 3), Group(1, (3,), (1,), 1)]),  # padded rows
        ((2, 3), (0, 1), [Group(1, (3,), (1,), 1)]),  # a repeated row
        ((3,), (4,), [Group(4, (3,), (1,), 1)]),  # every fourth
        ((4, 3), (1, 1), [Group(1, (4, 3), (1, 1), 1)]),  # windows: no split parts them
        ((4, 2, 5), (5, 5, 1), [Group(5, (4, 2), (1, 1), 5), Group(1, (5,), (1,), 1)]),  # windows of whole rows
        ((2, 3), (3, 2), [Group(1, (2, 3), (3, 2), 1)]),  # interleaved
        ((), (), []),
        ((1, 1), (7, 0), []),
    ],
)
def test_groups_of_known_layouts(sizes, strides, groups):
    assert Layout(sizes, strides).merged_groups == tuple(groups)


def test_the_window_of_an_array():
    """2x3 elements at row 1, column 2 of a 4x6 array; 23 or 25 elements are no such array."""
    layout = Layout((2, 3), (6, 1), 8)
    assert layout.window(24) == Window((4, 6), (1, 2), (2, 3))
    assert layout.window(23) is layout.window(25) is None
    assert Layout((2, 3), (6, 1), 10).window(24) is None  # its rows run over the end of the array's
    assert Layout((2, 3), (3, 2)).window(24) is None
    assert Layout((2, 3), (3, 1)).window(8) == Window((8,), (0,), (6,))  # packed, in a longer buffer

    assert Layout((2, 2), (6, 3), 7).window(24) == Window((4, 2, 3), (1, 0, 1), (2, 2, 1))  # every third column


def test_windows(exhaustive):
    for sizes, strides in SMALL if exhaustive else SMALL[::5]:
        for offset, length in itertools.product((0, 1, 5), (18, 24)):
            layout = Layout(sizes, strides, offset)
            window = layout.window(length)
            if window is not None and offset + layout.span <= length:
                assert np.prod(window.array_sizes) == length
                slices = tuple(slice(a, a + n) for a, n in zip(window.starts, window.sizes, strict=True))
                content = np.arange(length).reshape(window.array_sizes)[slices]
                np.testing.assert_array_equal(content.ravel(), reached(layout, layout.groups))
