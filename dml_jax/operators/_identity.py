"""ELEMENT_WISE_IDENTITY: a copy, scaled and shifted if asked for."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core.arguments.kinds import Data, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import Operands, Rule, same_sizes
from ..core.sharding import dims_of_input
from ..core.structs.feature_level_tables import ALL_TYPES, FLOATS, RANKS_1_TO_8, RANKS_4_TO_5, UP_TO_32_BITS, levels
from ..core.structs.field_types import default
from ..core.structs.fields import Input, Output
from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.size_and_scale_bias import ScaleBias
from ..errors import DataTypeError
from ..operations.values.accumulation_types import in_type
from ..operations.values.bit_exact import is_key
from ._cast import cast

__all__ = ["ElementWiseIdentityDesc", "identity"]


def _no_number(x: Operands) -> str | None:
    if x["scale"] is None and x["bias"] is None:
        return None
    is_number = not is_key(x["input"]) and jnp.issubdtype(x["input"].dtype, jnp.number)
    return None if is_number else f"it is {x['input'].dtype}"


RULES = (
    Rule("numbers(input)", "{input}.{dtype} must be a numeric type to be scaled or shifted", _no_number, DataTypeError),
)


@operator(*RULES, dims=dims_of_input)
def identity(
    input: Data, scale: float | None = None, bias: float | None = None, *, out_sharding: OutSharding = None
) -> jax.Array:
    """Copies `input`, or computes input * scale + bias.

    Floats of 8 and 16 bits are computed in float32 and rounded once. Integers are computed in their type, where they
    wrap, if `scale` and `bias` are whole numbers; else in float32, and become integers again as `cast` has it.

    Args:
      input: any rank, any dtype that JAX moves; one of numbers with a `scale` or a `bias`.
      scale: a real number, known while tracing; left out, nothing is multiplied.
      bias: a real number, known while tracing; left out, nothing is added.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operand.

    Returns:
      An array of the shape and dtype of `input`.

    Raises:
      DataTypeError: `scale` or `bias` is no real number, `input` has bools or keys to scale, or 64-bit `input` while
        x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> print(dml_jax.identity(np.float32([1, 2, 3]), scale=2, bias=10))
      [12. 14. 16.]
      >>> print(dml_jax.identity(np.uint8([1, 2, 3]), scale=-1))
      [255 254 253]

    Source: DML_ELEMENT_WISE_IDENTITY_OPERATOR_DESC, which says nothing of integers: these rules are the choice here.
    """
    array = jnp.asarray(input)
    factors = [number for number in (scale, bias) if number is not None]
    if not factors:
        return array
    is_integer, is_whole = jnp.issubdtype(array.dtype, jnp.integer), all(factor.is_integer() for factor in factors)
    dtype = _computed_in(array.dtype, is_integer and not is_whole)
    wide = cast(array, dtype)
    scaled = wide if scale is None else wide * _number(scale, dtype)
    shifted = scaled if bias is None else scaled + _number(bias, dtype)
    return cast(shifted, array.dtype)


def _computed_in(dtype: Any, is_rounded: bool) -> Any:
    is_narrow = jnp.issubdtype(dtype, jnp.floating) and dtype.itemsize < 4
    return np.dtype(np.float32) if is_narrow or is_rounded else dtype


def _number(value: float, dtype: Any) -> np.ndarray:
    """Returns a factor in a type; for integers the one that wraps to the same product or sum."""
    if not jnp.issubdtype(dtype, jnp.integer):
        return in_type(dtype, value)
    limits = jnp.iinfo(dtype)
    return np.asarray((int(value) - int(limits.min)) % 2**limits.bits + int(limits.min)).astype(dtype)


class ElementWiseIdentityDesc(OperatorDesc):
    """DML_ELEMENT_WISE_IDENTITY_OPERATOR_DESC: copies `input`; with strides it transposes and repeats.

    The output may be bound to the buffer of `input` if both tensors are described alike.

    Args:
      output: the sizes of `input`; the strides may differ.
      scale_bias: a pair of numbers, for input * scale + bias; or None, which copies bits.

    Example:
      >>> transpose = ElementWiseIdentityDesc(TensorDesc("UINT8", (3, 2), (1, 3)), TensorDesc("UINT8", (3, 2)), None)
      >>> print(compile_operator(transpose)(np.arange(6, dtype=np.uint8)))
      [0 3 1 4 2 5]
    """

    input: Input
    output: Output
    scale_bias: ScaleBias = default(None)

    in_place = True
    support = levels(
        ("4_1", RANKS_1_TO_8, ALL_TYPES),
        ("3_0", RANKS_1_TO_8, UP_TO_32_BITS),
        ("2_1", RANKS_4_TO_5, UP_TO_32_BITS),
        ("1_0", RANKS_4_TO_5, FLOATS),
    )
    constraints = (same_sizes("output", "input"),)

    def compute_checked(self, input: jax.Array) -> jax.Array:
        if self.scale_bias is None:
            return identity(input)
        return identity(input, self.scale_bias.scale, self.scale_bias.bias)
