"""The collectives of a compiled program, read from its HLO: how many there are of each, and their bytes."""

import re
from collections.abc import Mapping
from math import prod

# By name: how many, and the bytes of their results on each device.
Collectives = Mapping[str, tuple[int, int]]

_NAMES = "all-gather|all-reduce|ragged-all-to-all|all-to-all|collective-broadcast|collective-permute|reduce-scatter"
_COLLECTIVE = re.compile(rf"= (.+?) ({_NAMES})(-start)?\((.*?)\)")
_SHAPE = re.compile(r"\b([a-z]+)(\d*)\w*\[([\d,]*)\]")  # such as f8e4m3fn[2,3], pred[]


def collectives(hlo: str) -> dict[str, tuple[int, int]]:
    """Collectives in the HLO text of a compiled program: name -> count and bytes; in a loop each counts once.

    An asynchronous one counts where it starts. There its result is a tuple: operands, results, and on some platforms
    more; that of an all-reduce has the results alone.
    """
    found: dict[str, tuple[int, int]] = {}
    for shapes, name, start, operands in _COLLECTIVE.findall(hlo):
        sizes = [_bytes(*shape) for shape in _SHAPE.findall(shapes)]
        number = operands.count("%") or operands.count(",") + 1
        results = (sizes[number : 2 * number] or sizes) if start else sizes
        count, size = found.get(name, (0, 0))
        found[name] = count + 1, size + sum(results)
    return found


def worded(found: Collectives) -> str:
    """The collectives as text, each with its bytes."""
    return ", ".join(f"{name} of {size / 1e6:.3g} MB" for name, (_, size) in found.items())


def _bytes(kind: str, bits: str, sizes: str) -> int:
    number = prod(map(int, filter(None, sizes.split(","))))
    return 0 if kind == "token" else -(-number * int(bits or 8) // 8)
