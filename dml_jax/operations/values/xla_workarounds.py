"""Workarounds of XLA's faults that would change results or end the process; those that cost time, by release of jaxlib.

docs/stability.md lists the faults, and tests/test_jaxlib_faults.py says which of them the installed release has.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jaxlib.version
from jax import lax

from ..programs.primitive import Move, Target, by_target, linear

_MAJOR, _MINOR, *_ = jaxlib.version.__version__.split(".")
JAXLIB = 1000 * int(_MAJOR) + int(_MINOR)  # 12 of jaxlib 0.12.1
# Whether XLA:CPU drops barriers before it fuses: a transpose after one is then not compiled alone.
DROPS_BARRIERS = JAXLIB <= 10
# Whether a loop on CPUs writes a part of an array of bfloat16 without a pass over all of it.
WRITES_PARTS = JAXLIB > 10


def unfused_product(product: jax.Array) -> jax.Array:
    """The product of matrices, which XLA:CPU must not fuse with a reduction that follows.

    Fused, the sums of rows of x @ ones((8, 8)) are wrong, as of any second matrix that is one number everywhere. In
    jaxlib 0.10, the sums of columns after 32,768 are wrong of the product of [2 or 3, 3] and the transpose of [n, 3]
    (jax-ml/jax issue 39103). That release drops barriers before it fuses, but keeps a rounding to the precision
    that the numbers have already.
    """

    def alone(_: Any, array: jax.Array) -> jax.Array:
        if not DROPS_BARRIERS:
            return lax.optimization_barrier(array)
        type_ = jnp.finfo(array.dtype)
        return lax.reduce_precision(array, type_.nexp, type_.nmant)

    def choose(target: Target) -> Move:
        return alone if target.platform == "cpu" else _as_it_is

    return by_target(choose, _as_it_is, lambda _, cotangent, __: [cotangent])(None, product)


def with_unfused_cotangent(array: jax.Array) -> jax.Array:
    """A factor of a product. Its cotangent is a product, too, which jaxlib 0.10 computes rightly."""
    if DROPS_BARRIERS:
        return array
    return linear(_as_it_is, lambda _, cotangent, __: [unfused_product(cotangent)])(None, array)


def _as_it_is(_: Any, array: jax.Array) -> jax.Array:
    return array


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


def int8_product(a: jax.Array, b: Any, *, is_transposed: bool = False) -> jax.Array:
    """a @ b of int8, in int32; a @ b.T, of a matrix b, if it is transposed.

    XLA:GPU of jaxlib 0.11 is wrong for small sizes that are no multiples of four. It gets zeros after them, in arrays
    of their own: [2, 3] @ [3, 2] is the corner of a product of 4x4 matrices.
    """
    columns = b.shape[-2 if is_transposed else -1]

    def product(_: Any, a: jax.Array, b: jax.Array) -> jax.Array:
        if is_transposed:
            return lax.dot_general(a, b, (((a.ndim - 1,), (1,)), ((), ())), preferred_element_type=jnp.int32)
        return jnp.matmul(a, b, preferred_element_type=jnp.int32)

    def padded(_: Any, a: jax.Array, b: jax.Array) -> jax.Array:
        whole = product(None, *lax.optimization_barrier((_to_fours(a), _to_fours(b))))
        return lax.optimization_barrier(whole)[..., : a.shape[-2], :columns]

    def choose(target: Target) -> Move:
        is_whole = all(size % 4 == 0 for size in (*a.shape[-2:], columns))
        return padded if target.platform == "cuda" and not is_whole else product

    batch = lax.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    result = jax.ShapeDtypeStruct((*batch, a.shape[-2], columns), jnp.int32)
    return by_target(choose, product, result=result)(None, a, b)


def _to_fours(matrix: jax.Array) -> jax.Array:
    """A matrix, or several, with zeros after its rows and columns up to multiples of four."""
    return jnp.pad(matrix, [(0, -size % 4 if d >= matrix.ndim - 2 else 0) for d, size in enumerate(matrix.shape)])


def divide(x: jax.Array, divisor: Any) -> jax.Array:
    """x / divisor of floats, rounded once; for float32 on every device.

    If many numbers share a divisor, XLA multiplies with its reciprocal: 2.734375 / 0.21875 is then more than the half
    12.5, and is rounded to 13 and not to 12. A divisor that depends on x, by a 1 for a NaN, is not shared.

    XLA:GPU errs by a bit or two in a quotient of float32. There x * (1 / divisor) in float64 is near enough: a quotient
    of two numbers of 24 bits is no closer than 2**-49 of itself to the middle of two such numbers. LLVM would narrow
    a quotient in float64 to one in float32.
    """

    def wide(_: Any, x: jax.Array, divisor: jax.Array) -> jax.Array:
        with jax.enable_x64(True):
            return (x.astype(jnp.float64) * (1 / divisor.astype(jnp.float64))).astype(jnp.float32)

    def narrow(_: Any, x: jax.Array, divisor: jax.Array) -> jax.Array:
        return x / jnp.where(x == x, divisor, 1)

    def choose(target: Target) -> Move:
        return wide if target.platform == "cuda" and x.dtype == jnp.float32 else narrow

    divisor = jnp.asarray(divisor, x.dtype)
    result = jax.ShapeDtypeStruct(lax.broadcast_shapes(x.shape, divisor.shape), x.dtype)
    return by_target(choose, narrow, result=result)(None, x, divisor)
