"""Draws graphs as SVG: boxes for nodes, lines for edges, with a light and a dark mode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any
from unicodedata import combining, east_asian_width
from xml.etree import ElementTree

from . import layered_layout
from .diagram import Box, Diagram, diagram, printable
from .graph_desc import GraphDesc
from .layered_layout import Layout, Point, Rect, Size
from .svg_dark_mode import add_dark_mode

Element = ElementTree.Element

INK, FAINT, RULE, CARD = "#1f2328", "#59636e", "#d1d9e0", "#ffffff"
# The fill and the stroke of a box.
COLOURS = {
    "input": ("#e0f2ec", "#00694d"),
    "output": ("#e0f2ec", "#00694d"),
    "constant": ("#fbf0da", "#b87d00"),
    "operator": ("#e4f0f8", "#0072b2"),
}
# The colours of dark mode, by those of light mode.
DARK = {
    INK: "#f0f6fc",
    FAINT: "#b1bac4",
    RULE: "#3d444d",
    CARD: "#0d1117",
    "#e0f2ec": "#0f3329",
    "#00694d": "#4cc9a0",
    "#fbf0da": "#3d2e0a",
    "#b87d00": "#e0a93a",
    "#e4f0f8": "#10304a",
    "#0072b2": "#6cb6e6",
}
FONT = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
# The size of the font in boxes, in labels and of headings; the width of a character at most, and of a line, for size 1.
FONT_SIZE, LABEL, HEADING, WIDTH, HEIGHT = 12, 11, 16, 0.61, 1.33
# Pixels inside of a box, around the picture, and from a heading to its graph.
PADDING, MARGIN, HEAD = 9, 28, 40
# Pixels between the ends of edges at a box, and from its corners, at least.
APART = 12


def draw_graph(graph: GraphDesc, name: str = "graph") -> str:
    """Draws a graph, from its inputs at the top to its outputs at the bottom.

    A box names the operator, the node and the attributes; a label on an edge has the data type, sizes and strides, and
    both ends where they differ. Long lines, such as those of long lists, are cut and end with an ellipsis.

    Args:
      graph: what to draw.
      name: the heading.

    Returns:
      The text of an SVG file, which needs no other file, and is dark for viewers who prefer dark pages.

    Raises:
      DataTypeError: `graph` is no GraphDesc.

    Example:
      >>> from dml_jax import ElementWiseIdentityDesc, GraphDesc, TensorDesc, draw_graph
      >>> row = TensorDesc("FLOAT32", (4,))
      >>> copy = ElementWiseIdentityDesc(row, row)
      >>> graph = GraphDesc({"copy": copy}, {("copy", "input"): "x", "y": ("copy", "output")})
      >>> svg = draw_graph(graph)
      >>> "ELEMENT_WISE_IDENTITY" in svg, svg.count("FLOAT32 4")
      (True, 2)

    Source: DML_GRAPH_DESC has no picture of its own; this is what one of its nodes and edges says.
    """
    return draw_graphs({name: graph})


def draw_graphs(graphs: Mapping[str, GraphDesc]) -> str:
    """Draws several graphs, one below the other, under their names.

    Returns:
      The text of an SVG file.

    Raises:
      DataTypeError: one is no GraphDesc.
    """
    diagrams = {printable(name): diagram(graph) for name, graph in graphs.items()}
    drawn, width, y = [], 0.0, MARGIN
    for name, shown in diagrams.items():
        placed = _placed(shown)
        drawn.append(_text(MARGIN, y + 14, name, font_size=HEADING, font_weight=600))
        drawn.append(_group(_drawn(shown, placed), transform=f"translate({MARGIN} {_number(y + HEAD)})"))
        width = max(width, placed.size[0], _size_of([name], HEADING).width)
        y += HEAD + placed.size[1] + MARGIN
    picture = _card(width + 2 * MARGIN, y, ", ".join(diagrams), " ".join(map(_told, diagrams.values())), drawn)
    ElementTree.indent(picture, " ")
    return ElementTree.tostring(picture, encoding="unicode") + "\n"


def _placed(shown: Diagram) -> Layout:
    """Returns the layout; a box is as wide as its text and the ends of its edges need."""
    below, above = Counter(edge.source for edge in shown.edges), Counter(edge.reader for edge in shown.edges)
    sizes = []
    for number, box in enumerate(shown.boxes):
        text = _size_of(box.lines, FONT_SIZE)
        ends = APART * (1 + max(below[number], above[number]))
        sizes.append(Size(max(text.width + 2 * PADDING, ends), text.height + 2 * PADDING))
    edges = [layered_layout.Edge(edge.source, edge.reader, _size_of(edge.lines, LABEL)) for edge in shown.edges]
    return layered_layout.arrange(sizes, edges)


def _size_of(lines: Sequence[str], font_size: float) -> Size:
    return Size(font_size * WIDTH * max(map(_columns, lines)), font_size * HEIGHT * len(lines))


def _columns(text: str) -> int:
    """Returns the width of a line in columns of a monospaced font; East Asian characters take two."""
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def _drawn(shown: Diagram, placed: Layout) -> list[Element]:
    routes = [route for ends in placed.routes for route in (_line(ends[0]), _arrow(ends[1]))]
    labels = [_label(edge.lines, rect) for edge, rect in zip(shown.edges, placed.labels, strict=True)]
    return [*routes, *labels, *map(_box, shown.boxes, placed.boxes)]


def _box(box: Box, rect: Rect) -> Element:
    fill, stroke = COLOURS[box.kind]
    is_end = box.kind in ("input", "output")
    place: dict[str, Any] = {"x": rect.left, "y": rect.top, "width": rect.width, "height": rect.height}
    shape = _element("rect", **place, rx=APART if is_end else 4, fill=fill, stroke=stroke)
    what = {"font_weight": 600} if box.kind == "operator" else {"fill": FAINT}
    styles = [what, {}, *({"fill": FAINT} for _ in box.about)]
    return _group([shape, *_texts(box.lines, rect, FONT_SIZE, styles)], data_box=box.kind, text_anchor="middle")


def _label(lines: Sequence[str], rect: Rect) -> Element:
    texts = _texts(lines, rect, LABEL, [{}] * len(lines))
    return _group(texts, data_label=len(lines), text_anchor="middle", font_size=LABEL, fill=FAINT)


def _texts(
    lines: Sequence[str], rect: Rect, font_size: float, styles: Sequence[Mapping[str, object]]
) -> Iterator[Element]:
    """Centers lines of text in a rectangle; the baseline is at three quarters of a line's height."""
    x, middle, height = rect.left + rect.width / 2, rect.top + rect.height / 2, font_size * HEIGHT
    top = middle - height * len(lines) / 2
    for number, (line, style) in enumerate(zip(lines, styles, strict=True)):
        yield _text(x, top + height * (number + 0.75), line, **style)


def _line(points: Sequence[Point]) -> Element:
    """Draws a curve that leaves and arrives vertically."""
    way = "".join(_piece(*pair) for pair in pairwise(points))
    return _element("path", d=f"M{_at(points[0])}{way}", fill="none", stroke=FAINT, stroke_width=1.4)


def _arrow(points: Sequence[Point]) -> Element:
    """Draws the same curve with an arrowhead at the last point."""
    x, y = points[-1]
    tip = _element("polygon", points=" ".join(map(_at, ((x, y), (x - 4, y - 7), (x + 4, y - 7)))), fill=FAINT)
    return _group([_line([*points[:-1], (x, y - 6)]), tip])


def _piece(start: Point, end: Point) -> str:
    (x0, y0), (x, y) = start, end
    middle = (y0 + y) / 2
    return f"L{_at(end)}" if x0 == x else f"C{_at((x0, middle))} {_at((x, middle))} {_at(end)}"


def _told(shown: Diagram) -> str:
    """Returns the description of a graph for screen readers."""
    names = {kind: [box.name for box in shown.boxes if box.kind == kind] for kind in COLOURS}
    sources, results = (", ".join(names[kind]) or "nothing" for kind in ("input", "output"))
    counts = f"operators: {len(names['operator'])}, constants: {len(names['constant'])}"
    return f"A graph from {sources} to {results}; {counts}."


def _card(width: float, height: float, title: str, told: str, drawn: list[Element]) -> Element:
    card = _element(
        "svg",
        _element("title", content=title, id="graph-title"),
        _element("desc", content=told, id="graph-description"),
        _element("rect", x=0.5, y=0.5, width=width - 1, height=height - 1, rx=12, fill=CARD, stroke=RULE),
        _group(drawn, font_family=FONT, font_size=FONT_SIZE, fill=INK),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_number(width)} {_number(height)}",
        width=width,
        height=height,
        role="img",
        aria_labelledby="graph-title graph-description",
    )
    add_dark_mode(card, DARK)
    return card


# Elements.


def _element(tag: str, *children: Element, content: str | None = None, **attributes: Any) -> Element:
    """Returns an SVG element; underscores in attribute names become hyphens."""
    element = Element(tag, {name.replace("_", "-"): _number(value) for name, value in attributes.items()})
    element.text = content
    element.extend(children)
    return element


def _group(children: Iterable[Element], **attributes: Any) -> Element:
    return _element("g", *children, **attributes)


def _text(x: float, y: float, content: str, **attributes: Any) -> Element:
    return _element("text", content=content, x=x, y=y, **attributes)


def _number(value: float | str) -> str:
    """Formats a number with at most two decimals; text stays as it is."""
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


def _at(point: Point) -> str:
    return ",".join(map(_number, point))
