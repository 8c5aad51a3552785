"""Reads and writes the JSON form that a tensor has in DxDispatch's model files."""

from collections.abc import Mapping
from typing import Any

from ...errors import ConstraintError, Faults
from ..arguments.static_values import as_int
from ..json_fields import as_object, refuse_unknown, shown
from .data_type import DataType, TensorFlags
from .tensor_desc import FIELDS, TensorDesc, implied_bytes


def tensor_from_json(json: Any) -> TensorDesc:
    """Reads a tensor; its fields stand in the object itself, or under "Desc" beside a "Type".

    Raises:
      ConstraintError: all fields that are unknown, missing or mistyped, or the first rules that are broken.
    """
    json = as_object("a tensor", json)
    kind = json.get("Type", "BUFFER")
    if kind not in ("BUFFER", "DML_TENSOR_TYPE_BUFFER"):
        raise ConstraintError(f"Type must be DML_TENSOR_TYPE_BUFFER, but it is {shown(kind)}")
    if "Desc" in json:
        extra = set(json) - {"Type", "Desc"}
        if extra:
            raise ConstraintError(f"{min(extra)!r} stands beside Desc; the fields belong inside it")
        json = as_object("Desc", json["Desc"])
    else:
        json = {field: value for field, value in json.items() if field != "Type"}
    return _from_fields(json)


def _from_fields(json: Mapping[str, Any]) -> TensorDesc:
    keywords, faults = {field: name for name, field in FIELDS.items()}, Faults()
    refuse_unknown(json, [*keywords, "DimensionCount"], faults)
    for field in ("DataType", "Sizes"):
        if field not in json:
            faults.add(ConstraintError(f"{field} is missing"))
    faults.finish()
    values = {keywords[field]: value for field, value in json.items() if field in keywords}
    if not isinstance(values["data_type"], str):
        raise ConstraintError(f"DataType must be a name such as FLOAT32, but it is {shown(values['data_type'])}")
    values["data_type"] = DataType.named(values["data_type"])
    # DxDispatch's rule: empty strides, and a size of 0, stand for those that the sizes imply.
    if values.get("strides") == []:
        values["strides"] = None
    if values.get("total_tensor_size_in_bytes") == 0:
        values["total_tensor_size_in_bytes"] = None
    tensor = TensorDesc(**values)
    count = as_int("TENSOR", "DimensionCount", json.get("DimensionCount", len(tensor.sizes)))
    if count != len(tensor.sizes):
        raise ConstraintError(f"DimensionCount is {count} and Sizes has {len(tensor.sizes)} entries")
    return tensor


def tensor_to_json(tensor: TensorDesc) -> dict[str, Any]:
    """Returns the JSON form of a tensor, without the fields that have their defaults."""
    form: dict[str, Any] = {"DataType": tensor.data_type.name, "Sizes": list(tensor.sizes)}
    if tensor.strides is not None:
        form["Strides"] = list(tensor.strides)
    if tensor.flags != TensorFlags.NONE:
        form["Flags"] = tensor.flags.name
    if tensor.total_tensor_size_in_bytes != implied_bytes(tensor.sizes, tensor.strides, tensor.data_type):
        form["TotalTensorSizeInBytes"] = tensor.total_tensor_size_in_bytes
    if tensor.guaranteed_base_offset_alignment:
        form["GuaranteedBaseOffsetAlignment"] = tensor.guaranteed_base_offset_alignment
    return form
