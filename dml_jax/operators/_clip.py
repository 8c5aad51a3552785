"""ELEMENT_WISE_CLIP and ELEMENT_WISE_CLIP1: clamps numbers between two bounds, after ScaleBias."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.arguments.kinds import Data, Number, OutSharding, number_of
from ..core.arguments.operator import operator
from ..core.rules import Operands, Rule, same_sizes
from ..core.sharding import dims_of_input
from ..core.structs.feature_level_tables import ALL_BUT_FLOAT64, FLOATS, RANK_4, RANKS_1_TO_8, UP_TO_32_BITS, levels
from ..core.structs.fields import Float, Input, Output
from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.scalar import Scalar, ScalarType, scalar_of, truncated
from ..core.structs.size_and_scale_bias import ScaleBias
from ..core.structs.struct_rules import held, type_of
from ..errors import DataTypeError
from ..operations.values.accumulation_types import narrow_apart, wide_type
from ..operations.values.bit_exact import is_key
from ._identity import identity

__all__ = ["ElementWiseClip1Desc", "ElementWiseClipDesc", "clip"]


def _unordered(x: Operands) -> str | None:
    dtype = x["input"].dtype
    is_real = not is_key(x["input"]) and (jnp.issubdtype(dtype, jnp.floating) or jnp.issubdtype(dtype, jnp.integer))
    return None if is_real else f"it is {dtype}"


RULES = (Rule("real(input)", "{input}.{dtype} must be an integer or floating-point type", _unordered, DataTypeError),)


Bound = Annotated[Number | None, replace(number_of("input"), shown="Number | None")]


@operator(*RULES, dims=dims_of_input)
def clip(
    input: Data,
    min: Bound = None,
    max: Bound = None,
    *,
    scale: float | None = None,
    bias: float | None = None,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Limits every element of `input` to the range between two bounds, which it may equal.

    output[c] = minimum(max, maximum(min, input[c] * scale + bias))

    Floats of 8 and 16 bits are computed in float32 and rounded once, at the end.

    Args:
      input: any rank, any dtype of real numbers.
      min: a number that this dtype holds, to which floats are rounded, or a traced scalar of this dtype. None is no
        bound. After the first few numbers another one compiles nothing new.
      max: as `min`; where it is less than `min`, the output is `max`.
      scale: a real number, known while tracing; left out, nothing is multiplied. See `identity` for integers.
      bias: as `scale`; left out, nothing is added.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operand.

    Returns:
      An array of the shape and dtype of `input`. NaN stays NaN; a bound that is NaN makes NaN of everything.

    Raises:
      DataTypeError: `input` has no real numbers, or 64-bit ones while x64 is off; its dtype does not hold a bound, or
        `scale` or `bias` is no real number.

    Example:
      >>> import numpy as np, dml_jax
      >>> print(dml_jax.clip(np.float32([-4, -1, 0, 3]), -2.5, 2.5))
      [-2.5 -1.   0.   2.5]
      >>> print(dml_jax.clip(np.uint8([0, 5, 200]), max=100, scale=2, bias=1))
      [  1  11 100]

    Source: DML_ELEMENT_WISE_CLIP_OPERATOR_DESC and DML_ELEMENT_WISE_CLIP1_OPERATOR_DESC, of which the second one gives
      `min` where it is greater than `max`.
    """
    array = jnp.asarray(input)
    wide = wide_type(array.dtype)
    least, most = (
        # Broadcast: lax.clamp has no derivative for a scalar bound (JAX 0.10 to 0.12).
        np.asarray(none).astype(wide) if x is None else jnp.broadcast_to(jnp.asarray(x, wide), array.shape)
        for x, none in zip((min, max), _extremes(wide), strict=True)
    )
    return narrow_apart(lax.clamp(least, identity(array.astype(wide), scale, bias), most), array.dtype)


def _extremes(dtype: Any) -> tuple[float, float]:
    """Returns bounds that no number of a type is beyond."""
    if not jnp.issubdtype(dtype, jnp.integer):
        return -np.inf, np.inf
    limits = jnp.iinfo(dtype)
    return int(limits.min), int(limits.max)


def _clip(desc: ElementWiseClipDesc | ElementWiseClip1Desc, input: jax.Array, least: Any, most: Any) -> jax.Array:
    pair = desc.scale_bias
    return clip(input, least, most, scale=pair and pair.scale, bias=pair and pair.bias)


class ElementWiseClipDesc(OperatorDesc):
    """DML_ELEMENT_WISE_CLIP_OPERATOR_DESC: brings numbers between two bounds, scaled and shifted before.

    The output may be bound to the buffer of `input` if both tensors are described alike.

    Args:
      min: a number; of integers its whole part counts, or the nearest one.
      max: as `min`; where it is less than `min`, the output is `max`.

    Example:
      >>> row = TensorDesc("FLOAT32", (4,))
      >>> print(ElementWiseClipDesc(row, row, None, min=-2.5, max=2.5).compute(np.float32([-4, -1, 0, 3])))
      [-2.5 -1.   0.   2.5]
    """

    input: Input
    output: Output
    scale_bias: ScaleBias
    min: Float
    max: Float

    in_place = True
    support = levels(
        ("5_0", RANKS_1_TO_8, ALL_BUT_FLOAT64),
        ("3_0", RANKS_1_TO_8, UP_TO_32_BITS),
        ("2_1", RANK_4, UP_TO_32_BITS),
        ("1_0", RANK_4, FLOATS),
    )
    constraints = (same_sizes("output", "input"),)

    def compute_checked(self, input: jax.Array) -> jax.Array:
        return _clip(self, input, *(truncated(bound, self.input.data_type) for bound in (self.min, self.max)))


class ElementWiseClip1Desc(OperatorDesc):
    """DML_ELEMENT_WISE_CLIP1_OPERATOR_DESC: brings numbers between two bounds of their data type.

    The output may be bound to the buffer of `input` if both tensors are described alike.

    Args:
      max: as `min`; where it is less than `min`, the output is `min`.

    Example:
      >>> row = TensorDesc("FLOAT16", (5,))
      >>> print(ElementWiseClip1Desc(row, row, None, "FLOAT16", 2, 4).compute(np.float16([1, 2, 3, 4, 5])))
      [2. 2. 3. 4. 4.]
    """

    input: Input
    output: Output
    scale_bias: ScaleBias
    min_max_data_type: ScalarType
    min: Scalar
    max: Scalar

    in_place = True
    support = levels(("5_0", RANKS_1_TO_8, ALL_BUT_FLOAT64))
    constraints = (
        same_sizes("output", "input"),
        type_of("min_max_data_type", "output"),
        held("min", "min_max_data_type"),
        held("max", "min_max_data_type"),
    )

    def compute_checked(self, input: jax.Array) -> jax.Array:
        least, most = (scalar_of(bound, self.min_max_data_type) for bound in (self.min, self.max))
        return _clip(self, input, least, np.maximum(least, most))
