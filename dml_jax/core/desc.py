"""`OperatorDesc`: what the ten descriptor structs share. One that exists is valid at the newest feature level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar

import jax
import numpy as np

from ..errors import ConstraintError, DataTypeError, message
from .arguments import as_data, as_indices
from .data_type import as_integer
from .feature_level import NEWEST, FeatureLevel
from .rules import Rule, faults
from .support import Support, table_rules
from .tensor import TensorDesc

__all__ = ["OperatorDesc"]


class OperatorDesc:
    """A DML_*_OPERATOR_DESC struct: frozen, hashable, and valid if it exists.

    Fields carry DirectML's names in snake_case, a tensor's without the suffix Tensor, in DirectML's order.
    Subclasses give the struct's name, its own rules, its feature-level table and `compute_checked`.
    """

    operator_type: ClassVar[str]
    constraints: ClassVar[tuple[Rule, ...]]
    support: ClassVar[tuple[Support, ...]]
    # Whether the output is a copy of the input in which some elements are replaced.
    starts_as_input: ClassVar[bool] = False
    output: TensorDesc

    def __post_init__(self) -> None:
        operands = {name: self._as_field(name, value) for name, value in self.operands().items()}
        for error in self.faults(operands):
            raise error
        for name, value in operands.items():
            object.__setattr__(self, name, value)

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """All fields, in DirectML's order."""
        return tuple(f.name for f in fields(cls))  # type: ignore[arg-type]

    @classmethod
    def tensor_names(cls) -> tuple[str, ...]:
        """The fields that are tensors, in DirectML's order; the last one is `output`."""
        return tuple(f.name for f in fields(cls) if f.type is TensorDesc)  # type: ignore[arg-type]

    @classmethod
    def input_names(cls) -> tuple[str, ...]:
        """The tensors that the operator reads."""
        return cls.tensor_names()[:-1]

    @classmethod
    def directml_names(cls) -> dict[str, str]:
        """Our field names to DirectML's: `input` to `InputTensor`, `block_size` to `BlockSize`."""
        tensors = cls.tensor_names()
        return {name: directml_name(name) + ("Tensor" if name in tensors else "") for name in cls.field_names()}

    @classmethod
    def rules(cls, feature_level: FeatureLevel | str = NEWEST) -> tuple[Rule, ...]:
        """Every rule that holds at a feature level: the operator's own, then its table's."""
        return (*cls.constraints, *table_rules(cls.support, FeatureLevel.of(feature_level)))

    @classmethod
    def faults(
        cls, operands: Mapping[str, Any], feature_level: FeatureLevel | str = NEWEST
    ) -> Iterator[ConstraintError]:
        """Finds every rule that the operands break, as errors; `operands` need not form a valid descriptor."""
        return faults(cls.operator_type, cls.rules(feature_level), operands, VOCABULARY | cls.directml_names())

    @classmethod
    def wordings(cls, feature_level: FeatureLevel | str = NEWEST) -> dict[str, str]:
        """Every rule's name and its text in DirectML's words."""
        names = VOCABULARY | cls.directml_names()
        return {rule.name: rule.worded(names) for rule in cls.rules(feature_level)}

    def operands(self) -> dict[str, Any]:
        """The fields by name, in DirectML's order."""
        return {name: getattr(self, name) for name in self.field_names()}

    def validate(self, feature_level: FeatureLevel | str = NEWEST) -> None:
        """Checks the descriptor against a feature level: a `FeatureLevel`, or a string such as "3_0".

        Raises:
          ConstraintError: the level lacks the operator, or takes no such ranks.
          DataTypeError: the level takes no such data types.
        """
        for error in self.faults(self.operands(), feature_level):
            raise error

    def compute(self, *arrays: jax.Array | np.ndarray) -> jax.Array:
        """Runs the operator.

        Args:
          arrays: one per input tensor, in DirectML's order, of its sizes and data type.

        Returns:
          An array of the sizes and data type of the output.

        Raises:
          ConstraintError: other sizes, or another number of arrays.
          DataTypeError: other data types, or 64-bit data while x64 is off.
        """
        return self.compute_checked(*(self._as_input(*pair) for pair in self.paired(arrays)))

    def compute_checked(self, *args: Any, **kwargs: Any) -> jax.Array:
        """Runs the operator on arrays that are known to fit."""
        raise NotImplementedError

    def compute_words(self, *args: Any, **kwargs: Any) -> jax.Array:
        """Runs the operator on 64-bit data as pairs of 32-bit words, a last dimension of every array but `indices`."""
        arrays = dict(zip(self.input_names(), args, strict=False)) | kwargs
        axes = tuple(None if name == "indices" else -1 for name in arrays)
        return jax.vmap(self.compute_checked, in_axes=axes, out_axes=-1)(*arrays.values())

    def paired(self, arrays: Sequence[Any]) -> Iterator[tuple[str, Any]]:
        """Each input's name beside its array.

        Raises:
          ConstraintError: another number of arrays.
        """
        names = self.input_names()
        if len(arrays) != len(names):
            wanted = ", ".join(self.directml_names()[name] for name in names)
            raise ConstraintError(f"{self.operator_type}: takes arrays for {wanted}, but there are {len(arrays)}.")
        return zip(names, arrays, strict=True)

    def as_array(self, name: str, value: Any) -> jax.Array:
        """An array of an input's data type; 64-bit indices are brought to 32 bits exactly while x64 is off.

        Raises:
          DataTypeError: no array, another data type, or 64-bit data while x64 is off.
        """
        field, tensor = self.directml_names()[name], getattr(self, name)
        indices = name == "indices"
        array = as_indices(self.operator_type, value) if indices else as_data(self.operator_type, field, value)
        given = getattr(value, "dtype", array.dtype)
        if given != tensor.dtype:
            rule = f"the array of {field} must have elements of {tensor.dtype}"
            raise DataTypeError(message(self.operator_type, rule, f"they are {given}", {field: value}))
        return array

    def _as_input(self, name: str, value: Any) -> jax.Array:
        array, tensor, field = self.as_array(name, value), getattr(self, name), self.directml_names()[name]
        if array.shape != tensor.sizes:
            rule = f"the array of {field} must have its sizes, {tensor.sizes}"
            raise ConstraintError(message(self.operator_type, rule, f"its shape is {array.shape}", {field: array}))
        return array

    @classmethod
    def _as_field(cls, name: str, value: Any) -> Any:
        """The value as the field keeps it.

        Raises:
          DataTypeError: a tensor field that is no TensorDesc, a number that is no integer.
        """
        field = cls.directml_names()[name]
        if name not in cls.tensor_names():
            return as_integer(cls.operator_type, field, value)
        if isinstance(value, TensorDesc):
            return value
        rule = f"{field} must be a TensorDesc"
        raise DataTypeError(message(cls.operator_type, rule, f"it is {type(value).__name__}", {field: value}))


# What the rules call a tensor's properties, in DirectML's words.
VOCABULARY = {"sizes": "Sizes", "rank": "DimensionCount", "dtype": "DataType", "strides": "Strides", "flags": "Flags"}


def directml_name(name: str) -> str:
    """`input_dimension_count` is DirectML's InputDimensionCount."""
    return "".join(word.capitalize() for word in name.split("_"))
