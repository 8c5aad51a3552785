"""The pictures of docs/pictures as arrays of cells: pairs of label and colour."""

from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from svg_geometry import SVG, seen_in

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
NAMES = sorted(path.stem for path in PICTURES.glob("*.svg") if path.stem != "graph")  # which is of no operator


def root(name):
    """A picture as it is on disk."""
    return ElementTree.parse(PICTURES / f"{name}.svg").getroot()


class Cell(NamedTuple):
    label: str
    colour: str


def arrays(name, scheme="light"):
    """The cells of every array of a picture, in row-major order."""
    found = {}
    for group in seen_in(scheme, root(name)).iter(f"{SVG}g"):
        if "data-array" in group.attrib:
            assert group.attrib["data-array"] not in found
            found[group.attrib["data-array"]] = [cell(child) for child in group]
    return found


def cell(group):
    return Cell(" ".join(text.text for text in group.iter(f"{SVG}text")), group.find(f"{SVG}rect").get("fill"))
