"""Parses the JSON of model files: comments, trailing commas and text after it are allowed, repeated names are not."""

import json
import os
import re
from pathlib import Path
from typing import Any

from ..errors import ConstraintError
from ..regular_files import open_regular

# Strings come first, so that a comment or a trailing comma inside one is left alone.
# A string that is never closed ends with its line, so that the search does not start again inside it.
_STRING = r'"(?:[^"\\\n]|\\.)*"?'
_COMMENTS = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_TRAILING_COMMAS = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)


def read_text(path: Path) -> str:
    """Reads the text of a file.

    Raises:
      ConstraintError: it cannot be read, or is not UTF-8 text.
    """
    try:
        with os.fdopen(open_regular(path), encoding="utf-8-sig") as file:
            return file.read()
    except OSError as error:
        raise ConstraintError(f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConstraintError(
            "not JSON: it is not UTF-8 text; `dml-jax run` takes .json, .onnx and .bin files"
        ) from None


def parse(text: str) -> Any:
    """Parses the text of a model file.

    Raises:
      ConstraintError: not JSON, with line and column; or a name that appears twice in one object.
    """
    text = blank_comments(text)
    try:
        return _DECODER.raw_decode(text, len(text) - len(text.lstrip(" \t\r\n")))[0]
    except ConstraintError:
        raise
    except json.JSONDecodeError as error:
        raise ConstraintError(f"not JSON: {error.msg}, in line {error.lineno}, column {error.colno}") from None
    except ValueError as error:  # an integer of thousands of digits
        raise ConstraintError(f"not JSON: {error}") from None
    except RecursionError:
        raise ConstraintError("not a model file: its objects are nested too deeply") from None


def blank_comments(text: str) -> str:
    """The text as JSON proper, every character at its position: comments and trailing commas are blanks."""
    return _TRAILING_COMMAS.sub(_blank_comma, _COMMENTS.sub(_blank, text))


def _blank(match: re.Match[str]) -> str:
    """Blanks a comment, so that positions stay; leaves a string."""
    text = match.group()
    return text if text.startswith('"') else re.sub(r"[^\n]", " ", text)


def _blank_comma(match: re.Match[str]) -> str:
    """Blanks a comma that follows a value; leaves a string, and a comma that follows nothing."""
    before = match.start() - 1
    while before >= 0 and match.string[before].isspace():
        before -= 1
    return match.group() if match.group() != "," or match.string[before] in "[{,:" else " "


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise ConstraintError(f"{name!r} appears twice in one object, where only one is allowed")
        fields[name] = value
    return fields


def _constant(name: str) -> Any:
    raise ConstraintError(
        f'not JSON: JSON has no number {name}; write the string "{name.lower().replace("inity", "")}"'
    )


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)
