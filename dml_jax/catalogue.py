"""Finds the operators: the functions of `operators/`, and DirectML's structs by the names of their operators."""

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

from . import descs, operators
from .core.structs.operator_desc import OperatorDesc

_MODULES = dict.fromkeys(getattr(value, "__module__", "") for value in vars(descs).values())
# In teaching order, and in that of each file.
_PUBLIC = {
    name: value
    for module in _MODULES
    if module.startswith(f"{operators.__name__}.")
    for name, value in vars(sys.modules[module]).items()
    if name in vars(descs) and getattr(value, "__module__", module) == module and not name.startswith("_")
}
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    name: value for name, value in _PUBLIC.items() if name in vars(operators) and inspect.isfunction(value)
}
DESCS: tuple[type[OperatorDesc], ...] = tuple(
    dict.fromkeys(value for value in _PUBLIC.values() if inspect.isclass(value) and issubclass(value, OperatorDesc))
)
# Some operators have two names.
STRUCTS: Mapping[str, type[OperatorDesc]] = {
    name: cls for cls in DESCS for name in (cls.operator_type, *cls.other_names)
}


def page_of(value: Any) -> str:
    """The name of the file of an operator, which is that of its page and of its test."""
    return str(value.__module__).rpartition("._")[2]


PAGES = tuple(dict.fromkeys(page_of(value) for value in _PUBLIC.values() if value in (*FUNCTIONS.values(), *DESCS)))


def computed_by(cls: type[OperatorDesc]) -> str:
    """The function that computes a struct: one of JAX, or that of its file."""
    here = (f"dml_jax.{name}" for name, value in FUNCTIONS.items() if page_of(value) == page_of(cls))
    return cls.in_jax or next(here, "")
