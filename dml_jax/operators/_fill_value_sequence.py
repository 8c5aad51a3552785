"""FILL_VALUE_SEQUENCE: an arithmetic sequence (arange), in row-major order."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from math import prod
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from ..core.arguments.exact_scalars import as_number
from ..core.arguments.kinds import DType, Number, OutSharding, Value, number_of
from ..core.arguments.operator import operator
from ..core.rules import Operands, Rule, each_at_least, representable
from ..core.sharding import dims_of_sizes
from ..core.structs.feature_level_tables import ALL_BUT_FLOAT64, RANK_4, RANKS_1_TO_8, UP_TO_32_BITS, levels
from ..core.structs.fields import Output
from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.scalar import Scalar, ScalarType, scalar_of
from ..core.structs.struct_rules import held, type_of
from ..core.tensors.tensor_desc import packed_strides
from ..errors import DataTypeError
from ..operations.values.bit_exact import index_dtype

__all__ = ["FillValueSequenceDesc", "fill_value_sequence"]


def _as_delta(operator: str, name: str, value: Any, dtype: Any) -> Any:
    """Reads a number that the type holds; an unsigned type also takes a negative number, modulo 2**bits."""
    if jnp.issubdtype(dtype, jnp.unsignedinteger) and not isinstance(value, Tracer):
        signed = jnp.dtype(dtype.name.removeprefix("u"))
        with suppress(DataTypeError):
            value = int(as_number(operator, name, value, signed)) % 2 ** jnp.iinfo(dtype).bits
    return as_number(operator, name, value, dtype)


Delta = Annotated[Number, replace(number_of("dtype"), read=_as_delta)]


def _no_order(x: Operands) -> str | None:
    is_real = jnp.issubdtype(x["dtype"], jnp.integer) or jnp.issubdtype(x["dtype"], jnp.floating)
    return None if is_real else f"it is {x['dtype']}"


RULES = (
    Rule("real(dtype)", "{dtype} must be an integer or floating-point type", _no_order, DataTypeError),
    each_at_least("sizes", 0),
    representable("sizes", lambda x: x["sizes"], "dtype"),
)


@operator(*RULES, dims=dims_of_sizes)
def fill_value_sequence(
    sizes: Sequence[int], start: Value, delta: Delta, dtype: DType, *, out_sharding: OutSharding = None
) -> jax.Array:
    """Makes an array of numbers at equal distances, in row-major order.

    output.ravel()[i] = start + i * delta

    No error adds up from element to element. Integers wrap around in their type. Floats of 8 and 16 bits are computed
    as float32 and rounded once; wider ones are rounded once or twice, as the device likes.

    Args:
      sizes: of the output; integers, at least 0.
      start: the first number, one that `dtype` holds, or a traced scalar of `dtype`. Another one compiles nothing new.
      delta: from each number to the next, likewise; of an unsigned type it may be negative, unless it is traced.
      dtype: of the output, integers or floats: an argument of numpy.dtype, such as jnp.bfloat16 or "uint8".
      out_sharding: of the output on a mesh, a NamedSharding or PartitionSpec; by default every device of the mesh that
        jax.set_mesh has set has all of it.

    Returns:
      An array of `sizes` and `dtype`.

    Raises:
      ConstraintError: a negative size, or too many elements.
      DataTypeError: a size is not an integer, `dtype` does not hold a number, is no type of integers or floats that JAX
        has, or has 64 bits while x64 is off.

    Example:
      >>> import dml_jax
      >>> print(dml_jax.fill_value_sequence((2, 2), 10, -2, "uint8"))
      [[10  8]
       [ 6  4]]

    Source: DML_FILL_VALUE_SEQUENCE_OPERATOR_DESC. It says nothing of integers beyond the type.
    """
    wide = _computed_in(dtype)
    start, delta = (jnp.asarray(number).astype(wide) for number in (start, delta))
    return (start + _numbers(tuple(sizes), wide) * delta).astype(dtype)


def _computed_in(dtype: Any) -> Any:
    """Returns the type to compute in: a wider one, or integers with the same low bits as the result."""
    if jnp.issubdtype(dtype, jnp.floating):
        return dtype if dtype.itemsize > 2 else np.dtype(np.float32)
    return np.dtype(np.uint64 if dtype.itemsize == 8 else np.uint32)


def _numbers(sizes: tuple[int, ...], wide: Any) -> jax.Array:
    """Returns the row-major number of each element; a reshape would make shards exchange it."""
    strides = packed_strides(sizes)
    counted = (prod(sizes), *strides)  # an empty array may have longer strides than elements
    are_counted_by_64_bits = any(isinstance(n, int) and n >= 2**31 for n in counted)  # not if symbolic
    with jax.enable_x64(True) if are_counted_by_64_bits else nullcontext():
        dtype = index_dtype(counted)
        along = [lax.broadcasted_iota(dtype, sizes, d) * stride for d, stride in enumerate(strides)]
        return sum(along, start=jnp.zeros(sizes, dtype)).astype(wide)


class FillValueSequenceDesc(OperatorDesc):
    """DML_FILL_VALUE_SEQUENCE_OPERATOR_DESC: numbers at equal distances, in row-major order.

    Args:
      value_start: the first number, of that type; one of NumPy of as many bits stands for its bits.
      value_delta: from each number to the next, likewise: np.int8(-2) for UINT8.

    Example:
      >>> FillValueSequenceDesc(TensorDesc("FLOAT32", (3,)), "FLOAT32", 3, 2).compute()
      Array([3., 5., 7.], dtype=float32)

    Source: DML_FILL_VALUE_SEQUENCE_OPERATOR_DESC. Its older text adds `value_delta` up; the newer one multiplies, as
      here.
    """

    output: Output
    value_data_type: ScalarType
    value_start: Scalar
    value_delta: Scalar

    support = levels(
        ("5_0", RANKS_1_TO_8, ALL_BUT_FLOAT64),
        ("4_0", RANKS_1_TO_8, UP_TO_32_BITS),
        ("2_1", RANK_4, UP_TO_32_BITS),
        of="output",
    )
    constraints = (
        type_of("value_data_type", "output"),
        held("value_start", "value_data_type"),
        held("value_delta", "value_data_type"),
    )

    def compute_checked(self) -> jax.Array:
        start, delta = (scalar_of(value, self.value_data_type) for value in (self.value_start, self.value_delta))
        return fill_value_sequence(self.output.sizes, start, delta, self.output.dtype)
