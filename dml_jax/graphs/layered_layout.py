"""Layered graph layout (Sugiyama): boxes from top to bottom, labelled edges, no edge across a box or a label.

Boxes stand in every second layer, labels in those between. What an edge passes on its way, its label and a point in
every other layer, takes part in the layout like a box; so lines only meet each other, and only between two layers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple

Point = tuple[float, float]

# Pixels between the items of a layer, and between layers whose lines are upright; times that layers are visited.
BESIDE, BETWEEN, SWEEPS = 22.0, 22.0, 12


class Size(NamedTuple):
    """The size of a box, of a label, or of the drawing."""

    width: float
    height: float


# The size of a dummy node, for an edge that passes a layer.
POINT = Size(0.0, 0.0)


class Edge(NamedTuple):
    """An edge between two boxes, by their numbers, and the size of its label."""

    source: int
    reader: int
    label: Size


class Rect(NamedTuple):
    """The rectangle of a box or a label."""

    left: float
    top: float
    width: float
    height: float


class Layout(NamedTuple):
    """The rectangles of boxes and labels, and the routes of edges.

    Args:
      size: of the whole.
      boxes: in the order given.
      labels: of the edges, in the order given.
      routes: for every edge the points from its source to its label, and those from there to its reader. Two points
        are one above the other, or lie on both sides of the space between two layers.
    """

    size: Size
    boxes: list[Rect]
    labels: list[Rect]
    routes: list[tuple[list[Point], list[Point]]]


def arrange(boxes: Sequence[Size], edges: Sequence[Edge]) -> Layout:
    """Lays out boxes in topological order: an edge leads from a box to a later one."""
    items = [_Item(size, 2 * rank) for size, rank in zip(boxes, _ranks(len(boxes), edges), strict=True)]
    chains = [_chain(items[edge.source], items[edge.reader], edge.label) for edge in edges]
    passed = [item for chain in chains for item in chain[1:-1]]
    layers: list[list[_Item]] = [[] for _ in range(1 + max(item.layer for item in items))]
    for item in (*items, *passed):
        layers[item.layer].append(item)
    _order(layers)
    _place_across(layers)
    bounds = _place_down(layers)
    every = [item.rect for layer in layers for item in layer]
    size = Size(max(rect.left + rect.width for rect in every), bounds[-1][1])
    routes = [(_route(chain[:-1], bounds), _route(chain[-2:], bounds)) for chain in chains]
    return Layout(size, [item.rect for item in items], [chain[-2].rect for chain in chains], routes)


@dataclass(eq=False)
class _Item:
    """A box, a label, or a dummy node of an edge: x is its middle, `place` its position in the layer, from 0 to 1."""

    size: Size
    layer: int
    above: list[_Item] = field(default_factory=list)
    below: list[_Item] = field(default_factory=list)
    place: float = 0.0
    before: int = 0
    after: int = 0
    x: float = 0.0
    top: float = 0.0

    @property
    def rect(self) -> Rect:
        return Rect(self.x - self.size.width / 2, self.top, *self.size)

    def end(self, other: _Item, others: list[_Item]) -> float:
        """Returns x where the line to a neighbour ends: the lines share the side of the box, from left to right."""
        place = sorted(others, key=lambda item: item.x).index(other)
        return self.x + self.size.width * ((place + 1) / (len(others) + 1) - 0.5)


def _ranks(count: int, edges: Sequence[Edge]) -> list[int]:
    """Returns the rank of each box: its longest path from a source; a source is one above its nearest reader."""
    ranks = [0] * count
    for edge in sorted(edges, key=lambda edge: edge.reader):
        ranks[edge.reader] = max(ranks[edge.reader], ranks[edge.source] + 1)
    nearest: dict[int, int] = {}
    for edge in edges:
        nearest[edge.source] = min(nearest.get(edge.source, count), ranks[edge.reader] - 1)
    led_to = {edge.reader for edge in edges}
    return [rank if box in led_to else nearest.get(box, 0) for box, rank in enumerate(ranks)]


def _chain(source: _Item, reader: _Item, label: Size) -> list[_Item]:
    """Returns the items of an edge: a dummy node in each layer that it passes, and its label in the last one."""
    layers = range(source.layer + 1, reader.layer)
    passed = [_Item(label if layer == layers[-1] else POINT, layer) for layer in layers]
    chain = [source, *passed, reader]
    for upper, lower in pairwise(chain):
        upper.below.append(lower)
        lower.above.append(upper)
    return chain


def _order(layers: list[list[_Item]]) -> None:
    """Reduces crossings by barycentres: sorts layers by neighbours above and below in turns, keeps the best order."""
    _number(layers)
    orders: list[tuple[int, list[list[_Item]]]] = []
    for sweep in range(SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            middles = {item: _mean(i.place for i in (item.below if sweep % 2 else item.above)) for item in layer}
            layer.sort(key=lambda item: item.place if (middle := middles[item]) is None else middle)
            _number([layer])
        orders.append((sum(map(_crossings, layers)), [[*layer] for layer in layers]))
    layers[:] = min(orders, key=lambda one: one[0])[1]


def _crossings(layer: list[_Item]) -> int:
    """Counts the crossings of lines below a layer."""
    count, ends = 0, []
    for item in layer:
        places = [lower.place for lower in item.below]
        count += sum(len(ends) - bisect_right(ends, place) for place in places)
        ends = sorted([*ends, *places])
    return count


def _number(layers: Iterable[list[_Item]]) -> None:
    for layer in layers:
        for place, item in enumerate(layer):
            item.place = (place + 0.5) / len(layer)


def _place_across(layers: list[list[_Item]]) -> None:
    """Sets x: moves items towards neighbours above and below in turns; last, boxes and labels towards both."""
    _weigh(layers)
    for sweep in range(SWEEPS + 1):
        down, last = sweep % 2 == 0, sweep == SWEEPS
        for layer in layers if down else reversed(layers):
            wanted = [_wanted(item, down, not down or (last and item.size != POINT)) for item in layer]
            _spread(layer, wanted, [item.before * item.after for item in layer])
    least = min(item.rect.left for layer in layers for item in layer)
    for item in (item for layer in layers for item in layer):
        item.x -= least


def _weigh(layers: list[list[_Item]]) -> None:
    """Weighs items by their longest paths from above and below: short chains give way to long ones.

    Otherwise a long chain would step aside for each output and constant beside it, always in the same direction.
    """
    for layer in layers:
        for item in layer:
            item.before = 1 + max((other.before for other in item.above), default=0)
    for layer in reversed(layers):
        for item in layer:
            item.after = 1 + max((other.after for other in item.below), default=0)
    for item in (item for layer in layers for item in layer):
        item.before, item.after = item.before**3, item.after**3


def _wanted(item: _Item, above: bool, below: bool) -> float:
    """Returns the weighted mean x of the neighbours; without neighbours the item's own x."""
    pulls = [(other.x, other.before) for other in item.above if above]
    pulls += [(other.x, other.after) for other in item.below if below]
    return sum(x * weight for x, weight in pulls) / sum(weight for _, weight in pulls) if pulls else item.x


def _spread(layer: list[_Item], wanted: list[float], weights: list[int]) -> None:
    """Places items in order, without overlap, as near as possible to `wanted`; items that collide move as a group."""
    steps = [(left.size.width + right.size.width) / 2 + BESIDE for left, right in pairwise(layer)]
    offsets = list(accumulate(steps, initial=0.0))
    groups: list[tuple[float, int, int]] = []  # the first place wanted for all of a group, its weight, how many it has
    for want, weight, offset in zip(wanted, weights, offsets, strict=True):
        groups.append((want - offset, weight, 1))
        while len(groups) > 1 and groups[-2][0] > groups[-1][0]:
            (one, weight_one, count), (other, weight_other, more) = groups[-2:]
            total = weight_one + weight_other
            groups[-2:] = [((one * weight_one + other * weight_other) / total, total, count + more)]
    firsts = [first for first, _, count in groups for _ in range(count)]
    for item, first, offset in zip(layer, firsts, offsets, strict=True):
        item.x = first + offset


def _place_down(layers: list[list[_Item]]) -> list[tuple[float, float]]:
    """Sets y, layer below layer, with more space where lines run far sideways; returns top and bottom of each layer."""
    top, bounds = 0.0, []
    for layer in layers:
        height = max(item.size.height for item in layer)
        for item in layer:
            item.top = top + (height - item.size.height) / 2
        bounds.append((top, top + height))
        reach = max((abs(item.x - other.x) for item in layer for other in item.below), default=0)
        top += height + BETWEEN + min(reach / 10, 3 * BETWEEN)
    return bounds


def _route(chain: list[_Item], bounds: list[tuple[float, float]]) -> list[Point]:
    """Returns the points of a line from the bottom of a chain's first item to the top of its last one."""
    points: list[Point] = []
    for upper, lower in pairwise(chain):
        start, end = upper.end(lower, upper.below), lower.end(upper, lower.above)
        bottom, top = bounds[upper.layer][1], bounds[lower.layer][0]
        points += (start, upper.top + upper.size.height), (start, bottom), (end, top), (end, lower.top)
    return list(dict.fromkeys(points))


def _mean(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else None
