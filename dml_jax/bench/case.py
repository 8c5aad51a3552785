"""A case of the benchmark: an operator, its attributes, and real data of one size."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, lru_cache, partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dml_jax

# By bytes of a number: some roundings of it, as a part of the largest result.
ROUNDED = {1: 2**-7, 2: 2**-9, 4: 2**-20}
DTYPES = {1: np.dtype("uint8"), 2: np.dtype("float16"), 4: np.dtype("float32"), 8: np.dtype("float64")}
INT32 = np.dtype("int32")  # of indices

Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Drawn:
    """An array that is made when it is measured: most cases are only listed, or passed over by their names."""

    shape: tuple[int, ...]
    dtype: Any
    make: Callable[[], np.ndarray]

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{dims(self.shape)} {self.dtype}"

    def then(self, change: Callable[[np.ndarray], np.ndarray]) -> "Drawn":
        """The array after a change that keeps its shape and dtype."""
        return replace(self, make=lambda: change(self.make()))


@dataclass(frozen=True)
class Case:
    """One row of the table.

    Args:
      operator: a public function of dml_jax.
      detail: what tells it from others of the operator.
      attributes: keyword arguments of the function.
      arrays: real data, the data type's first; none for an operator that makes numbers.
      needed: bytes that have to move; None if every array is read once, and the output written once.
      tolerance: how far results may be apart, as a part of the largest; 0 compares bits.
      operations: that have to be computed; then a product of matrices with as many is the ceiling, not a copy.
      function: what is called with the arrays; None for the operator with its attributes.
      forms: how others compute it, a row as in the tables of `operators`; None for the row of the operator.
    """

    operator: str
    detail: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    arrays: Sequence[Drawn] = field(default=(), compare=False)
    _: KW_ONLY
    needed: int | None = None
    tolerance: float = 0.0
    operations: int = 0
    function: Callable[..., Any] | None = field(default=None, compare=False)
    forms: Any = field(default=None, compare=False)

    @property
    def name(self) -> str:
        return f"{self.operator} {self.detail}"

    @cached_property
    def moved(self) -> int:
        """Bytes that have to move."""
        if self.needed is not None:
            return self.needed
        return sum(x.nbytes for x in (*self.arrays, *jax.tree.leaves(self.output)))

    @cached_property
    def output(self) -> Any:
        """The result without numbers; of several, a tuple."""
        given = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in self.arrays]
        with jax.enable_x64(self.needs_x64):
            made = jax.eval_shape(self.call, *given)
        return jax.tree.map(lambda x: Drawn(x.shape, x.dtype, partial(np.zeros, x.shape, x.dtype)), made)

    @property
    def needs_x64(self) -> bool:
        """Whether its data has 64 bits."""
        return bool(self.arrays) and self.arrays[0].dtype.itemsize == 8

    def make(self) -> Arrays:
        return tuple(x.make() for x in self.arrays)

    def call(self, *arrays: Any) -> Any:
        """The call of dml_jax."""
        return self.written(len(arrays))(*arrays)

    def written(self, count: int) -> Callable[..., Any]:
        """The call of `count` arrays as users write it: `functools.partial` takes 3 % of a small one."""
        if self.function:
            return self.function
        function = getattr(dml_jax, self.operator)
        names = [f"x{i}" for i in range(count)]
        arrays = [f"[{', '.join(names)}]"] if any(kind.is_list for kind in function.kinds.values()) else names
        given = [*arrays, *(f"{name}={name}" for name in self.attributes)]
        source = f"lambda {', '.join(names)}: _call({', '.join(given)})"
        return eval(source, {"_call": function, **self.attributes})  # `reduce` has an attribute "function"


@lru_cache(maxsize=4)
def _bytes(count: int) -> np.ndarray:
    """Random bytes of which any group is a finite number."""
    return np.random.default_rng(0).integers(0, 0x40, count, dtype=np.uint8)


def data(shape: Sequence[int], kind: int | str) -> Drawn:
    """An array of finite numbers, of a type or of the usual one of so many bytes."""
    dtype = DTYPES[kind] if isinstance(kind, int) else jnp.dtype(kind)
    count = prod(shape) * dtype.itemsize
    whole = max(2**20, 1 << (count - 1).bit_length())
    return Drawn(tuple(shape), dtype, lambda: _bytes(whole)[:count].view(dtype).reshape(shape))


def normal(shape: Sequence[int], kind: int | str) -> Drawn:
    """Normally distributed numbers in [-6, 6], of a dtype or of the usual dtype of `kind` bytes."""
    dtype = DTYPES[kind] if isinstance(kind, int) else jnp.dtype(kind)
    make = lambda: np.resize(np.random.default_rng(1).standard_normal(2**16 + 1).astype(dtype), shape)  # noqa: E731
    return Drawn(tuple(shape), dtype, make)


@lru_cache(maxsize=2)
def _few_signs(shape: tuple[int, ...], dtype: Any, seed: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    return ((drawn == 0).astype(np.int8) - (drawn == 1)).astype(dtype)


def few_signs(shape: tuple[int, ...], kind: Any, seed: int = 3) -> Drawn:
    """Zeros and sparse ones of both signs: their sums are small integers, exact in any order and dtype."""
    return Drawn(shape, jnp.dtype(kind), partial(_few_signs, shape, jnp.dtype(kind), seed))


def random_indices(n: int, shape: tuple[int, ...], order: str = "random", axis: int = 0) -> Drawn:
    """Indices below `n`.

    Args:
      n: how many elements can be indexed; for a permutation the number of indices along the axis.
      shape: of the indices.
      order: "sorted" along an axis, a "permutation" along it, "Zipf" for words of a language, by the law of that name,
        or "one id"; any other word for uniform ones.
      axis: of the order.
    """

    def make() -> np.ndarray:
        random = np.random.default_rng(2)
        if order == "one id":
            return np.full(shape, n // 2, np.int32)
        if order == "permutation":
            return np.argsort(random.random(shape, np.float32), axis).astype(np.int32)
        if order == "Zipf":
            return np.minimum(random.zipf(1.3, shape) - 1, n - 1).astype(np.int32)
        indices = random.integers(0, n, shape, dtype=np.int32)
        return np.sort(indices, axis=axis) if order == "sorted" else indices

    return Drawn(shape, INT32, make)


def batch_of(item: Sequence[int], size: int, itemsize: int) -> tuple[int, ...]:
    """The shape of as many items as have about `size` bytes, one at least."""
    return max(1, size // itemsize // prod(item)), *item


def mib(count: int) -> str:
    """Bytes as text."""
    return f"{count / 2**20:.0f} MiB" if count >= 2**20 else f"{count / 2**10:.0f} KiB"


def dims(sizes: Sequence[float]) -> str:
    """Sizes as text: 2x3."""
    return "x".join(map(str, sizes))
