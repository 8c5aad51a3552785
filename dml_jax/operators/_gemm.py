"""GEMM: matrix products, scaled, plus another matrix, and an activation."""

from __future__ import annotations

import enum
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
from jax import lax

from ..core.arguments.kinds import Data, Flag, OutSharding
from ..core.arguments.operator import operator
from ..core.rules import Operands, custom, floats, if_given, minimum_rank, representable, same_dtype, sizes_follow
from ..core.sharding import Dims
from ..core.structs.activation_fusion import Fused, Fusion, axes_within
from ..core.structs.feature_level_tables import FLOATS, RANK_4, levels
from ..core.structs.field_types import Named, default
from ..core.structs.fields import Float, Input, OptionalInput, Output, named
from ..core.structs.operator_desc import OperatorDesc
from ..operations.values.accumulation_types import in_type, narrow_apart, wide_type
from ..operations.values.wide_products import wide_product

__all__ = ["GemmDesc", "MatrixTransform", "gemm"]


class MatrixTransform(enum.IntEnum):
    """DML_MATRIX_TRANSFORM: the transform of a matrix before it is multiplied."""

    NONE = 0
    TRANSPOSE = 1


FieldTransform = Annotated[Named[MatrixTransform], named(MatrixTransform, "DML_MATRIX_TRANSFORM_")]


def _matrix_sizes(x: Operands, name: str) -> tuple[Any, ...] | None:
    """Returns the rows and columns of a matrix, after transposing it if asked; None if it has too few dimensions."""
    sizes = tuple(x[name].shape[-2:])
    return (sizes[::-1] if x[f"trans_{name}"] else sizes) if len(sizes) == 2 else None


def product_sizes(x: Operands) -> tuple[Any, ...] | None:
    """Returns the sizes of the product; None if another rule is broken."""
    a, b = _matrix_sizes(x, "a"), _matrix_sizes(x, "b")
    return None if a is None or b is None else (*x["a"].shape[:-2], a[0], b[1])


def _other_batch(x: Operands) -> str | None:
    a, b = tuple(x["a"].shape[:-2]), tuple(x["b"].shape[:-2])
    return None if product_sizes(x) is None or a == b else f"they are {b} and {a}"


def _other_inner_size(x: Operands) -> str | None:
    a, b = _matrix_sizes(x, "a"), _matrix_sizes(x, "b")
    return None if a is None or b is None or a[1] == b[0] else f"there are {a[1]} columns and {b[0]} rows"


FORMULA = (
    "those of the product: {a}'s before the last two, the rows of {a}, the columns of {b}, each as it is multiplied"
)
SAME_BATCH = custom("same_batch(b, a)", "{b}.{sizes} before the last two must equal those of {a}", _other_batch)
SAME_INNER_SIZE = custom(
    "same_inner_size(a, b)", "{a} must have as many columns as {b} rows, each as it is multiplied", _other_inner_size
)
ADDED = if_given("c", sizes_follow("c", product_sizes, FORMULA))
RULES = (
    minimum_rank("a", 2),
    minimum_rank("b", 2),
    floats("a"),
    same_dtype("b", "a"),
    if_given("c", same_dtype("c", "a")),
    SAME_BATCH,
    SAME_INNER_SIZE,
    representable("a", product_sizes, of="a"),
    ADDED,
    axes_within("activation", "a"),
)


def _dims(x: Operands) -> Dims:
    """Rows and columns keep their sharding; the dimension that is added up is not in the product."""
    batch = [f"batch {d}" for d in range(x["a"].ndim - 2)]
    a, b, output = (["row", "inner"], ["inner", "column"], [*batch, "row", "column"])
    operands = {
        "a": [*batch, *(reversed(a) if x["trans_a"] else a)],
        "b": [*batch, *(reversed(b) if x["trans_b"] else b)],
    }
    return Dims(operands if x["c"] is None else operands | {"c": output}, output)


@operator(*RULES, dims=_dims)
def gemm(
    a: Data,
    b: Data,
    c: Data | None = None,
    *,
    trans_a: Flag = False,
    trans_b: Flag = False,
    alpha: float = 1.0,
    beta: float = 1.0,
    activation: Fusion | None = None,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Multiplies matrices, scales the product, adds another matrix, and applies an activation.

    output = activation(alpha * op(a) @ op(b) + beta * c), where op transposes the last two dimensions if asked for

    Floats of 8 and 16 bits are computed in float32 and rounded once, at the end. Products are as exact as the type:
    no TF32 on GPUs, no bfloat16 on TPUs. Nothing is broadcast.

    Args:
      a: [..., M, K], or [..., K, M] with `trans_a`; floats of any width.
      b: [..., K, N], or [..., N, K] with `trans_b`; the same sizes before, and the dtype of `a`.
      c: [..., M, N], the dtype of `a`; or None, which adds nothing.
      trans_a: whether the matrices of `a` are transposed.
      trans_b: whether the matrices of `b` are transposed.
      alpha: a real number, known while tracing; it is rounded to the type that is computed in.
      beta: as `alpha`. If it is 0, `c` is not read: its infinities and NaNs do no harm.
      activation: an `Activation`, or None.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.
        It must be given where the dimension of the sums is sharded.

    Returns:
      An array of [..., M, N] and the dtype of `a`.

    Raises:
      ConstraintError: rank below 2, or sizes that do not fit each other.
      DataTypeError: `a` has no floats, `b` or `c` has others, `alpha` or `beta` is no real number, `activation` is no
        `Activation`, or 64-bit floats while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> a, b = np.float32([[1, 2, 3]]), np.float32([[4, 5, 6]])
      >>> print(dml_jax.gemm(a, b, trans_a=True))
      [[ 4.  5.  6.]
       [ 8. 10. 12.]
       [12. 15. 18.]]
      >>> relu = dml_jax.Activation("ACTIVATION_RELU")
      >>> print(dml_jax.gemm(a, b, np.float32([[40]]), trans_b=True, alpha=-1, activation=relu))
      [[8.]]

    Source: DML_GEMM_OPERATOR_DESC, which broadcasts by strides of 0, and says neither how FLOAT16 is added up nor what
      a `beta` of 0 makes of NaN.
    """
    dtype = a.dtype
    wide = wide_type(dtype)
    # Halves are multiplied as they are, which float32 holds exactly; not every device multiplies eight bits.
    a, b = (jnp.asarray(x, dtype if dtype.itemsize > 1 else wide) for x in (a, b))
    batch = tuple(range(a.ndim - 2))
    inner = (a.ndim - 2 if trans_a else a.ndim - 1,), (b.ndim - 1 if trans_b else b.ndim - 2,)
    multiply = partial(lax.dot_general, dimension_numbers=(inner, (batch, batch)), precision=lax.Precision.HIGHEST)
    total = wide_product(multiply)(a, b) * in_type(wide, alpha)
    if c is not None and beta != 0:
        total = total + jnp.asarray(c, wide) * in_type(wide, beta)
    return narrow_apart(total if activation is None else activation(total), dtype)


class GemmDesc(OperatorDesc):
    """DML_GEMM_OPERATOR_DESC: multiplies matrices, scales the product, adds another one, and applies an activation.

    Args:
      a: (..., M, K), or (..., K, M) if it is transposed.
      b: (..., K, N), or (..., N, K) if it is transposed; the sizes before are those of `a`.
      c: (..., M, N), often broadcast by strides of 0; or None.
      output: (..., M, N).
      trans_b: as `trans_a`.
      alpha: a number that the product is multiplied with.
      beta: a number that `c` is multiplied with; without effect if `c` is None.

    Example:
      >>> row, matrix = TensorDesc("FLOAT32", (1, 3)), TensorDesc("FLOAT32", (3, 3))
      >>> twos = TensorDesc("FLOAT32", (3, 3), strides=(0, 0))
      >>> desc = GemmDesc(row, row, twos, matrix, trans_a="TRANSPOSE")
      >>> print(desc.compute(np.float32([[1, 2, 3]]), np.float32([[4, 5, 6]]), np.full((3, 3), 2, np.float32)))
      [[ 6.  7.  8.]
       [10. 12. 14.]
       [14. 17. 20.]]
    """

    a: Input
    b: Input
    c: OptionalInput
    output: Output
    trans_a: FieldTransform = default(MatrixTransform.NONE)
    trans_b: FieldTransform = default(MatrixTransform.NONE)
    alpha: Float = 1.0
    beta: Float = 1.0
    fused_activation: Fused = None

    support = levels(("4_0", range(2, 5), FLOATS), ("1_0", RANK_4, FLOATS), of="a")
    constraints = (
        SAME_BATCH,
        SAME_INNER_SIZE,
        ADDED,
        sizes_follow("output", product_sizes, FORMULA),
        axes_within("fused_activation", "output"),
    )

    def compute_checked(self, a: jax.Array, b: jax.Array, c: jax.Array | None = None) -> jax.Array:
        return gemm(
            a,
            b,
            c,
            trans_a=bool(self.trans_a),
            trans_b=bool(self.trans_b),
            alpha=self.alpha,
            beta=self.beta,
            activation=self.fused_activation,
        )
