"""What a caller promises about indices, handed on to XLA, and checked where checkify asks."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.checkify import debug_check

from ..lowering.rows import Rows, Write
from .operands import as_flag

__all__ = ["Promises", "as_promises", "check_promises"]


@dataclass(frozen=True)
class Promises:
    """Of one call.

    Args:
      unique_indices: no two indices in range address one element, after wrapping and clamping.
      indices_are_sorted: the indices ascend in row-major order, and none is negative.
      deterministic: no promise but a wish: sums of floats have the same bits in every run.
    """

    unique_indices: bool = False
    indices_are_sorted: bool = False
    deterministic: bool = False


_NONE = Promises()


def as_promises(operator: str, **flags: Any) -> Promises:
    """Returns the promises, static.

    Raises:
      DataTypeError: a flag is neither True nor False.
    """
    if all(value is False for value in flags.values()):
        return _NONE
    return Promises(**{name: as_flag(operator, name, value) for name, value in flags.items()})


def check_promises(indices: jax.Array, shape: tuple[int, ...], write: Write) -> None:
    """Reports a broken promise under checkify.user_checks; XLA drops what is computed for it elsewhere.

    Args:
      indices: wrapped, in the rank that lax.scatter wants.
      shape: of the table that they address.
      write: how.
    """
    if not (write.unique_indices or write.indices_are_sorted):
        return
    rows = Rows(shape, write)
    row = rows.row_of_each(indices)
    if write.indices_are_sorted:
        debug_check(jnp.all(row[1:] >= row[:-1]), "indices_are_sorted was promised, but indices descend")
    if write.unique_indices:
        ascending = lax.sort(row)
        is_twice = (ascending[1:] == ascending[:-1]) & (ascending[1:] < rows.count)
        debug_check(~jnp.any(is_twice), "unique_indices was promised, but two indices address one element")
