"""as_strided_scatter: writes a flat buffer through strides, the inverse of a strided view."""

from __future__ import annotations

from collections.abc import Sequence

import jax

from ..core.arguments.kinds import Data, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import Operands, custom, same_dtype
from ..core.sharding import Dims, names_of
from ..operations.strided_writes import update
from ..strides.injective import collision
from ..strides.layout import Layout
from ._as_strided_rules import BUFFER, INSIDE, lengths, not_negative, sizes_of

__all__ = ["as_strided_scatter"]


def _injective(x: Operands) -> str | None:
    sizes, strides = sizes_of(x), x["strides"]
    if 0 in sizes or len(strides) != len(sizes) or min((0, *strides)) < 0:
        return None
    fact = collision(sizes, strides)
    return f"sizes {sizes} with strides {strides} {fact}" if fact else None


RULES = (
    BUFFER,
    same_dtype("updates", "buffer"),
    not_negative("strides"),
    not_negative("offset"),
    lengths("updates"),
    INSIDE,
    custom("injective", "{strides} must give every coordinate of {updates} an element of its own", _injective),
)


def _dims(x: Operands) -> Dims:
    return Dims({"buffer": ["buffer"], "updates": names_of(x, "updates")}, ["output"])


@operator(*RULES, dims=_dims)
def as_strided_scatter(
    buffer: Data, updates: Data, strides: Sequence[int], *, offset: int = 0, out_sharding: OutSharding = None
) -> jax.Array:
    """Copies a flat `buffer` and writes `updates` through `strides`, in elements; inverts `as_strided`.

    output = copy(buffer); output[offset + sum(c * strides)] = updates[c]

    Args:
      buffer: 1-D, of any dtype that JAX moves.
      updates: the elements to write, of any shape and the dtype of `buffer`.
      strides: elements, not bytes, from one coordinate to the next, one per dimension of `updates`; every coordinate
        has an element of its own.
      offset: of the first element.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array of the shape and dtype of `buffer`; elements that no coordinate addresses are those of `buffer`.

    Raises:
      ConstraintError: `buffer` is not 1-D, a coordinate lies beyond it, two coordinates address one element, or a
        number is negative.
      DataTypeError: another dtype, a number that is no integer, or 64-bit `buffer` while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> rows = np.int32([[1, 2, 3], [4, 5, 6]])
      >>> print(dml_jax.as_strided_scatter(np.full(10, -1, np.int32), rows, (5, 1)))
      [ 1  2  3 -1 -1  4  5  6 -1 -1]

    Source: an output tensor with the strides of DML_BUFFER_TENSOR_DESC. DirectML says nothing of the
      elements between; they keep their content here. Overlapping outputs, which it leaves open, are refused.
    """
    return update(buffer, updates, Layout(updates.shape, tuple(strides), offset))
