"""The base of the structs of activations, their rules and feature levels, and an activation of an array."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import jax

from ..core.rules import Operands, custom, same_sizes
from ..core.structs.activation import Activation
from ..core.structs.activation_table import ACTIVATIONS
from ..core.structs.feature_level import FeatureLevel
from ..core.structs.feature_level_tables import FLOATS, RANK_4, RANKS_1_TO_8, RANKS_4_TO_5, Support, levels
from ..core.structs.fields import Axes, Field, Input, Output
from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.struct_rules import different_axes
from ..core.tensors.data_type import DataType
from ..operations.softmax import compute_along
from ..operations.values.accumulation_types import narrow_apart, wide_type


def activated(activation: Activation, array: jax.Array) -> jax.Array:
    """Applies an activation; floats of 8 and 16 bits are computed in float32 and rounded once."""
    if activation.axes:
        return compute_along(activation, array, activation.axes)
    return narrow_apart(activation(array.astype(wide_type(array.dtype))), array.dtype)


def _long(x: Operands) -> str | None:
    sizes = x["input"].sizes
    rank = next((len(sizes) - d for d, n in enumerate(sizes) if n != 1), 0)
    return f"it is {rank}" if rank > 2 else None


EFFECTIVE_RANK = custom("effective_rank", "{input}.{rank} without leading sizes of 1 must be at most 2", _long)


def since(level: str, *newer: tuple[str, range, tuple[DataType, ...]]) -> tuple[Support, ...]:
    """Returns the table of an activation that exists from a feature level on."""
    rows = ("3_0", RANKS_1_TO_8, FLOATS), ("2_0", RANKS_4_TO_5, FLOATS), ("1_0", RANK_4, FLOATS)
    since = FeatureLevel.of(level)
    older = [row for row in rows if FeatureLevel.of(row[0]) >= since]
    return levels(*newer, *(older or [(level, RANKS_1_TO_8, FLOATS)]))


class ActivationDesc(OperatorDesc, is_base=True):
    """The base of the structs: the fields of a subclass after the tensors are the parameters of its activation."""

    input: Input
    output: Output

    in_place = True
    support = since("1_0")
    constraints = (same_sizes("output", "input"),)

    @classmethod
    @cache
    def fields(cls) -> Mapping[str, Field]:
        """Returns the kind of each field; the help of a number says which one is usual."""
        kinds = dict(super().fields())
        usual = ACTIVATIONS[cls.operator_type].parameters.values()
        for name, number in zip([*kinds][2:], usual, strict=True):
            if not kinds[name].help:
                kinds[name] = replace(kinds[name], help=f"a number{'' if number is None else f', often {number:.5g}'}.")
        return kinds

    @property
    def activation(self) -> Activation:
        """The activation that the struct computes."""
        parameters = self.field_names()[2:]
        return Activation(self.operator_type, tuple(getattr(self, name) for name in parameters))

    def compute_checked(self, input: jax.Array) -> jax.Array:
        return activated(self.activation, input)


class AlongLastDesc(ActivationDesc, is_base=True):
    """The base of the structs of activations that combine elements along the last dimension."""

    in_place = False
    constraints = (same_sizes("output", "input"), EFFECTIVE_RANK)


class AlongAxesDesc(ActivationDesc, is_base=True):
    """The base of the newer ones, which combine elements along some dimensions."""

    axes: Axes

    in_place = False
    support = since("5_1")
    constraints = (same_sizes("output", "input"), different_axes("input"))
