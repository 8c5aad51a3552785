"""A Sphinx extension that turns the sections of this project's docstrings into what autodoc prints.

A section is a line `Name:` with an indented body, or `Name: text` that goes on indented.
"""

import re
from collections.abc import Iterator
from textwrap import dedent
from typing import Any

import dml_jax

SECTION = re.compile(r"(Args|Returns|Raises|Example|Source):(?: +(.*))?$")
ENTRY = re.compile(r"(\w+): (.*)")


def convert(lines: list[str]) -> Iterator[str]:
    """The docstring's lines as reStructuredText."""
    while lines:
        section = SECTION.match(lines[0])
        if section is None:
            yield _linked(lines.pop(0))
            continue
        name, first = section.groups()
        del lines[0]
        body = [first] if first else []
        while lines and (not lines[0] or lines[0].startswith(" ")):
            body.append(lines.pop(0))
        yield from ("", *_section(name, dedent("\n".join(body)).strip().splitlines()), "")


def arguments(docstring: str) -> dict[str, str]:
    """What the section Args of a docstring says of each argument."""
    found: dict[str, str] = {}
    body = docstring.partition("\nArgs:\n")[2].partition("\n\n")[0]
    for line in dedent(body).splitlines():
        if entry := ENTRY.match(line):
            found[entry[1]] = entry[2]
        else:
            found[[*found][-1]] += f" {line.strip()}"
    return found


def _section(name: str, body: list[str]) -> Iterator[str]:
    if name in ("Args", "Raises"):
        field = "param" if name == "Args" else "raises"
        for line in body:
            entry = ENTRY.match(line)
            yield f":{field} {entry[1]}: {_linked(entry[2])}" if entry else f"  {_linked(line)}"
    elif name == "Returns":
        yield f":returns: {_linked(' '.join(map(str.strip, body)))}"
    elif name == "Example":
        yield from (".. rubric:: Example", "", *body)
    else:
        yield f"**Source:** {_linked(' '.join(map(str.strip, body)))}"


def _linked(line: str) -> str:
    """Public names become references, other text in backticks literals."""
    return re.sub(r"`([^`]+)`", _reference, line)


def _reference(quoted: re.Match[str]) -> str:
    name = quoted[1]
    return f":py:obj:`~dml_jax.{name}`" if name in dml_jax.__all__ else f"``{name}``"


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = list(convert(lines[:]))


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
