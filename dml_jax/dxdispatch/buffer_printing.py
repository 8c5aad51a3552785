"""Prints buffers, in one line or with a line per value and its bytes in hexadecimal, and commands."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


@contextmanager
def told(i: int, form: Any, say: Callable[[str], None]) -> Iterator[None]:
    """Prints when a command begins and when it is done."""
    say(f"[StartCmd][{i:04}]: {json.dumps(form)}")
    yield
    say(f"[EndCmd][{i:04}]")


def pieces(name: str, values: np.ndarray, verbose: bool) -> Iterator[str]:
    """Yields the text of a print command in pieces, because that of a large buffer is many times its size."""
    yield f"Resource {name!r}:" + ("\n" if verbose else "")
    width = len(str(values.size))
    for first in range(0, values.size, _CHUNK):
        chunk = values[first : first + _CHUNK]
        if verbose:
            yield "".join(_line(first + i, width, value) for i, value in enumerate(chunk))
        else:
            yield f"{',' if first else ''} {', '.join(map(_number, chunk.tolist()))}"
    yield "" if verbose else "\n"


_CHUNK = 1 << 16


def _line(i: int, width: int, value: np.generic) -> str:
    hexadecimal = value.tobytes()[::-1].hex().upper()
    return f"[{i:{width}}] {_number(value.item())} (0x{hexadecimal})\n"


def _number(value: int | float) -> str:
    """Integers in full, floats with six significant digits, as C++ streams print them."""
    return f"{value:g}" if isinstance(value, float) else str(value)
