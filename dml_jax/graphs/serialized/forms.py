"""The forms of a flatbuffer's parts, each with its reader and its writer; `schema.py` states the tables in them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from ...core.arguments.static_values import Real
from ...errors import ConstraintError, describe
from .error_context import at
from .flatbuffer import Content


class Form:
    """What a field of a table, or an item of a vector, holds: the offset of a part, or a number."""

    slot: str = "UOffsetTRelative"  # as flatbuffers' builder calls the storage of a field
    left_out: Any = None  # the value of a field that is left out

    def read(self, content: Content, where: str, place: int | None) -> Any:
        """Reads the value of the field or item `where`, which lies at byte `place`, or is left out."""
        if place is None:
            return self.left_out
        with at(where):
            return self.read_part(content, content.target(place))

    def read_part(self, content: Content, start: int) -> Any:
        """Reads the part at a byte."""
        raise NotImplementedError

    def write(self, builder: Any, where: str, value: Any) -> int:
        """Writes the part of a value by flatbuffers' builder. Returns what the field or item holds."""
        raise NotImplementedError


class Size(Form):
    """A number of 64 bits in its table."""

    slot, left_out = "Uint64", 0

    def read(self, content: Content, where: str, place: int | None) -> int:
        return 0 if place is None else content.numbers("Q", place)[0]

    def write(self, builder: Any, where: str, value: int) -> int:
        _packed("Q", (value,))
        return value


@dataclass(frozen=True)
class Choice(Form):
    """The member of a union that the next field holds: one of `kinds`, as a number of 8 bits in its table."""

    kinds: Iterable[int]
    slot, left_out = "Uint8", 0

    def read(self, content: Content, where: str, place: int | None) -> int:
        number = 0 if place is None else content.numbers("B", place)[0]
        for kind in self.kinds:
            if kind == number:
                return kind
        named = [f"{int(kind)} ({name})" for kind in self.kinds if (name := getattr(kind, "name", ""))]
        allowed = ", ".join(named) or f"in [{min(self.kinds)}, {max(self.kinds)}]"
        raise ConstraintError(f"{where} must be {allowed}, but it is {number}")

    def write(self, builder: Any, where: str, value: int) -> int:
        return value


class String(Form):
    left_out = ""

    def read_part(self, content: Content, start: int) -> str:
        return content.string(start)

    def write(self, builder: Any, where: str, value: str) -> int:
        if "\0" in value:
            raise ConstraintError(f"a name must have no NUL, but it is {value!r:.60}")
        try:
            return builder.CreateString(value)
        except UnicodeEncodeError:
            raise ConstraintError(f"a name must be writable in UTF-8, but it is {value!r:.60}") from None


class Bytes(Form):
    left_out = b""

    def read_part(self, content: Content, start: int) -> bytes:
        return content.piece(*content.vector(start, 1))

    def write(self, builder: Any, where: str, value: bytes) -> int:
        return builder.CreateByteVector(value)


@dataclass(frozen=True)
class Numbers(Form):
    """A vector of numbers of 4 bytes, of a format of the module struct."""

    form: str
    left_out: Any = ()

    def read_part(self, content: Content, start: int) -> tuple[Any, ...]:
        return _reals(content.numbers(self.form, *content.vector(start, 4)))

    def write(self, builder: Any, where: str, value: Sequence[Any]) -> int:
        packed = _packed(f"{len(value)}{self.form}", value)
        builder.StartVector(4, len(value), 4)
        _write_bytes(builder, packed)
        return builder.EndVector()


@dataclass(frozen=True)
class Struct(Form):
    """One or more numbers of a format of the module struct, of up to 8 bytes, in a union."""

    form: str

    def read_part(self, content: Content, start: int) -> Any:
        numbers = _reals(content.numbers(self.form, start))
        return numbers[0] if len(numbers) == 1 else numbers

    def write(self, builder: Any, where: str, value: Any) -> int:
        packed = _packed(self.form, value if isinstance(value, tuple) else (value,))
        builder.Prep(len(packed), len(packed))
        _write_bytes(builder, packed)
        return builder.Offset()


@dataclass(frozen=True)
class Vector(Form):
    """A vector of strings or tables."""

    item: Form
    left_out: Any = ()

    def read(self, content: Content, where: str, place: int | None) -> tuple[Any, ...]:
        if place is None:
            return ()
        with at(where):
            start, count = content.vector(content.target(place), 4)
        return tuple(self.item.read(content, f"{where}[{i}]", start + 4 * i) for i in range(count))

    def write(self, builder: Any, where: str, value: Sequence[Any]) -> int:
        offsets = []
        for i, item in enumerate(value):
            with at(f"{where}[{i}]"):
                offsets.append(self.item.write(builder, where, item))
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return builder.EndVector()


@dataclass(frozen=True)
class Union(Form):
    """One of `members`: the one that the `Choice` in the field before, NAME_type, names. Others have no value."""

    members: Mapping[int, Form]


def _fields_of(record: Any) -> Iterable[Any]:
    return [getattr(record, field.name) for field in fields(record)]


@dataclass(frozen=True)
class Table(Form):
    """A table. Fields that are None if they are left out are read after the others, and written before them.

    Args:
      fields: by name, in the order of their slots.
      record: makes the table's value from those of the fields.
      parts: the values of the fields of the table's value; of a dataclass they are its fields.
      rules: by field, what breaks a rule of the values so far, in words; "" if nothing does.
      named_by: the field that names the table in errors of writing; as ONNX Runtime does, "" is left out.
    """

    fields: Mapping[str, Form]
    record: Callable[..., Any]
    parts: Callable[[Any], Iterable[Any]] = _fields_of
    rules: Mapping[str, Callable[[Mapping[str, Any]], str]] = field(default_factory=dict)
    named_by: str = ""

    def read_part(self, content: Content, start: int) -> Any:
        places = content.fields(start, list(self.fields))
        values: dict[str, Any] = {}
        for name in sorted(self.fields, key=self._is_last):
            form = self._form(name, values)
            values[name] = form and form.read(content, name, places.get(name))
            self._check(name, values)
        return self.record(*(values[name] for name in self.fields))

    def write(self, builder: Any, where: str, value: Any) -> int:
        values, slots = dict(zip(self.fields, self.parts(value), strict=True)), dict.fromkeys(self.fields, 0)
        with at(*filter(None, [values.get(self.named_by)])):
            for name in sorted(self.fields, key=self._is_last, reverse=True):
                self._check(name, values)
                form = self._form(name, values)
                if form and values[name] is not None and (values[name] or name != self.named_by):
                    slots[name] = form.write(builder, name, values[name])
        builder.StartObject(len(self.fields))
        for slot, (name, form) in enumerate(self.fields.items()):
            getattr(builder, f"Prepend{form.slot}Slot")(slot, slots[name], 0)
        return builder.EndObject()

    def _is_last(self, name: str) -> bool:
        return self.fields[name].left_out is None

    def _form(self, name: str, values: Mapping[str, Any]) -> Form | None:
        form = self.fields[name]
        return form.members.get(values[f"{name}_type"]) if isinstance(form, Union) else form

    def _check(self, name: str, values: Mapping[str, Any]) -> None:
        if name in self.rules and (words := self.rules[name](values)):
            raise ConstraintError(words)


def _reals(numbers: tuple[Any, ...]) -> tuple[Any, ...]:
    """Wraps floats in `Real`, so that a graph with a NaN equals itself."""
    return tuple(Real(number) if isinstance(number, float) else number for number in numbers)


def _packed(form: str, values: Sequence[Any]) -> bytes:
    try:
        return struct.pack(f"<{form}", *values)
    except (struct.error, OverflowError) as error:
        raise ConstraintError(f"{describe(values)} must fit its field: {error}") from None


def _write_bytes(builder: Any, packed: bytes) -> None:
    for byte in reversed(packed):
        builder.PrependByte(byte)
