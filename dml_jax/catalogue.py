"""Finds the operators: all functions of `operators/`, and DirectML's structs by the names of their operators."""

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

from . import operators
from .core.desc import OperatorDesc

__all__ = ["DESCS", "FUNCTIONS", "STRUCTS"]

_FILES = dict.fromkeys(getattr(value, "__module__", "") for value in vars(operators).values())
# In teaching order, and in that of each file.
_PUBLIC = {
    name: value
    for file in _FILES
    if file.startswith(f"{operators.__name__}.")
    for name, value in vars(sys.modules[file]).items()
    if name in vars(operators) and getattr(value, "__module__", file) == file and not name.startswith("_")
}

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    name: value for name, value in _PUBLIC.items() if inspect.isfunction(value)
}
DESCS: tuple[type[OperatorDesc], ...] = tuple(
    dict.fromkeys(value for value in _PUBLIC.values() if inspect.isclass(value) and issubclass(value, OperatorDesc))
)
# Some operators have two names.
STRUCTS: Mapping[str, type[OperatorDesc]] = {
    name: cls for cls in DESCS for name in (cls.operator_type, *cls.other_names)
}
