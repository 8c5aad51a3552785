"""Functions of bytes on CPUs as one gather from a table of 256 results.

XLA:CPU computes a sigmoid in some thirty instructions, and by single elements where rows are short. To read a byte from
a table that fits the first cache takes one. A function of int8 has the results of 0 to 127 first, then those of -128 to
-1: a byte is the index of its result if it is read as uint8.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import Tracer

from ...operations.byte_map import ByteMapCase
from ...operations.programs.variant_selection import Variant
from ...operations.values.bit_exact import stored


def _look_up(case: ByteMapCase, _: None, x: jax.Array) -> jax.Array:
    """The table is a part of the program, so that its function is compiled as that of an array would be."""
    if not isinstance(x, Tracer):  # its own branch in `stored` would be compiled for each call
        return case.function(x)
    every = lax.bitcast_convert_type(lax.iota(jnp.uint8, 256), case.x.dtype)
    table = stored(case.function(every.reshape(256, *(1,) * (x.ndim - 1)))).ravel()
    return table.at[lax.bitcast_convert_type(x, jnp.uint8)].get(mode="promise_in_bounds")


VARIANTS = (Variant("gathered", "byte_map", "cpu", lambda case: partial(_look_up, case), lambda case: case.is_long),)
