"""ONNX's layout operators (Reshape, Transpose, Concat, Split, Slice, Tile, Pad, ...): NumPy on constants, else JAX."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import ceil, prod
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.core import Tracer
from jax.sharding import SingleDeviceSharding

from ..errors import ConstraintError
from ..operations.values.bit_exact import as_guarded_bits, carry_bits
from ..operators import fill_value_constant, fill_value_sequence, select
from ..operators import join as dml_join
from ..operators import pad as dml_pad
from ..operators import slice as dml_slice
from ..operators import split as dml_split
from ..operators import tile as dml_tile
from ..operators._pad import Mode
from .memory_limits import check_array
from .values import Array, Operators, arrays, known, known_ints, move_bits, on_device


def identity(*, input: Array) -> Array:
    return input


def constant(**attributes: Any) -> np.ndarray:
    given = [(name, value) for name, value in attributes.items() if name in _CONSTANTS]
    if len(given) != 1 or len(attributes) != 1:
        names = ", ".join(attributes) or "none"
        raise ConstraintError(f"a constant must have one attribute, of {', '.join(_CONSTANTS)}, but it has {names}")
    ((name, value),) = given
    return np.asarray(value, _CONSTANTS[name])


# Their types; None is that of the tensor.
_CONSTANTS = {
    "value": None,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_float": np.float32,
    "value_floats": np.float32,
}


def shape(*, data: Array, start: int = 0, end: int | None = None) -> np.ndarray:
    return np.array(data.shape[start:end], np.int64)


def size(*, data: Array) -> np.ndarray:
    return np.asarray(prod(data.shape), np.int64)


def constant_of_shape(*, input: Array, value: np.ndarray | None = None) -> Array:
    value = np.zeros(1, np.float32) if value is None else value
    return fill_value_constant(sizes_of("input", input), value.reshape(-1)[0], value.dtype)


def range_(*, start: Array, limit: Array, delta: Array, stash_type: int = 0) -> Array:
    """Range; narrow floats are computed as float32, as other runtimes do before stash_type too."""
    count, first, step = range_of(start, limit, delta)
    if first.dtype.kind in "iu" and all(isinstance(x, np.ndarray) for x in (start, limit, delta)):
        return first + step * np.arange(count).astype(step.dtype)  # which wrap
    return fill_value_sequence((count,), first, step, start.dtype)


def range_of(start: Array, limit: Array, delta: Array) -> tuple[int, np.ndarray, np.ndarray]:
    """Returns how many numbers a range has, the first one, and the step."""
    first, last, step = (known(n, v).reshape(()) for n, v in (("start", start), ("limit", limit), ("delta", delta)))
    if step == 0:
        raise ConstraintError("delta must not be 0, but it is")
    if first.dtype.kind in "iu":
        return len(range(int(first), int(last), int(step))), first, step
    wide = first.dtype if first.dtype.itemsize > 2 else np.dtype(np.float32)
    count = ceil(float(last.astype(wide) - first.astype(wide)) / float(step))  # in 64 bits, whatever the type
    return max(0, count), first, step


def reshape(*, data: Array, shape: Any, allowzero: int = 0) -> Array:
    wanted = known_ints("shape", shape)
    if not allowzero and any(n == 0 and d >= data.ndim for d, n in enumerate(wanted)):
        raise ConstraintError(f"a 0 in shape must copy a size of data, but {wanted} has one beyond {data.shape}")
    if min(wanted, default=0) < -1 or wanted.count(-1) > 1:
        raise ConstraintError(f"shape must be sizes, of which one may be -1, but it is {wanted}")
    sizes = [data.shape[d] if n == 0 and not allowzero else n for d, n in enumerate(wanted)]
    if -1 in sizes and 0 in sizes:
        raise ConstraintError(f"the size for -1 must follow from the others, but these are {sizes}, and one is 0")
    return _of_sizes(data, sizes)


def _of_sizes(data: Array, sizes: Sequence[Any]) -> Array:
    """The elements in an array of other sizes, which may be symbolic."""
    xp, data = arrays(data)
    return xp.reshape(data, sizes)


def flatten(*, input: Array, axis: int) -> Array:
    return _of_sizes(input, flattened_sizes(input.shape, axis))


def flattened_sizes(shape: Sequence[int], axis: int) -> list[int]:
    """Returns the number of rows and of columns of a matrix whose rows are the dimensions before an axis."""
    rank = len(shape)
    if not -rank <= axis <= rank:
        raise ConstraintError(f"axis must be in [{-rank}, {rank}], but it is {axis}")
    at = axis if axis >= 0 else axis + rank
    return [prod(shape[:at]), prod(shape[at:])]


def transpose(*, data: Array, perm: Any = None) -> Array:
    perm = list(range(data.ndim))[::-1] if perm is None else list(perm)
    if sorted(perm) != list(range(data.ndim)):
        raise ConstraintError(f"perm must hold every dimension of {data.shape} once, but it is {perm}")
    xp, data = arrays(data)
    return xp.transpose(data, perm)


def squeeze(*, data: Array, axes: Any = None) -> Array:
    axes = [d for d, n in enumerate(data.shape) if n == 1] if axes is None else axes_of("axes", axes, data.ndim)
    if bad := [d for d in axes if data.shape[d] != 1]:
        raise ConstraintError(f"sizes along axes must be 1, but dimension {bad[0]} of {data.shape} is not")
    return _of_sizes(data, [n for d, n in enumerate(data.shape) if d not in axes])


def unsqueeze(*, data: Array, axes: Any) -> Array:
    rank = data.ndim + len(known_ints("axes", axes))
    axes, sizes = axes_of("axes", axes, rank), iter(data.shape)
    return _of_sizes(data, [1 if d in axes else next(sizes) for d in range(rank)])


def concat(*, inputs: tuple[Array, ...], axis: int = 1) -> Array:
    """Concat; only its first version may leave the axis out."""
    xp, *inputs_ = arrays(*inputs)
    axis = axis_of("axis", axis, inputs_[0].ndim)
    return np.concatenate(inputs_, axis) if xp is np else dml_join(inputs_, axis)


def split(*, input: Array, axis: int = 0, **asked: Any) -> tuple[Array, ...]:
    axis = axis_of("axis", axis, input.ndim)
    sizes = lengths_of(input.shape[axis], **asked)
    xp, input = arrays(input)
    return tuple(np.split(input, list(accumulate(sizes))[:-1], axis)) if xp is np else dml_split(input, sizes, axis)


def lengths_of(length: int, *, count: int, split: Any = None, num_outputs: int | None = None) -> list[int]:
    """Returns the sizes of the parts of a split, from these sizes or from the number of parts."""
    sizes = _equal_parts(length, count, uneven=num_outputs is not None) if split is None else known_ints("split", split)
    if len(sizes) != count or sum(sizes) != length or min(sizes) < 0 or num_outputs not in (None, count):
        raise ConstraintError(f"the parts must be {count} and add up to {length}, but they are {sizes}")
    return sizes


def _equal_parts(length: int, count: int, *, uneven: bool) -> list[int]:
    """Returns equal sizes of parts; from opset 18 on the last may be smaller."""
    part = -(-length // count)
    if length % count and not uneven:
        raise ConstraintError(f"the size along axis must be a multiple of the {count} parts, but it is {length}")
    return [max(0, min(part, length - i * part)) for i in range(count)]


def slice_(*, data: Array, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Array:
    at = parts_of(data.shape, starts, ends, axes, steps)
    windows = windows_of(data.shape, at) if all(isinstance(n, int) for n in data.shape) else None  # as in jax.export
    xp, x = arrays(data)
    if xp is np or windows is None:
        return move_bits(lambda x: x[at], x)
    offsets, lengths, strides = windows
    is_here = not isinstance(x, Tracer) and isinstance(x.sharding, SingleDeviceSharding)
    if is_here and all(step == 1 for step in strides):  # one program for all offsets, as in the iterations of a loop
        return move_bits(lambda x: lax.dynamic_slice(x, offsets, lengths), x)
    return dml_slice(x, offsets, lengths, strides)


def parts_of(shape: Any, starts: Any, ends: Any, axes: Any, steps: Any) -> tuple[slice, ...]:
    """Returns a slice of Python per dimension."""
    first, last = known_ints("starts", starts), known_ints("ends", ends)
    along = axes_of("axes", range(len(first)) if axes is None else axes, len(shape))
    step = [1] * len(first) if steps is None else known_ints("steps", steps)
    if not len(first) == len(last) == len(along) == len(step) or 0 in step:
        raise ConstraintError(f"starts, ends, axes, steps must go together, steps not 0: {first, last, along, step}")
    at = [slice(None)] * len(shape)
    for axis, *bounds in zip(along, first, last, step, strict=True):
        at[axis] = _clamp_slice(shape[axis], *bounds)
    return tuple(at)


def windows_of(shape: Any, at: tuple[slice, ...]) -> list[tuple[int, ...]] | None:
    """Returns the offsets, lengths and strides of DirectML's windows; None if a window is empty."""
    windows = [_window(range(n)[part]) for n, part in zip(shape, at, strict=True)]
    not_empty = [window for window in windows if window]
    return [tuple(window[i] for window in not_empty) for i in range(3)] if len(not_empty) == len(windows) else None


def _window(reached: range) -> tuple[int, int, int] | None:
    """Returns the offset, length and stride of the window of some coordinates; None if there are none."""
    if not reached:
        return None
    first, last = min(reached[0], reached[-1]), max(reached[0], reached[-1])
    return first, last - first + 1, reached.step


def _clamp_slice(size: int, start: int, end: int, step: int) -> slice:
    """Clamps a slice by ONNX's rule; for a negative step it clamps the start, unlike Python."""
    if step > 0:
        return slice(start, end, step)
    first = max(0, min(start + size if start < 0 else start, size - 1))
    last = min(end + size if end < 0 else end, size - 1)
    return slice(first, last if last >= 0 else None, step)


def expand(*, input: Array, shape: Any) -> Array:
    xp, input = arrays(input)
    sizes = np.broadcast_shapes(input.shape, sizes_of("shape", shape))
    return move_bits(lambda data: xp.broadcast_to(data, sizes), input)


def tile(*, input: Array, repeats: Any) -> Array:
    counts = known_ints("repeats", repeats)
    if len(counts) != input.ndim or min(counts, default=0) < 0:
        raise ConstraintError(f"repeats must be a count for each dimension of {input.shape}, but it is {counts}")
    xp, input = arrays(input)
    if xp is not np:
        return dml_tile(input, counts)
    sizes = tuple(n * count for n, count in zip(input.shape, counts, strict=True))
    check_array("output", jax.ShapeDtypeStruct(sizes, input.dtype))
    return np.tile(input, counts)


def tile_along(*, input: Array, tiles: Array, axis: Array) -> Array:
    """Tile of opset 1: along one axis."""
    (count,), (along,) = known_ints("tiles", tiles), known_ints("axis", axis)
    along = axis_of("axis", along, input.ndim)
    return tile(input=input, repeats=[count if d == along else 1 for d in range(input.ndim)])


def pad(
    *, data: Array, pads: Any, mode: str = "constant", constant_value: Array | None = None, axes: Any = None
) -> jax.Array:
    low, high = borders_of(data.shape, pads, mode, axes)
    ends = [n + min(0, b) for n, b in zip(data.shape, high, strict=True)]
    part = on_device(slice_(data=data, starts=[max(0, -a) for a in low], ends=ends))
    low, high = ([max(0, n) for n in border] for border in (low, high))
    if mode != "constant":
        return dml_pad(part, low, high, mode=PAD_MODES[mode])
    if isinstance(constant_value, Tracer):  # DirectML's is known
        edges = [(*both, 0) for both in zip(low, high, strict=True)]
        padded = lambda _, data, number: lax.pad(data, number, edges)  # noqa: E731
        return carry_bits(padded, None, part, constant_value.reshape(()), carry=as_guarded_bits)
    return dml_pad(part, low, high, value=0 if constant_value is None else np.asarray(constant_value).reshape(()))


def borders_of(shape: Any, pads: Any, mode: str, axes: Any) -> tuple[list[int], list[int]]:
    """Returns how many elements are added before and after each dimension; a negative number removes some."""
    amounts = known_ints("pads", pads)
    along = axes_of("axes", range(len(shape)) if axes is None else axes, len(shape))
    if len(amounts) != 2 * len(along):
        raise ConstraintError(f"pads must be {2 * len(along)} numbers, two per axis, but they are {amounts}")
    if mode not in PAD_MODES:
        raise ConstraintError(f"mode must be one of {', '.join(PAD_MODES)}, but it is {mode!r}")
    low, high = ([0] * len(shape) for _ in range(2))
    for i, axis in enumerate(along):
        low[axis], high[axis] = amounts[i], amounts[len(along) + i]
    if any(max(0, -a) + max(0, -b) > n for a, b, n in zip(low, high, shape, strict=True)):
        raise ConstraintError(f"negative pads must leave a size of at least 0, but {amounts} cut all of {shape}")
    return low, high


# ONNX's names of modes to DirectML's.
PAD_MODES: Mapping[str, Mode] = {"constant": "constant", "reflect": "reflection", "edge": "edge", "wrap": "wrap"}


def pad_by_attributes(*, data: Array, value: float = 0.0, **rest: Any) -> jax.Array:
    """Pad of opsets 2 to 10, whose value is an attribute."""
    return pad(data=data, constant_value=np.asarray(value, data.dtype), **rest)


def pad_by_paddings(*, paddings: Any, **rest: Any) -> jax.Array:
    """Pad of opset 1, which names the pads `paddings`."""
    return pad_by_attributes(pads=paddings, **rest)


def center_crop_pad(*, input_data: Array, shape: Any, axes: Any = None) -> jax.Array:
    """CenterCropPad: crops or pads both ends alike; where that is uneven, there is one more at the end."""
    along = axes_of("axes", range(input_data.ndim) if axes is None else axes, input_data.ndim)
    sizes = sizes_of("shape", shape)
    if len(sizes) != len(along):
        raise ConstraintError(f"shape must have a size for each of {len(along)} axes, but it is {sizes}")
    more = [size - input_data.shape[axis] for size, axis in zip(sizes, along, strict=True)]
    before = [int(n / 2) for n in more]
    after = [n - low for n, low in zip(more, before, strict=True)]
    return pad(data=input_data, pads=[*before, *after], axes=along)


def where(*, condition: Array, x: Array, y: Array) -> Array:
    """ONNX's Where; broadcasts its operands first, because DirectML needs equal sizes."""
    sizes = np.broadcast_shapes(condition.shape, x.shape, y.shape)
    xp, *operands = arrays(condition, x, y)
    operands = [expand(input=a, shape=sizes) for a in operands]
    return np.where(*operands) if xp is np else select(*operands)


def sizes_of(name: str, value: Any) -> tuple[int, ...]:
    sizes = known_ints(name, value)
    if min(sizes, default=0) < 0:
        raise ConstraintError(f"{name} must be sizes of at least 0, but it is {sizes}")
    return tuple(sizes)


def axes_of(name: str, value: Any, rank: int) -> list[int]:
    axes = [axis_of(name, axis, rank) for axis in known_ints(name, value)]
    if len(set(axes)) < len(axes):
        raise ConstraintError(f"{name} must differ from each other, but they are {axes}")
    return axes


def axis_of(name: str, axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise ConstraintError(f"{name} must be in [{-rank}, {rank - 1}], but it is {axis}")
    return axis % rank


OPERATORS: Operators = {
    "CenterCropPad": {18: center_crop_pad},
    "Concat": {1: concat},
    "Constant": {1: constant},
    "ConstantOfShape": {9: constant_of_shape},
    "Expand": {8: expand},
    "Flatten": {1: flatten},
    "Identity": {1: identity},
    "Pad": {1: pad_by_paddings, 2: pad_by_attributes, 11: pad},
    "Range": {11: range_},
    "Reshape": {1: reshape},
    "Shape": {1: shape},
    "Size": {1: size},
    "Slice": {1: slice_},
    "Split": {1: split},
    "Squeeze": {1: squeeze},
    "Tile": {1: tile_along, 6: tile},
    "Transpose": {1: transpose},
    "Unsqueeze": {1: unsqueeze},
    "Where": {9: where},
}
