"""How the pictures of docs/pictures look: nothing is cut or covered, arrows meet cells, colours are told apart."""

from itertools import combinations

import numpy as np
import pytest
from picture_cells import NAMES, arrays, root
from svg_geometry import (
    SCHEMES,
    SVG,
    Box,
    Text,
    apart,
    contrast,
    hits,
    laid_out,
    linear,
    load_fonts,
    points,
    seen_in,
    within,
)


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_stands_alone_and_is_described(name):
    picture = root(name)
    title, description = picture[0], picture[1]
    assert (title.tag, description.tag) == (f"{SVG}title", f"{SVG}desc")
    assert picture.get("aria-labelledby").split() == [title.get("id"), description.get("id")]
    assert picture.get("role") == "img"
    assert title.text.startswith(f"{name}(")
    assert len(description.text) > 40
    assert {element.tag.removeprefix(SVG) for element in picture.iter()} <= {
        *("svg", "title", "desc", "style", "rect", "g", "text", "path", "polygon")
    }
    assert not any("href" in key or "url(" in value for element in picture.iter() for key, value in element.items())


fonts = pytest.fixture(scope="module")(load_fonts)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_cut_or_covered(name, fonts):
    drawn = list(laid_out(root(name), {}, fonts))
    texts = [one for one in drawn if isinstance(one, Text)]
    card, *cells = (one for one in drawn if isinstance(one, Box))
    inner = Box(card.left + 23.5, card.top + 15.5, card.right - 23.5, card.bottom - 15.5, card.colour, False)
    assert [one for one in drawn if one is not card and not within(one, inner)] == []
    assert [pair for pair in combinations(texts, 2) if not apart(*pair)] == []
    assert [(t, box) for t in texts for box in cells if not apart(t, box) and not within(t, box)] == []
    assert [pair for pair in combinations(cells, 2) if not apart(*pair)] == []
    lines = [path.get("d") for path in root(name).iter(f"{SVG}path") if path.get("fill") == "none"]
    covered = [*(box for box in cells if not box.pill), *(t for t in texts if not any(within(t, box) for box in cells))]
    assert [(line, one) for line in lines for one in covered if any(hits(point, one) for point in points(line))] == []
    calls = {array[0] for array in arrays(name) if array[0].isdigit()}
    assert len(lines) == LINES.get(name, 0) + len(calls)


# How many arrows a picture has besides one per call: one for each index or tuple whose update is not dropped.
LINES = {"gather": 6 + 4, "gather_elements": 8, "gather_nd": 4 + 3, "scatter_elements": 7, "scatter_nd": 3 + 2}


def ends_of_arrows(name):
    """For each arrow its colour, and the line and the label of the cells where it begins and ends."""
    places, found = {}, []
    for group in (g for array in root(name).iter(f"{SVG}g") if "data-array" in array.attrib for g in array):
        box = group.find(f"{SVG}rect")
        x, y, width, height = (float(box.get(key)) for key in ("x", "y", "width", "height"))
        if width == height and box.get("rx") == "3":
            places[complex(x + width / 2, y + height / 2)] = box.get("stroke"), group.find(f"{SVG}text").text
    for path in (path for path in root(name).iter(f"{SVG}path") if path.get("fill") == "none"):
        line = points(path.get("d"))
        ends = [places[min(places, key=lambda place, end=end: abs(place - end))] for end in (line[0], line[-1])]
        found.append((path.get("stroke"), *ends))
    return found


@pytest.mark.parametrize("name", LINES)
def test_arrows_go_from_an_element_to_itself(name):
    for colour, (first, _), (last, _) in ends_of_arrows(name):
        assert colour == first == last


@pytest.mark.parametrize("name", ["gather_elements", "scatter_elements"])
def test_arrows_of_single_elements_keep_the_label(name):
    for _, (_, first), (_, last) in ends_of_arrows(name):
        assert first == last


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", NAMES)
def test_text_has_contrast(name, scheme, fonts):
    drawn = list(laid_out(seen_in(scheme, root(name)), {}, fonts))
    for text in (one for one in drawn if isinstance(one, Text)):
        behind = [one for one in drawn if isinstance(one, Box) and within(text, one)][-1]
        assert contrast(text.colour, behind.colour) >= 4.5, text


# Linear RGB as it is seen without one kind of cones (Machado, Oliveira and Fernandes 2009), and with all.
VISIONS = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
    "all": np.eye(3),
}


def lab(linear):
    """CIE L*a*b* under D65, in which a distance of 2.3 is just noticeable."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(linear, 0, 1) / [0.9505, 1, 1.089]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("name", NAMES)
def test_lines_have_contrast_on_dark_pages(name):
    picture = seen_in("dark", root(name))
    for line in (path for path in picture.iter(f"{SVG}path") if path.get("fill") == "none"):
        assert contrast(line.get("stroke"), picture.find(f"{SVG}rect").get("fill")) >= 3


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("vision", VISIONS)
def test_the_colours_of_cells_are_told_apart(vision, scheme):
    colours = {cell.colour for name in NAMES for cells in arrays(name, scheme).values() for cell in cells}
    assert len(colours) == 9
    seen = {colour: lab(np.array(VISIONS[vision]) @ linear(colour)) for colour in colours}
    assert min(np.linalg.norm(seen[one] - seen[other]) for one, other in combinations(colours, 2)) > 10
