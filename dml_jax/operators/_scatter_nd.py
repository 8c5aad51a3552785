"""SCATTER_ND: writes or combines the slices that tuples of coordinates address."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..core.arguments.kinds import Data, Indices, OutSharding
from ..core.arguments.operator import operator
from ..core.indices.axes import indexed_axes_not_empty
from ..core.indices.index_tuples import FUNCTION, slice_rules, slices, tuple_size, tuples_fit, with_hint
from ..core.indices.modes import REDUCIBLE, REDUCTION, WRITE_MODE, ReductionName, WriteMode
from ..core.rules import Operands, integer_indices, minimum_rank, same_dtype, same_sizes, sizes_follow
from ..core.sharding import Dims, names_of
from ..core.structs.feature_level_tables import INDEXED_2_1
from ..core.structs.fields import IndexInput, Input, Output, UInt
from ..core.structs.operator_desc import OperatorDesc
from ..operations.gather_scatter_dimension_numbers import Slices
from ..operations.indexed_write import write
from ..operations.promises import Promises

__all__ = ["ScatterNDDesc", "scatter_nd"]

RULES = (
    integer_indices(),
    same_dtype("updates", "input"),
    minimum_rank("input", 1),
    minimum_rank("indices", 1),
    tuples_fit(FUNCTION, has_batch=False),
    REDUCTION,
    REDUCIBLE,
    WRITE_MODE,
    with_hint(sizes_follow("updates", slices, "{indices}.{sizes}[:-1] + {input}.{sizes}[{indices}.{sizes}[-1]:]")),
    indexed_axes_not_empty(lambda x: range(tuple_size(x))),
)


def _dims(x: Operands) -> Dims:
    names = names_of(x, "input")
    written = [f"q {d}" for d in range(x["indices"].ndim - 1)]
    updates = [*written, *names[tuple_size(x) :]]
    return Dims({"input": names, "indices": [*written, "tuple"], "updates": updates}, names, names[tuple_size(x) :])


@operator(*RULES, dims=_dims)
def scatter_nd(
    input: Data,
    indices: Indices,
    updates: Data,
    *,
    reduction: ReductionName | None = None,
    include_self: bool = True,
    mode: WriteMode = "drop",
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    deterministic: bool = False,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Copies `input` and writes, or combines, each slice of `updates` where a tuple of `indices` points.

    Tuples lie along the last dimension of `indices`.

    output = input; output[indices[q, 0], ..., indices[q, t-1], r] = updates[q, r], or combined with it by `reduction`;
    t = indices.shape[-1].

    Args:
      input: rank >= 1, any dtype that JAX moves.
      indices: rank >= 1; its last size t is the length of a tuple, 1 <= t <= rank of `input`. Any integer dtype, or
        lists of Python integers. A negative index counts from the end, once; an unsigned one never does. If two tuples
        address one slice and nothing is reduced, either update may win.
      updates: of shape indices.shape[:-1] + input.shape[t:] and the dtype of `input`.
      reduction: None replaces an element; "add", "mul", "min", "max" and "mean" combine it with all updates that
        address it. 8- and 16-bit floats are added and multiplied as float32 and rounded once; integers wrap; a NaN is
        both least and greatest, and -0.0 is less than 0.0; of bools "add" is or and "mul" is and. "mean" adds integers
        in 32 bits at least, and rounds the quotient towards minus infinity.
      include_self: whether an element takes part in its own reduction. If not, it becomes the reduction of its updates,
        and keeps its value where there are none.
      mode: "drop" ignores an update if any of its coordinates is out of range, "clip" moves each such coordinate to
        the nearest one in range, "promise_in_bounds" leaves it undefined.
      unique_indices: a promise that no two updates, after wrapping and clamping, address one slice. Dropped ones
        are exempt.
      indices_are_sorted: a promise that the tuples ascend, compared coordinate by coordinate, and no coordinate is
        negative.
      deterministic: if True, sums, products and gradients of floats have the same bits in every run on the same kind of
        device. This, like the derivative of "mul", needs known sizes and fewer than 2**31 elements; otherwise
        ConstraintError.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array of the shape and dtype of `input`.

    Raises:
      ConstraintError: tuples too long or empty, wrong sizes of `updates`, `mode` unknown, or a non-empty write to a
        dimension of size 0.
      DataTypeError: `indices` are not integers, the dtypes of `updates` and `input` differ, or 64-bit data while
        x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.arange(1, 9, dtype=np.float32)
      >>> tuples = np.array([[4], [3], [1], [7]], np.uint32)
      >>> print(dml_jax.scatter_nd(x, tuples, np.array([9, 10, 11, 12], np.float32)))
      [ 1. 11.  3. 10.  9.  6.  7. 12.]

    Source: DML_SCATTER_ND_OPERATOR_DESC. DirectML is silent about a coordinate out of range; dropping its update is
      the choice made here. Duplicate targets are invalid there and unspecified here.
    """
    indices = jnp.asarray(indices)
    indexed = tuple(range(indices.shape[-1]))
    slices = Slices(input.ndim, indexed, placed=tuple(range(indices.ndim - 1, updates.ndim)))
    promises = Promises(unique_indices, indices_are_sorted, deterministic)
    return write(
        input, indices, updates, slices, mode=mode, reduction=reduction, include_self=include_self, promises=promises
    )


class ScatterNDDesc(OperatorDesc):
    """DML_SCATTER_ND_OPERATOR_DESC: copies `input` and writes each slice of `updates` where a tuple points.

    Args:
      input: only the last `input_dimension_count` sizes count, the others are 1.
      indices: only the last `indices_dimension_count` sizes count, the others are 1; its last size is the tuple's.
      updates: all but the last real size of `indices`, then the sizes of `input` that no coordinate takes;
        right-aligned.
      input_dimension_count: in [1, DimensionCount].
      indices_dimension_count: in [1, DimensionCount].

    Example:
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

    input: Input
    indices: IndexInput
    updates: Input
    output: Output
    input_dimension_count: UInt
    indices_dimension_count: UInt

    replaces_in = "input"
    moves_words = True
    support = INDEXED_2_1
    constraints = (*slice_rules("updates"), same_sizes("output", "input"))

    def compute_checked(self, input: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
        return self._scatter(input, indices, updates)

    def compute_words(self, input: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
        return self._scatter(input, indices, updates, 2)

    def _scatter(self, input: jax.Array, indices: jax.Array, updates: jax.Array, *inner: int) -> jax.Array:
        """Runs scatter_nd on elements with trailing dimensions `inner`: (2,) for 64-bit data as two 32-bit words."""
        real_input = input.reshape(*self.input.sizes[-self.input_dimension_count :], *inner)
        real_indices = indices.reshape(self.indices.sizes[-self.indices_dimension_count :])
        real_updates = updates.reshape((*(slices(self.operands()) or ()), *inner))
        return scatter_nd(real_input, real_indices, real_updates).reshape(*self.output.sizes, *inner)
