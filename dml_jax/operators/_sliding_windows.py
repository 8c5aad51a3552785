"""Sliding windows of unfold, fold and pooling: attributes, and the rules of functions and of structs."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Annotated, Any

from ..core.arguments.kinds import per_dimension
from ..core.rules import Operands, Rule, custom, each_at_least, numbers, sizes_follow
from ..core.structs.feature_level_tables import ALL_TYPES, Support, levels
from ..core.structs.fields import Ints
from ..core.structs.operator_desc import OperatorDesc
from ..operations.sliding_windows import Windows

# The least number of each attribute, which is its default.
_LEAST = {"window_sizes": 1, "strides": 1, "dilations": 1, "start_padding": 0, "end_padding": 0}
_SIZES, *_OTHERS = _LEAST

PerWindow = Annotated[int | Sequence[int], per_dimension(len, "window_sizes")]
# Fields of structs.
Strides = Annotated[Ints, "distance from a window to the next one, per spatial dimension; at least 1."]
WindowSize = Annotated[Ints, "elements of a window along each spatial dimension."]
StartPadding = Annotated[Ints, "how far the first window starts before each spatial dimension."]
EndPadding = Annotated[Ints, "how far windows may reach past its end."]
Dilations = Annotated[Ints, "elements from one of a window to its next one; at least 1."]
# The spatial sizes of the image; None while a rule is broken.
SizesOf = Callable[[Operands], Sequence[Any] | None]


def sliding(shape: Sequence[Any], window_sizes: Any, *others: Any) -> list[Windows]:
    """Returns the windows along each spatial dimension: the last ones of `shape`, as many as there are window sizes.

    Args:
      shape: of the image.
      window_sizes: one per spatial dimension.
      others: strides, dilations, start_padding and end_padding; None for the least numbers.
    """
    count = len(window_sizes)
    least = ([n] * count for n in _LEAST.values())
    attributes = [n if given is None else given for n, given in zip(least, (window_sizes, *others), strict=True)]
    return [Windows(*w) for w in zip(shape[len(shape) - count :], *attributes, strict=True)]


def attributes_of(desc: OperatorDesc[Any]) -> dict[str, Any]:
    """Returns the attributes of a struct's windows beside their sizes; None for one that it does not have."""
    operands = desc.operands()
    return {name: operands.get(name) for name in _OTHERS}


def columns_of(windows: Sequence[Windows]) -> tuple[int, int]:
    """Returns how many rows of columns each channel becomes, and how many columns there are."""
    return prod(w.window for w in windows), prod(w.count for w in windows)


def _one_per_window(name: str) -> Rule:
    def broken_by(x: Operands) -> str | None:
        actual, wanted = len(x[_SIZES] if x[name] is None else x[name]), len(x[_SIZES])
        return None if actual == wanted else f"there are {actual} for {wanted}"

    return custom(f"one_per_window({name})", f"{{{name}}} must have one entry per window size", broken_by)


def _at_least(name: str) -> Rule:
    rule = each_at_least(name, _LEAST[name])
    return replace(rule, broken_by=lambda x: rule.broken_by({name: x[name] or ()}))


_COUNTS = tuple(map(_one_per_window, _OTHERS))
_NUMBERS = tuple(map(_at_least, _LEAST))


def windows_if_valid(x: Operands, sizes_of: SizesOf) -> list[Windows]:
    """Returns the windows; none if another rule is broken."""
    sizes = sizes_of(x)
    broken = sizes is None or len(sizes) != len(x[_SIZES]) or any(rule.broken_by(x) for rule in (*_COUNTS, *_NUMBERS))
    return [] if broken else sliding(sizes or (), *(x[name] for name in _LEAST))


def _fit(sizes_of: SizesOf) -> Rule:
    def broken_by(x: Operands) -> str | None:
        for d, w in enumerate(windows_if_valid(x, sizes_of)):
            if not isinstance(w.size, int):
                return f"spatial dimension {d} is symbolic, {w.size}"
            if w.span > w.padded:
                return f"that of spatial dimension {d} spans {w.span} of {w.padded}"
        return None

    return custom("fits", "every window must fit into its padded dimension, of known size", broken_by)


def function_rules(
    sizes_of: SizesOf, *own: Rule, output_sizes: Callable[[Operands, list[Windows]], Sequence[Any]]
) -> Any:
    """Returns the rules of a function.

    Args:
      sizes_of: takes the operands; returns the spatial sizes of the image.
      own: rules of this function alone; they are checked before the rules of the windows.
      output_sizes: takes the operands and the windows; returns the sizes of the output.
    """

    def too_large(x: Operands) -> str | None:
        windows = windows_if_valid(x, sizes_of)
        if not windows:
            return None
        sizes = [n for n in output_sizes(x, windows) if isinstance(n, int)]
        most = max(prod(sizes) * x["input"].dtype.itemsize, *sizes, *(w.padded for w in windows))
        return f"one would be {most}" if most >= 2**63 else None

    def too_many(x: Operands) -> str | None:
        most = max((w.window * w.count for w in windows_if_valid(x, sizes_of)), default=0)
        return f"they have {most}" if most >= 2**31 else None

    return (
        numbers("input", with_zero=True),
        *own,
        *_COUNTS,
        *_NUMBERS,
        _fit(sizes_of),
        custom("representable", "the bytes of the output, and each padded size, must be fewer than 2**63", too_large),
        custom("indexable", "the windows along a dimension must have fewer than 2**31 elements together", too_many),
    )


def _columns(sizes: Sequence[int], windows: Sequence[Windows]) -> tuple[int, ...]:
    rows, count = columns_of(windows)
    return (sizes[0], sizes[1] * rows, count)


def struct_rules(
    image: str,
    windowed: str,
    law: Callable[[Sequence[int], Sequence[Windows]], tuple[int, ...]] = _columns,
    formula: str = f"(N, C * the product of {{{_SIZES}}}, the number of blocks)",
) -> tuple[Rule, ...]:
    """Returns the rules of a struct.

    Args:
      image: the field of the tensor that windows slide over.
      windowed: the field of the tensor with an element, or a column, per window.
      law: takes the sizes of the image and the windows; returns the sizes of that tensor.
      formula: the same in words.
    """

    def spatial(x: Operands) -> Sequence[int]:
        return x[image].sizes[2:]

    def uncounted(x: Operands) -> str | None:
        count, rank = len(x[_SIZES]), len(x[image].sizes)
        return None if 1 <= count == rank - 2 else f"there are {count} and the image has {rank} dimensions"

    def sizes(x: Operands) -> tuple[int, ...] | None:
        windows = windows_if_valid(x, spatial)
        return None if not windows or fits.broken_by(x) else law(x[image].sizes, windows)

    fits = _fit(spatial)
    text = f"{{{_SIZES}}} must have one entry per spatial dimension, {{{image}}}.{{rank}} - 2"
    return (
        custom(f"one_per_spatial_dimension({_SIZES})", text, uncounted),
        *_COUNTS,
        *(_at_least(name) for name, least in _LEAST.items() if least > 0),  # no field is negative
        fits,
        sizes_follow(windowed, sizes, formula),
    )


def support_of(image: str) -> tuple[Support, ...]:
    """Returns the table of feature levels of unfold and fold, where columns always have 3 dimensions."""
    return levels(("6_4", range(3, 9), ALL_TYPES), of=image)
