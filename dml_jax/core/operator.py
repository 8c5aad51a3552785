"""`operator` makes the public function of one that only computes."""

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
from .rules import Operands, Rule, check
from .sharding import Dims, has_mesh, on_mesh

__all__ = ["SHARDING", "operator"]

P = ParamSpec("P")
R = TypeVar("R")

SHARDING = "out_sharding"


def operator(*rules: Rule, dims: Callable[[Operands], Dims]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Reads the arguments by their kinds, checks `rules`, jits and shards: the function itself only computes.

    Args:
      rules: what the operands must satisfy, in the order in which they are judged.
      dims: names the dimensions of operands and output; those of one name are sharded together.
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
    """The jitted part: takes the form, the sharding and the attributes, which are static, then the arrays."""
    name = function.__name__
    arrays = [p for p, kind in kinds.items() if kind.is_array]
    static = [p for p, kind in kinds.items() if not kind.is_array and p != SHARDING]

    def traced(fixed: tuple[Any, ...], *given: Any) -> Any:
        form, sharding, attributes = fixed
        values = dict(zip(arrays, given, strict=True)) | dict(zip(static, attributes, strict=True))
        operands = {p: values[p] for p, kind in kinds.items() if kind.is_shown}
        check(name, rules, operands)
        flat = _flat(arrays, given)

        def compute(*arrays_: Any) -> Any:
            return function(**values | _grouped(arrays, given, arrays_))

        with forcing(form):
            if has_mesh(sharding, flat):
                return on_mesh(name, compute, dims(operands), sharding, **flat)
            return function(**values)

    traced.__name__ = name
    return jax.jit(traced, static_argnums=0)


def _flat(names: list[str], given: tuple[Any, ...]) -> dict[str, Any]:
    """Every array by name, those of a sequence as `inputs[0]`."""
    flat: dict[str, Any] = {}
    for name, value in zip(names, given, strict=True):
        flat |= {f"{name}[{i}]": one for i, one in enumerate(value)} if isinstance(value, tuple) else {name: value}
    return flat


def _grouped(names: list[str], like: tuple[Any, ...], flat: tuple[Any, ...]) -> dict[str, Any]:
    """What `_flat` took apart."""
    rest = iter(flat)
    return {
        name: tuple(next(rest) for _ in value) if isinstance(value, tuple) else next(rest)
        for name, value in zip(names, like, strict=True)
    }


def _reader(function: Callable[..., Any], kinds: Mapping[str, Kind], jitted: Callable[..., Any]) -> Callable[..., Any]:
    """Reads the arguments of a call, each by its kind; only those that are given, as calls may be many and small."""
    name, of_python = function.__name__, signature(function)
    parameters = of_python.parameters
    positional = [p for p, x in parameters.items() if x.kind is Parameter.POSITIONAL_OR_KEYWORD]
    readers = {p: _unread if kind.needs else kind.read for p, kind in kinds.items()}
    at_place, places = [(p, readers[p]) for p in positional], {p: i for i, p in enumerate(positional)}
    late = [(p, kind) for p, kind in kinds.items() if kind.needs]
    causes = {q for p, kind in late for q in (p, *kind.needs)}
    is_always_late = any(parameters[p].default is not None or p in places for p, _ in late)
    defaults = {p: x.default for p, x in parameters.items() if x.default is not Parameter.empty}
    defaults = {p: readers[p](name, p, value) for p, value in defaults.items()}
    attributes = _values_of([p for p, kind in kinds.items() if not kind.is_array and p != SHARDING])
    arrays = _values_of([p for p, kind in kinds.items() if kind.is_array])
    count, most, forced, sharding = len(kinds), len(at_place), forced_form, SHARDING

    def refuse(args: Any, kwargs: Any) -> None:
        if len(args) > most and (by_name := [p for p in parameters if p not in places]):
            taken = f"{most} positional argument{'s' * (most != 1)}"
            raise TypeError(f"{name}() takes {taken}, but {len(args)} were given; by name: {', '.join(by_name)}")
        try:
            of_python.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None  # as Python words it

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


def _unread(_: str, __: str, value: Any) -> Any:
    """The value of an argument that is read after others."""
    return value


def _values_of(names: list[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """What takes the values of some names out of a mapping."""
    if len(names) == 1:
        return lambda given: (given[names[0]],)
    return itemgetter(*names) if names else lambda _: ()


def _public(
    call: Callable[..., Any], function: Callable[..., Any], rules: tuple[Rule, ...], kinds: Mapping[str, Kind]
) -> Callable[..., Any]:
    """`call` as the function that its module defines, as doctest wants it; so it uses no global name of this file."""
    code: Any = call
    public = FunctionType(code.__code__, function.__globals__, function.__name__, None, code.__closure__)
    update_wrapper(public, function)
    public.__annotations__ = get_type_hints(function)
    shown = signature(function)
    parameters = [x.replace(annotation=kinds[p].shown or x.annotation) for p, x in shown.parameters.items()]
    public.__signature__ = shown.replace(parameters=parameters)  # type: ignore[attr-defined]
    public.rules, public.kinds = rules, kinds  # type: ignore[attr-defined]
    return public
