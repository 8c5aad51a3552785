"""Reading the fields of a JSON object: unknown, missing and mistyped ones are named, with what would be accepted."""

from collections.abc import Collection, Mapping
from typing import Any

from ..descriptors.registry import suggestion
from ..errors import ConstraintError

__all__ = ["SkippedError", "as_object", "defined", "get", "integer", "only"]

UINT64_MAX = 2**64 - 1


def as_object(what: str, json: Any) -> Mapping[str, Any]:
    """The JSON object, or a fault that names what should have been one."""
    if isinstance(json, Mapping):
        return json
    raise ConstraintError(f"{what} must be a JSON object, but it is {json!r:.60}")


def only(json: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuses fields that are not known: a misspelt one would be ignored otherwise."""
    for field in json:
        if field not in known:
            raise ConstraintError(f"unknown field {field!r}; {suggestion(field, known)}")


def get(json: Mapping[str, Any], field: str, kind: type, default: Any = ...) -> Any:
    """The value of a field of one JSON type; without a default it is required."""
    if field not in json and default is not ...:
        return default
    if field not in json:
        raise ConstraintError(f"{field!r} is missing")
    value = json[field]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ConstraintError(f"{field!r} must be {_KINDS[kind]}, but it is {value!r:.60}")
    return value


_KINDS = {str: "a string", int: "an integer", list: "an array", bool: "true or false"}


def integer(json: Mapping[str, Any], field: str, default: Any = ..., least: int = 0) -> int:
    """The value of an unsigned 64-bit field."""
    value = get(json, field, int, default)
    if not least <= value <= UINT64_MAX:
        raise ConstraintError(f"{field!r} must be in [{least}, 2**64 - 1], but it is {value}")
    return value


class SkippedError(Exception):
    """What is read depends on something that is itself at fault, and cannot be judged."""


def defined(what: str, name: Any, known: Mapping[str, Any]) -> Any:
    """What a name stands for elsewhere in the model; None there means that it is at fault itself.

    Raises:
      ConstraintError: no such name.
      SkippedError: it is at fault itself.
    """
    if not isinstance(name, str) or name not in known:
        near = suggestion(name, known) if isinstance(name, str) and known else f"the model has no {what}s"
        raise ConstraintError(f"no {what} is named {name!r:.60}; {near}")
    if known[name] is None:
        raise SkippedError
    return known[name]
