"""GATHER: reads whole slices of an array along one axis."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..core.arguments.kinds import Data, Fill, OutSharding, ScalarIndices
from ..core.arguments.operator import operator
from ..core.indices.axes import indexed_axes_not_empty
from ..core.indices.modes import READ_MODE, ReadMode
from ..core.rules import Operands, axis_of, integer_indices, minimum_rank, sizes_follow
from ..core.sharding import Dims, names_of
from ..core.structs.feature_level_tables import INDEXED_1_0
from ..core.structs.fields import IndexInput, Input, Output, UInt
from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.struct_rules import below_rank, dimension_count, fits_rank, ignored_sizes_are_1, right_aligned
from ..operations.gather_scatter_dimension_numbers import Slices
from ..operations.indexed_read import read
from ..operations.promises import Promises

__all__ = ["GatherDesc", "gather"]

RULES = (
    integer_indices(),
    minimum_rank("input", 1),
    axis_of("input"),
    READ_MODE,
    indexed_axes_not_empty(lambda x: [x["axis"]]),
)


def _dims(x: Operands) -> Dims:
    names, of_indices = names_of(x, "input"), names_of(x, "indices")
    axis = x["axis"] % len(names)
    output = [*names[:axis], *of_indices, *names[axis + 1 :]]
    return Dims({"input": names, "indices": of_indices}, output, [*names, *of_indices])


@operator(*RULES, dims=_dims)
def gather(
    input: Data,
    indices: ScalarIndices,
    axis: int,
    *,
    mode: ReadMode = "clip",
    fill_value: Fill = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    deterministic: bool = False,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Reads the slices of `input` that `indices` names along `axis`.

    output[pre, q, post] = input[pre, indices[q], post], with q over all coordinates of indices.

    Args:
      input: rank >= 1, any dtype that JAX moves.
      indices: any shape, any integer dtype, or lists of Python integers. A negative index counts from the end, once; an
        unsigned one never does.
      axis: -rank <= axis < rank of `input`.
      mode: "clip" reads the nearest element for an index out of range, "fill" gives `fill_value`,
        "promise_in_bounds" leaves it undefined.
      fill_value: a number that the dtype of `input` holds, or a traced scalar of this dtype; 0 by default. For
        mode="fill" only.
      indices_are_sorted: a promise that `indices` ascend in row-major order and none is negative.
      unique_indices: a promise that no two indices, after wrapping and clamping, address one slice. Indices out
        of range under "fill" are exempt. The gradient then stores instead of adding up.
      deterministic: if True, the gradient has the same bits in every run on the same kind of device; if False, sums of
        floats may differ in their last bits on a GPU. It needs known sizes and fewer than 2**31 elements; otherwise
        ConstraintError.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array of shape input.shape[:axis] + indices.shape + input.shape[axis+1:] and the dtype of `input`.

    Raises:
      ConstraintError: `axis` or `mode` out of range, or a non-empty read from an axis of size 0.
      DataTypeError: `indices` are not integers, or 64-bit `input` while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
      >>> print(dml_jax.gather(x, np.array([0, 1, 1, 2], np.uint32), axis=0))
      [[1. 2.]
       [3. 4.]
       [3. 4.]
       [5. 6.]]

    Source: DML_GATHER_OPERATOR_DESC. DirectML promises only that a bad index reads inside the input;
      reading the nearest element along `axis` is the choice made here.
    """
    indices = jnp.asarray(indices)  # under jax.disable_jit they may be NumPy's
    axis %= input.ndim
    after = axis + indices.ndim
    placed = (*range(axis), *range(after, after + input.ndim - 1 - axis))
    return read(
        input,
        indices[..., None],
        Slices(input.ndim, (axis,), placed=placed),
        mode=mode,
        fill_value=fill_value,
        promises=Promises(unique_indices, indices_are_sorted, deterministic),
    )


def _gathered_sizes(x: Operands) -> tuple[int, ...] | None:
    """Returns the output sizes of GATHER before leading sizes of 1 are added or dropped; None if a rule is broken."""
    input, indices, axis, count = x["input"].sizes, x["indices"].sizes, x["axis"], x["index_dimensions"]
    if not (0 <= axis < len(input) and 0 <= count <= len(indices)):
        return None
    return (*input[:axis], *indices[len(indices) - count :], *input[axis + 1 :])


def _gather_output(x: Operands) -> tuple[int, ...] | None:
    sizes, rank = _gathered_sizes(x), len(x["input"].sizes)
    return None if sizes is None or GATHER_FITS.broken_by(x) else right_aligned(sizes, rank)


_GATHERED = "{input}.{sizes}[:{axis}] + the last {index_dimensions} of {indices}.{sizes} + {input}.{sizes}[{axis}+1:]"
GATHER_FITS = fits_rank(
    "output",
    _gathered_sizes,
    f"{_GATHERED} must fit {{input}}.{{rank}}, leaving out only leading sizes of 1",
    crop=True,
)


class GatherDesc(OperatorDesc):
    """DML_GATHER_OPERATOR_DESC: reads the slices of `input` that `indices` names along `axis`.

    Args:
      indices: the DimensionCount of `input`; only the last `index_dimensions` sizes count, the others are 1.
      output: the sizes of `input` with those of `indices` in place of `axis`, right-aligned, leading 1s as needed.
      axis: in [0, DimensionCount); it counts leading dimensions of padding.
      index_dimensions: in [0, DimensionCount]; 0 for a single index.

    Example:
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

    input: Input
    indices: IndexInput
    output: Output
    axis: UInt
    index_dimensions: UInt

    moves_words = True
    support = INDEXED_1_0
    constraints = (
        below_rank("axis", "input"),
        dimension_count("index_dimensions", "indices", least=0),
        ignored_sizes_are_1("indices", "index_dimensions"),
        GATHER_FITS,
        sizes_follow("output", _gather_output, f"{_GATHERED}, right-aligned"),
    )

    def compute_checked(self, input: jax.Array, indices: jax.Array) -> jax.Array:
        real = self.indices.sizes[len(self.indices.sizes) - self.index_dimensions :]
        return gather(input, indices.reshape(real), self.axis).reshape(self.output.sizes)
