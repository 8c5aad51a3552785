"""Fusion with an activation: the kinds of a struct's field and of a function's argument, and their rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import jax.numpy as jnp

from ...errors import ConstraintError, DataTypeError, message
from ..arguments.kinds import attribute
from ..rules import Fact, Operands, Rule, custom
from .activation import Activation
from .activation_table import ACTIVATIONS, field_of
from .feature_level import FeatureLevel
from .field_types import Row
from .fields import Field, counted_by
from .struct_rules import different_dimensions


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
    values = {key: field_of(key).from_json(value) for key, value in json.items() if key != "Type"}
    for key, kind in (ACTIVATIONS[name].fields if name in ACTIVATIONS else {}).items():
        count = values.pop(kind.counted_by, None)
        if count is not None and isinstance(entries := values.get(key), list) and count != len(entries):
            raise ConstraintError(f"{name}: {kind.counted_by} is {count} and {key} has {len(entries)} entries")
    return Activation.of(name, values)


def _to_json(activation: Activation) -> Any:
    form: dict[str, Any] = {"Type": activation.operator_type}
    for name, value in activation.by_name.items():
        kind = field_of(name)
        if kind.counted_by:
            form[kind.counted_by] = len(value)
        if value is not None:
            form[name] = kind.to_json(value)
    return form


_ONE = Field("activation", as_activation, _from_json, _to_json, help="an `Activation`, or None.")
_EACH = counted_by("ActivationDescCount", _ONE, "Activation")
# The fields of structs.
Fused = Annotated[Activation | None, replace(_ONE, is_optional=True)]
FusedEach = Annotated[Row[Activation], _EACH]
# The arguments of functions.
Fusion = Annotated[Activation, attribute(as_activation, shown="Activation")]
Fusions = Annotated[Sequence[Activation], attribute(_EACH.read, shown="Sequence[Activation]")]


def supported_activation(name: str, host: str, level: FeatureLevel) -> Rule:
    """Returns the rule of the activations that an operator can be fused with, once or several times, at a level."""

    def broken_by(x: Operands) -> Fact:
        activations = x[name] if isinstance(x[name], tuple) else () if x[name] is None else (x[name],)
        return next(filter(None, (_unfit(activation, host, level) for activation in activations)), None)

    text = f"{{{name}}} must be one that the operator can be fused with at feature level {level}"
    return Rule(f"supported_activation({name})", text, broken_by)


def _unfit(activation: Activation, host: str, level: FeatureLevel) -> Fact:
    """Why an operator cannot be fused with an activation at a feature level, if it cannot."""
    row, name, since = activation.row, activation.operator_type, FeatureLevel.of(activation.row.since)
    if row.hosts is not None and host not in row.hosts:
        return f"it is {name}, which is for {' and '.join(row.hosts) or 'no operator'}"
    if level < since:
        return f"it is {name}, which feature level {since} accepts"
    if row.least is None:
        return None
    parameter, least, until = row.least
    value = activation.by_name[parameter]
    is_less = level < FeatureLevel.of(until) and not value >= least
    return f"its {parameter} is {value}, and feature level {until} accepts less than {least}" if is_less else None


def axes_within(activation: str, operand: str) -> Rule:
    """An activation that combines elements does so along dimensions of the operand."""

    def broken_by(x: Operands) -> Fact:
        axes = x[activation].axes if x[activation] else None
        return None if axes is None else different_dimensions(axes, len(x[operand].shape))

    text = f"the Axes of {{{activation}}} must be different dimensions of {{{operand}}}, one at least"
    return custom(f"axes_within({activation})", text, broken_by)


def computed_by(activation: str, operand: str) -> Rule:
    """An activation takes floats, and some take integers."""

    def broken_by(x: Operands) -> Fact:
        if x[activation] is None:
            return None
        dtype, of_integers = x[operand].dtype, x[activation].row.of_integers
        is_taken = jnp.issubdtype(dtype, jnp.floating) or (of_integers and jnp.issubdtype(dtype, jnp.integer))
        return None if is_taken else f"it is {dtype}, and the activation {x[activation].describe()}"

    text = f"{{{operand}}}.{{dtype}} must be a floating-point type, or an integer type if {{{activation}}} takes it"
    return Rule(f"computed_by({activation})", text, broken_by, DataTypeError)
