"""Helpers shared by the oracles, which are loops over elements. Imports no JAX.

The loops themselves are in the operators' test files, tests/operators/test_NAME.py, as `oracle`.
"""

import itertools
from math import prod


def coordinates(shape):
    """Every coordinate, in row-major order."""
    return itertools.product(*(range(n) for n in shape))


def wrap(index, size):
    """A negative index counts from the end, once."""
    index = int(index)
    return index + size if index < 0 else index


def clamp(index, size):
    """The nearest one in range."""
    return min(max(index, 0), size - 1)


def addressed(indices, sizes, mode):
    """The coordinate that a tuple of indices means in dimensions of these sizes.

    None where one lies outside and `mode` is "fill", for a read, or "drop", for a write.
    """
    coordinate = [wrap(i, n) for i, n in zip(indices, sizes, strict=True)]
    inside = all(0 <= i < n for i, n in zip(coordinate, sizes, strict=True))
    if mode in ("fill", "drop") and not inside:
        return None
    return tuple(clamp(i, n) for i, n in zip(coordinate, sizes, strict=True))


def mean(*numbers):
    """Of integers towards minus infinity."""
    total = sum(numbers)
    return total // len(numbers) if isinstance(total, int) else total / len(numbers)


COMBINED = {
    "add": lambda *numbers: sum(numbers[1:], numbers[0]),
    "mul": lambda *numbers: prod(numbers[1:], start=numbers[0]),
    "min": min,
    "max": max,
    "mean": mean,
}


def reduced(input, candidates, reduction, include_self=True):
    """What the updates that address each element make of the input; the candidates for no reduction."""
    if reduction is None:
        return candidates
    output = input.copy()
    for at, updates in candidates.items():
        if updates:
            numbers = [*([input[at]] if include_self else []), *updates]
            output[at] = COMBINED[reduction](*(n.item() for n in numbers)) if len(numbers) > 1 else numbers[0]
    return output


def channel(order, y, x, c, block, channels):
    """The channel that holds pixel (y, x) of the blocks of channel `c`."""
    return (y * block + x) * channels + c if order == "DCR" else c * block * block + y * block + x


def channels_first(data_format, array):
    """A view of an array of pictures as [..., C, H, W]."""
    return array.transpose(*range(array.ndim - 3), -1, -3, -2) if data_format == "NHWC" else array


def channels_as(data_format, array):
    """A view of an array [..., C, H, W] in a data format."""
    return array.transpose(*range(array.ndim - 3), -2, -1, -3) if data_format == "NHWC" else array
