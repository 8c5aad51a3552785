"""Convolutions whose windows lie side by side, as products of matrices, where each row is a patch, and none overlaps.

cuDNN reads the channels of a pixel side by side, eight at a time, where a picture has three. A copy makes rows of whole
patches, which a product takes as they are. The filter [1, 10] over [1, 2, 3, 4] with stride 2:

    [[1, 2],  @  [ 1,  =  [21, 43]
     [3, 4]]      10]
"""

from functools import partial
from itertools import chain
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ...operations.convolution import ConvolutionCase
from ...operations.programs.primitive import Move
from ...operations.programs.variant_selection import Variant


def _run(case: ConvolutionCase) -> Move | None:
    call = case.call
    can = call.groups == 1 and all(dim.are_tiles and dim.start == dim.end == 0 for dim in call.windows)
    return case.computed_by(partial(_multiply_patches, case.call)) if can else None


def _pays(case: ConvolutionCase) -> bool:
    """Products of 16-bit floats; XLA takes ten seconds to choose one of float32."""
    return case.call.x.dtype.itemsize == 2


def _multiply_patches(call: Any, x: jax.Array, w: jax.Array) -> jax.Array:
    (count, channels), outputs = x.shape[:2], w.shape[0]
    covered = lax.slice(x, [0] * x.ndim, [count, channels, *(dim.count * dim.window for dim in call.windows)])
    patches = covered.reshape(count, channels, *chain(*((dim.count, dim.window) for dim in call.windows)))
    order = 0, *range(2, patches.ndim, 2), 1, *range(3, patches.ndim, 2)
    # Fused with the product, the copy would be made again for each of its tiles.
    rows = lax.optimization_barrier(patches.transpose(order).reshape(-1, w[0].size))
    filters = w.reshape(outputs, -1)
    product = lax.dot_general(
        rows, filters, (((1,), (1,)), ((), ())), precision=call.precision, preferred_element_type=call.output
    )
    return jnp.moveaxis(product.reshape(count, *call.made, outputs), -1, 1)


VARIANTS = (Variant("patches", "convolution", "cuda", _run, _pays),)
