"""Arrays as grids of cells. A cell's colour says where its element came from, its label which element it is."""

from dataclasses import dataclass

import numpy as np
from colours import FAINT, INK, Colour, colour_of
from svg import MONO, Element, Point, arrow, code, element, text

CELL, PITCH = 22, 24


@dataclass(frozen=True)
class Grid:
    """Where the cells of a rectangle are drawn: its corner, its sizes, its steps, and the gap between its blocks."""

    x: float
    y: float
    rows: int
    columns: int
    down: float = PITCH
    across: float = PITCH
    block: int = 1
    apart: float = 0

    def centre(self, row: int, column: int) -> Point:
        """The middle of a cell."""
        x = self.x + column * self.across + column // self.block * self.apart
        y = self.y + row * self.down + row // self.block * self.apart
        return x + CELL / 2, y + CELL / 2

    @property
    def right(self) -> float:
        """The edge of the last column."""
        return self.centre(0, self.columns - 1)[0] + CELL / 2

    @property
    def bottom(self) -> float:
        """The edge of the last row."""
        return self.centre(self.rows - 1, 0)[1] + CELL / 2

    @property
    def middle(self) -> float:
        """Half way from left to right."""
        return (self.x + self.right) / 2

    def before(self, row: int, gap: float = 4) -> Point:
        """The point to the left of a row."""
        return self.x - gap, self.centre(row, 0)[1]

    def behind(self, row: int, gap: float = 4) -> Point:
        """The point to the right of a row."""
        return self.right + gap, self.centre(row, 0)[1]


def cells(name: str, grid: Grid, labels: np.ndarray, sources: np.ndarray, *, corner: float = 3) -> Element:
    """The cells of an array, row by row; `data-array` names it."""
    sizes = grid.rows, grid.columns
    labels, sources = np.reshape(labels, sizes), np.reshape(sources, sizes)
    drawn = [_cell(grid.centre(*at), str(labels[at]), colour_of(sources[at]), corner) for at in np.ndindex(sizes)]
    return _named(name, drawn)


def _named(name: str, drawn: list[Element]) -> Element:
    return element("g", *drawn, data_array=name, font_family=MONO, font_size=12, text_anchor="middle")


def _cell(centre: Point, label: str, colour: Colour, corner: float) -> Element:
    x, y = centre
    left, top = x - CELL / 2, y - CELL / 2
    box = element("rect", x=left, y=top, width=CELL, height=CELL, rx=corner, fill=colour.tint, stroke=colour.line)
    return element("g", box, text(x, y + 4.2, label))


def pills(name: str, grid: Grid, values: np.ndarray, sources: np.ndarray) -> Element:
    """The cells of indices: round, so that nobody takes them for data."""
    return cells(name, grid, values, sources, corner=CELL / 2)


def capsules(name: str, grid: Grid, tuples: np.ndarray, sources: np.ndarray) -> Element:
    """A round cell for each row: the coordinates of one address."""
    drawn = []
    for row, colour in enumerate(map(colour_of, sources)):
        places = [grid.centre(row, column) for column in range(grid.columns)]
        left, top = grid.x, places[0][1] - CELL / 2
        box = element(
            "rect",
            x=left,
            y=top,
            width=grid.right - left,
            height=CELL,
            rx=CELL / 2,
            fill=colour.tint,
            stroke=colour.line,
        )
        numbers = [text(x, y + 4.2, str(number)) for (x, y), number in zip(places, tuples[row], strict=True)]
        drawn.append(element("g", box, *numbers))
    return _named(name, drawn)


def outline(grid: Grid, row: int, column: int, rows: int = 1, columns: int = 1) -> Element:
    """A line around some cells."""
    (x0, y0), (x, y) = grid.centre(row, column), grid.centre(row + rows - 1, column + columns - 1)
    left, top, side = x0 - CELL / 2 - 1, y0 - CELL / 2 - 1, CELL + 2
    width, height = x - x0 + side, y - y0 + side
    return element("rect", x=left, y=top, width=width, height=height, rx=4, fill="none", stroke=INK, stroke_width=2)


def heading(grid: Grid, name: str, sizes: tuple[int, ...], top: float) -> Element:
    """The name and the sizes of an array, centred above it."""
    title = text(grid.middle, top, name, font_weight="600")
    return element("g", title, code(grid.middle, top + 17, str(sizes), fill=FAINT, font_size=12), text_anchor="middle")


def note(point: Point, content: str, **attributes: object) -> Element:
    """Small text beside a point."""
    return text(point[0], point[1] + 4, content, font_size=11.5, fill=FAINT, **attributes)


def row_numbers(grid: Grid, *, behind: bool = False) -> Element:
    """The coordinate of each row, to its left or behind it."""
    place, anchor = (grid.behind, "start") if behind else (grid.before, "end")
    return element("g", *(note(place(row, 8), str(row), text_anchor=anchor) for row in range(grid.rows)))


def column_numbers(grid: Grid) -> Element:
    """The coordinate of each column, above it."""
    places = [grid.centre(0, column) for column in range(grid.columns)]
    return element("g", *(note((x, y - 19), str(column), text_anchor="middle") for column, (x, y) in enumerate(places)))


def flows(source: Grid, picked: Grid, output: Grid, rows: np.ndarray, colours: np.ndarray) -> list[Element]:
    """An arrow from the row that each index picks, through the index, to the row of the output."""
    return [
        arrow(colour_of(colour).line, source.behind(row), picked.before(q, 0), output.before(q))
        for q, (row, colour) in enumerate(zip(rows, colours, strict=True))
    ]


def why(index: int, row: int, size: int) -> str:
    """What happened to an index that is not simply the row's number."""
    if index == row:
        return ""
    return f"from the end: {row}" if index + size == row else f"clamped to {row}"
