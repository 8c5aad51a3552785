"""The types of options and arguments of the command: levels, operators, times, shapes and numbers."""

import math
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from ..core.structs.feature_level import FeatureLevel
from ..errors import ConstraintError, hint, meant, suggestion
from .operator_names import items, struct_names

DAY = 86_400_000


class Level(click.ParamType):
    """A DirectML feature level, such as 3_0."""

    name = "level"

    def convert(self, value: Any, param: Any, ctx: Any) -> FeatureLevel:
        try:
            return FeatureLevel.of(value)
        except ConstraintError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(level) for level in map(str, FeatureLevel) if level.startswith(incomplete)]


class OperatorName(click.ParamType):
    """The descriptor class of an operator, by its DirectML name: with or without DML_OPERATOR_, in any case."""

    name = "operator"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        from ..catalogue import FUNCTIONS, STRUCTS

        key = value.upper().removeprefix("DML_OPERATOR_")
        if key not in STRUCTS:
            function = meant(key, FUNCTIONS)
            here = f" The function is dml_jax.{function}." if function else ""
            self.fail(f"unknown operator {value!r}; {suggestion(key, STRUCTS)}{here}", param, ctx)
        return STRUCTS[key]

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        return items(struct_names(), incomplete.upper())


class Choice(click.Choice):
    """One of several names; the error for another one says which is meant."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            self.fail(error.message.removesuffix(".") + hint(value, self.choices), param, ctx)


class ArrayPath(click.Path):
    """A path of an array: of a file, a folder, a pattern, a dataset in a file, or a URL."""

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        return value if "://" in value else str(Path(value))


class Milliseconds(click.ParamType):
    """A time of at most a day."""

    name = "ms"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        milliseconds = math.nan
        with suppress(ValueError):
            milliseconds = float(value)
        if not 0 <= milliseconds <= DAY:
            self.fail(f"{value!r} is no number of milliseconds from 0 to {DAY}, a day", param, ctx)
        return milliseconds


class Named(click.ParamType):
    """A name and a value, NAME=VALUE, or NAME:VALUE as in DxDispatch. Names may contain both signs, values neither.

    Args:
      metavar: how it is written, such as NAME=SIZE.
      read: makes the value of the text behind the last sign; ValueError where it is none.
      example: what an error shows.
    """

    def __init__(self, metavar: str, read: Callable[[str], Any], example: str):
        self.name, self._read, self._wanted = metavar, read, f"{metavar}, such as {example}"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, Any]:
        parts = re.fullmatch("(.+)[=:]([^=:]*)", str(value))
        if not parts:
            self.fail(f"{value!r} is not {self._wanted}", param, ctx)
        try:
            return parts[1], self._read(parts[2])
        except ValueError as error:
            self.fail(f"{value!r} is not {self._wanted}: {error}", param, ctx)


def size(text: str) -> int:
    """A size of at least 1."""
    if not (text.isdecimal() and 1 <= int(text) < 2**32):
        raise ValueError(f"{text!r} is no integer in [1, 2**32 - 1]")
    return int(text)


def sizes(text: str) -> tuple[int, ...]:
    """At most 32 sizes: 1x3x8, or 1,3,8 as in DxDispatch."""
    numbers = tuple(map(size, re.split("[x,]", text)))
    if len(numbers) > 32:
        raise ValueError(f"there must be at most 32 sizes, but there are {len(numbers)}")
    return numbers


class ActivationType(click.ParamType):
    """An activation: its name, with or without ACTIVATION_, and numbers behind it, such as LEAKY_RELU:0.1."""

    name = "name[:numbers]"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        from ..core.structs.activation import Activation
        from ..core.structs.activation_table import ACTIVATIONS

        short, colon, row = str(value).partition(":")
        name = next((n for n in (short.upper(), f"ACTIVATION_{short.upper()}") if n in ACTIVATIONS), short)
        try:
            numbers = tuple(map(float, row.split(","))) if colon else ()
            if name in ACTIVATIONS and [*ACTIVATIONS[name].parameters] == ["Axes"]:
                numbers = (tuple(map(int, numbers)),)
            return Activation(name, numbers)
        except (ValueError, OverflowError) as error:
            self.fail(f"{value!r} is no activation such as LEAKY_RELU:0.1: {error}", param, ctx)

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        from ..core.structs.activation_table import ACTIVATIONS

        names = (name.removeprefix("ACTIVATION_") for name in ACTIVATIONS)
        return [CompletionItem(name) for name in names if name.startswith(incomplete.upper())]


class NumberType(click.ParamType):
    """An integer, a float or a complex number."""

    name = "number"

    def convert(self, value: Any, param: Any, ctx: Any) -> complex:
        for kind in (int, float, complex):
            with suppress(ValueError):
                return kind(value)
        raise click.BadParameter(f"{value!r} is no number", ctx, param)
