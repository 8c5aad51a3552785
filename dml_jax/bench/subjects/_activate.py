"""activate: what networks have between their layers."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...core.structs.activation import Activation
from ..case import DTYPES, Case, Form, normal
from ..onnx_node import OnnxNode

Attributes = Mapping[str, Any]

ITEMSIZES = (2, 4)


def cases(size: int, itemsize: int) -> Iterator[Case]:
    shape = (size // itemsize // 1024, 1024)
    for name in ("RELU", "SIGMOID", "TANH", "GELU", "SOFTMAX"):
        yield Case(
            "activate",
            f"{name.lower()} of {'x'.join(map(str, shape))} {DTYPES[itemsize].name}",
            {"activation": Activation(f"ACTIVATION_{name}")},
            lambda: (normal(shape, itemsize),),
            2 * size,
            tolerance=2**-8 if itemsize == 2 else 2**-11 if name == "GELU" else 2**-18,
        )


def of_jnp(a: Attributes) -> Callable[..., Any]:
    forms = {
        "RELU": jax.nn.relu,
        "SIGMOID": jax.nn.sigmoid,
        "TANH": jnp.tanh,
        "GELU": lambda x: jax.nn.gelu(x, approximate=False),
        "SOFTMAX": jax.nn.softmax,
    }
    return forms[_name(a)]


def of_numpy(a: Attributes) -> Callable[..., Any]:
    """GELU as its usual approximation, which misses it by less than the tolerance: NumPy has no erf."""
    forms: Mapping[str, Callable[..., Any]] = {
        "RELU": lambda out, x: np.maximum(x, 0, out=out),
        "SIGMOID": lambda out, x: np.reciprocal(1 + np.exp(-x), out=out),
        "TANH": lambda out, x: np.tanh(x, out=out),
        "GELU": lambda out, x: np.multiply(0.5 * x, 1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)), out=out),
        "SOFTMAX": _softmax,
    }
    return forms[_name(a)]


def _softmax(out: np.ndarray, x: np.ndarray) -> None:
    np.exp(x - x.max(-1, keepdims=True), out=out)
    np.divide(out, out.sum(-1, keepdims=True, dtype=np.float32), out=out, casting="same_kind")


def _of_torch(torch: Any, a: Attributes) -> Callable[..., Any]:
    aten = torch.ops.aten
    forms = {
        "RELU": lambda out, x: torch.clamp_min(x, 0, out=out),
        "SIGMOID": lambda out, x: torch.sigmoid(x, out=out),
        "TANH": lambda out, x: torch.tanh(x, out=out),
        "GELU": lambda out, x: aten.gelu.out(x, out=out),
        "SOFTMAX": lambda out, x: aten._softmax.out(x, -1, False, out=out),
    }
    return forms[_name(a)]


TORCH: Mapping[str, Form] = {"out": _of_torch}


def of_onnx(a: Attributes) -> OnnxNode | None:
    nodes = {"RELU": "Relu", "SIGMOID": "Sigmoid", "TANH": "Tanh", "SOFTMAX": "Softmax"}
    return OnnxNode(nodes[_name(a)]) if _name(a) in nodes else None


def _name(a: Attributes) -> str:
    return a["activation"].operator_type.removeprefix("ACTIVATION_")
