"""Positions, colours and overlaps of the texts and lines of an SVG file."""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

SVG = "{http://www.w3.org/2000/svg}"


SCHEMES = ("light", "dark")


def seen_in(scheme, root):
    """A picture with the colours that its style gives it; each must have one there."""
    if scheme == "light":
        return root
    (style,) = root.iter(f"{SVG}style")
    rules = re.findall(r"\.dml_jax \[(fill|stroke)=\"(#\w+)\"\] \{ \1: (#\w+) \}", style.text)
    dark = {(key, light): colour for key, light, colour in rules}
    for element in root.iter():
        for key in {"fill", "stroke"} & element.attrib.keys():
            if element.get(key) != "none":
                element.set(key, dark[key, element.get(key)])
    return root


class Text(NamedTuple):
    """A line of text and the box that its letters fill."""

    content: str
    left: float
    top: float
    right: float
    bottom: float
    colour: str


class Box(NamedTuple):
    """A cell, or the card; that of indices is a pill."""

    left: float
    top: float
    right: float
    bottom: float
    colour: str
    pill: bool


def laid_out(element, inherited, fonts, moved=(0, 0)):
    """Every text and every box below an element, in the order of painting."""
    own = {**inherited, **element.attrib}
    if "transform" in element.attrib:
        moved = tuple(map(float, re.fullmatch(r"translate\((\S+) (\S+)\)", own["transform"]).groups()))
    if element.tag == f"{SVG}text":
        size, x, y = float(own["font-size"]), moved[0] + float(own["x"]), moved[1] + float(own["y"])
        width = fonts["monospace" in own["font-family"], "font-weight" in own].getlength(element.text) * size / 100
        left = x - width * {"start": 0, "middle": 0.5, "end": 1}[own.get("text-anchor", "start")]
        yield Text(element.text, left, y - 0.74 * size, left + width, y + 0.05 * size, own["fill"])
    elif element.tag == f"{SVG}rect" and own["fill"] != "none":
        left, top, width, height = (float(own[key]) for key in ("x", "y", "width", "height"))
        left, top = left + moved[0], top + moved[1]
        yield Box(left, top, left + width, top + height, own["fill"], own["rx"] == "11")
    for child in element:
        yield from laid_out(child, own, fonts, moved)


def load_fonts():
    """DejaVu, the widest of the fonts that the pictures name, of 100 pixels, by (monospaced, bold)."""
    folder = Path(pytest.importorskip("matplotlib").get_data_path()) / "fonts" / "ttf"
    load = pytest.importorskip("PIL.ImageFont").truetype
    kinds = [(mono, bold) for mono in (False, True) for bold in (False, True)]
    return {(m, b): load(folder / f"DejaVuSans{'Mono' * m}{'-Bold' * b}.ttf", 100) for m, b in kinds}


def apart(one, other):
    return one.right <= other.left or other.right <= one.left or one.bottom <= other.top or other.bottom <= one.top


def within(one, other):
    return other.left <= one.left and one.right <= other.right and other.top <= one.top and one.bottom <= other.bottom


def points(path):
    """Points along the lines and curves of a path, two units apart or less."""
    at, found = None, []
    for letter, rest in re.findall(r"([MLC])([^MLC]+)", path):
        ends = [complex(*map(float, end.split(","))) for end in rest.split()]
        t = np.linspace(0, 1, 100)[:, None]
        if letter != "M":
            through = np.array([at, *ends])
            weights = [1 - t, t] if letter == "L" else [(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3]
            found += list(np.hstack(weights) @ through)
        at = ends[-1]
    return found


def hits(point, box):
    return box.left < point.real < box.right and box.top < point.imag < box.bottom


def linear(colour):
    """Linear RGB of a colour of sRGB."""
    channels = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def luminance(colour):
    return linear(colour) @ [0.2126, 0.7152, 0.0722]


def contrast(one, other):
    """Of two colours, as WCAG has it."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)
