"""Decides by a bounded search whether sizes and strides give every coordinate an element of its own."""

from collections.abc import Sequence
from math import gcd, prod


def collision(sizes: Sequence[int], strides: Sequence[int]) -> str | None:
    """Returns the fact that two coordinates address one element, or could; None if none do.

    Two coordinates address one element if their difference, which is not 0, has offset 0.
    """
    dims = sorted(((s, n) for n, s in zip(sizes, strides, strict=True) if n > 1), reverse=True)
    spans = [sum((n - 1) * s for s, n in dims[d:]) for d in range(len(dims) + 1)]
    if any(s == 0 for s, _ in dims) or prod(n for _, n in dims) > 1 + spans[0]:
        return _SHARED_ELEMENT
    divisors = [gcd(*(s for s, _ in dims[d:])) for d in range(len(dims))]
    budget = iter(range(_SEARCH_LIMIT))

    def reaches_0(d: int, offset: int, moved: bool) -> bool:
        if next(budget, None) is None:
            raise _UndecidedError
        if d == len(dims):
            return moved and offset == 0
        if offset % divisors[d]:
            return False
        (stride, size), rest = dims[d], spans[d + 1]
        # Only differences that the smaller strides can still bring back to 0; the first one may be taken positive.
        low = max(1 - size if moved else 0, -((rest + offset) // stride))
        high = min(size - 1, (rest - offset) // stride)
        return any(reaches_0(d + 1, offset + k * stride, moved or k != 0) for k in range(low, high + 1))

    try:
        return _SHARED_ELEMENT if reaches_0(0, 0, False) else None
    except _UndecidedError:
        return f"may address one element twice: {_SEARCH_LIMIT} steps could not decide"


class _UndecidedError(Exception):
    """The search took too many steps; layouts made by people take a dozen."""


_SEARCH_LIMIT = 100_000
_SHARED_ELEMENT = "address one element twice"
