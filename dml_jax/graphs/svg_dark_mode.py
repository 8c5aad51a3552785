"""Dark mode of SVG files: a style sheet in the file, which works in a page and in the file alone."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree import ElementTree


def add_dark_mode(picture: ElementTree.Element, dark: Mapping[str, str]) -> None:
    """Gives every colour of a picture another one for viewers who prefer dark pages.

    Args:
      picture: an svg element; the style is put behind its title and its description.
      dark: the other colour for each colour that is drawn.
    """
    drawn = ((key, each) for element in picture.iter() for key, each in element.items() if key in ("fill", "stroke"))
    used = dict.fromkeys((key, colour) for key, colour in drawn if colour != "none")
    # The class keeps the rules inside of the picture where a page has its elements among its own.
    rules = (f'  .dml_jax [{key}="{colour}"] {{ {key}: {dark[colour]} }}' for key, colour in used)
    style = ElementTree.Element("style")
    style.text = "\n".join(["", "@media (prefers-color-scheme: dark) {", *rules, "}", ""])
    picture.set("class", "dml_jax")
    picture.insert(2, style)
