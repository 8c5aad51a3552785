"""The rule of indices along axes."""

from collections.abc import Callable, Sequence

from ..rules import Operands, Rule, custom


def indexed_axes_not_empty(axes: Callable[[Operands], Sequence[int]]) -> Rule:
    """The indexed axes have elements, unless `indices` is empty; `axes` takes the operands and returns these axes."""

    def broken_by(x: Operands) -> str | None:
        if 0 in x["indices"].shape:
            return None
        empty = [axis for axis in axes(x) if x["input"].shape[axis] == 0]
        return f"dimension {empty[0]} has size 0" if empty else None

    text = "{input} must have elements along the indexed dimensions when {indices} is not empty"
    return custom("indexed_axes_not_empty", text, broken_by)
