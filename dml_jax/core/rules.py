"""Rules: each is data that checks operands, words the error, and fills the tables of the documentation.

The text of a rule names operands in braces: `{indices}.{sizes}`. A function prints these names as they are, and a
descriptor prints DirectML's: `IndicesTensor.Sizes`. If a rule cannot be checked because another rule is broken, it
reports nothing: the other rule reports the mistake.
"""

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import jax
import jax.numpy as jnp

from ..errors import ConstraintError, DataTypeError, hint, message

Operands = Mapping[str, Any]
Fact = str | None
Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Law:
    """A consequence of a rule: the sizes or data type of a tensor left out, such as a node's output in `GraphBuilder`.

    Args:
      operand: the name of the tensor.
      what: the property, "sizes" or "data_type".
      of: takes the other operands; returns the property, or None if it does not follow or another rule is broken.
    """

    operand: str
    what: str
    of: Callable[[Operands], Any]


@dataclass(frozen=True)
class Rule:
    """One constraint.

    Args:
      name: identifies the rule in tables and tests, `same_sizes(updates, indices)`.
      text: the rule in words, operands in braces.
      broken_by: takes the operands by name; returns the fact that breaks the rule, or None.
      error: the class of the exception to raise.
      law: the consequence for a tensor that is left out, if there is one.
    """

    name: str
    text: str
    broken_by: Callable[[Operands], Fact]
    error: type[ConstraintError] = ConstraintError
    law: Law | None = None

    def worded(self, names: Mapping[str, str]) -> str:
        """Returns the text, where `names` gives the printed name of each operand."""
        return self.text.format_map(_Names(names))


class _Names(dict[str, Any]):
    """A dict for `str.format_map` that leaves unknown names as they are."""

    def __missing__(self, key: str) -> str:
        return key


def faults(
    operator: str, constraints: Iterable[Rule], operands: Operands, names: Mapping[str, str] | None = None
) -> Iterator[ConstraintError]:
    """Yields an error for each rule that the operands break, in order; `names` gives the printed names of operands."""
    names = names or {}
    shown = {names.get(name, name): value for name, value in operands.items()}
    for rule in constraints:
        if fact := _fact(rule, operands):
            yield rule.error(message(operator, rule.worded(names), fact, shown))


def _fact(rule: Rule, operands: Operands) -> Fact:
    """Returns the fact that breaks a rule; also if sizes are symbolic, as in jax.export, and JAX cannot tell."""
    try:
        return rule.broken_by(operands)
    except jax.errors.InconclusiveDimensionOperation as error:
        return f"a size is symbolic: {str(error).splitlines()[0].rstrip('.')}"


def check(operator: str, constraints: Iterable[Rule], operands: Operands) -> None:
    """Raises the error of the first rule that the operands break."""
    for error in faults(operator, constraints, operands):
        raise error


# Data types.


def integer_indices(indices: str = "indices") -> Rule:
    """Indices have an integer type of any width: never floats, never booleans."""

    def broken_by(x: Operands) -> Fact:
        dtype = x[indices].dtype
        return None if jnp.issubdtype(dtype, jnp.integer) else f"it is {dtype}"

    return Rule(f"integer({indices})", f"{{{indices}}}.{{dtype}} must be an integer type", broken_by, DataTypeError)


def same_dtype(one: str, other: str) -> Rule:
    """Both operands have the same data type."""

    def broken_by(x: Operands) -> Fact:
        a, b = x[one].dtype, x[other].dtype
        return None if a == b else f"they are {a} and {b}"

    text = f"{{{one}}}.{{dtype}} must equal {{{other}}}.{{dtype}}"
    return Rule(f"same_dtype({one}, {other})", text, broken_by, DataTypeError)


def numbers(operand: str, *, with_zero: bool = False) -> Rule:
    """An array, or a dtype, holds numbers, which random keys are not; `with_zero` also asks for a dtype that has 0."""

    def broken_by(x: Operands) -> Fact:
        dtype = getattr(x[operand], "dtype", x[operand])
        if jnp.issubdtype(dtype, jax.dtypes.prng_key):
            return f"it is {dtype}, whose elements are not numbers"
        return f"it is {dtype}, which has no 0" if with_zero and dtype == jnp.float8_e8m0fnu else None

    shown = "{dtype}" if operand == "dtype" else f"{{{operand}}}.{{dtype}}"
    text = f"{shown} must be a numeric type{' that has 0' if with_zero else ''}"
    return Rule(f"numbers({operand})", text, broken_by, DataTypeError)


def ordered(operand: str) -> Rule:
    """An array holds numbers that have an order, which complex ones do not."""

    def broken_by(x: Operands) -> Fact:
        dtype = x[operand].dtype
        if jnp.issubdtype(dtype, jax.dtypes.prng_key):
            return f"it is {dtype}, whose elements are not numbers"
        is_complex = jnp.issubdtype(dtype, jnp.complexfloating)
        return f"it is {dtype}, whose numbers have no order" if is_complex else None

    text = f"{{{operand}}}.{{dtype}} must be a numeric type that has an order"
    return Rule(f"ordered({operand})", text, broken_by, DataTypeError)


def floats(operand: str) -> Rule:
    """An array holds real floats of any width."""

    def broken_by(x: Operands) -> Fact:
        dtype = x[operand].dtype
        is_float = not jnp.issubdtype(dtype, jax.dtypes.prng_key) and jnp.issubdtype(dtype, jnp.floating)
        return None if is_float else f"it is {dtype}"

    return Rule(f"float({operand})", f"{{{operand}}}.{{dtype}} must be a floating-point type", broken_by, DataTypeError)


# Ranks and sizes.


def minimum_rank(operand: str, rank: int) -> Rule:
    """The operand has at least `rank` dimensions."""

    def broken_by(x: Operands) -> Fact:
        actual = len(x[operand].shape)
        return None if actual >= rank else f"it is {actual}"

    return Rule(f"minimum_rank({operand}, {rank})", f"{{{operand}}}.{{rank}} must be at least {rank}", broken_by)


def same_rank(one: str, other: str) -> Rule:
    """Both operands have the same number of dimensions."""

    def broken_by(x: Operands) -> Fact:
        a, b = len(x[one].shape), len(x[other].shape)
        return None if a == b else f"they are {a} and {b}"

    return Rule(f"same_rank({one}, {other})", f"{{{one}}}.{{rank}} must equal {{{other}}}.{{rank}}", broken_by)


def same_sizes(one: str, other: str, *, except_along: str | None = None) -> Rule:
    """Both operands have the same sizes, except along the dimension that the attribute `except_along` names, if any."""

    def broken_by(x: Operands) -> Fact:
        a, b = tuple(x[one].shape), tuple(x[other].shape)
        if len(a) != len(b):
            return None if except_along else f"they are {a} and {b}"
        skipped = x[except_along] % len(a) if except_along and a else None
        for d in range(len(a)):
            if a[d] != b[d] and d != skipped:
                return f"{a} and {b} differ in dimension {d}"
        return None

    suffix = f" except along {{{except_along}}}" if except_along else ""
    name = f"same_sizes({one}, {other}{f', except_along={except_along}' if except_along else ''})"
    law = None if except_along else Law(one, "sizes", lambda x: tuple(x[other].shape))
    return Rule(name, f"{{{one}}}.{{sizes}} must equal {{{other}}}.{{sizes}}{suffix}", broken_by, law=law)


def sizes_follow(operand: str, law: Callable[[Operands], Sizes | None], formula: str) -> Rule:
    """The operand has the sizes that `law` computes from the others; `law` returns None if another rule is broken."""

    def broken_by(x: Operands) -> Fact:
        expected, actual = law(x), tuple(x[operand].shape)
        return None if expected is None or expected == actual else f"{actual} is not {expected}"

    text = f"{{{operand}}}.{{sizes}} must be {formula}"
    return Rule(f"sizes_follow({operand})", text, broken_by, law=Law(operand, "sizes", law))


# Attributes.


def axis_of(operand: str, axis: str = "axis") -> Rule:
    """A Python axis: -rank <= axis < rank."""

    def broken_by(x: Operands) -> Fact:
        rank = len(x[operand].shape)
        return None if rank == 0 or -rank <= x[axis] < rank else f"it is {x[axis]} and the rank is {rank}"

    text = f"{{{axis}}} must be in [-{{{operand}}}.{{rank}}, {{{operand}}}.{{rank}})"
    return Rule(f"axis_of({operand})", text, broken_by)


def one_of(attribute: str, accepted: tuple[str | None, ...]) -> Rule:
    """The attribute is one of a few names."""

    def broken_by(x: Operands) -> Fact:
        value = x[attribute]
        return None if value in accepted else f"it is {value!r}{hint(value, accepted)}"

    text = f"{{{attribute}}} must be one of {', '.join(map(repr, accepted))}"
    return Rule(f"one_of({attribute})", text, broken_by)


def at_least(attribute: str, least: int) -> Rule:
    """The attribute is an integer of at least `least`."""

    def broken_by(x: Operands) -> Fact:
        return None if x[attribute] >= least else f"it is {x[attribute]}"

    return Rule(f"at_least({attribute}, {least})", f"{{{attribute}}} must be at least {least}", broken_by)


def one_per_dimension(attribute: str, operand: str) -> Rule:
    """The attribute has a number for every dimension of the operand."""

    def broken_by(x: Operands) -> Fact:
        count, rank = len(x[attribute]), len(x[operand].shape)
        return None if count == rank else f"there are {count} for {rank} dimensions"

    text = f"{{{attribute}}} must have one entry per dimension of {{{operand}}}"
    return Rule(f"one_per_dimension({attribute})", text, broken_by)


def each_at_least(attribute: str, least: int) -> Rule:
    """Every number of the attribute is at least `least`, also if it is symbolic, as in jax.export."""

    def broken_by(x: Operands) -> Fact:
        return None if all(n >= least for n in x[attribute]) else f"they are {x[attribute]}"

    return Rule(
        f"each_at_least({attribute}, {least})", f"every one of {{{attribute}}} must be at least {least}", broken_by
    )


def representable(attribute: str, law: Callable[[Operands], Sequence[Any] | None], of: str = "input") -> Rule:
    """An array has fewer than 2**63 bytes: XLA ends the process if there are more, even where another size is 0.

    Args:
      attribute: the attribute that decides the sizes of the array.
      law: takes the operands; returns the sizes, or None if another rule is broken.
      of: the operand that has the dtype of the array, or is a dtype.
    """

    def broken_by(x: Operands) -> Fact:
        sizes = law(x) or ()
        known = [abs(n) for n in sizes if isinstance(n, int) and n]
        itemsize = getattr(x[of], "dtype", x[of]).itemsize
        return f"the sizes are {tuple(sizes)}" if prod(known) * itemsize >= 2**63 else None

    return Rule("representable", f"{{{attribute}}} must give an array of fewer than 2**63 bytes", broken_by)


def if_given(operand: str, rule: Rule) -> Rule:
    """`rule` for an operand that may be left out: None satisfies it."""
    return replace(rule, broken_by=lambda x: None if x[operand] is None else rule.broken_by(x))


def assuming(rule: Rule, operands: Operands) -> Rule:
    """`rule` for a struct that lacks some of its operands; `operands` gives their values."""

    def after(function: Callable[[Operands], Any]) -> Callable[[Operands], Any]:
        return lambda x: function(ChainMap(dict(operands), x))  # type: ignore[arg-type]

    law = rule.law and replace(rule.law, of=after(rule.law.of))
    return replace(rule, broken_by=after(rule.broken_by), law=law)


def custom(name: str, text: str, broken_by: Callable[[Operands], Fact], law: Law | None = None) -> Rule:
    """A rule that only one operator has."""
    return Rule(name, text, broken_by, law=law)
