"""The pictures of `gather_nd` and `scatter_nd`: a tuple of indices is an address."""

import numpy as np
from cells import Grid, capsules, cells, column_numbers, flows, heading, note, row_numbers
from colours import colour_of
from sources import LETTERS, NOWHERE, first_readers, named_updates, positions
from svg import MARGIN, Element, arrow, card, divider

import dml_jax

GRID = (3, 4)
READ_ELEMENTS = np.array([[2, 1], [0, 3], [-1, -1], [0, 0]], np.int32)
READ_ROWS = np.array([[2], [0], [2]], np.int32)


def gather_nd() -> Element:
    """Tuples as long as the rank name elements, shorter ones rows."""
    return card(
        "gather_nd(input, indices)",
        "output[q, rest] = input[indices[q, 0], ..., indices[q, t-1], rest]",
        (
            "Each tuple along the last dimension of indices is an address: of an element if it has as many coordinates",
            "as input has dimensions, of a slice if it has fewer. Colour: the first tuple that reads an element.",
        ),
        f"Tuples {READ_ELEMENTS.tolist()} read elements of an array of sizes {GRID}, tuples {READ_ROWS.tolist()} rows.",
        368,
        *_elements_read(148),
        divider(378, 136, 340),
        *_rows_read(148),
    )


def _elements_read(top: float) -> list[Element]:
    source = positions(GRID)
    moved = np.asarray(dml_jax.gather_nd(source, READ_ELEMENTS))
    readers = first_readers(moved, source.size)
    table = Grid(MARGIN + 16, top + 66, *GRID, down=40)
    picked = Grid(226, top + 46, *READ_ELEMENTS.shape, down=40, across=20)
    output = Grid(312, top + 46, len(moved), 1, down=40)
    rows, columns = np.divmod(moved, GRID[1])
    arrows = []
    for q, (row, column) in enumerate(zip(rows, columns, strict=True)):
        x, y = table.centre(row, column)
        lane = y + 16 + 4 * np.sum((rows == row) & (columns > column))  # below those who leave the row before it
        line = (x, y + 12), (x, lane), (table.right + 6, lane), picked.before(q, 0), output.before(q)
        arrows.append(arrow(colour_of(readers[moved[q]]).line, *line))
    return [
        heading(table, "input", GRID, top),
        heading(picked, "indices", READ_ELEMENTS.shape, top),
        heading(output, "output", moved.shape, top),
        *arrows,
        row_numbers(table),
        column_numbers(table),
        cells("elements input", table, LETTERS[source], readers),
        capsules("elements indices", picked, READ_ELEMENTS, readers[moved]),
        cells("elements output", output, LETTERS[moved], readers[moved]),
    ]


def _rows_read(top: float) -> list[Element]:
    source = positions(GRID)
    moved = np.asarray(dml_jax.gather_nd(source, READ_ROWS))
    readers = first_readers(moved, source.size)
    by_tuple = readers[moved[:, 0]]
    table = Grid(420, top + 66, *GRID, down=40)
    picked = Grid(558, top + 66, *READ_ROWS.shape, down=40)
    output = Grid(598, top + 66, *moved.shape, down=40)
    return [
        heading(table, "input", GRID, top),
        heading(picked, "indices", READ_ROWS.shape, top),
        heading(output, "output", moved.shape, top),
        *flows(table, picked, output, moved[:, 0] // GRID[1], by_tuple),
        row_numbers(table),
        cells("rows input", table, LETTERS[source], readers),
        capsules("rows indices", picked, READ_ROWS, by_tuple),
        cells("rows output", output, LETTERS[moved], readers[moved]),
    ]


WRITTEN_ELEMENTS = np.array([[3, 0], [1, 3], [0, 1], [-1, 0]], np.int32)
WRITTEN_ROWS = np.array([[2], [0]], np.int32)


def scatter_nd() -> Element:
    """Tuples as long as the rank name elements, shorter ones rows."""
    return card(
        "scatter_nd(input, indices, updates)",
        "output = input; output[indices[q, 0], ..., indices[q, t-1], rest] = updates[q, rest]",
        (
            "The counterpart of gather_nd: each tuple is the address of an element, or of a slice, that is written to.",
            "Plain cells keep what input held, which has the sizes of output. An update out of range is dropped.",
        ),
        f"Tuples {WRITTEN_ELEMENTS.tolist()} say where elements go, tuples {WRITTEN_ROWS.tolist()} where rows go.",
        368,
        *_elements_written(148),
        divider(346, 136, 340),
        *_rows_written(148),
    )


def _elements_written(top: float) -> list[Element]:
    source = positions(GRID)
    updates = positions(WRITTEN_ELEMENTS.shape[:1], first=source.size)
    moved = np.asarray(dml_jax.scatter_nd(source, WRITTEN_ELEMENTS, updates))
    given = Grid(MARGIN + 18, top + 46, len(updates), 1, down=40)
    named = Grid(given.x + 62, top + 46, *WRITTEN_ELEMENTS.shape, down=40, across=20)
    output = Grid(220, top + 66, *GRID, down=40)
    arrows = []
    for q, update in enumerate(updates):
        found = np.argwhere(moved == update)
        if not len(found):
            arrows.append(note(named.behind(q, 8), "dropped"))
        for row, column in found:
            x, y = output.centre(row, column)
            turns = (output.x - 6, y + 20), (x, y + 20), (x, y + 13)
            arrows.append(arrow(colour_of(q).line, given.behind(q, 0), named.behind(q, 0), *turns))
    return [
        heading(given, "updates", updates.shape, top),
        heading(named, "indices", WRITTEN_ELEMENTS.shape, top),
        heading(output, "output", GRID, top),
        *arrows,
        row_numbers(output, behind=True),
        column_numbers(output),
        cells("elements updates", given, *named_updates(updates, source.size)),
        capsules("elements indices", named, WRITTEN_ELEMENTS, updates - source.size),
        cells("elements output", output, *named_updates(moved, source.size)),
    ]


def _rows_written(top: float) -> list[Element]:
    source = positions(GRID)
    updates = positions((len(WRITTEN_ROWS), GRID[1]), first=source.size)
    moved = np.asarray(dml_jax.scatter_nd(source, WRITTEN_ROWS, updates))
    given = Grid(370, top + 86, *updates.shape, down=40)
    named = Grid(492, top + 86, *WRITTEN_ROWS.shape, down=40)
    output = Grid(582, top + 66, *GRID, down=40)
    arrows = []
    for q, update in enumerate(updates[:, 0]):
        row = np.argwhere(moved == update)[0, 0]
        arrows.append(arrow(colour_of(q).line, given.behind(q, 1), named.behind(q, 0), output.before(row)))
    (capitals, given_sources), (labels, sources) = (named_updates(array, source.size) for array in (updates, moved))
    rows = np.append(np.repeat(np.arange(len(updates)), GRID[1]), NOWHERE)  # of updates; its last for NOWHERE
    return [
        heading(given, "updates", updates.shape, top),
        heading(named, "indices", WRITTEN_ROWS.shape, top),
        heading(output, "output", GRID, top),
        *arrows,
        row_numbers(output, behind=True),
        cells("rows updates", given, capitals, rows[given_sources]),
        capsules("rows indices", named, WRITTEN_ROWS, rows[given_sources[:, 0]]),
        cells("rows output", output, labels, rows[sources]),
    ]
