"""ONNX's products of matrices, and convolution."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import operators
from ..errors import ConstraintError
from ..lowering.combine import wide_type
from .elementwise import add
from .values import Array, Operators, arrays, on_device

__all__ = ["OPERATORS", "conv", "gemm", "matmul"]


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
    if c is not None and c.shape != sizes:
        fits = c.ndim <= 2 and all(n in (1, m) for n, m in zip(c.shape[::-1], sizes[::-1], strict=False))
        if not broadcast or not fits:
            raise ConstraintError(f"c must {'broadcast to' if broadcast else 'be of'} {sizes}, but it is of {c.shape}")
        c = (np if isinstance(c, np.ndarray) else jnp).broadcast_to(c, sizes)
    if a.dtype.kind not in "iu":
        flags = {"trans_a": bool(transA), "trans_b": bool(transB)}
        a, b, *added = (on_device(x) for x in (a, b, c) if x is not None)
        return operators.gemm(a, b, *added, alpha=alpha, beta=beta, **flags)
    if alpha % 1 or beta % 1:
        raise ConstraintError(f"alpha and beta of integers must be whole numbers, but they are {alpha} and {beta}")
    product = matmul(a=a.T if transA else a, b=b.T if transB else b) * a.dtype.type(alpha)
    return product if c is None else add(a=product, b=c * a.dtype.type(beta))


def matmul(*, a: Array, b: Array) -> Array:
    """As exact as `gemm`; what is one matrix for a whole batch stays one."""
    if a.dtype.kind in "iu":
        xp, a, b = arrays(a, b)
        return xp.matmul(a, b)
    a, b, wide = on_device(a), on_device(b), wide_type(a.dtype)
    made = jnp.matmul(a, b, precision=lax.Precision.HIGHEST, preferred_element_type=wide)
    return made.astype(a.dtype)


def conv(
    *,
    x: Array,
    w: Array,
    b: Array | None = None,
    auto_pad: str = "NOTSET",
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> Array:
    rank = x.ndim - 2
    if rank < 1 or w.ndim != x.ndim or kernel_shape not in (None, list(w.shape[2:])):
        shapes = f"x is {x.shape}, w is {w.shape}, kernel_shape is {kernel_shape}"
        raise ConstraintError(
            f"x and w must have one rank of at least 3, and w the sizes of kernel_shape, but {shapes}"
        )
    if group < 1 or w.shape[1] * group != x.shape[1] or w.shape[0] % group:
        raise ConstraintError(
            f"channels must fit group: {group} * w.shape[1] = x.shape[1] and w.shape[0] % {group} = 0, "
            f"but x is {x.shape} and w is {w.shape}"
        )
    strides, dilations = (_per_dimension(name, v, rank) for name, v in (("strides", strides), ("dilations", dilations)))
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    padding = _padding(auto_pad, pads, x.shape[2:], reach, strides)
    y = lax.conv_general_dilated(
        on_device(x), on_device(w), strides, padding, rhs_dilation=dilations, feature_group_count=group
    )
    return y if b is None else add(a=y, b=on_device(b).reshape((-1, *(1,) * rank)))


def _per_dimension(name: str, value: Any, rank: int) -> list[int]:
    numbers = [1] * rank if value is None else list(value)
    if len(numbers) != rank or min(numbers) < 1:
        raise ConstraintError(f"{name} must be {rank} numbers of at least 1, but it is {numbers}")
    return numbers


def _padding(mode: str, pads: Any, sizes: Any, reach: list[int], strides: list[int]) -> list[tuple[int, int]]:
    """Zeros before and after each dimension."""
    rank = len(reach)
    if mode == "NOTSET":
        pads = [0] * 2 * rank if pads is None else list(pads)
        if len(pads) != 2 * rank:
            raise ConstraintError(f"pads must be {2 * rank} numbers, two per dimension, but they are {pads}")
        return list(zip(pads[:rank], pads[rank:], strict=True))
    if mode not in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        raise ConstraintError(f"auto_pad must be NOTSET, SAME_UPPER, SAME_LOWER or VALID, but it is {mode!r}")
    totals = [max(0, (-(-n // s) - 1) * s + r - n) for n, r, s in zip(sizes, reach, strides, strict=True)]
    low = {"SAME_UPPER": lambda t: t // 2, "SAME_LOWER": lambda t: -(-t // 2), "VALID": lambda t: 0}[mode]
    return [(0, 0) if mode == "VALID" else (low(t), t - low(t)) for t in totals]


OPERATORS: Operators = {
    "Conv": {1: conv},
    "Gemm": {1: gemm},
    "MatMul": {1: matmul},
}
