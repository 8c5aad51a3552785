"""Implementations of an operator: dml_jax, plain jax.numpy and NumPy, each at its best, into a preallocated output."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import gcd
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from .case import Arrays, Case
from .operators import OPERATORS
from .operators.operator_benchmark import Operator


class Run(Protocol):
    """An implementation with one case's data in place."""

    def step(self, turn: int) -> None:
        """Starts one call, on the inputs of that turn."""

    def finish(self) -> None:
        """Waits for all calls started."""

    def value(self, most: int) -> np.ndarray:
        """The last results, flat, one after the other; of one with more elements than `most` about so many."""
        ...


@dataclass(frozen=True)
class Implementation:
    """A library, or a way to call it.

    Args:
      name: the column.
      start: puts inputs, one tuple of arrays per turn, in place; None where it lacks the operator or the data type.
    """

    name: str
    start: Callable[[Case, Sequence[Arrays]], Run | None]


class JaxRun:
    """Calls of a jitted function, into donated outputs if `donated`."""

    def __init__(self, function: Callable[..., Any], turns: Sequence[Arrays], *, donated: bool):
        self.turns = [jax.block_until_ready(tuple(map(jnp.asarray, arrays))) for arrays in turns]
        self.donated, self.called = donated, jax.jit(function)
        if donated:
            self.called = jax.jit(lambda out, *arrays: function(*arrays), donate_argnums=0, keep_unused=True)
        self.out = jax.tree.map(lambda one: jnp.zeros(one.shape, one.dtype), jax.eval_shape(function, *self.turns[0]))

    def step(self, turn: int) -> None:
        arrays = self.turns[turn % len(self.turns)]
        self.out = self.called(self.out, *arrays) if self.donated else self.called(*arrays)

    def finish(self) -> None:
        jax.block_until_ready(self.out)

    def value(self, most: int) -> np.ndarray:
        return joined([np.asarray(thin(one, most)) for one in jax.tree.leaves(self.out)])


def compiled(name: str, function: Callable[[Any], Callable[..., Any]], *, donated: bool = True) -> Implementation:
    """Calls of the function of a case, as a program."""
    return Implementation(name, lambda case, turns: JaxRun(function(case), turns, donated=donated))


class EagerRun(JaxRun):
    """Calls of a function as users write them, not jitted by the caller."""

    def __init__(self, function: Callable[..., Any], turns: Sequence[Arrays]):
        super().__init__(function, turns, donated=False)
        self.called = function


class CallRun:
    """Calls of a function without arguments, which returns arrays of JAX's or of NumPy's."""

    def __init__(self, call: Callable[[], Sequence[Any]]):
        self.call = call
        self.out: Sequence[Any] = ()

    def step(self, turn: int) -> None:
        self.out = self.call()

    def finish(self) -> None:
        jax.block_until_ready(self.out)

    def value(self, most: int) -> np.ndarray:
        return joined([np.asarray(thin(array, most)) for array in self.out])


class HostRun:
    """Calls of a function that writes into an array of NumPy's, or a tuple of them."""

    def __init__(self, write: Callable[..., Any], out: Any, turns: Sequence[Any]):
        self.write, self.out, self.turns = write, out, turns

    def step(self, turn: int) -> None:
        self.write(self.out, *self.turns[turn % len(self.turns)])

    def finish(self) -> None:
        pass

    def value(self, most: int) -> np.ndarray:
        return joined([thin(one, most) for one in jax.tree.leaves(self.out)])


def thin(array: Any, most: int) -> Any:
    """Elements of a flattened array, in steps that share no factor with their number."""
    flat = array.reshape(-1)
    step = max(1, flat.shape[0] // most)
    while gcd(step, flat.shape[0]) > 1:
        step += 1
    return flat[::step]


def joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Concatenates arrays; those of different dtypes, such as values and indices, as float64."""
    is_mixed = len({array.dtype for array in arrays}) > 1
    return np.concatenate([array.astype(np.float64) if is_mixed else array for array in arrays])


def copy_of(moved: int, turns: int) -> Run:
    """The ceiling: a negation that reads and writes half of `moved` bytes each, into a preallocated output."""
    arrays = [(np.ones(max(1, moved // 8), np.float32),) for _ in range(turns)]
    return JaxRun(jnp.negative, arrays, donated=True)


def ceiling_of(case: Case, turns: int) -> Run:
    """The ceiling of a case: a copy of as many bytes, or a matrix product of as many operations."""
    if not case.operations:
        return copy_of(case.moved, turns)
    n = max(1, round((case.operations / 2) ** (1 / 3)))
    return JaxRun(jnp.matmul, [(np.ones((n, n), np.float32),) * 2] * turns, donated=True)


def own(*, eager: bool) -> list[Implementation]:
    """This library first, then jax.numpy and NumPy; `eager` for calls of small arrays."""
    if eager:
        return [
            Implementation("dml_jax", lambda case, turns: EagerRun(case.written(len(turns[0])), turns)),
            Implementation("jnp", partial(_plain, donated=False)),
        ]
    found = [
        compiled("dml_jax", lambda case: case.call),
        compiled("fresh", lambda case: case.call, donated=False),
        JNP,
    ]
    # Elsewhere NumPy does not work on the same device.
    return [*found, Implementation("NumPy", _numpy)] if jax.default_backend() == "cpu" else found


def _plain(case: Case, turns: Sequence[Arrays], *, donated: bool) -> Run | None:
    function = jnp_of(case)
    return JaxRun(function, turns, donated=donated) if function else None


JNP = Implementation("jnp", partial(_plain, donated=True))


def jnp_of(case: Case) -> Callable[..., Any] | None:
    """The jax.numpy equivalent as users write it; None if there is none."""
    form = forms_of(case).jnp
    return form(case.attributes) if form else None


def forms_of(case: Case) -> Operator:
    """How others compute a case."""
    return case.forms or OPERATORS[case.operator]


def host_arrays(case: Case) -> Any:
    """Arrays for the outputs of a case."""
    return jax.tree.map(lambda one: one.make(), case.output)


def _numpy(case: Case, turns: Sequence[Arrays]) -> Run | None:
    form = forms_of(case).numpy
    return HostRun(form(case.attributes), host_arrays(case), turns) if form else None
