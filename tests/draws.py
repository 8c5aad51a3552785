"""Random sizes and numbers for `draw` and `fill` of structs: at most 8 dimensions, about a hundred elements."""

from math import prod


def dims(rng, count, most=120):
    """Sizes of at most `most` elements."""
    sizes = []
    for _ in range(count):
        sizes.append(int(rng.integers(1, max(1, min(4, most // prod(sizes))) + 1)))
    return [sizes[i] for i in rng.permutation(count)]


def pad(sizes, rank):
    """The sizes at a rank, with leading 1s."""
    return (1,) * (rank - len(sizes)) + tuple(sizes)


def real(array, count):
    """An array without the leading dimensions, of size 1, that a count of dimensions leaves out."""
    return array.reshape(array.shape[array.ndim - count :])


def normal_numbers(rng, port, tensor, count):
    """A struct's `fill` where results are rounded."""
    return rng.normal(size=count).astype(tensor.dtype)


def draw_along_axis(rng):
    """Sizes of an input, and of indices that differ from it along an axis."""
    rank = int(rng.integers(1, 9))
    axis = int(rng.integers(0, rank))
    input = dims(rng, rank)
    return input, [*input[:axis], int(rng.integers(1, 5)), *input[axis + 1 :]], axis


def draw_tuples(rng, *, batched=False):
    """Sizes of an input, of index tuples and of the slices that they address; how many dimensions count; the batch."""
    rank = int(rng.integers(1, 9))
    while True:
        p, q = (int(n) for n in rng.integers(1, rank + 1, 2))
        b = int(rng.integers(0, min(p, q))) if batched else 0
        t = int(rng.integers(1, p - b + 1))
        if q - 1 + p - b - t <= rank:
            break
    input = dims(rng, p)
    rows = [*input[:b], *dims(rng, q - 1 - b, 8)]
    slices = pad([*rows, *input[b + t :]], rank)
    return (
        pad(input, rank),
        pad([*rows, t], rank),
        slices,
        {"input_dimension_count": p, "indices_dimension_count": q},
        b,
    )


def draw_blocks(rng):
    """Sizes with the pixels of each block in channels, and with them in place; the block size."""
    block = int(rng.integers(1, 4))
    n, c, h, w = dims(rng, 4, 24)
    return (n, c * block * block, h, w), (n, c, h * block, w * block), block
