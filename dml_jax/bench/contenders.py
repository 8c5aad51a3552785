"""Who is measured first: dml_jax, plain jax.numpy and NumPy, each in its best form and into a bound output."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

import dml_jax

from .cases import Case

__all__ = ["Contender", "Run", "copy_of", "own"]


class Run(Protocol):
    """A contender with one case's data in place."""

    def step(self, turn: int) -> None:
        """Starts one call, on the inputs of that turn."""

    def finish(self) -> None:
        """Waits for all calls started."""

    def value(self, most: int) -> np.ndarray:
        """The last result, flat; about `most` of its elements if there are more."""
        ...


@dataclass(frozen=True)
class Contender:
    """A library, or a way to call it.

    Args:
      name: the column.
      start: puts inputs, one tuple of arrays per turn, in place; None where it lacks the operator or the data type.
    """

    name: str
    start: Callable[[Case, Sequence[tuple[np.ndarray, ...]]], Run | None]


class JaxRun:
    """Calls of a jitted function, into a donated output if `bound`."""

    def __init__(self, function: Callable[..., Any], turns: Sequence[tuple[np.ndarray, ...]], *, bound: bool):
        self.turns = [jax.block_until_ready(tuple(map(jnp.asarray, arrays))) for arrays in turns]
        self.bound, self.called = bound, jax.jit(function)
        if bound:
            self.called = jax.jit(lambda out, *arrays: function(*arrays), donate_argnums=0, keep_unused=True)
        shape = jax.eval_shape(function, *self.turns[0])
        self.out = jnp.zeros(shape.shape, shape.dtype)

    def step(self, turn: int) -> None:
        arrays = self.turns[turn % len(self.turns)]
        self.out = self.called(self.out, *arrays) if self.bound else self.called(*arrays)

    def finish(self) -> None:
        self.out.block_until_ready()

    def value(self, most: int) -> np.ndarray:
        return np.asarray(spread(self.out, most))


class EagerRun(JaxRun):
    """Calls of a function as users write them, not jitted by the caller."""

    def __init__(self, function: Callable[..., Any], turns: Sequence[tuple[np.ndarray, ...]]):
        super().__init__(function, turns, bound=False)
        self.called = function


class HostRun:
    """Calls of a function that writes into an array of NumPy's."""

    def __init__(self, write: Callable[..., Any], out: np.ndarray, turns: Sequence[tuple[np.ndarray, ...]]):
        self.write, self.out, self.turns = write, out, turns

    def step(self, turn: int) -> None:
        self.write(self.out, *self.turns[turn % len(self.turns)])

    def finish(self) -> None:
        pass

    def value(self, most: int) -> np.ndarray:
        return spread(self.out, most)


def spread(array: Any, most: int) -> Any:
    """Elements of a flattened array, in steps that share no factor with their number."""
    flat = array.reshape(-1)
    step = max(1, flat.shape[0] // most)
    while gcd(step, flat.shape[0]) > 1:
        step += 1
    return flat[::step]


def copy_of(moved: int, turns: int) -> Run:
    """The ceiling: a negation that reads and writes half of `moved` bytes each, into a bound output."""
    arrays = [(np.ones(max(1, moved // 8), np.float32),) for _ in range(turns)]
    return JaxRun(jnp.negative, arrays, bound=True)


def own(*, eager: bool) -> list[Contender]:
    """This library first, then jax.numpy and NumPy; `eager` for calls of small arrays."""
    if eager:
        return [
            Contender("dml_jax", lambda case, turns: EagerRun(_ours(case), turns)),
            Contender("jnp", lambda case, turns: JaxRun(_plain(case), turns, bound=False)),
        ]
    found = [
        Contender("dml_jax", lambda case, turns: JaxRun(_ours(case), turns, bound=True)),
        Contender("fresh", lambda case, turns: JaxRun(_ours(case), turns, bound=False)),
        Contender("jnp", lambda case, turns: JaxRun(_plain(case), turns, bound=True)),
    ]
    # Elsewhere NumPy does not work on the same device.
    return [*found, Contender("NumPy", _numpy)] if jax.default_backend() == "cpu" else found


def _ours(case: Case) -> Callable[..., Any]:
    function = getattr(dml_jax, case.operator)
    return lambda *arrays: function(*arrays, **case.attributes)


def _plain(case: Case) -> Callable[..., Any]:
    """What users of jax.numpy write."""
    a = case.attributes
    return {
        "gather": lambda x, i: jnp.take(x, i, axis=a["axis"], mode="clip"),
        "gather_elements": lambda x, i: jnp.take_along_axis(x, i, axis=a["axis"], mode="clip"),
        "gather_nd": lambda x, i: x.at[tuple(jnp.moveaxis(i, -1, 0))].get(mode="clip"),
        "scatter_nd": lambda x, i, u: x.at[tuple(jnp.moveaxis(i, -1, 0))].set(u, mode="drop"),
        "scatter_elements": lambda x, i, u: jnp.put_along_axis(x, i, u, axis=a["axis"], inplace=False, mode="drop"),
        "depth_to_space": lambda x: depth_to_space(x, **a),
        "space_to_depth": lambda x: space_to_depth(x, **a),
        "as_strided": lambda x: x[_offsets(a)],
    }[case.operator]


def _numpy(case: Case, turns: Sequence[tuple[np.ndarray, ...]]) -> Run:
    a, first = case.attributes, turns[0]
    view = np.lib.stride_tricks.as_strided
    write, shape = {
        "gather": lambda: (lambda out, x, i: np.take(x, i, axis=a["axis"], out=out, mode="clip"), None),
        "gather_elements": lambda: (
            lambda out, x, i: np.copyto(out, np.take_along_axis(x, i, a["axis"])),
            first[-1].shape,
        ),
        "gather_nd": lambda: (
            lambda out, x, i: np.copyto(out, x[tuple(np.moveaxis(i, -1, 0))]),
            (first[-1].shape[0], first[0].shape[-1]),
        ),
        "scatter_nd": lambda: (_scattered_nd, first[0].shape),
        "scatter_elements": lambda: (
            lambda out, x, i, u: (np.copyto(out, x), np.put_along_axis(out, i, u, a["axis"])),
            first[0].shape,
        ),
        "depth_to_space": lambda: (_rearranging(depth_to_space, a), None),
        "space_to_depth": lambda: (_rearranging(space_to_depth, a), None),
        "as_strided": lambda: (
            lambda out, x: np.copyto(out, view(x, a["sizes"], [s * x.itemsize for s in a["strides"]])),
            a["sizes"],
        ),
    }[case.operator]()
    shape = shape or jax.eval_shape(_ours(case), *first).shape
    return HostRun(write, np.zeros(shape, first[0].dtype), turns)


def _scattered_nd(out: np.ndarray, x: np.ndarray, i: np.ndarray, u: np.ndarray) -> None:
    np.copyto(out, x)
    out[tuple(np.moveaxis(i, -1, 0))] = u


def _rearranging(function: Callable[..., Any], attributes: Mapping[str, Any]) -> Callable[..., None]:
    """Copies the transposed view into the output seen in the view's shape, without a temporary."""

    def write(out: np.ndarray, x: np.ndarray) -> None:
        view = function(x, **attributes, merge=False)
        np.copyto(out.reshape(view.shape), view)

    return write


def depth_to_space(x: Any, *, block_size: int, order: str, data_format: str, merge: bool = True) -> Any:
    """The usual reshape, transpose, reshape; without the last one if not `merge`."""
    b = block_size
    if data_format == "NCHW":
        n, c, h, w = x.shape
        split = (n, b, b, c // b**2, h, w) if order == "DCR" else (n, c // b**2, b, b, h, w)
        perm, shape = ((0, 3, 4, 1, 5, 2) if order == "DCR" else (0, 1, 4, 2, 5, 3)), (n, c // b**2, h * b, w * b)
    else:
        n, h, w, c = x.shape
        split = (n, h, w, b, b, c // b**2) if order == "DCR" else (n, h, w, c // b**2, b, b)
        perm, shape = ((0, 1, 3, 2, 4, 5) if order == "DCR" else (0, 1, 4, 2, 5, 3)), (n, h * b, w * b, c // b**2)
    y = permuted(x.reshape(split), perm)
    return y.reshape(shape) if merge else y


def space_to_depth(x: Any, *, block_size: int, order: str, data_format: str, merge: bool = True) -> Any:
    """The same in the other direction."""
    b = block_size
    if data_format == "NCHW":
        n, c, h, w = x.shape
        split, shape = (n, c, h // b, b, w // b, b), (n, c * b**2, h // b, w // b)
        perm = (0, 3, 5, 1, 2, 4) if order == "DCR" else (0, 1, 3, 5, 2, 4)
    else:
        n, h, w, c = x.shape
        split, shape = (n, h // b, b, w // b, b, c), (n, h // b, w // b, c * b**2)
        perm = (0, 1, 3, 2, 4, 5) if order == "DCR" else (0, 1, 3, 5, 2, 4)
    y = permuted(x.reshape(split), perm)
    return y.reshape(shape) if merge else y


def permuted(x: Any, order: Sequence[int]) -> Any:
    """Transposes an array of NumPy's, JAX's, CuPy's, or a tensor of torch's."""
    return x.permute(order) if hasattr(x, "permute") else x.transpose(order)


def _offsets(attributes: Mapping[str, Any]) -> Any:
    """A flat index per coordinate, as without as_strided."""
    sizes, strides = attributes["sizes"], attributes["strides"]
    return sum(
        (jnp.arange(n, dtype=jnp.int32) * s).reshape((1,) * d + (n,) + (1,) * (len(sizes) - 1 - d))
        for d, (n, s) in enumerate(zip(sizes, strides, strict=True))
    )
