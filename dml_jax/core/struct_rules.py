"""The vocabulary of rules that only descriptors need: padded ranks, unsigned attributes, output layouts."""

from collections.abc import Callable, Sequence

from ..strides.injective import collision
from .rules import Fact, Operands, Rule, same_dtype, same_rank

__all__ = [
    "below_rank",
    "dimension_count",
    "fits_rank",
    "ignored_sizes_are_1",
    "injective",
    "right_aligned",
    "shared_by_all",
]


def shared_by_all(*tensors: str) -> tuple[Rule, ...]:
    """The rules that every operator has: one DimensionCount, the input's data type, an output that can be written."""
    others = [name for name in tensors if name != "input"]
    typed = [name for name in others if name != "indices"]
    return (
        *(same_rank(name, "input") for name in others),
        *(same_dtype(name, "input") for name in typed),
        not_owned("output"),
        injective("output"),
    )


def not_owned(tensor: str) -> Rule:
    """Only an input can be handed over to DirectML."""

    def broken_by(x: Operands) -> Fact:
        return "it is OWNED_BY_DML" if x[tensor].flags else None

    return Rule(f"not_owned({tensor})", f"{{{tensor}}}.{{flags}} must be NONE: only inputs can be owned", broken_by)


def injective(tensor: str) -> Rule:
    """No two coordinates of the tensor address one element of its buffer."""

    def broken_by(x: Operands) -> Fact:
        strides = x[tensor].strides
        fact = None if strides is None else collision(x[tensor].sizes, strides)
        return f"sizes {x[tensor].sizes} with strides {strides} {fact}" if fact else None

    text = f"{{{tensor}}}.{{strides}} must give every coordinate an element of its own"
    return Rule(f"injective({tensor})", text, broken_by)


def below_rank(attribute: str, tensor: str) -> Rule:
    """An unsigned axis: in [0, DimensionCount)."""

    def broken_by(x: Operands) -> Fact:
        rank = len(x[tensor].sizes)
        return None if 0 <= x[attribute] < rank else f"it is {x[attribute]} and there are {rank} dimensions"

    text = f"{{{attribute}}} must be in [0, {{{tensor}}}.{{rank}})"
    return Rule(f"below_rank({attribute})", text, broken_by)


def dimension_count(attribute: str, tensor: str, least: int = 1) -> Rule:
    """How many trailing dimensions count: in [least, DimensionCount], closed."""

    def broken_by(x: Operands) -> Fact:
        rank = len(x[tensor].sizes)
        return None if least <= x[attribute] <= rank else f"it is {x[attribute]} and there are {rank} dimensions"

    text = f"{{{attribute}}} must be in [{least}, {{{tensor}}}.{{rank}}]"
    return Rule(f"dimension_count({attribute})", text, broken_by)


def ignored_sizes_are_1(tensor: str, count: str) -> Rule:
    """The leading dimensions that `count` leaves out have size 1: hardware disagrees about others."""

    def broken_by(x: Operands) -> Fact:
        rank = len(x[tensor].sizes)
        ignored = x[tensor].sizes[: rank - x[count]] if 0 <= x[count] <= rank else ()
        return f"they are {ignored}" if any(n != 1 for n in ignored) else None

    text = f"the leading {{{tensor}}}.{{sizes}} that {{{count}}} leaves out must be 1"
    return Rule(f"ignored_sizes_are_1({tensor})", text, broken_by)


def fits_rank(name: str, law: Callable[[Operands], tuple[int, ...] | None], text: str, *, crop: bool) -> Rule:
    """What `law` computes fits DimensionCount; with `crop`, leading sizes of 1 may be left out for that."""

    def broken_by(x: Operands) -> Fact:
        sizes, rank = law(x) or (), len(x["input"].sizes)
        extra = sizes[: max(0, len(sizes) - rank)]
        if not extra or (crop and all(n == 1 for n in extra)):
            return None
        return f"{sizes} has {len(sizes)} sizes and there are {rank} dimensions"

    return Rule(f"fits_rank({name})", text, broken_by)


def right_aligned(sizes: Sequence[int], rank: int) -> tuple[int, ...]:
    """The sizes at a rank: leading 1s put before, or leading sizes left out."""
    return (*(1,) * (rank - len(sizes)), *sizes[max(0, len(sizes) - rank) :])
