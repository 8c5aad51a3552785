"""Finds the line of a fault in a model file."""

import json
import re
from collections.abc import Mapping, Sequence

from .json_text import blank_comments

Path = tuple[str | int, ...]

_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],]')
# The name of a field in a message.
_UNKNOWN = re.compile(r"unknown field '([^']+)'")


def lines_of(text: str) -> dict[Path, int]:
    """Returns the line, from 1, of every field, object and array by its path: ("commands", 3).

    Args:
      text: of a model file that can be parsed.
    """
    lines: dict[Path, int] = {}
    path: list[str | int] = []  # the field or the place in each container that is open
    keys: list[bool | None] = []  # whether the next string of each is a key; None of an array
    line, last = 1, 0
    for token in _TOKENS.finditer(blank_comments(text)):
        line, last = line + text.count("\n", last, token.start()), token.start()
        mark = token.group()
        if mark in ("{", "["):
            if path:
                lines.setdefault(tuple(path), line)
            path.append("" if mark == "{" else 0)
            keys.append(True if mark == "{" else None)
        elif mark in ("}", "]"):
            path.pop()
            keys.pop()
            if not path:
                break  # text may follow
        elif mark == ",":
            path[-1] = path[-1] + 1 if isinstance(path[-1], int) else ""
            keys[-1] = None if keys[-1] is None else True
        elif keys[-1]:
            path[-1], keys[-1] = json.loads(mark), False
            lines[tuple(path)] = line
    return lines


def line_of(lines: Mapping[Path, int], start: Path, where: Sequence[str], what: str) -> int | None:
    """Returns the line of the innermost place that a fault names.

    Args:
      lines: of the file.
      start: the path of the outermost thing.
      where: the places inside of it, such as "GATHER", "node 'blur'" and "InputTensors[1]".
      what: the message.
    """
    path = start
    for part in (*where, *_UNKNOWN.findall(what)):
        quoted = re.fullmatch(r"\w+ '(.*)'", part)
        name = quoted[1] if quoted else part.partition("[")[0]
        inside = (
            place for place in lines if place[: len(path)] == path and place[-1] == name and len(place) > len(path)
        )
        path = min(inside, key=len, default=path)
    return lines.get(path)
