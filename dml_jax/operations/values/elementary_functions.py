"""Functions of numbers with slopes as precise as their values.

Slopes of JAX lose where they cancel, as 1 - tanh(x)**2 does from 9 on, or overflow on the way, as 1 / x**2 does before
1 / x.
"""

from collections.abc import Callable
from functools import reduce
from math import pi, sqrt
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, nn
from jax.custom_derivatives import SymbolicZero

_Function = Callable[..., jax.Array]


def _with_slopes(*slopes: _Function) -> Callable[[_Function], _Function]:
    """Decorates a function: a slope for each argument, which takes the result and the arguments."""

    def decorate(function: _Function) -> _Function:
        known = jax.custom_jvp(function)

        def differentiated(arguments: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[jax.Array, jax.Array]:
            result = known(*arguments)
            pairs = zip(tangents, slopes, strict=True)
            terms = [g * slope(result, *arguments) for g, slope in pairs if not isinstance(g, SymbolicZero)]
            return result, reduce(jnp.add, terms)

        # An argument without a tangent adds nothing: the slope of (-2)**3 by the exponent is NaN, and NaN * 0 too.
        known.defjvp(differentiated, symbolic_zeros=True)
        return known

    return decorate


def _sigmoid_curvature(slope: jax.Array, x: jax.Array) -> jax.Array:
    # Not slope * (1 - 2 * sigmoid(x)), which cancels near 0.
    return slope * -tanh(x / 2)


@_with_slopes(_sigmoid_curvature)
def _sigmoid_slope(x: jax.Array) -> jax.Array:
    """sigmoid(x) * sigmoid(-x)."""
    small = jnp.exp(-jnp.abs(x))
    return small / jnp.square(1 + small)


@_with_slopes(lambda y, x: _sigmoid_slope(x))
def sigmoid(x: jax.Array) -> jax.Array:
    return nn.sigmoid(x)


@_with_slopes(lambda y, x: sigmoid(x))
def softplus(x: jax.Array) -> jax.Array:
    """ln(1 + exp(x))."""
    return jnp.logaddexp(x, 0)


@_with_slopes(lambda y, x: 4 * _sigmoid_slope(2 * x))
def tanh(x: jax.Array) -> jax.Array:
    return jnp.tanh(x)


@_with_slopes(lambda y, x: jnp.exp(x))
def expm1(x: jax.Array) -> jax.Array:
    return jnp.expm1(x)


@_with_slopes(lambda y, x: jnp.square(1 / (1 + jnp.abs(x))))
def soft_sign(x: jax.Array) -> jax.Array:
    """x / (1 + abs(x))."""
    return nn.soft_sign(x)


def mish(x: jax.Array) -> jax.Array:
    return x * tanh(softplus(x))


def tanh_gelu(x: jax.Array) -> jax.Array:
    """x / 2 * (1 + tanh(y)), y = sqrt(2 / pi) * (x + 0.044715 * x**3); x * sigmoid(2 * y) does not cancel."""
    near = jnp.clip(x, -32, 32)  # beyond, the sigmoid is 0 or 1, and a cube may be infinite
    return x * sigmoid(sqrt(8 / pi) * near * (1 + 0.044715 * near * near))


# The part of a normal distribution below -y, times exp(y**2 / 2) / s: a polynomial in s = 1 / (1 + 0.35 * y), from its
# constant term on. Its relative error is 4e-8 at most for y up to 14.5, where the part is the least number of float32.
_NEAR = 0.35
_TAIL = (
    *(0.139621307, 0.139863515, 0.119821288, 0.105552499, -0.0232123475),
    *(0.159319687, -0.255838998, 0.144030917, -0.0291578852),
)


@_with_slopes(lambda y, x: jnp.exp(-x * x / 2) / sqrt(2 * pi))
def _below_normal(x: jax.Array) -> jax.Array:
    """The part of a normal distribution below x, erfc(-x / sqrt(2)) / 2.

    XLA computes erfc by three polynomials, of which it selects one: on GPUs that takes longer than reading and writing.
    """
    if x.dtype != jnp.float32:
        return lax.erfc(x * -sqrt(0.5)) / 2
    s = 1 / (1 + _NEAR * jnp.abs(x))
    tail = jnp.exp(-x * x / 2) * (s * reduce(lambda sum, term: sum * s + term, reversed(_TAIL)))
    return jnp.where(x < 0, tail, 1 - tail)


def gelu(x: jax.Array) -> jax.Array:
    """x / 2 * (1 + erf(x / sqrt(2))), which cancels nowhere."""
    return x * _below_normal(x)


# Factors in place of 1 - x**2 and x**2 - 1: x**2 is rounded where it cancels, near 1, and overflows for large x.
@_with_slopes(lambda y, x: -lax.rsqrt((1 - x) * (1 + x)))
def arccos(x: jax.Array) -> jax.Array:
    return jnp.arccos(x)


@_with_slopes(lambda y, x: lax.rsqrt((1 - x) * (1 + x)))
def arcsin(x: jax.Array) -> jax.Array:
    return jnp.arcsin(x)


@_with_slopes(lambda y, x: lax.rsqrt(x - 1) * lax.rsqrt(x + 1))
def arccosh(x: jax.Array) -> jax.Array:
    return jnp.arccosh(x)


def _arcsinh_slope(_: jax.Array, x: jax.Array) -> jax.Array:
    """1 / sqrt(1 + x**2), of a large x 1 / abs(x) / sqrt(1 + (1 / x)**2), as x**2 may overflow."""
    is_large = jnp.abs(x) > 1
    inverse = 1 / jnp.where(is_large, jnp.abs(x), 1)
    return inverse * lax.rsqrt(1 + jnp.square(jnp.where(is_large, inverse, x)))


@_with_slopes(_arcsinh_slope)
def arcsinh(x: jax.Array) -> jax.Array:
    return jnp.arcsinh(x)


@_with_slopes(lambda y, x: -y * y)
def reciprocal(x: jax.Array) -> jax.Array:
    return jnp.reciprocal(x)


@jax.custom_jvp
def inverse_root(x: jax.Array) -> jax.Array:
    """1 / sqrt(x)."""
    return lax.rsqrt(x)


# One factor after the other, because their product, of 1e30 that is 1e-45, is 0 in float32.
inverse_root.defjvps(lambda g, y, _: -0.5 * g * y * y * y)


@_with_slopes(lambda y, a, b: reciprocal(b), lambda y, a, b: -y * reciprocal(b))
def divide(a: jax.Array, b: jax.Array) -> jax.Array:
    """a / b of arrays that broadcast; of integers of one shape, cut off toward 0."""
    return lax.div(a, b) if jnp.issubdtype(a.dtype, jnp.integer) else a / b


@_with_slopes(lambda y, a, b: jnp.ones_like(y), lambda y, a, b: -jnp.rint((a - y) / b))
def remainder(a: jax.Array, b: jax.Array) -> jax.Array:
    """a - b * trunc(a / b), with the sign of a."""
    return lax.rem(a, b)


def _floor_of_quotient(a: jax.Array, b: jax.Array) -> jax.Array:
    """floor(a / b) of floats, whose quotient may be rounded up to an integer."""
    rest = lax.rem(a, b)
    # Without its rest the quotient is an integer up to rounding. It is one more than the floor where signs differ.
    return jnp.rint((a - rest) / b) - ((rest != 0) & ((rest < 0) != (b < 0))).astype(a.dtype)


@_with_slopes(lambda y, a, b: jnp.ones_like(y), lambda y, a, b: -_floor_of_quotient(a, b))
def floor_remainder(a: jax.Array, b: jax.Array) -> jax.Array:
    """a - b * floor(a / b), with the sign of b, also of zeros; an integer divided by 0 remains."""
    if not jnp.issubdtype(a.dtype, jnp.integer):
        return jnp.copysign(jnp.mod(a, b), b)
    rest = lax.rem(a, b)
    return jnp.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


def _by_square(of: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    """of / (a**2 + b**2), for one of the two numbers; their squares may overflow."""
    tiny = jnp.finfo(of.dtype).tiny
    # Scaled by the larger one of the two, both are at most 1, and their squares neither overflow nor vanish together.
    scale = lax.stop_gradient(1 / jnp.clip(jnp.maximum(jnp.abs(a), jnp.abs(b)), tiny, 1 / tiny))
    return of * scale / (jnp.square(a * scale) + jnp.square(b * scale)) * scale


@_with_slopes(lambda y, a, b: _by_square(b, a, b), lambda y, a, b: -_by_square(a, a, b))
def arctan2(a: jax.Array, b: jax.Array) -> jax.Array:
    # Of two zeros that it knows, and of two subnormal numbers, XLA makes NaN on a CPU: docs/stability.md has it.
    is_origin = (a == 0) & (b == 0)
    return jnp.arctan2(a, jnp.where(is_origin, jnp.copysign(jnp.ones_like(b), b), b))


def _power_slope(y: jax.Array, base: jax.Array, exponent: jax.Array) -> jax.Array:
    """exponent * base**(exponent - 1); below 1 that difference is rounded, so there it is exponent * y / base."""
    divides = (exponent < 1) & (base != 0) & (jnp.abs(base) < jnp.inf)
    quotient = divide(exponent * y, jnp.where(divides, base, 1))
    return jnp.where(divides, quotient, exponent * power(base, jnp.where(divides | (exponent == 0), 0, exponent - 1)))


# The slope by the exponent is ln(base) * y; of the base 0 it is 0, where ln(0) * 0 would be NaN.
@_with_slopes(_power_slope, lambda y, base, exponent: jnp.log(jnp.where(base == 0, 1, base)) * y)
def power(base: jax.Array, exponent: jax.Array) -> jax.Array:
    """base**exponent of floats."""
    return jnp.power(base, exponent)
