"""Traces a node, or a whole program, for the bytes of all that it will make, before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from math import isfinite, prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr

from ..core.memory_checks import check_bytes
from ..errors import ConstraintError
from .deferred import Deferred
from .memory_limits import SURELY_FITS, bytes_of, check_array, memory_limit
from .node import Node
from .stated_sizes import Maximum
from .values import is_narrowed

FEW = 128  # elements of a constant that may be sizes
MANY = 2**28  # bytes of a constant that take long to compute
# Operators whose floats may be sizes, and those whose integers are none: they make no more than they are given.
SIZED_BY_FLOATS = {"OneHot", "Range", "Resize", "Upsample"}
NOT_SIZED = {
    *("Add", "And", "ArgMax", "ArgMin", "Cast", "Clip", "Concat", "Constant", "Div", "Equal", "Gather"),
    *("GatherElements", "GatherND", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Max", "Min"),
    *("Mod", "Mul", "Neg", "Not", "Or", "Pow", "Reshape", "ScatterElements", "ScatterND", "Slice", "Split", "Squeeze"),
    *("Sub", "Sum", "Transpose", "Unsqueeze", "Where"),
}
# Operators whose constants are broadcast together, too: they make no more than that, times their numbers.
BROADCAST = {"DequantizeLinear", "QuantizeLinear"}
# Operators that keep NumPy's numbers for each position along a dimension: indices, weights, what these are made of.
BY_POSITION = {
    *("AveragePool", "LpPool", "MaxPool", "MaxRoiPool", "QLinearAveragePool", "RoiAlign"),
    *("MelWeightMatrix", "Resize", "STFT", "Upsample"),
}
POSITION_BYTES = 1024


def check_node(node: Node, values: Sequence[Any]) -> None:
    """Counts what a node will make, if the numbers that it is given could ask for an array that is too large.

    It is traced for that, and nothing is computed.

    Raises:
      ConstraintError: an array would not fit in memory.
    """
    most = _most_bytes(node, values)
    if most <= SURELY_FITS or most <= (memory_limit(0)[0] or 2**63):
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

    Most operators may make the product of all constants. Of data, which are large in every network, it is taken to make
    what they have when they are broadcast together: (4, 1, 3) and (5, 1) make 4 * 5 * 3.
    """
    if node.op_type in BROADCAST or any(isinstance(value, jax.Array) for value in values):
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


def may_be_large(node: Node, values: Sequence[Any]) -> bool:
    """Whether the numbers that a node is given could ask for a large array."""
    return _most_bytes(node, values) > SURELY_FITS


def are_large(results: Sequence[Any], most: int = SURELY_FITS) -> bool:
    """Whether arrays have more bytes together."""
    return sum(map(bytes_of, jax.tree.leaves(results))) > most


def as_data(values: Sequence[Any]) -> list[Any]:
    """Constants as arrays of JAX, so that what is made of them is traced, and their values can still decide sizes.

    Those of 64 bits are cut to 32 unless x64 is on.
    """
    with jax.ensure_compile_time_eval():
        return [jax.tree.map(jnp.asarray, value) for value in values]


def _check_positions(node: Node, leaves: Sequence[Any]) -> None:
    numbers = list(_numbers(node, leaves))
    longest = max((n for x in leaves for n in x.shape), default=1)
    count = longest + max((n for n in numbers if isinstance(n, int)), default=1)
    count *= max((n for n in numbers if isinstance(n, float)), default=1)
    size = int(count) * POSITION_BYTES
    check_bytes({f"{count:.0f} positions along a dimension": size}, "its indices", *memory_limit(size))


def _program(node: Node, values: Sequence[Any]) -> ClosedJaxpr:
    # What is deferred keeps its array, which is of this trace alone.
    values = [value.copied() if isinstance(value, Deferred) else value for value in values]
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
        if isinstance(value, Maximum):
            value = value.stated
        elif isinstance(value, np.ndarray):
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
