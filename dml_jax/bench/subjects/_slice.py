"""slice: crops of pictures, every second pixel, mirrored pictures, and odd windows of rows."""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from ..case import DTYPES, Case, Form, data
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]

ITEMSIZES = tuple(DTYPES)
ALL_ARE_QUICK = True


def cases(size: int, itemsize: int) -> Iterator[Case]:
    side = 256 if size >= 2**22 else 32
    channels = 64 if size >= 2**22 else 2
    pictures = (max(1, size // itemsize // (channels * side * side)), channels, side, side)
    each, start, inner = (1, 1, 1, 1), (0, 0, 0, 0), side * 7 // 8
    yield _case("crop", pictures, (0, 0, side // 16, side // 16), (*pictures[:2], inner, inner), each, itemsize)
    yield _case("every second pixel", pictures, start, pictures, (1, 1, 2, 2), itemsize)
    yield _case("mirrored", pictures, start, pictures, (1, 1, 1, -1), itemsize)
    yield _case("upside down", pictures, start, pictures, (1, 1, -1, 1), itemsize)
    rows = (size // itemsize // 1022, 1022)
    yield _case("odd columns", rows, (0, 3), (rows[0], 1015), (1, 1), itemsize)
    yield _case("half the rows", rows, (rows[0] // 4, 0), (rows[0] // 2, 1022), (1, 1), itemsize)


def small(size: int) -> Iterator[Case]:
    yield _case("crop", (1, 1, 16, size // 64), (0, 0, 2, 2), (1, 1, 12, size // 64 - 4), (1, 1, 1, 1), 4)


def of_jnp(a: Attributes) -> Callable[..., Any]:
    window = _window(a)
    return lambda x: x[window]


def of_numpy(a: Attributes) -> Callable[..., Any]:
    window = _window(a)
    return lambda out, x: np.copyto(out, x[window])


def _copy(torch: Any, a: Attributes) -> Callable[..., Any]:
    forwards = tuple(
        np.s_[o : o + n : abs(s)] if s > 0 else np.s_[o + (n - 1) % -s : o + n : -s] for o, n, s in _triples(a)
    )
    turned = [d for d, (_, _, s) in enumerate(_triples(a)) if s < 0]
    if turned:
        return lambda out, x: out.copy_(torch.flip(x[forwards], turned))
    return lambda out, x: out.copy_(x[forwards])


TORCH: Mapping[str, Form] = {"copy_": _copy}


def of_cupy(cupy: Any, a: Attributes) -> Callable[..., Any]:
    window = _window(a)
    return lambda out, x: cupy.copyto(out, x[window])


def of_onnx(a: Attributes) -> OnnxNode:
    ends = [o + n if s > 0 else o - 1 if o else -(2**31) for o, n, s in _triples(a)]
    starts = [o if s > 0 else o + n - 1 for o, n, s in _triples(a)]
    constants = (starts, ends, range(len(starts)), a["input_window_strides"])
    return OnnxNode("Slice", constants=tuple(np.array(list(one), np.int64) for one in constants))


def _triples(a: Attributes) -> list[tuple[int, int, int]]:
    return list(zip(a["input_window_offsets"], a["input_window_sizes"], a["input_window_strides"], strict=True))


def _window(a: Attributes) -> tuple[Any, ...]:
    """As Python writes it: a window that is read backwards up to the first element has no end."""

    def one(offset: int, size: int, stride: int) -> Any:
        if stride > 0:
            return np.s_[offset : offset + size : stride]
        return np.s_[offset + size - 1 : offset - 1 if offset else None : stride]

    return tuple(one(*triple) for triple in _triples(a))


def _case(
    name: str,
    shape: tuple[int, ...],
    offsets: tuple[int, ...],
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    itemsize: int,
) -> Case:
    made = prod(1 + (n - 1) // abs(s) for n, s in zip(sizes, strides, strict=True)) * itemsize
    return Case(
        "slice",
        f"{name} of {'x'.join(map(str, shape))} {DTYPES[itemsize].name}",
        {"input_window_offsets": offsets, "input_window_sizes": sizes, "input_window_strides": strides},
        lambda: (data(shape, itemsize),),
        2 * made,
    )
