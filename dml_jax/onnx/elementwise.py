"""ONNX's elementwise operators: broadcasting without type promotion; narrow floats are rounded once."""

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from .. import operators
from ..errors import ConstraintError
from ..operations.values import elementary_functions as elementary
from ..operations.values.accumulation_types import wide_type
from ..operators._binary_formulas import parameterized_relu
from ..operators._power_formulas import nearly_whole_power, real_power, whole_power
from .operand_checks import one_number
from .values import Array, Operators, arrays, float_for, on_device


def _broadcast(*operands: Array) -> tuple[Any, ...]:
    """Returns the module to compute with, then the operands in one shape."""
    xp, *operands_ = arrays(*operands)
    sizes = jnp.broadcast_shapes(*(x.shape for x in operands_))
    return xp, *(xp.broadcast_to(x, sizes) for x in operands_)


def _exact(name: str, **operands: Array) -> Array:
    """Returns the function of a node that NumPy and jax.numpy compute exactly in the operands' type."""
    xp, *operands_ = _broadcast(*operands.values())
    return getattr(xp, name)(*operands_)


def _round_once(function: Callable[[jax.Array], jax.Array], **operand: Array) -> jax.Array:
    """Returns the unary function of a node, computed in float32 or wider and rounded once."""
    (x,) = map(on_device, operand.values())
    return function(x.astype(wide_type(x.dtype))).astype(x.dtype)


add: Callable[..., Array] = partial(_exact, "add")
subtract: Callable[..., Array] = partial(_exact, "subtract")
multiply: Callable[..., Array] = partial(_exact, "multiply")


def divide(*, a: Array, b: Array) -> Array:
    """Div: integers round towards 0. XLA would multiply by reciprocals of a broadcast divisor, and so round twice."""
    xp, a, b = _broadcast(a, b)
    if a.dtype.kind not in "iu":
        wide = wide_type(a.dtype)
        function = np.divide if xp is np else elementary.divide
        return function(a.astype(wide), b.astype(wide)).astype(a.dtype)
    if xp is jnp:
        return lax.div(a, b)
    quotient = np.floor_divide(a, b)
    return quotient + ((quotient * b != a) & ((a < 0) != (b < 0))).astype(a.dtype)


def broadcast_from_axis(function: Callable[..., Array]) -> Callable[..., Array]:
    """Returns the function with the broadcasting of opsets 1 to 6: of the second operand only, from `axis` on."""

    def broadcast_second(*, broadcast: int = 0, axis: int | None = None, **operands: Array) -> Array:
        (_, a), (name, b) = operands.items()
        if not broadcast and a.shape != b.shape:
            raise ConstraintError(f"without broadcast the shapes must be equal, but they are {a.shape} and {b.shape}")
        at = a.ndim - b.ndim if axis is None else axis + a.ndim * (axis < 0)
        if not 0 <= at <= a.ndim - b.ndim:
            rule = "the second operand must lie in the dimensions of the first one from axis on"
            raise ConstraintError(f"{rule}, but they are {b.shape} and {a.shape}, and axis is {axis}")
        b = b.reshape((*b.shape, *(1,) * (a.ndim - at - b.ndim)))
        return function(**operands | {name: b})

    return broadcast_second


def _alike(function: Callable[..., Array]) -> Callable[..., Array]:
    """Returns the function for operands of equal shapes, as opsets 1 to 7 require."""

    def of_one_shape(*, data_0: tuple[Array, ...]) -> Array:
        if len({x.shape for x in data_0}) > 1:
            shapes = ", ".join(str(x.shape) for x in data_0)
            raise ConstraintError(f"before opset 8 the shapes must be equal, but they are {shapes}")
        return function(data_0=data_0)

    return of_one_shape


def _extreme(name: str, *, data_0: tuple[Array, ...]) -> Array:
    """Returns Max or Min of any number of operands; NaN propagates."""
    xp, *operands = _broadcast(*data_0)
    return reduce(getattr(xp, name), operands)


def _sum(*, data_0: tuple[Array, ...]) -> Array:
    xp, *operands = _broadcast(*data_0)
    dtype = operands[0].dtype
    return reduce(xp.add, (x.astype(wide_type(dtype)) for x in operands)).astype(dtype)


def _mean(*, data_0: tuple[Array, ...]) -> Array:
    xp, *operands = _broadcast(*data_0)
    dtype, wide = operands[0].dtype, wide_type(operands[0].dtype)
    total = reduce(xp.add, (x.astype(wide) for x in operands))
    return (total / np.asarray(len(operands), wide)).astype(dtype)


def clip(*, input: Array, min: Array | None = None, max: Array | None = None) -> Array:
    """Clip; where `min` is greater than `max`, the result is `max`."""
    bounds = {name: one_number(name, bound) for name, bound in (("min", min), ("max", max)) if bound is not None}
    if not bounds:
        return input
    xp, x, *numbers = arrays(input, *bounds.values())
    function = operators.clip if xp is jnp else np.clip  # at a bound, slopes of jnp.clip are halves
    return function(x, **dict(zip(bounds, numbers, strict=True)))


def _clip_by_attributes(*, input: Array, min: float | None = None, max: float | None = None) -> Array:
    """Clip of opsets 1 to 10, whose bounds are attributes; a bound beyond the type becomes infinite."""
    with np.errstate(over="ignore"):
        least, most = (None if n is None else np.asarray(n).astype(input.dtype) for n in (min, max))
    return clip(input=input, min=least, max=most)


def power(*, x: Array, y: Array) -> jax.Array:
    """Pow, in the type of the base: integer bases wrap around, and are truncated for fractional exponents."""
    _, base, exponent = _broadcast(on_device(x), on_device(y))
    if jnp.issubdtype(base.dtype, jnp.integer):
        return (whole_power if jnp.issubdtype(exponent.dtype, jnp.integer) else _cut_power)(base, exponent)
    wide = wide_type(base.dtype)
    return real_power(base.astype(wide), exponent.astype(wide)).astype(base.dtype)


def _cut_power(base: jax.Array, exponent: jax.Array) -> jax.Array:
    """Pow of integers to float exponents: integral ones are exact, others are computed in the widest floats."""
    whole = jnp.rint(exponent)
    is_whole = exponent == whole
    if not isinstance(is_whole, Tracer) and is_whole.all():
        return whole_power(base, jnp.clip(whole, -(2.0**30), 2.0**30).astype(np.int32))
    wide = float_for(base.dtype)
    exact = whole_power(base, jnp.clip(whole, -(2.0**30), 2.0**30).astype(np.int32))
    near = nearly_whole_power(base.astype(wide), jnp.where(is_whole, 1, exponent).astype(wide))
    return jnp.where(is_whole, exact, near.astype(base.dtype))


def prelu(*, x: Array, slope: Array) -> jax.Array:
    """PRelu: the slope broadcasts to x; its derivative is 0 where x is not negative, also if infinite."""
    x, slope = on_device(x), on_device(slope)
    if jnp.broadcast_shapes(x.shape, slope.shape) != x.shape:
        raise ConstraintError(f"slope must broadcast to x, but their shapes are {slope.shape} and {x.shape}")
    return parameterized_relu(x, jnp.broadcast_to(slope, x.shape))


def _prelu_of_channels(*, x: Array, slope: Array) -> jax.Array:
    """PRelu of opsets 1 to 6: one slope, or one per channel, which is dimension 1."""
    per_channel = slope.ndim == 1 and slope.size > 1 and x.ndim > 1
    return prelu(x=x, slope=slope.reshape(-1, *(1,) * (x.ndim - 2)) if per_channel else slope)


def modulo(*, a: Array, b: Array, fmod: int = 0) -> Array:
    """Mod: the result has the sign of b, or with `fmod` that of a, also if it is 0."""
    xp, dividend, divisor = _broadcast(a, b)
    if fmod:
        return (np.fmod if xp is np else elementary.remainder)(dividend, divisor)
    if xp is jnp:
        return elementary.floor_remainder(dividend, divisor)
    rest = np.mod(dividend, divisor)
    return rest if rest.dtype.kind in "iu" else np.copysign(rest, divisor)


def shift_bits(*, x: Array, y: Array, direction: str) -> Array:
    """BitShift; a shift by the width of the type, more, or less than 0 leaves 0, or the sign to the right."""
    if direction not in ("LEFT", "RIGHT"):
        raise ConstraintError(f"direction must be LEFT or RIGHT, but it is {direction!r}")
    xp, x, y = _broadcast(x, y)
    bits = 8 * x.dtype.itemsize
    is_far = (y < 0) | (y >= bits)
    by = xp.where(is_far, bits - 1, y).astype(x.dtype)
    if direction == "RIGHT":
        moved = xp.right_shift(x, by)
        return xp.where(is_far, xp.right_shift(moved, x.dtype.type(1)), moved)
    return xp.where(is_far, xp.zeros_like(x), xp.left_shift(x, by))


def sign(*, input: Array) -> Array:
    """Sign; the sign of both zeros is 0."""
    xp, x = arrays(input)
    return xp.where(x == 0, xp.zeros_like(x), xp.sign(x))


def is_infinite(*, x: Array, detect_negative: int = 1, detect_positive: int = 1) -> Array:
    xp, x = arrays(x)
    x = x.astype(wide_type(x.dtype))
    return (xp.isposinf(x) & bool(detect_positive)) | (xp.isneginf(x) & bool(detect_negative))


def is_nan(*, x: Array) -> Array:
    xp, x = arrays(x)
    return xp.isnan(x.astype(wide_type(x.dtype)))


def error_function(*, input: Array) -> jax.Array:
    """Erf; for integers the nearest float64 is truncated to 0, or beyond 5 it is 1."""
    x = on_device(input)
    if not jnp.issubdtype(x.dtype, jnp.integer):
        return _round_once(lax.erf, input=x)
    least = 0 if jnp.issubdtype(x.dtype, jnp.unsignedinteger) else -5
    return (x > 5).astype(x.dtype) - (x < least).astype(x.dtype)


# The first version, and the name that both modules have.
_EXACT = {
    "Abs": (1, "abs"),
    "BitwiseAnd": (18, "bitwise_and"),
    "BitwiseNot": (18, "bitwise_not"),
    "BitwiseOr": (18, "bitwise_or"),
    "BitwiseXor": (18, "bitwise_xor"),
    "Ceil": (1, "ceil"),
    "Floor": (1, "floor"),
    "GreaterOrEqual": (12, "greater_equal"),
    "LessOrEqual": (12, "less_equal"),
    "Neg": (1, "negative"),
    "Not": (1, "logical_not"),
    "Round": (11, "rint"),
}
# Operators that opsets 1 to 6 broadcast in their own way: see `broadcast_from_axis`.
_LIMITED = {
    "Add": add,
    "And": partial(_exact, "logical_and"),
    "Div": divide,
    "Equal": partial(_exact, "equal"),
    "Greater": partial(_exact, "greater"),
    "Less": partial(_exact, "less"),
    "Mul": multiply,
    "Or": partial(_exact, "logical_or"),
    "Pow": power,
    "Sub": subtract,
    "Xor": partial(_exact, "logical_xor"),
}
_ROUNDED = {
    "Acos": (7, elementary.arccos),
    "Acosh": (9, elementary.arccosh),
    "Asin": (7, elementary.arcsin),
    "Asinh": (9, elementary.arcsinh),
    "Atan": (7, jnp.arctan),
    "Atanh": (9, jnp.arctanh),
    "Cos": (7, jnp.cos),
    "Cosh": (9, jnp.cosh),
    "Exp": (1, jnp.exp),
    "Log": (1, jnp.log),
    "Reciprocal": (1, elementary.reciprocal),
    "Sin": (7, jnp.sin),
    "Sinh": (9, jnp.sinh),
    "Sqrt": (1, jnp.sqrt),
    "Tan": (7, jnp.tan),
}
# Operators of any number of operands.
_VARIADIC = {
    "Max": partial(_extreme, "maximum"),
    "Mean": _mean,
    "Min": partial(_extreme, "minimum"),
    "Sum": _sum,
}
OPERATORS: Operators = {
    **{name: {since: partial(_exact, function)} for name, (since, function) in _EXACT.items()},
    **{name: {1: broadcast_from_axis(function), 7: function} for name, function in _LIMITED.items()},
    **{name: {since: partial(_round_once, function)} for name, (since, function) in _ROUNDED.items()},
    **{name: {1: _alike(function), 8: function} for name, function in _VARIADIC.items()},
    "BitShift": {11: shift_bits},
    "Clip": {1: _clip_by_attributes, 11: clip},
    "Erf": {9: error_function},
    "IsInf": {10: is_infinite},
    "IsNaN": {9: is_nan},
    "Mod": {10: modulo},
    "PRelu": {1: _prelu_of_channels, 7: prelu},
    "Sign": {9: sign},
}
