"""ARGMAX and ARGMIN: the index of the greatest or the least element, along several dimensions together."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import jax

from ..core.rules import Law, Operands, sizes_follow
from ..core.structs.enumerations import AxisDirection, FieldDirection
from ..core.structs.feature_level_tables import ALL_BUT_FLOAT64, INDEX_TYPES, RANKS_1_TO_8, UP_TO_32_BITS, Support
from ..core.structs.fields import Axes, Input, Output
from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.struct_rules import different_axes
from ..core.tensors.data_type import DataType
from ..operations.min_max import End, flat_place_of_extreme

__all__ = ["ArgmaxDesc", "ArgminDesc"]


def _reduced_sizes(x: Operands) -> tuple[int, ...]:
    return tuple(1 if d in x["axes"] else n for d, n in enumerate(x["input"].sizes))


class _PlaceDesc(OperatorDesc, is_base=True):
    """The base of both: `end` is the extreme that they look for.

    Args:
      output: the sizes of `input`, but 1 along `axes`; of a type of indices.
      axes: different dimensions, one at least. The index counts the elements along all of them in row-major order.
      axis_direction: an `AxisDirection`, or its name: INCREASING finds the first of equal elements, DECREASING the
        last one.
    """

    input: Input
    output: Output
    axes: Axes
    axis_direction: FieldDirection

    end: ClassVar[End]
    other_types = ("output",)
    support = (
        Support.of("4_1", RANKS_1_TO_8, input=ALL_BUT_FLOAT64, output=INDEX_TYPES),
        Support.of("3_0", RANKS_1_TO_8, input=UP_TO_32_BITS, output=INDEX_TYPES),
    )
    constraints = (
        # A graph has indices of the type of REDUCE's, where it is not told another one.
        replace(different_axes("input"), law=Law("output", "data_type", lambda _: DataType.UINT32)),
        sizes_follow("output", _reduced_sizes, "{input}.{sizes}, but 1 along {axes}"),
    )

    def compute_checked(self, input: jax.Array) -> jax.Array:
        is_last = self.axis_direction == AxisDirection.DECREASING
        return flat_place_of_extreme(input, self.axes, self.end, is_last=is_last).astype(self.output.dtype)


class ArgmaxDesc(_PlaceDesc):
    """DML_ARGMAX_OPERATOR_DESC: finds the index of the greatest element along some dimensions.

    Example:
      >>> table, one = TensorDesc("FLOAT32", (3, 3)), TensorDesc("UINT32", (1, 1))
      >>> x = np.float32([[1, 2, 3], [3, 0, 4], [2, 5, 2]])
      >>> print(descs.ArgmaxDesc(table, one, (0, 1), "INCREASING").compute(x))
      [[7]]

    Source: DML_ARGMAX_OPERATOR_DESC, which says nothing of NaN: the greatest element here.
    """

    in_jax = "jax.numpy.argmax"
    end = "greatest"


class ArgminDesc(_PlaceDesc):
    """DML_ARGMIN_OPERATOR_DESC: finds the index of the least element along some dimensions.

    Example:
      >>> table, one = TensorDesc("FLOAT32", (3, 3)), TensorDesc("UINT32", (1, 1))
      >>> x = np.float32([[1, 2, 3], [3, 0, 4], [2, 5, 2]])
      >>> print(descs.ArgminDesc(table, one, (0, 1), "INCREASING").compute(x))
      [[4]]

    Source: DML_ARGMIN_OPERATOR_DESC, which says nothing of NaN: the least element here.
    """

    in_jax = "jax.numpy.argmin"
    end = "least"
