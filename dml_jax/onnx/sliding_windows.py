"""Windows of ONNX's convolution and pooling: kernel sizes, strides, dilations, `pads` and `auto_pad`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..errors import ConstraintError
from ..operations.sliding_windows import Windows


def windows_of(
    shape: Sequence[int], kernel_shape: Any, *, auto_pad: str, dilations: Any, pads: Any, strides: Any
) -> list[Windows]:
    """Returns the windows along each spatial dimension.

    Raises:
      ConstraintError: no number per dimension, one that is too small, or a window that is longer than its dimension.
    """
    if len(shape) < 3:
        raise ConstraintError(f"x must have the dimensions N, C and one more at least, but its shape is {shape}")
    sizes, rank = shape[2:], len(shape) - 2
    if kernel_shape is None:
        raise ConstraintError(f"kernel_shape must be {rank} numbers, but it is missing")
    lengths, strides, dilations = (
        per_dimension(name, value, rank)
        for name, value in (("kernel_shape", kernel_shape), ("strides", strides), ("dilations", dilations))
    )
    reach = [(k - 1) * d + 1 for k, d in zip(lengths, dilations, strict=True)]
    edges = padding(auto_pad, pads, sizes, reach, strides)
    if any(edge < 0 for pair in edges for edge in pair):
        raise ConstraintError(f"pads must be at least 0, but they are {list(pads)}")
    columns = zip(sizes, lengths, strides, dilations, *zip(*edges, strict=True), strict=True)
    return [Windows(*column) for column in columns]


def rounded_up(windows: Windows) -> Windows:
    """Applies `ceil_mode`: the last window may reach beyond the padding, if it begins before it."""
    whole = -((windows.span - windows.padded) // windows.stride)
    last = min(whole, (windows.start + windows.size - 1) // windows.stride)
    end = last * windows.stride + windows.span - windows.start - windows.size
    return replace(windows, end=max(end, 0))


def per_dimension(name: str, value: Any, rank: int, least: int = 1) -> list[int]:
    """Returns a number of at least `least` per dimension; `least` if none is given."""
    numbers = [least] * rank if value is None else list(value)
    if len(numbers) != rank or min(numbers) < least:
        raise ConstraintError(f"{name} must be {rank} numbers of at least {least}, but it is {numbers}")
    return numbers


def both_ends(pads: Any, rank: int) -> list[tuple[int, int]]:
    """Returns the padding before and after each dimension; 0 if none is given."""
    pads = [0] * 2 * rank if pads is None else list(pads)
    if len(pads) != 2 * rank:
        raise ConstraintError(f"pads must be {2 * rank} numbers, two per dimension, but they are {pads}")
    return list(zip(pads[:rank], pads[rank:], strict=True))


def padding(
    mode: str, pads: Any, sizes: Sequence[int], reach: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]]:
    """Returns the padding before and after each dimension; a window reaches `reach` elements beyond its first."""
    if mode == "NOTSET":
        return both_ends(pads, len(reach))
    if mode not in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        raise ConstraintError(f"auto_pad must be NOTSET, SAME_UPPER, SAME_LOWER or VALID, but it is {mode!r}")
    totals = [max(0, (-(-n // s) - 1) * s + r - n) for n, r, s in zip(sizes, reach, strides, strict=True)]
    low = {"SAME_UPPER": lambda t: t // 2, "SAME_LOWER": lambda t: -(-t // 2), "VALID": lambda t: 0}[mode]
    return [(0, 0) if mode == "VALID" else (low(t), t - low(t)) for t in totals]
