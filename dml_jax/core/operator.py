"""`operator`: the decorator of a function that only computes. It reads arguments, checks rules, jits and shards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import update_wrapper
from inspect import Parameter, signature
from operator import itemgetter
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, get_type_hints

import jax

from ..lowering.forms import forced_form, forcing
from .kinds import Kind, kinds_of
from .ports import by_argument, ports_of
from .rules import Operands, Rule, check
from .sharding import Dims, has_mesh, on_mesh

__all__ = ["SHARDING", "operator"]

P = ParamSpec("P")
R = TypeVar("R")

SHARDING = "out_sharding"


def operator(*rules: Rule, dims: Callable[[Operands], Dims]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Makes the public function of an operator; the function that it decorates only computes, on arrays that fit.

    A call goes through three steps: `_reader` reads each argument by its kind, outside of tracing; `_traced` checks
    the rules and shards, inside of one `jax.jit`; the decorated function computes.

    Args:
      rules: what the operands must satisfy, in the order in which they are checked; the first one broken is raised.
      dims: takes the operands; returns the names of the dimensions of operands and output. Dimensions of the same name
        are sharded in the same way.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        kinds = kinds_of(function)
        call = _reader(function, kinds, _traced(function, kinds, rules, dims))
        return _public(call, function, rules, kinds)

    return decorate


def _traced(
    function: Callable[..., Any],
    kinds: Mapping[str, Kind],
    rules: tuple[Rule, ...],
    dims: Callable[[Operands], Dims],
) -> Callable[..., Any]:
    """Returns the jitted part of a call.

    Its first argument is static: the form that `use_form` forces, `out_sharding`, and the attributes. Arrays follow.
    """
    name = function.__name__
    arrays = [p for p, kind in kinds.items() if kind.is_array]
    static = [p for p, kind in kinds.items() if not kind.is_array and p != SHARDING]

    def traced(fixed: tuple[Any, ...], *given: Any) -> Any:
        form, sharding, attributes = fixed
        by_name = dict(zip(arrays, given, strict=True))
        values = by_name | dict(zip(static, attributes, strict=True))
        operands = {p: values[p] for p, kind in kinds.items() if kind.is_shown}
        check(name, rules, operands)
        flat = ports_of(by_name)

        def compute(*ports: Any) -> Any:
            return function(**values | by_argument(dict(zip(flat, ports, strict=True)), like=by_name))

        with forcing(form):
            if has_mesh(sharding, flat):
                return on_mesh(name, compute, dims(operands), sharding, **flat)
            return function(**values)

    traced.__name__ = name
    return jax.jit(traced, static_argnums=0)


def _reader(function: Callable[..., Any], kinds: Mapping[str, Kind], jitted: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function that callers call: it reads each argument by its kind, and calls `jitted`.

    Calls may be many and small, so it reads only arguments that are given; defaults are read once, here.
    """
    name, parameters = function.__name__, signature(function).parameters
    positional = [p for p, x in parameters.items() if x.kind is Parameter.POSITIONAL_OR_KEYWORD]
    # An argument whose kind `needs` others is late: it is read after them.
    late = [(p, kind) for p, kind in kinds.items() if kind.needs]
    causes = {q for p, kind in late for q in (p, *kind.needs)}
    is_always_late = any(parameters[p].default is not None or p in positional for p, _ in late)
    readers = {p: _unread if kind.needs else kind.read for p, kind in kinds.items()}
    defaults = {p: x.default for p, x in parameters.items() if x.default is not Parameter.empty}
    defaults = {p: readers[p](name, p, value) for p, value in defaults.items()}
    attributes = _values_of([p for p, kind in kinds.items() if not kind.is_array and p != SHARDING])
    arrays = _values_of([p for p, kind in kinds.items() if kind.is_array])
    at_place, places = [(p, readers[p]) for p in positional], {p: i for i, p in enumerate(positional)}
    count, most, forced, sharding, refuse = len(kinds), len(at_place), forced_form, SHARDING, _refusal(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        given = defaults.copy()
        if len(args) > most:
            refuse(args, kwargs)
        for (p, read), value in zip(at_place, args):  # noqa: B905
            given[p] = read(name, p, value)
        for p, value in kwargs.items():
            if p not in readers or places.get(p, most) < len(args):
                refuse(args, kwargs)
            given[p] = readers[p](name, p, value)
        if len(given) < count:
            refuse(args, kwargs)
        if is_always_late or (kwargs and not causes.isdisjoint(kwargs)):
            for p, kind in late:
                given[p] = kind.read(name, p, given[p], *[given[q] for q in kind.needs])
        return jitted((forced(), given[sharding], attributes(given)), *arrays(given))

    return call


def _refusal(function: Callable[..., Any]) -> Callable[[Any, Any], None]:
    """Returns what raises TypeError, in Python's words, for arguments that a function does not take."""
    name, of_python = function.__name__, signature(function)
    by_name = [p for p, x in of_python.parameters.items() if x.kind is Parameter.KEYWORD_ONLY]
    most = len(of_python.parameters) - len(by_name)

    def refuse(args: Any, kwargs: Any) -> None:
        if len(args) > most and by_name:
            taken = f"{most} positional argument{'s' * (most != 1)}"
            raise TypeError(f"{name}() takes {taken}, but {len(args)} were given; by name: {', '.join(by_name)}")
        try:
            of_python.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None

    return refuse


def _unread(_: str, __: str, value: Any) -> Any:
    """Returns the value as it is given: it is read later, after the arguments that its kind needs."""
    return value


def _values_of(names: list[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """Returns a function that takes the values of some names out of a mapping, as a tuple."""
    if len(names) == 1:
        return lambda given: (given[names[0]],)
    return itemgetter(*names) if names else lambda _: ()


def _public(
    call: Callable[..., Any], function: Callable[..., Any], rules: tuple[Rule, ...], kinds: Mapping[str, Kind]
) -> Callable[..., Any]:
    """Returns `call` with the name, globals, signature and docstring of `function`, and with `rules` and `kinds`.

    doctest takes only functions whose globals are those of the module that it reads. So the code of `call` runs with
    these globals, and must use no global name of this file.
    """
    code: Any = call
    public = FunctionType(code.__code__, function.__globals__, function.__name__, None, code.__closure__)
    update_wrapper(public, function)
    public.__annotations__ = get_type_hints(function)
    shown = signature(function)
    parameters = [x.replace(annotation=kinds[p].shown or x.annotation) for p, x in shown.parameters.items()]
    public.__signature__ = shown.replace(parameters=parameters)  # type: ignore[attr-defined]
    public.rules, public.kinds = rules, kinds  # type: ignore[attr-defined]
    return public
