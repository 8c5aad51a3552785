"""VALUE_SCALE_2D: pictures multiplied by a number, and shifted by one per channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from ..core.arguments.kinds import Data, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import Operands, custom, floats, minimum_rank, same_sizes
from ..core.sharding import dims_of_input
from ..core.structs.feature_level_tables import FLOATS, RANK_4, levels
from ..core.structs.field_types import Row
from ..core.structs.fields import FLOAT, Float, Input, Output, counted_by
from ..core.structs.operator_desc import OperatorDesc
from ..operations.values.accumulation_types import in_type, narrow_apart

__all__ = ["ValueScale2DDesc", "value_scale_2d"]

CHANNELS = -3


def _other_count(x: Operands) -> str | None:
    shape, count = x["input"].shape, len(x["bias"])
    if len(shape) < -CHANNELS or count == shape[CHANNELS]:
        return None
    return f"there are {count} for {shape[CHANNELS]} channels"


def _neither_grey_nor_colour(x: Operands) -> str | None:
    return None if len(x["bias"]) in (1, 3) else f"there are {len(x['bias'])}"


PER_CHANNEL = custom("one_per_channel(bias)", "{bias} must have one number per channel of {input}", _other_count)
RULES = (
    minimum_rank("input", 3),
    floats("input"),
    PER_CHANNEL,
)


@operator(*RULES, dims=dims_of_input)
def value_scale_2d(input: Data, scale: float, bias: Sequence[float], *, out_sharding: OutSharding = None) -> jax.Array:
    """Multiplies `input` by a number and adds another number to each channel.

    output[n, c, h, w] = input[n, c, h, w] * scale + bias[c]

    Floats of 8 and 16 bits are computed in float32 and rounded once, at the end.

    Args:
      input: [..., C, H, W], floats of any width.
      scale: a real number, known while tracing; it is rounded to the type that is computed in.
      bias: C of them.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operand.

    Returns:
      An array of the shape and dtype of `input`.

    Raises:
      ConstraintError: rank below 3, or not a number per channel.
      DataTypeError: `scale` or one of `bias` is no real number, `input` has no floats, or 64-bit ones while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.float32([[[1, 2]], [[3, 4]], [[5, 6]]])
      >>> print(dml_jax.value_scale_2d(x, 2, (10, 20, 30)).reshape(3, 2))
      [[12. 14.]
       [26. 28.]
       [40. 42.]]

    Source: DML_VALUE_SCALE_2D_OPERATOR_DESC, where input has exactly 4 dimensions and 1 or 3 channels; any number of
      channels and of dimensions before them is accepted here.
    """
    array = jnp.asarray(input)
    dtype = array.dtype if array.dtype.itemsize >= 4 else np.dtype(np.float32)
    shifts = in_type(dtype, bias).reshape(*(1,) * (array.ndim - 3), -1, 1, 1)
    return narrow_apart(array.astype(dtype) * in_type(dtype, scale) + shifts, array.dtype)


class ValueScale2DDesc(OperatorDesc):
    """DML_VALUE_SCALE_2D_OPERATOR_DESC: multiplies pictures by a number, and adds one per channel.

    Args:
      input: exactly 4-D, (N, C, H, W), with 1 or 3 channels.
      scale: a number.
      bias: one number per channel.

    Example:
      >>> pixels = TensorDesc("FLOAT32", (1, 3, 1, 1))
      >>> desc = ValueScale2DDesc(pixels, pixels, scale=2, bias=(10, 20, 30))
      >>> print(desc.compute(np.float32([1, 2, 3]).reshape(1, 3, 1, 1)).ravel())
      [12. 24. 36.]

    Source: DML_VALUE_SCALE_2D_OPERATOR_DESC. Its page has a bias per dimension, and means one per channel.
    """

    input: Input
    output: Output
    scale: Float
    bias: Annotated[Row[float], counted_by("ChannelCount", FLOAT)]

    operator_type = "VALUE_SCALE_2D"
    support = levels(("1_0", RANK_4, FLOATS))
    constraints = (
        PER_CHANNEL,
        custom("grey_or_colour", "{bias} must have 1 or 3 entries", _neither_grey_nor_colour),
        same_sizes("output", "input"),
    )

    def compute_checked(self, input: jax.Array) -> jax.Array:
        return value_scale_2d(input, self.scale, self.bias)
