"""Types of fields that keep one type and take others, for constructors as type checkers and `help()` show them.

FieldDirection = Annotated[Named[AxisDirection], named(AxisDirection, "DML_AXIS_DIRECTION_")]
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

Kept = TypeVar("Kept")
Taken = TypeVar("Taken")
Member = TypeVar("Member", bound=enum.IntEnum)
Element = TypeVar("Element")

if TYPE_CHECKING:

    class Converted(Generic[Kept, Taken]):
        """A type checker reads a field as a descriptor: what it gives is kept, what it is set to is taken."""

        def __get__(self, desc: Any, owner: Any = None) -> Kept: ...
        def __set__(self, desc: Any, value: Taken) -> None: ...
else:

    class Converted:
        def __class_getitem__(cls, types):
            return types[1]


# A member of an enumeration, its name, or its number.
Named = Converted[Member, Member | str | int]
Row = Converted[tuple[Element, ...], Sequence[Element]]


def default(value: Any) -> Any:
    """The default of such a field, which a type checker would take for the descriptor."""
    return value
