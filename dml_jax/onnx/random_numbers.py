"""ONNX's RandomNormal, RandomUniform, Bernoulli and Multinomial, by `jax.random`; 16-bit floats are rounded once."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from onnx import TensorProto, helper

from ..errors import ConstraintError
from ..operations.values.accumulation_types import wide_type
from .cast import cast
from .int64_ranges import Bounded
from .model_loading import dtype_of
from .random_keys import RandomKeys
from .values import Array, Operators, as_wide, is_narrowed, on_device

_FLOATS = ("float16", "bfloat16", "float32", "float64")


def random_normal(
    *,
    random: RandomKeys,
    shape: Sequence[int] = (),
    input: Any = None,
    dtype: int | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> jax.Array:
    """RandomNormal, and RandomNormalLike of an `input`, whose shape and type it takes; mean + scale * z."""
    target, sizes = _type(dtype, input), _sizes(shape, input)
    wide = wide_type(target)
    return (mean + scale * jax.random.normal(random.key(seed), sizes, wide)).astype(target)


def random_uniform(
    *,
    random: RandomKeys,
    shape: Sequence[int] = (),
    input: Any = None,
    dtype: int | None = None,
    low: float = 0.0,
    high: float = 1.0,
    seed: float | None = None,
) -> jax.Array:
    """RandomUniform, and RandomUniformLike of an `input`: numbers in [low, high) as the type can say them."""
    target, sizes = _type(dtype, input), _sizes(shape, input)
    if not low <= high:
        raise ConstraintError(f"low must be at most high, but they are {low} and {high}")
    u = jax.random.uniform(random.key(seed), sizes, wide_type(target))
    rounded = (low * (1 - u) + high * u).astype(target)  # low + (high - low) * u would overflow
    return jnp.clip(rounded, *_ends(low, high, target))


def bernoulli(*, input: Array, random: RandomKeys, dtype: int | None = None, seed: float | None = None) -> Any:
    """Bernoulli: 1 with the probability of each element, else 0."""
    probability = as_wide(input)
    is_one = jax.random.uniform(random.key(seed), input.shape, probability.dtype) < probability
    return cast(input=is_one, to=helper.np_dtype_to_tensor_dtype(input.dtype) if dtype is None else dtype)


def multinomial(
    *,
    input: Array,
    random: RandomKeys,
    dtype: int = TensorProto.INT32,
    sample_size: int = 1,
    seed: float | None = None,
) -> Any:
    """Multinomial: classes drawn by the logarithms of their probabilities, up to a constant, for each row."""
    target = dtype_of(dtype, "dtype")
    if target not in (np.int32, np.int64):
        raise ConstraintError(f"dtype must be int32 or int64, but it is {target}")
    if input.ndim != 2 or input.shape[1] < 1 or sample_size < 0:
        rule = "input must be (batch, classes), with a class, and sample_size at least 0"
        raise ConstraintError(f"{rule}, but they are {input.shape} and {sample_size}")
    logits = as_wide(input)[:, None]
    drawn = jax.random.categorical(random.key(seed), logits, shape=(len(input), sample_size)).astype(np.int32)
    return Bounded(drawn, (0, input.shape[1] - 1)) if is_narrowed(target) else drawn.astype(target)


def _type(dtype: int | None, input: Any) -> np.dtype[Any]:
    target = input.dtype if dtype is None else dtype_of(dtype, "dtype")
    if target.name not in _FLOATS:
        which = "dtype" if dtype is not None else "dtype, or else the type of the input,"
        raise ConstraintError(f"{which} must be one of {', '.join(_FLOATS)}, but it is {target}")
    on_device(np.zeros((), target))  # which refuses 64 bits while x64 is off
    return target


def _sizes(shape: Sequence[int], input: Any) -> tuple[int, ...]:
    if min(shape, default=0) < 0:
        raise ConstraintError(f"every size of shape must be at least 0, but it is {list(shape)}")
    return tuple(shape) if input is None else input.shape


def _ends(low: float, high: float, target: np.dtype[Any]) -> tuple[Any, Any]:
    """Returns the least and the greatest number of a type in [low, high); low, rounded, if there is none."""
    with np.errstate(over="ignore"):
        first, last = np.asarray([low, high]).astype(target)
    infinity = np.asarray(np.inf, target)
    least = first if float(first) >= low else np.nextafter(first, infinity)
    greatest = last if float(last) < high else np.nextafter(last, -infinity)
    return (least, greatest) if least <= greatest else (first, first)


OPERATORS: Operators = {
    "Bernoulli": {15: bernoulli},
    "Multinomial": {7: multinomial},
    "RandomNormal": {1: random_normal},
    "RandomNormalLike": {1: random_normal},
    "RandomUniform": {1: random_uniform},
    "RandomUniformLike": {1: random_uniform},
}
