"""Layers of networks: gemm, convolution, rnn and local_response_normalization."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import prod
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..case import Case, batch_of, normal
from .operator_benchmark import Attributes, OnnxNode, Operator, by_type


def _products(size: int) -> Iterator[Case]:
    """gemm: a square product, and a layer of a few rows, whose weights are read once."""
    side = 1024 if size >= 2**21 else 64
    yield _product(side, side, side)
    yield _product(16, side, 4 * side)


def _product(m: int, k: int, n: int) -> Case:
    arrays = [normal((m, k), 4), normal((n, k), 4), normal((m, n), 4)]
    how: Any = {"tolerance": 2**-14, "operations": 2 * m * k * n}
    return Case("gemm", f"{m}x{k} by {k}x{n} float32", {"trans_b": True}, arrays, **how)


# convolution: layers of networks of pictures.
class _Layer(NamedTuple):
    """Channels that go in and come out, in how many groups, side of a filter, its step, and side of a picture."""

    inputs: int
    outputs: int
    groups: int
    filter: int
    step: int
    side: int


_LAYERS = {
    "3x3": _Layer(64, 64, 1, 3, 1, 56),
    "1x1": _Layer(256, 64, 1, 1, 1, 56),
    "7x7, 2 apart": _Layer(3, 64, 1, 7, 2, 224),
    "3x3 of each channel": _Layer(128, 128, 128, 3, 1, 56),
}


def _convolutions(size: int) -> Iterator[Case]:
    for name in _LAYERS:
        yield _convolution(name, 8 if size >= 2**25 else 1)


def _convolution(name: str, batch: int) -> Case:
    layer = _LAYERS[name]
    pads, step = (layer.filter // 2,) * 2, layer.step
    count = (layer.side + 2 * pads[0] - layer.filter) // step + 1
    x = normal((batch, layer.inputs, layer.side, layer.side), 4)
    weights = normal((layer.outputs, layer.inputs // layer.groups, layer.filter, layer.filter), 4)
    return Case(
        "convolution",
        f"{name}, {layer.inputs} to {layer.outputs} channels, of {x}",
        {"strides": (step, step), "start_padding": pads, "end_padding": pads, "group_count": layer.groups},
        [x, weights],
        tolerance=2**-14,
        operations=2 * batch * count**2 * prod(weights.shape),
    )


def _convolved_by_jnp(a: Attributes) -> Callable[..., Any]:
    pads, groups = [*zip(a["start_padding"], a["end_padding"], strict=True)], a["group_count"]
    return lambda x, w: lax.conv_general_dilated(
        x, w, a["strides"], pads, feature_group_count=groups, precision="highest"
    )


def _convolved_by_torch(torch: Any, a: Attributes) -> Callable[..., Any]:
    numbers = (None, a["strides"], a["start_padding"], 1, a["group_count"])
    return lambda out, x, w: torch.nn.functional.conv2d(x, w, *numbers)


def _convolved_by_onnx(a: Attributes) -> OnnxNode:
    pads = [*a["start_padding"], *a["end_padding"]]
    return OnnxNode("Conv", {"strides": a["strides"], "pads": pads, "group": a["group_count"]})


def _recurrence(steps: int, batch: int, units: int) -> Case:
    """rnn: a layer of a few hundred units over a hundred steps."""
    weights = normal((1, units, units), 4).then(lambda x: 0.05 * x)
    arrays = [normal((steps, batch, units), 4), weights, weights.then(np.fliplr)]
    how: Any = {"tolerance": 2**-12, "operations": 4 * steps * batch * units**2}
    return Case("rnn", f"{steps} steps of {batch} rows, {units} units float32", {}, arrays, **how)


def _run_by_jnp(_: Attributes) -> Callable[..., Any]:
    def run(x: Any, w: Any, r: Any) -> Any:
        def step(h: Any, given: Any) -> Any:
            h = jnp.tanh(given + h @ r[0].T)
            return h, h

        last, states = lax.scan(step, jnp.zeros((x.shape[1], r.shape[2]), x.dtype), x @ w[0].T)
        return states[:, None], last[None, None]

    return run


def _run_by_numpy(outs: Any, x: np.ndarray, w: np.ndarray, r: np.ndarray) -> None:
    given, h = x @ w[0].T, np.zeros((x.shape[1], r.shape[2]), x.dtype)
    for out, one in zip(outs[0], given, strict=True):
        h = np.tanh(one + h @ r[0].T, out=out[0])
    outs[1][0, 0] = h


def _run_by_torch(torch: Any, outs: Any, x: Any, w: Any, r: Any) -> tuple[Any, Any]:
    start = x.new_zeros(1, x.shape[1], r.shape[2])
    states, last = torch.rnn_tanh(x, start, [w[0], r[0]], False, 1, 0.0, False, False, False)
    return states[:, None], last[None]


def _normalizations(size: int, itemsize: int) -> Iterator[Case]:
    """local_response_normalization: across five channels, as AlexNet has it."""
    side = 27 if size >= 2**21 else 9
    x = normal(batch_of((96, side, side), size, itemsize), itemsize)
    attributes = {"local_size": 5, "alpha": 1e-4, "beta": 0.75, "bias": 1.0}
    yield Case("local_response_normalization", str(x), attributes, [x], tolerance=2**-16)


def _denominator(like: Any, x: Any, a: Attributes) -> Any:
    around = a["local_size"] // 2
    squares = like.pad(x * x, ((0, 0), (around, around), (0, 0), (0, 0)))
    total = sum(squares[:, i : i + x.shape[1]] for i in range(a["local_size"]))
    return (a["bias"] + a["alpha"] / a["local_size"] * total) ** a["beta"]


def _numbers(a: Attributes) -> Attributes:
    """The attributes by their names in torch and ONNX."""
    return {"size": a["local_size"], "alpha": a["alpha"], "beta": a["beta"]}


OPERATORS: Mapping[str, Operator] = {
    "gemm": Operator(
        plans={"quick": lambda _: [_product(256, 256, 256)], "full": _products},
        jnp=lambda _: lambda x, w, c: x @ w.T + c,
        numpy=lambda _: lambda out, x, w, c: np.add(np.matmul(x, w.T, out=out), c, out=out),
        torch={"addmm": lambda torch, _: lambda out, x, w, c: torch.addmm(c, x, w.T, out=out)},
        onnx=lambda _: OnnxNode("Gemm", {"transB": 1}),
    ),
    "local_response_normalization": Operator(
        plans=by_type(_normalizations, (4,)),
        jnp=lambda a: lambda x: x / _denominator(jnp, x, a),
        numpy=lambda a: lambda out, x: np.divide(x, _denominator(np, x, a), out=out),
        torch={
            "local_response_norm": lambda torch, a: (
                lambda out, x: torch.nn.functional.local_response_norm(x, **_numbers(a), k=a["bias"])
            )
        },
        onnx=lambda a: OnnxNode("LRN", {**_numbers(a), "bias": a["bias"]}),
    ),
    "convolution": Operator(
        plans={"quick": lambda _: [_convolution("3x3", 1)], "full": _convolutions},
        jnp=_convolved_by_jnp,
        torch={"conv2d": _convolved_by_torch},
        onnx=_convolved_by_onnx,
    ),
    "rnn": Operator(
        plans={"quick": lambda _: [_recurrence(32, 8, 128)], "full": lambda _: [_recurrence(128, 32, 256)]},
        jnp=_run_by_jnp,
        numpy=lambda _: _run_by_numpy,
        torch={"rnn_tanh": lambda torch, _: partial(_run_by_torch, torch)},
    ),
}
