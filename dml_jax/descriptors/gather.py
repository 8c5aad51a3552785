"""The descriptors of the reads: GATHER, GATHER_ELEMENTS, GATHER_ND and GATHER_ND1."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax

from ..core.desc import OperatorDesc
from ..core.index_tuples import BATCH_RULES, tuple_rules
from ..core.rules import Operands, Rule, same_sizes, sizes_follow
from ..core.struct_rules import (
    below_rank,
    dimension_count,
    fits_rank,
    ignored_sizes_are_1,
    right_aligned,
    shared_by_all,
)
from ..core.support import INDEXED_1_0, INDEXED_2_1, INDEXED_3_0, Support
from ..core.tensor import TensorDesc
from ..operators import gather as functions

__all__ = ["GatherDesc", "GatherElementsDesc", "GatherND1Desc", "GatherNDDesc"]


def _gathered(x: Operands) -> tuple[int, ...] | None:
    """GATHER's output sizes before they are brought to DimensionCount."""
    input, indices, axis, count = x["input"].sizes, x["indices"].sizes, x["axis"], x["index_dimensions"]
    if not (0 <= axis < len(input) and 0 <= count <= len(indices)):
        return None
    return (*input[:axis], *indices[len(indices) - count :], *input[axis + 1 :])


def _gather_output(x: Operands) -> tuple[int, ...] | None:
    sizes, rank = _gathered(x), len(x["input"].sizes)
    return None if sizes is None or GATHER_FITS.broken_by(x) else right_aligned(sizes, rank)


_GATHERED = "{input}.{sizes}[:{axis}] + the last {index_dimensions} of {indices}.{sizes} + {input}.{sizes}[{axis}+1:]"
GATHER_FITS = fits_rank(
    "output", _gathered, f"{_GATHERED} must fit {{input}}.{{rank}}, leaving out only leading sizes of 1", crop=True
)


@dataclass(frozen=True)
class GatherDesc(OperatorDesc):
    """DML_GATHER_OPERATOR_DESC: reads the slices of `input` that `indices` names along `axis`.

    Args:
      input: any sizes.
      indices: the DimensionCount of `input`; only the last `index_dimensions` sizes count, the others are 1.
      output: the sizes of `input` with those of `indices` in place of `axis`, right-aligned, leading 1s as needed.
      axis: in [0, DimensionCount); it counts leading dimensions of padding.
      index_dimensions: in [0, DimensionCount]; 0 for a single index.

    Raises:
      ConstraintError: a rule of `GatherDesc.wordings()` is broken.
      DataTypeError: a data type that DirectML does not take here.

    Example:
      >>> import numpy as np
      >>> from dml_jax import GatherDesc, TensorDesc
      >>> GatherDesc(
      ...     input=TensorDesc("FLOAT32", (3, 2)), indices=TensorDesc("UINT32", (1, 4)),
      ...     output=TensorDesc("FLOAT32", (4, 2)), axis=0, index_dimensions=1,
      ... ).compute(np.float32([[1, 2], [3, 4], [5, 6]]), np.uint32([[0, 1, 1, 2]]))
      Array([[1., 2.],
             [3., 4.],
             [3., 4.],
             [5., 6.]], dtype=float32)

    Source: DML_GATHER_OPERATOR_DESC. Its page excludes IndexDimensions = DimensionCount and uses it in an example;
      it is accepted here, and ignored index sizes other than 1, which devices read differently, are refused.
    """

    input: TensorDesc
    indices: TensorDesc
    output: TensorDesc
    axis: int
    index_dimensions: int

    operator_type: ClassVar[str] = "GATHER"
    support: ClassVar[tuple[Support, ...]] = INDEXED_1_0
    constraints: ClassVar[tuple[Rule, ...]] = (
        *shared_by_all("input", "indices", "output"),
        below_rank("axis", "input"),
        dimension_count("index_dimensions", "indices", least=0),
        ignored_sizes_are_1("indices", "index_dimensions"),
        GATHER_FITS,
        sizes_follow("output", _gather_output, f"{_GATHERED}, right-aligned"),
    )

    def compute_checked(self, input: Any, indices: Any) -> "jax.Array":
        real = self.indices.sizes[len(self.indices.sizes) - self.index_dimensions :]
        return functions.gather(input, indices.reshape(real), self.axis).reshape(self.output.sizes)


@dataclass(frozen=True)
class GatherElementsDesc(OperatorDesc):
    """DML_GATHER_ELEMENTS_OPERATOR_DESC: reads one element of `input` per element of `indices`.

    Args:
      input: any sizes.
      indices: the sizes of `input` except along `axis`.
      output: the sizes of `indices`.
      axis: in [0, DimensionCount).

    Raises:
      ConstraintError: a rule of `GatherElementsDesc.wordings()` is broken.
      DataTypeError: a data type that DirectML does not take here.

    Example:
      >>> import numpy as np
      >>> from dml_jax import GatherElementsDesc, TensorDesc
      >>> GatherElementsDesc(
      ...     input=TensorDesc("FLOAT32", (3, 3)), indices=TensorDesc("UINT32", (2, 3)),
      ...     output=TensorDesc("FLOAT32", (2, 3)), axis=0,
      ... ).compute(np.arange(1, 10, dtype=np.float32).reshape(3, 3), np.uint32([[1, 2, 0], [2, 0, 0]]))
      Array([[4., 8., 3.],
             [7., 2., 3.]], dtype=float32)

    Source: DML_GATHER_ELEMENTS_OPERATOR_DESC. Its example prints a UINT32 output of a FLOAT32 input; the rule that
      both agree is kept here.
    """

    input: TensorDesc
    indices: TensorDesc
    output: TensorDesc
    axis: int

    operator_type: ClassVar[str] = "GATHER_ELEMENTS"
    support: ClassVar[tuple[Support, ...]] = INDEXED_2_1
    constraints: ClassVar[tuple[Rule, ...]] = (
        *shared_by_all("input", "indices", "output"),
        below_rank("axis", "input"),
        same_sizes("indices", "input", except_along="axis"),
        same_sizes("output", "indices"),
    )

    def compute_checked(self, input: Any, indices: Any) -> "jax.Array":
        return functions.gather_elements(input, indices, self.axis)


@dataclass(frozen=True)
class GatherNDDesc(OperatorDesc):
    """DML_GATHER_ND_OPERATOR_DESC: reads the slice that each tuple along the last dimension of `indices` addresses.

    Args:
      input: only the last `input_dimension_count` sizes count, the others are 1.
      indices: only the last `indices_dimension_count` sizes count, the others are 1; its last size is the tuple's.
      output: all but the last real size of `indices`, then the sizes of `input` that no coordinate takes;
        right-aligned.
      input_dimension_count: in [1, DimensionCount].
      indices_dimension_count: in [1, DimensionCount].

    Raises:
      ConstraintError: a rule of `GatherNDDesc.wordings()` is broken.
      DataTypeError: a data type that DirectML does not take here.

    Example:
      >>> import numpy as np
      >>> from dml_jax import GatherNDDesc, TensorDesc
      >>> GatherNDDesc(
      ...     input=TensorDesc("FLOAT32", (1, 2, 2, 2)), indices=TensorDesc("UINT32", (1, 1, 2, 2)),
      ...     output=TensorDesc("FLOAT32", (1, 1, 2, 2)), input_dimension_count=3, indices_dimension_count=2,
      ... ).compute(np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2), np.uint32([[[[0, 1], [1, 0]]]]))
      Array([[[[2., 3.],
               [4., 5.]]]], dtype=float32)

    Source: DML_GATHER_ND_OPERATOR_DESC. Its formula for the output sizes contradicts its examples; the examples are
      followed here, and the length of a tuple is bounded by InputDimensionCount.
    """

    input: TensorDesc
    indices: TensorDesc
    output: TensorDesc
    input_dimension_count: int
    indices_dimension_count: int

    operator_type: ClassVar[str] = "GATHER_ND"
    support: ClassVar[tuple[Support, ...]] = INDEXED_2_1
    constraints: ClassVar[tuple[Rule, ...]] = (*shared_by_all("input", "indices", "output"), *tuple_rules("output"))

    def compute_checked(self, input: Any, indices: Any) -> "jax.Array":
        return _gather_tuples(self, input, indices, 0)


@dataclass(frozen=True)
class GatherND1Desc(OperatorDesc):
    """DML_GATHER_ND1_OPERATOR_DESC: GATHER_ND with leading dimensions that `input`, `indices` and `output` share.

    Args:
      input: only the last `input_dimension_count` sizes count, the others are 1.
      indices: only the last `indices_dimension_count` sizes count, the others are 1; its last size is the tuple's.
      output: all but the last real size of `indices`, then the sizes of `input` that no batch dimension and no
        coordinate takes; right-aligned.
      input_dimension_count: in [1, DimensionCount].
      indices_dimension_count: in [1, DimensionCount].
      batch_dimension_count: below both counts; the batch sizes of `input` and `indices` are equal.

    Raises:
      ConstraintError: a rule of `GatherND1Desc.wordings()` is broken.
      DataTypeError: a data type that DirectML does not take here.

    Example:
      >>> import numpy as np
      >>> from dml_jax import GatherND1Desc, TensorDesc
      >>> GatherND1Desc(
      ...     input=TensorDesc("FLOAT32", (1, 3, 2, 2)), indices=TensorDesc("UINT32", (1, 3, 2, 2)),
      ...     output=TensorDesc("FLOAT32", (1, 1, 3, 2)), input_dimension_count=3, indices_dimension_count=3,
      ...     batch_dimension_count=1,
      ... ).compute(
      ...     np.arange(12, dtype=np.float32).reshape(1, 3, 2, 2),
      ...     np.uint32([[[[0, 0], [1, 1]], [[1, 1], [0, 0]], [[0, 1], [1, 0]]]]),
      ... )
      Array([[[[ 0.,  3.],
               [ 7.,  4.],
               [ 9., 10.]]]], dtype=float32)

    Source: DML_GATHER_ND1_OPERATOR_DESC. Its formula for the output sizes leaves out the batch and contradicts its
      example; the example is followed here, and batch sizes that differ are refused.
    """

    input: TensorDesc
    indices: TensorDesc
    output: TensorDesc
    input_dimension_count: int
    indices_dimension_count: int
    batch_dimension_count: int

    operator_type: ClassVar[str] = "GATHER_ND1"
    support: ClassVar[tuple[Support, ...]] = INDEXED_3_0
    constraints: ClassVar[tuple[Rule, ...]] = (
        *shared_by_all("input", "indices", "output"),
        *BATCH_RULES,
        *tuple_rules("output", "{batch_dimension_count}"),
    )

    def compute_checked(self, input: Any, indices: Any) -> "jax.Array":
        return _gather_tuples(self, input, indices, self.batch_dimension_count)


def _gather_tuples(desc: GatherNDDesc | GatherND1Desc, input: Any, indices: Any, batch_dims: int) -> jax.Array:
    real_input = input.reshape(desc.input.sizes[-desc.input_dimension_count :])
    real_indices = indices.reshape(desc.indices.sizes[-desc.indices_dimension_count :])
    return functions.gather_nd(real_input, real_indices, batch_dims=batch_dims).reshape(desc.output.sizes)
