"""MEAN_VARIANCE_NORMALIZATION, 1 and 2: subtracts the mean and divides by the deviation, along some dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import jax

from ..core.rules import Operands, Rule, custom, if_given, same_sizes
from ..core.structs.activation_fusion import Fused
from ..core.structs.feature_level_tables import FLOATS, RANK_4, RANKS_1_TO_8, levels
from ..core.structs.fields import Axes, Bool, Input, OptionalInput, Output
from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.struct_rules import broadcast_to, different_axes
from ..operations.values.accumulation_types import narrow_apart
from ._normalization_formulas import Epsilon, centred, mean_of_squares, normalize, widened

__all__ = ["MeanVarianceNormalization1Desc", "MeanVarianceNormalization2Desc", "MeanVarianceNormalizationDesc"]


# Rules.


def _alone(x: Operands) -> str | None:
    missing = [name for name in ("scale", "bias") if x[name] is None]
    return f"there is no {missing[0]}" if len(missing) == 1 else None


def _per_channel(tensor: str) -> Rule:
    def broken_by(x: Operands) -> str | None:
        sizes, wanted = x[tensor].sizes[1:2], x["input"].sizes[1:2]
        return None if sizes == wanted else f"they are {sizes} and {wanted}"

    text = f"the channels of {{{tensor}}} must be those of {{input}} below feature level 4_0"
    return if_given(tensor, custom(f"per_channel({tensor})", text, broken_by))


SIZES = (*(if_given(name, broadcast_to(name, "input")) for name in ("scale", "bias")), same_sizes("output", "input"))
AXES = different_axes("input")
BOTH = custom("both", "{scale} and {bias} must be given together below feature level 5_2", _alone)


def _standardize(
    desc: MeanVarianceNormalizationDesc | MeanVarianceNormalization1Desc | MeanVarianceNormalization2Desc,
    input: jax.Array,
    numbers: Sequence[jax.Array | None],
    axes: Sequence[int],
    *,
    use_variance: bool,
    use_mean: bool = True,
) -> jax.Array:
    """Normalizes `input`, with a scale and a bias in `numbers`; without the mean, the variance is that about 0."""
    (wide,) = widened(input)
    y = centred(wide, axes)[0] if use_mean else wide
    variance = mean_of_squares(y, axes) if use_variance else None
    y = normalize(y, None, variance, *numbers, epsilon=desc.epsilon, activation=desc.fused_activation)
    return narrow_apart(y, input.dtype)


class _VersionDesc(OperatorDesc, is_base=True):
    """The base of all versions.

    Args:
      scale: of each dimension 1 or the size of `input`; or None.
      bias: as `scale`; below feature level 5_2 both are given, or none.
    """

    input: Input
    scale: OptionalInput
    bias: OptionalInput
    output: Output

    in_jax = "jax.nn.standardize(input, axes, epsilon=epsilon) * scale + bias"
    constraints = SIZES


class MeanVarianceNormalizationDesc(_VersionDesc):
    """DML_MEAN_VARIANCE_NORMALIZATION_OPERATOR_DESC: normalizes pictures, each channel alone or all together.

    Args:
      input: (N, C, H, W).
      cross_channel: whether the mean and the variance are of all channels, or of each.
      normalize_variance: whether elements are divided by their deviation.

    Example:
      >>> picture = TensorDesc("FLOAT32", (1, 1, 2, 2))
      >>> desc = MeanVarianceNormalizationDesc(
      ...     picture, None, None, picture, cross_channel=False, normalize_variance=True, epsilon=0.5
      ... )
      >>> print(desc.compute(np.float32([[[[1, 2], [3, 6]]]])))
      [[[[-1.  -0.5]
         [ 0.   1.5]]]]

    Source: DML_MEAN_VARIANCE_NORMALIZATION_OPERATOR_DESC. An older page adds Epsilon to the deviation.
    """

    cross_channel: Bool
    normalize_variance: Bool
    epsilon: Epsilon
    fused_activation: Fused = None

    support = levels(("1_0", RANK_4, FLOATS))
    lifted = (("5_2", BOTH),)

    def compute_checked(self, input: jax.Array, scale: jax.Array | None, bias: jax.Array | None) -> jax.Array:
        axes = (1, 2, 3) if self.cross_channel else (2, 3)
        return _standardize(self, input, (scale, bias), axes, use_variance=self.normalize_variance)


class MeanVarianceNormalization1Desc(_VersionDesc):
    """DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC: normalizes along dimensions, as a layer or an instance is.

    Args:
      scale: of each dimension 1 or the size of `input`; or None. Below feature level 4_0 it has a number per channel.
      axes: the dimensions of the mean and the variance, each in [0, DimensionCount), and once.
      normalize_variance: whether elements are divided by their deviation.

    Example:
      >>> rows, row = TensorDesc("FLOAT32", (2, 4)), TensorDesc("FLOAT32", (1, 4))
      >>> desc = MeanVarianceNormalization1Desc(
      ...     rows, row, None, rows, axes=(1,), normalize_variance=True, epsilon=0.5
      ... )
      >>> print(desc.compute(np.float32([[1, 2, 3, 6], [7, 7, 7, 7]]), np.float32([[2, 2, 2, 4]])))
      [[-2. -1.  0.  6.]
       [ 0.  0.  0.  0.]]

    Source: DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC. An older page says that axes of {0, 2, 3} are what
      MEAN_VARIANCE_NORMALIZATION does without CrossChannel, the newest one {2, 3}.
    """

    axes: Axes
    normalize_variance: Bool
    epsilon: Epsilon
    fused_activation: Fused = None

    support = levels(("3_1", RANKS_1_TO_8, FLOATS), ("2_1", RANK_4, FLOATS))
    constraints = (*SIZES, AXES)
    lifted = (("5_2", BOTH), ("4_0", _per_channel("scale")), ("4_0", _per_channel("bias")))

    def compute_checked(self, input: jax.Array, scale: jax.Array | None, bias: jax.Array | None) -> jax.Array:
        return _standardize(self, input, (scale, bias), self.axes, use_variance=self.normalize_variance)


class MeanVarianceNormalization2Desc(_VersionDesc):
    """DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC: normalizes along dimensions, about the mean or about 0.

    Args:
      bias: as `scale`.
      axes: the dimensions of the mean and the variance, each in [0, DimensionCount), and once.
      use_mean: whether the mean is subtracted; if not, the variance is the mean of squares, as in RMS normalization.
      use_variance: whether elements are divided by the root of the variance.

    Example:
      >>> row = TensorDesc("FLOAT32", (2,))
      >>> desc = MeanVarianceNormalization2Desc(
      ...     row, None, None, row, axes=(0,), use_mean=False, use_variance=True, epsilon=1.5
      ... )
      >>> print(desc.compute(np.float32([1, 2])))
      [0.5 1. ]

    Source: DML_MEAN_VARIANCE_NORMALIZATION2_OPERATOR_DESC, whose page leaves UseMean and UseVariance open. ONNX Runtime
      builds SimplifiedLayerNormalization of it, without UseMean.
    """

    axes: Axes
    use_mean: Bool
    use_variance: Bool
    epsilon: Epsilon
    fused_activation: Fused = None

    support = levels(("6_3", RANKS_1_TO_8, FLOATS))
    constraints = (*SIZES, AXES)

    def compute_checked(self, input: jax.Array, scale: jax.Array | None, bias: jax.Array | None) -> jax.Array:
        uses = {"use_mean": self.use_mean, "use_variance": self.use_variance}
        return _standardize(self, input, (scale, bias), self.axes, **uses)
