"""The pictures of `depth_to_space` and `space_to_depth`. Eight channels of 2 x 3 are two of 4 x 6."""

import numpy as np
from cells import Grid, cells, outline
from colours import FAINT
from sources import LETTERS, positions
from svg import MARGIN, Element, card, code, element, rule, text

import dml_jax

BLOCK, PIXELS = 2, 2 * 3
DEPTH, SPACE = (1, 8, 2, 3), (1, 2, 4, 6)
# ONNX's name of each order, and the channel k of what lies in channel c, row y and column x of a block.
ORDERS = {
    "DEPTH_COLUMN_ROW": ("DCR", "(y*2 + x)*2 + c"),
    "COLUMN_ROW_DEPTH": ("CRD", "(c*2 + y)*2 + x"),
}
FOLLOWED = "b"  # the pixel that is outlined wherever its elements are
LEGEND = (
    "Letter: the block; b is outlined.",
    "Number and colour: the channel c, and the row y",
    "and column x in the block, as (c*2 + y)*2 + x.",
)


def depth_to_space() -> Element:
    """Eight channels become two, in both orders."""
    source = positions(DEPTH)
    channels, pixels = np.divmod(source.ravel(), PIXELS)
    labels = np.char.add(channels.astype(str), LETTERS[pixels])
    drawn, said = [], []
    for number, order in enumerate(ORDERS):
        moved = np.asarray(dml_jax.depth_to_space(source, BLOCK, order=order))[0]
        x = MARGIN + number * 350
        drawn += [_order(x, 290, order), *_pictures(order, x, 308, labels[moved], channels[moved])]
        drawn += [_from(x + k * 164, 430, channels[moved[k]]) for k in range(SPACE[1])]
        said.append(f"{order}: " + "; ".join(f"channel {k} from {_list(channels[moved[k]])}" for k in range(SPACE[1])))
    return card(
        "depth_to_space(input, block_size=2, order=...)",
        "output[n, c, h*2 + y, w*2 + x] = input[n, k, h, w]",
        (
            "Four channels become blocks of 2 x 2 pixels; the order says which channel k goes where.",
            "Number and colour: the channel of input. Letter: the pixel of input; b is outlined.",
        ),
        f"What becomes of eight channels of 2 x 3 pixels. {'. '.join(said)}.",
        456,
        _name(MARGIN, 140, "input", DEPTH),
        *_planes("input", 168, labels, channels),
        rule(232),
        _name(MARGIN, 260, "output", SPACE),
        *drawn,
    )


def space_to_depth() -> Element:
    """Two channels become eight, in both orders."""
    source = positions(SPACE)
    c, row, column = np.indices(SPACE[1:]).reshape(3, -1)
    y, x = row % BLOCK, column % BLOCK
    places = (c * BLOCK + y) * BLOCK + x
    labels = np.char.add(places.astype(str), LETTERS[row // BLOCK * DEPTH[3] + column // BLOCK])
    drawn, said = [], []
    for number, order in enumerate(ORDERS):
        moved = np.asarray(dml_jax.space_to_depth(source, BLOCK, order=order))[0]
        top = 320 + number * 128
        drawn += [_order(MARGIN, top, order), *_planes(order, top + 38, labels[moved], places[moved])]
        first = moved[:, 0, 0]
        origins = [f"c{c[p]} y{y[p]} x{x[p]}" for p in first]
        drawn += [_below(Grid(_plane_x(k), top + 38, 2, 3), origin) for k, origin in enumerate(origins)]
        said.append(f"{order}: channels from {', '.join(origins)}")
    return card(
        "space_to_depth(input, block_size=2, order=...)",
        "output[n, k, h, w] = input[n, c, h*2 + y, w*2 + x]",
        ("Each block of 2 x 2 pixels becomes four channels. Undoes depth_to_space with the same order.",),
        f"What becomes of two channels of 4 x 6 pixels; c is a channel, y and x a place in a block. {'. '.join(said)}.",
        576,
        _name(MARGIN, 124, "input", SPACE),
        *_pictures("input", MARGIN, 140, labels.reshape(SPACE[1:]), places.reshape(SPACE[1:])),
        *(text(376, 172 + 19 * n, line, fill=FAINT) for n, line in enumerate(LEGEND)),
        rule(262),
        _name(MARGIN, 290, "output", DEPTH),
        *drawn,
    )


def _name(x: float, y: float, name: str, sizes: tuple[int, ...]) -> Element:
    return element("g", text(x, y, name, font_weight="600"), code(x + 56, y, str(sizes), fill=FAINT))


def _order(x: float, y: float, order: str) -> Element:
    short, channel = ORDERS[order]
    name = code(x, y, order, font_weight="600")
    return element("g", name, code(x + 132, y, short, fill=FAINT), code(x + 172, y, f"k = {channel}", fill=FAINT))


def _plane_x(channel: int) -> float:
    return MARGIN + channel * 84.6


def _planes(name: str, y: float, labels: np.ndarray, sources: np.ndarray) -> list[Element]:
    """Eight small channels side by side."""
    labels, sources = labels.reshape(DEPTH[1:]), sources.reshape(DEPTH[1:])
    drawn = []
    for channel in range(DEPTH[1]):
        grid = Grid(_plane_x(channel), y, *DEPTH[2:])
        drawn.append(text(grid.middle, y - 8, f"channel {channel}", text_anchor="middle", fill=FAINT, font_size=11))
        drawn.append(cells(f"{name} channel {channel}", grid, labels[channel], sources[channel]))
        drawn += [outline(grid, *at) for at in np.argwhere(np.char.endswith(labels[channel], FOLLOWED))]
    return drawn


def _pictures(name: str, x: float, y: float, labels: np.ndarray, sources: np.ndarray) -> list[Element]:
    """Two large channels side by side, their blocks apart."""
    drawn = []
    for channel in range(SPACE[1]):
        grid = Grid(x + channel * 164, y, *SPACE[2:], block=BLOCK, apart=4)
        drawn.append(cells(f"{name} channel {channel}", grid, labels[channel], sources[channel]))
        row, column = np.argwhere(np.char.endswith(labels[channel], FOLLOWED))[0]
        drawn.append(outline(grid, row, column, BLOCK, BLOCK))
    return drawn


def _from(x: float, y: float, channels: np.ndarray) -> Element:
    return text(x, y, f"from channels {_list(channels)}", fill=FAINT, font_size=11)


def _below(grid: Grid, content: str) -> Element:
    return code(grid.middle, grid.bottom + 16, content, text_anchor="middle", fill=FAINT, font_size=10.5)


def _list(numbers: np.ndarray) -> str:
    return ", ".join(map(str, np.unique(numbers)))
