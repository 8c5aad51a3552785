"""Shared cases of cumulative sums and products: an oracle by loops, and random structs."""

from functools import partial
from itertools import product

import numpy as np
from draws import dims
from operator_cases import f32
from oracles import coordinates
from small_arrays import numbered

# DirectML's documented rows.
ROWS = f32(1, 1, 3, 4)
NUMBERS = [2, 1, 3, 5, 3, 8, 7, 3, 9, 6, 2, 4]


def accumulated(combine, start, input, axis, direction, exclusive):
    """Python's numbers combined one by one, each result brought to the type once."""
    output = np.empty_like(input)
    for at in coordinates(input.shape):
        axis_, end = axis % input.ndim, input.shape[axis]
        here = at[axis_]
        visited = range(here + 1) if direction == "increasing" else range(end - 1, here - 1, -1)
        found = start
        for k in visited:
            if not (exclusive and k == here):
                found = combine(found, _number(input[(*at[:axis_], k, *at[axis_ + 1 :])]))
        output[at] = _element(found, input.dtype)
    return output


def _number(element):
    return element.item() if element.dtype.kind in "biufc" else float(element)


def _element(number, dtype):
    """Of an integer the low bits."""
    if dtype.kind in "iu":
        return np.array(number % 2 ** (8 * dtype.itemsize), np.uint64).astype(dtype)
    return np.array(number).astype(dtype)


def every_call(function, oracle, shapes):
    """Along every axis, in both directions, exclusive or not."""
    for shape in shapes:
        for axis, direction, exclusive in product(
            range(-len(shape), len(shape)), ("increasing", "decreasing"), (False, True)
        ):
            x, static = numbered(shape), {"axis": axis, "direction": direction, "exclusive": exclusive}
            yield partial(function, **static), (x,), oracle(x, **static)


def draw(exclusive):
    """Fields of a random struct; `exclusive` is the name of its flag."""

    def drawn(rng):
        sizes = dims(rng, int(rng.integers(1, 9)))
        axis = int(rng.integers(0, len(sizes)))
        flags = {"axis_direction": int(rng.integers(0, 2)), exclusive: bool(rng.integers(0, 2))}
        return {"input": sizes, "output": sizes, "axis": axis, **flags}

    return drawn


def exact(rng, port, tensor, count):
    """Floats of which four make a result that every type holds, in whatever order; any integers."""
    if tensor.dtype.kind != "f":
        return None
    return rng.choice([-3, -2, -1, -0.5, 0, 0.5, 1, 2, 3], count).astype(tensor.dtype)
