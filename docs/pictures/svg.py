"""SVG as `xml.etree` elements: text, arrows, and the card that every picture is drawn on."""

from itertools import pairwise
from xml.etree import ElementTree

from colours import CARD, DARK, FAINT, INK, RULE

from dml_jax.graphs.svg_dark_mode import add_dark_mode

Element = ElementTree.Element
Point = tuple[float, float]

WIDTH, MARGIN = 720, 28
SANS = "system-ui, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def element(tag: str, *children: Element, content: str | None = None, **attributes: object) -> Element:
    """An element; underscores in attribute names become hyphens, numbers have at most two decimals."""
    made = Element(tag, {name.replace("_", "-"): _as_text(value) for name, value in attributes.items()})
    made.text = content
    made.extend(children)
    return made


def _as_text(value: object) -> str:
    return f"{round(value, 2):g}" if isinstance(value, int | float) else str(value)


def text(x: float, y: float, content: str, **attributes: object) -> Element:
    """One line of text; y is its baseline."""
    return element("text", content=content, x=x, y=y, **attributes)


def code(x: float, y: float, content: str, **attributes: object) -> Element:
    """One line of text as programs are set."""
    return text(x, y, content, font_family=MONO, **attributes)


def rule(y: float) -> Element:
    """A thin line across the card."""
    return element("path", d=f"M{MARGIN} {y}H{WIDTH - MARGIN}", stroke=RULE)


def divider(x: float, top: float, bottom: float) -> Element:
    """A thin upright line between two halves of a card."""
    return element("path", d=f"M{x} {top}V{bottom}", stroke=RULE)


def arrow(colour: str, *points: Point, upright: bool = False) -> Element:
    """A line through points: straight between two that are level or one above the other, else a curve.

    A curve leaves and arrives level, or upright where asked for.
    """
    (x0, y0), (x, y) = points[-2:]
    ends_upright = upright or x0 == x
    along = 1 if (y > y0 if ends_upright else x > x0) else -1
    base = (x, y - 5 * along) if ends_upright else (x - 5 * along, y)
    pieces = "".join(_piece(*ends, upright) for ends in pairwise((*points[:-1], base)))
    sides = [(base[0] + side, base[1]) if ends_upright else (base[0], base[1] + side) for side in (-3.5, 3.5)]
    tip = element("polygon", points=" ".join(map(_at, ((x, y), *sides))), fill=colour)
    line = element("path", d=f"M{_at(points[0])}{pieces}", fill="none", stroke=colour, stroke_width=1.6)
    return element("g", line, tip)


def _piece(start: Point, end: Point, upright: bool) -> str:
    (x0, y0), (x, y) = start, end
    if x0 == x or y0 == y:
        return f"L{_at(end)}"
    bends = ((x0, (y0 + y) / 2), (x, (y0 + y) / 2)) if upright else (((x0 + x) / 2, y0), ((x0 + x) / 2, y))
    return f"C{' '.join(map(_at, (*bends, end)))}"


def _at(point: Point) -> str:
    return ",".join(map(_as_text, point))


def card(title: str, formula: str, lines: tuple[str, ...], description: str, height: float, *drawn: Element) -> Element:
    """A whole picture: a card with a call, its rule and lines of prose on top, and what screen readers say."""
    name = title.partition("(")[0]
    labels = f"{name}-title", f"{name}-description"
    head = [
        code(MARGIN, 42, title, font_size=16, font_weight="600"),
        code(MARGIN, 66, formula, fill=FAINT),
        *(text(MARGIN, 90 + 18 * line, content) for line, content in enumerate(lines)),
    ]
    picture = element(
        "svg",
        element("title", content=title, id=labels[0]),
        element("desc", content=description, id=labels[1]),
        element("rect", x=0.5, y=0.5, width=WIDTH - 1, height=height - 1, rx=12, fill=CARD, stroke=RULE),
        element("g", *head, *drawn, font_family=SANS, font_size=12.5, fill=INK),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height}",
        width=WIDTH,
        height=height,
        role="img",
        aria_labelledby=" ".join(labels),
    )
    add_dark_mode(picture, DARK)
    return picture


def written(picture: Element) -> str:
    """The file of a picture."""
    ElementTree.indent(picture, " ")
    return ElementTree.tostring(picture, encoding="unicode") + "\n"
