"""What is measured: an operator, its attributes, and real data of one size."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np

__all__ = ["DTYPES", "Case", "full", "quick", "small", "sweep"]

DTYPES = {1: np.dtype("uint8"), 2: np.dtype("float16"), 4: np.dtype("float32"), 8: np.dtype("float64")}

Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Case:
    """One row of the table.

    Args:
      operator: a public function of dml_jax.
      detail: what tells it from others of the operator.
      attributes: keyword arguments of the function.
      make: real data, the data type's first.
      moved: bytes that have to move: what is needed read once, the output written once.
    """

    operator: str
    detail: str
    attributes: Mapping[str, Any]
    make: Callable[[], Arrays] = field(compare=False)
    moved: int

    @property
    def name(self) -> str:
        return f"{self.operator} {self.detail}"


def quick() -> Iterator[Case]:
    """A few cases of every operator, 8 MB each."""
    size = 2**23
    for itemsize in (1, 4):
        yield from _depth_space(size, itemsize, ("DCR",), ("NCHW",), (2,))
    yield from _gather_rows(size, 4, (512,), ("random",))
    yield from _gather_elements(size, 4, (0, 2), ("random",))
    yield from _tuples(size, 4)
    yield from _scatters(size, 4)
    yield from _views(size, 4)


def full(size: int) -> Iterator[Case]:
    """Every operator, data type and layout.

    Args:
      size: bytes of the data, about.
    """
    for itemsize in DTYPES:
        blocks = (2, 3, 4, 8) if itemsize < 8 else (2,)
        yield from _depth_space(size, itemsize, ("DCR", "CRD"), ("NCHW", "NHWC"), blocks)
    for itemsize in DTYPES:
        yield from _gather_rows(size, itemsize, (4, 16, 64, 128, 256, 1024, 4096), ("random",))
        yield from _gather_rows(size, itemsize, (512,), ("random", "sorted"))
        yield from _gather_axes(size, itemsize)
        yield from _gather_elements(size // 2, itemsize, (0, 1, 2), ("random", "sorted"))
        yield from _slabs(size // 2, itemsize)
        yield from _tuples(size, itemsize)
        yield from _scatters(size, itemsize)
        yield from _views(size, itemsize)


def small() -> Iterator[Case]:
    """1 KB, where the call itself is what takes time."""
    size = 2**10
    yield from _depth_space(size, 4, ("DCR",), ("NCHW",), (2,))
    yield from _gather_rows(size, 4, (64,), ("random",))
    yield from _gather_elements(size, 4, (2,), ("random",))
    yield from _tuples(size, 4)
    yield from _scatters(size, 4)


def sweep(largest: int) -> Iterator[Case]:
    """Sizes from 16 KB on, four times as much each time."""
    size = 2**14
    while size <= largest:
        yield from _depth_space(size, 4, ("DCR",), ("NCHW",), (2,))
        yield from _gather_rows(size, 4, (256,), ("random",))
        yield from _gather_elements(size, 4, (2,), ("random",))
        size *= 4


@lru_cache(maxsize=4)
def _bytes(count: int) -> np.ndarray:
    """Random bytes of which any group is a finite number."""
    return np.random.default_rng(0).integers(0, 0x40, count, dtype=np.uint8)


def data(shape: tuple[int, ...], itemsize: int) -> np.ndarray:
    """An array of finite numbers."""
    count = prod(shape) * itemsize
    return _bytes(max(2**20, 1 << (count - 1).bit_length()))[:count].view(DTYPES[itemsize]).reshape(shape)


def _depth_space(
    size: int, itemsize: int, orders: tuple[str, ...], formats: tuple[str, ...], blocks: tuple[int, ...]
) -> Iterator[Case]:
    for data_format, order, b in product(formats, orders, blocks):
        # A batch of pictures whose rows are a multiple of 96 elements, or a small one.
        side = 768 if size >= 2**25 else 192 if size >= 2**21 else 48 if size >= 2**16 else 8
        channels = 64 if size >= 2**16 else 4
        n = max(1, round(size / (itemsize * channels * side * side)))
        space = (n, channels, side, side)
        depth = (n, channels * b * b, side // b, side // b)
        for operator, shape in (("depth_to_space", depth), ("space_to_depth", space)):
            laid = shape if data_format == "NCHW" else (shape[0], *shape[2:], shape[1])
            yield Case(
                operator,
                f"{data_format} {order} b={b} {DTYPES[itemsize].name} {_mega(prod(shape) * itemsize)}",
                {"block_size": b, "order": order, "data_format": data_format},
                lambda laid=laid: (data(laid, itemsize),),
                2 * prod(shape) * itemsize,
            )


def _gather_rows(size: int, itemsize: int, row_bytes: tuple[int, ...], orders: tuple[str, ...]) -> Iterator[Case]:
    for row, order in product(row_bytes, orders):
        width = row // itemsize
        if width < 1:
            continue
        count = size // row
        yield Case(
            "gather",
            f"rows of {row} bytes {DTYPES[itemsize].name} {order} {_mega(size)}",
            {"axis": 0},
            lambda width=width, count=count, order=order: (
                data((count, width), itemsize),
                _indices(count, (count,), order),
            ),
            2 * size + 4 * count,
        )


def _gather_axes(size: int, itemsize: int) -> Iterator[Case]:
    shape = (64, 512, size // itemsize // (64 * 512))
    for axis in range(3):
        yield Case(
            "gather",
            f"axis {axis} of 3 {DTYPES[itemsize].name} {_mega(size)}",
            {"axis": axis},
            lambda axis=axis: (data(shape, itemsize), _indices(shape[axis], (shape[axis],), "random")),
            2 * size + 4 * shape[axis],
        )


def _gather_elements(size: int, itemsize: int, axes: tuple[int, ...], orders: tuple[str, ...]) -> Iterator[Case]:
    side = max(4, round((size / itemsize) ** (1 / 3)))
    shape = (side, side, size // itemsize // (side * side))
    yield from (_elements(shape, itemsize, axis, order) for axis, order in product(axes, orders))


def _slabs(size: int, itemsize: int) -> Iterator[Case]:
    """Along the first axis of what no cache holds, and along rows of several lengths."""
    count = size // itemsize
    yield _elements((8192, count // 8192), itemsize, 0, "random")
    for length in (256, 4096, 16384):
        yield _elements((count // length, length), itemsize, 1, "random")


def _elements(shape: tuple[int, ...], itemsize: int, axis: int, order: str) -> Case:
    def make() -> Arrays:
        return data(shape, itemsize), _indices(shape[axis], shape, order, axis)

    is_sorted = {"indices_are_sorted": True} if order == "sorted" else {}
    return Case(
        "gather_elements",
        f"axis {axis} of {'x'.join(map(str, shape))} {DTYPES[itemsize].name} {order}",
        {"axis": axis, **is_sorted},
        make,
        prod(shape) * (2 * itemsize + 4),
    )


def _tuples(size: int, itemsize: int) -> Iterator[Case]:
    width = max(1, min(256, size // 64) // itemsize)
    rows = max(4, size // itemsize // width)
    first = max(2, int(rows**0.5))
    shape = (first, rows // first, width)
    count = shape[0] * shape[1]
    yield Case(
        "gather_nd",
        f"pairs, rows of {width * itemsize} bytes {DTYPES[itemsize].name} {_mega(size)}",
        {},
        lambda: (data(shape, itemsize), np.stack([_indices(n, (count,), "random") for n in shape[:2]], -1)),
        count * (2 * width * itemsize + 8),
    )


def _scatters(size: int, itemsize: int) -> Iterator[Case]:
    width = max(1, min(256, size // 64) // itemsize)
    rows = max(4, size // itemsize // width)
    few = max(1, rows // 8)

    def permuted(shape: tuple[int, ...]) -> np.ndarray:
        return np.random.default_rng(1).permutation(rows)[: shape[0]].astype(np.int32)

    yield Case(
        "scatter_nd",
        f"an eighth of rows of {width * itemsize} bytes {DTYPES[itemsize].name} {_mega(size)}",
        {},
        lambda: (data((rows, width), itemsize), permuted((few,))[:, None], data((few, width), itemsize)[::-1]),
        (2 * rows + few) * width * itemsize + 4 * few,
    )
    yield Case(
        "scatter_elements",
        f"an eighth along axis 0 {DTYPES[itemsize].name} {_mega(size)}",
        {"axis": 0},
        lambda: (
            data((rows, width), itemsize),
            np.ascontiguousarray(np.broadcast_to(permuted((few,))[:, None], (few, width))),
            data((few, width), itemsize)[::-1],
        ),
        (2 * rows + few) * width * itemsize + 4 * few * width,
    )


def _views(size: int, itemsize: int) -> Iterator[Case]:
    n, h, w, c = 8, 128, 128, max(1, size // itemsize // (8 * 128 * 128))
    buffer = n * h * w * c
    layouts = {
        "transposed": ((h * w, n * c), (1, h * w), buffer),
        "NHWC as NCHW": ((n, c, h, w), (h * w * c, 1, w * c, c), buffer),
        "padded rows": ((n * h, w * c), (w * c + 32, 1), n * h * (w * c + 32)),
    }
    for name, (sizes, strides, length) in layouts.items():
        yield Case(
            "as_strided",
            f"{name} {DTYPES[itemsize].name} {_mega(size)}",
            {"sizes": sizes, "strides": strides},
            lambda length=length: (data((length,), itemsize),),
            2 * prod(sizes) * itemsize,
        )
    yield Case(
        "as_strided",
        f"broadcast rows {DTYPES[itemsize].name} {_mega(size)}",
        {"sizes": (h * w, n * c), "strides": (0, 1)},
        lambda: (data((n * c,), itemsize),),
        buffer * itemsize,
    )


def _indices(n: int, shape: tuple[int, ...], order: str, axis: int = 0) -> np.ndarray:
    indices = np.random.default_rng(2).integers(0, n, shape, dtype=np.int32)
    return np.sort(indices, axis=axis) if order == "sorted" else indices


def _mega(count: int) -> str:
    return f"{count / 2**20:.0f} MiB" if count >= 2**20 else f"{count / 2**10:.0f} KiB"
