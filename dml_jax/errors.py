"""The errors for a caller's mistakes, the wording of their messages, and `Faults`, which collects several."""

import difflib
import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from itertools import chain
from typing import Any

from .words_elsewhere import WORDS

FEW = 16  # names that a message lists whole


class ConstraintError(ValueError):
    """An operand or attribute breaks one of the operator's constraints.

    Args:
      what: the message: the rule, and the value that breaks it.
      where: the places that lead to the value, the outermost first: ("JOIN", "InputTensors", "[1]").
    """

    def __init__(self, what: str, where: Sequence[str] = ()):
        super().__init__(what)
        self.what: str = what
        self.where: tuple[str, ...] = tuple(where)

    def __str__(self) -> str:
        return escaped_lines(located(self.what, self.where))

    def at(self, *where: str) -> "ConstraintError":
        """Returns the same error with more places before its own."""
        seen = copy(self)
        seen.where = (*where, *self.where)
        return seen


def escaped(name: str) -> str:
    """Returns a name of a file for a terminal: characters that are not printable become escapes, such as "\\x1b"."""
    return name if name.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)


def escaped_lines(text: str) -> str:
    """Returns a text of several lines with each of them escaped."""
    return "\n".join(map(escaped, text.split("\n")))


def located(what: str, where: Sequence[str]) -> str:
    """Returns a message with its places before it: "JOIN: InputTensors[1]: DataType is missing"."""
    place = ""
    for part in where:
        place += part if part.startswith("[") or not place else f": {part}"
    return f"{place}: {what}" if place else what


class DataTypeError(ConstraintError, TypeError):
    """An operand has a data type that the operator does not accept."""


class SeveralErrors(ConstraintError):  # noqa: N818  # it is several
    """Several errors at once: where a file is checked, every fault is listed, and not only the first."""

    def __init__(self, errors: Sequence[ConstraintError]):
        super().__init__("\n".join(map(str, errors)))
        self.errors: tuple[ConstraintError, ...] = tuple(errors)

    def __reduce__(self) -> Any:
        return type(self), (self.errors,)

    def at(self, *where: str) -> "SeveralErrors":
        return type(self)([error.at(*where) for error in self.errors])


class SkippedError(Exception):
    """A part cannot be checked, because it depends on another part that has a fault."""


class Faults:
    """Collects the errors of several steps, and raises all of them at the end.

    Example:
      >>> faults = Faults()
      >>> for name in ("Sizes", "DataType"):
      ...     with faults.at(name):
      ...         raise ConstraintError("is missing")
      >>> [str(error) for error in faults.errors]
      ['Sizes: is missing', 'DataType: is missing']
    """

    def __init__(self) -> None:
        self.errors: list[ConstraintError] = []
        self.skipped = False

    @contextmanager
    def at(self, *where: str) -> Iterator[None]:
        """Collects the errors that the block raises, with the places `where` before their own."""
        try:
            yield
        except ConstraintError as error:
            self.add(error, *where)
        except SkippedError:
            self.skipped = True

    def add(self, error: ConstraintError, *where: str) -> None:
        """Collects an error, or each of a `SeveralErrors`."""
        self.errors += getattr(error.at(*where), "errors", [error.at(*where)])

    def finish(self) -> None:
        """Raises the collected errors; SkippedError if there are none, but a part could not be checked."""
        if self.errors:
            raise self.errors[0] if len(self.errors) == 1 else SeveralErrors(self.errors)
        if self.skipped:
            raise SkippedError


def message(operator: str, rule: str, fact: str, operands: Mapping[str, Any]) -> str:
    """Returns the message of a broken rule: the operator, the rule, the fact that breaks it, then every operand."""
    got = ", ".join(f"{name}={describe(value)}" for name, value in operands.items())
    return f"{operator}: {rule}, but {fact}{'' if fact.endswith('?') else '.'}\n  got {got}"


def describe(value: Any) -> str:
    """Returns an operand in brief: an array by dtype and shape, an enum by its name, anything else by its repr."""
    if isinstance(value, enum.Enum):
        return value.name
    if hasattr(value, "describe"):
        return value.describe()
    if isinstance(value, tuple):
        text = f"({', '.join(map(describe, value))}{',' * (len(value) == 1)})"
        return text if len(text) <= 80 else f"{text[:77]}..."
    if hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, type):
        return f"{value.dtype}[{','.join(map(str, value.shape))}]"
    if isinstance(value, int) and value.bit_length() > 1000:  # Python prints no integer of thousands of digits.
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def suggestion(name: str, known: Iterable[str]) -> str:
    """Returns a hint for an unknown name: the known one that is meant, or else all of them, or of many the nearest."""
    known = list(known)
    if (one := meant(name, known)) is not None:
        return f"did you mean {one!r}?"
    if len(known) <= FEW:
        return f"known are {', '.join(map(escaped, known))}"
    return f"the nearest are {', '.join(map(escaped, _near(name, known, 5, 0.0)))}"


def meant(name: str, known: Iterable[str]) -> str | None:
    """The known name that is the word of another library, most similar, or ends with it, ignoring case; else None.

    meant("bilinear", ["nearest", "linear"]) is "linear", and meant("RELU", ["ACTIVATION_ELU", "ACTIVATION_RELU"]) the
    second one.
    """
    known, word = list(known), name.rpartition(".")[2].casefold().replace("_", "").replace("-", "")
    by_fold = {k.casefold(): k for k in known}
    elsewhere = (by_fold.get(k.casefold()) for k in WORDS.get(word, ()))
    endings = sorted((k for fold, k in by_fold.items() if word in _endings(fold)), key=len)
    return next(filter(None, chain(elsewhere, _near(name, known, 1, 0.8), endings)), None)


def hint(name: object, known: Iterable[str | None]) -> str:
    """What a fact that names a wrong value ends with: the known name that is meant, if one is."""
    one = meant(name, filter(None, known)) if isinstance(name, str) else None
    return "" if one is None else f"; did you mean {one!r}?"


def _endings(name: str) -> list[str]:
    """The last words of a name, written as one: "leakyrelu" and "relu" of "activation_leaky_relu"."""
    words = name.split("_")
    return ["".join(words[i:]) for i in range(1, len(words))]


def _near(name: str, known: Sequence[str], most: int, cutoff: float) -> list[str]:
    by_fold = {k.casefold(): k for k in reversed(known)}
    return [by_fold[fold] for fold in difflib.get_close_matches(name.casefold(), by_fold, most, cutoff)]
