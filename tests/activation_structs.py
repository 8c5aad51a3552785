"""Test facts of the activations' structs, all of which have the fields input, output and parameters."""

from functools import partial

import numpy as np
from activation_cases import activated
from draws import dims, pad
from operator_cases import Example, Struct, f32

from dml_jax.catalogue import STRUCTS as CLASSES


def exact(input, activation):
    return activated(input.astype(np.float64), activation)


def exact_of(desc, x):
    return exact(x, desc.activation)


def make(name, input, output, parameters):
    return CLASSES[name](input, output, *parameters)


def fill(rng, port, tensor, count):
    """Floats on a grid, none is 0, whose sign devices decide; integers of all bits."""
    if tensor.dtype.kind != "f":
        return None
    return ((2 * rng.integers(-16, 16, count) + 1) / 8).astype(tensor.dtype)


def draw(name, several, flat, rng):
    rank = int(rng.integers(1, 9))
    sizes = pad(dims(rng, min(rank, 2)), rank) if flat else dims(rng, rank)
    names = [*CLASSES[name].field_names()[2:]]
    parameters = several[rng.integers(len(several))]
    if names == ["axes"]:
        parameters = (tuple(int(d) for d in rng.permutation(rank)[: rng.integers(1, rank + 1)]),)
    return {"input": sizes, "output": sizes, **dict(zip(names, parameters, strict=True))}


def struct_of(name, several, *, breaks=(), expected=exact_of, units=8, examples=()):
    """One of them.

    Args:
      name: of the operator.
      several: parameters that are tried; the first ones are those of the descriptor.
      breaks: the changes that break the rules that not all of them have.
      expected: takes a descriptor and an array; returns what the operator makes of it.
      units: as in `Struct`.
      examples: more of DirectML's.
    """
    tensor, breaks = f32(1, 1, 2, 3), dict(breaks)
    desc = make(name, tensor, tensor, several[0])
    values = np.array([-2.5, -1, -0.5, 0.5, 1, 3]).reshape(1, 1, 2, 3)
    computed = activated(values, desc.activation)
    return Struct(
        desc,
        breaks={"same_sizes(output, input)": {"output": f32(1, 1, 3, 2)}, **breaks},
        examples=(Example(desc, [values.ravel().tolist()], [computed.ravel().tolist()]), *examples),
        draw=partial(draw, name, several, "effective_rank" in breaks),
        expected=expected,
        fill=fill,
        units=units,
    )
