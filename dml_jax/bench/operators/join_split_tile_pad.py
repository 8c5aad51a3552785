"""join (concatenate), split, tile and pad, of images, rows and batches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import Case, batch_of, data, mib
from .operator_benchmark import ALL_SIZES, Attributes, OnnxNode, Operator, by_type

Sizes = Sequence[int]


def _joins(size: int, itemsize: int) -> Iterator[Case]:
    """join: channels of pictures, features of rows, and batches."""
    count = size // itemsize
    side = 64 if size >= 2**22 else 16
    batch, *_ = batch_of((128, side, side), size, itemsize)
    yield _join("channels", [(batch, 64, side, side)] * 2, 1, itemsize)
    yield _join("channels, four branches", [(batch, c, side, side) for c in (64, 24, 32, 8)], 1, itemsize)
    yield _join("features", [(count // 1024, 512)] * 2, 1, itemsize)
    yield _join("odd features", [(count // 1022, n) for n in (511, 300, 211)], 1, itemsize)
    yield _join("narrow features", [(count // 6, 3)] * 2, 1, itemsize)
    yield _join("batches", [(count // 4096, 1024)] * 4, 0, itemsize)


def _join(name: str, shapes: Sequence[tuple[int, ...]], axis: int, itemsize: int) -> Case:
    arrays = [data(shape, itemsize) for shape in shapes]
    sizes, total = "+".join(str(shape[axis]) for shape in shapes), sum(x.nbytes for x in arrays)
    return Case("join", f"{name} {sizes} {arrays[0].dtype} {mib(total)}", {"axis": axis}, arrays)


def _splits(size: int, itemsize: int) -> Iterator[Case]:
    """split: queries, keys and values, channels of pictures, odd features, and batches."""
    count = size // itemsize
    side = 64 if size >= 2**22 else 16
    yield _split("queries, keys and values", (count // 3072, 3072), 1, (1024,) * 3, itemsize)
    yield _split("channels", batch_of((128, side, side), size, itemsize), 1, (64, 24, 32, 8), itemsize)
    yield _split("odd features", (count // 1022, 1022), 1, (511, 300, 211), itemsize)
    yield _split("batches", (count // 4096 * 4, 1024), 0, (count // 4096,) * 4, itemsize)


def _split(name: str, shape: Sequence[int], axis: int, sizes: Sequence[int], itemsize: int) -> Case:
    x = data(shape, itemsize)
    detail = f"{name} {'+'.join(map(str, sizes))} {x.dtype} {mib(x.nbytes)}"
    return Case("split", detail, {"sizes": sizes, "axis": axis}, [x])


def _cuts(a: Attributes) -> tuple[list[int], int]:
    return [*accumulate(a["sizes"][:-1])], a["axis"]


def _each_copied(copy: Callable[[Any, Any], Any], outs: Any, parts: Any) -> None:
    for out, part in zip(outs, parts, strict=True):
        copy(out, part)


def _tiles(size: int, itemsize: int) -> Iterator[Case]:
    """tile; most of what is written repeats."""
    count = size // itemsize
    yield _tile("batches", (count // 8192, 1024), (8, 1), itemsize)
    yield _tile("columns", (count // 4096, 512), (1, 8), itemsize)
    yield _tile("both", (max(1, count // 4096 // 3), 257), (3, 16), itemsize)
    yield _tile("short rows", (count // 96, 3), (1, 32), itemsize)


def _tile(name: str, shape: tuple[int, ...], repeats: tuple[int, ...], itemsize: int) -> Case:
    x = data(shape, itemsize)
    return Case("tile", f"{name} {repeats} of {x}", {"repeats": repeats}, [x])


def _repeats_apart(shape: Sequence[int], a: Attributes) -> tuple[list[int], list[int]]:
    """The shapes of input and output with a dimension of its own for each number of copies."""
    return [n for size in shape for n in (1, size)], [n for pair in zip(a["repeats"], shape, strict=True) for n in pair]


def _tiled(copy: Callable[[Any, Any], Any], a: Attributes, out: Any, x: Any) -> None:
    read, written = _repeats_apart(x.shape, a)
    copy(out.reshape(written), x.reshape(read))


# pad. Each mode, and what NumPy calls it; those that torch, and that ONNX has.
_MODES: Any = {
    "constant": "constant",
    "edge": "edge",
    "reflection": "reflect",
    "symmetric": "symmetric",
    "wrap": "wrap",
}
_OF_TORCH = {"constant": "constant", "wrap": "circular"}
_OF_ONNX = ("constant", "edge", "reflection")


def _pads(size: int, itemsize: int) -> Iterator[Case]:
    """Borders of pictures in every mode, and odd ends of rows."""
    side = 224 if size >= 2**22 else 28
    pictures = batch_of((32, side, side), size, itemsize)
    for mode in _MODES:
        yield _pad(mode, pictures, (0, 0, 3, 3), (0, 0, 3, 3), itemsize)
    yield _pad("constant", pictures, (0, 0, 0, 1), (0, 0, 0, 0), itemsize)
    rows = (1, 1, size // itemsize // 1000, 1000)
    yield _pad("constant", rows, (0, 0, 0, 0), (0, 0, 0, 24), itemsize)
    yield _pad("reflection", rows, (0, 0, 0, 400), (0, 0, 0, 400), itemsize)


def _small_pads(size: int) -> Iterator[Case]:
    for value in (0, 9):
        yield _pad("constant", (1, 1, 16, size // 64), (0, 0, 1, 1), (0, 0, 1, 1), 4, value)


def _pad(mode: str, shape: Sizes, start: Sizes, end: Sizes, itemsize: int, value: int = 0) -> Case:
    x, widths = data(shape, itemsize), ",".join(f"{s}+{e}" for s, e in zip(start[2:], end[2:], strict=True))
    attributes = {"start_padding": start, "end_padding": end, "mode": mode}
    attributes |= {"value": value} if mode == "constant" else {}
    return Case("pad", f"{mode}{f' {value},' if value else ''} {widths} of {x}", attributes, [x])


def _widths(a: Attributes) -> list[tuple[int, int]]:
    return list(zip(a["start_padding"], a["end_padding"], strict=True))


def _padded_by_jnp(a: Attributes) -> Callable[..., Any]:
    values = {"constant_values": a["value"]} if a["mode"] == "constant" else {}
    return lambda x: jnp.pad(x, _widths(a), mode=_MODES[a["mode"]], **values)


def _padded_by_numpy(a: Attributes) -> Callable[..., Any]:
    return _filled_around(a, np.ndarray.fill, np.copyto) or (
        lambda out, x: np.copyto(out, np.pad(x, _widths(a), mode=_MODES[a["mode"]]))
    )


def _filled_around(a: Attributes, fill: Callable[..., Any], copy: Callable[..., Any]) -> Callable[..., Any] | None:
    def write(out: Any, x: Any) -> None:
        fill(out, a["value"])
        copy(out[tuple(slice(start, start + n) for start, n in zip(a["start_padding"], x.shape, strict=True))], x)

    return write if a["mode"] == "constant" else None


def _padded_by_torch(torch: Any, a: Attributes) -> Callable[..., Any] | None:
    """The function of that mode, with out= where there is one."""
    ends, aten, mode = _ends(a), torch.ops.aten, _OF_TORCH.get(a["mode"])
    with_out = {"edge": aten.replication_pad2d.out, "reflection": aten.reflection_pad2d.out}
    if a["mode"] in with_out:
        return lambda out, x: with_out[a["mode"]](x, ends, out=out)
    return (lambda out, x: torch.nn.functional.pad(x, ends, mode=mode, value=a.get("value"))) if mode else None


def _joined_by_torch(torch: Any, a: Attributes) -> Callable[..., Any] | None:
    """A mode that torch has not: the edges turned round, joined to it."""
    ends = _ends(a)

    def symmetric(_: Any, x: Any) -> Any:
        for axis, (start, end) in ((3, ends[:2]), (2, ends[2:])):
            size = x.shape[axis]
            parts = [x.narrow(axis, 0, start).flip(axis), x, x.narrow(axis, size - end, end).flip(axis)]
            x = torch.cat(parts, axis)
        return x

    return symmetric if a["mode"] == "symmetric" else None


def _ends(a: Attributes) -> list[int]:
    """Widths before and after, the last dimension first, as torch.nn.functional.pad takes them."""
    return [n for pair in reversed(_widths(a)[-2:]) for n in pair]


def _padded_by_onnx(a: Attributes) -> OnnxNode | None:
    if a["mode"] not in _OF_ONNX:
        return None
    ends = np.array([*a["start_padding"], *a["end_padding"]], np.int64)
    if not a.get("value"):
        return OnnxNode("Pad", {"mode": _MODES[a["mode"]]}, (ends,))
    return OnnxNode("Pad", {}, arrays=lambda arrays: (arrays[0], ends, np.asarray(a["value"], arrays[0].dtype)))


OPERATORS: Mapping[str, Operator] = {
    "join": Operator(
        plans=by_type(
            _joins, ALL_SIZES, quick=None, small=lambda size: [_join("features", [(16, size // 128)] * 2, 1, 4)]
        ),
        jnp=lambda a: lambda *arrays: jnp.concatenate(arrays, a["axis"]),
        numpy=lambda a: lambda out, *arrays: np.concatenate(arrays, a["axis"], out=out),
        torch={"cat": lambda torch, a: lambda out, *arrays: torch.cat(arrays, a["axis"], out=out)},
        cupy=lambda cupy, a: lambda out, *arrays: cupy.concatenate(arrays, a["axis"], out=out),
        onnx=lambda a: OnnxNode("Concat", {"axis": a["axis"]}),
    ),
    "split": Operator(
        plans=by_type(
            _splits,
            ALL_SIZES,
            quick=None,
            small=lambda size: [_split("features", (16, size // 64), 1, (size // 128,) * 2, 4)],
        ),
        jnp=lambda a: lambda x: tuple(jnp.split(x, *_cuts(a))),
        numpy=lambda a: lambda outs, x: _each_copied(np.copyto, outs, np.split(x, *_cuts(a))),
        torch={
            "copy_": lambda torch, a: (
                lambda outs, x: _each_copied(torch.Tensor.copy_, outs, x.split(a["sizes"], a["axis"]))
            ),
            "split_copy": lambda torch, a: (
                lambda outs, x: torch.split_with_sizes_copy(x, a["sizes"], a["axis"], out=outs)
            ),
        },
        onnx=lambda a: OnnxNode("Split", {"axis": a["axis"]}, (np.array(a["sizes"], np.int64),)),
    ),
    "tile": Operator(
        plans=by_type(_tiles, ALL_SIZES, quick=None, small=lambda size: [_tile("both", (8, size // 128), (2, 2), 4)]),
        jnp=lambda a: lambda x: jnp.tile(x, a["repeats"]),
        numpy=lambda a: partial(_tiled, np.copyto, a),
        torch={
            "copy_": lambda torch, a: partial(_tiled, torch.Tensor.copy_, a),
            "tile": lambda _, a: lambda out, x: x.tile(a["repeats"]),
        },
        onnx=lambda a: OnnxNode("Tile", constants=(np.array(a["repeats"], np.int64),)),
    ),
    "pad": Operator(
        plans=by_type(_pads, ALL_SIZES, quick=None, small=_small_pads),
        jnp=_padded_by_jnp,
        numpy=_padded_by_numpy,
        torch={
            "copy_": lambda torch, a: _filled_around(a, torch.Tensor.fill_, torch.Tensor.copy_),
            "pad": _padded_by_torch,
            "cat": _joined_by_torch,
        },
        onnx=_padded_by_onnx,
    ),
}
