"""LP_POOLING and LP_POOLING1: the norm of each window."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import jax
import jax.numpy as jnp
from jax import lax

from ..core.arguments.kinds import Data, OutSharding, WindowSizes
from ..core.arguments.operator import operator
from ..core.rules import Operands, at_least, custom, floats
from ..core.structs.feature_level_tables import FLOATS, RANKS_4_TO_5, levels
from ..core.structs.fields import UInt
from ..operations.sum_prod_norm import absolute
from ..operations.values.accumulation_types import narrow_apart, wide_type
from ..operations.window_sums import sum_windows
from ._pooling_rules import PoolingDesc, dims_of, pooled, pooling_rules, pooling_struct_rules
from ._sliding_windows import Dilations, PerWindow, sliding

__all__ = ["LpPooling1Desc", "LpPoolingDesc", "lp_pooling"]


def _no_norm(x: Operands) -> str | None:
    return None if 1 <= x["p"] < inf else f"it is {x['p']}"


RULES = pooling_rules(floats("input"), custom("norm(p)", "{p} must be at least 1, and finite", _no_norm))


@operator(*RULES, dims=dims_of)
def lp_pooling(
    input: Data,
    window_sizes: WindowSizes,
    *,
    p: float = 2,
    strides: PerWindow | None = None,
    dilations: PerWindow | None = None,
    start_padding: PerWindow | None = None,
    end_padding: PerWindow | None = None,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Computes the p-norm of each window that slides over the last dimensions.

    output[..., b] = (the sum over w of abs(input[..., b * strides + w * dilations - start_padding]) ** p) ** (1 / p)

    Args:
      input: [..., S_1, ..., S_d], floats of any width, with 0 among them.
      window_sizes: elements of a window along each of the d last dimensions, d >= 1; integers, at least 1. One number
        stands for all dimensions after the first two, [N, C], of which there must be two.
      p: which norm: 1 for the sum of absolute values, 2 for the Euclidean norm; at least 1.
      strides: distance from a window to the next one, per spatial dimension, at least 1; 1 by default. One number
        stands for all.
      dilations: distance between the elements of a window, at least 1; 1 by default. One number stands for all.
      start_padding: how far the first window starts before each spatial dimension, at least 0; 0 by default. One number
        stands for all.
      end_padding: how far windows may reach past its end; as `start_padding`.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operand.

    Returns:
      An array with the number of windows for each spatial size, and the dtype of `input`. Padding counts as 0. Floats
      of 8 and 16 bits are computed in float32 and rounded once; powers may overflow where the norm does not.

    Raises:
      ConstraintError: `p` is less than 1, not a number per spatial dimension, one that is too small, or a window that
        does not fit.
      DataTypeError: a number is not an integer, `input` has no floats, no 0, or 64-bit ones while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.float32([[3, -4, 0], [0, 5, 12]])
      >>> print(dml_jax.lp_pooling(x, (1, 2)))
      [[ 5.  4.]
       [ 5. 13.]]
      >>> print(dml_jax.lp_pooling(x, (2, 2), p=1))
      [[12. 21.]]

    Source: DML_LP_POOLING1_OPERATOR_DESC, whose formula has no absolute value: that of ONNX's LpPool is taken.
    """
    windows = sliding(input.shape, window_sizes, strides, dilations, start_padding, end_padding)
    wide, axes = jnp.asarray(input, wide_type(input.dtype)), range(input.ndim - len(windows), input.ndim)
    return narrow_apart(norm(wide, p, lambda powers: sum_windows(powers, axes, windows)), input.dtype)


def norm(x: jax.Array, p: float, total: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """The p-norm of the elements that `total` adds up; where all are 0, its derivative is 0."""
    added = total(jnp.power(absolute(x), int(p) if int(p) == p else p))
    if p == 1:
        return added
    positive = jnp.where(added > 0, added, 1)
    root = lax.sqrt(positive) if p == 2 else jnp.power(positive, 1 / p)
    return jnp.where(added > 0, root, added)


# The structs.


class LpPoolingDesc(PoolingDesc):
    """DML_LP_POOLING_OPERATOR_DESC: computes the p-norm of each window.

    Args:
      p: which norm; at least 1.

    Example:
      >>> descs.LpPoolingDesc(
      ...     input=TensorDesc("FLOAT32", (1, 1, 2, 3)), output=TensorDesc("FLOAT32", (1, 1, 2, 2)),
      ...     strides=(1, 1), window_size=(1, 2), start_padding=(0, 0), end_padding=(0, 0), p=2,
      ... ).compute(np.float32([[[[3, -4, 0], [0, 5, 12]]]]))[0, 0]
      Array([[ 5.,  4.],
             [ 5., 13.]], dtype=float32)

    Source: DML_LP_POOLING_OPERATOR_DESC, whose formula has no absolute value: that of ONNX's LpPool is taken.
    """

    p: UInt

    support = levels(("1_0", RANKS_4_TO_5, FLOATS))
    constraints = (*pooling_struct_rules(dilated=False), at_least("p", 1))

    def compute_checked(self, input: jax.Array) -> jax.Array:
        return pooled(lp_pooling, self, input, p=self.p)


class LpPooling1Desc(PoolingDesc):
    """DML_LP_POOLING1_OPERATOR_DESC: computes the p-norm of each dilated window.

    Args:
      p: which norm; at least 1.

    Example:
      >>> descs.LpPooling1Desc(
      ...     input=TensorDesc("FLOAT32", (1, 1, 2, 3)), output=TensorDesc("FLOAT32", (1, 1, 2, 1)),
      ...     strides=(1, 1), window_size=(1, 2), start_padding=(0, 0), end_padding=(0, 0), dilations=(1, 2), p=1,
      ... ).compute(np.float32([[[[3, -4, 0], [0, 5, 12]]]])).ravel()
      Array([ 3., 12.], dtype=float32)

    Source: DML_LP_POOLING1_OPERATOR_DESC. Its page leaves Dilations out of the formula of the output's sizes; a window
      spans Dilations * (WindowSize - 1) + 1 elements here.
    """

    dilations: Dilations
    p: UInt

    support = levels(("6_2", RANKS_4_TO_5, FLOATS))
    constraints = (*pooling_struct_rules(dilated=True), at_least("p", 1))

    def compute_checked(self, input: jax.Array) -> jax.Array:
        return pooled(lp_pooling, self, input, p=self.p)
