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
from ...operations.sliding_windows import Windows
from ...operations.unfold import fold_windows, unfold_slices
from ...operations.values.xla_workarounds import unfused_product
from ...operations.window_slices import read_slices
from .machine import FRESH

KEPT = FRESH // 2  # bytes that the C library keeps for the next call, and as much for the product
VECTOR = 16  # floats of the longest vector: XLA:CPU's convolution multiplies along channels
MOST = 2**28  # bytes of the columns of one example, which are memory that the plain form does not take
ADDITION = 4  # products that take as long as to add up an element of a column, for each element of the filter


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
    multiply = _multiply_each if len(x) == 1 or _is_large(columns, filters) else _multiply_at_once
    product = unfused_product(multiply(filters, columns, call.precision))
    return product.reshape(x.shape[0], w.shape[0], *call.y.shape[2:])


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


# The transpose is the way back: a product makes columns, which are added up where they lie over each other (col2im).
# The filter [1, 10] over [1, 2, 3] at stride 1 makes [1, 12, 23, 30].


def _convolve_back(case: ConvolutionCase) -> Move | None:
    """None for its gradients, which are faster plainly on some shapes."""
    add = _add_each if case.call.x.shape[0] > 1 and _made_bytes(case) > KEPT else _add_columns
    return case.widened(partial(add, case)) if case.gives == "output" else None


def _back_pays(case: ConvolutionCase) -> bool:
    """Groups and volumes, which XLA:CPU convolves without its library, if one example's columns fit the memory.

    Else few columns that spare it much: it multiplies the zeros between the elements of x, too, and vectors along
    channels of the result.
    """
    call = case.call
    if call.groups > 1 or len(call.windows) > 2:
        return _made_bytes(case) <= MOST * call.x.shape[0]
    outputs, depth = call.w.shape[:2]
    is_whole = all(dim.window >= dim.stride for dim in call.windows)  # no gaps in the result, which cost it nothing
    spared = (prod(dim.stride for dim in call.windows) - (outputs > VECTOR)) * depth
    pays = outputs <= VECTOR // 2 or spared >= ADDITION * case.kernel
    return is_whole and pays and _made_bytes(case) <= KEPT


def _made_bytes(case: ConvolutionCase) -> int:
    """Bytes of the columns that the product makes: a filter for each element of x."""
    batch, _, *sizes = case.call.x.shape
    return batch * prod(sizes) * case.call.w.shape[0] * case.kernel * case.call.x.dtype.itemsize


def _add_each(case: ConvolutionCase, x: jax.Array, w: jax.Array) -> jax.Array:
    """One example after the other: columns of all would fill the memory, many times the result."""
    return lax.map(lambda example: _add_columns(case, example[None], w)[0], x)


def _add_columns(case: ConvolutionCase, x: jax.Array, w: jax.Array) -> jax.Array:
    """A product of matrices for each group, of the filters and the pixels; then the sum of the columns."""
    call, kernel = case.call, w.shape[2:]
    forward = lax.rev(w, range(2, w.ndim)).reshape(call.groups, -1, w.shape[1], case.kernel)
    filters = jnp.swapaxes(forward, 2, 3).reshape(call.groups, -1, w.shape[1])
    pixels = x.reshape(x.shape[0], call.groups, w.shape[1], -1)
    product = _multiply_each if len(x) == 1 or _is_large(pixels, filters) else _multiply_at_once
    columns = product(filters, pixels, call.precision).reshape(x.shape[0], w.shape[0], *kernel, *x.shape[2:])
    return fold_windows(columns, list(map(_over_result, call.windows, call.y.shape[2:])))


def _over_result(dim: Windows, size: int) -> Windows:
    """The windows of a filter along a dimension of the result, one for each element of x."""
    end = (dim.size - 1) * dim.stride + dim.span - dim.start - size
    return Windows(size, dim.window, dim.stride, dim.dilation, dim.start, end)


VARIANTS = (
    Variant("im2col", "convolution", "cpu", lambda case: case.widened(partial(_multiply_columns, case)), _pays),
    Variant("im2col", "transposed convolution", "cpu", _convolve_back, _back_pays),
)
