"""SPLIT: divides an array into several along one axis."""

from __future__ import annotations

from collections.abc import Sequence

import jax

from ..core.arguments.kinds import Data, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import Operands, axis_of, custom, each_at_least, minimum_rank
from ..core.sharding import Dims, names_of, renamed
from ..core.structs.feature_level_tables import ALL_TYPES, MOVED_1_0, RANK_4, RANKS_1_TO_8, UP_TO_32_BITS, levels
from ..core.structs.fields import Axis, Input, Outputs
from ..core.structs.operator_desc import SeveralOutputs
from ..core.structs.struct_rules import below_rank
from ..operations.split import split_along

__all__ = ["SplitDesc", "split"]


def _incomplete(x: Operands) -> str | None:
    rank = len(x["input"].shape)
    if not -rank <= x["axis"] < rank:
        return None
    size = x["input"].shape[x["axis"]]
    return None if sum(x["sizes"]) == size else f"{x['sizes']} add up to {sum(x['sizes'])}, not {size}"


RULES = (
    minimum_rank("input", 1),
    axis_of("input"),
    custom("some(sizes)", "{sizes} must hold a size", lambda x: None if x["sizes"] else "there is none"),
    each_at_least("sizes", 0),
    custom("complete", "{sizes} must add up to the size of {input} along {axis}", _incomplete),
)


def _dims(x: Operands) -> Dims:
    names = names_of(x, "input")
    return Dims({"input": names}, renamed(names, [x["axis"]]), names)


@operator(*RULES, dims=_dims)
def split(input: Data, sizes: Sequence[int], axis: int, *, out_sharding: OutSharding = None) -> tuple[jax.Array, ...]:
    """Splits `input` into parts along `axis`; inverts `join`.

    outputs[i] = the next sizes[i] of `input` along `axis`.

    Args:
      input: rank >= 1, any dtype that JAX moves.
      sizes: of the parts along `axis`, in order; integers, at least 0, that add up to the size of `input` there.
      axis: -rank <= axis < rank of `input`.
      out_sharding: sharding of each output on a mesh: NamedSharding or PartitionSpec; by default from the operand.

    Returns:
      A tuple of arrays, one per size, of the sizes of `input` except along `axis` and its dtype.

    Raises:
      ConstraintError: no size, a negative one, sizes that do not add up, or `axis` out of range.
      DataTypeError: a size is not an integer, or 64-bit `input` while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> for part in dml_jax.split(np.int32([[1, 2, 3], [4, 5, 6]]), (1, 2), axis=1):
      ...     print(part)
      [[1]
       [4]]
      [[2 3]
       [5 6]]

    Source: DML_SPLIT_OPERATOR_DESC, whose parts are never empty; they may be here.
    """
    return split_along(input, tuple(sizes), axis % input.ndim)


def _parts(x: Operands) -> str | None:
    input, axis = x["input"].sizes, x["axis"]
    if not axis < len(input) or any(len(tensor.sizes) != len(input) for tensor in x["outputs"]):
        return None
    for i, tensor in enumerate(x["outputs"]):
        if (*tensor.sizes[:axis], *tensor.sizes[axis + 1 :]) != (*input[:axis], *input[axis + 1 :]):
            return f"{tensor.sizes} of number {i} and {input} differ elsewhere"
    total = sum(tensor.sizes[axis] for tensor in x["outputs"])
    return None if total == input[axis] else f"they add up to {total}, not {input[axis]}"


class SplitDesc(SeveralOutputs):
    """DML_SPLIT_OPERATOR_DESC: takes `input` apart along `axis`.

    Args:
      outputs: one tensor or more, of the sizes of `input` but along `axis`, where theirs add up to that of `input`.

    Example:
      >>> SplitDesc(
      ...     input=TensorDesc("UINT8", (5,)), outputs=(TensorDesc("UINT8", (2,)), TensorDesc("UINT8", (3,))), axis=0
      ... ).compute(np.uint8([1, 2, 3, 4, 5]))
      (Array([1, 2], dtype=uint8), Array([3, 4, 5], dtype=uint8))
    """

    input: Input
    outputs: Outputs
    axis: Axis

    moves_words = True
    support = levels(
        ("4_1", RANKS_1_TO_8, ALL_TYPES),
        ("3_0", RANKS_1_TO_8, UP_TO_32_BITS),
        ("2_1", RANK_4, UP_TO_32_BITS),
        ("1_0", RANK_4, MOVED_1_0),
    )
    constraints = (
        below_rank("axis", "input"),
        custom(
            "parts", "{outputs} must have the {sizes} of {input}, but along {axis}, where they add up to it", _parts
        ),
    )

    def compute_checked(self, input: jax.Array) -> tuple[jax.Array, ...]:
        return split(input, [tensor.sizes[self.axis] for tensor in self.outputs], self.axis)
