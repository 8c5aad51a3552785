"""The rules that as_strided and as_strided_scatter share."""

from ..core.rules import Operands, Rule, custom
from ..strides.layout import Layout


def _one_dimension(x: Operands) -> str | None:
    return None if len(x["buffer"].shape) == 1 else f"its shape is {tuple(x['buffer'].shape)}"


def not_negative(name: str) -> Rule:
    """The attribute, or each number of it, is at least 0."""

    def broken_by(x: Operands) -> str | None:
        values = x[name] if isinstance(x[name], tuple) else (x[name],)
        return f"it is {x[name]}" if min((0, *values)) < 0 else None

    return custom(f"not_negative({name})", f"{{{name}}} must not be negative", broken_by)


def lengths(sizes: str) -> Rule:
    """There is a stride per dimension of the view; messages call its sizes `sizes`."""

    def broken_by(x: Operands) -> str | None:
        count = len(sizes_of(x))
        return None if len(x["strides"]) == count else f"there are {len(x['strides'])} for {count} dimensions"

    return custom("stride_count", f"{{strides}} must have one entry per dimension of {{{sizes}}}", broken_by)


def _inside(x: Operands) -> str | None:
    sizes = sizes_of(x)
    if 0 in sizes or _one_dimension(x) or len(x["strides"]) != len(sizes) or min((0, *sizes, *x["strides"])) < 0:
        return None
    last, length = x["offset"] + Layout(sizes, x["strides"]).span - 1, x["buffer"].shape[0]
    return None if last < length else f"the last coordinate is element {last} and there are {length}"


def sizes_of(x: Operands) -> tuple[int, ...]:
    """Returns the sizes of the view."""
    return x["sizes"] if "sizes" in x else tuple(x["updates"].shape)


BUFFER = custom("one_dimension(buffer)", "{buffer} must be 1-D", _one_dimension)
INSIDE = custom("inside", "{offset} + sum(({sizes} - 1) * {strides}) must be below {buffer}.{sizes}[0]", _inside)
