"""How a buffer is printed: its values in one line, or one line per value with the bytes in hexadecimal."""

from collections.abc import Iterator

import numpy as np

__all__ = ["lines"]


def lines(name: str, values: np.ndarray, verbose: bool) -> Iterator[str]:
    """The lines of one print command."""
    if not verbose:
        yield f"Resource {name!r}: {', '.join(map(_number, values))}"
        return
    yield f"Resource {name!r}:"
    width = len(str(values.size))
    for i, value in enumerate(values):
        hexadecimal = value.tobytes()[::-1].hex().upper()
        yield f"[{i:{width}}] {_number(value)} (0x{hexadecimal})"


def _number(value: np.generic) -> str:
    """Integers in full, floats with six significant digits, as C++ streams print them."""
    return f"{float(value):g}" if value.dtype.kind == "f" else str(int(value))
