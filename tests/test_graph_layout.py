"""Layout of drawn graphs: no overlaps, few crossings, and few bends."""

import random
import re
from itertools import combinations, pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from drawn_graphs import CHAIN, DIAMOND, FAN, GRAPHS, LONG_EDGE, box_groups, each_graph, ends, random_graph, texts
from svg_geometry import SCHEMES, SVG, Box, Text, apart, contrast, hits, laid_out, load_fonts, points, seen_in, within

from dml_jax import draw_graph
from dml_jax.graphs.layered_layout import Edge, Size, arrange
from dml_jax.graphs.svg import draw_graphs

fonts = pytest.fixture(scope="module")(load_fonts)
OTHER_SHAPES = {
    "several": {"one": LONG_EDGE, "two": DIAMOND, "three": FAN},
    "wide heading": {"a graph with a name that is wider": CHAIN},
}
PICTURES = {**{name: {name: graph} for name, graph in GRAPHS.items()}, **OTHER_SHAPES}
each_picture = pytest.mark.parametrize("graphs", PICTURES.values(), ids=PICTURES)


@pytest.mark.thinned
@each_picture
def test_nothing_is_cut_or_covered(graphs, fonts):
    """Boxes, texts and lines: none lies on another one of another kind, and all lie on the card."""
    root = ElementTree.fromstring(draw_graphs(graphs))
    drawn = list(laid_out(root, {}, fonts))
    card, *boxes = (one for one in drawn if isinstance(one, Box))
    written = [one for one in drawn if isinstance(one, Text)]
    inner = Box(card.left + 23.5, card.top + 15.5, card.right - 23.5, card.bottom - 15.5, card.colour, False)
    assert [one for one in (*written, *boxes) if not within(one, inner)] == []
    assert [pair for pair in combinations(boxes, 2) if not apart(*pair)] == []
    assert [pair for pair in combinations(written, 2) if not apart(*pair)] == []
    labels = [text for text in written if not any(within(text, box) for box in boxes)]
    assert [(text, box) for text in labels for box in boxes if not apart(text, box)] == []
    assert len(written) - len(labels) == sum(len(texts(group)) for group in box_groups(draw_graphs(graphs)))
    for part in root.find(f"{SVG}g").findall(f"{SVG}g"):
        down = complex(*map(float, re.findall(r"[\d.]+", part.get("transform"))))
        for path in part.iter(f"{SVG}path"):
            line = [point + down for point in points(path.get("d"))]
            crossed = [one for one in (*boxes, *labels) if any(hits(point, one) for point in line[1:-1])]
            assert [one for one in crossed if not apart(one, bounds(line))] == []


def bounds(line):
    real, imag = [point.real for point in line], [point.imag for point in line]
    return Box(min(real), min(imag), max(real), max(imag), "", False)


@pytest.mark.parametrize("seed", range(10))
def test_lines_bend_only_between_layers(seed):
    """Of boxes and labels of any sizes: where a line is not upright, there is nothing else at its height."""
    draw = random.Random(seed)
    boxes = [Size(draw.uniform(10, 200), draw.uniform(10, 300)) for _ in range(20)]
    pairs = [sorted(draw.sample(range(len(boxes)), 2)) for _ in range(30)]
    edges = [Edge(*pair, Size(draw.uniform(10, 200), draw.uniform(10, 300))) for pair in pairs]
    placed = arrange(boxes, edges)
    around = [*placed.boxes, *placed.labels]
    assert [(rect.width, rect.height) for rect in around] == [*boxes, *(edge.label for edge in edges)]
    rects = [Box(r.left, r.top, r.left + r.width, r.top + r.height, "", False) for r in around]
    assert [pair for pair in combinations(rects, 2) if not apart(*pair)] == []
    whole = Box(-1e-9, 0, placed.size.width + 1e-9, placed.size.height + 1e-9, "", False)
    assert [rect for rect in rects if not within(rect, whole)] == []
    for (x0, y0), (x1, y1) in (piece for lines in placed.routes for line in lines for piece in pairwise(line)):
        across = [-np.inf, np.inf] if x0 != x1 else [x0, x1]
        passed = Box(across[0], y0 + 0.01, across[1], y1 - 0.01, "", False)
        assert [rect for rect in rects if not apart(rect, passed)] == []


@each_graph
def test_lines_run_downwards(graph):
    """And each piece of them is upright, or a curve that leaves and arrives so."""
    for path in ElementTree.fromstring(draw_graph(graph)).iter(f"{SVG}path"):
        line = points(path.get("d"))
        assert all(one.imag <= other.imag + 1e-9 for one, other in pairwise(line))


def test_a_fan_has_arrows_side_by_side():
    """An input that many nodes read is wide enough for their lines."""
    root = ElementTree.fromstring(draw_graph(FAN))
    starts = sorted(ends(path)[0] for path in root.iter(f"{SVG}path"))
    top = min(y for _, y in starts)
    across = [x for x, y in starts if y == top]
    assert len(across) == 15
    assert min(right - left for left, right in pairwise(across)) >= 11.9


def test_a_fan_has_no_crossings():
    """Nor has a chain whose edge passes it by."""
    for graph in (FAN, CHAIN, DIAMOND, LONG_EDGE):
        pieces = [points(path.get("d")) for path in ElementTree.fromstring(draw_graph(graph)).iter(f"{SVG}path")]
        assert not any(crosses(*pair) for pair in combinations(pieces, 2))


def crosses(one, other):
    """Whether a line is left of another at one height and right of it at another one."""
    heights = np.linspace(max(one[0].imag, other[0].imag), min(one[-1].imag, other[-1].imag), 200)
    if heights[0] >= heights[-1]:
        return False
    sides = [np.interp(heights, [p.imag for p in line], [p.real for p in line]) for line in (one, other)]
    apart_by = sides[0] - sides[1]
    return bool(apart_by.min() < 0 < apart_by.max())


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_has_contrast(scheme, fonts):
    picture = seen_in(scheme, ElementTree.fromstring(draw_graph(random_graph(0))))
    drawn = list(laid_out(picture, {}, fonts))
    for text in (one for one in drawn if isinstance(one, Text)):
        behind = [one for one in drawn if isinstance(one, Box) and within(text, one)][-1]
        assert contrast(text.colour, behind.colour) >= 4.5, text
