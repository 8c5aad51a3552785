"""The structs of a table of elementwise operators: each row becomes a class with its fields, rules and help."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import jax

from ..core.rules import Rule, same_sizes
from ..core.structs.feature_level_tables import Support
from ..core.structs.fields import Input, Output
from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.size_and_scale_bias import ScaleBias
from ..core.structs.struct_names import class_name_of
from ..core.tensors.data_type import DataType
from ..operations.values.accumulation_types import narrow_apart, wide_type
from ._identity import identity


def _widen(array: jax.Array) -> jax.Array:
    return array.astype(wide_type(array.dtype))


def unchanged(array: jax.Array) -> jax.Array:
    """For `Row.read` of formulas that choose elements, or compare them with numbers of their type."""
    return array


@dataclass(frozen=True)
class Row:
    """One operator of a table.

    Args:
      does: a line of help, in which x is the input after ScaleBias. It is the first argument, a single string:
        completion and help find it there without importing the file.
      formula: takes an array per input, and the values of `fields`; returns the output, in `write`'s types.
      in_jax: the function of JAX that does the same, or an expression of the inputs.
      support: the data types by feature level.
      inputs: the fields of the tensors that it reads.
      output: the field of the tensor that it writes.
      has_scale_bias: whether the first input can be scaled and shifted before.
      fields: the annotations of its other fields.
      in_place: the inputs whose buffer the output may be bound to.
      constraints: its rules, beside equal sizes.
      lifted: its rules below a feature level.
      read: prepares an input for the formula: by default, narrow floats become float32.
      write: takes the result of the formula and the output's dtype; returns the output.
    """

    does: str
    formula: Callable[..., jax.Array]
    in_jax: str
    support: tuple[Support, ...]
    inputs: tuple[str, ...] = ("input",)
    output: str = "output"
    has_scale_bias: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict)
    in_place: tuple[str, ...] = ()
    constraints: tuple[Rule, ...] = ()
    lifted: tuple[tuple[str, Rule], ...] = ()
    read: Callable[[jax.Array], jax.Array] = _widen
    write: Callable[[jax.Array, Any], jax.Array] = narrow_apart


class _RowDesc(OperatorDesc, is_base=True):
    """The base of the classes: it computes the formula of its row."""

    row: ClassVar[Row]

    def may_share(self, output: str, other: str) -> bool:
        return other in self.row.in_place and super().may_share(output, other)

    def compute_checked(self, **arrays: jax.Array) -> jax.Array:
        row, operands = self.row, self.operands()
        first, *others = (row.read(arrays[name]) for name in row.inputs)
        if pair := operands.get("scale_bias"):
            first = identity(first, pair.scale, pair.bias)
        result = row.formula(first, *others, *(operands[name] for name in row.fields))
        return row.write(result, operands[row.output].dtype)


def structs_of(rows: Mapping[str, Row], module: str) -> dict[str, type[OperatorDesc]]:
    """Returns the classes of a table by their names, as if the module had written them."""
    structs = (_struct(name, row, module) for name, row in rows.items())
    return {struct.__name__: struct for struct in structs}


def _struct(operator_type: str, row: Row, module: str) -> type[OperatorDesc]:
    first, *others = row.inputs
    fields: dict[str, Any] = {**dict.fromkeys(row.inputs, Input), row.output: Output}
    if row.has_scale_bias:
        fields["scale_bias"] = Annotated[ScaleBias, f"a pair of numbers, x = {first} * scale + bias; or None."]
    fields |= row.fields
    in_place = _IN_PLACE.format(" or ".join(f"`{name}`" for name in row.in_place)) if row.in_place else ""
    members = {
        "__module__": module,
        "__doc__": f"DML_{operator_type}_OPERATOR_DESC: {row.does}{in_place}",
        "__annotations__": fields,
        "operator_type": operator_type,
        "row": row,
        "in_jax": row.in_jax,
        "in_place": bool(row.in_place),
        "support": row.support,
        "other_types": tuple(name for name in row.support[0].types if name != first),
        "default_types": {row.output: DataType.UINT8} if row.output in row.support[0].types else {},
        "constraints": (*(same_sizes(name, first) for name in (*others, row.output)), *row.constraints),
        "lifted": row.lifted,
    }
    if row.has_scale_bias and not row.fields:  # a default only where no field without one follows
        members["scale_bias"] = None
    return type(class_name_of(operator_type), (_RowDesc,), members)


_IN_PLACE = "\n\nThe output may be bound to the buffer of {}, if both tensors are described alike."
