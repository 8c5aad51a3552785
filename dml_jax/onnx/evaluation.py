"""Runs one node: on constants at once and exactly, on data through JAX."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ..errors import DataTypeError
from .errors import OnnxError
from .nodes import Node
from .values import Array, on_device

__all__ = ["evaluate"]


def evaluate(node: Node, values: Sequence[Array | None]) -> dict[str, Array]:
    """The outputs of a node by name: at once and as constants if all inputs are."""
    try:
        keywords = node.bound(values)
        if all(value is None or isinstance(value, np.ndarray) for value in values):
            with jax.ensure_compile_time_eval(), jax.enable_x64(True), np.errstate(all="ignore"):
                results = [np.asarray(r) for r in _tuple(node.function(**keywords))]
        else:
            results = _tuple(node.function(**keywords))
        named = [(i, name) for i, name in enumerate(node.outputs) if name]
        return {name: _as_declared(node, i, results[i]) for i, name in named}
    except (TypeError, ValueError, IndexError, OverflowError) as error:
        kind = type(error) if isinstance(error, (OnnxError, DataTypeError)) else OnnxError
        raise kind(f"{node.label}: {error}") from error


def _as_declared(node: Node, which: int, result: Array) -> Array:
    """An output of the only type that its schema has, which may be int64."""
    variable = node.schema.outputs[min(which, len(node.schema.outputs) - 1)].type_str
    accepted = {c.type_param_str: list(c.allowed_type_strs) for c in node.schema.type_constraints}
    if accepted.get(variable, [variable]) == ["tensor(int64)"] and result.dtype != np.int64:
        if not isinstance(result, np.ndarray):
            on_device(np.zeros((), np.int64))  # which refuses 64 bits while x64 is off
        return result.astype(np.int64)
    return result


def _tuple(results: Any) -> tuple[Array, ...]:
    return results if isinstance(results, tuple) else (results,)
