"""`public_function`: writes the public function of an operator, which reads each argument by its kind.

Its source is generated, as `dataclasses` generates `__init__`, because a loop over arguments takes a fifth of the time
of a small call. For a function

    def gather(input: Data, indices: Indices, axis: int, *, mode: Mode = "clip", fill_value: Fill = None): ...

it is this. A required array of up to 32 bits, of a type that was read before, needs no reading, nor does an argument
that is left out; one whose kind needs others is read last:

    def gather(input, indices, axis, *_more, mode=_default_mode, fill_value=_default_fill_value):
        if _more: _refuse(3 + len(_more))
        if type(input) not in _concrete or input.dtype.itemsize > 7: input = _read_input("gather", "input", input)
        if type(indices) not in _concrete or indices.dtype.itemsize > 7: indices = _read_indices(...)
        axis = _read_axis("gather", "axis", axis)
        if not (mode is _default_mode): mode = _read_mode("gather", "mode", mode)
        if not (fill_value is _default_fill_value and mode is _default_mode):
            fill_value = _read_fill_value("gather", "fill_value", fill_value, input, mode)
        return _jitted((_form(), None, (axis, mode)), input, indices, fill_value)
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping
from functools import update_wrapper
from inspect import Parameter, signature
from typing import Any, get_type_hints

from ...operations.programs.forced_form import forced_form
from .arrays import CONCRETE
from .kinds import Kind

SHARDING = "out_sharding"


def public_function(
    function: Callable[..., Any], kinds: Mapping[str, Kind], jitted: Callable[..., Any]
) -> Callable[..., Any]:
    """Returns the public function: it reads each argument by its kind, and calls `jitted`.

    It has the globals of `function`, as doctest takes no others, its docstring, and its signature with the types that
    help() shows.

    Args:
      function: its name, docstring and arguments are taken.
      kinds: of each argument, in order.
      jitted: takes a static tuple of the forced form, `out_sharding` and a tuple of the attributes; then the arrays.
    """
    name, shown = function.__name__, signature(function)
    values: dict[str, Any] = {
        "_jitted": jitted,
        "_form": forced_form,
        "_refuse": _refusal(function),
        "_concrete": CONCRETE,
    }
    for p, kind in kinds.items():
        default = shown.parameters[p].default
        values[f"_read_{p}"] = kind.read
        if default is not Parameter.empty:
            values[f"_default_{p}"] = default if kind.needs else kind.read(name, p, default)
    source = f"def _make({', '.join(values)}):\n" + "".join(f"    {line}\n" for line in _lines(function, kinds))
    file, namespace = f"<dml_jax.{name}>", {}
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file  # for tracebacks and debuggers
    exec(compile(source, file, "exec"), function.__globals__, namespace)
    public = namespace["_make"](**values)
    public.__code__ = public.__code__.replace(co_qualname=name)  # which profiles and the locations of programs show
    update_wrapper(public, function)
    public.__annotations__ = get_type_hints(function)
    parameters = [x.replace(annotation=kinds[p].shown or x.annotation) for p, x in shown.parameters.items()]
    public.__signature__ = shown.replace(parameters=parameters)
    return public


def _lines(function: Callable[..., Any], kinds: Mapping[str, Kind]) -> list[str]:
    """Returns the source of the public function, and of the line that returns it."""
    name, parameters = function.__name__, signature(function).parameters
    positional = [_parameter(x) for x in parameters.values() if x.kind is Parameter.POSITIONAL_OR_KEYWORD]
    by_name = [_parameter(x) for x in parameters.values() if x.kind is Parameter.KEYWORD_ONLY]
    early, late = ([p for p, kind in kinds.items() if bool(kind.needs) is is_late] for is_late in (False, True))
    attributes = [p for p, kind in kinds.items() if not kind.is_array and p != SHARDING]
    arrays = [p for p, kind in kinds.items() if kind.is_array]
    fixed = f"(_form(), {SHARDING}, ({', '.join(attributes)}{',' * (len(attributes) == 1)}))"
    return [
        f"def {name}({', '.join([*positional, '*_more', *by_name])}):",
        f"    if _more: _refuse({len(positional)} + len(_more))",
        *(f"    {_reading(name, p, kinds[p], parameters)}" for p in (*early, *late)),
        f"    return _jitted({', '.join([fixed, *arrays])})",
        f"return {name}",
    ]


def _parameter(parameter: Parameter) -> str:
    p = parameter.name
    return p if parameter.default is Parameter.empty else f"{p}=_default_{p}"


def _reading(name: str, p: str, kind: Kind, parameters: Mapping[str, Parameter]) -> str:
    """Returns the statement that reads one argument, unless it and all that its kind needs are left out."""
    read = f"{p} = _read_{p}({', '.join([repr(name), repr(p), p, *kind.needs])})"
    default = parameters[p].default
    if default is Parameter.empty and kind.is_array and not (kind.needs or kind.is_list):
        return f"if type({p}) not in _concrete or {p}.dtype.itemsize > 7: {read}"
    if default is Parameter.empty or (kind.needs and default is not None):
        return read
    causes = [q for q in (p, *kind.needs) if parameters[q].default is not Parameter.empty]
    return f"if not ({' and '.join(f'{q} is _default_{q}' for q in causes)}): {read}"


def _refusal(function: Callable[..., Any]) -> Callable[[int], None]:
    """Returns a function that raises TypeError for too many positional arguments; it lists the keyword-only ones."""
    parameters = signature(function).parameters.values()
    by_name = [x.name for x in parameters if x.kind is Parameter.KEYWORD_ONLY]
    most = len(parameters) - len(by_name)

    def refuse(given: int) -> None:
        taken = f"{most} positional argument{'s' * (most != 1)}"
        raise TypeError(f"{function.__name__}() takes {taken}, but {given} were given; by name: {', '.join(by_name)}")

    return refuse
