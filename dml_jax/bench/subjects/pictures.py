"""What the cases of depth to space and of space to depth share: pictures, and the usual two reshapes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ..case import DTYPES, Case, data, mega

__all__ = ["Rearranged", "depth_to_space", "pictures", "space_to_depth", "with_channels_first", "with_view"]

Attributes = Mapping[str, Any]
# What a library gets: the array, attributes, and whether the last reshape is made.
Rearranged = Callable[..., Any]


def pictures(
    operator: str, size: int, itemsize: int, orders: Sequence[str], formats: Sequence[str], blocks: Sequence[int]
) -> Iterator[Case]:
    """Batches of pictures whose rows are a multiple of 96 elements, or small ones."""
    for data_format, order, b in product(formats, orders, blocks):
        side = 768 if size >= 2**25 else 192 if size >= 2**21 else 48 if size >= 2**16 else 8
        channels = 64 if size >= 2**16 else 4
        n = max(1, round(size / (itemsize * channels * side * side)))
        is_space = operator == "space_to_depth"
        shape = (n, channels, side, side) if is_space else (n, channels * b * b, side // b, side // b)
        laid = shape if data_format == "NCHW" else (shape[0], *shape[2:], shape[1])
        yield Case(
            operator,
            f"{data_format} {order} b={b} {DTYPES[itemsize].name} {mega(prod(shape) * itemsize)}",
            {"block_size": b, "order": order, "data_format": data_format},
            lambda laid=laid: (data(laid, itemsize),),
            2 * prod(shape) * itemsize,
        )


def with_view(function: Rearranged, attributes: Attributes, copy: Callable[[Any, Any], Any]) -> Callable[..., None]:
    """Copies the transposed view into the output seen in the view's shape, without a temporary."""

    def write(out: Any, x: Any) -> None:
        view = function(x, **attributes, merge=False)
        copy(out.reshape(view.shape), view)

    return write


def depth_to_space(x: Any, *, block_size: int, order: str, data_format: str, merge: bool = True) -> Any:
    """The usual reshape, transpose, reshape; without the last one if not `merge`."""
    b = block_size
    if data_format == "NCHW":
        n, c, h, w = x.shape
        split = (n, b, b, c // b**2, h, w) if order == "DCR" else (n, c // b**2, b, b, h, w)
        perm, shape = ((0, 3, 4, 1, 5, 2) if order == "DCR" else (0, 1, 4, 2, 5, 3)), (n, c // b**2, h * b, w * b)
    else:
        n, h, w, c = x.shape
        split = (n, h, w, b, b, c // b**2) if order == "DCR" else (n, h, w, c // b**2, b, b)
        perm, shape = ((0, 1, 3, 2, 4, 5) if order == "DCR" else (0, 1, 4, 2, 5, 3)), (n, h * b, w * b, c // b**2)
    y = _permuted(x.reshape(split), perm)
    return y.reshape(shape) if merge else y


def space_to_depth(x: Any, *, block_size: int, order: str, data_format: str, merge: bool = True) -> Any:
    """The same in the other direction."""
    b = block_size
    if data_format == "NCHW":
        n, c, h, w = x.shape
        split, shape = (n, c, h // b, b, w // b, b), (n, c * b**2, h // b, w // b)
        perm = (0, 3, 5, 1, 2, 4) if order == "DCR" else (0, 1, 3, 5, 2, 4)
    else:
        n, h, w, c = x.shape
        split, shape = (n, h // b, b, w // b, b, c), (n, h // b, w // b, c * b**2)
        perm = (0, 1, 3, 2, 4, 5) if order == "DCR" else (0, 1, 3, 5, 2, 4)
    y = _permuted(x.reshape(split), perm)
    return y.reshape(shape) if merge else y


def _permuted(x: Any, order: Sequence[int]) -> Any:
    """Transposes an array of NumPy's, JAX's, CuPy's, or a tensor of torch's."""
    return x.permute(order) if hasattr(x, "permute") else x.transpose(order)


def copy_numpy(out: np.ndarray, view: np.ndarray) -> None:
    np.copyto(out, view)


def copy_torch(out: Any, view: Any) -> None:
    out.copy_(view)


def with_channels_first(function: Callable[[Any, int], Any], attributes: Attributes) -> Callable[..., Any] | None:
    """torch's own function, which knows one order, and takes pictures of either format as its memory formats."""
    if attributes["order"] != "CRD":
        return None
    if attributes["data_format"] == "NCHW":
        return lambda out, x: function(x, attributes["block_size"])

    def channels_last(out: Any, x: Any) -> Any:
        made = function(x.permute(0, 3, 1, 2), attributes["block_size"])
        return made.permute(0, 2, 3, 1).contiguous()  # which copies nothing where the format was kept

    return channels_last
