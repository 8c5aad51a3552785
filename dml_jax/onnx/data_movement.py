"""ONNX's gathers, scatters, TopK, OneHot and other data movement, by functions of `dml_jax`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.indices.modes import ReductionName
from ..errors import ConstraintError
from ..operators import cast, diagonal_matrix, fill_diagonals, fold, max_unpooling, nonzero_coordinates
from ..operators import cumulative_product as dml_cumulative_product
from ..operators import cumulative_summation as dml_cumulative_summation
from ..operators import depth_to_space as to_space
from ..operators import gather as dml_gather
from ..operators import gather_elements as dml_gather_elements
from ..operators import gather_nd as dml_gather_nd
from ..operators import one_hot as dml_one_hot
from ..operators import reverse_subsequences as dml_reverse
from ..operators import scatter_elements as dml_scatter_elements
from ..operators import scatter_nd as dml_scatter_nd
from ..operators import space_to_depth as to_depth
from ..operators import top_k as dml_top_k
from ..operators._depth_space_rules import OrderName
from .int64_ranges import Bounded
from .layout import axis_of, expand, pad, reshape
from .model_loading import dtype_of
from .sliding_windows import both_ends
from .stated_sizes import Maximum
from .values import Array, Operators, is_narrowed, known_ints, on_device


def gather(*, data: Array, indices: Array, axis: int) -> jax.Array:
    return dml_gather(on_device(data), indices, axis)


def gather_elements(*, data: Array, indices: Array, axis: int) -> jax.Array:
    return dml_gather_elements(_cut(on_device(data), indices, axis), indices, axis)


def gather_nd(*, data: Array, indices: Array, batch_dims: int = 0) -> jax.Array:
    return dml_gather_nd(on_device(data), indices, batch_dims=batch_dims)


def compress(*, input: Array, condition: Array, maximum: Maximum, axis: int | None = None) -> jax.Array:
    """Compress: the elements whose condition holds; without an axis, of the flattened array.

    With a stated `maximum` the output has that size: zeros follow the last element, and elements beyond are left out.
    """
    data = input.reshape(-1) if axis is None else input
    along = 0 if axis is None else axis_of("axis", axis, input.ndim)
    if condition.ndim != 1 or condition.size > data.shape[along]:
        rule = f"condition must be 1-D, of at most {data.shape[along]} elements"
        raise ConstraintError(f"{rule}, but its shape is {condition.shape}")
    size = maximum.of()
    if size is None:
        holds = maximum.known("condition", condition, "how many elements there are")
        return gather(data=data, indices=np.flatnonzero(holds), axis=along)
    kept = jnp.nonzero(on_device(condition), size=size, fill_value=data.shape[along])[0]
    return take_or_zero(on_device(data), kept, along)


def take_or_zero(data: jax.Array, indices: jax.Array, axis: int) -> jax.Array:
    """Returns slices along an axis, zeros where an index is its size; also of an axis without elements."""
    if data.shape[axis] == 0:
        return jnp.zeros((*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :]), data.dtype)
    return dml_gather(data, indices, axis, mode="fill")


def scatter_elements(*, data: Array, indices: Array, updates: Array, axis: int, reduction: str = "none") -> jax.Array:
    data = on_device(data)
    part = _cut(data, indices, axis)
    written = dml_scatter_elements(part, indices, on_device(updates), axis, reduction=_reduction_of(reduction))
    return lax.dynamic_update_slice(data, written, (0,) * data.ndim) if part.shape != data.shape else written


def scatter_nd(*, data: Array, indices: Array, updates: Array, reduction: str = "none") -> jax.Array:
    return dml_scatter_nd(on_device(data), indices, on_device(updates), reduction=_reduction_of(reduction))


def depth_to_space(*, input: Array, blocksize: int, mode: str = "DCR") -> jax.Array:
    return to_space(_picture(input), blocksize, order=order_of(mode))


def space_to_depth(*, input: Array, blocksize: int, mode: str = "DCR") -> jax.Array:
    return to_depth(_picture(input), blocksize, order=order_of(mode))


def one_hot(*, indices: Array, depth: Array, values: Array, axis: int = -1) -> jax.Array:
    """OneHot; unlike DirectML's, indices lack the one-hot dimension and may be floats."""
    along = axis_of("axis", axis, indices.ndim + 1)
    rows = reshape(data=indices, shape=[*indices.shape[:along], 1, *indices.shape[along:]], allowzero=1)
    if not jnp.issubdtype(rows.dtype, jnp.integer):
        rows = cast(on_device(rows), np.int32)
    return dml_one_hot(rows, on_device(values), number_of("depth", depth), along)


def top_k(*, x: Array, k: Any, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[jax.Array, jax.Array]:
    """TopK; the result is sorted whatever `sorted` says."""
    return dml_top_k(on_device(x), axis, number_of("k", k), direction="decreasing" if largest else "increasing")


def non_zero(*, x: Array, maximum: Maximum) -> Any:
    """NonZero: a column of coordinates per element that is not 0.

    With a stated `maximum` the output has so many columns; those beyond are left out. Columns after the last one hold
    the sizes of x: there a gather reads the last element, and a scatter writes nothing.
    """
    size = maximum.of()
    if size is None:
        return np.stack(np.nonzero(np.atleast_1d(maximum.known("x", x, "how many columns there are"))))[: x.ndim]
    count, coordinates = nonzero_coordinates(on_device(x))
    rows = jnp.pad(coordinates[:size], ((0, max(0, size - x.size)), (0, 0))).astype(np.int32)
    is_found = lax.iota(np.uint32, size)[:, None] < count  # one of NumPy would be a constant of the program
    columns = jnp.where(is_found, rows, np.asarray(x.shape, np.int32)).T
    return Bounded(columns, (0, max(x.shape, default=0))) if is_narrowed(np.int64) else columns.astype(np.int64)


def reverse_sequence(*, input: Array, sequence_lens: Array, batch_axis: int = 1, time_axis: int = 0) -> jax.Array:
    shape, wanted, time = lengths_among(input.shape, sequence_lens.shape, batch_axis, time_axis)
    lengths = expand(input=reshape(data=sequence_lens, shape=shape, allowzero=1), shape=wanted)
    return dml_reverse(on_device(input), lengths, time)


def lengths_among(shape: Any, lengths: Any, batch_axis: int, time_axis: int) -> tuple[list[int], list[int], int]:
    """Returns the shape of lengths among all dimensions, the shape that they broadcast to, and the time axis."""
    if len(shape) < 2 or {batch_axis, time_axis} not in ({0, 1}, {1, 0}) or list(lengths) != [shape[batch_axis]]:
        rule = "batch_axis and time_axis must be 0 and 1 of input, and sequence_lens have a length per batch"
        raise ConstraintError(f"{rule}, but they are {batch_axis} and {time_axis} of {shape} and {lengths}")
    one = [n if d == batch_axis else 1 for d, n in enumerate(shape)]
    return one, [1 if d == time_axis else n for d, n in enumerate(shape)], time_axis


def eye_like(*, input: Array, dtype: int | None = None, k: int = 0) -> jax.Array:
    if input.ndim != 2:
        raise ConstraintError(f"input must have 2 dimensions, but its shape is {input.shape}")
    return diagonal_matrix(input.shape, input.dtype if dtype is None else dtype_of(dtype, "dtype"), offset=k)


def trilu(*, input: Array, k: Array | None = None, upper: int = 1) -> jax.Array:
    begin, end = diagonals_of(input.shape, k, upper)
    return fill_diagonals(on_device(input), begin=begin, end=end, value=0)


def diagonals_of(shape: Any, k: Array | None, upper: int) -> tuple[int, int]:
    """Returns the range of diagonals that Trilu sets to 0: lower or upper ones."""
    if len(shape) < 2:
        raise ConstraintError(f"input must have at least 2 dimensions, but its shape is {shape}")
    at = 0 if k is None else number_of("k", k, "diagonals")
    return (min(-shape[-2], at), at) if upper else (at + 1, max(shape[-1], at + 1))


def cum_sum(*, x: Array, axis: Array, exclusive: int = 0, reverse: int = 0) -> jax.Array:
    return _accumulate(dml_cumulative_summation, x, axis, exclusive, reverse)


def cum_prod(*, x: Array, axis: Array, exclusive: int = 0, reverse: int = 0) -> jax.Array:
    return _accumulate(dml_cumulative_product, x, axis, exclusive, reverse)


def _accumulate(function: Any, x: Array, axis: Array, exclusive: int, reverse: int) -> jax.Array:
    direction = "decreasing" if reverse else "increasing"
    return function(on_device(x), number_of("axis", axis, "an axis"), direction=direction, exclusive=bool(exclusive))


def max_unpool(
    *, x: Array, i: Array, output_shape: Array | None = None, kernel_shape: Any, pads: Any = None, strides: Any = None
) -> Array:
    """MaxUnpool; indices count elements of the inferred output, whatever `output_shape` says."""
    sizes = unpooled_sizes(x.shape, kernel_shape, pads, strides)
    unpooled = max_unpooling(on_device(x), i, sizes)
    if output_shape is None:
        return unpooled
    wanted = known_ints("output_shape", output_shape)
    if len(wanted) != len(sizes):
        raise ConstraintError(f"output_shape must have {len(sizes)} sizes, but it is {wanted}")
    more = [a - b for a, b in zip(wanted, sizes, strict=True)]
    return pad(data=unpooled, pads=[0] * len(sizes) + more)


def unpooled_sizes(shape: Any, kernel_shape: Any, pads: Any, strides: Any) -> list[int]:
    rank = len(shape) - 2
    strides, pads = strides or [1] * rank, pads or [0] * 2 * rank
    if rank < 1 or not len(kernel_shape) == len(strides) == len(pads) / 2 == rank:
        given = f"{kernel_shape}, {strides} and {pads}"
        raise ConstraintError(f"kernel_shape, strides and pads must fit the dimensions of x, {shape}, but are {given}")
    columns = zip(shape[2:], strides, kernel_shape, pads[:rank], pads[rank:], strict=True)
    return [*shape[:2], *((n - 1) * step + kernel - low - high for n, step, kernel, low, high in columns)]


def col2im(*, input: Array, image_shape: Array, block_shape: Array, **attributes: Any) -> jax.Array:
    sizes, windows = known_ints("image_shape", image_shape), known_ints("block_shape", block_shape)
    return fold(on_device(input), sizes, windows, **sliding(len(sizes), **attributes))


def sliding(count: int, *, dilations: Any = None, pads: Any = None, strides: Any = None) -> dict[str, Any]:
    """Returns the keywords of `fold` for windows over `count` dimensions."""
    edges = both_ends(pads, count)
    steps, between = ([1] * count if given is None else list(given) for given in (strides, dilations))
    start, end = ([pair[side] for pair in edges] for side in range(2))
    return {"strides": steps, "dilations": between, "start_padding": start, "end_padding": end}


def number_of(name: str, value: Any, decides: str = "a shape") -> int:
    """Returns a number that must be known before a program is compiled: an attribute, or an array of one element."""
    numbers = known_ints(name, [value] if isinstance(value, int) else value, decides)
    if len(numbers) != 1:
        raise ConstraintError(f"{name} must be one number, but it is {numbers}")
    return numbers[0]


def _cut(data: Any, indices: Array, axis: int) -> Any:
    """Returns the part of `data` that `indices` reach, because ONNX lets these be smaller along other axes."""
    if data.ndim != indices.ndim or not -data.ndim <= axis < data.ndim:
        return data  # which the function refuses
    along = axis % data.ndim
    sizes = (n if d == along else min(n, k) for d, (n, k) in enumerate(zip(data.shape, indices.shape, strict=True)))
    return lax.slice(data, (0,) * data.ndim, tuple(sizes))


def _reduction_of(name: str) -> ReductionName | None:
    """Checks ONNX's name of a reduction: one of this library's, or "none"."""
    reductions: dict[str, ReductionName | None] = {"none": None, "add": "add", "mul": "mul", "min": "min", "max": "max"}
    if name not in reductions:
        raise ConstraintError(f"reduction must be {', '.join(reductions)}, but it is {name!r}")
    return reductions[name]


def _picture(input: Array) -> jax.Array:
    if np.ndim(input) != 4:
        raise ConstraintError(f"input must have 4 dimensions, but its shape is {input.shape}")
    return on_device(input)


def order_of(mode: str) -> OrderName:
    """Checks ONNX's name of an order, which is one of this library's."""
    if mode not in ("DCR", "CRD"):
        raise ConstraintError(f"mode must be DCR or CRD, but it is {mode!r}")
    return mode


OPERATORS: Operators = {
    "Gather": {1: gather},
    "GatherElements": {11: gather_elements},
    "GatherND": {11: gather_nd},
    "Scatter": {9: scatter_elements},
    "ScatterElements": {11: scatter_elements},
    "ScatterND": {11: scatter_nd},
    "DepthToSpace": {1: depth_to_space},
    "SpaceToDepth": {1: space_to_depth},
    "Col2Im": {18: col2im},
    "Compress": {9: compress},
    "CumProd": {26: cum_prod},
    "CumSum": {11: cum_sum},
    "EyeLike": {9: eye_like},
    "MaxUnpool": {9: max_unpool},
    "NonZero": {9: non_zero},
    "OneHot": {9: one_hot},
    "ReverseSequence": {10: reverse_sequence},
    "TopK": {1: top_k},
    "Trilu": {14: trilu},
}
