"""A fingerprint of a function's code, by which a resumed run recognizes that the function was edited."""

import hashlib
import inspect
import sys
from collections.abc import Callable
from functools import partial
from types import CellType, CodeType, EllipsisType, FunctionType, MethodType, NoneType
from typing import Any

import numpy as np

_PLAIN = (bool, int, float, complex, str, bytes, range, slice, NoneType, EllipsisType)


def code_of(fn: Callable[..., Any]) -> str:
    """Returns the version of Python and a checksum of the function's code, its constants and what it has bound.

    It is the same in every process of one version of Python, which compiles the same code. Functions that it calls by
    global names are not followed, and of bound values only numbers, strings, containers of them and functions are.
    """
    unwrapped = inspect.unwrap(fn)  # of jax.jit and jax.vmap
    known = unwrapped if isinstance(unwrapped, FunctionType | MethodType | partial) else type(unwrapped).__call__
    checksum = hashlib.sha256(repr(_known(known, ())).encode()).hexdigest()
    return f"{sys.implementation.cache_tag} {checksum[:16]}"


def _known(value: Any, outer: tuple[int, ...]) -> Any:
    """Returns what is the same of a value in every process, as nested tuples; `outer` are the ids of its containers."""
    if type(value) in _PLAIN or isinstance(value, np.generic | np.dtype):
        return type(value).__name__, repr(value)
    if id(value) in outer:
        return "recursion"
    parts = [_known(part, (*outer, id(value))) for part in _parts(value)]
    return type(value).__name__, sorted(parts, key=repr) if isinstance(value, set | frozenset) else parts


def _parts(value: Any) -> list[Any]:
    """Returns what a function, its code or a container consists of; nothing of other values."""
    match value:
        case FunctionType():
            return [value.__code__, value.__defaults__, value.__kwdefaults__, *(value.__closure__ or ())]
        case CodeType():
            return [value.co_code, value.co_names, value.co_consts]
        case CellType():
            return _content(value)
        case MethodType():
            return [value.__func__]
        case partial():
            return [inspect.unwrap(value.func), value.args, value.keywords]
        case dict():
            return [*value.items()]
        case tuple() | list() | set() | frozenset():
            return [*value]
    return []


def _content(cell: CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:  # a name without a value yet
        return []
