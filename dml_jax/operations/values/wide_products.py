"""Products of 16-bit floats that are added up in float32, and whose derivatives are products of 16-bit floats again.

The cotangent of such a product is float32. JAX would widen the other operand for it, and a GPU multiplies float32 many
times as slowly. So the cotangent is rounded first, as JAX does where a product is rounded to the type of its operands.

On CPUs these products, and those of wider floats, are fused with no reduction: `unfused_product` says why.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from .accumulation_types import wide_type
from .xla_workarounds import unfused_product, with_unfused_cotangent


def wide_product(multiply: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """Returns a function of (x, y) that multiplies them in float32 or wider; its derivatives are in their type.

    A third argument, of y's shape and type, is what derivatives read in place of y.

    Args:
      multiply: linear in both of its operands, of one type and any shapes; it takes `preferred_element_type`.
    """

    @jax.custom_jvp
    def product(x: jax.Array, y: jax.Array, read: jax.Array) -> jax.Array:
        return multiply(x, y, preferred_element_type=wide_type(x.dtype))

    def differentiated(arguments: Sequence[Any], tangents: Sequence[Any]) -> tuple[jax.Array, jax.Array]:
        (x, _, read), (dx, dy, _) = arguments, tangents
        pairs = [pair for pair in ((dx, read), (x, dy)) if not any(isinstance(a, SymbolicZero) for a in pair)]
        result = product(*arguments)
        zeros = jnp.zeros(result.shape, x.dtype)
        return result, sum((multiply(*pair) for pair in pairs), start=zeros).astype(result.dtype)

    product.defjvp(differentiated, symbolic_zeros=True)

    def apply(x: jax.Array, y: jax.Array, read: jax.Array | None = None) -> jax.Array:
        if not jnp.issubdtype(x.dtype, jnp.floating):
            return multiply(x, y, preferred_element_type=x.dtype)
        x, y = with_unfused_cotangent(x), with_unfused_cotangent(y)
        if read is None and wide_type(x.dtype) == x.dtype:
            return unfused_product(multiply(x, y, preferred_element_type=x.dtype))
        return unfused_product(product(x, y, y if read is None else read))

    return apply
