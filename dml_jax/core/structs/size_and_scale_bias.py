"""`Size2D` and `ScaleBias`: the structs of two numbers that fields of descriptors hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from ...errors import ConstraintError, DataTypeError, Faults, describe, message
from ..json_fields import refuse_unknown
from .field_types import Converted
from .fields import FLOAT, UINT, Field


@dataclass(frozen=True)
class Size:
    """DML_SIZE_2D: a width and a height."""

    width: int
    height: int


@dataclass(frozen=True)
class ScaleAndBias:
    """DML_SCALE_BIAS: x * scale + bias."""

    scale: float
    bias: float


def _small_struct(cls: type, number: Field, kind: str, *, is_optional: bool = False) -> Field:
    names = list(cls.__dataclass_fields__)  # type: ignore[attr-defined]
    shown = {name: UINT.directml_name(name) for name in names}

    def read(struct: str, field: str, value: Any) -> Any:
        values = [getattr(value, name, None) for name in names] if isinstance(value, cls) else value
        if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != len(names):
            rule = f"{field} must be a {cls.__name__} of {' and '.join(names)}"
            raise DataTypeError(message(struct, rule, f"it is {describe(value)}", {field: value}))
        return cls(*(number.read(struct, f"{field}.{shown[n]}", v) for n, v in zip(names, values, strict=True)))

    def from_json(json: Any) -> Any:
        if not isinstance(json, Mapping):
            return json
        faults = Faults()
        refuse_unknown(json, list(shown.values()), faults)
        for field in shown.values():
            if field not in json:
                faults.add(ConstraintError(f"{field} is missing"))
        faults.finish()
        return [number.from_json(json[field]) for field in shown.values()]

    def to_json(value: Any) -> Any:
        return {field: number.to_json(getattr(value, name)) for name, field in shown.items()}

    return Field(kind, read, from_json, to_json, is_optional=is_optional)


Size2D = Annotated[Converted[Size, Size | Sequence[int]], _small_struct(Size, UINT, "size 2d")]
SCALE_BIAS = _small_struct(ScaleAndBias, FLOAT, "scale bias", is_optional=True)
ScaleBias = Annotated[
    Converted[ScaleAndBias | None, ScaleAndBias | tuple[float, float] | None],
    SCALE_BIAS,
    "a pair of numbers, for input * scale + bias; or None.",
]
