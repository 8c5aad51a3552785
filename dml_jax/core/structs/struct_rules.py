"""The rules that only descriptors need: about DimensionCount, unsigned attributes and the layout of outputs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...errors import ConstraintError, DataTypeError, describe
from ...strides.injective import collision
from ..rules import Fact, Law, Operands, Rule
from ..tensors.tensor_desc import TensorDesc
from .scalar import scalar_of


def shared_by_all(
    fields: Mapping[str, bool], ranked: Sequence[str], typed: Sequence[str], outputs: Sequence[str]
) -> tuple[Rule, ...]:
    """The rules that every operator has: one DimensionCount, one data type, outputs that can be written.

    Args:
      fields: the names of all fields of tensors, each with whether it holds an array of tensors.
      ranked: the fields that must have the same DimensionCount.
      typed: the fields that must have the same data type.
      outputs: the fields that the operator writes.
    """
    arrays = [name for name, is_array in fields.items() if is_array]
    return (
        *map(not_empty, arrays),
        *_alike(ranked, arrays, "rank", lambda tensor: len(tensor.sizes), ConstraintError),
        *_alike(typed, arrays, "dtype", lambda tensor: tensor.data_type.name, DataTypeError),
        *map(not_owned, outputs),
        *map(injective, outputs),
    )


def not_empty(array: str) -> Rule:
    """An array of tensors holds at least one."""
    return Rule(f"not_empty({array})", f"{{{array}}} must hold a tensor", lambda x: None if x[array] else "it is empty")


def _alike(
    names: Sequence[str],
    arrays: Sequence[str],
    what: str,
    of: Callable[[TensorDesc], Any],
    error: type[ConstraintError],
) -> Iterator[Rule]:
    """Yields a rule per field: its tensors have the same property `of` as the first tensor of all."""

    def rule(name: str, first: str) -> Rule:
        def broken_by(x: Operands) -> Fact:
            wanted, *_ = (*map(of, tensors_in(x[first])), None)
            other = next((actual for actual in map(of, tensors_in(x[name])) if actual != wanted), None)
            return None if other is None or wanted is None else f"they are {other} and {wanted}"

        text = f"{{{name}}}.{{{what}}} must equal {{{first}}}.{{{what}}}"
        text = f"all {{{name}}} must have one {{{what}}}" if name == first else text
        return Rule(f"same_{what}({name}, {first})", text, broken_by, error)

    if names and names[0] in arrays:
        yield rule(names[0], names[0])
    yield from (rule(name, names[0]) for name in names[1:])


def tensors_in(value: Any) -> tuple[TensorDesc, ...]:
    """Returns the tensors of a field, which holds one, several or None, as a tuple."""
    return value if isinstance(value, tuple) else () if value is None else (value,)


def each(name: str, broken_by: Callable[[TensorDesc], Fact]) -> Callable[[Operands], Fact]:
    """Applies a check of one tensor to all tensors of a field, and returns the first fact that it finds."""

    def of_field(x: Operands) -> Fact:
        facts = list(map(broken_by, tensors_in(x[name])))
        at = next((i for i, fact in enumerate(facts) if fact), None)
        return None if at is None else f"of number {at} {facts[at]}" if isinstance(x[name], tuple) else facts[at]

    return of_field


def not_owned(tensor: str) -> Rule:
    """The tensor is not OWNED_BY_DML: only an input can be handed over to DirectML."""
    broken_by = each(tensor, lambda desc: "it is OWNED_BY_DML" if desc.flags else None)
    return Rule(f"not_owned({tensor})", f"{{{tensor}}}.{{flags}} must be NONE: only inputs can be owned", broken_by)


def injective(tensor: str) -> Rule:
    """No two coordinates of the tensor address the same element of its buffer."""

    def shared(desc: TensorDesc) -> Fact:
        fact = None if desc.strides is None else collision(desc.sizes, desc.strides)
        return f"sizes {desc.sizes} with strides {desc.strides} {fact}" if fact else None

    text = f"{{{tensor}}}.{{strides}} must give every coordinate an element of its own"
    return Rule(f"injective({tensor})", text, each(tensor, shared))


def below_rank(attribute: str, tensor: str) -> Rule:
    """An axis, which DirectML counts from 0, is below DimensionCount."""

    def broken_by(x: Operands) -> Fact:
        rank = len(x[tensor].sizes)
        return None if 0 <= x[attribute] < rank else f"it is {x[attribute]} and there are {rank} dimensions"

    text = f"{{{attribute}}} must be in [0, {{{tensor}}}.{{rank}})"
    return Rule(f"below_rank({attribute})", text, broken_by)


def different_dimensions(axes: tuple[int, ...], rank: int) -> Fact:
    """The fact if axes are not different dimensions; -1 may stand for the last dimension."""
    fit = axes and len({*axes}) == len(axes) and -min(rank, 1) <= min(axes) <= max(axes) < rank
    return None if fit else f"they are {describe(axes)} and there are {rank} dimensions"


def different_axes(tensor: str) -> Rule:
    """The field Axes names dimensions of the tensor."""

    def broken_by(x: Operands) -> Fact:
        return different_dimensions(x["axes"], len(x[tensor].sizes))

    text = f"{{axes}} must be different dimensions of {{{tensor}}}, one at least"
    return Rule("axes_within(axes)", text, broken_by)


def dimension_count(attribute: str, tensor: str, least: int = 1) -> Rule:
    """The attribute says how many of the last dimensions count: from `least` to DimensionCount, both included."""

    def broken_by(x: Operands) -> Fact:
        rank = len(x[tensor].sizes)
        return None if least <= x[attribute] <= rank else f"it is {x[attribute]} and there are {rank} dimensions"

    text = f"{{{attribute}}} must be in [{least}, {{{tensor}}}.{{rank}}]"
    return Rule(f"dimension_count({attribute})", text, broken_by)


def broadcast_to(tensor: str, to: str) -> Rule:
    """Each size of the tensor is that of another tensor, or 1, which repeats its elements along that dimension."""

    def broken_by(x: Operands) -> Fact:
        sizes, wanted = x[tensor].sizes, x[to].sizes
        if len(sizes) != len(wanted):
            return None
        d = next((d for d, n in enumerate(sizes) if n not in (1, wanted[d])), None)
        return None if d is None else f"{sizes} and {wanted} differ in dimension {d}"

    text = f"every one of {{{tensor}}}.{{sizes}} must be 1 or that of {{{to}}}.{{sizes}}"
    return Rule(f"broadcast_to({tensor}, {to})", text, broken_by)


def ignored_sizes_are_1(tensor: str, count: str) -> Rule:
    """The leading dimensions that `count` leaves out have size 1, because hardware disagrees about other sizes."""

    def broken_by(x: Operands) -> Fact:
        rank = len(x[tensor].sizes)
        ignored = x[tensor].sizes[: rank - x[count]] if 0 <= x[count] <= rank else ()
        return f"they are {ignored}" if any(n != 1 for n in ignored) else None

    text = f"the leading {{{tensor}}}.{{sizes}} that {{{count}}} leaves out must be 1"
    return Rule(f"ignored_sizes_are_1({tensor})", text, broken_by)


def fits_rank(name: str, law: Callable[[Operands], tuple[int, ...] | None], text: str, *, crop: bool) -> Rule:
    """The sizes that `law` computes fit DimensionCount; with `crop` also if leading sizes of 1 must be dropped."""

    def broken_by(x: Operands) -> Fact:
        sizes, rank = law(x) or (), len(x["input"].sizes)
        extra = sizes[: max(0, len(sizes) - rank)]
        if not extra or (crop and all(n == 1 for n in extra)):
            return None
        return f"{sizes} has {len(sizes)} sizes and there are {rank} dimensions"

    return Rule(f"fits_rank({name})", text, broken_by)


def type_of(data_type: str, tensor: str) -> Rule:
    """The field that names the type of a scalar union names the data type of a tensor."""

    def broken_by(x: Operands) -> Fact:
        named, wanted = x[data_type], x[tensor].data_type
        return None if named == wanted else f"they are {named.name} and {wanted.name}"

    text = f"{{{data_type}}} must equal {{{tensor}}}.{{dtype}}"
    law = Law(tensor, "data_type", lambda x: x[data_type])
    return Rule(f"type_of({data_type}, {tensor})", text, broken_by, DataTypeError, law)


def held(scalar: str, data_type: str) -> Rule:
    """The number of a scalar union can be held by the data type that another field names."""

    def broken_by(x: Operands) -> Fact:
        try:
            scalar_of(x[scalar], x[data_type])
        except DataTypeError:
            return f"{x[data_type].name} does not hold {x[scalar]!r}"
        return None

    text = f"{{{scalar}}} must be a number of {{{data_type}}}"
    return Rule(f"held({scalar}, {data_type})", text, broken_by, DataTypeError)


def right_aligned(sizes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Returns the last `rank` sizes, with leading 1s if there are fewer."""
    return (*(1,) * (rank - len(sizes)), *sizes[max(0, len(sizes) - rank) :])
