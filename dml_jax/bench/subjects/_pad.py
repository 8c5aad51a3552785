"""pad: borders of pictures in every mode, and odd ends of rows."""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..case import DTYPES, Case, Form, data
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]

ITEMSIZES = tuple(DTYPES)
ALL_ARE_QUICK = True


def cases(size: int, itemsize: int) -> Iterator[Case]:
    side = 224 if size >= 2**22 else 28
    pictures = (max(1, size // itemsize // (32 * side * side)), 32, side, side)
    for mode in _MODES:
        yield _case(mode, pictures, (0, 0, 3, 3), (0, 0, 3, 3), itemsize)
    yield _case("constant", pictures, (0, 0, 0, 1), (0, 0, 0, 0), itemsize)
    rows = (1, 1, size // itemsize // 1000, 1000)
    yield _case("constant", rows, (0, 0, 0, 0), (0, 0, 0, 24), itemsize)
    yield _case("reflection", rows, (0, 0, 0, 400), (0, 0, 0, 400), itemsize)


def small(size: int) -> Iterator[Case]:
    for value in (0, 9):
        yield _case("constant", (1, 1, 16, size // 64), (0, 0, 1, 1), (0, 0, 1, 1), 4, value)


# Each mode, and what NumPy calls it.
_MODES = {"constant": "constant", "edge": "edge", "reflection": "reflect", "symmetric": "symmetric", "wrap": "wrap"}


def of_jnp(a: Attributes) -> Callable[..., Any]:
    values = {"constant_values": a["value"]} if a["mode"] == "constant" else {}
    return lambda x: jnp.pad(x, _widths(a), mode=_MODES[a["mode"]], **values)


def of_numpy(a: Attributes) -> Callable[..., Any]:
    if a["mode"] == "constant":
        return _constant(a, np.ndarray.fill, np.copyto)
    mode: Any = _MODES[a["mode"]]
    return lambda out, x: np.copyto(out, np.pad(x, _widths(a), mode=mode))


def _filled(torch: Any, a: Attributes) -> Callable[..., Any] | None:
    return _constant(a, torch.Tensor.fill_, torch.Tensor.copy_) if a["mode"] == "constant" else None


def _padded(torch: Any, a: Attributes) -> Callable[..., Any] | None:
    """The function of that mode, with out= where there is one."""
    ends, aten = _ends(a), torch.ops.aten
    with_out = {"edge": aten.replication_pad2d.out, "reflection": aten.reflection_pad2d.out}
    if a["mode"] in with_out:
        return lambda out, x: with_out[a["mode"]](x, ends, out=out)
    modes = {"constant": "constant", "wrap": "circular"}
    mode = modes.get(a["mode"])
    return (lambda out, x: torch.nn.functional.pad(x, ends, mode=mode, value=a.get("value"))) if mode else None


def _joined(torch: Any, a: Attributes) -> Callable[..., Any] | None:
    return (lambda out, x: _symmetric(torch, x, _ends(a))) if a["mode"] == "symmetric" else None


TORCH: Mapping[str, Form] = {"copy_": _filled, "pad": _padded, "cat": _joined}


def _ends(a: Attributes) -> list[int]:
    """Before and behind, the last dimension first."""
    return [n for pair in reversed(_widths(a)[-2:]) for n in pair]


def _symmetric(torch: Any, x: Any, ends: list[int]) -> Any:
    """What torch has no mode for: the edges turned round, joined to it."""
    for axis, (start, end) in ((3, ends[:2]), (2, ends[2:])):
        size = x.shape[axis]
        parts = [x.narrow(axis, 0, start).flip(axis), x, x.narrow(axis, size - end, end).flip(axis)]
        x = torch.cat(parts, axis)
    return x


def of_onnx(a: Attributes) -> OnnxNode | None:
    modes = {"constant": "constant", "edge": "edge", "reflection": "reflect"}
    if a["mode"] not in modes:
        return None
    ends = np.array([*a["start_padding"], *a["end_padding"]], np.int64)
    if not a.get("value"):
        return OnnxNode("Pad", {"mode": modes[a["mode"]]}, (ends,))
    return OnnxNode("Pad", {}, arrays=lambda arrays: (arrays[0], ends, np.asarray(a["value"], arrays[0].dtype)))


def _widths(a: Attributes) -> list[tuple[int, int]]:
    return list(zip(a["start_padding"], a["end_padding"], strict=True))


def _constant(a: Attributes, fill: Callable[..., Any], copy: Callable[..., Any]) -> Callable[..., Any]:
    def write(out: Any, x: Any) -> None:
        fill(out, a["value"])
        copy(out[tuple(slice(start, start + n) for start, n in zip(a["start_padding"], x.shape, strict=True))], x)

    return write


def _case(
    mode: str, shape: tuple[int, ...], start: tuple[int, ...], end: tuple[int, ...], itemsize: int, value: int = 0
) -> Case:
    made = prod(s + n + e for s, n, e in zip(start, shape, end, strict=True)) * itemsize
    widths = ",".join(f"{s}+{e}" for s, e in zip(start[2:], end[2:], strict=True))
    return Case(
        "pad",
        f"{mode}{f' {value},' if value else ''} {widths} of {'x'.join(map(str, shape))} {DTYPES[itemsize].name}",
        {"start_padding": start, "end_padding": end, "mode": mode} | ({"value": value} if mode == "constant" else {}),
        lambda: (data(shape, itemsize),),
        prod(shape) * itemsize + made,
    )
