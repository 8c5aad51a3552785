"""Pictures of calls: the arrays that go in, an arrow with the attributes, the arrays that come out.

The derivative of a call says where each element of its output came from: which elements of the data have a part in it.
A copy takes the label and the colour of its source; a sum shows its number, in the colour that its sources share.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from textwrap import shorten
from typing import NamedTuple

import jax
import numpy as np
from cells import PITCH, Grid, capsules, cells, heading, pills
from colours import FAINT
from sources import LETTERS, NOWHERE, positions
from svg import MARGIN, Element, arrow, card, code

import dml_jax

HEAD, LINE, GAP = 34, 17, 22


@dataclass(frozen=True)
class Array:
    """An argument. Floats are data: each has a colour, and a letter or else its number. Integers are indices."""

    values: np.ndarray
    hues: np.ndarray
    names: np.ndarray | None = None

    @property
    def moves(self) -> bool:
        """Whether it is data."""
        return self.values.dtype.kind == "f"

    @property
    def labels(self) -> np.ndarray:
        """What its cells say."""
        return _written(self.values) if self.names is None else self.names


def letters(*sizes: int, axis: int | None = 0, first: int = 0, names: np.ndarray = LETTERS) -> Array:
    """Data with a colour per coordinate along an axis, or with one for all of it."""
    values = positions(sizes)
    hues = np.zeros(sizes, int) if axis is None else np.indices(sizes)[axis]
    return Array(np.float32(values), first + hues, names[values])


def numbers(values: object, hues: object) -> Array:
    """Data that is computed with, and its colours, which are broadcast."""
    return Array(np.float32(values), np.broadcast_to(hues, np.shape(values)))


def indices(values: object, hues: object = NOWHERE, dtype: type = np.int32) -> Array:
    """Indices, lengths or conditions, and their colours, which are broadcast."""
    return Array(np.asarray(values, dtype), np.broadcast_to(hues, np.shape(values)))


class Picture(NamedTuple):
    """The rule and lines of prose, the arguments of each call, and the names of the outputs.

    An output of integers has a function that says at which element of the data each row of it points, or each number.
    """

    formula: str
    lines: tuple[str, ...]
    calls: tuple[dict[str, object], ...]
    outputs: Mapping[str, Callable[[np.ndarray], np.ndarray] | None] = {"output": None}


class Drawn(NamedTuple):
    """An array as it is drawn: that of integers round."""

    name: str
    values: np.ndarray
    labels: np.ndarray
    hues: np.ndarray

    @property
    def sizes(self) -> tuple[int, int]:
        """Rows of the last dimension."""
        columns = self.values.shape[-1] if self.values.ndim else 1
        return self.values.size // columns, columns

    @property
    def width(self) -> float:
        """That of the cells or of the heading."""
        return max(self.sizes[1] * PITCH, 8.6 * len(self.name), 7.3 * len(str(self.values.shape)))

    @property
    def height(self) -> float:
        """That of the heading and the cells."""
        return HEAD + self.sizes[0] * PITCH

    def at(self, x: float, middle: float, call: int) -> list[Element]:
        """The heading and the cells."""
        rows, columns = self.sizes
        top = middle - self.height / 2
        grid = Grid(x + (self.width - columns * PITCH) / 2 + 1, top + HEAD, rows, columns)
        kind = cells if self.values.dtype.kind == "f" else pills if self.hues.size == self.labels.size else capsules
        drawn = kind(f"{call} {self.name}", grid, self.labels.reshape(rows, columns), self.hues.ravel())
        return [heading(grid, self.name, self.values.shape, top + 9), drawn]


def picture(name: str, kind: Picture) -> Element:
    """The picture of an operator: its calls, one below the other."""
    taken = [_inputs(arguments) for arguments in kind.calls]
    made = [_outputs(getattr(dml_jax, name), arguments, kind) for arguments in kind.calls]
    said = [[_said(*argument) for argument in call.items() if not _arrays(argument)] for call in kind.calls]
    start = MARGIN + max(map(_width, taken))
    end = start + max([60, *(7.3 * len(line) for lines in said for line in lines)])
    y, drawn = 96 + 18 * len(kind.lines), []
    for call, (inputs, outputs, lines) in enumerate(zip(taken, made, said, strict=True)):
        height = max(HEAD + LINE * len(lines) + 8, *(array.height for array in inputs + outputs))
        middle = y + height / 2
        drawn += [*_beside(inputs, MARGIN, middle, call), *_beside(outputs, end + GAP, middle, call)]
        drawn += _arrow(lines, start, end, middle + HEAD / 2)
        y += height + GAP
    arguments = ", ".join(dict.fromkeys(key for call in kind.calls for key in call))
    tales = [f"{_told(i)} {', '.join(lines)} gives {_told(o)}." for i, o, lines in zip(taken, made, said, strict=True)]
    title = shorten(f"{name}({arguments})", 66, placeholder=" ...)")
    return card(title, kind.formula, kind.lines, " ".join((*kind.lines, *tales)), y + 4, *drawn)


def _arrays(value: object) -> list[Array]:
    """The arrays of an argument, or of all of them."""
    return [leaf for leaf in jax.tree.leaves(value) if isinstance(leaf, Array)]


def _inputs(arguments: dict[str, object]) -> list[Drawn]:
    found = [(name, value, _arrays(value)) for name, value in arguments.items()]
    named = [(name if value is a else f"{name}[{k}]", a) for name, value, arrays in found for k, a in enumerate(arrays)]
    return [Drawn(name, array.values, array.labels, array.hues) for name, array in named]


def _outputs(function: Callable, arguments: dict[str, object], kind: Picture) -> list[Drawn]:
    # The last one has a part in nothing: there must be something to differentiate by.
    data = [*(array for array in _arrays(arguments) if array.moves), numbers([0], NOWHERE)]
    labels, hues = (np.concatenate([np.ravel(getattr(a, key)) for a in data]) for key in ("labels", "hues"))
    outputs, jacobians = _derived(function, arguments, data)
    drawn = []
    for (name, element_at), output in zip(kind.outputs.items(), outputs, strict=True):
        if output.dtype.kind == "f":
            parts = np.concatenate([np.reshape(part, (output.size, -1)) for part in jacobians.pop(0)], 1)
            cells_of = [_cell(value, part, labels, hues) for value, part in zip(output.ravel(), parts, strict=True)]
            shown = np.array([label for label, _ in cells_of]), np.array([hue for _, hue in cells_of])
        else:
            shown = _written(output), hues[element_at(output)] if element_at else np.full(output.shape, NOWHERE)
        drawn.append(Drawn(name, output, *shown))
    return drawn


def _derived(function: Callable, arguments: dict[str, object], data: list[Array]) -> tuple[list, list]:
    """In NumPy, the outputs, and the derivatives of those that have them by each array of the data."""

    def call(values: list[jax.Array]) -> tuple[list, list]:
        moved = iter(values)

        def given(leaf: object) -> object:
            return leaf if not isinstance(leaf, Array) else next(moved) if leaf.moves else leaf.values

        outputs = jax.tree.leaves(function(**jax.tree.map(given, arguments)))
        return [output for output in outputs if output.dtype.kind == "f"], outputs

    jacobians, outputs = jax.jit(jax.jacfwd(call, has_aux=True))([array.values for array in data])
    return jax.device_get((outputs, jacobians))


def _cell(value: float, parts: np.ndarray, labels: np.ndarray, hues: np.ndarray) -> tuple[str, int]:
    """The label and the colour of an element, of which each element of the data is a part or not."""
    sources = np.flatnonzero(parts)
    label = labels[sources[0]] if len(sources) == 1 and parts[sources[0]] == 1 else f"{value:g}"
    return label, hues[sources[0]] if len({*hues[sources]}) == 1 else NOWHERE


def _written(values: np.ndarray) -> np.ndarray:
    """Numbers as cells show them."""
    return np.array([f"{value:g}" for value in values.ravel()]).reshape(values.shape)


def _beside(arrays: list[Drawn], x: float, middle: float, call: int) -> Iterator[Element]:
    """Arrays from left to right, around a level."""
    for array in arrays:
        yield from array.at(x, middle, call)
        x += array.width + GAP


def _width(arrays: list[Drawn]) -> float:
    return sum(array.width + GAP for array in arrays)


def _arrow(lines: list[str], start: float, end: float, y: float) -> list[Element]:
    """The attributes above an arrow, which together lie around a level."""
    y += LINE * len(lines) / 2
    above = [code(start, y - 8 - LINE * n, line, font_size=12) for n, line in enumerate(reversed(lines))]
    return [*above, arrow(FAINT, (start, y), (end, y))]


def _said(name: str, value: object) -> str:
    """An attribute, with quotes as in the documentation."""
    return f"{name}={value!r}".replace("'", '"')


def _told(arrays: list[Drawn]) -> str:
    return " and ".join(f"{array.name} {array.values.shape}" for array in arrays)
