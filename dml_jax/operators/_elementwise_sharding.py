"""The sharding of elementwise operators."""

from ..core.rules import Operands
from ..core.sharding import Dims, names_of, renamed


def elementwise(x: Operands, *operands: str) -> Dims:
    """Every dimension keeps its sharding, but for those along which an activation combines elements."""
    names, activation = names_of(x, operands[0]), x["activation"]
    return Dims(dict.fromkeys(operands, names), renamed(names, (activation and activation.axes) or ()))
