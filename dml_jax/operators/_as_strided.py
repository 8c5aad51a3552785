"""as_strided: a flat buffer seen through sizes and strides, as DirectML sees every tensor."""

from __future__ import annotations

from collections.abc import Sequence

import jax

from ..core.arguments.kinds import Data, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import Operands, representable
from ..core.sharding import Dims
from ..operations.strided_views import view
from ..strides.layout import Layout
from ._as_strided_rules import BUFFER, INSIDE, lengths, not_negative, sizes_of

__all__ = ["as_strided"]


RULES = (
    BUFFER,
    not_negative("sizes"),
    not_negative("strides"),
    not_negative("offset"),
    representable("sizes", sizes_of, "buffer"),
    lengths("sizes"),
    INSIDE,
)


def _dims(x: Operands) -> Dims:
    return Dims({"buffer": ["buffer"]}, [f"output {d}" for d in range(len(x["sizes"]))])


@operator(*RULES, dims=_dims)
def as_strided(
    buffer: Data,
    sizes: Sequence[int],
    strides: Sequence[int],
    *,
    offset: int = 0,
    deterministic: bool = False,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Views a flat `buffer` through `sizes` and `strides`, in elements; `as_strided_scatter` writes through them.

    output[c] = buffer[offset + sum(c * strides)]

    Views that slices, transposes, reshapes and broadcasts can express are computed by these, and XLA fuses them into
    their consumer. Only dimensions that overlap or interleave are read through computed indices.

    Args:
      buffer: 1-D, of any dtype that JAX moves.
      sizes: of the view; integers, at least 0.
      strides: elements, not bytes, from one coordinate to the next, one per size; integers, at least 0, and 0 repeats
        an element.
      offset: of the first element.
      deterministic: whether the gradient has the same bits in every run of a program on one kind of device; without it
        sums over overlapping windows may differ in their last bits on a GPU.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array of shape `sizes` and the dtype of `buffer`.

    Raises:
      ConstraintError: `buffer` is not 1-D, a coordinate lies beyond it, a number is negative, or 2**63 elements.
      DataTypeError: a number is not an integer, or 64-bit `buffer` while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> print(dml_jax.as_strided(np.arange(10, dtype=np.int32), (2, 3), (5, 1)))  # rows padded to 5
      [[0 1 2]
       [5 6 7]]
      >>> print(dml_jax.as_strided(np.arange(6, dtype=np.int32), (2, 3), (1, 2)))  # column-major
      [[0 2 4]
       [1 3 5]]
      >>> print(dml_jax.as_strided(np.arange(5, dtype=np.int32), (3, 3), (1, 1)))  # overlapping windows
      [[0 1 2]
       [1 2 3]
       [2 3 4]]

    Source: the strides of DML_BUFFER_TENSOR_DESC, numpy.lib.stride_tricks.as_strided. A negative stride, which
      neither DirectML nor XLA has, is refused.
    """
    return view(buffer, Layout(tuple(sizes), tuple(strides), offset), deterministic)
