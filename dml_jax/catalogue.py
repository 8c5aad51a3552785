"""What `operators/` has, by kind: the functions, and DirectML's structs by the names of their operators."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from . import operators
from .core.desc import OperatorDesc

__all__ = ["DESCS", "FUNCTIONS", "STRUCTS"]

_PUBLIC = {name: value for name, value in vars(operators).items() if not name.startswith("_")}

# In teaching order.
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
