"""Reads objects of JSON; errors show values as JSON writes them, and name the field that may be meant."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from ..errors import ConstraintError, Faults, suggestion


def as_object(what: str, value: Any) -> Mapping[str, Any]:
    """Returns a value that must be a JSON object; the error for anything else calls it `what`."""
    if isinstance(value, Mapping):
        return value
    raise ConstraintError(f"{what} must be a JSON object, but it is {shown(value)}")


def shown(value: Any) -> str:
    """Returns a value as JSON writes it, shortened, for messages: null, and not None."""
    text = json.dumps(value, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}..."


def refuse_unknown(form: Mapping[str, Any], known: Collection[str], faults: Faults) -> None:
    """Collects an error for each unknown field: a misspelt one would be ignored otherwise."""
    for field in form:
        if field not in known:
            faults.add(ConstraintError(f"unknown field {field!r:.60}; {suggestion(str(field), known)}"))
