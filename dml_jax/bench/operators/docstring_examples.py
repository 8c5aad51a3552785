"""Benchmark cases from the examples in docstrings, with arrays repeated to a size.

Dimensions of one name, of operands and outputs, can be sharded alike: each device computes its part (`Dims`). So
operands that are repeated along such dimensions make outputs that are, and an example grows along all names that its
output shares with an operand, along each as many times. Attributes stay as they are.

Some examples cannot grow: in those of pooling, windows cover all dimensions, and the sizes of views, of slices and of
outputs that are filled, such as that of `random_bits`, are attributes. These operators have cases of their own. So have
others, where the shapes of programs decide what is fast: an example has rows of a few elements.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from doctest import DocTestParser
from functools import cache, partial
from inspect import signature
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np

from ...catalogue import FUNCTIONS
from ...core.sharding import Dims
from ...core.structs.activation import Activation
from ..case import DTYPES, ROUNDED, Case, Drawn, dims, mib
from .operator_benchmark import Attributes, Plan, by_type


def grown(operator: str, itemsizes: Sequence[int] = (4,)) -> Mapping[str, Plan]:
    """Plans with a case for each call in an operator's example; none for an example that cannot grow.

    By bytes of a number: floats become those of so many bytes, and others are measured where they have them.
    """
    return by_type(partial(_cases, operator), itemsizes, quick=None)


def _cases(operator: str, size: int, itemsize: int) -> Iterator[Case]:
    for given in _calls(operator):
        arrays = {name: _typed(x, itemsize) for name, x in given.items() if isinstance(x, np.ndarray)}
        if itemsize in [x.dtype.itemsize for x in arrays.values()][:1]:
            yield from _grown(operator, arrays, {name: x for name, x in given.items() if name not in arrays}, size)


def _typed(x: np.ndarray, itemsize: int) -> np.ndarray:
    return x.astype(DTYPES[itemsize]) if x.dtype.kind == "f" else x


def _dims(function: Any, given: Attributes) -> Dims:
    """The names of dimensions in a call, whose attributes are read as a call reads them."""
    values = {name: given.get(name, p.default) for name, p in signature(function).parameters.items()}
    read = {name: kind for name, kind in function.kinds.items() if not (kind.is_array or kind.needs)}
    return function.dims(
        values | {name: kind.read(function.__name__, name, values[name]) for name, kind in read.items()}
    )


def _grown(operator: str, arrays: Mapping[str, np.ndarray], attributes: Attributes, size: int) -> Iterator[Case]:
    """The call on arrays of which the largest, or the output, has about so many bytes."""
    function, letters = FUNCTIONS[operator], _dims(FUNCTIONS[operator], {**arrays, **attributes})
    shared = {name for names in letters.operands.values() for name in names} & {*letters.output}
    if not shared:
        return
    output = jax.tree.leaves(jax.eval_shape(partial(function, **attributes), *arrays.values()))[0]
    operands = [(x, [name in shared for name in letters.operands.get(p, ())]) for p, x in arrays.items()]
    named = [*operands, (output, [name in shared for name in letters.output])]
    shares = [(x.size * x.dtype.itemsize, sum(grows)) for x, grows in named]
    times = max(1, min(int((size / count) ** (1 / share)) for count, share in shares if share))
    tiles = [(x, [times if grow else 1 for grow in grows]) for x, grows in operands]
    dtype = tiles[0][0].dtype
    shapes = [tuple(n * times for n, times in zip(x.shape, tile, strict=True)) for x, tile in tiles]
    repeated = [Drawn(s, x.dtype, partial(np.tile, x, tile)) for s, (x, tile) in zip(shapes, tiles, strict=True)]
    tolerance = ROUNDED[dtype.itemsize] if dtype.kind == "f" else 0.0
    detail = f"{_worded(attributes, shapes)}{dtype} {mib(size)}"
    yield Case(operator, detail, attributes, repeated, tolerance=tolerance)


def _worded(attributes: Attributes, shapes: Sequence[tuple[int, ...]]) -> str:
    """Attributes, and the sizes of arrays of more than one dimension."""
    words = [f"{name}={getattr(value, 'operator_type', value)}" for name, value in attributes.items()]
    sizes = [dims(shape) for shape in shapes if len(shape) > 1]
    return "".join(f"{word}, " for word in (*words, *([f"of {' and '.join(sizes)}"] if sizes else [])))


class _CallError(Exception):
    """Stops an example at a call, once its arguments are recorded."""


@cache
def _calls(operator: str) -> Sequence[Mapping[str, Any]]:
    """The arguments of each call in an operator's example."""
    function, found = FUNCTIONS[operator], []

    def called(*given: Any, **named: Any) -> None:
        found.append(signature(function).bind(*given, **named).arguments)
        raise _CallError

    names = {"np": np, "dml_jax": SimpleNamespace(Activation=Activation, **{operator: called})}
    for example in DocTestParser().get_examples(function.__doc__ or ""):
        if not example.source.startswith("import "):
            with suppress(_CallError, NameError):  # of what a call would have returned
                exec(example.source, names)
    return found
