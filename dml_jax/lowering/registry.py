"""Every variant of every operation: the only file that names gpu/ and cpu/."""

from collections.abc import Sequence

from .cpu import long_loops, unfused
from .gpu import assembled_words, axis_last, words
from .select import Variant

__all__ = ["VARIANTS"]

# In the order in which they are asked: the first one that pays runs.
VARIANTS: Sequence[Variant] = (
    *words.VARIANTS,
    *assembled_words.VARIANTS,
    *axis_last.VARIANTS,
    *unfused.VARIANTS,
    *long_loops.VARIANTS,
)
