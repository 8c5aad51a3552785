"""Activations that an operator can be fused with, one a row: each is an operator without tensors of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn

from ..errors import ConstraintError, DataTypeError, describe, message, suggestion
from .feature_level import FeatureLevel
from .fields import FLOAT, Field, counted_by
from .kinds import attribute
from .rules import Fact, Operands, Rule, custom
from .small_structs import SCALE_BIAS, ScaleAndBias

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "Fused",
    "FusedEach",
    "Fusion",
    "Fusions",
    "axes_within",
    "computed_by",
    "different_dimensions",
    "supported_activation",
]


@dataclass(frozen=True)
class Row:
    """One activation.

    Args:
      formula: takes an array and the parameters, of its type; computes in that type, without what overflows where it
        is not used, so that derivatives are numbers too.
      parameters: by DirectML's name, in its order, the number that DirectMLX takes where none is given, if any.
      since: the feature level from which on it can be fused.
      hosts: the operators that can be fused with it; None for all that take activations.
      least: a number that a parameter must reach below a feature level.
      axes: the dimensions along which it combines elements, unless parameters say which; none of what looks at each
        element alone.
      of_integers: whether it is of integers too, whose parameters are truncated.
    """

    formula: Callable[..., jax.Array]
    parameters: Mapping[str, float | None] = field(default_factory=dict)
    since: str = "1_0"
    hosts: tuple[str, ...] | None = None
    least: tuple[str, float, str] | None = None
    axes: tuple[int, ...] = ()
    of_integers: bool = False

    @property
    def fields(self) -> Mapping[str, Field]:
        """What each parameter holds."""
        return {name: _FIELDS.get(name, FLOAT) for name in self.parameters}

    def unfit(self, activation: Activation, host: str, level: FeatureLevel) -> Fact:
        """Why an operator cannot be fused with it at a feature level."""
        name, since = activation.operator_type, FeatureLevel.of(self.since)
        if self.hosts is not None and host not in self.hosts:
            return f"it is {name}, which is for {' and '.join(self.hosts)}"
        if level < since:
            return f"it is {name}, which feature level {since} accepts"
        if self.least is None:
            return None
        parameter, least, until = self.least
        value = activation.by_name[parameter]
        is_less = level < FeatureLevel.of(until) and not value >= least
        return f"its {parameter} is {value}, and feature level {until} accepts less than {least}" if is_less else None


def _exponential(x: jax.Array, scale: Any = 1) -> jax.Array:
    """exp(x / scale) - 1 of what is not positive."""
    return jnp.expm1(jnp.minimum(x, 0) / scale)


def _softplus(x: jax.Array) -> jax.Array:
    return jnp.logaddexp(x, 0)


def _shrunk(x: jax.Array, bias: Any, threshold: Any) -> jax.Array:
    below = _number(-float(threshold), x)  # not -threshold, which wraps in unsigned integers
    return jnp.where(x > threshold, x - bias, jnp.where(x < below, x + bias, 0))


def _hard_sigmoid(x: jax.Array, slope: Any, shift: Any) -> jax.Array:
    return lax.clamp(_number(0.0, x), slope * x + shift, _number(1.0, x))


def _clipped(x: jax.Array, scale_bias: ScaleAndBias | None, least: Any, most: Any) -> jax.Array:
    scaled = x if scale_bias is None else x * _number(scale_bias.scale, x) + _number(scale_bias.bias, x)
    return lax.clamp(least, scaled, most)


ACTIVATIONS: Mapping[str, Row] = {
    "ACTIVATION_CELU": Row(lambda x, a: jnp.where(x >= 0, x, a * _exponential(x, a)), {"Alpha": 1}, since="3_0"),
    "ACTIVATION_ELU": Row(lambda x, a: jnp.where(x >= 0, x, a * _exponential(x)), {"Alpha": 1}),
    "ACTIVATION_GELU": Row(lambda x: nn.gelu(x, approximate=False), since="5_1"),
    "ACTIVATION_HARD_SIGMOID": Row(_hard_sigmoid, {"Alpha": 0.2, "Beta": 0.5}),
    "ACTIVATION_IDENTITY": Row(lambda x: x),
    "ACTIVATION_LEAKY_RELU": Row(lambda x, a: jnp.where(x >= 0, x, a * x), {"Alpha": 0.01}),
    "ACTIVATION_LINEAR": Row(lambda x, a, b: a * x + b, {"Alpha": None, "Beta": None}),
    "ACTIVATION_PARAMETRIC_SOFTPLUS": Row(lambda x, a, b: a * _softplus(b * x), {"Alpha": None, "Beta": None}),
    "ACTIVATION_RELU": Row(nn.relu, of_integers=True),
    "ACTIVATION_SCALED_ELU": Row(
        lambda x, a, g: jnp.where(x > 0, g * x, g * a * _exponential(x)),
        {"Alpha": 1.67326319217681884765625, "Gamma": 1.05070102214813232421875},
    ),
    "ACTIVATION_SCALED_TANH": Row(lambda x, a, b: a * jnp.tanh(b * x), {"Alpha": 1, "Beta": 0.5}),
    "ACTIVATION_SHRINK": Row(_shrunk, {"Bias": 0, "Threshold": 0.5}, since="2_0", of_integers=True),
    "ACTIVATION_SIGMOID": Row(nn.sigmoid),
    "ACTIVATION_SOFTMAX": Row(lambda x: nn.softmax(x, axis=-1), since="6_1", hosts=("GEMM",), axes=(-1,)),
    "ACTIVATION_SOFTMAX1": Row(lambda x, axes: nn.softmax(x, axis=axes), {"Axes": None}, since="6_1", hosts=("GEMM",)),
    "ACTIVATION_SOFTPLUS": Row(lambda x, s: _softplus(s * x) / s, {"Steepness": 1}, least=("Steepness", 1, "6_4")),
    "ACTIVATION_SOFTSIGN": Row(nn.soft_sign),
    "ACTIVATION_TANH": Row(jnp.tanh),
    "ACTIVATION_THRESHOLDED_RELU": Row(lambda x, a: jnp.where(x > a, x, 0), {"Alpha": 1}),
    "ELEMENT_WISE_CLIP": Row(
        _clipped, {"ScaleBias": None, "Min": None, "Max": None}, since="6_0", hosts=("CONVOLUTION", "GEMM")
    ),
}

# What parameters hold that are no FLOAT.
_FIELDS = {"Axes": counted_by("AxisCount"), "ScaleBias": SCALE_BIAS}
_OPTIONAL = {name for name, kind in _FIELDS.items() if kind.is_optional}


def _number(value: Any, like: jax.Array) -> Any:
    """A parameter in the type of an array, of integers its whole part, or the nearest one; axes as they are."""
    if not isinstance(value, float):
        return value
    if jnp.issubdtype(like.dtype, jnp.integer):
        limits = jnp.iinfo(like.dtype)
        return np.asarray(0 if value != value else int(min(max(value, limits.min), limits.max))).astype(like.dtype)
    with np.errstate(over="ignore"):
        return np.asarray(value, np.float64).astype(like.dtype)


@dataclass(frozen=True)
class Activation:
    """An activation that an operator is fused with: called, it computes it.

    Args:
      operator_type: DirectML's name of the operator, such as "ACTIVATION_ELU".
      parameters: its numbers, in DirectML's order; those left out are DirectMLX's, where it has some.

    Raises:
      ConstraintError: no such activation, or another number of parameters.
      DataTypeError: a parameter is no number.

    Example:
      >>> import jax.numpy as jnp
      >>> from dml_jax import Activation
      >>> print(Activation("ACTIVATION_LEAKY_RELU", (0.5,))(jnp.float32([-2, 4])))
      [-1.  4.]
    """

    operator_type: str
    parameters: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if self.operator_type not in ACTIVATIONS:
            near = suggestion(str(self.operator_type), ACTIVATIONS)
            raise ConstraintError(f"unknown activation {self.operator_type!r}; {near}")
        names, given = self.row.parameters, self.parameters
        kept = (*given, *[*names.values()][len(given) :]) if isinstance(given, tuple) else ()
        named = dict(zip(names, kept, strict=False))
        lacks = any(named.get(name) is None for name in {*names} - _OPTIONAL)
        if not isinstance(given, tuple) or len(kept) != len(names) or lacks:
            wanted = ", ".join(names) or "none"
            raise ConstraintError(f"{self.operator_type}: the parameters are {wanted}, but {given} are given")
        values = tuple(_FIELDS.get(name, FLOAT).kept(self.operator_type, name, value) for name, value in named.items())
        object.__setattr__(self, "parameters", values)

    @classmethod
    def of(cls, operator_type: str, values: Mapping[str, Any]) -> Activation:
        """The activation with these parameters, by name.

        Raises:
          ConstraintError: one is missing or unknown.
        """
        names = ACTIVATIONS[operator_type].parameters if operator_type in ACTIVATIONS else {}
        if operator_type in ACTIVATIONS and not {*names} - _OPTIONAL <= {*values} <= {*names}:
            wanted = ", ".join(names) or "none"
            raise ConstraintError(f"{operator_type}: the parameters are {wanted}, but {', '.join(values)} are given")
        return cls(operator_type, tuple(values.get(name) for name in names))

    @property
    def row(self) -> Row:
        """What DirectML says of it."""
        return ACTIVATIONS[self.operator_type]

    @property
    def by_name(self) -> dict[str, Any]:
        """The parameters by their names."""
        return dict(zip(self.row.parameters, self.parameters, strict=True))

    @property
    def axes(self) -> tuple[int, ...] | None:
        """The dimensions along which it combines elements; None if it looks at each one alone."""
        return self.by_name.get("Axes", self.row.axes or None)

    def describe(self) -> str:
        """As messages show it."""
        return f"{self.operator_type}({', '.join(f'{name}={value}' for name, value in self.by_name.items())})"

    def __call__(self, x: jax.Array) -> jax.Array:
        """Computes it of every element, in the type of the array."""
        return self.row.formula(x, *(_number(value, x) for value in self.parameters))


# As a field, an argument, and what must hold of it.


def as_activation(subject: str, name: str, value: Any) -> Activation:
    if isinstance(value, Activation):
        return value
    fact = f"it is {type(value).__name__}"
    raise DataTypeError(message(subject, f"{name} must be an Activation", fact, {name: value}))


def _from_json(json: Any) -> Any:
    """`{"Type": "ACTIVATION_ELU", "Alpha": 0.5}`."""
    if not isinstance(json, Mapping):
        return json
    name = str(json.get("Type")).removeprefix("DML_OPERATOR_")
    values = {key: _FIELDS.get(key, FLOAT).from_json(value) for key, value in json.items() if key != "Type"}
    for key, kind in _FIELDS.items():
        count = values.pop(kind.counted_by, None) if kind.counted_by else None
        if count is not None and isinstance(row := values.get(key), list) and count != len(row):
            raise ConstraintError(f"{name}: {kind.counted_by} is {count} and {key} has {len(row)} entries")
    return Activation.of(name, values)


def _to_json(activation: Activation) -> Any:
    form: dict[str, Any] = {"Type": activation.operator_type}
    for name, value in activation.by_name.items():
        kind = _FIELDS.get(name, FLOAT)
        if kind.counted_by:
            form[kind.counted_by] = len(value)
        if value is not None:
            form[name] = kind.to_json(value)
    return form


_ONE = Field("activation", as_activation, _from_json, _to_json)
_EACH = counted_by("ActivationDescCount", _ONE, "Activation")
# The fields of structs.
Fused = Annotated[Activation | None, replace(_ONE, is_optional=True)]
FusedEach = Annotated[tuple[Activation, ...], _EACH]
# The arguments of functions.
Fusion = Annotated[Activation, attribute(as_activation, shown="Activation")]
Fusions = Annotated[Sequence[Activation], attribute(_EACH.read, shown="Sequence[Activation]")]


def supported_activation(name: str, host: str, level: FeatureLevel) -> Rule:
    """What an operator can be fused with, once or several times, at one feature level."""

    def broken_by(x: Operands) -> Fact:
        given = x[name] if isinstance(x[name], tuple) else () if x[name] is None else (x[name],)
        return next(filter(None, (one.row.unfit(one, host, level) for one in given)), None)

    text = f"{{{name}}} must be one that the operator can be fused with at feature level {level}"
    return Rule(f"supported_activation({name})", text, broken_by)


def axes_within(activation: str, operand: str) -> Rule:
    """An activation that combines elements does so along dimensions of the operand."""

    def broken_by(x: Operands) -> Fact:
        axes = x[activation].axes if x[activation] else None
        return None if axes is None else different_dimensions(axes, len(x[operand].shape))

    text = f"the Axes of {{{activation}}} must be different dimensions of {{{operand}}}, one at least"
    return custom(f"axes_within({activation})", text, broken_by)


def different_dimensions(axes: tuple[int, ...], rank: int) -> Fact:
    """Why axes, the last of which may be -1, are not some dimensions, each once."""
    fit = axes and len({*axes}) == len(axes) and -min(rank, 1) <= min(axes) <= max(axes) < rank
    return None if fit else f"they are {describe(axes)} and there are {rank} dimensions"


def computed_by(activation: str, operand: str) -> Rule:
    """An activation takes floats, and some take integers."""

    def broken_by(x: Operands) -> Fact:
        if x[activation] is None:
            return None
        dtype, of_integers = x[operand].dtype, x[activation].row.of_integers
        is_taken = jnp.issubdtype(dtype, jnp.floating) or (of_integers and jnp.issubdtype(dtype, jnp.integer))
        return None if is_taken else f"it is {dtype}, and the activation {x[activation].describe()}"

    text = f"{{{operand}}}.{{dtype}} must be one of floats, or of integers if {{{activation}}} takes them"
    return Rule(f"computed_by({activation})", text, broken_by, DataTypeError)
