"""The picture of `gather`: an index is a whole slice."""

import numpy as np
from cells import Grid, cells, flows, heading, note, pills, why
from colours import FAINT, colour_of
from sources import LETTERS, positions
from svg import MARGIN, Element, arrow, card, code, divider, element, text

import dml_jax

TABLE = (4, 3)
ROWS = np.array([2, 0, 0, -1, 1, 9], np.int32)
COLUMNS = np.array([1, -1, 0, 1], np.int32)


def gather() -> Element:
    """Rows of a table, then columns."""
    return card(
        "gather(input, indices, axis)",
        "output[pre, q, post] = input[pre, indices[q], post]",
        (
            "Each index picks a whole slice along the axis. A negative one counts from the end, once;",
            "one that is then out of range reads the nearest slice. Colour: the slice.",
        ),
        f"Indices {ROWS.tolist()} pick rows of a table of sizes {TABLE}, indices {COLUMNS.tolist()} columns.",
        480,
        *_rows_picked(148),
        divider(478, 136, 452),
        *_columns_picked(148),
    )


def _rows_picked(top: float) -> list[Element]:
    source = positions(TABLE)
    moved = np.asarray(dml_jax.gather(source, ROWS, axis=0))
    rows = moved // TABLE[1]
    table = Grid(MARGIN + 52, top + 110, *TABLE, down=40)
    picked = Grid(218, top + 70, len(ROWS), 1, down=40)
    output = Grid(274, top + 70, *moved.shape, down=40)
    whys = [why(index, row, TABLE[0]) for index, row in zip(ROWS, rows[:, 0], strict=True)]
    return [
        code(MARGIN, top, "axis=0", font_weight="600"),
        heading(table, "input", TABLE, top + 71),
        heading(picked, "indices", ROWS.shape, top + 31),
        heading(output, "output", moved.shape, top + 31),
        *flows(table, picked, output, rows[:, 0], rows[:, 0]),
        *(note(output.behind(q, 10), why) for q, why in enumerate(whys) if why),
        *_numbers(table),
        cells("rows input", table, LETTERS[source], source // TABLE[1]),
        pills("rows indices", picked, ROWS, rows[:, 0]),
        cells("rows output", output, LETTERS[moved], rows),
    ]


def _numbers(table: Grid) -> list[Element]:
    """What each row is called, from the start and from the end."""
    names = [(row, gap, number) for row in range(table.rows) for gap, number in ((10, row), (34, row - table.rows))]
    return [note(table.before(row, gap), str(number), text_anchor="end") for row, gap, number in names]


def _columns_picked(top: float) -> list[Element]:
    source = positions(TABLE)
    moved = np.asarray(dml_jax.gather(source, COLUMNS, axis=1))
    columns = moved % TABLE[1]
    table = Grid(606, top + 20, *TABLE)
    picked = Grid(table.middle - 47, top + 162, 1, len(COLUMNS))
    output = Grid(picked.x, top + 206, *moved.shape)
    lines = []
    for q, column in enumerate(columns[0]):
        (start, _), (end, level) = table.centre(0, column), picked.centre(0, q)
        line = (start, table.bottom + 4), (end, level), (end, output.y - 4)
        lines.append(arrow(colour_of(column).line, *line, upright=True))
    return [
        code(506, top, "axis=1", font_weight="600"),
        _beside(table, "input", TABLE),
        _beside(picked, "indices", COLUMNS.shape),
        _beside(output, "output", moved.shape),
        *lines,
        cells("columns input", table, LETTERS[source], source % TABLE[1]),
        pills("columns indices", picked, COLUMNS, columns[0]),
        cells("columns output", output, LETTERS[moved], columns),
    ]


def _beside(grid: Grid, name: str, sizes: tuple[int, ...]) -> Element:
    """The name and the sizes of an array, to its left."""
    x, y = 580, grid.centre(0, 0)[1]
    title = text(x, y + 4, name, font_weight="600")
    return element("g", title, code(x, y + 20, str(sizes), fill=FAINT, font_size=12), text_anchor="end")
