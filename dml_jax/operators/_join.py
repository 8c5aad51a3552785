"""JOIN: concatenates arrays along one axis."""

from __future__ import annotations

from math import gcd

import jax
from jax import lax

from ..core.arguments.kinds import DataList, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import Operands, Rule, custom, sizes_follow
from ..core.sharding import Dims, renamed
from ..core.structs.feature_level_tables import (
    ALL_TYPES,
    MOVED_1_0,
    RANK_4,
    RANKS_1_TO_8,
    RANKS_4_TO_5,
    UP_TO_32_BITS,
    levels,
)
from ..core.structs.fields import Axis, Inputs, Output
from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.struct_rules import below_rank
from ..errors import DataTypeError
from ..operations.data_movement import move_elements
from ..operations.values.bit_exact import as_bits_of_arrays

__all__ = ["JoinDesc", "join"]


def _none(x: Operands) -> str | None:
    return None if x["inputs"] else "there is none"


def _types_differ(x: Operands) -> str | None:
    types = list(dict.fromkeys(str(tensor.dtype) for tensor in x["inputs"]))
    return f"they are {' and '.join(types)}" if len(types) > 1 else None


def _no_axis(x: Operands) -> str | None:
    rank = len(x["inputs"][0].shape) if x["inputs"] else 1
    return None if -rank <= x["axis"] < rank else f"it is {x['axis']} and the rank is {rank}"


def _sizes_differ(x: Operands) -> str | None:
    if not x["inputs"] or _no_axis(x):
        return None
    other_sizes = [_beside(tensor.shape, x["axis"]) for tensor in x["inputs"]]
    other = next((i for i, sizes in enumerate(other_sizes) if sizes != other_sizes[0]), None)
    return None if other is None else f"{tuple(x['inputs'][other].shape)} and {tuple(x['inputs'][0].shape)} differ"


def _beside(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """The sizes of the other dimensions."""
    axis %= len(shape) or 1
    return (len(shape), *shape[:axis], *shape[axis + 1 :])


SIZES = custom("same_sizes(inputs)", "all {inputs} must have the same {sizes} except along {axis}", _sizes_differ)
RULES = (
    custom("some(inputs)", "{inputs} must hold an array", _none),
    Rule("same_dtype(inputs)", "all {inputs} must have one {dtype}", _types_differ, DataTypeError),
    custom("axis_of(inputs)", "{axis} must be in [-{rank}, {rank}) of {inputs}", _no_axis),
    SIZES,
)


def _dims(x: Operands) -> Dims:
    """The axis keeps no sharding: the parts of one device are not adjacent."""
    names = [f"input {d}" for d in range(x["inputs"][0].ndim)]
    parts = {f"inputs[{i}]": renamed(names, [x["axis"]], f"part {i}") for i in range(len(x["inputs"]))}
    return Dims(parts, renamed(names, [x["axis"]]), names)


@operator(*RULES, dims=_dims)
def join(inputs: DataList, axis: int, *, out_sharding: OutSharding = None) -> jax.Array:
    """Concatenates arrays along `axis`; inverts `split`.

    output = inputs[0], then inputs[1] and so on, along `axis`.

    Args:
      inputs: one array or more, of one dtype that JAX moves, one rank >= 1, and one size in all other dimensions.
      axis: -rank <= axis < rank of `inputs`.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array of the sizes of `inputs`, those along `axis` added up, and their dtype.

    Raises:
      ConstraintError: no array, `axis` out of range, or ranks or sizes differ.
      DataTypeError: the dtypes differ, or 64-bit `inputs` while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> print(dml_jax.join([np.int32([[1, 2], [3, 4]]), np.int32([[5], [6]])], axis=1))
      [[1 2 5]
       [3 4 6]]

    Source: DML_JOIN_OPERATOR_DESC.
    """

    def concatenate(_: None, *inputs: jax.Array) -> jax.Array:
        return lax.concatenate(inputs, axis % inputs[0].ndim)

    sizes = [x.shape[axis] for x in inputs]
    aligned = gcd(*sizes) if all(isinstance(n, int) for n in sizes) else 1
    return move_elements(concatenate, None, *inputs, aligned=aligned, carry=as_bits_of_arrays)


def _joined_sizes(x: Operands) -> tuple[int, ...] | None:
    if not x["inputs"] or not 0 <= x["axis"] < len(x["inputs"][0].sizes) or _sizes_differ(x):
        return None
    first, axis = x["inputs"][0].sizes, x["axis"]
    return (*first[:axis], sum(tensor.sizes[axis] for tensor in x["inputs"]), *first[axis + 1 :])


class JoinDesc(OperatorDesc):
    """DML_JOIN_OPERATOR_DESC: concatenates tensors along `axis`.

    Args:
      inputs: one tensor or more, of one size in all dimensions but `axis`.
      output: the sizes of `inputs`, those along `axis` added up.

    Example:
      >>> JoinDesc(
      ...     inputs=(TensorDesc("UINT8", (3,)), TensorDesc("UINT8", (2,))), output=TensorDesc("UINT8", (5,)), axis=0
      ... ).compute(np.uint8([1, 2, 3]), np.uint8([4, 5]))
      Array([1, 2, 3, 4, 5], dtype=uint8)

    Source: DML_JOIN_OPERATOR_DESC. Its page takes 4 and 5 dimensions from feature level 3_0 on; more came with 3_1.
    """

    inputs: Inputs
    output: Output
    axis: Axis

    moves_words = True
    support = levels(
        ("4_1", RANKS_1_TO_8, ALL_TYPES),
        ("3_1", RANKS_1_TO_8, UP_TO_32_BITS),
        ("3_0", RANKS_4_TO_5, UP_TO_32_BITS),
        ("2_1", RANK_4, UP_TO_32_BITS),
        ("1_0", RANK_4, MOVED_1_0),
        of="inputs",
    )
    constraints = (
        below_rank("axis", "output"),
        SIZES,
        sizes_follow("output", _joined_sizes, "those of {inputs}, added up along {axis}"),
    )

    def compute_checked(self, inputs: tuple[jax.Array, ...]) -> jax.Array:
        return join(inputs, self.axis)
