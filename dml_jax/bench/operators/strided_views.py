"""as_strided, slice and slice_grad: transposed, dilated, cropped and mirrored views, and their gradients."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..case import DTYPES, Case, batch_of, data, dims, mib
from .operator_benchmark import ALL_SIZES, Attributes, OnnxNode, Operator, by_type

Sizes = Sequence[int]
# What is seen in another order, behind the batch: the order and the sizes.
REAL = (
    ("pictures, NHWC as NCHW", (3, 1, 2), (224, 224, 3)),
    ("pictures, NCHW as NHWC", (2, 3, 1), (3, 224, 224)),
    ("features, NHWC as NCHW", (3, 1, 2), (56, 56, 256)),
    ("weights, transposed", (2, 1), (11008, 4096)),
    ("heads of attention", (2, 1, 3), (2048, 32, 128)),
    ("tubelets of 2x16x16", (2, 4, 1, 3, 5, 6), (2, 14, 16, 14, 16, 3)),
)


def _views(size: int, itemsize: int) -> Iterator[Case]:
    """as_strided: transposed, with gaps, and repeated rows."""
    n, h, w, c = 8, 128, 128, max(1, size // itemsize // (8 * 128 * 128))
    buffer, dtype = n * h * w * c, DTYPES[itemsize].name
    layouts = {
        "transposed": ((h * w, n * c), (1, h * w), buffer),
        "NHWC as NCHW": ((n, c, h, w), (h * w * c, 1, w * c, c), buffer),
        "padded rows": ((n * h, w * c), (w * c + 32, 1), n * h * (w * c + 32)),
        "broadcast rows": ((h * w, n * c), (0, 1), n * c),
    }
    for name, (sizes, strides, length) in layouts.items():
        yield _view(f"{name} {dtype} {mib(size)}", sizes, strides, length, dtype)


def _real_views(size: int) -> Iterator[Case]:
    for what, order, sizes in REAL:
        for dtype in ("uint8", "bfloat16"):
            itemsize = jnp.dtype(dtype).itemsize
            shape = (max(1, round(size / (prod(sizes) * itemsize))), *sizes)
            strides = [prod(shape[d + 1 :]) for d in (0, *order)]
            detail = f"real {what}, {dims(shape)} {dtype}"
            yield _view(detail, [shape[d] for d in (0, *order)], strides, prod(shape), dtype)


def _view(detail: str, sizes: Sizes, strides: Sizes, length: int, dtype: str) -> Case:
    buffer, attributes = data((length,), dtype), {"sizes": tuple(sizes), "strides": tuple(strides)}
    made = prod(sizes) * buffer.dtype.itemsize
    return Case("as_strided", detail, attributes, [buffer], needed=min(made, buffer.nbytes) + made)


def _offsets(a: Attributes) -> Any:
    """A flat index per coordinate, as without as_strided."""
    sizes, strides = a["sizes"], a["strides"]
    return sum(
        (jnp.arange(n, dtype=jnp.int32) * s).reshape((1,) * d + (n,) + (1,) * (len(sizes) - 1 - d))
        for d, (n, s) in enumerate(zip(sizes, strides, strict=True))
    )


def _view_copied(like: Any, a: Attributes, out: Any, x: Any) -> None:
    """as_strided in NumPy and CuPy, copied to the output."""
    strides = [s * x.itemsize for s in a["strides"]]
    like.copyto(out, like.lib.stride_tricks.as_strided(x, a["sizes"], strides))


def _slices(size: int, itemsize: int) -> Iterator[Case]:
    """slice: crops of pictures, every second pixel, mirrored pictures, and odd windows of rows."""
    side, channels = (256, 64) if size >= 2**22 else (32, 2)
    pictures = batch_of((channels, side, side), size, itemsize)
    each, start, inner = (1, 1, 1, 1), (0, 0, 0, 0), side * 7 // 8
    yield _slice("crop", pictures, (0, 0, side // 16, side // 16), (*pictures[:2], inner, inner), each, itemsize)
    yield _slice("every second pixel", pictures, start, pictures, (1, 1, 2, 2), itemsize)
    yield _slice("mirrored", pictures, start, pictures, (1, 1, 1, -1), itemsize)
    yield _slice("upside down", pictures, start, pictures, (1, 1, -1, 1), itemsize)
    rows = (size // itemsize // 1022, 1022)
    yield _slice("odd columns", rows, (0, 3), (rows[0], 1015), (1, 1), itemsize)
    yield _slice("half the rows", rows, (rows[0] // 4, 0), (rows[0] // 2, 1022), (1, 1), itemsize)


def _small_slice(size: int) -> Iterator[Case]:
    yield _slice("crop", (1, 1, 16, size // 64), (0, 0, 2, 2), (1, 1, 12, size // 64 - 4), (1, 1, 1, 1), 4)


def _slice(name: str, shape: Sizes, offsets: Sizes, sizes: Sizes, strides: Sizes, itemsize: int) -> Case:
    x, needed = data(shape, itemsize), 2 * prod(_counts(sizes, strides)) * itemsize
    attributes = {"input_window_offsets": offsets, "input_window_sizes": sizes, "input_window_strides": strides}
    return Case("slice", f"{name} of {x}", attributes, [x], needed=needed)


def _counts(sizes: Sizes, strides: Sizes) -> tuple[int, ...]:
    """The number of elements of a strided window along each dimension."""
    return tuple(1 + (n - 1) // abs(step) for n, step in zip(sizes, strides, strict=True))


def _triples(a: Attributes) -> list[tuple[int, int, int]]:
    return list(zip(a["input_window_offsets"], a["input_window_sizes"], a["input_window_strides"], strict=True))


def _window(a: Attributes) -> tuple[Any, ...]:
    """The window as Python slices; a backward slice that reaches element 0 has no stop."""
    return tuple(
        np.s_[o : o + n : s] if s > 0 else np.s_[o + n - 1 : o - 1 if o else None : s] for o, n, s in _triples(a)
    )


def _window_copied(like: Any, a: Attributes) -> Callable[..., Any]:
    """A slice in NumPy and CuPy, copied to the output."""
    window = _window(a)
    return lambda out, x: like.copyto(out, x[window])


def _window_by_torch(torch: Any, a: Attributes) -> Callable[..., Any]:
    """A slice in torch, by flip for negative strides, which torch lacks."""
    starts = (o if s > 0 else o + (n - 1) % -s for o, n, s in _triples(a))
    forwards = tuple(np.s_[i : o + n : abs(s)] for i, (o, n, s) in zip(starts, _triples(a), strict=True))
    turned = [d for d, (_, _, s) in enumerate(_triples(a)) if s < 0]
    return lambda out, x: out.copy_(torch.flip(x[forwards], turned) if turned else x[forwards])


def _window_by_onnx(a: Attributes) -> OnnxNode:
    ends = [o + n if s > 0 else o - 1 if o else -(2**31) for o, n, s in _triples(a)]
    starts = [o if s > 0 else o + n - 1 for o, n, s in _triples(a)]
    constants = (starts, ends, range(len(starts)), a["input_window_strides"])
    return OnnxNode("Slice", constants=tuple(np.array(list(one), np.int64) for one in constants))


def _slice_grads(size: int, itemsize: int) -> Iterator[Case]:
    """slice_grad: gradients of crops and of every second pixel."""
    side = 256 if size >= 2**22 else 32
    sizes = batch_of((16, side, side), size, itemsize)
    edge, inner = side // 16, side * 7 // 8
    for name, offsets, window, strides in (
        ("crop", (0, 0, edge, edge), (*sizes[:2], inner, inner), (1, 1, 1, 1)),
        ("every second pixel", (0, 0, 0, 0), sizes, (1, 1, 2, 2)),
    ):
        x = data(_counts(window, strides), itemsize)
        attributes = {"sizes": sizes, "offsets": offsets, "window_sizes": window, "strides": strides}
        yield Case("slice_grad", f"{name} of {dims(sizes)} {x.dtype}", attributes, [x])


def _put_back_by_jnp(a: Attributes) -> Callable[..., Any]:
    def padded(x: Any) -> Any:
        each = zip(a["sizes"], a["offsets"], x.shape, a["strides"], strict=True)
        edges = [(start, size - start - (n - 1) * step - 1, step - 1) for size, start, n, step in each]
        return lax.pad(x, np.zeros((), x.dtype), edges)

    return padded


def _put_back(zero: Callable[[Any], Any], copy: Callable[[Any, Any], Any], a: Attributes) -> Callable[..., Any]:
    each = zip(a["offsets"], a["window_sizes"], a["strides"], strict=True)
    window = tuple(slice(start, start + size, step) for start, size, step in each)

    def write(out: Any, x: Any) -> None:
        zero(out)
        copy(out[window], x)

    return write


OPERATORS: Mapping[str, Operator] = {
    "as_strided": Operator(
        plans=by_type(_views, ALL_SIZES, quick=None, real=_real_views),
        jnp=lambda a: lambda x: x[_offsets(a)],
        numpy=lambda a: partial(_view_copied, np, a),
        torch={"copy_": lambda _, a: lambda out, x: out.copy_(x.as_strided(a["sizes"], a["strides"]))},
        cupy=lambda cupy, a: partial(_view_copied, cupy, a),
    ),
    "slice": Operator(
        plans=by_type(_slices, ALL_SIZES, quick=None, small=_small_slice),
        jnp=lambda a: lambda x: x[_window(a)],
        numpy=lambda a: _window_copied(np, a),
        torch={"copy_": _window_by_torch},
        cupy=_window_copied,
        onnx=_window_by_onnx,
    ),
    "slice_grad": Operator(
        plans=by_type(_slice_grads, (1, 2, 4)),
        jnp=_put_back_by_jnp,
        numpy=lambda a: _put_back(lambda out: out.fill(0), np.copyto, a),
        torch={"copy_": lambda torch, a: _put_back(torch.Tensor.zero_, torch.Tensor.copy_, a)},
    ),
}
