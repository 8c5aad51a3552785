"""The picture of `as_strided`: layouts of one flat buffer, each with the view that its strides give."""

from typing import NamedTuple

import numpy as np
from cells import Grid, cells, column_numbers, note
from colours import FAINT
from sources import CAPITALS, NOWHERE, positions
from svg import MARGIN, Element, card, code, element, text

import dml_jax

BUFFER = 12


class Layout(NamedTuple):
    """Sizes and strides, and the dimension whose coordinate gives a cell of the view its colour."""

    name: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    coloured: int = 0


LAYOUTS = (
    Layout("packed rows", (3, 4), (4, 1)),
    Layout("column-major", (3, 4), (1, 3)),
    Layout("padded rows", (3, 3), (4, 1)),
    Layout("broadcast row", (3, 4), (0, 1)),
    Layout("window of a packed 3 x 4", (2, 2), (4, 1), offset=5),
    Layout("diagonal of a packed 3 x 4", (3,), (5,)),
    Layout("overlapping windows", (3, 4), (2, 1)),
    Layout("NHWC memory as NCHW", (1, 2, 2, 3), (12, 1, 6, 2), coloured=1),
)


def as_strided() -> Element:
    """Eight layouts in two columns."""
    said = [f"{x.name}: sizes {x.sizes}, strides {x.strides}, offset {x.offset}" for x in LAYOUTS]
    return card(
        "as_strided(buffer, sizes, strides, offset=0)",
        "output[c] = buffer[offset + sum(c * strides)]",
        (
            "One flat buffer of 12 elements, read in eight ways. Strides count elements, one per dimension.",
            "Colour: the row, channel or element of the view that reads an element first. Plain: not read.",
        ),
        f"Eight layouts of a buffer of {BUFFER} elements. {'; '.join(said)}.",
        144 + 4 * 162,
        *(_layout(layout, MARGIN + n % 2 * 350, 148 + n // 2 * 162) for n, layout in enumerate(LAYOUTS)),
    )


def _layout(layout: Layout, x: float, top: float) -> Element:
    numbers = positions((BUFFER,))
    moved = np.asarray(dml_jax.as_strided(numbers, layout.sizes, layout.strides, offset=layout.offset))
    sources = np.full(BUFFER, NOWHERE)
    for coordinate in reversed(range(layout.sizes[layout.coloured])):  # the first row that reads an element is last
        sources[moved.take(coordinate, layout.coloured)] = coordinate
    strip = Grid(x, top + 29, 1, BUFFER)
    planes = moved.reshape(-1, *((1, *moved.shape)[-2:]))
    drawn = []
    for n, plane in enumerate(planes):
        grid = Grid(x + n * 76, top + 62, *plane.shape)
        drawn.append(cells(f"{layout.name} view {n}", grid, CAPITALS[plane], sources[plane]))
        if len(planes) > 1:
            drawn.append(note((grid.middle, grid.bottom + 12), f"channel {n}", text_anchor="middle"))
    return element(
        "g",
        text(x, top + 4, layout.name, font_weight="600"),
        column_numbers(strip),
        cells(f"{layout.name} buffer", strip, CAPITALS[numbers], sources),
        *drawn,
        *_numbers(layout, x + 158, top + 78),
    )


def _numbers(layout: Layout, x: float, top: float) -> list[Element]:
    """The arguments that make the view, but for an offset of 0."""
    arguments = {"sizes": layout.sizes, "strides": layout.strides, "offset": layout.offset or None}
    lines = [(name, str(value)) for name, value in arguments.items() if value is not None]
    names = [text(x, top + 19 * n, name, fill=FAINT) for n, (name, _) in enumerate(lines)]
    return names + [code(x + 50, top + 19 * n, value, fill=FAINT) for n, (_, value) in enumerate(lines)]
