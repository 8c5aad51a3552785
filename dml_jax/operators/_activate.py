"""The ACTIVATION operators: an activation of every element, or along dimensions; each has a short class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import jax
import jax.numpy as jnp

from ..core.activation import Activation
from ..core.activation_table import ACTIVATIONS
from ..core.data_type import DataType
from ..core.desc import OperatorDesc
from ..core.feature_level import FeatureLevel
from ..core.fields import FLOAT, Input, Output, counted_by
from ..core.fusion import Fusion, axes_within, computed_by, different_dimensions
from ..core.kinds import Data, OutSharding
from ..core.operator import operator
from ..core.rules import Operands, Rule, at_least, custom, same_sizes
from ..core.sharding import Dims
from ..core.support import (
    FLOATS,
    RANK_4,
    RANKS_1_TO_8,
    RANKS_4_TO_5,
    SIGNED_UP_TO_32_BITS,
    UP_TO_32_BITS,
    Support,
    levels,
)
from ..lowering.plain.softmax import compute_along
from ..lowering.values.accumulation_types import narrow_apart, wide_type
from ._elementwise import elementwise

__all__ = [
    "ActivationCeluDesc",
    "ActivationEluDesc",
    "ActivationGeluDesc",
    "ActivationHardSigmoidDesc",
    "ActivationIdentityDesc",
    "ActivationLeakyReluDesc",
    "ActivationLinearDesc",
    "ActivationParametricSoftplusDesc",
    "ActivationReluDesc",
    "ActivationScaledEluDesc",
    "ActivationScaledTanhDesc",
    "ActivationShrinkDesc",
    "ActivationSigmoidDesc",
    "ActivationSoftmax1Desc",
    "ActivationSoftmaxDesc",
    "ActivationSoftplusDesc",
    "ActivationSoftsignDesc",
    "ActivationTanhDesc",
    "ActivationThresholdedReluDesc",
    "activate",
]

RULES = (computed_by("activation", "input"), axes_within("activation", "input"))


def _dims(x: Operands) -> Dims:
    return elementwise(x["input"].ndim, "input", activation=x["activation"])


@operator(*RULES, dims=_dims)
def activate(input: Data, activation: Fusion, *, out_sharding: OutSharding = None) -> jax.Array:
    """Applies an activation, such as ReLU or softmax.

    output[c] = activation(input[c]), or of all elements along its dimensions

    Floats of 8 and 16 bits are computed in float32 and rounded once.

    Args:
      input: any rank, floats of any width; integers where the activation takes them, whose parameters are truncated.
      activation: an `Activation`: its DirectML name, and its numbers.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operand.
        Where a softmax runs along a dimension that is sharded it must be given.

    Returns:
      An array of the shape and dtype of `input`.

    Raises:
      ConstraintError: `input` lacks a dimension that the activation runs along.
      DataTypeError: the activation is not of this dtype, `activation` is not an `Activation`, or 64-bit numbers while
        x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> from dml_jax import Activation
      >>> print(dml_jax.activate(np.float32([-2, 0, 4]), Activation("ACTIVATION_LEAKY_RELU", (0.5,))))
      [-1.  0.  4.]
      >>> print(dml_jax.activate(np.zeros(4, np.float32), Activation("ACTIVATION_SOFTMAX")))
      [0.25 0.25 0.25 0.25]

    Source: the structs from DML_ACTIVATION_CELU_OPERATOR_DESC to DML_ACTIVATION_THRESHOLDED_RELU_OPERATOR_DESC.
    """
    array = jnp.asarray(input)
    if activation.axes:
        return compute_along(activation, array, activation.axes)
    return narrow_apart(activation(array.astype(wide_type(array.dtype))), array.dtype)


def _long(x: Operands) -> str | None:
    sizes = x["input"].sizes
    rank = next((len(sizes) - d for d, n in enumerate(sizes) if n != 1), 0)
    return f"it is {rank}" if rank > 2 else None


def _no_dimensions(x: Operands) -> str | None:
    return different_dimensions(x["axes"], len(x["input"].sizes))


# The structs. What their parameters are called and when, below which level, follows from the rows.


def _since(level: str, *newer: tuple[str, range, tuple[DataType, ...]]) -> tuple[Support, ...]:
    """Returns the table of an activation that exists from a feature level on."""
    rows = ("3_0", RANKS_1_TO_8, FLOATS), ("2_0", RANKS_4_TO_5, FLOATS), ("1_0", RANK_4, FLOATS)
    since = FeatureLevel.of(level)
    older = [row for row in rows if FeatureLevel.of(row[0]) >= since]
    return levels(*newer, *(older or [(level, RANKS_1_TO_8, FLOATS)]))


_SECTIONS = """

    Args:
      input: any sizes.
      output: the sizes of `input`.
    {numbers}
    Raises:
      ConstraintError: a rule of `{name}.wordings()` is broken.
      DataTypeError: a data type that DirectML does not take here, or no number.

    Source: DML_{of}_OPERATOR_DESC.
    """


def _described(usual: float | None, name: str) -> str:
    if name == "Axes":
        return "different dimensions, one at least"
    return "a number" if usual is None else f"a number, often {usual:.5g}"


@dataclass(frozen=True)
class _ActivationDesc(OperatorDesc):
    """The base of the structs: the fields of a subclass behind the tensors are the parameters of its activation."""

    input: Input
    output: Output

    in_place: ClassVar[bool] = True
    support: ClassVar[tuple[Support, ...]] = _since("1_0")
    constraints: ClassVar[tuple[Rule, ...]] = (same_sizes("output", "input"),)

    def __init_subclass__(cls) -> None:
        given = ACTIVATIONS[cls.operator_type].parameters
        numbers = "".join(f"  {name.lower()}: {_described(value, name)}.\n    " for name, value in given.items())
        cls.__doc__ = f"{cls.__doc__}{_SECTIONS.format(numbers=numbers, name=cls.__name__, of=cls.operator_type)}"

    @property
    def activation(self) -> Activation:
        """The activation that the struct computes."""
        parameters = self.field_names()[2:]
        return Activation(self.operator_type, tuple(getattr(self, name) for name in parameters))

    def compute_checked(self, input: jax.Array) -> jax.Array:
        return activate(input, self.activation)


Real = Annotated[float, FLOAT]
_EFFECTIVE_RANK = custom("effective_rank", "{input}.{rank} without leading sizes of 1 must be at most 2", _long)
_AXES = custom("axes_within(axes)", "{axes} must be different dimensions of {input}, one at least", _no_dimensions)


@dataclass(frozen=True)
class ActivationCeluDesc(_ActivationDesc):
    """DML_ACTIVATION_CELU_OPERATOR_DESC: max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""

    alpha: Real

    operator_type: ClassVar[str] = "ACTIVATION_CELU"
    support: ClassVar[tuple[Support, ...]] = _since("3_0")


@dataclass(frozen=True)
class ActivationEluDesc(_ActivationDesc):
    """DML_ACTIVATION_ELU_OPERATOR_DESC: x where x >= 0, alpha * (exp(x) - 1) elsewhere."""

    alpha: Real

    operator_type: ClassVar[str] = "ACTIVATION_ELU"


@dataclass(frozen=True)
class ActivationGeluDesc(_ActivationDesc):
    """DML_ACTIVATION_GELU_OPERATOR_DESC: x / 2 * (1 + erf(x / sqrt(2)))."""

    operator_type: ClassVar[str] = "ACTIVATION_GELU"
    support: ClassVar[tuple[Support, ...]] = _since("5_1")


@dataclass(frozen=True)
class ActivationHardSigmoidDesc(_ActivationDesc):
    """DML_ACTIVATION_HARD_SIGMOID_OPERATOR_DESC: max(0, min(alpha * x + beta, 1))."""

    alpha: Real
    beta: Real

    operator_type: ClassVar[str] = "ACTIVATION_HARD_SIGMOID"


@dataclass(frozen=True)
class ActivationIdentityDesc(_ActivationDesc):
    """DML_ACTIVATION_IDENTITY_OPERATOR_DESC: x."""

    operator_type: ClassVar[str] = "ACTIVATION_IDENTITY"


@dataclass(frozen=True)
class ActivationLeakyReluDesc(_ActivationDesc):
    """DML_ACTIVATION_LEAKY_RELU_OPERATOR_DESC: x where x >= 0, alpha * x elsewhere."""

    alpha: Real

    operator_type: ClassVar[str] = "ACTIVATION_LEAKY_RELU"


@dataclass(frozen=True)
class ActivationLinearDesc(_ActivationDesc):
    """DML_ACTIVATION_LINEAR_OPERATOR_DESC: alpha * x + beta."""

    alpha: Real
    beta: Real

    operator_type: ClassVar[str] = "ACTIVATION_LINEAR"


@dataclass(frozen=True)
class ActivationParametricSoftplusDesc(_ActivationDesc):
    """DML_ACTIVATION_PARAMETRIC_SOFTPLUS_OPERATOR_DESC: alpha * ln(1 + exp(beta * x))."""

    alpha: Real
    beta: Real

    operator_type: ClassVar[str] = "ACTIVATION_PARAMETRIC_SOFTPLUS"


@dataclass(frozen=True)
class ActivationReluDesc(_ActivationDesc):
    """DML_ACTIVATION_RELU_OPERATOR_DESC: max(0, x)."""

    operator_type: ClassVar[str] = "ACTIVATION_RELU"
    support: ClassVar[tuple[Support, ...]] = _since("1_0", ("5_1", RANKS_1_TO_8, (*FLOATS, *SIGNED_UP_TO_32_BITS)))


@dataclass(frozen=True)
class ActivationScaledEluDesc(_ActivationDesc):
    """DML_ACTIVATION_SCALED_ELU_OPERATOR_DESC: gamma * x where x > 0, gamma * alpha * (exp(x) - 1) elsewhere."""

    alpha: Real
    gamma: Real

    operator_type: ClassVar[str] = "ACTIVATION_SCALED_ELU"


@dataclass(frozen=True)
class ActivationScaledTanhDesc(_ActivationDesc):
    """DML_ACTIVATION_SCALED_TANH_OPERATOR_DESC: alpha * tanh(beta * x)."""

    alpha: Real
    beta: Real

    operator_type: ClassVar[str] = "ACTIVATION_SCALED_TANH"


@dataclass(frozen=True)
class ActivationShrinkDesc(_ActivationDesc):
    """DML_ACTIVATION_SHRINK_OPERATOR_DESC: x - bias where x > threshold, x + bias where x < -threshold, 0 elsewhere."""

    bias: Real
    threshold: Real

    operator_type: ClassVar[str] = "ACTIVATION_SHRINK"
    support: ClassVar[tuple[Support, ...]] = _since("2_0", ("5_1", RANKS_1_TO_8, UP_TO_32_BITS))


@dataclass(frozen=True)
class ActivationSigmoidDesc(_ActivationDesc):
    """DML_ACTIVATION_SIGMOID_OPERATOR_DESC: 1 / (1 + exp(-x))."""

    operator_type: ClassVar[str] = "ACTIVATION_SIGMOID"


@dataclass(frozen=True)
class ActivationSoftmaxDesc(_ActivationDesc):
    """DML_ACTIVATION_SOFTMAX_OPERATOR_DESC: exp(x) / the sum of exp(x) along the last dimension."""

    operator_type: ClassVar[str] = "ACTIVATION_SOFTMAX"
    in_place: ClassVar[bool] = False
    constraints: ClassVar[tuple[Rule, ...]] = (same_sizes("output", "input"), _EFFECTIVE_RANK)


@dataclass(frozen=True)
class ActivationSoftmax1Desc(_ActivationDesc):
    """DML_ACTIVATION_SOFTMAX1_OPERATOR_DESC: exp(x) / the sum of exp(x) along the dimensions axes."""

    axes: Annotated[tuple[int, ...], counted_by("AxisCount")]

    operator_type: ClassVar[str] = "ACTIVATION_SOFTMAX1"
    in_place: ClassVar[bool] = False
    support: ClassVar[tuple[Support, ...]] = _since("5_1")
    constraints: ClassVar[tuple[Rule, ...]] = (same_sizes("output", "input"), _AXES)


@dataclass(frozen=True)
class ActivationSoftplusDesc(_ActivationDesc):
    """DML_ACTIVATION_SOFTPLUS_OPERATOR_DESC: ln(1 + exp(steepness * x)) / steepness."""

    steepness: Real

    operator_type: ClassVar[str] = "ACTIVATION_SOFTPLUS"
    lifted: ClassVar[tuple[tuple[str, Rule], ...]] = (("6_4", at_least("steepness", 1)),)


@dataclass(frozen=True)
class ActivationSoftsignDesc(_ActivationDesc):
    """DML_ACTIVATION_SOFTSIGN_OPERATOR_DESC: x / (1 + abs(x))."""

    operator_type: ClassVar[str] = "ACTIVATION_SOFTSIGN"


@dataclass(frozen=True)
class ActivationTanhDesc(_ActivationDesc):
    """DML_ACTIVATION_TANH_OPERATOR_DESC: tanh(x)."""

    operator_type: ClassVar[str] = "ACTIVATION_TANH"


@dataclass(frozen=True)
class ActivationThresholdedReluDesc(_ActivationDesc):
    """DML_ACTIVATION_THRESHOLDED_RELU_OPERATOR_DESC: x where x > alpha, 0 elsewhere."""

    alpha: Real

    operator_type: ClassVar[str] = "ACTIVATION_THRESHOLDED_RELU"
