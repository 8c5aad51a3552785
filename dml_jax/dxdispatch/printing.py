"""How a buffer is printed: its values in one line, or one line per value with the bytes in hexadecimal."""

from collections.abc import Iterator

import numpy as np

__all__ = ["lines"]


def lines(name: str, values: np.ndarray, verbose: bool) -> Iterator[str]:
    """The lines of one print command."""
    if not verbose:
        # In chunks: a Python object per element of a large buffer would take many times its size.
        chunks = (values[i : i + _CHUNK] for i in range(0, values.size, _CHUNK))
        yield f"Resource {name!r}: {', '.join(', '.join(map(_number, chunk.tolist())) for chunk in chunks)}"
        return
    yield f"Resource {name!r}:"
    width = len(str(values.size))
    for i, value in enumerate(values):
        hexadecimal = value.tobytes()[::-1].hex().upper()
        yield f"[{i:{width}}] {_number(value.item())} (0x{hexadecimal})"


_CHUNK = 1 << 16


def _number(value: int | float) -> str:
    """Integers in full, floats with six significant digits, as C++ streams print them."""
    return f"{value:g}" if isinstance(value, float) else str(value)
