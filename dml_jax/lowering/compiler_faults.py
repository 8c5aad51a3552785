"""Workarounds of XLA's faults that would change results, for the releases of jaxlib that have them.

docs/stability.md lists the faults, and tests/test_jaxlib_faults.py says which of them the installed release has.
"""

import jax
import jax.numpy as jnp
from jax import lax

from .forms import JAXLIB

__all__ = ["unfused_product"]


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
