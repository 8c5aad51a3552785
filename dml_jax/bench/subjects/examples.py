"""Cases made of the examples in the docstrings of operators, grown to a size.

Dimensions of one name, of operands and outputs, can be sharded alike: each device computes its part (`Dims`). So
operands that are repeated along such dimensions make outputs that are, and an example grows along all names that its
output shares with an operand, along each as many times. Attributes stay as they are.

Two operators have examples that cannot grow, and cases of their own: windows cover all dimensions in that of
`lp_pooling`, and the output of `random_bits` has the size that an attribute says. All others that have cases of their
own are measured on shapes of programs, which decide what is fast, or in other types.
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
from ...core.activation import Activation
from ..case import DTYPES, ROUNDED, Case, mega, shown
from .subject import Attributes, Plan, by_type

__all__ = ["grown"]


def grown(operator: str, itemsizes: Sequence[int] = (4,)) -> Mapping[str, Plan]:
    """Plans with a case for each call in an operator's example; none for an example that cannot grow.

    Args:
      operator: its name.
      itemsizes: bytes of a number: floats become those of so many bytes, and others are measured where they have them.
    """
    return by_type(partial(_cases, operator), itemsizes, quick=None)


def _cases(operator: str, size: int, itemsize: int) -> Iterator[Case]:
    kinds = FUNCTIONS[operator].kinds  # type: ignore[attr-defined]
    for given in _calls(operator):
        arrays = {name: _typed(x, itemsize) for name, x in given.items() if kinds[name].is_array}
        if next(iter(arrays.values())).dtype.itemsize == itemsize:
            yield from _grown(operator, arrays, {name: x for name, x in given.items() if name not in arrays}, size)


def _grown(operator: str, arrays: Mapping[str, np.ndarray], attributes: Attributes, size: int) -> Iterator[Case]:
    """The call on arrays of which the largest has about so many bytes, or the output."""
    function: Any = FUNCTIONS[operator]
    defaults = {name: p.default for name, p in signature(function).parameters.items()}
    dims = function.dims({**defaults, **arrays, **attributes})
    shared = {name for names in dims.operands.values() for name in names} & {*dims.output}
    output = jax.tree.leaves(jax.eval_shape(partial(function, **attributes), *arrays.values()))[0]
    named = [*((x, dims.operands.get(name, ())) for name, x in arrays.items()), (output, dims.output)]
    shares = [(x.size * x.dtype.itemsize, sum(name in shared for name in names)) for x, names in named]
    if not shared:
        return
    times = max(1, min(int((size / count) ** (1 / share)) for count, share in shares if share))
    tiles = [(x, [times if name in shared else 1 for name in names]) for x, names in named[:-1]]
    shapes = [shown(np.multiply(x.shape, tile)) for x, tile in tiles if x.ndim > 1 and tile]
    words = [f"{name}={getattr(value, 'operator_type', value)}" for name, value in attributes.items()]
    words += [f"of {' and '.join(shapes)}"] if shapes else []
    dtype = named[0][0].dtype
    yield Case(
        operator,
        f"{', '.join(words)}{', ' if words else ''}{dtype} {mega(size)}",
        attributes,
        lambda: tuple(np.tile(x, tile) for x, tile in tiles),
        sum(count * times**share for count, share in shares),
        tolerance=ROUNDED[dtype.itemsize] if dtype.kind == "f" else 0.0,
    )


def _typed(x: np.ndarray, itemsize: int) -> np.ndarray:
    return x.astype(DTYPES[itemsize]) if x.dtype.kind == "f" else x


class _CallError(Exception):
    """A call was found, which need not be made."""


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
