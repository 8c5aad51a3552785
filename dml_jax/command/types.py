"""What the command reads from its command line, with what a shell completes: levels, operators, times."""

import math
from contextlib import suppress
from typing import Any

import click
from click.shell_completion import CompletionItem

from ..core.feature_level import FeatureLevel
from ..errors import ConstraintError, suggestion

__all__ = ["Level", "Milliseconds", "NumberType", "OperatorName"]

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
        from ..catalogue import STRUCTS

        key = value.upper().removeprefix("DML_OPERATOR_")
        if key not in STRUCTS:
            self.fail(f"unknown operator {value!r}; {suggestion(key, STRUCTS)}", param, ctx)
        return STRUCTS[key]

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        from ..catalogue import STRUCTS

        found = {name: cls for name, cls in STRUCTS.items() if name.startswith(incomplete.upper())}
        return [CompletionItem(name, help=cls.summary()) for name, cls in found.items()]


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


class NumberType(click.ParamType):
    """An integer, a float or a complex number."""

    name = "number"

    def convert(self, value: Any, param: Any, ctx: Any) -> complex:
        for kind in (int, float, complex):
            with suppress(ValueError):
                return kind(value)
        raise click.BadParameter(f"{value!r} is no number", ctx, param)
