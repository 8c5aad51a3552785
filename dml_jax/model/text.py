"""JSON as model files write it: `//` and `/* */` comments and trailing commas are allowed, repeated names are not."""

import json
import re
from typing import Any

from ..errors import ConstraintError

__all__ = ["parse"]

# Strings come first, so that what looks like a comment or a trailing comma inside one is left alone.
_STRING = r'"(?:[^"\\]|\\.)*"'
_COMMENTS = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_TRAILING_COMMAS = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)


def parse(text: str) -> Any:
    """Parses the text of a model file.

    Raises:
      ConstraintError: not JSON, with line and column; or a name that stands twice in one object.
    """
    text = _TRAILING_COMMAS.sub(_blank, _COMMENTS.sub(_blank, text))
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except ConstraintError:
        raise
    except json.JSONDecodeError as error:
        raise ConstraintError(f"not JSON: {error.msg}, in line {error.lineno}, column {error.colno}") from None
    except ValueError as error:  # an integer of thousands of digits
        raise ConstraintError(f"not JSON: {error}") from None
    except RecursionError:
        raise ConstraintError("not a model file: its objects are nested too deeply") from None


def _blank(match: re.Match[str]) -> str:
    """Blanks a comment or comma, so that positions stay; leaves a string."""
    found = match.group()
    return found if found.startswith('"') else re.sub(r"[^\n]", " ", found)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    repeated = [name for name in names if names.count(name) > 1] if len(set(names)) < len(names) else []
    if repeated:
        raise ConstraintError(f"{repeated[0]!r} stands twice in one object; only one of them can be meant")
    return dict(pairs)


def _constant(name: str) -> Any:
    raise ConstraintError(
        f'not JSON: {name} is no number there; write the string "{name.lower().replace("inity", "")}"'
    )
