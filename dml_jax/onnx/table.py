"""The table of supported operators, joined from the files that have some of them."""

from . import (
    activations,
    arithmetic,
    arrange,
    casting,
    control,
    convolution,
    detection,
    elementwise,
    linear_algebra,
    loops,
    movement,
    normalization,
    pooling,
    recurrent,
    reductions,
    resizing,
    sampling,
    sequences,
)
from .values import Operators

__all__ = ["ONNX_OPERATORS"]

_FAMILIES = (
    *(movement, arrange, casting, resizing, arithmetic, elementwise, activations, reductions, control),
    *(convolution, pooling, normalization, recurrent, linear_algebra, sampling, detection),
    *(loops, sequences),
)
ONNX_OPERATORS: Operators = {name: row for family in _FAMILIES for name, row in family.OPERATORS.items()}
