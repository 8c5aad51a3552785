"""Broadcasting in graph expressions: scalars converted to a tensor's type, sizes repeated by strides of 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.structs.scalar import scalar_of
from ..core.tensors.tensor_desc import TensorDesc, packed_strides
from ..errors import ConstraintError, DataTypeError, describe, message


def element_of(operator: str, tensor: TensorDesc, number: Any) -> np.generic:
    """Converts a number to the type of a tensor.

    Raises:
      DataTypeError: no number, or one that the type does not hold.
    """
    if isinstance(number, bool) or not isinstance(number, int | float | np.integer | np.floating):
        rule = "both operands must be expressions, or one of them a number"
        hint = "graph.constant(array) makes an expression of an array; tensors are compared by a.equals(b)"
        raise DataTypeError(message(operator, rule, f"one is {describe(number)}: {hint}", {"expression": tensor}))
    try:
        return scalar_of(number if isinstance(number, int | float) else number.item(), tensor.data_type)
    except DataTypeError as error:
        raise error.at(operator) from None


def is_float32(element: np.generic) -> bool:
    """Whether a FLOAT, the type of DirectML's ScaleBias and Exponent, holds the number as exactly as its own type."""
    is_narrow = element.dtype.kind == "f" and element.itemsize <= 4
    return is_narrow or float(np.float32(element)) == element.item()


def broadcast(operator: str, tensors: Sequence[TensorDesc], kept: int = 0) -> list[TensorDesc]:
    """Broadcasts tensors to common sizes by NumPy's rules; the last `kept` dimensions stay as they are.

    Of sizes (2, 3) and (3,) the second become (2, 3) with the strides (0, 1).

    Raises:
      ConstraintError: sizes that are neither equal nor 1.
    """
    before = [tensor.sizes[: max(0, len(tensor.sizes) - kept)] for tensor in tensors]
    try:
        sizes = np.broadcast_shapes(*before)
    except ValueError:
        rule = f"sizes{' before the last two' if kept else ''} must be equal, or 1, or left out at the front"
        fact = f"they are {' and '.join(map(str, before))}"
        shown = {f"operand {i}": tensor for i, tensor in enumerate(tensors)}
        raise ConstraintError(message(operator, rule, fact, shown)) from None
    pairs = zip(tensors, before, strict=True)
    return [_repeated(tensor, (*sizes, *tensor.sizes[len(own) :])) for tensor, own in pairs]


def _repeated(tensor: TensorDesc, sizes: tuple[int, ...]) -> TensorDesc:
    """Repeats the tensor by strides of 0 along dimensions that are new or had size 1."""
    if sizes == tensor.sizes:
        return tensor
    own = tensor.strides or packed_strides(tensor.sizes)
    strides = (0 if n == 1 else stride for n, stride in zip(tensor.sizes, own, strict=True))
    return replace(tensor, sizes=sizes, strides=(*(0,) * (len(sizes) - len(own)), *strides))
