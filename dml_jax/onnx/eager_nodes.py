"""Outside of transformations, runs a node of floats as one compiled program, which all nodes of its kind share.

Operation by operation a convolution alone would compile eight programs. Constants among the inputs are arguments of the
program, so that the iterations of an unrolled loop share it; those that decide sizes are compiled into it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..operations.programs.forced_form import forced_form
from .errors import NotConstantError
from .lazy_transpose import LazyTranspose
from .node import Node
from .traced_memory import FEW, SIZED_BY_FLOATS
from .values import is_narrowed


@dataclass(frozen=True)
class _Static:
    """A value that is compiled into a program: equal ones share it."""

    key: Hashable
    value: Any = field(compare=False)


class _NotDataError(Exception):
    """A result of a node is no data, such as a shape, so a program cannot return it."""


def compute(node: Node, values: Sequence[Any]) -> Any:
    """Returns what the function of a node returns of its inputs."""
    keywords = node.keywords(values)
    inputs = {name: value for name, value in keywords.items() if name not in node.attributes and name != "count"}
    is_sized = node.op_type in SIZED_BY_FLOATS
    static = {
        name: _static(value)
        for name, value in keywords.items()
        if name not in inputs or (is_sized and isinstance(value, np.ndarray) and value.size <= FEW)
    }
    if _are_floats(jax.tree.leaves(inputs)) and None not in static.values():
        data = {name: value for name, value in inputs.items() if name not in static}
        try:
            return _program(node.function, tuple(keywords), tuple(static.items()), forced_form())(data)
        except (_NotDataError, NotConstantError):
            pass
    return node.function(**keywords)


def _are_floats(values: Sequence[Any]) -> bool:
    """Whether all values are floats that JAX takes as they are, and some of them data outside of transformations."""
    arrays = all(isinstance(x, (np.ndarray, jax.Array)) and not isinstance(x, Tracer) for x in values)
    is_data = arrays and any(isinstance(x, jax.Array) for x in values)
    return is_data and all(jnp.issubdtype(x.dtype, jnp.floating) and not is_narrowed(x.dtype) for x in values)


def _static(value: Any) -> _Static | None:
    """Returns an attribute or a few known numbers for a program; None for what must not be compiled into one."""
    if isinstance(value, np.ndarray):
        return _Static((value.dtype, value.shape, value.tobytes()), value)
    items = value if isinstance(value, list) else [value]
    return _Static(repr(value), value) if all(isinstance(item, (int, float, str)) for item in items) else None


@lru_cache(maxsize=4096)
def _program(
    function: Callable[..., Any], names: tuple[str, ...], static: tuple[tuple[str, _Static], ...], form: str | None
) -> Callable[[Mapping[str, Any]], Any]:
    """Returns a node's function of data as a program.

    Args:
      function: of the node.
      names: of its keywords, in order: the operands of some are their values one after the other.
      static: values that are compiled into the program, by keyword.
      form: the one of `use_form`, which the program is compiled in.
    """
    known = {name: entry.value for name, entry in static}

    @jax.jit
    def run(data: Mapping[str, Any]) -> Any:
        values = {**known, **data}
        results = jax.tree.map(_in_order, function(**{name: values[name] for name in names}))
        if not all(isinstance(result, jax.Array) for result in jax.tree.leaves(results)):
            raise _NotDataError
        return results

    return run


def _in_order(result: Any) -> Any:
    return result.array if isinstance(result, LazyTranspose) else result
