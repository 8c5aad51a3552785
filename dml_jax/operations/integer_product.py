"""Products of matrices of int8, in int32: (a - p) @ b, with a zero point p for all rows of a or one for each."""

from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax import lax

from .programs.primitive import Move
from .programs.variant_selection import choose, known_bytes, shapes_of
from .values.xla_workarounds import int8_product


@dataclass(frozen=True)
class IntegerProductCase:
    """One product of int8, for the choice between implementations.

    Args:
      a: shape and type, [..., M, K].
      b: shape and type, [..., K, N].
      known: b, if it is a constant.
      has_zero_point: whether a has one.
      devices: among which XLA may divide an array.
    """

    a: Any
    b: Any
    # Not compared: NumPy compares arrays element by element, and gives them no hash.
    known: np.ndarray | None = field(compare=False)
    has_zero_point: bool
    devices: int

    @property
    def bytes(self) -> int:
        """The bytes read and written; 0 if a size is symbolic."""
        return known_bytes(self.a, self.b, self.result) if known_bytes(self.a, self.b) else 0

    @property
    def result(self) -> jax.ShapeDtypeStruct:
        """Shape and type."""
        batch = lax.broadcast_shapes(self.a.shape[:-2], self.b.shape[:-2])
        return jax.ShapeDtypeStruct((*batch, self.a.shape[-2], self.b.shape[-1]), np.int32)

    @property
    def plain(self) -> Move:
        """a @ b - p * (sums of the columns of b), as a function of b (None for the constant), a and p."""
        return self._multiply

    def _multiply(self, b: Any, a: jax.Array, *p: jax.Array) -> jax.Array:
        # A constant comes by the case, not as an operand: JAX would trace it, and NumPy could not sum it.
        b = self.known if b is None else b
        product = int8_product(a, b)
        return product - p[0] * b.sum(-2, dtype=np.int32, keepdims=True) if p else product


def multiply_int8(a: jax.Array, p: jax.Array | None, b: Any) -> jax.Array:
    """(a - p) @ b, in int32, which wraps.

    NumPy sums the columns of a constant while JAX traces: XLA would take seconds to.

    Args:
      a: int8, [..., M, K].
      p: int32, which broadcasts to [..., M, 1]; None for 0.
      b: int8, [..., K, N], of the rank of a; a NumPy array is a constant.
    """
    known = b if isinstance(b, np.ndarray) else None
    of_a, of_b = shapes_of(a, b)
    case_of = lambda devices: IntegerProductCase(of_a, of_b, known, p is not None, devices)  # noqa: E731
    multiply = choose("integer_product", case_of, is_opaque=False)
    return multiply(b if known is None else None, a, *(() if p is None else (p,)))
