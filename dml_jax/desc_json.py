"""The JSON form that a descriptor has in a DxDispatch model file: both ways, and every fault of one by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .core.data_type import DataType, TensorFlags, as_integer
from .core.desc import OperatorDesc
from .core.feature_level import NEWEST, FeatureLevel
from .core.tensor import FIELDS, TensorDesc, implied_bytes
from .descriptors.registry import OPERATORS
from .errors import ConstraintError, SeveralErrors, suggestion

__all__ = ["desc_from_json", "desc_to_json", "find_faults"]


def desc_to_json(desc: OperatorDesc) -> dict[str, Any]:
    """Converts a descriptor to the form that it has in a DxDispatch model file: `{"type": …, "desc": {…}}`.

    Defaults are left out; `desc_from_json` gives back an equal descriptor.
    """
    names = desc.directml_names()
    fields = {names[name]: _field_to_json(value) for name, value in desc.operands().items()}
    return {"type": f"DML_OPERATOR_{desc.operator_type}", "desc": fields}


def desc_from_json(json: Mapping[str, Any]) -> OperatorDesc:
    """Converts the form that a descriptor has in a DxDispatch model file, `{"type": …, "desc": {…}}`.

    Enum names are taken in full or as suffix; a tensor is flat, or under "Desc" beside its "Type".

    Raises:
      ConstraintError: an unknown operator or field, a field that is missing, or a rule that is broken.
      DataTypeError: a value of the wrong type.

    Example:
      >>> from dml_jax import desc_from_json, desc_to_json
      >>> tensor = {"DataType": "FLOAT32", "Sizes": [1, 4, 1, 1]}
      >>> output = {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 2]}
      >>> form = {
      ...     "type": "DML_OPERATOR_DEPTH_TO_SPACE",
      ...     "desc": {"InputTensor": tensor, "OutputTensor": output, "BlockSize": 2},
      ... }
      >>> desc_to_json(desc_from_json(form)) == form
      True
    """
    for error in find_faults(json):
        raise error
    cls, _ = _operator_class(json)
    return cls(**_read_fields(cls, json)[0])


def find_faults(json: Mapping[str, Any], feature_level: FeatureLevel | str = NEWEST) -> list[ConstraintError]:
    """Every fault of a descriptor in JSON form: of its fields, and of its rules if all fields can be read."""
    try:
        cls, _ = _operator_class(json)
    except ConstraintError as error:
        return [error]
    values, errors = _read_fields(cls, json)
    return errors or list(cls.faults(values, feature_level))


def _operator_class(json: Mapping[str, Any]) -> tuple[type[OperatorDesc], Mapping[str, Any]]:
    """The class that a descriptor in JSON form names, and its fields.

    Raises:
      ConstraintError: no such operator, or no fields.
    """
    json = _object("a descriptor", json)
    name = _either(json, "type")
    if not isinstance(name, str):
        raise ConstraintError('"type" is missing: it names the operator, such as DML_OPERATOR_GATHER')
    if name.lower() in OTHER_DISPATCHABLES:
        raise ConstraintError(f"dispatchables of type {name!r} are not supported, only DirectML operators")
    for field in json:
        if field not in DISPATCHABLE:
            raise ConstraintError(f"unknown field {_named(field, DISPATCHABLE)}")
    suffix = name.removeprefix("DML_OPERATOR_")
    if suffix not in OPERATORS:
        raise ConstraintError(f"unknown operator {_named(suffix, OPERATORS)}")
    desc = _either(json, "desc")
    return OPERATORS[suffix], _object(f'{suffix}: "desc"', {} if desc is None else desc)


# Fields of a dispatchable; the last two choose how DirectML compiles and have no meaning here.
DISPATCHABLE = ("type", "Type", "desc", "Desc", "bindings", "dmlCompileType", "executionFlags")
OTHER_DISPATCHABLES = ("hlsl", "onnx", "dmlserializedgraph")


def _either(json: Mapping[str, Any], field: str) -> Any:
    """A field that may be written with a capital."""
    if field in json and field.capitalize() in json:
        raise ConstraintError(f"{field!r} and {field.capitalize()!r} stand side by side; only one of them can be meant")
    return json.get(field, json.get(field.capitalize()))


def _read_fields(cls: type[OperatorDesc], json: Mapping[str, Any]) -> tuple[dict[str, Any], list[ConstraintError]]:
    """The fields of a descriptor in JSON form, and a fault for each one that cannot be read."""
    _, desc = _operator_class(json)
    names = cls.directml_names()
    values: dict[str, Any] = {}
    errors = [
        ConstraintError(f"{cls.operator_type}: unknown field {_named(field, names.values())}")
        for field in desc
        if field not in names.values()
    ]
    for name, field in names.items():
        try:
            if field not in desc:
                raise ConstraintError(f"{cls.operator_type}: {field} is missing")
            tensor = name in cls.tensor_names()
            value = _tensor_from_json(desc[field]) if tensor else cls._as_field(name, desc[field])
            values[name] = value
        except ConstraintError as error:
            for one in getattr(error, "errors", [error]):
                text = str(one)
                shown = text if text.startswith(cls.operator_type) else f"{cls.operator_type}: {field}: {text}"
                errors.append(type(one)(shown))
    return values, errors


def _tensor_from_json(json: Any) -> TensorDesc:
    json = _object("a tensor", json)
    kind = json.get("Type", "BUFFER")
    if kind not in ("BUFFER", "DML_TENSOR_TYPE_BUFFER"):
        raise ConstraintError(f"Type must be DML_TENSOR_TYPE_BUFFER, but it is {kind!r}")
    if "Desc" in json:
        extra = set(json) - {"Type", "Desc"}
        if extra:
            raise ConstraintError(f"{min(extra)!r} stands beside Desc; the fields belong inside it")
        json = _object("Desc", json["Desc"])
    else:
        json = {field: value for field, value in json.items() if field != "Type"}
    keywords = {field: name for name, field in FIELDS.items()}
    known = [*keywords, "DimensionCount"]
    errors = [ConstraintError(f"unknown field {_named(field, known)}") for field in json if field not in known]
    errors += [ConstraintError(f"{field} is missing") for field in ("DataType", "Sizes") if field not in json]
    if errors:
        raise SeveralErrors(errors)
    values = {keywords[field]: value for field, value in json.items() if field in keywords}
    if not isinstance(values["data_type"], str):
        raise ConstraintError(f"DataType must be a name such as FLOAT32, but it is {values['data_type']!r:.60}")
    values["data_type"] = DataType.named(values["data_type"])
    tensor = TensorDesc(**values)
    count = as_integer("TENSOR", "DimensionCount", json.get("DimensionCount", len(tensor.sizes)))
    if count != len(tensor.sizes):
        raise ConstraintError(f"DimensionCount is {count} and Sizes has {len(tensor.sizes)} entries")
    return tensor


def _field_to_json(value: Any) -> Any:
    if not isinstance(value, TensorDesc):
        return getattr(value, "name", value)
    form: dict[str, Any] = {"DataType": value.data_type.name, "Sizes": list(value.sizes)}
    if value.strides is not None:
        form["Strides"] = list(value.strides)
    if value.flags != TensorFlags.NONE:
        form["Flags"] = value.flags.name
    if value.total_tensor_size_in_bytes != implied_bytes(value.sizes, value.strides, value.data_type):
        form["TotalTensorSizeInBytes"] = value.total_tensor_size_in_bytes
    if value.guaranteed_base_offset_alignment:
        form["GuaranteedBaseOffsetAlignment"] = value.guaranteed_base_offset_alignment
    return form


def _object(what: str, json: Any) -> Mapping[str, Any]:
    if isinstance(json, Mapping):
        return json
    raise ConstraintError(f"{what} must be a JSON object, but it is {json!r:.60}")


def _named(name: Any, known: Iterable[str]) -> str:
    return f"{name!r:.60}; {suggestion(str(name), known)}"
