"""Says which constants take long to compute, so that `check`, which asks for sizes alone, leaves them out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from typing import Any

import numpy as np

from .node import Node

MOST_PRODUCTS = 2**32  # pairs of elements: a second of a core
MOST_ITERATIONS = 2**20  # of one node: some tenths of a second
FEW = 8  # iterations, in each of which there may be others

_LEFT_OUT: ContextVar[list[str] | None] = ContextVar("left_out", default=None)


@contextmanager
def leaving_out() -> Iterator[list[str]]:
    """Context in which constants that take long to compute become data; it yields the labels of their nodes."""
    labels: list[str] = []
    token = _LEFT_OUT.set(labels)
    try:
        yield labels
    finally:
        _LEFT_OUT.reset(token)


def is_left_out(label: str) -> bool:
    """Whether the outputs of a node that take long may become data, which `leaving_out` then knows."""
    labels = _LEFT_OUT.get()
    if labels is None:
        return False
    labels.append(label)
    return True


# The position of the weights of convolutions; products of matrices, the first of which is their first input.
_WEIGHTS = {"Conv": 1, "ConvInteger": 1, "ConvTranspose": 1, "DeformConv": 1, "QLinearConv": 3}
_MATRICES = {"Gemm", "MatMul", "MatMulInteger", "QLinearMatMul"}


def are_long_products(node: Node, values: Sequence[Any], results: Sequence[Any]) -> bool:
    """Whether a node multiplies very many pairs of elements, as convolutions and products of matrices may."""
    if node.op_type == "Einsum":
        return _einsum_products(node.attributes["equation"], values) > MOST_PRODUCTS
    if node.op_type in _WEIGHTS:
        summed = prod(np.shape(values[_WEIGHTS[node.op_type]])[1:])
    elif node.op_type in _MATRICES:
        shape = np.shape(values[0])
        summed = shape[0 if node.attributes.get("transA") else -1]
    else:
        return False
    elements = np.size(values[0]) if node.op_type == "ConvTranspose" else prod(results[0].shape)
    return elements * summed > MOST_PRODUCTS


def _einsum_products(equation: str, values: Sequence[Any]) -> int:
    """Returns the product of the sizes of all subscripts, those of an ellipsis in each operand."""
    sizes: dict[Any, int] = {}
    for term, x in zip(equation.partition("->")[0].replace(" ", "").split(","), values, strict=True):
        names = [(term, k) for k in range(np.ndim(x))] if "..." in term else term
        sizes |= dict(zip(names, np.shape(x), strict=True))
    return prod(sizes.values())


def is_long_loop(node: Node, values: Sequence[Any]) -> bool:
    """Whether a node is a loop of many iterations, or of a number that is not known, or has loops in its iterations."""
    if node.op_type not in _LOOPS:
        return False
    trips = _number(values[0]) if node.op_type == "Loop" else _length(node, values)
    nodes = list(_inside(node))
    if any(getattr(step, "op_type", "") in _LOOPS for step in nodes):
        return trips > FEW
    return trips * len(nodes) > MOST_ITERATIONS


_LOOPS = ("Loop", "Scan")


def _number(trips: Any) -> float:
    return float("inf") if trips is None else float(np.max(trips, initial=0))


def _length(node: Node, values: Sequence[Any]) -> int:
    """Returns the iterations of a Scan along its first input, those of a batch together."""
    if node.schema.since_version == 8:
        return prod(np.shape(values[-1])[:2])
    first: Any = next(iter(values[-node.attributes["num_scan_inputs"] :]), None)
    shape, axis = np.shape(first), [*node.attributes.get("scan_input_axes", ()), 0][0]
    return shape[axis] if -len(shape) <= axis < len(shape) else 0


def _inside(step: Any) -> Iterator[Any]:
    """Yields the steps in the graphs of a node, or in the function that it calls."""
    blocks: Iterable[Any] = step.attributes.values() if isinstance(step, Node) else [step.own]
    for inner in (inner for block in blocks for inner in getattr(block, "steps", ())):
        yield inner
        yield from _inside(inner)
