"""The benchmark of every operator: families of operators that share shapes and peers, one file each.

An operator without a row in these tables is measured on the example of its docstring, grown.
"""

from collections.abc import Mapping

from ...catalogue import FUNCTIONS
from . import (
    elementwise,
    fills,
    gathers,
    layers,
    layouts,
    pictures,
    pooling,
    reductions,
    resizing,
    scatters,
    strided,
    windows,
)
from .examples import grown
from .subject import Subject

__all__ = ["FAMILIES", "SUBJECTS"]

FAMILIES = (
    elementwise,
    fills,
    gathers,
    layers,
    layouts,
    pictures,
    pooling,
    reductions,
    resizing,
    scatters,
    strided,
    windows,
)
_ROWS = {name: subject for family in FAMILIES for name, subject in family.SUBJECTS.items()}
SUBJECTS: Mapping[str, Subject] = {name: _ROWS.get(name) or Subject(plans=grown(name)) for name in FUNCTIONS}
