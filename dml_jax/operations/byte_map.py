"""Elementwise functions of bytes, such as activations in quantised networks: a byte has 256 values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax

from .programs.primitive import Move
from .programs.variant_selection import choose, known_bytes, shapes_of


@dataclass(frozen=True)
class ByteMapCase:
    """One function of an array of bytes, for the choice between implementations.

    Args:
      function: of the bytes, elementwise.
      x: shape and type.
      result: shape and type.
      is_long: whether the function takes longer than to read a result from memory.
      devices: among which XLA may divide an array.
    """

    # Not compared: a function that is made for one call is like no other.
    function: Callable[[jax.Array], jax.Array] = field(compare=False)
    x: Any
    result: Any
    is_long: bool
    devices: int

    @property
    def bytes(self) -> int:
        """Those of the array and the result, and of float32 between them; 0 if a size is symbolic."""
        return known_bytes(self.x, self.result) * 5

    @property
    def plain(self) -> Move:
        """The function of the array."""
        return lambda _, x: self.function(x)


def map_bytes(function: Callable[[jax.Array], jax.Array], x: jax.Array, dtype: Any, *, is_long: bool) -> jax.Array:
    """function(x) of bytes; a platform may compute it of the 256 bytes, and look up the results.

    Args:
      function: elementwise, without traced values of its own; x may have as many dimensions of other sizes.
      x: bytes.
      dtype: of the results.
      is_long: whether the function takes longer than to read a result from memory.
    """
    (of_x,) = shapes_of(x)
    result = jax.ShapeDtypeStruct(x.shape, dtype)
    return choose("byte_map", lambda devices: ByteMapCase(function, of_x, result, is_long, devices))(None, x)
