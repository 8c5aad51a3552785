"""The sharding of elementwise operators."""

from ..core.sharding import Dims
from ..core.structs.activation import Activation


def elementwise(rank: int, *operands: str, activation: Activation | None = None) -> Dims:
    """Every dimension keeps its sharding, but for those along which an activation combines elements."""
    names = [f"element {d}" for d in range(rank)]
    combined = {d % rank for d in (activation and activation.axes) or ()}
    output = [f"combined {name}" if d in combined else name for d, name in enumerate(names)]
    return Dims(dict.fromkeys(operands, names), output)
