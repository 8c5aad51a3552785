"""Limits of a model: the bytes of each array, counted before it is made, and the number of nodes after expansion."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import zip_longest
from math import isfinite, prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr

from ..core.memory_checks import array_limit, check_bytes
from ..errors import ConstraintError, describe
from .deferred import Deferred
from .errors import OnnxError
from .node import Node
from .values import is_narrowed

__all__ = [
    "DOING",
    "MAX_NODES",
    "as_data",
    "check_array",
    "check_arrays",
    "check_node",
    "check_nodes",
    "check_program_arrays",
    "count_node",
    "hold",
    "holding",
    "is_described",
    "is_large",
    "limited",
]

MAX_NODES = 2**15  # after expansion; each takes some tenths of a millisecond to trace, and longer to compile
MORE = "to_jax(model, max_nodes=...) and --max-nodes raise that number"
# A node counts once more for as many arrays of sequences that it reads: copying them takes as long.
PER_SEQUENCE = 16
MOST_DIMENSIONS = 32
FEW = 128  # elements of a constant that may be sizes
# Operators whose floats may be sizes, and those whose integers are none: they make no more than they are given.
SIZED_BY_FLOATS = {"OneHot", "Range", "Resize", "Upsample"}
NOT_SIZED = {
    *("Add", "And", "ArgMax", "ArgMin", "Cast", "Clip", "Concat", "Constant", "Div", "Equal", "Gather"),
    *("GatherElements", "GatherND", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Max", "Min"),
    *("Mod", "Mul", "Neg", "Not", "Or", "Pow", "Reshape", "ScatterElements", "ScatterND", "Slice", "Split", "Squeeze"),
    *("Sub", "Sum", "Transpose", "Unsqueeze", "Where"),
}
# Operators that keep NumPy's numbers for each position along a dimension: indices, weights, what these are made of.
BY_POSITION = {
    *("AveragePool", "LpPool", "MaxPool", "MaxRoiPool", "QLinearAveragePool", "RoiAlign"),
    *("MelWeightMatrix", "Resize", "STFT", "Upsample"),
}
POSITION_BYTES = 1024


@dataclass
class _Usage:
    """The nodes and bytes that a call of a model has used, and their limits.

    Args:
      max_nodes: how many nodes it may run.
      nodes: that it has run.
      held: bytes of arrays that it has made and keeps.
      describes: whether large constants are not computed, as only their sizes are asked for.
      limit: of the memory, and whose it is, once it was looked up.
    """

    max_nodes: int
    nodes: int = 0
    held: int = 0
    describes: bool = False
    limit: tuple[int | None, str] | None = None


_USAGE: ContextVar[_Usage | None] = ContextVar("usage", default=None)


@contextmanager
def limited(max_nodes: int, describes: bool = False) -> Iterator[None]:
    """Context of one call of a model, in which its nodes and the bytes that it holds are counted.

    Args:
      max_nodes: how many nodes may run.
      describes: whether large constants are not computed, as only their sizes are asked for; or one around says so.
    """
    outer = _USAGE.get()
    token = _USAGE.set(_Usage(max_nodes, describes=describes or (outer is not None and outer.describes)))
    try:
        yield
    finally:
        _USAGE.reset(token)


# Nodes.


def check_nodes(count: int, max_nodes: int) -> None:
    """Compares the nodes of a graph, those of functions in each call, with the limit.

    Raises:
      OnnxError: there are more.
    """
    if count > max_nodes:
        rule = f"there must be at most {max_nodes} nodes, those of functions in each call"
        raise OnnxError(f"{rule}, but there are {count if count < 10**9 else 'more than 10**9'}; {MORE}")


class _Doing:
    """What the latest call of a model does, in words, for another thread to tell."""

    text = ""


DOING = _Doing()


def count_node(label: str, leaves: int = 0) -> None:
    """Counts a node that runs, of a function in each call, and of a loop in each iteration that is unrolled.

    Args:
      label: of the node.
      leaves: arrays that it reads, those of sequences one by one.

    Raises:
      OnnxError: there are too many.
    """
    if usage := _USAGE.get():
        usage.nodes += 1 + leaves // PER_SEQUENCE
        DOING.text = f"{label}, after {usage.nodes - 1} nodes"
        if usage.nodes > usage.max_nodes:
            rule = f"at most {usage.max_nodes} nodes may run, those of functions in each call, and of loops in each"
            raise OnnxError(f"{rule} iteration that is unrolled, but there are more; {MORE}")


# Bytes.


def check_arrays(arrays: Mapping[str, Any]) -> None:
    """Compares each array alone with the memory of the machine or container, or of all devices together.

    Args:
      arrays: values by name.

    Raises:
      ConstraintError: one of them takes more.
    """
    for name, value in arrays.items():  # the elements of a sequence were outputs, or are parts of an input
        check_array(f"output {name!r}", value)


def check_array(name: str, array: Any) -> None:
    """Compares an array, or what else has a shape and a dtype, with the memory that there is.

    Raises:
      ConstraintError: it takes more, or has more dimensions than NumPy and JAX can handle everywhere.
    """
    if len(getattr(array, "shape", ())) > MOST_DIMENSIONS:
        rule = f"an array must have at most {MOST_DIMENSIONS} dimensions"
        raise ConstraintError(f"{rule}, but {name} has {len(array.shape)}")
    if (size := _bytes(array)) > _SURELY_FITS:
        check_bytes({f"{name}, {describe(array)}": size}, "one array", *_limit(size))


_SURELY_FITS = 2**24


def _limit(needed: int) -> tuple[int | None, str]:
    usage = _USAGE.get()
    if usage is None:
        return array_limit(needed)
    usage.limit = usage.limit or array_limit(0)
    limit = usage.limit[0]
    return usage.limit if limit is None or needed <= limit else array_limit(needed)


def _bytes(value: Any) -> int:
    """Bytes of an array; 0 where a size is symbolic, and of what is computed lazily.

    A size of 0 counts as 1: XLA multiplies the others, and ends the process if the product leaves 63 bits.
    """
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or isinstance(value, Deferred) or not all(isinstance(n, int) for n in shape):
        return 0
    return prod(n or 1 for n in shape) * getattr(dtype, "itemsize", 1)


@contextmanager
def holding() -> Iterator[Callable[[Any], None]]:
    """Context of a block or an iteration; it yields a function that takes the arrays which outlive the context."""
    usage, kept = _USAGE.get(), 0
    before = usage.held if usage else 0

    def keep(values: Any) -> None:
        nonlocal kept
        kept = _held(jax.tree.leaves(values)) if usage else 0

    try:
        yield keep
    finally:
        if usage:
            usage.held = before + kept


def hold(made: Mapping[str, Any], read: Sequence[Any]) -> None:
    """Counts the arrays that a node makes at once, of constants and of data, with all that the call has made before.

    Args:
      made: values by name.
      read: those that the node reads, and may pass on.

    Raises:
      ConstraintError: together they do not fit in memory.
    """
    if (usage := _USAGE.get()) and (size := _held(jax.tree.leaves(list(made.values())), read)):
        usage.held += size
        if usage.held > _SURELY_FITS:
            needed = {"all that nodes before it made": usage.held - size, f"output {next(iter(made))!r}": size}
            check_bytes(needed, "the values of its nodes", *_limit(usage.held))


def _held(arrays: Sequence[Any], read: Sequence[Any] = ()) -> int:
    """Bytes of arrays that are no tracers, no views, and none of those that are read."""
    old = set(map(id, read))
    new = (x for x in arrays if id(x) not in old and not isinstance(x, Tracer))
    return sum(_bytes(x) for x in new if getattr(x, "base", None) is None)


# Intermediates.


def check_node(node: Node, values: Sequence[Any]) -> None:
    """Counts what a node will make, if the numbers that it is given could ask for an array that is too large.

    It is traced for that, and nothing is computed.

    Raises:
      ConstraintError: an array would not fit in memory.
    """
    most = _most_bytes(node, values)
    if most <= _SURELY_FITS or most <= (_limit(0)[0] or 2**63):
        return
    leaves = jax.tree.leaves(list(values))
    if node.op_type in BY_POSITION:
        _check_positions(node, leaves)
    try:
        if any(isinstance(x, Tracer) for x in leaves):
            program = _program(node, values)
        else:
            is_wide = all(isinstance(x, np.ndarray) for x in leaves) or not is_narrowed(np.int64)
            program = _apart(lambda: _program(node, as_data(values)), is_wide)
    except Exception:  # which the node itself will raise
        return
    check_program_arrays(program)


def _most_bytes(node: Node, values: Sequence[Any]) -> int | float:
    """Bytes that no array of a node exceeds: 8 for each element, of which the numbers in its inputs may ask for many.

    An operator may make the product of all constants. Of data, which are large in every network, it is taken to make
    what they have when they are broadcast together: (4, 1, 3) and (5, 1) make 4 * 5 * 3.
    """
    if any(isinstance(value, jax.Array) for value in values):
        shapes = [_known_sizes(getattr(value, "shape", (_size(value),))) for value in values]
        elements = prod(max(1, *sizes) for sizes in zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1))
    else:
        elements = prod(max(1, _size(value)) for value in values)
    return 8 * prod(_numbers(node, values)) * elements


def _known_sizes(shape: Sequence[Any]) -> list[int]:
    return [n if isinstance(n, int) else 1 for n in shape]


def _size(value: Any) -> int:
    """Elements of an array, or of all arrays of a sequence; 0 where a size is symbolic."""
    shape = getattr(value, "shape", None)
    if shape is None:
        return sum(map(_size, getattr(value, "items", ())))
    return prod(shape) if all(isinstance(n, int) for n in shape) else 0


def is_described(node: Node, values: Sequence[Any]) -> bool:
    """Whether only the sizes of what a node makes are asked for, and it may be large."""
    usage = _USAGE.get()
    return usage is not None and usage.describes and _most_bytes(node, values) > _SURELY_FITS


def is_large(results: Sequence[Any]) -> bool:
    """Whether arrays are too large to compute them where only their sizes are asked for."""
    return sum(map(_bytes, jax.tree.leaves(results))) > _SURELY_FITS


def as_data(values: Sequence[Any]) -> list[Any]:
    """Constants as arrays of JAX, so that what is made of them is traced, and their values can still decide sizes."""
    with jax.ensure_compile_time_eval():
        return [jax.tree.map(jnp.asarray, value) for value in values]


def _check_positions(node: Node, leaves: Sequence[Any]) -> None:
    numbers = list(_numbers(node, leaves))
    longest = max((n for x in leaves for n in x.shape), default=1)
    count = longest + max((n for n in numbers if isinstance(n, int)), default=1)
    count *= max((n for n in numbers if isinstance(n, float)), default=1)
    size = int(count) * POSITION_BYTES
    check_bytes({f"{count:.0f} positions along a dimension": size}, "its indices", *_limit(size))


def _program(node: Node, values: Sequence[Any]) -> ClosedJaxpr:
    return jax.make_jaxpr(lambda: (node.function(**node.keywords(values)), None)[1])()


def _apart(run: Callable[[], Any], is_wide: bool) -> Any:
    """Runs a function in a thread of its own: in none of the contexts around, which may compute constants at once."""

    def apart() -> Any:
        with jax.enable_x64(is_wide), np.errstate(all="ignore"):
            return run()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(apart).result()


def _numbers(node: Node, values: Sequence[Any]) -> Iterator[int | float]:
    """Yields the numbers that a node is given, and that could be sizes: of attributes, and of few constants."""
    if node.op_type in NOT_SIZED:
        return
    kinds = (int, float) if node.op_type in SIZED_BY_FLOATS else int
    for value in (*node.attributes.values(), *values):
        if isinstance(value, np.ndarray):
            value = value.ravel().tolist() if value.size <= FEW and value.dtype.kind in "iuf" else []
        for number in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(number, kinds) and not abs(number) <= 1:
                yield abs(number) if isfinite(number) else 2.0**64


def check_program_arrays(program: ClosedJaxpr, labels: Sequence[str] = ()) -> None:
    """Counts every array that a traced program makes.

    Args:
      program: that is traced.
      labels: of its nodes, for messages; node number 3 is traced in the jax.named_scope "3".

    Raises:
      ConstraintError: one would not fit in memory.
    """
    for equation in program.jaxpr.eqns:
        try:
            _check_equation(equation)
        except ConstraintError as error:
            number = str(equation.source_info.name_stack).partition("/")[0]
            raise ConstraintError(f"{labels[int(number)]}: {error}") if labels else error from None


def _check_equation(equation: Any) -> None:
    for made in equation.outvars:
        check_array("an intermediate", made.aval)
    for parameter in jax.tree.leaves(list(equation.params.values())):
        for inner in getattr(getattr(parameter, "jaxpr", parameter), "eqns", ()):
            _check_equation(inner)
