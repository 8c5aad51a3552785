"""Reads and writes the JSON form that operators and graphs have in model files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .catalogue import STRUCTS
from .core.arguments.static_values import as_int
from .core.json_fields import as_object, refuse_unknown
from .core.structs.computation import Computation
from .core.structs.feature_level import NEWEST, FeatureLevel
from .core.structs.operator_desc import OperatorDesc
from .errors import ConstraintError, DataTypeError, Faults, SkippedError, message, suggestion
from .graphs.graph_desc import GraphDesc
from .graphs.json_form import GRAPH, graph_to_json, read_graph


def desc_to_json(desc: Computation[Any]) -> dict[str, Any]:
    """Converts a descriptor or a graph to the form that it has in a model file: `{"type": …, "desc": {…}}`.

    Defaults are left out; `desc_from_json` gives back an equal descriptor. DxDispatch reads the same
    form of an operator.
    """
    return graph_to_json(desc, _to_json) if isinstance(desc, GraphDesc) else _to_json(desc)


def _to_json(desc: Computation[Any]) -> dict[str, Any]:
    if not isinstance(desc, OperatorDesc):
        rule, fact = "desc must be a descriptor of an operator or a graph", f"it is {type(desc).__name__}"
        raise DataTypeError(message("desc_to_json", rule, fact, {"desc": desc}))
    form: dict[str, Any] = {}
    for name, field in desc.fields().items():
        value = getattr(desc, name)
        if value is None:
            continue
        if field.counted_by is not None:
            form[field.counted_by] = len(value)
        form[field.directml_name(name)] = field.to_json(value)
    return {"type": f"DML_OPERATOR_{desc.operator_type}", "desc": form}


def desc_from_json(json: Mapping[str, Any]) -> OperatorDesc[Any] | GraphDesc:
    """Converts the form that an operator or a graph has in a model file, `{"type": …, "desc": {…}}`.

    Enum names are taken in full or as suffix; a tensor is flat, or under "Desc" beside its "Type"; the count of an
    array may be left out.

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
    faults = Faults()
    desc = read_desc(json, faults)
    if desc is None:
        raise faults.errors[0]
    return desc


def read_desc(
    json: Any,
    faults: Faults,
    feature_level: FeatureLevel | str = NEWEST,
    others: Mapping[str, OperatorDesc[Any] | None] | None = None,
) -> OperatorDesc[Any] | GraphDesc | None:
    """Reads an operator or a graph; returns None and adds every fault of it if it has any.

    Args:
      json: the form.
      faults: the faults are added to it: those of fields, or those of rules if all fields can be read.
      feature_level: the level whose rules hold.
      others: the operators that nodes of a graph may name; None for an operator that has a fault.
    """
    level = FeatureLevel.of(feature_level)
    with faults.at():
        if is_graph(json):
            return read_graph(
                _fields(json), faults, level, lambda form, inner: _read_node(form, inner, level, others or {})
            )
        return _read_operator(json, faults, level)
    return None


def is_graph(json: Any) -> bool:
    """Whether a JSON form is that of a graph."""
    return isinstance(json, Mapping) and GRAPH in (json.get("type"), json.get("Type"))


def nodes_of(json: Any) -> Iterator[str]:
    """Yields the names of operators beside a graph that its nodes stand for."""
    form = json.get("desc", json.get("Desc")) if is_graph(json) else None
    nodes = form.get("Nodes") if isinstance(form, Mapping) else None
    return (node for node in (nodes.values() if isinstance(nodes, Mapping) else ()) if isinstance(node, str))


def _read_operator(json: Any, faults: Faults, level: FeatureLevel) -> OperatorDesc[Any] | None:
    count = len(faults.errors)
    cls, form = _struct(json)
    values = _read_fields(cls, form, faults)
    if len(faults.errors) == count:
        for error in cls.faults(values, level):
            faults.add(error)
    return cls.of_judged(values) if len(faults.errors) == count else None


def _read_node(
    json: Any, faults: Faults, level: FeatureLevel, others: Mapping[str, OperatorDesc[Any] | None]
) -> OperatorDesc[Any] | None:
    """Reads a node of a graph: the form of an operator, or the name of one that stands beside the graph."""
    if not isinstance(json, str):
        return _read_operator(json, faults, level)
    if json not in others:
        near = suggestion(json, others) if others else "there are none beside the graph"
        raise ConstraintError(f"no operator is named {json!r:.60}; {near}")
    if others[json] is None:
        raise SkippedError
    return others[json]


def _struct(json: Any) -> tuple[type[OperatorDesc[Any]], Mapping[str, Any]]:
    """Returns the class of a descriptor in JSON form, and the form of its fields.

    Raises:
      ConstraintError: no such operator, or no fields.
    """
    json = as_object("a descriptor", json)
    name = _either(json, "type")
    if not isinstance(name, str):
        raise ConstraintError('"type" is missing: it names the operator, such as DML_OPERATOR_GATHER')
    if name.lower() == "hlsl":
        raise ConstraintError("dispatchables of type 'hlsl' are not supported: shaders are programs for Direct3D 12")
    if name.lower() in IN_FILES:
        raise ConstraintError(f"a dispatchable of type {name!r} is not an operator: it belongs into a model file")
    suffix = name.removeprefix("DML_OPERATOR_")
    if suffix not in STRUCTS:
        raise ConstraintError(f"unknown operator {suffix!r:.60}; {suggestion(suffix, STRUCTS)}")
    return STRUCTS[suffix], as_object(f'{suffix}: "desc"', _fields(json))


def _fields(json: Mapping[str, Any]) -> Any:
    """Returns the form of the fields, which stands under "desc", or beside the "type"."""
    beside = {field: value for field, value in json.items() if field not in DISPATCHABLE}
    if "desc" not in json and "Desc" not in json:
        return beside
    for field in beside:
        raise ConstraintError(f"unknown field {field!r:.60}; {suggestion(str(field), DISPATCHABLE)}")
    return _either(json, "desc")


# Fields of a dispatchable; the last two choose how DirectML compiles and have no meaning here.
DISPATCHABLE = ("type", "Type", "desc", "Desc", "bindings", "dmlCompileType", "executionFlags")
# Dispatchables that lie in files of their own.
IN_FILES = ("dmlserializedgraph", "onnx")


def _either(json: Mapping[str, Any], field: str) -> Any:
    """Returns a field whose name may begin with a capital letter, which DxDispatch reads first."""
    return json.get(field.capitalize(), json.get(field))


def _read_fields(cls: type[OperatorDesc[Any]], form: Mapping[str, Any], faults: Faults) -> dict[str, Any]:
    """Returns the fields that can be read, and adds the faults of the others."""
    operator, names = cls.operator_type, cls.directml_names()
    counts = {field.counted_by for field in cls.fields().values() if field.counted_by}
    unknown = Faults()
    refuse_unknown(form, [*names.values(), *counts], unknown)
    for error in unknown.errors:
        faults.add(error, operator)
    values: dict[str, Any] = {}
    for name, field in cls.fields().items():
        shown = names[name]
        if form.get(shown) is None and field.is_optional:
            values[name] = None
        elif shown not in form:
            faults.add(ConstraintError(f"{shown} is missing", (operator,)))
        elif form[shown] is None:
            faults.add(ConstraintError(f"{shown} is null, which only an optional field may be", (operator,)))
        else:
            _read_field(cls, name, form, values, faults)
    return values


def _read_field(
    cls: type[OperatorDesc[Any]], name: str, form: Mapping[str, Any], values: dict[str, Any], faults: Faults
) -> None:
    field, shown = cls.fields()[name], cls.directml_names()[name]
    errors_before = len(faults.errors)
    with faults.at(cls.operator_type, shown):
        values[name] = field.from_json(form[shown])
    if len(faults.errors) > errors_before:
        return
    with faults.at():
        values[name] = field.kept(cls.operator_type, shown, values[name])
        if field.counted_by is not None and field.counted_by in form:
            count = as_int(cls.operator_type, field.counted_by, form[field.counted_by])
            if count != len(values[name]):
                fact = f"{field.counted_by} is {count} and {shown} has {len(values[name])} entries"
                raise ConstraintError(fact, (cls.operator_type,))
