"""Large arrays chunk by chunk on CPUs, so that what is computed on the way to a small result stays in the cache.

XLA:CPU reduces numbers with vectors only if they lie in memory. So it writes all of them to fresh memory first where
they are widened, compared or numbered, and that costs more than to reduce them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..forms import Choice, Options, choose_form, forced_form, is_plain, known_bytes, shapes_of
from ..primitive import varying_alike
from .cache_chunks_sum import as_image, from_image, widen

__all__ = ["FLOAT8", "FRESH", "Part", "choose_chunks", "cut_dimension", "fold_rows", "map_chunks", "row_size"]

CHUNK = 2**21  # bytes of wide numbers
FRESH = range(2**25, 2**62)  # bytes of an array that the C library takes fresh from the system each time
FLOAT8 = {name for name in dir(jnp) if name.startswith("float8_")}

# Wide numbers, and where they start along each dimension, to a tree of arrays of as many dimensions.
Part = Callable[[jax.Array, Sequence[Any]], Any]


def choose_chunks(
    whole: Callable[[jax.Array], jax.Array],
    others: Mapping[str, Callable[[jax.Array], jax.Array]],
    table: Sequence[Choice],
    case: Mapping[str, Any],
) -> Callable[[jax.Array], jax.Array]:
    """`whole`, or another form on platforms where a table says so, which only one device computes.

    Args:
      whole: the plain form, whose derivative counts.
      others: by name, the same of an array of known sizes, none of them 0.
      table: says where; its rows may name fields of `case`, "dtype", and "wide_bytes", those of a number of 32 bits or
        more for each element.
      case: what the table asks for.
    """
    form = forced_form()

    def options(array: jax.Array) -> Callable[[int], Options]:
        made, like = shapes_of(jax.eval_shape(whole, array), array)
        sizes = {"bytes": known_bytes(made, like), "wide_bytes": known_bytes(like) * max(1, 4 // like.dtype.itemsize)}
        fields = {**case, "dtype": like.dtype.name, **sizes}
        is_known = sizes["bytes"] > 0 and like.size > 0 and like.ndim > 0
        forms = {"plain": whole, **(others if is_known else {})}
        forms = {name: partial(_of_leaf, form) for name, form in forms.items()}
        return lambda devices: (forms if devices == 1 else {"plain": forms["plain"]}, fields)

    @jax.custom_jvp
    def computed(array: jax.Array) -> jax.Array:
        return choose_form(options(array), table, form)(None, array)

    @computed.defjvp
    def _(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
        return jax.jvp(whole, primals, tangents)

    return lambda array: whole(array) if is_plain(options(array), table, form) else computed(array)


def row_size(x: Any, axes: Sequence[int]) -> int:
    """How many elements lie side by side where one axis is counted up; 0 of several axes, and of unknown sizes."""
    return prod(x.shape[axes[0] + 1 :]) if len(axes) == 1 and known_bytes(x) else 0


def _of_leaf(form: Callable[[jax.Array], jax.Array], _: Any, array: jax.Array) -> jax.Array:
    return form(array)


def fold_rows(
    combine: Callable[[jax.Array, jax.Array], jax.Array],
    of: Callable[[jax.Array], jax.Array],
    array: jax.Array,
    axis: int,
    wide: Any,
) -> jax.Array:
    """Combines `of(row)` of all rows along an axis, which stays, one after the other, as numbers of a wide type."""

    def row(array: jax.Array, at: Any) -> jax.Array:
        return of(_widened(lax.dynamic_slice_in_dim(as_image(array), at, 1, axis), array.dtype, wide))

    def step(turn: Any, carried: Any) -> Any:
        array, total = carried
        turn, now = lax.optimization_barrier((turn, array))  # as in map_chunks
        return array, combine(total, row(now, turn))

    return lax.fori_loop(1, array.shape[axis], step, (array, row(array, 0)))[1]


def _widened(image: jax.Array, dtype: Any, wide: Any) -> jax.Array:
    return (widen(image, wide) if dtype == jnp.bfloat16 else image).astype(wide)


def map_chunks(part: Part, array: jax.Array, wide: Any) -> Any:
    """What `part` makes of the chunks of an array, one after the other along the dimension that is cut.

    Args:
      part: makes arrays whose size along a dimension is that of the chunk, or 1.
      array: of known sizes, none of them 0.
      wide: the type in which chunks are computed.
    """
    axis = cut_dimension(array.shape, wide)
    n = array.shape[axis]
    size = min(n, max(1, CHUNK * n // (array.size * jnp.dtype(wide).itemsize)))
    whole, rest = divmod(n, size)

    def compute(size: int, array: jax.Array, start: Any) -> Any:
        chunk = _widened(lax.dynamic_slice_in_dim(as_image(array), start, size, axis), array.dtype, wide)
        return part(chunk, [start if d == axis else 0 for d in range(array.ndim)])

    def zeros(one: Any) -> jax.Array:
        length = n if one.shape[axis] == size else -(-n // size)
        return jnp.zeros((*one.shape[:axis], length, *one.shape[axis + 1 :]), one.dtype)

    one = jax.eval_shape(partial(compute, size), array, 0)

    def write(made: Any, found: Any, turn: Any) -> Any:
        starts = jax.tree.map(lambda one: turn * one.shape[axis], one)
        images = jax.tree.map(as_image, found)
        return jax.tree.map(partial(lax.dynamic_update_slice_in_dim, axis=axis), made, images, starts)

    def step(turn: Any, carried: Any) -> Any:
        array, made = carried
        # XLA:CPU moves a conversion out of a loop, as no iteration changes its result.
        turn, now = lax.optimization_barrier((turn, array))
        return array, write(made, compute(size, now, turn * size), turn)

    images = jax.tree.map(lambda one: as_image(zeros(one)), one)
    _, images = lax.fori_loop(0, whole, step, varying_alike(array, images))
    images = write(images, compute(rest, array, whole * size), whole) if rest else images
    return jax.tree.map(lambda one, image: from_image(image, one.dtype), one, images)


def cut_dimension(sizes: Sequence[int], wide: Any) -> int:
    """The first dimension whose slices of numbers of a type fit in a chunk: that which is cut."""
    itemsize = jnp.dtype(wide).itemsize
    return next((d for d in range(len(sizes)) if prod(sizes[d + 1 :]) * itemsize <= CHUNK), 0)
