"""The descriptors of the writes: SCATTER, also called SCATTER_ELEMENTS, and SCATTER_ND."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from ..core.desc import OperatorDesc
from ..core.index_tuples import slices, tuple_rules
from ..core.rules import Rule, same_sizes
from ..core.struct_rules import below_rank, shared_by_all
from ..core.support import INDEXED_2_0, INDEXED_2_1, Support
from ..core.tensor import TensorDesc
from ..operators import scatter as functions

__all__ = ["ScatterDesc", "ScatterElementsDesc", "ScatterNDDesc"]


@dataclass(frozen=True)
class ScatterElementsDesc(OperatorDesc):
    """DML_SCATTER_OPERATOR_DESC: copies `input` and writes each element of `updates` where `indices` points.

    Args:
      input: any sizes.
      indices: the sizes of `input` except along `axis`.
      updates: the sizes of `indices`.
      output: the sizes of `input`.
      axis: in [0, DimensionCount).

    Raises:
      ConstraintError: a rule of `ScatterElementsDesc.wordings()` is broken.
      DataTypeError: a data type that DirectML does not take here.

    Example:
      >>> import numpy as np
      >>> from dml_jax import ScatterElementsDesc, TensorDesc
      >>> ScatterElementsDesc(
      ...     input=TensorDesc("FLOAT32", (3, 3)), indices=TensorDesc("UINT32", (2, 3)),
      ...     updates=TensorDesc("FLOAT32", (2, 3)), output=TensorDesc("FLOAT32", (3, 3)), axis=0,
      ... ).compute(
      ...     np.zeros((3, 3), np.float32), np.uint32([[1, 0, 2], [0, 2, 1]]), np.float32([[10, 11, 12], [20, 21, 22]])
      ... )
      Array([[20., 11.,  0.],
             [10.,  0., 22.],
             [ 0., 21., 12.]], dtype=float32)

    Source: DML_SCATTER_OPERATOR_DESC, of which DML_SCATTER_ELEMENTS_OPERATOR_DESC is another name. Its page says
      feature level 1_0; the header and the history say 2_0, which is followed here.
    """

    input: TensorDesc
    indices: TensorDesc
    updates: TensorDesc
    output: TensorDesc
    axis: int

    operator_type: ClassVar[str] = "SCATTER"
    starts_as_input: ClassVar[bool] = True
    support: ClassVar[tuple[Support, ...]] = INDEXED_2_0
    constraints: ClassVar[tuple[Rule, ...]] = (
        *shared_by_all("input", "indices", "updates", "output"),
        below_rank("axis", "output"),
        same_sizes("indices", "input", except_along="axis"),
        same_sizes("updates", "indices"),
        same_sizes("output", "input"),
    )

    def compute_checked(self, input: Any, indices: Any, updates: Any) -> "jax.Array":
        return functions.scatter_elements(input, indices, updates, self.axis)

    def compute_words(self, input: Any, indices: Any, updates: Any) -> "jax.Array":
        # Batched by jax.vmap, XLA would move the words first and copy all data twice.
        return self.compute_checked(input, jnp.broadcast_to(indices[..., None], updates.shape), updates)


ScatterDesc = ScatterElementsDesc


@dataclass(frozen=True)
class ScatterNDDesc(OperatorDesc):
    """DML_SCATTER_ND_OPERATOR_DESC: copies `input` and writes each slice of `updates` where a tuple points.

    Args:
      input: only the last `input_dimension_count` sizes count, the others are 1.
      indices: only the last `indices_dimension_count` sizes count, the others are 1; its last size is the tuple's.
      updates: all but the last real size of `indices`, then the sizes of `input` that no coordinate takes;
        right-aligned.
      output: the sizes of `input`.
      input_dimension_count: in [1, DimensionCount].
      indices_dimension_count: in [1, DimensionCount].

    Raises:
      ConstraintError: a rule of `ScatterNDDesc.wordings()` is broken.
      DataTypeError: a data type that DirectML does not take here.

    Example:
      >>> import numpy as np
      >>> from dml_jax import ScatterNDDesc, TensorDesc
      >>> ScatterNDDesc(
      ...     input=TensorDesc("FLOAT32", (1, 8)), indices=TensorDesc("UINT32", (4, 1)),
      ...     updates=TensorDesc("FLOAT32", (1, 4)), output=TensorDesc("FLOAT32", (1, 8)),
      ...     input_dimension_count=1, indices_dimension_count=2,
      ... ).compute(
      ...     np.arange(1, 9, dtype=np.float32)[None], np.uint32([[4], [3], [1], [7]]), np.float32([[9, 10, 11, 12]])
      ... )
      Array([[ 1., 11.,  3., 10.,  9.,  6.,  7., 12.]], dtype=float32)

    Source: DML_SCATTER_ND_OPERATOR_DESC. Its formula for the update sizes and its half-open ranges contradict its
      examples; the examples are followed here, at one DimensionCount.
    """

    input: TensorDesc
    indices: TensorDesc
    updates: TensorDesc
    output: TensorDesc
    input_dimension_count: int
    indices_dimension_count: int

    operator_type: ClassVar[str] = "SCATTER_ND"
    starts_as_input: ClassVar[bool] = True
    support: ClassVar[tuple[Support, ...]] = INDEXED_2_1
    constraints: ClassVar[tuple[Rule, ...]] = (
        *shared_by_all("input", "indices", "updates", "output"),
        *tuple_rules("updates"),
        same_sizes("output", "input"),
    )

    def compute_checked(self, input: Any, indices: Any, updates: Any) -> "jax.Array":
        return self._scattered(input, indices, updates)

    def compute_words(self, input: Any, indices: Any, updates: Any) -> "jax.Array":
        return self._scattered(input, indices, updates, 2)

    def _scattered(self, input: Any, indices: Any, updates: Any, *inner: int) -> jax.Array:
        """The operator on elements of the shape `inner`."""
        real_input = input.reshape(*self.input.sizes[-self.input_dimension_count :], *inner)
        real_indices = indices.reshape(self.indices.sizes[-self.indices_dimension_count :])
        real_updates = updates.reshape((*(slices(self.operands()) or ()), *inner))
        return functions.scatter_nd(real_input, real_indices, real_updates).reshape(*self.output.sizes, *inner)
