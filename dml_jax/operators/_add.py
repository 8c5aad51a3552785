"""ELEMENT_WISE_ADD and ELEMENT_WISE_ADD1: sums of two arrays, element by element, and an activation."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..core.arguments.kinds import Data, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import numbers, same_dtype, same_sizes
from ..core.structs.activation_fusion import Fused, Fusion, axes_within, computed_by
from ..core.structs.feature_level_tables import ALL_BUT_FLOAT64, FLOATS, INDEX_TYPES, RANKS_1_TO_8, RANKS_4_TO_5, levels
from ..core.structs.fields import Input, Output
from ..core.structs.operator_desc import OperatorDesc
from ..core.tensors.data_type import DataType
from ..operations.values.accumulation_types import narrow_apart, wide_type
from ._elementwise_sharding import elementwise

__all__ = ["ElementWiseAdd1Desc", "ElementWiseAddDesc", "add"]

RULES = (
    numbers("a"),
    same_dtype("b", "a"),
    same_sizes("b", "a"),
    computed_by("activation", "a"),
    axes_within("activation", "a"),
)


@operator(*RULES, dims=lambda x: elementwise(x, "a", "b"))
def add(a: Data, b: Data, *, activation: Fusion | None = None, out_sharding: OutSharding = None) -> jax.Array:
    """Adds two arrays element by element, and applies an activation.

    output[c] = activation(a[c] + b[c])

    Integers wrap. Floats of 8 and 16 bits are computed in float32 and rounded once, at the end. Nothing is broadcast.

    Args:
      a: any rank, any dtype of numbers. The sum of bools is "or".
      b: the shape and dtype of `a`.
      activation: an `Activation` that takes this dtype, or None.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array of the shape and dtype of `a`.

    Raises:
      ConstraintError: the shapes differ.
      DataTypeError: the dtypes differ, are no numbers or none of the activation, `activation` is not an `Activation`,
        or 64-bit numbers while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> a, b = np.float32([1, 2, 3]), np.float32([5, 8, -5])
      >>> print(dml_jax.add(a, b))
      [ 6. 10. -2.]
      >>> print(dml_jax.add(a, b, activation=dml_jax.Activation("ACTIVATION_RELU")))
      [ 6. 10.  0.]

    Source: DML_ELEMENT_WISE_ADD_OPERATOR_DESC and DML_ELEMENT_WISE_ADD1_OPERATOR_DESC, which broadcast by strides of 0
      and say nothing of integers that overflow.
    """
    a, b = jnp.asarray(a), jnp.asarray(b)
    wide = wide_type(a.dtype)
    total = a.astype(wide) + b.astype(wide)
    return narrow_apart(total if activation is None else activation(total), a.dtype)


_UP_TO_32_BITS = (*FLOATS, DataType.INT32, DataType.UINT32)


class ElementWiseAddDesc(OperatorDesc):
    """DML_ELEMENT_WISE_ADD_OPERATOR_DESC: adds two tensors element by element.

    The output may be bound to the buffer of an input, or of both, if they are described alike.

    Args:
      a: any sizes, often broadcast by strides of 0.

    Example:
      >>> matrix, row = TensorDesc("INT32", (2, 3)), TensorDesc("INT32", (2, 3), strides=(0, 1))
      >>> add_row = compile_operator(ElementWiseAddDesc(matrix, row, matrix))
      >>> print(add_row(np.arange(6, dtype=np.int32), np.int32([10, 20, 30])))
      [10 21 32 13 24 35]
    """

    a: Input
    b: Input
    output: Output

    in_place = True
    support = levels(
        ("5_1", RANKS_1_TO_8, ALL_BUT_FLOAT64),
        ("4_1", RANKS_1_TO_8, (*FLOATS, *INDEX_TYPES)),
        ("3_0", RANKS_1_TO_8, _UP_TO_32_BITS),
        ("2_1", RANKS_4_TO_5, _UP_TO_32_BITS),
        ("1_0", RANKS_4_TO_5, FLOATS),
        of="a",
    )
    constraints = (same_sizes("b", "a"), same_sizes("output", "a"))

    def compute_checked(self, a: jax.Array, b: jax.Array) -> jax.Array:
        return add(a, b)


class ElementWiseAdd1Desc(OperatorDesc):
    """DML_ELEMENT_WISE_ADD1_OPERATOR_DESC: adds two tensors element by element, and applies an activation.

    The output may be bound to the buffer of an input, or of both, if they are described alike.

    Args:
      a: any sizes, often broadcast by strides of 0.

    Example:
      >>> row, relu = TensorDesc("FLOAT32", (3,)), Activation("ACTIVATION_RELU")
      >>> print(ElementWiseAdd1Desc(row, row, row, relu).compute(np.float32([1, 2, 3]), np.float32([5, 8, -5])))
      [ 6. 10.  0.]
    """

    a: Input
    b: Input
    output: Output
    fused_activation: Fused = None

    in_place = True
    support = levels(("3_0", RANKS_1_TO_8, FLOATS), ("2_0", RANKS_4_TO_5, FLOATS), of="a")
    constraints = (same_sizes("b", "a"), same_sizes("output", "a"))

    def compute_checked(self, a: jax.Array, b: jax.Array) -> jax.Array:
        return add(a, b, activation=self.fused_activation)
