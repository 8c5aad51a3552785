"""Workarounds of XLA's faults that would change results or end the process; those that cost time, by release of jaxlib.

docs/stability.md lists the faults, and tests/test_jaxlib_faults.py says which of them the installed release has.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jaxlib.version
from jax import lax

from ..primitive import Move

__all__ = ["unfused_product", "widened_float4"]

_MAJOR, _MINOR, *_ = jaxlib.version.__version__.split(".")
JAXLIB = 1000 * int(_MAJOR) + int(_MINOR)  # 12 of jaxlib 0.12.1


def unfused_product(product: jax.Array) -> jax.Array:
    """A product of matrices, which XLA:CPU of jaxlib 0.10 must not fuse with a reduction that follows.

    Of a product of [2 or 3, 3] and the transpose of [n, 3], fused with a sum or an extreme of its rows, all columns
    after 32,768 are wrong (jax-ml/jax issue 39103). XLA drops a barrier before it fuses, but it keeps a rounding to the
    precision that the numbers have already.
    """
    if JAXLIB > 10 or not jnp.issubdtype(product.dtype, jnp.floating):
        return product
    type_ = jnp.finfo(product.dtype)
    return lax.reduce_precision(product, type_.nexp, type_.nmant)


def widened_float4(move: Move) -> Move:
    """A move whose transpose is a pad with negative edges, at which XLA:GPU of jaxlib 0.11 ends the process for float4.

    It moves such floats as float32, which holds each of them.
    """

    def moved(where: Any, *data: jax.Array) -> jax.Array:
        dtype = data[0].dtype
        if not jnp.issubdtype(dtype, jnp.floating) or jnp.finfo(dtype).bits >= 8:
            return move(where, *data)
        return move(where, *(x.astype(jnp.float32) for x in data)).astype(dtype)

    return moved
