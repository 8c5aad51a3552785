"""ELEMENT_WISE_IF: chooses from two arrays by a condition, element by element (where)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from ..core.arguments.kinds import Condition, Data, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import Operands, Rule, same_dtype, same_sizes
from ..core.sharding import Dims, names_of
from ..core.structs.feature_level_tables import ALL_TYPES, FLOATS, RANK_4, RANKS_1_TO_8, UP_TO_32_BITS, Support
from ..core.structs.fields import Input, Output
from ..core.structs.operator_desc import OperatorDesc
from ..core.tensors.data_type import DataType
from ..errors import DataTypeError
from ..operations.values.bit_exact import as_guarded_bits, carry_bits

__all__ = ["ElementWiseIfDesc", "select"]


def _no_condition(x: Operands) -> str | None:
    dtype = x["condition"].dtype
    is_one = dtype == jnp.bool_ or jnp.issubdtype(dtype, jnp.integer)
    return None if is_one else f"it is {dtype}"


RULES = (
    Rule("condition_type", "{condition}.{dtype} must be bool or an integer type", _no_condition, DataTypeError),
    same_dtype("b", "a"),
    same_sizes("a", "condition"),
    same_sizes("b", "condition"),
)


def _dims(x: Operands) -> Dims:
    names = names_of(x, "condition")
    return Dims(dict.fromkeys(("condition", "a", "b"), names), names)


@operator(*RULES, dims=_dims)
def select(condition: Condition, a: Data, b: Data, *, out_sharding: OutSharding = None) -> jax.Array:
    """Takes every element from `a` where `condition` is not 0, and from `b` where it is.

    output[c] = a[c] if condition[c] != 0 else b[c]

    Args:
      condition: any rank; bool or any integer dtype, of which every number but 0 is true.
      a: the sizes of `condition`, any dtype that JAX moves.
      b: the sizes of `condition`, the dtype of `a`.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.

    Returns:
      An array of the sizes of `condition` and the dtype of `a`.

    Raises:
      ConstraintError: the sizes differ; nothing is broadcast.
      DataTypeError: `condition` has floats, `a` and `b` differ in dtype, or have 64 bits while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> print(dml_jax.select(np.uint8([[1, 0], [1, 1]]), np.int32([[1, 2], [3, 4]]), np.int32([[9, 8], [7, 6]])))
      [[1 8]
       [3 4]]

    Source: DML_ELEMENT_WISE_IF_OPERATOR_DESC, whose condition is UINT8.
    """
    condition, a, b = jnp.asarray(condition).astype(bool), jnp.asarray(a), jnp.asarray(b)
    return carry_bits(lax.select, condition, a, b, carry=as_guarded_bits)


_CONDITIONS = (DataType.UINT8,)


class ElementWiseIfDesc(OperatorDesc):
    """DML_ELEMENT_WISE_IF_OPERATOR_DESC: takes elements from `a` where `condition` is not 0, and from `b` elsewhere.

    Args:
      condition: any sizes; UINT8.

    Example:
      >>> floats = TensorDesc("FLOAT32", (3,))
      >>> ElementWiseIfDesc(TensorDesc("UINT8", (3,)), floats, floats, floats).compute(
      ...     np.uint8([2, 0, 1]), np.float32([1, 2, 3]), np.float32([-1, -2, -3])
      ... )
      Array([ 1., -2.,  3.], dtype=float32)

    Source: DML_ELEMENT_WISE_IF_OPERATOR_DESC. Its page gives feature level 2_0 FLOAT16 alone and has no row for 2_1;
      see the page of `select` for what is taken here.
    """

    condition: Input
    a: Input
    b: Input
    output: Output

    other_types = ("condition",)
    moves_words = True
    support = (
        Support.of("5_0", RANKS_1_TO_8, a=ALL_TYPES, condition=_CONDITIONS),
        Support.of("3_0", RANKS_1_TO_8, a=UP_TO_32_BITS, condition=_CONDITIONS),
        Support.of("2_1", RANK_4, a=UP_TO_32_BITS, condition=_CONDITIONS),
        Support.of("2_0", RANK_4, a=FLOATS, condition=_CONDITIONS),
    )
    constraints = tuple(same_sizes(name, "condition") for name in ("a", "b", "output"))

    def compute_checked(self, condition: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
        return select(condition, a, b)
