"""`operator`: the decorator of a function that only computes. Its arguments are read, checked, jitted and sharded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import jax

from ...operations.programs.forced_form import forcing
from ..rules import Operands, Rule, check
from ..sharding import Dims, has_mesh, on_mesh
from .arrays import check_compiled
from .exact_scalars import KnownNumber
from .kinds import Kind, kinds_of
from .ports import by_argument, ports_of
from .public_function import SHARDING, public_function

P = ParamSpec("P")
R = TypeVar("R")


def operator(*rules: Rule, dims: Callable[[Operands], Dims]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Makes the public function of an operator; the function that it decorates only computes, on arrays that fit.

    A call goes through three steps: `public_function` reads each argument by its kind, outside of tracing; `_traced`
    checks the rules and shards, inside of one `jax.jit`; the decorated function computes.

    Args:
      rules: the constraints of the operands, in the order in which they are checked; the first one broken is raised.
      dims: takes the operands; returns the names of the dimensions of operands and output. Dimensions of the same name
        are sharded in the same way.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        kinds = kinds_of(function)
        public: Any = public_function(function, kinds, _traced(function, kinds, rules, dims))
        public.rules, public.kinds, public.dims = rules, kinds, dims
        return public

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
        read = (x.as_array() if isinstance(x, KnownNumber) else x for x in given)
        by_name = dict(zip(arrays, read, strict=True))
        values = by_name | dict(zip(static, attributes, strict=True))
        operands = {p: values[p] for p, kind in kinds.items() if kind.is_shown}
        flat = ports_of(by_name)
        check_compiled(name, {f"{p}.dtype": x.dtype for p, x in flat.items() if x is not None})
        check(name, rules, operands)

        def compute(*ports: Any) -> Any:
            return function(**values | by_argument(dict(zip(flat, ports, strict=True)), like=by_name))

        with forcing(form), _naming_operator(name):
            if has_mesh(sharding, flat):
                return on_mesh(name, compute, dims(operands), sharding, **flat)
            return function(**values)

    traced.__name__ = name
    return jax.jit(traced, static_argnums=0)


@contextmanager
def _naming_operator(name: str) -> Iterator[None]:
    """Context in which errors of `jax_debug_nans` name the operator, not a primitive of it such as "stage"."""
    try:
        yield
    except FloatingPointError as error:
        raise FloatingPointError(re.sub(r"(?<= encountered in )\S+$", name, str(error))) from error
