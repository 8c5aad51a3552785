"""depth_to_space and space_to_depth: both orders and formats, blocks of several sizes, pictures of real programs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Case, data, mib
from .operator_benchmark import Attributes, OnnxNode, Operator

# What a library gets: the array, attributes, and whether the last reshape is made.
Rearranged = Callable[..., Any]


def _every(operator: str, size: int) -> Iterator[Case]:
    """Both orders and formats, blocks of several sizes."""
    for itemsize in DTYPES:
        blocks = (2, 3, 4, 8) if itemsize < 8 else (2,)
        yield from _pictures(operator, size, (itemsize,), product(("NCHW", "NHWC"), ("DCR", "CRD")), blocks)


def _pictures(
    operator: str,
    size: int,
    itemsizes: Iterable[int],
    layouts: Iterable[tuple[str, str]] = (("NCHW", "DCR"),),
    blocks: Sequence[int] = (2,),
) -> Iterator[Case]:
    """Batches of pictures whose rows are a multiple of 96 elements, or small ones; the usual blocks."""
    side = 768 if size >= 2**25 else 192 if size >= 2**21 else 48 if size >= 2**16 else 8
    picture = (64 if size >= 2**16 else 4, side, side)
    for itemsize, layout, b in product(itemsizes, layouts, blocks):
        yield _case(operator, size, picture, b, layout, DTYPES[itemsize].name)


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


def _real(operator: str, size: int) -> Iterator[Case]:
    """Batches of the pictures of real programs, split into blocks or made of them."""
    for what, picture, b, layouts, dtypes in REAL:
        for layout, dtype in product(layouts, dtypes):
            yield _case(operator, size, picture, b, layout, dtype, what)


def _case(
    operator: str, size: int, picture: Sequence[int], b: int, layout: tuple[str, str], dtype: str, real: str = ""
) -> Case:
    """A batch of pictures, channels, height and width, of about so many bytes: split into blocks or made of them."""
    (c, h, w), (data_format, order) = picture, layout
    itemsize = jnp.dtype(dtype).itemsize
    n = max(1, round(size / (itemsize * c * h * w)))
    shape = (n, c, h, w) if operator == "space_to_depth" else (n, c * b * b, h // b, w // b)
    x = data(shape if data_format == "NCHW" else (shape[0], *shape[2:], shape[1]), dtype)
    detail = f"{data_format} {order} b={b}"
    detail = f"real {real}, {detail} of {x}" if real else f"{detail} {dtype} {mib(x.nbytes)}"
    return Case(operator, detail, {"block_size": b, "order": order, "data_format": data_format}, [x])


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
    y = permuted(x.reshape(split), perm)
    return y.reshape(shape) if merge else y


def space_to_depth(x: Any, *, block_size: int, order: str, data_format: str, merge: bool = True) -> Any:
    """Space to depth by reshape, transpose, reshape; without the last one if not `merge`."""
    b = block_size
    if data_format == "NCHW":
        n, c, h, w = x.shape
        split, shape = (n, c, h // b, b, w // b, b), (n, c * b**2, h // b, w // b)
        perm = (0, 3, 5, 1, 2, 4) if order == "DCR" else (0, 1, 3, 5, 2, 4)
    else:
        n, h, w, c = x.shape
        split, shape = (n, h // b, b, w // b, b, c), (n, h // b, w // b, c * b**2)
        perm = (0, 1, 3, 2, 4, 5) if order == "DCR" else (0, 1, 3, 5, 2, 4)
    y = permuted(x.reshape(split), perm)
    return y.reshape(shape) if merge else y


def permuted(x: Any, order: Sequence[int]) -> Any:
    """Transposes an array of NumPy's, JAX's, CuPy's, or a tensor of torch's."""
    return x.permute(order) if hasattr(x, "permute") else x.transpose(order)


def copy_torch(out: Any, view: Any) -> None:
    out.copy_(view)


def _channels_first(function: Callable[[Any, int], Any], attributes: Attributes) -> Callable[..., Any] | None:
    """torch's own function, which knows one order, and takes pictures of either format as its memory formats."""
    if attributes["order"] != "CRD":
        return None
    if attributes["data_format"] == "NCHW":
        return lambda out, x: function(x, attributes["block_size"])

    def channels_last(out: Any, x: Any) -> Any:
        made = function(x.permute(0, 3, 1, 2), attributes["block_size"])
        return made.permute(0, 2, 3, 1).contiguous()  # which copies nothing where the format was kept

    return channels_last


def _rearranging(
    operator: str, function: Rearranged, of_torch: str, onnx: Callable[[Attributes], OnnxNode | None]
) -> Operator:
    def of_view(_: Any, a: Attributes) -> Callable[..., Any]:
        return with_view(function, a, copy_torch)

    small = partial(_pictures, operator, itemsizes=(4,))
    quick, full, real = partial(small, itemsizes=(1, 4)), partial(_every, operator), partial(_real, operator)
    return Operator(
        plans={"quick": quick, "full": full, "real": real, "small": small, "sweep": small},
        jnp=lambda a: lambda x: function(x, **a),
        numpy=lambda a: with_view(function, a, np.copyto),
        torch={
            "copy_": of_view,
            of_torch: lambda torch, a: _channels_first(getattr(torch, of_torch), a),
            "compile": of_view,
        },
        cupy=lambda cupy, a: with_view(function, a, cupy.copyto),
        onnx=onnx,
    )


def _to_space(a: Attributes) -> OnnxNode | None:
    is_first = a["data_format"] == "NCHW"
    return OnnxNode("DepthToSpace", {"blocksize": a["block_size"], "mode": a["order"]}) if is_first else None


def _to_depth(a: Attributes) -> OnnxNode | None:
    is_usual = (a["data_format"], a["order"]) == ("NCHW", "DCR")
    return OnnxNode("SpaceToDepth", {"blocksize": a["block_size"]}) if is_usual else None


OPERATORS: Mapping[str, Operator] = {
    "depth_to_space": _rearranging("depth_to_space", depth_to_space, "pixel_shuffle", _to_space),
    "space_to_depth": _rearranging("space_to_depth", space_to_depth, "pixel_unshuffle", _to_depth),
}
