"""Straight-through estimator: the derivative of DequantizeLinear(QuantizeLinear(x)) as if without rounding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..operators._quantization import centred, quotient, shifted, spread
from .deferred import Deferred, Rows, plain
from .quantize_linear import aligned
from .values import Array, on_device


@dataclass(frozen=True, eq=False)
class _Rounded(Deferred):
    """Quantised integers, with the floats from which they were rounded.

    Args:
      q: the integers.
      x: the floats.
      scale: broadcasts to them.
      zero_point: as `scale`; None is 0.
    """

    q: Array
    x: Array
    scale: Array
    zero_point: Array | None

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.q.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.q.shape

    def compute(self) -> Array:
        return self.q


def _quantize(function: Callable[..., Any], keywords: Mapping[str, Any]) -> Any:
    given = {name: plain(value) for name, value in keywords.items()}
    names = {name: given[name] for name in ("axis", "block_size") if name in given}
    scale, zero_point = aligned(given["x"], given["y_scale"], given.get("y_zero_point"), **names)
    return _Rounded(function(**given), given["x"], scale, zero_point)


def _dequantize(function: Callable[..., Any], keywords: Mapping[str, Any]) -> Any:
    rounded = keywords["x"]
    if not isinstance(rounded, _Rounded):
        return None
    y = function(**{name: plain(value) for name, value in keywords.items()})
    estimate = _estimate(rounded)
    return lax.stop_gradient(y) + (estimate - lax.stop_gradient(estimate)).astype(y.dtype)  # which is y


def _estimate(rounded: _Rounded) -> jax.Array:
    """Returns floats whose derivatives are those of the dequantised floats.

    With steps = q - zero_point, a constant, it is x + scale * (steps - x / scale) inside the range, of which the
    derivative by x is 1; and scale * steps where q is at its limit, of which it is 0.
    """
    x, scale = on_device(rounded.x).astype(jnp.float32), on_device(rounded.scale)
    zero_point = None if rounded.zero_point is None else on_device(rounded.zero_point)
    limits = _limits(rounded.q.dtype)
    wide = spread(scale.astype(jnp.float32), x.shape)
    exact = lax.stop_gradient(quotient(x, scale))
    steps = centred(on_device(rounded.q), zero_point).astype(jnp.float32)
    rounding = shifted(jnp.round(exact) if jnp.issubdtype(rounded.q.dtype, jnp.integer) else exact, zero_point)
    is_inside = (rounding >= limits[0]) & (rounding <= limits[1])
    return jnp.where(is_inside, x + wide * jnp.where(is_inside, steps - exact, 0), wide * steps)


def _limits(dtype: Any) -> tuple[float, float]:
    info = jnp.iinfo(dtype) if jnp.issubdtype(dtype, jnp.integer) else jnp.finfo(dtype)
    return float(info.min), float(info.max)


STRAIGHT_THROUGH: Rows = {
    "DequantizeLinear": _dequantize,
    "com.microsoft::DequantizeLinear": _dequantize,
    "QuantizeLinear": _quantize,
    "com.microsoft::QuantizeLinear": _quantize,
}
