"""`OperatorDesc`: what all descriptor structs share. One that exists is valid at the newest feature level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self

import jax
import numpy as np
from jax import lax

from ..errors import ConstraintError, DataTypeError, message
from .arguments import as_data, as_indices
from .feature_level import NEWEST, FeatureLevel
from .fields import Field, fields_of
from .rules import Rule, faults
from .struct_rules import shared_by_all
from .support import Support, table_rules
from .tensor import TensorDesc

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    R = TypeVar("R", default=jax.Array)
else:
    from typing import TypeVar

    R = TypeVar("R")

__all__ = ["OperatorDesc", "R", "SeveralOutputs", "set_fields"]


class OperatorDesc(Generic[R]):
    """A DML_*_OPERATOR_DESC struct: frozen, hashable, and valid if it exists.

    Fields carry DirectML's names in snake_case, a tensor's without the suffix Tensor, in DirectML's order.
    Subclasses give the struct's name, its own rules, its feature-level table and `compute_checked`; one of several
    outputs is a `SeveralOutputs`.
    """

    operator_type: ClassVar[str]
    other_names: ClassVar[tuple[str, ...]] = ()
    constraints: ClassVar[tuple[Rule, ...]] = ()
    support: ClassVar[tuple[Support, ...]]
    # Rules that hold below a feature level.
    lifted: ClassVar[tuple[tuple[str, Rule], ...]] = ()
    # Tensors that need not have the data type of the first one, beside indices.
    other_types: ClassVar[tuple[str, ...]] = ()
    # Tensors that need not have the DimensionCount of the first one.
    other_ranks: ClassVar[tuple[str, ...]] = ()
    # Whether it moves elements without looking at them, so that the words of 64-bit ones may move alone.
    moves_words: ClassVar[bool] = True
    # The input of which the output is a copy, some elements of it replaced.
    replaces_in: ClassVar[str | None] = None
    # Whether the output may be bound to the buffer of an input that is laid out like it.
    in_place: ClassVar[bool] = False

    def __post_init__(self) -> None:
        names = self.directml_names()
        kept = {
            name: field.kept(self.operator_type, names[name], getattr(self, name))
            for name, field in self.fields().items()
        }
        for error in self.faults(kept):
            raise error
        for name, value in kept.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of_judged(cls, values: Mapping[str, Any]) -> Self:
        """The descriptor of fields that were read and judged before."""
        self = object.__new__(cls)
        for name, value in values.items():
            object.__setattr__(self, name, value)
        return self

    @classmethod
    @cache
    def fields(cls) -> Mapping[str, Field]:
        """What each field holds, in DirectML's order."""
        kinds = fields_of(cls)
        return {f.name: kinds[f.name] for f in fields(cls)}  # type: ignore[arg-type]

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """All fields, in DirectML's order."""
        return tuple(cls.fields())

    @classmethod
    def tensor_names(cls) -> tuple[str, ...]:
        """The fields that are tensors, or arrays of them, in DirectML's order."""
        return tuple(name for name, field in cls.fields().items() if field.is_tensor)

    @classmethod
    def input_names(cls) -> tuple[str, ...]:
        """The fields of tensors that the operator reads."""
        return tuple(name for name, field in cls.fields().items() if field.is_input)

    @classmethod
    def output_names(cls) -> tuple[str, ...]:
        """The fields of tensors that the operator writes."""
        return tuple(name for name, field in cls.fields().items() if field.is_output)

    @classmethod
    @cache
    def directml_names(cls) -> dict[str, str]:
        """Our field names to DirectML's: `input` to `InputTensor`, `block_size` to `BlockSize`."""
        return {name: field.directml_name(name) for name, field in cls.fields().items()}

    @classmethod
    def summary(cls) -> str:
        """What the operator does: the first line of the documentation, without the name."""
        return (cls.__doc__ or "").splitlines()[0].split(": ", 1)[1].replace("`", "")

    @classmethod
    @cache
    def _rules(cls, feature_level: FeatureLevel) -> tuple[Rule, ...]:
        tensors = {name: field for name, field in cls.fields().items() if field.is_tensor}
        typed = [name for name, field in tensors.items() if not field.is_index and name not in cls.other_types]
        ranked = [name for name in tensors if name not in cls.other_ranks]
        are_arrays = {name: field.is_array for name, field in tensors.items()}
        shared = shared_by_all(are_arrays, ranked, typed, cls.output_names())
        lifted = (rule for since, rule in cls.lifted if feature_level < FeatureLevel.of(since))
        return (*shared, *cls.constraints, *lifted, *table_rules(cls.support, feature_level))

    @classmethod
    def rules(cls, feature_level: FeatureLevel | str = NEWEST) -> tuple[Rule, ...]:
        """Every rule that holds at a feature level: what all operators share, the operator's own, its table's."""
        return cls._rules(FeatureLevel.of(feature_level))

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

    # Ports: the tensors one by one, those of an array as `inputs[0]`; one that is left out is none.

    def ports(self) -> dict[str, TensorDesc]:
        """Every tensor, in DirectML's order."""
        return self.input_ports() | self.output_ports()

    def input_ports(self) -> dict[str, TensorDesc]:
        """The tensors that are read."""
        return self._ports(self.input_names())

    def output_ports(self) -> dict[str, TensorDesc]:
        """The tensors that are written."""
        return self._ports(self.output_names())

    def has_several_outputs(self) -> bool:
        """Whether results are a tuple: there are several outputs, or an array of them, of whatever length."""
        is_array = any(self.fields()[name].is_array for name in self.output_names())
        return is_array or len(self.output_ports()) > 1

    def shown(self, port: str) -> str:
        """DirectML's name of a port: InputTensors[0] of `inputs[0]`."""
        name, bracket, number = port.partition("[")
        return f"{self.directml_names()[name]}{bracket}{number}"

    def field_of(self, port: str) -> Field:
        """What a port holds."""
        return self.fields()[port.partition("[")[0]]

    def _ports(self, names: Sequence[str]) -> dict[str, TensorDesc]:
        ports: dict[str, TensorDesc] = {}
        for name in names:
            value = getattr(self, name)
            if isinstance(value, tuple):
                ports |= {f"{name}[{i}]": tensor for i, tensor in enumerate(value)}
            elif value is not None:
                ports[name] = value
        return ports

    def by_field(self, ports: Mapping[str, Any]) -> dict[str, Any]:
        """What belongs to ports by the fields that take it: a tuple for an array, None for a tensor left out."""
        found: dict[str, Any] = {}
        for name in self.input_names():
            value = getattr(self, name)
            several = isinstance(value, tuple)
            found[name] = tuple(ports[f"{name}[{i}]"] for i in range(len(value))) if several else ports.get(name)
        return found

    def may_share(self, output: str, other: str) -> bool:
        """Whether two ports may be bound to one buffer: an output and an input, laid out alike, of some operators."""
        ports = self.ports()
        return self.in_place and other in self.input_ports() and ports[output] == ports[other]

    def owned_by_field(self, ports: Mapping[str, Any]) -> dict[str, Any]:
        """What is handed over for some inputs, by field: of an array a tuple, with None for those that are not."""
        names = {port.partition("[")[0] for port in ports}
        found = self.by_field(dict.fromkeys(self.input_ports()) | dict(ports))
        return {name: found[name] for name in names}

    # Running.

    def compute(self, *arrays: jax.Array | np.ndarray) -> R:
        """Runs the operator.

        Args:
          arrays: one per input tensor, in DirectML's order, of its sizes and data type.

        Returns:
          An array of the sizes and data type of the output; of several, a tuple in DirectML's order.

        Raises:
          ConstraintError: other sizes, or another number of arrays.
          DataTypeError: other data types, or 64-bit data while x64 is off.
        """
        ports = self.input_ports()
        if len(arrays) != len(ports):
            wanted = ", ".join(map(self.shown, ports)) or "nothing"
            raise ConstraintError(f"{self.operator_type}: takes arrays for {wanted}, but there are {len(arrays)}.")
        given = {port: self._as_input(port, array) for port, array in zip(ports, arrays, strict=True)}
        for port, tensor in self.output_ports().items():
            if jax.dtypes.canonicalize_dtype(tensor.dtype) != tensor.dtype:
                rule = f"{self.shown(port)} of 64 bits needs 64-bit types: enable jax_enable_x64 around the call"
                raise DataTypeError(message(self.operator_type, rule, "jax_enable_x64 is off", {port: tensor}))
        return self.compute_checked(**self.by_field(given))

    def compute_checked(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the operator on arrays that are known to fit, given by field."""
        raise NotImplementedError

    def compute_words(self, *args: Any, **arrays: Any) -> Any:
        """Runs the operator with 64-bit data as pairs of 32-bit words, a last dimension of their arrays."""
        if not self.moves_words:
            return self._compute_wide(arrays)
        in_words = {port: tensor.data_type.itemsize == 8 for port, tensor in self.input_ports().items()}
        axes = {port: -1 if words and not self.field_of(port).is_index else None for port, words in in_words.items()}
        batched = jax.vmap(
            lambda by_field: self.compute_checked(**by_field), in_axes=(self.by_field(axes),), out_axes=-1
        )
        return batched(arrays)

    def _compute_wide(self, arrays: Mapping[str, Any]) -> Any:
        """Runs the operator on the numbers that the words are: inside of a trace 64-bit types may be on for a while."""

        def numbers(array: Any, tensor: TensorDesc) -> Any:
            has_words = tensor.data_type.itemsize == 8 and array.ndim > len(tensor.sizes)
            return lax.bitcast_convert_type(array, tensor.dtype) if has_words else array

        def words(array: Any) -> Any:
            return lax.bitcast_convert_type(array, np.uint32) if array.dtype.itemsize == 8 else array

        with jax.enable_x64(True):
            tensors = {name: getattr(self, name) for name in arrays}
            computed = self.compute_checked(**jax.tree.map(numbers, dict(arrays), tensors))
            return jax.tree.map(words, computed)

    def as_array(self, port: str, value: Any) -> jax.Array:
        """An array of an input's data type; 64-bit indices are brought to 32 bits exactly while x64 is off.

        Raises:
          DataTypeError: no array, another data type, or 64-bit data while x64 is off.
        """
        shown, tensor = self.shown(port), self.input_ports()[port]
        is_index = self.field_of(port).is_index
        array = as_indices(self.operator_type, port, value) if is_index else as_data(self.operator_type, shown, value)
        given = getattr(value, "dtype", array.dtype)
        if given != tensor.dtype:
            rule = f"the array of {shown} must have elements of {tensor.dtype}"
            raise DataTypeError(message(self.operator_type, rule, f"they are {given}", {shown: value}))
        return array

    def _as_input(self, port: str, value: Any) -> jax.Array:
        array, tensor, shown = self.as_array(port, value), self.input_ports()[port], self.shown(port)
        if array.shape != tensor.sizes:
            rule = f"the array of {shown} must have its sizes, {tensor.sizes}"
            raise ConstraintError(message(self.operator_type, rule, f"its shape is {array.shape}", {shown: array}))
        return array


# A struct whose results are a tuple; to help() and pydoc a plain descriptor.
if TYPE_CHECKING:
    SeveralOutputs = OperatorDesc[tuple[jax.Array, ...]]
else:
    SeveralOutputs = OperatorDesc


def set_fields(desc: OperatorDesc[Any], *values: Any) -> None:
    """What the constructor of a struct does whose fields take more types than they keep, such as an enum's names."""
    for name, value in zip(desc.field_names(), values, strict=True):
        object.__setattr__(desc, name, value)
    desc.__post_init__()


# What the rules call a tensor's properties, in DirectML's words.
VOCABULARY = {"sizes": "Sizes", "rank": "DimensionCount", "dtype": "DataType", "strides": "Strides", "flags": "Flags"}
