"""ONNX's Gemm and MatMul, and ONNX Runtime's fused matrix products."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import operators
from ..errors import ConstraintError
from ..operations.softmax import compute_along, softmax
from ..operations.values.wide_products import wide_product
from .contrib_schemas import optional, required, schema
from .elementwise import add
from .layout import axis_of
from .values import Array, Operators, arrays, on_device


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
    """Gemm; integers are multiplied in their type, by integral alpha and beta only."""
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
    """MatMul, as exact as `gemm`; a matrix shared by a batch is not repeated."""
    if a.dtype.kind in "iu":
        xp, a, b = arrays(a, b)
        return xp.matmul(a, b)
    return _product(on_device(a), on_device(b)).astype(a.dtype)


def _product(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns a product in float32 or wider."""
    return wide_product(partial(jnp.matmul, precision=lax.Precision.HIGHEST))(a, b)


def _fused_matmul(*, a: Array, b: Array, **attributes: Any) -> jax.Array:
    return _scaled_product(a, b, **attributes).astype(a.dtype)


def _fused_matmul_activation(
    *,
    a: Array,
    b: Array,
    activation: str,  # supported_options.py refuses others than Softmax
    activation_axis: int = -1,
    **attributes: Any,
) -> jax.Array:
    """FusedMatMulActivation; ONNX Runtime fuses Softmax only, along one dimension, without parameters."""
    for name in ("activation_alpha", "activation_beta", "activation_gamma"):
        if (number := attributes.pop(name, None)) is not None:
            raise ConstraintError(f"{name} must be left out, because a Softmax has no numbers, but it is {number}")
    product = _scaled_product(a, b, **attributes)
    at = axis_of("activation_axis", activation_axis, product.ndim)
    return compute_along(lambda x: softmax(x, (at,)), product, (at,)).astype(a.dtype)


def _scaled_product(
    a: Array,
    b: Array,
    alpha: float,
    transA: int,  # noqa: N803
    transB: int,  # noqa: N803
    transBatchA: int,  # noqa: N803
    transBatchB: int,  # noqa: N803
) -> jax.Array:
    """Returns alpha times the product of matrices that may be transposed, in float32 or wider."""
    if (transBatchA or transBatchB) and not a.ndim == b.ndim >= 3:
        rule = "with transBatchA or transBatchB a and b must have one rank of at least 3"
        raise ConstraintError(f"{rule}, but their shapes are {a.shape} and {b.shape}")
    product = _product(_matrices(a, transA, transBatchA), _matrices(b, transB, transBatchB))
    return product * np.asarray(alpha, product.dtype)


def _matrices(x: Array, is_transposed: int, is_batch_transposed: int) -> jax.Array:
    """Undoes the flags transBatch and trans; they do not change a vector."""
    x = on_device(x)
    x = jnp.moveaxis(x, 0, -2) if is_batch_transposed else x
    return x.mT if is_transposed and x.ndim > 1 else x


OPERATORS: Operators = {
    "Gemm": {1: gemm},
    "MatMul": {1: matmul},
    "com.microsoft::FusedMatMul": {1: _fused_matmul},
    "com.microsoft::FusedMatMulActivation": {1: _fused_matmul_activation},
}
_FLOATS = "bfloat16 float16 float double"
_ORDERS = {"alpha": 1.0, "transA": 0, "transB": 0, "transBatchA": 0, "transBatchB": 0}
_ACTIVATION = {
    "activation": required("STRING"),
    "activation_axis": optional("INT"),
    **{f"activation_{name}": optional("FLOAT") for name in ("alpha", "beta", "gamma")},
}
SCHEMAS = (
    schema("FusedMatMul", "A T, B T", "Y T", _ORDERS, T=_FLOATS),
    schema("FusedMatMulActivation", "A T, B T", "Y T", _ORDERS | _ACTIVATION, T=_FLOATS),
)
