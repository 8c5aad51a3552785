"""ONNX's SwiGLU: a gate by Swish, times another array; rounded once."""

import jax

from ..core.structs.activation import Activation
from ..operations.values.accumulation_types import narrow_apart
from ..operators import activate
from .operand_checks import check_shape
from .values import Array, Operators, as_wide


def swiglu(*, a: Array, b: Array, alpha: float = 1.0) -> jax.Array:
    """SwiGLU: a * sigmoid(alpha * a) * b."""
    check_shape("B", b, a.shape)
    return narrow_apart(activate(as_wide(a), Activation("ACTIVATION_SWISH", (alpha,))) * as_wide(b), a.dtype)


OPERATORS: Operators = {"SwiGLU": {28: swiglu}}
