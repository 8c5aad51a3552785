"""Says which constants take long to compute, so that `check`, which asks for sizes alone, leaves them out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from .node import Node
from .traced_memory import NOT_SIZED

__all__ = ["are_long_products", "is_long_loop"]

MOST_PRODUCTS = 2**32  # pairs of elements: a second of a core
MOST_ITERATIONS = 2**20  # of one node: some tenths of a second
FEW = 8  # iterations, in each of which there may be others


def are_long_products(node: Node, values: Sequence[Any]) -> bool:
    """Whether a node may multiply very many pairs of elements, as convolutions and products of matrices do."""
    return node.op_type not in NOT_SIZED and prod(max(1, np.size(x)) for x in values if x is not None) > MOST_PRODUCTS


def is_long_loop(node: Node, values: Sequence[Any]) -> bool:
    """Whether a node is a loop of many iterations, or of a number that is not known, or has loops in its iterations."""
    if node.op_type not in _LOOPS:
        return False
    sizes = (n for x in values for n in np.shape(x))
    trips = _number(values[0]) if node.op_type == "Loop" else max(sizes, default=0)
    nodes = list(_inside(node))
    if any(getattr(step, "op_type", "") in _LOOPS for step in nodes):
        return trips > FEW
    return trips * len(nodes) > MOST_ITERATIONS


_LOOPS = ("Loop", "Scan")


def _number(trips: Any) -> float:
    return float("inf") if trips is None else float(np.max(trips))


def _inside(step: Any) -> Iterator[Any]:
    """Yields the steps in the graphs of a node, or in the function that it calls."""
    blocks: Iterable[Any] = step.attributes.values() if isinstance(step, Node) else [step.own]
    for inner in (inner for block in blocks for inner in getattr(block, "steps", ())):
        yield inner
        yield from _inside(inner)
