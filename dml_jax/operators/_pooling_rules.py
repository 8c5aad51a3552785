"""Rules of pooling, for functions and for structs, and the windows of a struct."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any

import jax

from ..core.rules import Operands, Rule, custom
from ..core.sharding import Dims, names_of
from ..core.structs.fields import Input, Output
from ..core.structs.operator_desc import OperatorDesc
from ..operations.sliding_windows import Windows
from ._sliding_windows import (
    EndPadding,
    StartPadding,
    Strides,
    WindowSize,
    attributes_of,
    function_rules,
    struct_rules,
)

# Fields of structs.
Image = Annotated[Input, "(N, C, H, W), or (N, C, D, H, W)."]
Pooled = Annotated[Output, "N, C, and the number of windows along each spatial dimension."]


class PoolingDesc(OperatorDesc, is_base=True):
    """The base of the structs of pooling that read one tensor and write one."""

    input: Image
    output: Pooled
    strides: Strides
    window_size: WindowSize
    start_padding: StartPadding
    end_padding: EndPadding


_FIELD, _SIZES = "window_size", "window_sizes"


def _uncounted(x: Operands) -> str | None:
    count, rank = len(x[_SIZES]), len(x["input"].shape)
    return None if 1 <= count <= rank else f"there are {count} and the rank is {rank}"


def _sizes(x: Operands) -> Sequence[Any] | None:
    return None if _uncounted(x) else x["input"].shape[-len(x[_SIZES]) :]


def _output_sizes(x: Operands, windows: list[Windows]) -> Sequence[Any]:
    return (*x["input"].shape[: -len(windows)], *(w.count for w in windows))


def pooling_rules(*own: Rule) -> Any:
    """Returns the rules of a function; `own` are checked before the rules of the windows."""
    text = "{window_sizes} must have one entry per spatial dimension of {input}, at least one"
    return function_rules(_sizes, *own, custom(f"spatial({_SIZES})", text, _uncounted), output_sizes=_output_sizes)


def dims_of(x: Operands) -> Dims:
    """Dimensions before the spatial ones keep their sharding."""
    names, count = names_of(x, "input"), len(x[_SIZES])
    return Dims({"input": names}, [*names[:-count], *(f"window {d}" for d in range(count))])


def _pooled_sizes(sizes: Sequence[int], windows: Sequence[Windows]) -> tuple[int, ...]:
    return (*sizes[:2], *(w.count for w in windows))


def pooling_struct_rules(*, dilated: bool, image: str = "input", windowed: str = "output") -> tuple[Rule, ...]:
    """Returns the rules of a struct, with or without Dilations; `windowed` is the tensor of an element per window."""
    rules = struct_rules(image, windowed, _pooled_sizes, "(N, C, the number of windows along each spatial dimension)")
    return tuple(_in_struct(rule) for rule in rules if dilated or "dilations" not in rule.name)


def pooled(pool: Callable[..., Any], desc: OperatorDesc[Any], input: jax.Array, **others: Any) -> Any:
    """Calls a function of pooling with the windows of a struct."""
    return pool(input, desc.operands()[_FIELD], **attributes_of(desc), **others)


def _in_struct(rule: Rule) -> Rule:
    """Returns the rule for a struct of pooling, where the field is WindowSize and Dilations may be missing."""

    def named(x: Operands) -> Operands:
        absent = {} if "dilations" in x else {"dilations": None}
        return ChainMap({_SIZES: x[_FIELD], **absent}, x)  # type: ignore[arg-type]

    law = rule.law and replace(rule.law, of=_after(named, rule.law.of))
    renamed = {part: getattr(rule, part).replace(_SIZES, _FIELD) for part in ("name", "text")}
    return replace(rule, broken_by=_after(named, rule.broken_by), law=law, **renamed)


def _after(named: Callable[[Operands], Operands], function: Callable[[Operands], Any]) -> Callable[[Operands], Any]:
    return lambda x: function(named(x))
