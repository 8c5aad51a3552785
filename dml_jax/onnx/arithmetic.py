"""ONNX's products of matrices."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import operators
from ..errors import ConstraintError
from ..lowering.values.accumulation_types import wide_type
from ..lowering.values.compiler_faults import unfused_product
from .elementwise import add
from .values import Array, Operators, arrays, on_device

__all__ = ["OPERATORS", "broadcast_term", "gemm", "matmul"]


def gemm(
    *,
    a: Array,
    b: Array,
    c: Array | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,  # noqa: N803  # as ONNX calls them
    transB: int = 0,  # noqa: N803
    broadcast: int = 1,
) -> Array:
    """Integers are multiplied in their type, by whole numbers only."""
    if a.ndim != 2 or b.ndim != 2:
        raise ConstraintError(f"a and b must have 2 dimensions, but their shapes are {a.shape} and {b.shape}")
    sizes = (a.shape[1 if transA else 0], b.shape[0 if transB else 1])
    c = None if c is None else broadcast_term(c, sizes, broadcast)
    if a.dtype.kind not in "iu":
        flags = {"trans_a": bool(transA), "trans_b": bool(transB)}
        a, b, *added = (on_device(x) for x in (a, b, c) if x is not None)
        return operators.gemm(a, b, *added, alpha=alpha, beta=beta, **flags)
    if alpha % 1 or beta % 1:
        raise ConstraintError(f"alpha and beta of integers must be whole numbers, but they are {alpha} and {beta}")
    product = matmul(a=a.T if transA else a, b=b.T if transB else b) * a.dtype.type(alpha)
    return product if c is None else add(a=product, b=c * a.dtype.type(beta))


def broadcast_term(c: Array, sizes: tuple[int, int], broadcast: int = 1) -> Array:
    """Returns what is added to a product of these sizes."""
    if c.shape == sizes:
        return c
    fits = c.ndim <= 2 and all(n in (1, m) for n, m in zip(c.shape[::-1], sizes[::-1], strict=False))
    if not broadcast or not fits:
        raise ConstraintError(f"c must {'broadcast to' if broadcast else 'be of'} {sizes}, but it is of {c.shape}")
    return (np if isinstance(c, np.ndarray) else jnp).broadcast_to(c, sizes)


def matmul(*, a: Array, b: Array) -> Array:
    """As exact as `gemm`; what is one matrix for a whole batch stays one."""
    if a.dtype.kind in "iu":
        xp, a, b = arrays(a, b)
        return xp.matmul(a, b)
    a, b, wide = on_device(a), on_device(b), wide_type(a.dtype)
    product = jnp.matmul(a, b, precision=lax.Precision.HIGHEST, preferred_element_type=wide)
    return unfused_product(product).astype(a.dtype)


OPERATORS: Operators = {
    "Gemm": {1: gemm},
    "MatMul": {1: matmul},
}
