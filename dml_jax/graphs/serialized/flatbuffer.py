"""Flatbuffers reader for untrusted bytes: checks every bound, and takes time linear in the file."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from ...errors import ConstraintError
from .error_context import at
from .schema import OFFSET, Fields

# How many times the bytes of a file may be read: parts of it can be shared, and shared parts can share others.
READINGS = 8


class Content:
    """The bytes of a file.

    Raises:
      ConstraintError: by every method, if what it would read lies outside of the bytes, or too much has been read.
    """

    def __init__(self, content: bytes):
        self.content = content
        self._left = READINGS * len(content)

    def numbers(self, form: str, start: int, count: int | None = None) -> tuple[Any, ...]:
        """The numbers of a format of the module struct at a byte; `count` of them, if one is given."""
        size = struct.calcsize(f"<{form}") * (1 if count is None else count)
        self._take(start, size)
        return struct.unpack_from(f"<{form}" if count is None else f"<{count}{form}", self.content, start)

    def piece(self, start: int, size: int) -> bytes:
        """`size` bytes at a byte."""
        self._take(start, size)
        return self.content[start : start + size]

    def target(self, place: int) -> int:
        """The byte that the offset at a byte points to, which lies behind it."""
        return place + self.numbers(OFFSET, place)[0]

    def vector(self, place: int, item_size: int) -> tuple[int, int]:
        """The first byte and the number of the items of the vector that the offset at a byte points to."""
        start = self.target(place)
        count = self.numbers("I", start)[0]
        self._check(start + 4, count * item_size)
        return start + 4, count

    def string(self, place: int) -> str:
        """The string that the offset at a byte points to."""
        start, length = self.vector(place, 1)
        self._check(start, length + 1)
        text = self.piece(start, length)
        if b"\0" in text or self.content[start + length]:
            raise ConstraintError(f"the string at byte {start} must end with its first NUL")
        try:
            return text.decode()
        except UnicodeDecodeError:
            raise ConstraintError(f"the string at byte {start} must be UTF-8, but it is {text!r:.60}") from None

    def _check(self, start: int, size: int) -> None:
        if not 0 <= start <= len(self.content) - size:
            raise ConstraintError(f"{size} bytes at byte {start} must lie in the {len(self.content)} bytes of the file")

    def _take(self, start: int, size: int) -> None:
        self._check(start, size)
        self._left -= size
        if self._left < 0:
            raise ConstraintError(f"its parts overlap: together they are over {READINGS} times as long as the file")


class Table:
    """A flatbuffers table, and the places of its fields.

    Args:
      content: the bytes.
      position: the table's first byte.
      fields: of the schema.

    Raises:
      ConstraintError: by every method, if the table or the field cannot be read.
    """

    def __init__(self, content: Content, position: int, fields: Fields):
        self._content, self._fields = content, fields
        vtable = position - content.numbers("i", position)[0]
        vtable_size, size = content.numbers("2H", vtable)
        if vtable_size < 4 or vtable_size % 2:
            raise ConstraintError(
                f"the vtable at byte {vtable} must have an even size of at least 4, not {vtable_size}"
            )
        offsets = content.numbers("H", vtable + 4, (vtable_size - 4) // 2)
        if any(offsets[len(fields) :]):
            raise ConstraintError(f"the table at byte {position} must have no fields but {', '.join(fields)}")
        if any(offset and not 4 <= offset < size for offset in offsets):
            raise ConstraintError(f"the fields of the table at byte {position} must lie in its {size} bytes")
        self._places = {field: position + offset for field, offset in zip(fields, offsets, strict=False) if offset}

    def number(self, field: str) -> int:
        """A number that is stored in the table; 0 if it is left out."""
        return self._content.numbers(self._fields[field], self._places[field])[0] if field in self._places else 0

    def string(self, field: str) -> str:
        """A string; "" if it is left out."""
        with at(field):
            return self._content.string(self._places[field]) if field in self._places else ""

    def strings(self, field: str) -> tuple[str, ...]:
        """A vector of strings; none if it is left out."""
        texts = []
        for number, place in enumerate(self._items(field)):
            with at(f"{field}[{number}]"):
                texts.append(self._content.string(place))
        return tuple(texts)

    def table(self, field: str, fields: Fields) -> Table | None:
        """A table; None if it is left out."""
        with at(field):
            place = self._places.get(field)
            return None if place is None else Table(self._content, self._content.target(place), fields)

    def tables(self, field: str, fields: Fields) -> Iterator[tuple[str, Table]]:
        """A vector of tables, each behind its place in words; none if it is left out."""
        for number, place in enumerate(self._items(field)):
            shown = f"{field}[{number}]"
            with at(shown):
                table = Table(self._content, self._content.target(place), fields)
            yield shown, table

    def array(self, field: str, form: str) -> tuple[Any, ...] | None:
        """A vector of numbers of a format of the module struct; None if it is left out."""
        with at(field):
            if field not in self._places:
                return None
            start, count = self._content.vector(self._places[field], struct.calcsize(f"<{form}"))
            return self._content.numbers(form, start, count)

    def raw(self, field: str) -> bytes:
        """A vector of bytes; none if it is left out."""
        with at(field):
            if field not in self._places:
                return b""
            return self._content.piece(*self._content.vector(self._places[field], 1))

    def small_struct(self, field: str, form: str) -> tuple[Any, ...] | None:
        """A struct that a union holds: numbers of a format of the module struct; None if it is left out."""
        with at(field):
            place = self._places.get(field)
            return None if place is None else self._content.numbers(form, self._content.target(place))

    def _items(self, field: str) -> range:
        """Returns the places of the offsets in a vector."""
        with at(field):
            if field not in self._places:
                return range(0)
            start, count = self._content.vector(self._places[field], 4)
            return range(start, start + 4 * count, 4)
