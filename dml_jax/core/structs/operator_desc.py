"""`OperatorDesc`: the base of all descriptors of operators. If one exists, it is valid at the newest feature level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

import jax
import numpy as np
from jax import lax

from ...errors import ConstraintError, suggestion
from ..arguments.ports import argument_of, by_argument, ports_of
from ..rules import Rule, faults
from ..sharding import wording_refusals
from ..tensors.data_type import DataType
from ..tensors.stored_tensor import StoredTensor, saturate
from ..tensors.tensor_desc import TensorDesc
from .activation_fusion import supported_activation
from .computation import Computation, R
from .feature_level import NEWEST, FeatureLevel
from .feature_level_tables import Support, table_rules
from .fields import Field, annotation_of, fields_of
from .struct_help import complete_docstring, shown_signature
from .struct_names import operator_type_of
from .struct_rules import shared_by_all


@dataclass_transform(frozen_default=True)
class OperatorDesc(Computation[R]):
    """A DML_*_OPERATOR_DESC struct: frozen, hashable, and valid if it exists.

    Fields carry DirectML's names in snake_case, a tensor's without the suffix Tensor, in DirectML's order.
    A subclass is a frozen dataclass without the decorator. It gives its fields, its own rules, its feature-level table
    and `compute_checked`; one of several outputs is a `SeveralOutputs`. The rest follows: `operator_type` from the name
    of the class, the help from its fields.
    """

    # DirectML's name; by default the name of the class in DirectML's form.
    operator_type: ClassVar[str]
    other_names: ClassVar[tuple[str, ...]] = ()
    constraints: ClassVar[tuple[Rule, ...]] = ()
    support: ClassVar[tuple[Support, ...]]
    # Rules that hold below a feature level.
    lifted: ClassVar[tuple[tuple[str, Rule], ...]] = ()
    # Tensors that need not have the data type of the first one, beside indices.
    other_types: ClassVar[tuple[str, ...]] = ()
    # The data types of outputs that GraphBuilder is not told, where several are possible: DirectMLX's.
    default_types: ClassVar[Mapping[str, DataType]] = {}
    # Tensors that need not have the DimensionCount of the first one.
    other_ranks: ClassVar[tuple[str, ...]] = ()
    # The function of JAX that computes the same, where dml_jax has none of its own.
    in_jax: ClassVar[str] = ""
    # Whether it moves elements without looking at them, so that the words of 64-bit ones may move alone.
    moves_words: ClassVar[bool] = False

    def __init_subclass__(cls, *, is_base: bool = False) -> None:
        """Makes a struct of a subclass, or with `is_base` a dataclass that others share.

        Raises:
          TypeError: the class is not called as a struct, or a field has no kind, or no words of help.
        """
        super().__init_subclass__()
        written = vars(cls)["__doc__"]  # a dataclass has another one if this one is missing
        dataclass(frozen=True, repr=False)(cls)
        if is_base:
            return
        if "operator_type" not in vars(cls):
            cls.operator_type = operator_type_of(cls.__name__)
        fields = cls.fields()
        constructor: Any = cls.__init__
        constructor.__signature__ = shown_signature(cls)
        # Not names: a base may be of another module.
        constructor.__annotations__ |= {name: annotation_of(cls, name) for name in fields}
        if written:
            docstrings = [base.__doc__ or "" for base in reversed(cls.__mro__) if is_dataclass(base)]
            home = "dml_jax.descs" if cls.in_jax else "dml_jax"
            cls.__doc__ = complete_docstring(cls.__name__, home, cls.operator_type, docstrings, fields, cls.constraints)

    def __new__(cls, *values: Any, **by_name: Any) -> Self:
        """Refuses a name that is no field: the constructor of a dataclass would say no more than that."""
        if unknown := [name for name in by_name if name not in cls.fields()]:
            raise TypeError(f"{cls.__name__} has no field {unknown[0]!r}; {suggestion(unknown[0], cls.fields())}")
        return super().__new__(cls)

    def __repr__(self) -> str:  # one for all structs: each that a dataclass makes costs time at import
        return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in self.operands().items())})"

    def __post_init__(self) -> None:
        names = self.directml_names()
        values = {
            name: field.kept(self.operator_type, names[name], getattr(self, name))
            for name, field in self.fields().items()
        }
        for error in self.faults(values):
            raise error
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of_judged(cls, values: Mapping[str, Any]) -> Self:
        """Makes a descriptor of fields that are read, and that break no rule, without checking them again."""
        self = object.__new__(cls)
        for name, value in values.items():
            object.__setattr__(self, name, value)
        return self

    @classmethod
    @cache
    def fields(cls) -> Mapping[str, Field]:
        """Returns the kind of each field, in DirectML's order."""
        return fields_of(cls)

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """All fields, in DirectML's order."""
        return tuple(cls.fields())

    @classmethod
    def tensor_names(cls) -> tuple[str, ...]:
        """Returns the fields of tensors and of arrays of tensors, in DirectML's order."""
        return tuple(name for name, field in cls.fields().items() if field.is_tensor)

    @classmethod
    def input_names(cls) -> tuple[str, ...]:
        """Returns the fields of tensors that the operator reads."""
        return tuple(name for name, field in cls.fields().items() if field.is_input)

    @classmethod
    def output_names(cls) -> tuple[str, ...]:
        """Returns the fields of tensors that the operator writes."""
        return tuple(name for name, field in cls.fields().items() if field.is_output)

    @classmethod
    @cache
    def directml_names(cls) -> dict[str, str]:
        """Returns DirectML's name of each field: `InputTensor` of `input`, `BlockSize` of `block_size`."""
        return {name: field.directml_name(name) for name, field in cls.fields().items()}

    @classmethod
    def summary(cls) -> str:
        """Returns a summary of the operator: the first line of its docstring, without the name."""
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
        fused = (name for name, field in cls.fields().items() if field.kind.startswith("activation"))
        fusions = (supported_activation(name, cls.operator_type, feature_level) for name in fused)
        return (*shared, *cls.constraints, *lifted, *table_rules(cls.support, feature_level), *fusions)

    @classmethod
    def rules(cls, feature_level: FeatureLevel | str = NEWEST) -> tuple[Rule, ...]:
        """Returns every rule of a feature level: those of all operators, its own, and those of its table."""
        return cls._rules(FeatureLevel.of(feature_level))

    @classmethod
    def faults(
        cls, operands: Mapping[str, Any], feature_level: FeatureLevel | str = NEWEST
    ) -> Iterator[ConstraintError]:
        """Yields an error for each rule that the operands break; they need not form a valid descriptor."""
        return faults(cls.operator_type, cls.rules(feature_level), operands, VOCABULARY | cls.directml_names())

    @classmethod
    def wordings(cls, feature_level: FeatureLevel | str = NEWEST) -> dict[str, str]:
        """Returns the text of every rule, in DirectML's words, by the name of the rule."""
        names = VOCABULARY | cls.directml_names()
        return {rule.name: rule.worded(names) for rule in cls.rules(feature_level)}

    def operands(self) -> dict[str, Any]:
        """Returns the value of each field, in DirectML's order."""
        return {name: getattr(self, name) for name in self.field_names()}

    def validate(self, feature_level: FeatureLevel | str = NEWEST) -> None:
        for error in self.faults(self.operands(), feature_level):
            raise error

    def input_ports(self) -> dict[str, TensorDesc]:
        return self._ports(self.input_names())

    def output_ports(self) -> dict[str, TensorDesc]:
        return self._ports(self.output_names())

    def has_several_outputs(self) -> bool:
        """Whether results are a tuple: there are several outputs, or an array of them, of whatever length."""
        is_array = any(self.fields()[name].is_array for name in self.output_names())
        return is_array or len(self.output_ports()) > 1

    def shown(self, port: str) -> str:
        """Returns DirectML's name of a port: InputTensors[0] of `inputs[0]`."""
        name = argument_of(port)
        return self.directml_names()[name] + port.removeprefix(name)

    def is_index(self, port: str) -> bool:
        return self.fields()[argument_of(port)].is_index

    def _ports(self, names: Sequence[str]) -> dict[str, TensorDesc]:
        tensors = {name: getattr(self, name) for name in names}
        return ports_of({name: value for name, value in tensors.items() if value is not None})

    def fields_bound(self) -> dict[str, str | tuple[str, ...]]:
        names, bound = self.directml_names(), {}
        for name in self.tensor_names():
            value = getattr(self, name)
            if value is not None:
                bound[names[name]] = tuple(self._ports([name])) if isinstance(value, tuple) else name
        return bound

    def by_field(self, ports: Mapping[str, Any]) -> dict[str, Any]:
        """Converts values by input port to values by field: a tuple for an array, None for a tensor left out."""
        return by_argument(ports, like={name: getattr(self, name) for name in self.input_names()})

    # Running.

    def compute_ports(self, arrays: Mapping[str, jax.Array]) -> R:
        by_field = self.by_field(arrays)
        if not self.in_jax:
            return self.compute_checked(**by_field)
        with wording_refusals(self.operator_type, lambda: arrays):
            return _compute_jitted(self, by_field)

    def compute_checked(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the operator on arrays by field that are known to fit."""
        raise NotImplementedError

    def compute_stored(self, views: Mapping[str, jax.Array], words: bool) -> Sequence[jax.Array]:
        in_words = {port for port, tensor in self.ports().items() if StoredTensor(tensor, words).in_words}
        tensors = self.input_ports()
        arrays = {
            port: saturate(array, tensors[port].dtype) if port in in_words and self.is_index(port) else array
            for port, array in views.items()
        }
        has_words = any(not self.is_index(port) for port in in_words)
        compute = self.compute_words if has_words else self.compute_checked
        return jax.tree.leaves(compute(**self.by_field(arrays)))

    def compute_words(self, *args: Any, **arrays: Any) -> Any:
        """Computes the operator where 64-bit data are pairs of 32-bit words, as in `StoredTensor`."""
        if not self.moves_words:
            return self._compute_wide(arrays)
        in_words = {port: tensor.data_type.itemsize == 8 for port, tensor in self.input_ports().items()}
        axes = {port: -1 if words and not self.is_index(port) else None for port, words in in_words.items()}
        batched = jax.vmap(
            lambda by_field: self.compute_checked(**by_field), in_axes=(self.by_field(axes),), out_axes=-1
        )
        return batched(arrays)

    def _compute_wide(self, arrays: Mapping[str, Any]) -> Any:
        """Computes the operator on the numbers that the words form; inside of a trace x64 may be on for a while."""

        def numbers(array: Any, tensor: TensorDesc) -> Any:
            has_words = tensor.data_type.itemsize == 8 and array.ndim > len(tensor.sizes)
            return lax.bitcast_convert_type(array, tensor.dtype) if has_words else array

        def words(array: Any) -> Any:
            return lax.bitcast_convert_type(array, np.uint32) if array.dtype.itemsize == 8 else array

        with jax.enable_x64(True):
            tensors = {name: getattr(self, name) for name in arrays}
            computed = self.compute_checked(**jax.tree.map(numbers, dict(arrays), tensors))
            return jax.tree.map(words, computed)


@partial(jax.jit, static_argnums=0)
def _compute_jitted(desc: OperatorDesc[Any], arrays: Mapping[str, Any]) -> Any:
    """Computes a struct that has no function of dml_jax, which would be one program too."""
    return desc.compute_checked(**arrays)


# A struct whose results are a tuple, or are where no output is left out; to help() and pydoc a plain descriptor.
if TYPE_CHECKING:
    SeveralOutputs = OperatorDesc[tuple[jax.Array, ...]]
    OneOrSeveralOutputs = OperatorDesc[jax.Array | tuple[jax.Array, ...]]
else:
    SeveralOutputs = OneOrSeveralOutputs = OperatorDesc


# DirectML's words for the properties of a tensor, which rules use.
VOCABULARY = {"sizes": "Sizes", "rank": "DimensionCount", "dtype": "DataType", "strides": "Strides", "flags": "Flags"}
