"""The pictures of `gather_elements` and `scatter_elements`: an index per element, in its own column."""

import numpy as np
from cells import Grid, cells, flows, heading, note, pills, row_numbers, why
from colours import colour_of
from sources import LETTERS, named_updates, positions
from svg import MARGIN, Element, arrow, card, element, rule, text

import dml_jax

GRID = (3, 4)
READ = np.array([[1, 2, 0, -1], [2, 0, 0, 7]], np.int32)


def gather_elements() -> Element:
    """Whole arrays, then what happens in each column."""
    source = positions(GRID)
    moved = np.asarray(dml_jax.gather_elements(source, READ, axis=0))
    rows = moved // GRID[1]
    grids = [Grid(MARGIN + 16 + k * 172, 184, *sizes) for k, sizes in enumerate((GRID, READ.shape, moved.shape))]
    special = [at for at in np.ndindex(READ.shape) if READ[at] != rows[at]]
    legend = Grid(MARGIN + 3 * 172, 184, len(special), 1)
    return card(
        "gather_elements(input, indices, axis=0)",
        "output[r, c] = input[indices[r, c], c]",
        (
            "Each element of the output has an index of its own, which replaces its coordinate along the axis:",
            "here an element stays in its column and the index says from which row. Colour: the row.",
        ),
        f"Indices {READ.tolist()} read {LETTERS[moved].tolist()} from {LETTERS[source].tolist()}.",
        470,
        *map(heading, grids, ("input", "indices", "output"), (GRID, READ.shape, moved.shape), (148,) * 3),
        cells("input", grids[0], LETTERS[source], source // GRID[1]),
        pills("indices", grids[1], READ, rows),
        cells("output", grids[2], LETTERS[moved], rows),
        pills("not a row's number", legend, [READ[at] for at in special], [rows[at] for at in special]),
        *(note(legend.behind(n, 8), why(READ[at], rows[at], GRID[0])) for n, at in enumerate(special)),
        rule(280),
        row_numbers(grids[0]),
        *(_column_read(c, MARGIN + c * 172, 336, rows[:, c], LETTERS[moved[:, c]]) for c in range(GRID[1])),
    )


def _column_read(c: int, x: float, top: float, rows: np.ndarray, labels: np.ndarray) -> Element:
    source = positions(GRID)[:, c]
    column = Grid(x + 16, top, GRID[0], 1, down=36)
    picked = Grid(x + 82, top + 18, len(rows), 1, down=36)
    output = Grid(x + 126, top + 18, len(rows), 1, down=36)
    return element(
        "g",
        text(x, top - 20, f"column {c}", font_weight="600"),
        *flows(column, picked, output, rows, rows),
        row_numbers(column),
        cells(f"input column {c}", column, LETTERS[source], source // GRID[1]),
        pills(f"indices column {c}", picked, READ[:, c], rows),
        cells(f"output column {c}", output, labels, rows),
    )


WRITTEN = np.array([[1, 0, -1, 0], [2, 2, 0, 5]], np.int32)


def scatter_elements() -> Element:
    """Whole arrays, then what happens in each column."""
    source = positions(GRID)
    updates = positions(WRITTEN.shape, first=source.size)
    moved = np.asarray(dml_jax.scatter_elements(source, WRITTEN, updates, axis=0))
    arrays = {"input": source, "indices": WRITTEN, "updates": updates, "output": moved}
    grids = {name: Grid(MARGIN + k * 172, 184, *array.shape) for k, (name, array) in enumerate(arrays.items())}
    drawn = {name: named_updates(array, source.size) for name, array in arrays.items() if name != "indices"}
    return card(
        "scatter_elements(input, indices, updates, axis=0)",
        "output = input; output[indices[r, c], c] = updates[r, c]",
        (
            "The counterpart of gather_elements: each update stays in its column and goes to the row that its index",
            "names. Plain cells keep what input held. An update out of range is dropped.",
        ),
        f"Updates {drawn['updates'][0].tolist()} with indices {WRITTEN.tolist()} make {drawn['output'][0].tolist()}.",
        470,
        *(heading(grids[name], name, array.shape, 148) for name, array in arrays.items()),
        *(cells(name, grids[name], *drawn[name]) for name in drawn),
        pills("indices", grids["indices"], WRITTEN, drawn["updates"][1]),
        row_numbers(grids["output"], behind=True),
        rule(280),
        *(_column_written(c, MARGIN + c * 172, 336, updates[:, c], moved[:, c]) for c in range(GRID[1])),
    )


def _column_written(c: int, x: float, top: float, updates: np.ndarray, moved: np.ndarray) -> Element:
    size = np.prod(GRID)
    given = Grid(x, top + 18, len(updates), 1, down=36)
    named = Grid(x + 32, top + 18, len(updates), 1, down=36)
    output = Grid(x + 112, top, GRID[0], 1, down=36)
    arrows = []
    for r, update in enumerate(updates):
        line = colour_of(update - size).line
        rows = np.flatnonzero(moved == update)
        if len(rows):
            arrows.append(arrow(line, given.behind(r, 0), named.behind(r, 0), output.before(rows[0], 4)))
        else:
            arrows.append(note(named.behind(r, 5), "dropped"))
    return element(
        "g",
        text(x, top - 20, f"column {c}", font_weight="600"),
        *arrows,
        cells(f"updates column {c}", given, *named_updates(updates, size)),
        row_numbers(output, behind=True),
        pills(f"indices column {c}", named, WRITTEN[:, c], updates - size),
        cells(f"output column {c}", output, *named_updates(moved, size)),
    )
