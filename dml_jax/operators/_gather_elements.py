"""GATHER_ELEMENTS: reads one element per index along one axis."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..core.arguments.kinds import Data, Fill, Indices, OutSharding
from ..core.arguments.operator import operator
from ..core.indices.axes import indexed_axes_not_empty
from ..core.indices.modes import READ_MODE, ReadMode
from ..core.rules import Operands, axis_of, integer_indices, minimum_rank, same_rank, same_sizes
from ..core.sharding import Dims, names_of, renamed
from ..core.structs.feature_level_tables import INDEXED_2_1
from ..core.structs.fields import Axis, IndexInput, Input, Output
from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.struct_rules import below_rank
from ..operations.gather_scatter_dimension_numbers import Slices
from ..operations.indexed_read import read
from ..operations.promises import Promises

__all__ = ["GatherElementsDesc", "gather_elements"]

SIZES = same_sizes("indices", "input", except_along="axis")
RULES = (
    integer_indices(),
    minimum_rank("input", 1),
    same_rank("indices", "input"),
    axis_of("input"),
    READ_MODE,
    SIZES,
    indexed_axes_not_empty(lambda x: [x["axis"]]),
)


def _dims(x: Operands) -> Dims:
    names = names_of(x, "input")
    picked = renamed(names, [x["axis"]])
    return Dims({"input": names, "indices": picked}, picked, picked)


@operator(*RULES, dims=_dims)
def gather_elements(
    input: Data,
    indices: Indices,
    axis: int,
    *,
    mode: ReadMode = "clip",
    fill_value: Fill = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    deterministic: bool = False,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Reads one element of `input` per element of `indices`, which replaces the coordinate along `axis`.

    output[c] = input[c with c[axis] := indices[c]]

    Args:
      input: rank >= 1, any dtype that JAX moves.
      indices: the rank and sizes of `input` except along `axis`, where any size will do; sizes never broadcast. Any
        integer dtype, or lists of Python integers. A negative index counts from the end, once; an unsigned one never
        does.
      axis: -rank <= axis < rank of `input`.
      mode: "clip" reads the nearest element for an index out of range, "fill" gives `fill_value`,
        "promise_in_bounds" leaves it undefined.
      fill_value: a number that the dtype of `input` holds, or a traced scalar of this dtype; 0 by default. For
        mode="fill" only.
      indices_are_sorted: a promise that `indices` ascend along `axis` and none is negative, which lets XLA read
        faster on some devices.
      unique_indices: a promise that no two indices, after wrapping and clamping, address one element. Indices out
        of range under "fill" are exempt. The gradient then stores instead of adding up.
      deterministic: if True, the gradient has the same bits in every run on the same kind of device; if False, sums of
        floats may differ in their last bits on a GPU. It needs known sizes and fewer than 2**31 elements; otherwise
        ConstraintError.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array of the shape of `indices` and the dtype of `input`.

    Raises:
      ConstraintError: ranks or sizes differ, `axis` or `mode` out of range, or a non-empty read from an axis of size 0.
      DataTypeError: `indices` are not integers, or 64-bit `input` while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], np.float32)
      >>> print(dml_jax.gather_elements(x, np.array([[1, 2, 0], [2, 0, 0]], np.uint32), axis=0))
      [[4. 8. 3.]
       [7. 2. 3.]]

    Source: DML_GATHER_ELEMENTS_OPERATOR_DESC. DirectML is silent about an index out of range;
      reading the nearest element along `axis` is the choice made here.
    """
    axis %= input.ndim
    others = tuple(d for d in range(input.ndim) if d != axis)
    # Dimensions that go along let XLA partition them without communication.
    slices = Slices(input.ndim, (axis,), others, others)
    # XLA's promise is about all indices in row-major order, coordinates of other dimensions first.
    of_xla = Promises(unique_indices, indices_are_sorted and axis == input.ndim - 1, deterministic)
    return read(
        input,
        jnp.asarray(indices)[..., None],
        slices,
        mode=mode,
        fill_value=fill_value,
        promises=of_xla,
        sorted_along_axis=indices_are_sorted,
    )


class GatherElementsDesc(OperatorDesc):
    """DML_GATHER_ELEMENTS_OPERATOR_DESC: reads one element of `input` per element of `indices`.

    Args:
      indices: the sizes of `input` except along `axis`.

    Example:
      >>> GatherElementsDesc(
      ...     input=TensorDesc("FLOAT32", (3, 3)), indices=TensorDesc("UINT32", (2, 3)),
      ...     output=TensorDesc("FLOAT32", (2, 3)), axis=0,
      ... ).compute(np.arange(1, 10, dtype=np.float32).reshape(3, 3), np.uint32([[1, 2, 0], [2, 0, 0]]))
      Array([[4., 8., 3.],
             [7., 2., 3.]], dtype=float32)

    Source: DML_GATHER_ELEMENTS_OPERATOR_DESC. Its example prints a UINT32 output of a FLOAT32 input; the rule that
      both agree is kept here.
    """

    input: Input
    indices: IndexInput
    output: Output
    axis: Axis

    moves_words = True
    support = INDEXED_2_1
    constraints = (below_rank("axis", "input"), SIZES, same_sizes("output", "indices"))

    def compute_checked(self, input: jax.Array, indices: jax.Array) -> jax.Array:
        return gather_elements(input, indices, self.axis)
