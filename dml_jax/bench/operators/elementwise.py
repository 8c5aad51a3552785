"""Elementwise operators: scale and shift, cast, select, clip, add, and activations of networks."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...core.structs.activation import Activation
from ..case import ROUNDED, Case, Drawn, batch_of, data, mib, normal
from .docstring_examples import grown
from .operator_benchmark import Attributes, OnnxNode, Operator, by_type

# cast: mixed precision there and back, and pixels that become numbers. The type that is read, and that is written.
_PAIRS = (
    ("float32", "bfloat16"),
    ("bfloat16", "float32"),
    ("float32", "float16"),
    ("float16", "float32"),
    ("uint8", "float32"),
    ("float32", "uint8"),
    ("bool", "uint8"),
)


def _casts(size: int) -> Iterator[Case]:
    """cast: of numbers from 0 to 100, with fractions if the dtype has them."""
    for dtype, other in ((jnp.dtype(name) for name in pair) for pair in _PAIRS):
        shape = (size // max(dtype.itemsize, other.itemsize),)
        numbers = partial(np.resize, (np.arange(2**16 + 1) * 0.37 % 100).astype(dtype), shape)
        yield Case("cast", f"{dtype} to {other} {mib(size)}", {"dtype": other}, [Drawn(shape, dtype, numbers)])


def _cast_by_onnx(a: Attributes) -> OnnxNode:
    from onnx import helper

    return OnnxNode("Cast", {"to": helper.np_dtype_to_tensor_dtype(a["dtype"])})


def _selections(size: int, itemsize: int) -> Iterator[Case]:
    """select: of two arrays by a mask, random or that of causal attention."""
    side = 512 if size >= 2**21 else 64
    shape = batch_of((side, side), size, itemsize)
    x = data(shape, itemsize)
    for name, mask in _MASKS.items():
        arrays = [Drawn(shape, np.dtype(bool), partial(mask, shape)), x, x.then(np.flipud)]
        yield Case("select", f"{name} mask of {x}", {}, arrays)


_MASKS: Mapping[str, Callable[[tuple[int, ...]], np.ndarray]] = {
    "random": lambda shape: np.resize(np.random.default_rng(3).integers(0, 2, 2**16 + 1).astype(bool), shape),
    "causal": lambda shape: np.broadcast_to(np.tri(*shape[-2:], dtype=bool), shape).copy(),
}


def _clips(size: int, itemsize: int) -> Iterator[Case]:
    """clip, of bytes and of numbers of either sign."""
    (low, high), make = ((16, 40), data) if itemsize == 1 else ((-0.5, 1.0), normal)
    x = make((size // itemsize,), itemsize)
    yield Case("clip", f"{x.dtype} {mib(size)}", {"min": low, "max": high}, [x])


def _clipped_by_onnx(a: Attributes) -> OnnxNode:
    bounds = (a["min"], a["max"])
    return OnnxNode("Clip", arrays=lambda arrays: (arrays[0], *(np.asarray(b, arrays[0].dtype) for b in bounds)))


def _pictures(size: int, itemsize: int) -> Iterator[Case]:
    """value_scale_2d: pictures made ready for a network, a bias for each channel."""
    side = 224 if size >= 2**21 else 28
    x = normal(batch_of((3, side, side), size, itemsize), itemsize)
    attributes = {"scale": 0.017, "bias": (-2.1, -2.0, -1.8)}
    yield Case("value_scale_2d", str(x), attributes, [x], tolerance=ROUNDED[itemsize])


def _scaled(x: np.ndarray, a: Attributes, out: np.ndarray) -> None:
    """Scale and bias in NumPy; the bias is one number, or one per channel."""
    bias = np.asarray(a["bias"], out.dtype)
    np.add(np.multiply(x, out.dtype.type(a["scale"]), out=out), bias[:, None, None] if bias.ndim else bias, out=out)


def _pictures_by_torch(torch: Any, a: Attributes) -> Callable[..., Any]:
    bias = torch.tensor(a["bias"])[:, None, None]
    return lambda out, x: torch.add(bias.to(x), x, alpha=a["scale"], out=out)


def _activations(size: int, itemsize: int) -> Iterator[Case]:
    """activate: what networks have between their layers; by their names the forms of JAX, NumPy, torch and ONNX."""
    x = normal((size // itemsize // 1024, 1024), itemsize)
    for name in ("RELU", "SIGMOID", "TANH", "GELU", "SOFTMAX"):
        tolerance = 2**-8 if itemsize == 2 else 2**-11 if name == "GELU" else 2**-18
        attributes = {"activation": Activation(f"ACTIVATION_{name}")}
        yield Case("activate", f"{name.lower()} of {x}", attributes, [x], tolerance=tolerance)


def _name(a: Attributes) -> str:
    return a["activation"].operator_type.removeprefix("ACTIVATION_")


_BY_JNP: Mapping[str, Callable[..., Any]] = {
    "RELU": jax.nn.relu,
    "SIGMOID": jax.nn.sigmoid,
    "TANH": jnp.tanh,
    "GELU": lambda x: jax.nn.gelu(x, approximate=False),
    "SOFTMAX": jax.nn.softmax,
}


def _softmax_by_numpy(out: np.ndarray, x: np.ndarray) -> None:
    np.exp(x - x.max(-1, keepdims=True), out=out)
    np.divide(out, out.sum(-1, keepdims=True, dtype=np.float32), out=out, casting="same_kind")


# GELU as its usual approximation, which misses it by less than the tolerance: NumPy has no erf.
_BY_NUMPY: Mapping[str, Callable[..., Any]] = {
    "RELU": lambda out, x: np.maximum(x, 0, out=out),
    "SIGMOID": lambda out, x: np.reciprocal(1 + np.exp(-x), out=out),
    "TANH": lambda out, x: np.tanh(x, out=out),
    "GELU": lambda out, x: np.multiply(0.5 * x, 1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)), out=out),
    "SOFTMAX": _softmax_by_numpy,
}


def _activated_by_torch(torch: Any, a: Attributes) -> Callable[..., Any]:
    aten = torch.ops.aten
    forms = {
        "RELU": lambda out, x: torch.clamp_min(x, 0, out=out),
        "SIGMOID": lambda out, x: torch.sigmoid(x, out=out),
        "TANH": lambda out, x: torch.tanh(x, out=out),
        "GELU": lambda out, x: aten.gelu.out(x, out=out),
        "SOFTMAX": lambda out, x: aten._softmax.out(x, -1, False, out=out),
    }
    return forms[_name(a)]


OPERATORS: Mapping[str, Operator] = {
    "identity": Operator(
        plans=grown("identity", (2, 4)),
        jnp=lambda a: lambda x: x * a["scale"] + a["bias"],
        numpy=lambda a: lambda out, x: _scaled(x, a, out),
        torch={
            "add": lambda torch, a: (
                lambda out, x: torch.add(torch.tensor(a["bias"]).to(x), x, alpha=a["scale"], out=out)
            ),
            "mul": lambda torch, a: lambda out, x: torch.mul(x, a["scale"], out=out).add_(a["bias"]),
        },
    ),
    "cast": Operator(
        plans={"quick": lambda size: islice(_casts(size), 1), "full": _casts},
        jnp=lambda a: lambda x: x.astype(a["dtype"]),
        numpy=lambda _: lambda out, x: np.copyto(out, x, casting="unsafe"),
        torch={"copy_": lambda torch, _: lambda out, x: out.copy_(x)},
        onnx=_cast_by_onnx,
    ),
    "select": Operator(
        plans=by_type(_selections, (1, 2, 4)),
        jnp=lambda _: jnp.where,
        numpy=lambda _: lambda out, mask, a, b: (np.copyto(out, b), np.copyto(out, a, where=mask)),
        torch={"where": lambda torch, _: lambda out, mask, a, b: torch.where(mask, a, b, out=out)},
        onnx=lambda _: OnnxNode("Where"),
    ),
    "value_scale_2d": Operator(
        plans=by_type(_pictures, (2, 4)),
        jnp=lambda a: (
            lambda x: x * jnp.asarray(a["scale"], x.dtype) + jnp.asarray(a["bias"], x.dtype)[None, :, None, None]
        ),
        numpy=lambda a: lambda out, x: _scaled(x, a, out),
        torch={"add": _pictures_by_torch},
    ),
    "add": Operator(
        plans=grown("add", (2, 4)),
        jnp=lambda a: (lambda x, y: jax.nn.relu(x + y)) if a else jnp.add,
        numpy=lambda a: (
            (lambda out, x, y: np.maximum(np.add(x, y, out=out), 0, out=out))
            if a
            else lambda out, x, y: np.add(x, y, out=out)
        ),
        torch={
            "add": lambda torch, a: (
                (lambda out, x, y: torch.add(x, y, out=out).relu_())
                if a
                else lambda out, x, y: torch.add(x, y, out=out)
            )
        },
        onnx=lambda a: None if a else OnnxNode("Add"),
    ),
    "clip": Operator(
        plans=by_type(_clips, (1, 2, 4), small=lambda size: _clips(size, 4)),
        jnp=lambda a: lambda x: jnp.clip(x, a["min"], a["max"]),
        numpy=lambda a: lambda out, x: np.clip(x, a["min"], a["max"], out=out),
        torch={"clamp": lambda torch, a: lambda out, x: torch.clamp(x, a["min"], a["max"], out=out)},
        onnx=_clipped_by_onnx,
    ),
    "activate": Operator(
        plans=by_type(_activations, (2, 4)),
        jnp=lambda a: _BY_JNP[_name(a)],
        numpy=lambda a: _BY_NUMPY[_name(a)],
        torch={"out": _activated_by_torch},
        onnx=lambda a: None if _name(a) == "GELU" else OnnxNode(_name(a).capitalize()),
    ),
}
