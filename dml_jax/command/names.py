"""Names of operators for shells and help, read from the text of their files: importing these would import JAX."""

import re
from collections.abc import Iterator
from pathlib import Path

from click.shell_completion import CompletionItem

__all__ = ["function_names", "items", "struct_names"]

_STRUCT = re.compile(r'^class \w+Desc\b[^\n]*:\n    """DML_(\w+)_OPERATOR_DESC: ([^\n]*)', re.MULTILINE)
# A row of a table of structs, which has what it does in front.
_ROW = re.compile(r'^    "([A-Z][A-Z_0-9]+)": \w+\(\s*"([^"\n]+)"', re.MULTILINE)
_OTHER_NAMES = re.compile(r"^    other_names: [^=\n]*= \(([^)]*)\)", re.MULTILINE)
_FUNCTION = re.compile(r'^@operator\(.*?^def (\w+)\((.*?)\) -> ([^\n]*):\n    """([^\n]*)', re.MULTILINE | re.DOTALL)
_ARRAY = re.compile(r": (?:Data|DataList|Condition|(?:Scalar)?Indices)\b")


def struct_names() -> dict[str, str]:
    """Returns DirectML's operators, each with what it does."""
    found: dict[str, str] = {}
    for text in _texts():
        for match in _STRUCT.finditer(text):
            body = text[match.end() :].partition("\nclass ")[0]
            others = _OTHER_NAMES.search(body)
            names = [match[1], *re.findall(r'"(\w+)"', others[1] if others else "")]
            found |= dict.fromkeys(names, _plain(match[2]))
        found |= {match[1]: _plain(match[2]) for match in _ROW.finditer(text)}
    return found


def function_names() -> dict[str, str]:
    """Returns the functions that take arrays and return one array, each with what it does."""
    matches = (match for text in _texts() for match in _FUNCTION.finditer(text))
    return {
        name: _plain(does)
        for name, taken, made, does in (match.groups() for match in matches)
        if made == "jax.Array" and _ARRAY.search(taken)
    }


def items(names: dict[str, str], begun: str) -> list[CompletionItem]:
    """Returns the completions of what was begun, for a shell."""
    return [CompletionItem(name, help=does) for name, does in sorted(names.items()) if name.startswith(begun)]


def _texts() -> Iterator[str]:
    folder = Path(__file__).parents[1] / "operators"
    return (path.read_text(encoding="utf-8") for path in sorted(folder.glob("_[a-z]*.py")))


def _plain(line: str) -> str:
    return line.removesuffix('"""').replace("`", "")
