"""Pictures of docs/pictures: they are up to date, and agree with NumPy."""

import importlib
import re

import numpy as np
import pytest
from picture_cells import NAMES, PICTURES, Cell, arrays, root
from svg_geometry import (
    SVG,
)

from dml_jax.catalogue import FUNCTIONS


@pytest.fixture(scope="module")
def draw():
    """The program that draws, which imports its neighbours."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PICTURES))
        yield importlib.import_module("draw")


@pytest.mark.exhaustive
def test_the_files_are_what_is_drawn(draw):
    assert draw.differing(PICTURES, draw.drawn()) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_page_of_the_operator_shows_the_picture(name):
    assert f"](../pictures/{name}.svg)" in (PICTURES.parent / f"operators/{name}.md").read_text()


# The pages that have no picture.
WITHOUT = {
    "activate": "everything stays where it is",
    "add": "everything stays where it is",
    "cast": "it changes numbers, not places: a table says it",
    "clip": "everything stays where it is",
    "convolution": "it adds up products, which a formula says",
    "fill_value_constant": "one number everywhere",
    "fill_value_sequence": "a formula of the place",
    "grid_sample": "positions are data: formulae say what is around them",
    "gemm": "it adds up products, which a formula says",
    "average_pooling": "the page of unfold has one of the same windows",
    "local_response_normalization": "it computes, which a formula says",
    "lp_pooling": "the page of unfold has one of the same windows",
    "max_pooling": "the page of unfold has one of the same windows",
    "reduce": "a formula per function",
    "identity": "everything stays where it is",
    "random_bits": "it computes, which a formula says",
    "roi_pooling": "a formula says which pixels a cell has",
    "roi_align": "samples lie between pixels, which a formula says",
    "rnn": "it adds up products, which a formula says",
    "value_scale_2d": "everything stays where it is",
}


def test_every_other_page_of_a_function_has_a_picture():
    assert FUNCTIONS.keys() - set(NAMES) == set(WITHOUT)


@pytest.mark.exhaustive
def test_check_names_what_is_changed_missing_and_superfluous(draw, tmp_path, capsys):
    draw.main([], tmp_path)
    assert capsys.readouterr().out.splitlines() == [f"wrote {tmp_path / name}" for name in draw.drawn()]
    draw.main(["--check"], tmp_path)
    changed = (tmp_path / "gather.svg").read_bytes()[:-1]
    (tmp_path / "gather.svg").write_bytes(changed)
    (tmp_path / "scatter_nd.svg").unlink()
    (tmp_path / "another.svg").write_bytes(b"")
    with pytest.raises(SystemExit, match=r"^not what would be drawn: another.svg, gather.svg, scatter_nd.svg$"):
        draw.main(["--check"], tmp_path)
    assert (tmp_path / "gather.svg").read_bytes() == changed


# What the cells say: NumPy moves pairs of label and colour.


def shaped(cells, *sizes):
    """Cells as an array of objects."""
    array = np.empty(len(cells), object)
    array[:] = cells
    return array.reshape(sizes)


def channels(found, name, count, *sizes):
    """Grids of channels as one array."""
    return np.stack([shaped(found[f"{name} channel {k}"], *sizes) for k in range(count)])


def numbers(cells):
    """The indices that cells show."""
    return [tuple(map(int, cell.label.split())) for cell in cells]


def in_range(index, size):
    """From the end if negative, then clamped."""
    return min(max(index + size if index < 0 else index, 0), size - 1)


DEPTH_OF = {
    "DEPTH_COLUMN_ROW": lambda c, y, x: y * 4 + x * 2 + c,
    "COLUMN_ROW_DEPTH": lambda c, y, x: c * 4 + y * 2 + x,
}


@pytest.mark.parametrize("order", DEPTH_OF)
def test_depth_to_space(order):
    found = arrays("depth_to_space")
    depth, space = channels(found, "input", 8, 2, 3), channels(found, order, 2, 4, 6)
    for c, row, column in np.ndindex(space.shape):
        channel = DEPTH_OF[order](c, row % 2, column % 2)
        assert space[c, row, column] == depth[channel, row // 2, column // 2]


@pytest.mark.parametrize("order", DEPTH_OF)
def test_space_to_depth(order):
    found = arrays("space_to_depth")
    space, depth = channels(found, "input", 2, 4, 6), channels(found, order, 8, 2, 3)
    for c, row, column in np.ndindex(space.shape):
        channel = DEPTH_OF[order](c, row % 2, column % 2)
        assert depth[channel, row // 2, column // 2] == space[c, row, column]


@pytest.mark.parametrize(("name", "side"), [("depth_to_space", "input"), ("space_to_depth", "COLUMN_ROW_DEPTH")])
def test_a_channel_has_one_colour_of_its_own(name, side):
    found = arrays(name)
    colours = [{cell.colour for cell in found[f"{side} channel {k}"]} for k in range(8)]
    assert [len(one) for one in colours] == [1] * 8
    assert len(set.union(*colours)) == 8
    assert len({cell.label for k in range(8) for cell in found[f"{side} channel {k}"]}) == 48


@pytest.mark.parametrize("name", ["depth_to_space", "space_to_depth"])
def test_the_formulas_of_the_orders(name):
    texts = [text.text for text in root(name).iter(f"{SVG}text")]
    shown = dict(zip(*([t for t in texts if t in DEPTH_OF], [t for t in texts if t.startswith("k = ")]), strict=True))
    assert list(shown) == list(DEPTH_OF)
    for order, formula in shown.items():
        for c, y, x in np.ndindex(2, 2, 2):
            assert eval(formula.removeprefix("k = "), {"c": c, "y": y, "x": x}) == DEPTH_OF[order](c, y, x)


def test_where_channels_come_from():
    texts = [text.text for text in root("depth_to_space").iter(f"{SVG}text")]
    assert [t for t in texts if t.startswith("from")] == [
        "from channels " + ", ".join(str(k) for k in sorted(depth(c, y, x) for y in range(2) for x in range(2)))
        for depth in DEPTH_OF.values()
        for c in range(2)
    ]
    places = [t.text for t in root("space_to_depth").iter(f"{SVG}text") if re.fullmatch(r"c\d y\d x\d", t.text)]
    of_channel = [{depth(c, y, x): f"c{c} y{y} x{x}" for c, y, x in np.ndindex(2, 2, 2)} for depth in DEPTH_OF.values()]
    assert places == [by_channel[k] for by_channel in of_channel for k in range(8)]


def test_gather_of_rows():
    found = arrays("gather")
    table, output = shaped(found["rows input"], 4, 3), shaped(found["rows output"], 6, 3)
    indices = numbers(found["rows indices"])
    assert [len({cell.colour for cell in row}) for row in table] == [1] * 4
    assert len({cell.colour for cell in table[:, 0]}) == 4
    assert any(index < 0 for (index,) in indices)
    assert any(index >= 4 for (index,) in indices)
    for q, (index,) in enumerate(indices):
        row = in_range(index, 4)
        assert list(output[q]) == list(table[row])
        assert found["rows indices"][q].colour == table[row, 0].colour
    texts = [text.text for text in root("gather").iter(f"{SVG}text")]
    assert [t for t in texts if t.startswith(("from", "clamped"))] == ["from the end: 3", "clamped to 3"]
    assert indices[3:] == [(-1,), (1,), (9,)]  # which these two notes are about


def test_gather_of_columns():
    found = arrays("gather")
    table, output = shaped(found["columns input"], 4, 3), shaped(found["columns output"], 4, 4)
    assert len({cell.colour for cell in table[0]}) == 3
    for q, (index,) in enumerate(numbers(found["columns indices"])):
        assert list(output[:, q]) == list(table[:, in_range(index, 3)])
        assert found["columns indices"][q].colour == output[0, q].colour


def test_gather_elements():
    found = arrays("gather_elements")
    source, output = shaped(found["input"], 3, 4), shaped(found["output"], 2, 4)
    indices = shaped(numbers(found["indices"]), 2, 4)
    assert [len({cell.colour for cell in row}) for row in source] == [1] * 3
    assert len({cell.colour for cell in source[:, 0]}) == 3
    for r, c in np.ndindex(output.shape):
        assert output[r, c] == source[in_range(indices[r, c][0], 3), c]
        assert found["indices"][r * 4 + c].colour == output[r, c].colour
    for c in range(4):
        assert found[f"input column {c}"] == list(source[:, c])
        assert found[f"indices column {c}"] == found["indices"][c::4]
        assert found[f"output column {c}"] == list(output[:, c])
    assert [c.label for c in found["not a row's number"]] == ["-1", "7"]


def test_gather_nd():
    found = arrays("gather_nd")
    source = shaped(found["elements input"], 3, 4)
    assert len({cell.colour for cell in found["elements output"]}) == len(found["elements output"])
    for q, (row, column) in enumerate(numbers(found["elements indices"])):
        assert found["elements output"][q] == source[in_range(row, 3), in_range(column, 4)]
        assert found["elements indices"][q].colour == found["elements output"][q].colour
    rows, output = shaped(found["rows input"], 3, 4), shaped(found["rows output"], 3, 4)
    assert [len({cell.colour for cell in row}) for row in rows] == [1] * 3
    assert len({cell.colour for cell in rows[:, 0]}) == 3
    for q, (row,) in enumerate(numbers(found["rows indices"])):
        assert list(output[q]) == list(rows[in_range(row, 3)])
        assert found["rows indices"][q].colour == output[q, 0].colour


def plain():
    """The elements that nothing is written over, as the picture of scatter_elements shows them."""
    return shaped(arrays("scatter_elements")["input"], 3, 4)


def wrapped(index, size):
    return index + size if index < 0 else index


def test_scatter_elements():
    found = arrays("scatter_elements")
    expected, updates = plain(), shaped(found["updates"], 2, 4)
    assert len({cell.colour for cell in expected.ravel()}) == 1
    assert len({cell.colour for cell in updates.ravel()}) == 8
    dropped = 0
    for (r, c), (index,) in zip(np.ndindex(2, 4), numbers(found["indices"]), strict=True):
        assert found["indices"][r * 4 + c].colour == updates[r, c].colour
        if 0 <= wrapped(index, 3) < 3:
            expected[wrapped(index, 3), c] = updates[r, c]
        else:
            dropped += 1
    assert found["output"] == list(expected.ravel())
    for c in range(4):
        assert found[f"updates column {c}"] == list(updates[:, c])
        assert found[f"indices column {c}"] == found["indices"][c::4]
        assert found[f"output column {c}"] == list(expected[:, c])
    assert [t.text for t in root("scatter_elements").iter(f"{SVG}text")].count("dropped") == dropped == 1


def test_scatter_nd():
    found = arrays("scatter_nd")
    elements, rows, dropped = plain(), plain(), 0
    for q, (row, column) in enumerate(numbers(found["elements indices"])):
        assert found["elements indices"][q].colour == found["elements updates"][q].colour
        if 0 <= wrapped(row, 3) < 3:
            elements[wrapped(row, 3), column] = found["elements updates"][q]
        else:
            dropped += 1
    assert found["elements output"] == list(elements.ravel())
    updates = shaped(found["rows updates"], 2, 4)
    assert len({cell.colour for cell in updates[:, 0]}) == 2
    for q, (row,) in enumerate(numbers(found["rows indices"])):
        rows[row] = updates[q]
        assert found["rows indices"][q].colour == updates[q, 0].colour
    assert found["rows output"] == list(rows.ravel())
    assert [t.text for t in root("scatter_nd").iter(f"{SVG}text")].count("dropped") == dropped == 1


def layouts():
    """Sizes, strides and offset that are printed in each layout of as_strided, by its name."""
    printed = {}
    for group in root("as_strided").iter(f"{SVG}g"):
        name, *texts = [child.text for child in group if child.tag == f"{SVG}text"] or [None]
        if "strides" in texts:
            words = [text for text in texts if text in ("sizes", "strides", "offset")]
            values = [tuple(map(int, re.findall(r"\d+", text))) for text in texts if re.match(r"[(\d]", text)]
            printed[name] = {"offset": (0,), **dict(zip(words, values, strict=True))}
    return printed


def test_as_strided():
    found = arrays("as_strided")
    assert [f"{name} buffer" for name in layouts()] == [name for name in found if name.endswith("buffer")]
    assert len(layouts()) == 8
    for name, layout in layouts().items():
        buffer = found[f"{name} buffer"]
        coordinates = list(np.ndindex(layout["sizes"]))
        read = [int(layout["offset"][0] + np.dot(at, layout["strides"])) for at in coordinates]
        drawn = [cell for key, cells in found.items() if key.startswith(f"{name} view ") for cell in cells]
        assert drawn == [buffer[k] for k in read]
        coloured = 1 if len(layout["sizes"]) == 4 else 0  # the channels of a picture, else the rows
        first = {k: at[coloured] for k, at in zip(reversed(read), reversed(coordinates), strict=True)}
        pairs = {(first[k], buffer[k].colour) for k in first}
        assert len(pairs) == len({row for row, _ in pairs}) == len({colour for _, colour in pairs})
        unread = {buffer[k].colour for k in range(12) if k not in read}
        assert len(unread) <= 1
        assert not unread & {cell.colour for cell in drawn}


# The pictures of calls: NumPy moves positions, and every cell is the one whose position arrives in it.

PLAIN = "#f6f8fa"
NEW = -1  # the position of a 0, or of the number that a border is made of


def spread(x, sizes, places):
    output = np.full(sizes, NEW)
    output[places] = x
    return output


def padded(mode, **options):
    return lambda x: np.pad(x, ((1, 0), (2, 2)), mode, **options)


def windows(x, stride=1):
    views = np.lib.stride_tricks.sliding_window_view(x, (2, 2))[::stride, ::stride]
    return views.reshape(-1, 4).T


def outside(replaced):
    return lambda x: np.where(replaced(x), NEW, x)


# For each operator the sizes of the arrays that move, and what each call makes of them.
MOVES = {
    "as_strided_scatter": ({"buffer": (8,), "updates": (2, 3)}, lambda b, u: np.hstack([b[0], u[0], b[4], u[1]])),
    "slice": ({"input": (3, 4)}, lambda x: x[0:3:2, 1:4], lambda x: x[1:, ::-1]),
    "slice_grad": (
        {"input_gradient": (2, 2)},
        lambda x: spread(x, (3, 4), np.s_[0::2, 1::2]),
        lambda x: spread(x, (3, 4), np.s_[2:0:-1, :2]),
    ),
    "join": ({"inputs[0]": (3, 2), "inputs[1]": (3, 3)}, lambda a, b: np.hstack([a, b])),
    "split": ({"input": (3, 4)}, lambda x: np.split(x, [1], 1), lambda x: np.split(x, [2])),
    "tile": ({"input": (2, 3)}, lambda x: np.tile(x, (2, 3))),
    "one_hot": ({"values": (2,)}, lambda v: v[np.array([[0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]])]),
    "max_unpooling": ({"input": (2, 2)}, lambda x: spread(x.ravel(), 16, [5, 2, 8, 15])),
    "fill_diagonals": (
        {"input": (3, 4)},
        outside(lambda x: ~np.tri(3, 4, dtype=bool)),
        outside(lambda x: np.eye(3, 4) + np.eye(3, 4, 1) > 0),
        outside(lambda x: np.eye(3, 4) == 0),
    ),
    "unfold": (
        {"input": (3, 4)},
        windows,
        lambda x: windows(np.pad(x, ((1, 0), (0, 0)), constant_values=NEW), 2),
    ),
    "upsample_2d": ({"input": (2, 3)}, lambda x: x.repeat(2, 0).repeat(3, 1)),
    "resample": ({"input": (2, 3)}, lambda x: x[[0, 1, 1]].repeat(2, 1)),
    "select": ({"a": (2, 4), "b": (2, 4)}, lambda a, b: np.where(np.array([[1, 0, 0, 1], [0, 1, 0, 1]]), a, b)),
    "reverse_subsequences": (
        {"input": (3, 4)},
        lambda x: [[*row[:length][::-1], *row[length:]] for row, length in zip(x, (2, 4, 3), strict=True)],
    ),
    "pad": (
        {"input": (2, 3)},
        padded("constant", constant_values=NEW),
        *map(padded, ("edge", "reflect", "symmetric", "wrap")),
    ),
}


@pytest.mark.parametrize("name", MOVES)
def test_calls_that_move_elements(name):
    found, (sizes, *calls) = arrays(name), MOVES[name]
    counts = [int(np.prod(each)) for each in sizes.values()]
    firsts = np.cumsum([0, *counts])
    inputs = [first + np.arange(n).reshape(of) for first, n, of in zip(firsts, counts, sizes.values(), strict=False)]
    for call, move in enumerate(calls):
        taken = [cell for array in sizes for cell in found[f"{call} {array}"]]
        assert len({*taken}) == firsts[-1]  # so that a cell is its position
        cells = [*taken, Cell("9" if name == "pad" else "0", PLAIN)]
        outputs = move(*inputs) if name == "split" else [move(*inputs)]
        shown = [array for array in found if array.startswith(f"{call} output")]
        assert [found[array] for array in shown] == [[cells[k] for k in np.ravel(output)] for output in outputs]


def test_calls_are_all_checked():
    checked = {
        *MOVES,
        "diagonal_matrix",
        "top_k",
        "nonzero_coordinates",
        "cumulative_summation",
        "cumulative_product",
        "fold",
    }
    assert {name for name in NAMES if any(array[0].isdigit() for array in arrays(name))} == checked
    for name, (_, *calls) in MOVES.items():
        shown = {array[0] for array in arrays(name) if array[0].isdigit()}
        assert len(shown) == len(calls) + (name == "resample")  # the second of resample computes


def valued(cells, *sizes):
    """The numbers that cells of data show."""
    return np.reshape([float(cell.label) for cell in cells], sizes)


def colours(cells, *sizes):
    return np.reshape([cell.colour for cell in cells], sizes)


def test_indices_have_the_colours_of_what_they_are_about():
    pooled, chosen = arrays("max_unpooling"), arrays("select")
    assert numbers(pooled["0 indices"]) == [(5,), (2,), (8,), (15,)]
    assert [cell.colour for cell in pooled["0 indices"]] == [cell.colour for cell in pooled["0 input"]]
    assert [cell.colour for cell in chosen["0 condition"]] == [cell.colour for cell in chosen["0 output"]]
    assert [cell.label for cell in chosen["0 condition"]] == list("10010101")
    assert numbers(arrays("reverse_subsequences")["0 sequence_lengths"]) == [(2,), (4,), (3,)]
    assert numbers(arrays("one_hot")["0 indices"]) == [(1,), (-1,), (7,)]


def test_diagonal_matrix():
    found = arrays("diagonal_matrix")
    for call, offset in enumerate((1, -1)):
        assert (valued(found[f"{call} output"], 3, 4) == 7 * np.eye(3, 4, offset)).all()
        assert {cell.colour for cell in found[f"{call} output"]} == {PLAIN}


@pytest.mark.parametrize(("call", "sign"), [(0, -1), (1, 1)])
def test_top_k(call, sign):
    found = arrays("top_k")
    x = shaped(found[f"{call} input"], 2, 4)
    order = np.argsort(sign * valued(x.ravel(), 2, 4), 1, kind="stable")[:, :3]
    assert found[f"{call} values"] == list(np.take_along_axis(x, order, 1).ravel())
    assert [index for (index,) in numbers(found[f"{call} indices"])] == list(order.ravel())
    assert [cell.colour for cell in found[f"{call} indices"]] == [cell.colour for cell in found[f"{call} values"]]
    assert [len({*column}) for column in colours(x.ravel(), 2, 4).T] == [1] * 4


def test_nonzero_coordinates():
    found = arrays("nonzero_coordinates")
    x = shaped(found["0 input"], 2, 4)
    places = np.argwhere(valued(x.ravel(), 2, 4))
    assert [cell.label for cell in found["0 count"]] == [str(len(places))]
    rows = [Cell(f"{row} {column}", x[row, column].colour) for row, column in places]
    assert found["0 coordinates"] == rows + [Cell("0 0", PLAIN)] * (8 - len(places))
    assert len({cell.colour for cell in rows} | {PLAIN}) == len(rows) + 1


@pytest.mark.parametrize("name", ["cumulative_summation", "cumulative_product"])
def test_running_sums_and_products(name):
    found = arrays(name)
    running, nothing = {"cumulative_summation": (np.cumsum, 0), "cumulative_product": (np.cumprod, 1)}[name]
    x = valued(found["0 input"], 3, 4)
    first = np.full((3, 1), nothing)
    expected = running(x, 1), np.hstack([first, running(x, 1)[:, :-1]]), running(x[:, ::-1], 1)[:, ::-1]
    for call, output in enumerate(expected):
        hues = colours(found[f"{call} input"], 3, 4)
        assert [len({*row}) for row in hues] == [1] * 3
        hues[:, : call == 1] = PLAIN
        assert (valued(found[f"{call} input"], 3, 4) == x).all()
        assert (valued(found[f"{call} output"], 3, 4) == output).all()
        assert (colours(found[f"{call} output"], 3, 4) == hues).all()


def test_fold():
    found = arrays("fold")
    columns, sums, parts = shaped(found["0 input"], 4, 4), np.zeros((3, 3)), {}
    for w, b in np.ndindex(4, 4):
        place = b // 2 + w // 2, b % 2 + w % 2
        sums[place] += float(columns[w, b].label)
        parts.setdefault(place, set()).add(columns[w, b].colour)
    assert (valued(found["0 output"], 3, 3) == sums).all()
    expected = [next(iter(hues)) if len(hues) == 1 else PLAIN for _, hues in sorted(parts.items())]
    assert [cell.colour for cell in found["0 output"]] == expected
    assert expected.count(PLAIN) == 5


def test_resample_between_elements():
    found = arrays("resample")
    x, output = found["1 input"], found["1 output"]
    between = np.interp((np.arange(6) + 0.5) / 2 - 0.5, np.arange(3), valued(x, 3))
    assert (valued(output, 6) == between).all()
    assert [cell.colour for cell in output] == [x[0].colour, *[PLAIN] * 4, x[2].colour]
