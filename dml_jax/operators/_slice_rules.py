"""The rules that slice and slice_grad share: a window has an offset, a size and a stride per dimension."""

from typing import Any

from ..core.rules import Law, Operands, Rule, custom

# Of slice, and fields of the structs.
OFFSETS, SIZES, STRIDES = WINDOW = "input_window_offsets", "input_window_sizes", "input_window_strides"


def window_rules(whole: str, offsets: str, sizes: str, strides: str) -> tuple[Rule, ...]:
    """Returns the rules that every window has elements, all of them inside of `whole`, and that no stride is 0.

    Args:
      whole: the operand that the window lies in, or the attribute that has its sizes.
      offsets: the attribute of the first coordinates.
      sizes: the attribute of the sizes of the window.
      strides: the attribute of the strides.
    """

    def outside(x: Operands) -> str | None:
        array = getattr(x[whole], "shape", x[whole])
        for d, (start, length, size) in enumerate(zip(x[offsets], x[sizes], array)):  # noqa: B905
            if (start, length) == (0, size) and size != 0:
                continue
            if not isinstance(size, int):
                return f"dimension {d} is symbolic, {size}, of which only the whole can be copied"
            if start < 0 or length < 1 or start + length > size:
                return f"that of dimension {d} is [{start}, {start + length}) of {size}"
        return None

    def stays(x: Operands) -> str | None:
        return f"they are {x[strides]}" if 0 in x[strides] else None

    return (
        custom("inside", f"every window must have elements, all of them in {{{whole}}}", outside),
        custom("moves", f"{{{strides}}} must not be 0", stays),
    )


def within_reach(small: str, sizes: str, strides: str) -> Rule:
    """An operand has at most as many elements along each dimension as the strides reach in the window."""

    def reached(x: Operands) -> tuple[Any, ...] | None:
        if 0 in x[strides] or len(x[strides]) != len(x[sizes]):
            return None
        return tuple(1 + (n - 1) // abs(stride) for n, stride in zip(x[sizes], x[strides], strict=True))

    def unreached(x: Operands) -> str | None:
        shape, most = tuple(x[small].shape), reached(x)
        if most is None or len(most) != len(shape):
            return None
        fits = all(n == m or (isinstance(n, int) and isinstance(m, int) and n <= m) for n, m in zip(shape, most))  # noqa: B905
        return None if fits else f"{shape} is more than {most}"

    text = f"{{{small}}}.{{sizes}} must be at most what {{{strides}}} reach"
    return custom("reached", text, unreached, Law(small, "sizes", reached))
