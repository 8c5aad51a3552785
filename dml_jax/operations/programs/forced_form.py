"""The form that `use_form` forces, kept until JAX has lowered and transposed the functions that were traced inside."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_FORCED: ContextVar[str | None] = ContextVar("form", default=None)

# The name given to the innermost `use_form`; None outside. Every call asks: a function would take 1 % of a small one.
forced_form: Callable[[], str | None] = _FORCED.get


@contextmanager
def forcing(name: str | None) -> Iterator[None]:
    """Forces a form that exists, or with None none."""
    token = _FORCED.set(name)
    try:
        yield
    finally:
        _FORCED.reset(token)


def under(name: str | None, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with the form of that name forced wherever it is called."""

    def forced(*arguments: Any) -> Any:
        with forcing(name):
            return function(*arguments)

    return forced
