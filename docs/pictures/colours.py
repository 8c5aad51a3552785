"""The colours of pictures, each with another one for viewers who prefer dark pages."""

from typing import NamedTuple

from sources import NOWHERE

from dml_jax.graphs import svg

INK, FAINT, RULE, CARD = svg.INK, svg.FAINT, svg.RULE, svg.CARD


class Colour(NamedTuple):
    """A tint that text is read on, and the line around it."""

    tint: str
    line: str


# Tints of the hues of Okabe and Ito, each as strong as keeps all of them apart with any colour vision; behind each,
# the same for dark pages.
HUES_AND_DARK = (
    (Colour("#74b2d5", "#0072b2"), Colour("#0f518b", "#6cb6e6")),  # blue
    (Colour("#eebf56", "#b87d00"), Colour("#6f4f18", "#e0a93a")),  # orange
    (Colour("#48b99a", "#00694d"), Colour("#166f4e", "#4cc9a0")),  # green
    (Colour("#edd1e1", "#a8558a"), Colour("#753569", "#dd8fc2")),  # purple
    (Colour("#9fd4f2", "#2f8fc4"), Colour("#0a3c4b", "#9fd4f2")),  # sky blue
    (Colour("#e59c62", "#ad4b00"), Colour("#602b11", "#f0915a")),  # vermilion
    (Colour("#f3e965", "#998f00"), Colour("#756f14", "#d9ce4a")),  # yellow
    (Colour("#b6babf", FAINT), Colour("#5f656b", svg.DARK[FAINT])),  # grey
)
HUES = tuple(light for light, _ in HUES_AND_DARK)
PLAIN = Colour("#f6f8fa", RULE)
DARK = svg.DARK | {PLAIN.tint: "#272829"}
DARK |= {colour: other for pair in HUES_AND_DARK for colour, other in zip(*pair, strict=True)}


def colour_of(source: int) -> Colour:
    """The colour of a source; that of NOWHERE is plain."""
    return PLAIN if source == NOWHERE else HUES[source]
