"""What every operator that moves data makes of a matrix, beside NumPy: of each number of a type, alone and in pairs.

A move takes a matrix of at least four rows and four columns to another one, so that moves can follow each other.
"""

import sys
from functools import reduce

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax
from numpy.lib.stride_tricks import sliding_window_view

import dml_jax


def integers(dtype):
    """The unsigned integers as wide as a type."""
    return np.dtype(f"u{dtype.itemsize}")


def order(count):
    """A permutation, the same one for each number of elements."""
    return np.random.default_rng(count).permutation(count).astype(np.int32)


def checkers(shape):
    """A mask of a matrix."""
    return np.random.default_rng(shape).integers(0, 2, shape).astype(bool)


def lengths(x):
    return order(x.shape[1])[None]


def half(x):
    """The first rows."""
    return dml_jax.split(x, (x.shape[0] // 2, -(-x.shape[0] // 2)), 0)[0]


def quarter(x):
    """The first elements."""
    return dml_jax.split(line(x), (x.size // 4, x.size - x.size // 4), 0)[0]


def cut(x, divisor):
    """The rows and columns whose number is divisible."""
    sizes = [n // divisor * divisor for n in x.shape]
    return x[tuple(map(slice, sizes))] if isinstance(x, np.ndarray) else dml_jax.slice(x, (0, 0), sizes, (1, 1))


def depth(x):
    x = cut(x, 4)
    return shaped(x, 1, 4, x.shape[0] // 4, x.shape[1])


def space(x):
    x = cut(x, 4)
    return shaped(x, 1, 1, *x.shape)


def shaped(x, *sizes):
    """The elements in another shape; as integers, as XLA:CPU quiets the NaNs of constants that jnp.reshape reshapes."""
    if isinstance(x, np.ndarray) or not jnp.issubdtype(x.dtype, jnp.floating):
        return x.reshape(sizes)
    return lax.bitcast_convert_type(lax.bitcast_convert_type(x, integers(x.dtype)).reshape(sizes), x.dtype)


def line(x):
    return shaped(x, x.size)


def flat(x):
    """The last three dimensions of one picture as a matrix."""
    return shaped(x, x.size // x.shape[-1], x.shape[-1])


def np_to_space(b):
    _, _, h, w = depth(b).shape
    return depth(b).reshape(2, 2, h, w).transpose(2, 0, 3, 1).reshape(2 * h, 2 * w)


def np_to_depth(b):
    h, w = (n // 2 for n in cut(b, 4).shape)
    return cut(b, 4).reshape(h, 2, w, 2).transpose(1, 3, 0, 2).reshape(4 * h, w)


def np_padded(b, *sizes, **how):
    return np.pad(b, sizes, **how)


def np_scattered(b, how):
    """Half of the rows, written over the matrix in another order."""
    out, updates = b.copy(), b[: len(b) // 2]
    how(out, order(len(b))[: len(updates)], updates)
    return out


def set_rows(out, rows, updates):
    out[rows] = updates


def set_elements(out, rows, updates):
    np.put_along_axis(out, np.broadcast_to(rows[:, None], updates.shape), updates, 0)


def np_reversed(b):
    out = b.copy()
    for column, length in enumerate(order(b.shape[1])):
        length = min(length, len(b))
        out[:length, column] = b[:length, column][::-1]
    return out


def np_windows(b, size):
    """The windows of so many neighbours in a line that nine zeros follow."""
    line = np.append(b, np.zeros(9, b.dtype))
    return np.stack([line[at : len(line) - size + 1 + at] for at in range(size)])


def np_patches(b):
    """The windows of 2x3 of a matrix with a border of zeros, in columns."""
    windows = sliding_window_view(np.pad(b, 1), (2, 3))
    return windows.transpose(2, 3, 0, 1).reshape(6, -1)


def np_elements(b):
    return np.take_along_axis(b, order(b.size).reshape(b.shape) % b.shape[1], 1)


def nearest(x):
    """The elements that resizing to 3/2 of the rows and 2/3 of the columns copies."""
    rows, columns = 3 * x.shape[0] // 2, 2 * x.shape[1] // 3
    at = [np.floor((np.arange(n) + 0.5) * m / n).astype(int) for n, m in ((rows, x.shape[0]), (columns, x.shape[1]))]
    return (rows, columns), np.ix_(*at)


def grid(x):
    """Positions of the elements in reverse, from -1 to 1, and one beyond them."""
    h, w = x.shape
    y, x = np.meshgrid(1 - (2 * np.arange(h) + 1) / h, 1 - (2 * np.arange(w) + 1) / w, indexing="ij")
    y[0, 0] = -9
    return np.stack([x, y], -1)[None].astype(np.float32)


def np_sampled(b):
    out = b[::-1, ::-1].copy()
    out[0, 0] = 0
    return out


def np_unpooled(b):
    out = np.zeros(b.size // 2 * 4, b.dtype)
    out[order(out.size)[: b.size]] = b.reshape(-1)
    return out.reshape(4, b.size // 2)


def np_spread(b):
    out = np.zeros((2 * b.shape[0] + 1, b.shape[1] + 3), b.dtype)
    out[1::2, 2:-1] = b
    return out


def np_stored(b):
    out = b.reshape(-1).copy()
    out[1 : 3 * (b.size // 4) : 3] = b.reshape(-1)[: b.size // 4]
    return out.reshape(b.shape)


def np_banded(b):
    away = np.subtract(*np.indices(b.shape)[::-1])
    return np.where((away >= -1) & (away < 2), np.zeros((), b.dtype), b)


def pairs(x):
    """The elements, two by two."""
    x = cut(x, 2)
    return shaped(x, x.size // 2, 2)


# By name: of dml_jax, and of NumPy.
MOVES = {
    "as_strided dense": (
        lambda x: dml_jax.as_strided(line(x), (x.shape[1] - 1, x.shape[0]), (1, x.shape[1]), offset=1),
        lambda b: b.T[1:],
    ),
    "as_strided overlapping": (
        lambda x: dml_jax.as_strided(line(x), (x.size // 4, 5), (3, 1)),
        lambda b: sliding_window_view(b.reshape(-1), 5)[::3][: b.size // 4],
    ),
    "as_strided repeating": (
        lambda x: dml_jax.as_strided(line(x), (4, x.size), (0, 1)),
        lambda b: np.tile(b.reshape(1, -1), (4, 1)),
    ),
    "as_strided_scatter": (
        lambda x: shaped(dml_jax.as_strided_scatter(line(x), quarter(x), (3,), offset=1), *x.shape),
        np_stored,
    ),
    "cast": (lambda x: dml_jax.cast(x, x.dtype), lambda b: b),
    "depth_to_space": (lambda x: flat(dml_jax.depth_to_space(depth(x), 2)), np_to_space),
    "fill_diagonals": (lambda x: dml_jax.fill_diagonals(x, begin=-1, end=2, value=0), np_banded),
    "gather": (lambda x: dml_jax.gather(x, order(x.shape[0]), 0), lambda b: b[order(len(b))]),
    "gather columns": (lambda x: dml_jax.gather(x, order(x.shape[1]), 1), lambda b: b[:, order(b.shape[1])]),
    "gather fill": (
        lambda x: dml_jax.gather(x, order(x.shape[0]) + 2, 0, mode="fill"),
        lambda b: np_padded(b, (0, 2), (0, 0))[order(len(b)) + 2],
    ),
    "gather_elements": (
        lambda x: dml_jax.gather_elements(x, order(x.size).reshape(x.shape) % x.shape[1], 1),
        np_elements,
    ),
    "gather_nd": (
        lambda x: shaped(dml_jax.gather_nd(x, np.stack(np.unravel_index(order(x.size), x.shape), 1)), *x.shape),
        lambda b: b.reshape(-1)[order(b.size)].reshape(b.shape),
    ),
    "grid_sample": (
        lambda x: flat(dml_jax.grid_sample(shaped(x, 1, 1, *x.shape), grid(x), mode="nearest")),
        np_sampled,
    ),
    "identity": (dml_jax.identity, lambda b: b),
    "join rows": (
        lambda x: dml_jax.join([half(x), x, half(x)], 0),
        lambda b: np.concatenate([b[: len(b) // 2], b, b[: len(b) // 2]]),
    ),
    "join columns": (lambda x: dml_jax.join([x, x], 1), lambda b: np.concatenate([b, b], 1)),
    "max_unpooling": (
        lambda x: dml_jax.max_unpooling(x, order(x.size // 2 * 4)[: x.size].reshape(x.shape), (4, x.size // 2)),
        np_unpooled,
    ),
    "one_hot": (
        lambda x: jax.vmap(lambda values: dml_jax.one_hot(np.int32([1]), values, 4, 0))(pairs(x)),
        lambda b: pairs(b)[:, [0, 1, 0, 0]],
    ),
    "pad": (lambda x: dml_jax.pad(x, (1, 2), (3, 1)), lambda b: np_padded(b, (1, 3), (2, 1))),
    "pad line": (
        lambda x: dml_jax.pad(shaped(x, 1, x.size), (1, 9), (2, 7)),
        lambda b: np_padded(b.reshape(1, -1), (1, 2), (9, 7)),
    ),
    "resample": (lambda x: dml_jax.resample(x, nearest(x)[0]), lambda b: b[nearest(b)[1]]),
    "reverse_subsequences": (lambda x: dml_jax.reverse_subsequences(x, lengths(x), 0), np_reversed),
    "scatter_elements": (
        lambda x: dml_jax.scatter_elements(
            x, np.broadcast_to(order(x.shape[0])[: x.shape[0] // 2, None], half(x).shape), half(x), 0
        ),
        lambda b: np_scattered(b, set_elements),
    ),
    "scatter_nd": (
        lambda x: dml_jax.scatter_nd(x, order(x.shape[0])[: x.shape[0] // 2, None], half(x)),
        lambda b: np_scattered(b, set_rows),
    ),
    "select": (
        lambda x: dml_jax.select(checkers(x.shape), x, dml_jax.slice(x, (0, 0), x.shape, (-1, 1))),
        lambda b: np.where(checkers(b.shape), b, b[::-1]),
    ),
    "slice": (lambda x: dml_jax.slice(x, (1, 0), (x.shape[0] - 1, x.shape[1]), (1, 2)), lambda b: b[1:, ::2]),
    "slice backwards": (lambda x: dml_jax.slice(x, (0, 0), x.shape, (-1, -1)), lambda b: b[::-1, ::-1]),
    "slice_grad": (
        lambda x: dml_jax.slice_grad(
            x, (2 * x.shape[0] + 1, x.shape[1] + 3), (1, 2), (2 * x.shape[0] - 1, x.shape[1]), (2, 1)
        ),
        np_spread,
    ),
    "space_to_depth": (lambda x: flat(dml_jax.space_to_depth(space(x), 2)), np_to_depth),
    "split": (lambda x: dml_jax.join(dml_jax.split(x, (2, x.shape[1] - 2), 1)[::-1], 1), lambda b: np.roll(b, -2, 1)),
    "tile": (lambda x: dml_jax.tile(x, (2, 3)), lambda b: np.tile(b, (2, 3))),
    "unfold": (
        lambda x: dml_jax.unfold(shaped(x, 1, x.size), (5,), strides=(1,), end_padding=(9,)),
        lambda b: np_windows(b, 5),
    ),
    "unfold patches": (
        lambda x: dml_jax.unfold(shaped(x, 1, *x.shape), (2, 3), start_padding=(1, 1), end_padding=(1, 1)),
        np_patches,
    ),
    "unfold long windows": (
        lambda x: dml_jax.unfold(shaped(x, 1, x.size), (40,), strides=(20,), end_padding=(9,)),
        lambda b: np_windows(b, 40)[:, ::20],
    ),
    "upsample_2d": (lambda x: dml_jax.upsample_2d(x, (2, 3)), lambda b: b.repeat(2, 0).repeat(3, 1)),
    **{
        f"pad {mode}": (
            lambda x, mode=mode: dml_jax.pad(x, (1, 2), (3, 1), mode=mode),
            lambda b, mode=mode: np_padded(b, (1, 3), (2, 1), mode=mode),
        )
        for mode in ("edge", "reflect", "symmetric", "wrap")
    },
}

# Those that write zeros, too.
FILLING = {name for name, (_, of_numpy) in MOVES.items() if not of_numpy(np.ones((6, 9), np.uint8)).all()}

# How a program gets the matrix.
WAYS = ("argument", "constant", "eager")


def every_number(dtype):
    """All numbers of a type of one or two bytes; of a wider one random numbers and the special ones."""
    dtype, count = np.dtype(dtype), 2**16
    if dtype in (np.bool_, ml_dtypes.int4):
        return np.resize(np.arange(16).astype(dtype), (256, 256))
    if dtype.itemsize <= 2:
        return np.resize(np.arange(256**dtype.itemsize, dtype=integers(dtype)), (256, 256)).view(dtype)
    words = np.random.default_rng(5).integers(0, 2**32, count * dtype.itemsize // 4, dtype=np.uint32)
    words[:4096] |= 0x7F800000  # float32: infinities and NaNs, quiet and signalling
    words[4096:8192:2], words[4097:8192:2] = words[4096:8192:2], words[4097:8192:2] | 0x7FF00000  # float64
    words[8192:8196] = 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF  # -0.0 and subnormals
    return words.view(dtype).reshape(256, 256)


def can_follow(names):
    """Whether each of moves that follow each other gets the four rows and columns that it takes."""
    b = every_number(np.uint16)
    for name in names:
        if min(b.shape) < 4:
            return False
        b = MOVES[name][1](b)
    return True


def computed(functions, x, way):
    """The results of functions of a matrix; in one program, but for "eager"."""
    if way == "argument":
        return jax.jit(lambda x: [function(x) for function in functions])(x)
    if way == "constant":
        return jax.jit(lambda: [function(jnp.asarray(x)) for function in functions])()
    return [function(jnp.asarray(x)) for function in functions]


def wrong(chains, dtype, way, at_once=24):
    """Of lists of moves that follow each other, those whose results have other bits than NumPy's, and in how many."""
    x, counts = every_number(dtype), {}
    for start in range(0, len(chains), at_once):
        part = chains[start : start + at_once]
        functions = [lambda x, names=names: reduce(lambda x, name: MOVES[name][0](x), names, x) for names in part]
        for names, result in zip(part, computed(functions, x, way), strict=True):
            expected = reduce(lambda b, name: MOVES[name][1](b), names, x.view(integers(x.dtype)))
            assert (result.dtype, result.shape) == (x.dtype, expected.shape), names
            if count := int((np.asarray(result).view(integers(x.dtype)) != expected).sum()):
                counts[" | ".join(names)] = count
    return counts


def main():
    """Ends with what is wrong on a number of CPU devices, which the arguments begin with, of the moves that follow."""
    jax.config.update("jax_num_cpu_devices", int(sys.argv[1]))
    counts = {way: wrong([[name] for name in sys.argv[2:]], jnp.bfloat16, way) for way in WAYS[:2]}
    sys.exit(str(counts) if any(counts.values()) else 0)


if __name__ == "__main__":
    main()
