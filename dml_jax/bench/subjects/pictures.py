"""What the cases of depth to space and of space to depth share: pictures, and the usual two reshapes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Case, data, mega

__all__ = [
    "Rearranged",
    "depth_to_space",
    "every_picture",
    "few_pictures",
    "real_pictures",
    "small_picture",
    "space_to_depth",
    "with_channels_first",
    "with_view",
]

Attributes = Mapping[str, Any]
# What a library gets: the array, attributes, and whether the last reshape is made.
Rearranged = Callable[..., Any]


def few_pictures(operator: str, size: int) -> Iterator[Case]:
    """The usual blocks, of bytes and of float32."""
    for itemsize in (1, 4):
        yield from _pictures(operator, size, itemsize, ("DCR",), ("NCHW",), (2,))


def every_picture(operator: str, size: int) -> Iterator[Case]:
    """Both orders and formats, blocks of several sizes."""
    for itemsize in DTYPES:
        blocks = (2, 3, 4, 8) if itemsize < 8 else (2,)
        yield from _pictures(operator, size, itemsize, ("DCR", "CRD"), ("NCHW", "NHWC"), blocks)


def small_picture(operator: str, size: int) -> Iterator[Case]:
    """The usual blocks, of float32."""
    return _pictures(operator, size, 4, ("DCR",), ("NCHW",), (2,))


def _pictures(
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


class Real(NamedTuple):
    """Pictures of a real program: what they are, channels, height and width, the block, layouts and types."""

    what: str
    picture: tuple[int, int, int]
    block: int
    layouts: Sequence[tuple[str, str]]
    dtypes: Sequence[str]


_FIRST, _LAST, _BLOCKS = ("NCHW", "CRD"), ("NHWC", "DCR"), ("NCHW", "DCR")
_CHANNELS_LAST = ("NHWC", "CRD")  # torch's pixel_shuffle of that memory format
_ALL = (_FIRST, _LAST, _BLOCKS, _CHANNELS_LAST)
_SIDES = {5: 500, 6: 576, 7: 448, 10: 640, 12: 768, 20: 1000, 32: 1024}
REAL = (
    Real("ViT patches", (3, 224, 224), 14, (_FIRST, _LAST), ("bfloat16", "float16")),
    Real("ViT patches", (3, 518, 518), 14, (_FIRST, _LAST), ("bfloat16",)),
    Real("ViT patches", (3, 896, 896), 14, _ALL, ("bfloat16",)),
    Real("ViT patches", (3, 224, 224), 16, (_FIRST, _LAST), ("bfloat16", "float16")),
    Real("ViT patches", (3, 592, 592), 16, (_FIRST, _LAST), ("bfloat16",)),
    Real("ViT patches", (3, 1024, 1024), 16, _ALL, ("bfloat16",)),
    Real("tubelets of two frames", (6, 224, 224), 16, (_FIRST, _LAST), ("bfloat16",)),
    *(Real("blocks", (3, n, n), b, (_BLOCKS,), ("uint8", "bfloat16", "float32")) for b, n in _SIDES.items()),
    Real("odd width", (64, 540, 958), 2, (_BLOCKS,), ("uint8", "bfloat16", "float32")),
    Real("focus of YOLO", (3, 640, 640), 2, (_BLOCKS,), ("uint8", "float16", "float32")),
    *(Real("super-resolution", (3, 1080, 1920), b, (_FIRST,), ("uint8", "float16")) for b in (2, 3, 4)),
    *(Real("super-resolution", (3, 1080, 1920), b, (_LAST, _CHANNELS_LAST), ("uint8",)) for b in (2, 3, 4)),
    *(Real("patches of decoded pictures", (3, 224, 224), b, (_LAST,), ("uint8",)) for b in (14, 16)),
)


def real_pictures(operator: str, size: int) -> Iterator[Case]:
    """Batches of the pictures of real programs, split into blocks or made of them."""
    for what, (c, h, w), b, layouts, dtypes in REAL:
        for (data_format, order), dtype in product(layouts, dtypes):
            itemsize = jnp.dtype(dtype).itemsize
            n = max(1, round(size / (itemsize * c * h * w)))
            shape = (n, c, h, w) if operator == "space_to_depth" else (n, c * b * b, h // b, w // b)
            laid = shape if data_format == "NCHW" else (shape[0], *shape[2:], shape[1])
            yield Case(
                operator,
                f"real {what}, {data_format} {order} b={b} of {'x'.join(map(str, laid))} {dtype}",
                {"block_size": b, "order": order, "data_format": data_format},
                lambda laid=laid, dtype=dtype: (data(laid, dtype),),
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
