"""SCATTER, also called SCATTER_ELEMENTS: writes or combines one element per index along one axis."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..core.arguments.kinds import Data, Indices, OutSharding
from ..core.arguments.operator import operator
from ..core.indices.axes import indexed_axes_not_empty
from ..core.indices.modes import REDUCIBLE, REDUCTION, WRITE_MODE, ReductionName, WriteMode
from ..core.rules import Operands, axis_of, integer_indices, minimum_rank, same_dtype, same_rank, same_sizes
from ..core.sharding import Dims, names_of, renamed
from ..core.structs.feature_level_tables import INDEXED_2_0
from ..core.structs.fields import Axis, IndexInput, Input, Output
from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.struct_rules import below_rank
from ..operations.gather_scatter_dimension_numbers import Slices
from ..operations.indexed_write import write
from ..operations.promises import Promises

__all__ = ["ScatterDesc", "ScatterElementsDesc", "scatter_elements"]

SIZES = (same_sizes("indices", "input", except_along="axis"), same_sizes("updates", "indices"))
RULES = (
    integer_indices(),
    same_dtype("updates", "input"),
    minimum_rank("input", 1),
    same_rank("indices", "input"),
    axis_of("input"),
    REDUCTION,
    REDUCIBLE,
    WRITE_MODE,
    *SIZES,
    indexed_axes_not_empty(lambda x: [x["axis"]]),
)


def _dims(x: Operands) -> Dims:
    names = names_of(x, "input")
    written = renamed(names, [x["axis"]])
    return Dims({"input": names, "indices": written, "updates": written}, names, written)


@operator(*RULES, dims=_dims)
def scatter_elements(
    input: Data,
    indices: Indices,
    updates: Data,
    axis: int,
    *,
    reduction: ReductionName | None = None,
    include_self: bool = True,
    mode: WriteMode = "drop",
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    deterministic: bool = False,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Copies `input` and writes, or combines, each element of `updates` where `indices` points along `axis`.

    output = input; output[c with c[axis] := indices[c]] = updates[c], or combined with it by `reduction`.

    Args:
      input: rank >= 1, any dtype that JAX moves.
      indices: the rank and sizes of `input` except along `axis`, where any size will do; sizes never broadcast. Any
        integer dtype, or lists of Python integers. A negative index counts from the end, once; an unsigned one never
        does. If two address one element and nothing is reduced, either update may win.
      updates: the shape of `indices` and the dtype of `input`.
      axis: -rank <= axis < rank of `input`.
      reduction: None replaces an element; "add", "mul", "min", "max" and "mean" combine it with all updates that
        address it. 8- and 16-bit floats are added and multiplied as float32 and rounded once; integers wrap; a NaN is
        both least and greatest, and -0.0 is less than 0.0; of bools "add" is or and "mul" is and. "mean" adds integers
        in 32 bits at least, and rounds the quotient towards minus infinity.
      include_self: whether an element takes part in its own reduction. If not, it becomes the reduction of its updates,
        and keeps its value where there are none.
      mode: "drop" ignores an update whose index is out of range, "clip" writes the nearest element,
        "promise_in_bounds" leaves it undefined.
      unique_indices: a promise that no two updates, after wrapping and clamping, address one element. Dropped ones
        are exempt.
      indices_are_sorted: a promise that `indices` ascend along `axis` and none is negative.
      deterministic: if True, sums, products and gradients of floats have the same bits in every run on the same kind of
        device. This, like the derivative of "mul", needs known sizes and fewer than 2**31 elements; otherwise
        ConstraintError.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array of the shape and dtype of `input`.

    Raises:
      ConstraintError: ranks or sizes differ, `axis` or `mode` out of range, or a non-empty write to an axis of size 0.
      DataTypeError: `indices` are not integers, the dtypes of `updates` and `input` differ, or 64-bit data while
        x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> indices = np.array([[1, 0, 2], [0, 2, 1]], np.uint32)
      >>> updates = np.array([[10, 11, 12], [20, 21, 22]], np.float32)
      >>> print(dml_jax.scatter_elements(np.zeros((3, 3), np.float32), indices, updates, axis=0))
      [[20. 11.  0.]
       [10.  0. 22.]
       [ 0. 21. 12.]]

    Source: DML_SCATTER_OPERATOR_DESC. DirectML is silent about an index out of range; dropping its update is the
      choice made here. Duplicate targets are invalid there and unspecified here.
    """
    axis %= input.ndim
    others = tuple(d for d in range(input.ndim) if d != axis)
    slices = Slices(input.ndim, (axis,), others, others)
    # XLA's promise is about all indices in row-major order, coordinates of other dimensions first.
    of_xla = Promises(unique_indices, indices_are_sorted and axis == input.ndim - 1, deterministic)
    return write(
        input,
        jnp.asarray(indices)[..., None],
        updates,
        slices,
        mode=mode,
        reduction=reduction,
        include_self=include_self,
        promises=of_xla,
    )


class ScatterElementsDesc(OperatorDesc):
    """DML_SCATTER_OPERATOR_DESC: copies `input` and writes each element of `updates` where `indices` points.

    Args:
      indices: the sizes of `input` except along `axis`.

    Example:
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

    input: Input
    indices: IndexInput
    updates: Input
    output: Output
    axis: Axis

    operator_type = "SCATTER"
    other_names = ("SCATTER_ELEMENTS",)
    replaces_in = "input"
    moves_words = True
    support = INDEXED_2_0
    constraints = (below_rank("axis", "output"), *SIZES, same_sizes("output", "input"))

    def compute_checked(self, input: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
        return scatter_elements(input, indices, updates, self.axis)

    def compute_words(self, input: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
        # Batched by jax.vmap, XLA would move the words first and copy all data twice.
        return self.compute_checked(input, jnp.broadcast_to(indices[..., None], updates.shape), updates)


ScatterDesc = ScatterElementsDesc
