"""Flatbuffers reader for untrusted bytes: checks every bound, and takes time linear in the file."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from ...errors import ConstraintError

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
        return place + self.numbers("I", place)[0]

    def vector(self, start: int, item_size: int) -> tuple[int, int]:
        """The first byte and the number of the items of the vector at a byte."""
        count = self.numbers("I", start)[0]
        self._check(start + 4, count * item_size)
        return start + 4, count

    def string(self, start: int) -> str:
        """The string at a byte."""
        start, length = self.vector(start, 1)
        self._check(start, length + 1)
        text = self.piece(start, length)
        if b"\0" in text or self.content[start + length]:
            raise ConstraintError(f"the string at byte {start} must end with its first NUL")
        try:
            return text.decode()
        except UnicodeDecodeError:
            raise ConstraintError(f"the string at byte {start} must be UTF-8, but it is {text!r:.60}") from None

    def fields(self, table: int, fields: Sequence[str]) -> dict[str, int]:
        """The bytes at which the fields of a table start, without those that are left out."""
        vtable = table - self.numbers("i", table)[0]
        vtable_size, size = self.numbers("2H", vtable)
        if vtable_size < 4 or vtable_size % 2:
            raise ConstraintError(
                f"the vtable at byte {vtable} must have an even size of at least 4, not {vtable_size}"
            )
        offsets = self.numbers("H", vtable + 4, (vtable_size - 4) // 2)
        if any(offsets[len(fields) :]):
            raise ConstraintError(f"the table at byte {table} must have no fields but {', '.join(fields)}")
        if any(offset and not 4 <= offset < size for offset in offsets):
            raise ConstraintError(f"the fields of the table at byte {table} must lie in its {size} bytes")
        return {field: table + offset for field, offset in zip(fields, offsets, strict=False) if offset}

    def _check(self, start: int, size: int) -> None:
        if not 0 <= start <= len(self.content) - size:
            raise ConstraintError(f"{size} bytes at byte {start} must lie in the {len(self.content)} bytes of the file")

    def _take(self, start: int, size: int) -> None:
        self._check(start, size)
        self._left -= size
        if self._left < 0:
            raise ConstraintError(f"its parts overlap: together they are over {READINGS} times as long as the file")
