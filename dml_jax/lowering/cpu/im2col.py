"""Convolutions as products of matrices with columns (im2col): XLA:CPU multiplies by a tuned library, in all threads.

It transposes the filter of every convolution, element by element and in one thread: where the filter is large, or each
place of it does little, that takes longer than the sums. A product of matrices takes the filter as it is, and the
elements under each place of it from columns, which are copied beside each other. The filter [1, 10] over [1, 2, 3, 4]:

    [1, 10] @ [[1, 2, 3],    =  [21, 32, 43]
               [2, 3, 4]]
"""

from functools import partial
from math import prod

import jax
import jax.numpy as jnp
from jax import lax

from ...operations.convolution import ConvolutionCase
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant
from ...operations.unfold import unfold_slices
from ...operations.window_slices import read_slices
from .machine import FRESH

KEPT = FRESH // 2  # bytes that the C library keeps for the next call, and as much for the product
VECTOR = 16  # floats of the longest vector: XLA:CPU's convolution multiplies along channels


def _convolve(case: ConvolutionCase) -> Move | None:
    return case.move(partial(_multiply_columns, case)) if case.devices == 1 else None


def _pays(case: ConvolutionCase) -> bool:
    """Columns that are x itself; or few enough, if channels fill no vector, or there are no more than filters.

    With one channel per group it would be a product of few rows.
    """
    call, channels = case.call, case.call.x.shape[1]
    is_thin = call.groups > 1 or channels <= VECTOR or case.places <= call.w.shape[0]
    return case.kernel == 1 or (case.column_bytes <= KEPT and is_thin and not case.is_depthwise)


def _multiply_columns(case: ConvolutionCase, x: jax.Array, w: jax.Array) -> jax.Array:
    """A product of matrices for each group: the filters by the columns of elements under their places."""
    call, depth = case.call, prod(w.shape[1:])
    axes = range(2, x.ndim)
    # XLA multiplies x itself where nothing is added to it or left out.
    under = next(read_slices(x, axes, call.windows)) if case.kernel == 1 else unfold_slices(x, call.windows)
    columns = under.reshape(x.shape[0], call.groups, depth, -1)
    filters = w.reshape(call.groups, -1, depth)
    product = _multiply_each if len(x) == 1 or _is_large(columns, filters) else _multiply_at_once
    return product(filters, columns, call.precision).reshape(x.shape[0], w.shape[0], *call.y.shape[2:])


def _is_large(columns: jax.Array, filters: jax.Array) -> bool:
    """Whether one product per example is faster than one for all examples.

    Each loads the filters again; around a product for all, XLA:CPU transposes the columns and the result.
    """
    (_, outputs, depth), places = filters.shape, columns.shape[-1]
    return outputs * depth <= (outputs + depth) * places


def _multiply_each(filters: jax.Array, columns: jax.Array, precision: lax.Precision | None) -> jax.Array:
    repeated = jnp.broadcast_to(filters, (columns.shape[0], *filters.shape)).reshape(-1, *filters.shape[1:])
    return jnp.matmul(repeated, columns.reshape(-1, *columns.shape[2:]), precision=precision)


def _multiply_at_once(filters: jax.Array, columns: jax.Array, precision: lax.Precision | None) -> jax.Array:
    product = lax.dot_general(filters, columns, (((2,), (2,)), ((0,), (1,))), precision=precision)
    return jnp.moveaxis(product, 2, 0)


VARIANTS = (Variant("im2col", "convolution", "cpu", _convolve, _pays),)
