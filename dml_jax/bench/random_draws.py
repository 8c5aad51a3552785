"""Seeded random choices, sizes and arrays, of which random programs are made."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from .case import INT32, Drawn, few_signs


class Draws:
    """Random choices, of a seed, and arrays of about `size` bytes."""

    def __init__(self, seed: int | Sequence[int], size: int):
        self.random, self.size = np.random.default_rng(seed), size

    def pick(self, *values: Any) -> Any:
        return values[self.random.integers(len(values))]

    def between(self, least: int, most: int) -> int:
        """An integer, of each order of magnitude as often; half of those from 16 on are multiples of 4."""
        drawn = round(least * (most / least) ** self.random.random())
        return drawn // 4 * 4 if drawn >= 16 and self.pick(False, True) else drawn

    def dtype(self) -> Any:
        kinds = {1: ("uint8", "int8"), 2: ("bfloat16", "float16", "int16"), 4: ("float32",)}
        return jnp.dtype(self.pick(*kinds[self.pick(1, 2, 2, 4)]))

    def float(self) -> Any:
        return jnp.dtype(self.pick("float32", "bfloat16", "bfloat16", "float16"))

    def many(self, count: int, least: int, most: int) -> list[int]:
        return [self.between(least, most) for _ in range(count)]

    def fitted(self, dtype: Any, *sizes: int, parts: int = 1) -> tuple[int, ...]:
        """These sizes, behind a first one that fills the memory; the largest is halved until they do not overfill it.

        Args:
          dtype: of the elements.
          sizes: of dimensions.
          parts: how many elements each has of those that are counted.
        """
        smaller, limit = list(sizes), self.size // (dtype.itemsize * parts)
        while prod(smaller) > max(1, limit):
            smaller[int(np.argmax(smaller))] //= 2
        return max(1, limit // prod(smaller)), *smaller

    def matrix(self, dtype: Any) -> tuple[int, int]:
        """Draws a matrix shape: few long rows or many short ones; one shape in three is transposed."""
        rows, columns = self.fitted(dtype, self.between(8, 32768))
        return (columns, rows) if self.pick(False, False, True) else (rows, columns)

    # Arrays.

    def few_signs(self, shape: tuple[int, ...], dtype: Any) -> Drawn:
        return few_signs(shape, dtype, self._seed())

    def different(self, shape: tuple[int, int], dtype: Any, axis: int) -> Drawn:
        """Normal numbers, none of them twice along an axis if the type has so many: then all agree on the order."""
        kind, limits = np.dtype(f"int{8 * dtype.itemsize}"), jnp.finfo(dtype)
        least, most = (int(np.asarray(limit, dtype).view(kind)) for limit in (limits.tiny, limits.max))

        def make(random: np.random.Generator) -> np.ndarray:
            bits = least + random.permutation(shape[axis] + 1) % (most - least)  # each row begins at another one
            found = np.resize(bits, shape if axis else shape[::-1]).astype(kind).view(dtype)
            return found if axis else np.ascontiguousarray(found.T)

        return self._seeded(shape, dtype, make)

    def indices(self, count: int, shape: tuple[int, ...], axis: int = 0) -> Drawn:
        """Below `count`: uniform, as words of a language, sorted, or a permutation."""
        kind = self.pick("uniform", "Zipf", "sorted", "permutation")

        def make(random: np.random.Generator) -> np.ndarray:
            if kind == "permutation":
                return np.resize(random.permutation(count), shape)
            found = random.zipf(1.2, shape) - 1 if kind == "Zipf" else random.integers(0, count, shape)
            found = np.minimum(found, count - 1)
            return np.sort(found, axis) if kind == "sorted" else found

        return self._seeded(shape, INT32, make)

    def _seeded(self, shape: tuple[int, ...], dtype: Any, make: Callable[[np.random.Generator], np.ndarray]) -> Drawn:
        seed = self._seed()
        return Drawn(shape, dtype, lambda: make(np.random.default_rng(seed)).astype(dtype))

    def _seed(self) -> int:
        return int(self.random.integers(2**32))
