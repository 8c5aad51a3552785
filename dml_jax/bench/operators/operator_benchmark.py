"""The benchmark of one operator: its cases, and how other libraries compute the same."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from ..case import Arrays, Case

Attributes = Mapping[str, Any]
# Takes about how many bytes the data has.
Plan = Callable[[int], Iterable[Case]]
# Takes a module, such as torch, and the attributes of a case; returns a function of an output and the arrays, or None
# where the library has no such call.
Form = Callable[[Any, Attributes], Callable[..., Any] | None]

ALL_SIZES = (1, 2, 4, 8)


@dataclass(frozen=True)
class OnnxNode:
    """A node of ONNX that does what an operator does.

    Args:
      name: of ONNX's operator.
      attributes: of the node.
      constants: inputs after the arrays, in order; None for one that is left out.
      arrays: what the node takes of a case's arrays.
    """

    name: str
    attributes: Attributes = field(default_factory=dict)
    constants: tuple[np.ndarray | None, ...] = ()
    arrays: Callable[[Arrays], Arrays] = lambda arrays: arrays


@dataclass(frozen=True, kw_only=True)
class Operator:
    """An operator, or a program: its cases, and the best form of each peer, made of a case's attributes.

    Args:
      plans: its cases by "quick", "full", "real", "small" or "sweep"; it takes no part in a plan that is not there.
      jnp: returns a function of the arrays; None without a twin in JAX.
      numpy: returns a function that writes into its first argument, a tuple if there are several outputs.
      torch: forms by name, of which the fastest counts. Their functions return what holds the result, or None where
        that is the first argument. The one called "compile" is compiled by torch.
      cupy: like `numpy`; it takes the module too.
      onnx: returns a node, or None.
    """

    plans: Mapping[str, Plan] = field(default_factory=dict)
    jnp: Callable[[Attributes], Callable[..., Any]] | None = None
    numpy: Callable[[Attributes], Callable[..., Any]] | None = None
    torch: Mapping[str, Form] = field(default_factory=dict)
    cupy: Callable[[Any, Attributes], Callable[..., Any]] | None = None
    onnx: Callable[[Attributes], OnnxNode | None] | None = None


def by_type(
    cases: Callable[[int, int], Iterable[Case]], itemsizes: Sequence[int], *, quick: int | None = 1, **others: Plan
) -> dict[str, Plan]:
    """Plans of an operator whose cases are made of bytes of data, and bytes of a number.

    Args:
      cases: makes those of one type.
      itemsizes: the types in the plan "full".
      quick: how many cases of float32 the plan "quick" has; None for all.
      others: more plans.
    """

    def full(size: int) -> Iterator[Case]:
        return (case for itemsize in itemsizes for case in cases(size, itemsize))

    return {"quick": lambda size: islice(cases(size, 4), quick), "full": full, **others}
