"""Reads fields of JSON objects; errors name the unknown, missing or mistyped field, and the accepted values."""

from collections.abc import Collection, Mapping
from typing import Any

from ..core.json_fields import as_object, refuse_unknown, shown
from ..errors import ConstraintError, Faults, SkippedError, suggestion

UINT64_MAX = 2**64 - 1


def only(fields: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuses unknown fields."""
    faults = Faults()
    refuse_unknown(fields, known, faults)
    faults.finish()


def get(fields: Mapping[str, Any], field: str, kind: type, default: Any = ...) -> Any:
    """Returns the value of a field of one JSON type; without a default the field is required."""
    if field not in fields and default is not ...:
        return default
    if field not in fields:
        raise ConstraintError(f"{field!r} is missing")
    value = fields[field]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ConstraintError(f"{field!r} must be {_KINDS[kind]}, but it is {shown(value)}")
    return value


_KINDS = {str: "a string", int: "an integer", list: "an array", bool: "true or false"}


def integer(fields: Mapping[str, Any], field: str, default: Any = ..., least: int = 0) -> int:
    """Returns an integer field in [least, 2**64 - 1]."""
    value = get(fields, field, int, default)
    if not least <= value <= UINT64_MAX:
        raise ConstraintError(f"{field!r} must be in [{least}, 2**64 - 1], but it is {value}")
    return value


def binding_fields(json: Any) -> Mapping[str, Any]:
    """Returns the fields of a binding, which may be in a list of one, or the name of a buffer alone."""
    if isinstance(json, list):
        if len(json) != 1:
            raise ConstraintError(f"one buffer is bound to one tensor, but there are {len(json)}")
        json = json[0]
    return {"name": json} if isinstance(json, str) else as_object("a binding", json)


def look_up(what: str, name: Any, known: Mapping[str, Any]) -> Any:
    """Returns the part of the model that has a name; None stands for a part that is at fault itself.

    Raises:
      ConstraintError: no such name.
      SkippedError: it is at fault itself.
    """
    if not isinstance(name, str) or name not in known:
        near = suggestion(str(name), known) if known else f"the model has no {what}s"
        raise ConstraintError(f"no {what} is named {name!r:.60}; {near}")
    if known[name] is None:
        raise SkippedError
    return known[name]
