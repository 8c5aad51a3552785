"""`ByteFunction`: what nodes between DequantizeLinear and QuantizeLinear make of each byte.

Exporters write x * sigmoid(x) as DequantizeLinear, Sigmoid, QuantizeLinear, DequantizeLinear, Mul, QuantizeLinear, or
as QLinearSigmoid, QLinearMul. That is one function of a byte, as is each of its parts; it is computed where another
operator reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from ..operations.byte_map import map_bytes
from .deferred import Deferred, Row, Rows, plain

Keywords = Mapping[str, Any]
BYTES = (np.int8, np.uint8)
# Nodes of a function, counted wherever it reads them: y = x + x twelve times over reads x 4096 times.
MOST_NODES = 64


@dataclass(frozen=True, eq=False)
class ByteFunction(Deferred):
    """Floats, or other bytes, that are an elementwise function of bytes.

    Args:
      source: the bytes.
      function: of these, or of as many dimensions of bytes of other sizes.
      kind: the type of the results.
      steps: how many of its nodes take long: a QuantizeLinear takes one step, a transcendental function two.
      nodes: how many it has, as often as they are traced.
    """

    source: jax.Array
    function: Callable[[jax.Array], Any]
    kind: np.dtype[Any]
    steps: int = 0
    nodes: int = 0

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.kind

    @property
    def shape(self) -> tuple[int, ...]:
        return self.source.shape

    @property
    def by_bytes(self) -> ByteFunction:
        return self

    def compute(self) -> jax.Array:
        """Floats are computed with what reads them."""
        if self.kind not in BYTES:
            return self.function(self.source)
        return map_bytes(self.function, self.source, self.kind, is_long=self.steps > 1)

    def after(
        self, function: Callable[[jax.Array], Any], kind: np.dtype[Any], *others: ByteFunction, steps: int = 0
    ) -> ByteFunction | None:
        """Another function of the same bytes, which takes these results, and some steps more; None if it is long."""
        taken = (self, *others)
        nodes = 1 + sum(each.nodes for each in taken)
        if nodes > MOST_NODES:
            return None
        return ByteFunction(self.source, function, kind, steps + sum(each.steps for each in taken), nodes)


def as_byte_function(value: Any) -> ByteFunction | None:
    """Returns what is an elementwise function of bytes as such; bytes that are data are one of themselves.

    Outside of jax.jit there is none: all that reads a value would compute it again.
    """
    if isinstance(value, Tracer) and value.dtype in BYTES:
        return ByteFunction(value, lambda x: x, value.dtype)
    return getattr(value, "by_bytes", None)


def _elementwise(steps: int) -> Row:
    """Returns the rule of an operator whose operands are functions of the same bytes, or constants of one element."""

    def row(function: Callable[..., Any], keywords: Keywords) -> Any:
        operands = {name: as_byte_function(value) or plain(value) for name, value in keywords.items()}
        of_bytes = {name: value for name, value in operands.items() if isinstance(value, ByteFunction)}
        if not of_bytes:
            return None
        first, *rest = of_bytes.values()
        others = [value for name, value in operands.items() if name not in of_bytes]
        if any(value.source is not first.source for value in rest) or not all(
            _is_number(x, first.ndim) for x in others
        ):
            return None

        def of_each(numbers: Mapping[str, Any]) -> Any:
            return function(**{**operands, **numbers})

        # Raises what the node is to raise.
        result = jax.eval_shape(of_each, {n: jax.ShapeDtypeStruct(f.shape, f.kind) for n, f in of_bytes.items()})
        return first.after(
            lambda x: of_each({name: value.function(x) for name, value in of_bytes.items()}),
            result.dtype,
            *rest,
            steps=steps,
        )

    return row


def _is_number(value: Any, rank: int) -> bool:
    """Whether an operand is a constant of one element, or an attribute."""
    if not isinstance(value, (np.ndarray, jax.Array)):
        return True
    return isinstance(value, np.ndarray) and value.size == 1 and value.ndim <= rank


_CHEAP = (
    *("Abs", "Add", "Clip", "Div", "HardSigmoid", "HardSwish", "LeakyRelu", "Mul", "Neg", "Reciprocal", "Relu", "Sqrt"),
    *("Sub", "ThresholdedRelu"),
)
_TRANSCENDENTAL = (
    *("Celu", "Elu", "Erf", "Exp", "Gelu", "Log", "Mish", "Selu", "Sigmoid", "Softplus", "Softsign", "Swish", "Tanh"),
    *("com.microsoft::FastGelu", "com.microsoft::Gelu", "com.microsoft::QuickGelu"),
)
_QUANTIZED = ("com.microsoft::QLinearAdd", "com.microsoft::QLinearLeakyRelu", "com.microsoft::QLinearMul")
ELEMENTWISE: Rows = {
    **dict.fromkeys(_CHEAP, _elementwise(0)),
    **dict.fromkeys(_QUANTIZED, _elementwise(1)),
    **dict.fromkeys(_TRANSCENDENTAL, _elementwise(2)),
    "com.microsoft::QLinearSigmoid": _elementwise(3),
}
