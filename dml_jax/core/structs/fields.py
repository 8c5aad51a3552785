"""Kinds of fields of structs, as annotations, after DirectML's own schema: reading, checking, and JSON.

class Slice1Desc(OperatorDesc):
    input: Input
    output: Output
    input_window_offsets: Annotated[Row[int], counted_by("DimensionCount"), "first element of the window."]
"""

from __future__ import annotations

import enum
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Annotated, Any

import numpy as np

from ...errors import ConstraintError, DataTypeError, Faults, describe, hint, message
from ..arguments.static_values import Real, as_flag, as_int, as_real, as_row
from ..tensors.tensor_desc import TensorDesc
from ..tensors.tensor_json import tensor_from_json, tensor_to_json
from .field_types import Row

Reader = Callable[[str, str, Any], Any]
_ABBREVIATIONS = {"roi": "ROI"}


@dataclass(frozen=True)
class Field:
    """The kind of a field.

    Args:
      kind: its name in DirectML's schema: "input tensor", "uint array".
      read: takes the name of the struct, DirectML's name of the field, and the value given; returns the value that the
        descriptor keeps, or raises an error.
      from_json: takes the JSON form; returns a value that `read` takes.
      to_json: takes the value that the descriptor keeps; returns its JSON form.
      counted_by: of an array, the field of DirectML's struct that has its length. Here it is no field of its own.
      is_optional: whether it may be None.
      is_index: whether it is a tensor of indices. These may become 32-bit ones while x64 is off; data never do.
      values: of an enumeration, DirectML's names of its members.
      help: its usual words in help. A text beside the kind in `Annotated` replaces them.
    """

    kind: str
    read: Reader
    from_json: Callable[[Any], Any] = lambda json: json
    to_json: Callable[[Any], Any] = lambda value: value
    counted_by: str | None = None
    is_optional: bool = False
    is_index: bool = False
    values: tuple[str, ...] = ()
    help: str = ""

    @property
    def is_tensor(self) -> bool:
        """Whether it holds one tensor or several."""
        return self.is_input or self.is_output

    @property
    def is_input(self) -> bool:
        return self.kind.startswith("input tensor")

    @property
    def is_output(self) -> bool:
        return self.kind.startswith("output tensor")

    @property
    def is_array(self) -> bool:
        return self.counted_by is not None

    def directml_name(self, name: str) -> str:
        """Returns DirectML's name: BlockSize of `block_size`, InputTensor of `input`, InputTensors of `inputs`."""
        words = "".join(_ABBREVIATIONS.get(word, word.capitalize()) for word in name.split("_"))
        if not self.is_tensor:
            return words
        return f"{words.removesuffix('s')}Tensors" if self.is_array else f"{words}Tensor"

    def kept(self, struct: str, name: str, value: Any) -> Any:
        """Returns the value that the descriptor keeps.

        Raises:
          DataTypeError: the value has the wrong type.
          ConstraintError: the value is out of the range of DirectML's field.
        """
        if value is None and self.is_optional:
            return None
        return self.read(struct, name, value)


def fields_of(cls: type) -> Mapping[str, Field]:
    """Returns the kind of each field of a struct, a dataclass, in DirectML's order.

    Raises:
      TypeError: a field has no kind.
    """
    return {field.name: _kind_of(cls, field.name) for field in fields(cls)}


def annotation_of(cls: type, name: str) -> Any:
    """Returns the annotation of a field, read in the module of the class that has it."""
    owner = next(base for base in cls.__mro__ if name in getattr(base, "__annotations__", ()))
    annotation, names = owner.__annotations__[name], vars(sys.modules[owner.__module__])
    if isinstance(annotation, str):
        return names[annotation] if annotation in names else eval(annotation, names)
    return annotation


def _kind_of(cls: type, name: str) -> Field:
    parts = getattr(annotation_of(cls, name), "__metadata__", ())
    kind = next((part for part in parts if isinstance(part, Field)), None)
    if kind is None:
        raise TypeError(f"{cls.__name__}.{name} must have a kind of core/structs/fields.py, such as UInt")
    texts = [part for part in parts if isinstance(part, str)]
    return replace(kind, help=texts[-1]) if texts else kind


# Tensors.


def _as_tensor(struct: str, field: str, value: Any) -> TensorDesc:
    if isinstance(value, TensorDesc):
        return value
    rule = f"{field} must be a TensorDesc"
    raise DataTypeError(message(struct, rule, f"it is {type(value).__name__}", {field: value}))


def _elements(field: Field, json: Sequence[Any]) -> list[Any]:
    faults, elements = Faults(), []
    for i, element in enumerate(json):
        with faults.at(f"[{i}]"):
            elements.append(field.from_json(element))
    faults.finish()
    return elements


def _array_of(field: Field, what: str, count: str) -> Field:
    """Returns the kind of an array of such; messages call them `what`, and `count` is the field of the length."""
    return replace(
        field,
        kind=f"{field.kind} array",
        read=partial(as_row, read=field.read, what=what),
        from_json=lambda json: _elements(field, json) if isinstance(json, list) else json,
        to_json=lambda value: [field.to_json(element) for element in value],
        counted_by=count,
        help="",
    )


INPUT = Field("input tensor", _as_tensor, tensor_from_json, tensor_to_json)
_OUTPUT = replace(INPUT, kind="output tensor")

Input = Annotated[TensorDesc, INPUT]
IndexInput = Annotated[TensorDesc, replace(INPUT, is_index=True)]
OptionalInput = Annotated[TensorDesc | None, replace(INPUT, is_optional=True)]
OptionalIndexInput = Annotated[TensorDesc | None, replace(INPUT, is_index=True, is_optional=True)]
Inputs = Annotated[Row[TensorDesc], _array_of(INPUT, "TensorDesc", "InputCount")]
Output = Annotated[TensorDesc, _OUTPUT]
OptionalOutput = Annotated[TensorDesc | None, replace(_OUTPUT, is_optional=True)]
Outputs = Annotated[Row[TensorDesc], _array_of(_OUTPUT, "TensorDesc", "OutputCount")]


# Numbers.


def _as_ranged(least: int, most: int, words: str, struct: str, field: str, value: Any) -> int:
    number = as_int(struct, field, value)
    if least <= number <= most:
        return number
    raise ConstraintError(message(struct, f"{field} must be in {words}", f"it is {number}", {field: value}))


def _as_float(struct: str, field: str, value: Any) -> Real:
    """Reads a FLOAT. It is kept as it is given, and rounded to 32 bits where it is used."""
    number = as_real(struct, field, value)
    with np.errstate(over="ignore"):
        if np.isinf(np.float32(number)) <= np.isinf(number):
            return number
    raise ConstraintError(
        message(struct, f"{field} must be a number that float32 holds", f"it is {number}", {field: value})
    )


def _as_bool(struct: str, field: str, value: Any) -> bool:
    """Reads a bool; 1 and 0 are taken too, because the BOOL of C is an integer."""
    is_bit = isinstance(value, int | np.integer) and value in (0, 1)
    return as_flag(struct, field, bool(value) if is_bit else value)


def number_from_json(json: Any) -> Any:
    """Reads a number; NaN and the infinities, which JSON lacks, are strings."""
    names = {"nan": float("nan"), "inf": float("inf"), "-inf": -float("inf")}
    return names.get(json.lower(), json) if isinstance(json, str) else json


def number_to_json(value: Any) -> Any:
    return value if value - value == 0 else str(float(value))


UINT = Field("uint", partial(_as_ranged, 0, 2**32 - 1, "[0, 2**32 - 1]"))
INT = Field("int", partial(_as_ranged, -(2**31), 2**31 - 1, "[-2**31, 2**31 - 1]"))
FLOAT = Field("float", _as_float, number_from_json, number_to_json)
UInt = Annotated[int, UINT]
Float = Annotated[float, FLOAT]
Bool = Annotated[bool, Field("bool", _as_bool)]


def counted_by(count: str, of: Field = UINT, what: str | None = None) -> Field:
    """Returns the kind of an array, of unsigned integers by default; `count` is DirectML's field of its length."""
    return _array_of(of, what or ("integers" if of is not FLOAT else "real numbers"), count)


Ints = Annotated[Row[int], counted_by("DimensionCount")]
Axis = Annotated[UInt, "in [0, DimensionCount)."]
Axes = Annotated[Row[int], counted_by("AxisCount"), "different dimensions, one at least."]

# Enumerations.


def named(names: type[enum.IntEnum], prefix: str, others: Mapping[str, enum.IntEnum] | None = None) -> Field:
    """Returns the kind of a member of an enumeration: itself, its number, or its DirectML name, in full or as suffix.

    Args:
      names: the enumeration.
      prefix: the beginning of DirectML's full names.
      others: more names of members, such as ONNX's, which Python programs may use and model files may not.
    """
    values, elsewhere = tuple(names.__members__), others or {}
    accepted = ", ".join(dict.fromkeys((*values, *elsewhere)))

    def read(struct: str, field: str, value: Any) -> enum.IntEnum:
        name = value.removeprefix(prefix) if isinstance(value, str) else ""
        if name in values:
            return names[name]
        if isinstance(value, str) and value in elsewhere:
            return elsewhere[value]
        if not isinstance(value, str) and as_int(struct, field, value) in list(names):
            return names(value)
        rule = f"{field} must be one of {accepted}"
        fact = f"it is {describe(value)}{hint(value, (*values, *elsewhere))}"
        raise ConstraintError(message(struct, rule, fact, {field: value}))

    def from_json(json: Any) -> Any:
        if isinstance(json, str) and json in elsewhere and json not in values:
            raise ConstraintError(f"its name must be one of {', '.join(values)}, but it is {json!r}")
        return json

    article = "an" if names.__name__[0] in "AEIOU" else "a"
    words = f"{article} `{names.__name__}`, or its DirectML name in full or as suffix: {', '.join(values)}."
    wrapped = "\n    ".join(textwrap.wrap(words, 100))
    return Field("enum", read, from_json, to_json=lambda value: value.name, values=values, help=wrapped)
