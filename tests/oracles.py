"""What each operator means, element by element on NumPy arrays with Python integers. Imports no JAX."""

import itertools

import numpy as np


def coordinates(shape):
    return itertools.product(*(range(n) for n in shape))


def wrap(index, size):
    """A negative index counts from the end, once."""
    index = int(index)
    return index + size if index < 0 else index


def clamp(index, size):
    return min(max(index, 0), size - 1)


def _read(input, where, sizes, mode, fill_value):
    """The slice of `input` at the coordinates `where` (of sizes `sizes`), as `mode` says."""
    coordinate = [wrap(i, n) for i, n in zip(where, sizes, strict=True)]
    inside = all(0 <= i < n for i, n in zip(coordinate, sizes, strict=True))
    if mode == "fill" and not inside:
        return fill_value
    return tuple(clamp(i, n) for i, n in zip(coordinate, sizes, strict=True))


def gather(input, indices, axis, mode="clip", fill_value=0):
    axis %= input.ndim
    output = np.empty(input.shape[:axis] + indices.shape + input.shape[axis + 1 :], input.dtype)
    for c in coordinates(output.shape):
        pre, q, post = c[:axis], c[axis : axis + indices.ndim], c[axis + indices.ndim :]
        where = _read(input, [indices[q]], [input.shape[axis]], mode, fill_value)
        output[c] = input[(*pre, *where, *post)] if isinstance(where, tuple) else where
    return output


def gather_elements(input, indices, axis, mode="clip", fill_value=0):
    axis %= input.ndim
    output = np.empty(indices.shape, input.dtype)
    for c in coordinates(output.shape):
        where = _read(input, [indices[c]], [input.shape[axis]], mode, fill_value)
        output[c] = input[(*c[:axis], *where, *c[axis + 1 :])] if isinstance(where, tuple) else where
    return output


def gather_nd(input, indices, batch_dims=0, mode="clip", fill_value=0):
    t = indices.shape[-1]
    sizes = input.shape[batch_dims : batch_dims + t]
    output = np.empty(indices.shape[:-1] + input.shape[batch_dims + t :], input.dtype)
    for c in coordinates(output.shape):
        q, r = c[: indices.ndim - 1], c[indices.ndim - 1 :]
        where = _read(input, indices[q], sizes, mode, fill_value)
        output[c] = input[(*c[:batch_dims], *where, *r)] if isinstance(where, tuple) else where
    return output


def _write(where, sizes, mode):
    """The coordinates to write at, or None for an update that is dropped."""
    coordinate = [wrap(i, n) for i, n in zip(where, sizes, strict=True)]
    inside = all(0 <= i < n for i, n in zip(coordinate, sizes, strict=True))
    if mode == "drop" and not inside:
        return None
    return tuple(clamp(i, n) for i, n in zip(coordinate, sizes, strict=True))


def scatter_elements(input, indices, updates, axis, mode="drop"):
    """Every element's candidates: the input's own, or the updates that address it."""
    axis %= input.ndim
    candidates = {c: [] for c in coordinates(input.shape)}
    for c in coordinates(indices.shape):
        where = _write([indices[c]], [input.shape[axis]], mode)
        if where is not None:
            candidates[(*c[:axis], *where, *c[axis + 1 :])].append(updates[c])
    return candidates


def scatter_nd(input, indices, updates, mode="drop"):
    """Every element's candidates: the input's own, or the updates that address it."""
    t = indices.shape[-1]
    candidates = {c: [] for c in coordinates(input.shape)}
    for c in coordinates(updates.shape):
        q, r = c[: indices.ndim - 1], c[indices.ndim - 1 :]
        where = _write(indices[q], input.shape[:t], mode)
        if where is not None:
            candidates[(*where, *r)].append(updates[c])
    return candidates


def _channel(order, y, x, c, block, channels):
    return (y * block + x) * channels + c if order == "DCR" else c * block * block + y * block + x


def depth_to_space(input, block, order="DCR"):
    *lead, depth, height, width = input.shape
    channels = depth // (block * block)
    output = np.empty((*lead, channels, height * block, width * block), input.dtype)
    for at in coordinates(output.shape):
        *n, c, row, column = at
        (h, y), (w, x) = divmod(row, block), divmod(column, block)
        output[at] = input[(*n, _channel(order, y, x, c, block, channels), h, w)]
    return output


def space_to_depth(input, block, order="DCR"):
    *lead, channels, height, width = input.shape
    output = np.empty((*lead, channels * block * block, height // block, width // block), input.dtype)
    for at in coordinates(input.shape):
        *n, c, row, column = at
        (h, y), (w, x) = divmod(row, block), divmod(column, block)
        output[(*n, _channel(order, y, x, c, block, channels), h, w)] = input[at]
    return output
