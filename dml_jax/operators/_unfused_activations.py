"""The ACTIVATION operators that no operator is fused with: log softmax, hardmax, and swish."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..core.rules import Rule, same_sizes
from ..core.structs.feature_level_tables import Support
from ..core.structs.fields import Axes, Input, Output  # noqa: F401  # annotations of the base name them
from ._activation_structs import AXES, EFFECTIVE_RANK, ActivationDesc, Real, since

__all__ = [
    "ActivationHardSwishDesc",
    "ActivationHardmax1Desc",
    "ActivationHardmaxDesc",
    "ActivationLogSoftmax1Desc",
    "ActivationLogSoftmaxDesc",
    "ActivationSwishDesc",
]


@dataclass(frozen=True)
class ActivationHardmaxDesc(ActivationDesc):
    """DML_ACTIVATION_HARDMAX_OPERATOR_DESC: 1 for the first maximum along the last dimension, 0 for the others."""

    operator_type: ClassVar[str] = "ACTIVATION_HARDMAX"
    in_jax: ClassVar[str] = "jax.nn.one_hot(jax.numpy.argmax(x, -1), x.shape[-1])"
    in_place: ClassVar[bool] = False
    constraints: ClassVar[tuple[Rule, ...]] = (same_sizes("output", "input"), EFFECTIVE_RANK)


@dataclass(frozen=True)
class ActivationHardmax1Desc(ActivationDesc):
    """DML_ACTIVATION_HARDMAX1_OPERATOR_DESC: 1 for the first maximum along the dimensions axes, 0 for the others."""

    axes: Axes

    operator_type: ClassVar[str] = "ACTIVATION_HARDMAX1"
    in_jax: ClassVar[str] = "jax.nn.one_hot(jax.numpy.argmax(x, axis), x.shape[axis], axis=axis)"
    in_place: ClassVar[bool] = False
    support: ClassVar[tuple[Support, ...]] = since("5_1")
    constraints: ClassVar[tuple[Rule, ...]] = (same_sizes("output", "input"), AXES)


@dataclass(frozen=True)
class ActivationHardSwishDesc(ActivationDesc):
    """DML_ACTIVATION_HARD_SWISH_OPERATOR_DESC: x * max(0, min(alpha * x + beta, 1))."""

    alpha: Real
    beta: Real

    operator_type: ClassVar[str] = "ACTIVATION_HARD_SWISH"
    in_jax: ClassVar[str] = "jax.nn.hard_swish"
    support: ClassVar[tuple[Support, ...]] = since("6_2")


@dataclass(frozen=True)
class ActivationLogSoftmaxDesc(ActivationDesc):
    """DML_ACTIVATION_LOG_SOFTMAX_OPERATOR_DESC: x - ln(the sum of exp(x) along the last dimension)."""

    operator_type: ClassVar[str] = "ACTIVATION_LOG_SOFTMAX"
    in_jax: ClassVar[str] = "jax.nn.log_softmax"
    in_place: ClassVar[bool] = False
    constraints: ClassVar[tuple[Rule, ...]] = (same_sizes("output", "input"), EFFECTIVE_RANK)


@dataclass(frozen=True)
class ActivationLogSoftmax1Desc(ActivationDesc):
    """DML_ACTIVATION_LOG_SOFTMAX1_OPERATOR_DESC: x - ln(the sum of exp(x) along the dimensions axes)."""

    axes: Axes

    operator_type: ClassVar[str] = "ACTIVATION_LOG_SOFTMAX1"
    in_jax: ClassVar[str] = "jax.nn.log_softmax"
    in_place: ClassVar[bool] = False
    support: ClassVar[tuple[Support, ...]] = since("5_1")
    constraints: ClassVar[tuple[Rule, ...]] = (same_sizes("output", "input"), AXES)


@dataclass(frozen=True)
class ActivationSwishDesc(ActivationDesc):
    """DML_ACTIVATION_SWISH_OPERATOR_DESC: x / (1 + exp(-sigmoid_input_scale * x))."""

    sigmoid_input_scale: Real

    operator_type: ClassVar[str] = "ACTIVATION_SWISH"
    in_jax: ClassVar[str] = "jax.nn.swish"
    support: ClassVar[tuple[Support, ...]] = since("6_2")
