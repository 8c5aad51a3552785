"""Counts the nodes that a model has, and those that a call of it runs, against a limit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from .errors import OnnxError

MAX_NODES = 2**14  # after expansion; each takes some tenths of a millisecond to trace, and longer to compile
MORE = "to_jax(model, max_nodes=...) and --max-nodes raise that number"
# A node counts once more for as many arrays of sequences that it reads: copying them takes as long.
PER_SEQUENCE = 16


@dataclass
class _Count:
    """The nodes that a call has run, and the most that it may run."""

    most: int
    nodes: int = 0


_COUNT: ContextVar[_Count | None] = ContextVar("count", default=None)


@contextmanager
def counting_nodes(most: int) -> Iterator[None]:
    """Context of one call of a model, which may run so many nodes."""
    token = _COUNT.set(_Count(most))
    try:
        yield
    finally:
        _COUNT.reset(token)


def check_nodes(count: int, max_nodes: int) -> None:
    """Compares the nodes of a graph, those of functions in each call, with the limit.

    Raises:
      OnnxError: there are more.
    """
    if count > max_nodes:
        rule = f"there must be at most {max_nodes} nodes, those of functions in each call"
        raise OnnxError(f"{rule}, but there are {count if count < 10**9 else 'more than 10**9'}; {MORE}")


def count_node(leaves: int = 0) -> int:
    """Counts a node that runs, of a function in each call, and of a loop in each iteration that is unrolled.

    Args:
      leaves: arrays that it reads, those of sequences one by one.

    Returns:
      How many nodes the call has run before.

    Raises:
      OnnxError: there are too many.
    """
    count = _COUNT.get()
    if count is None:
        return 0
    before, count.nodes = count.nodes, count.nodes + 1 + leaves // PER_SEQUENCE
    if count.nodes > count.most:
        rule = f"at most {count.most} nodes may run, those of functions in each call, and of loops in each"
        raise OnnxError(f"{rule} iteration that is unrolled, but there are more; {MORE}")
    return before
