"""How long tracing and lowering take beside jax.numpy: `python -m benchmarks.variants --trace`."""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp

import dml_jax

__all__ = ["traced"]

LOWERED = 9  # times, of which the median counts

Function = Callable[..., Any]


def traced() -> dict[str, dict[str, float]]:
    """Milliseconds to trace and lower operators and what users of jax.numpy write, and their ratio.

    Each is the median of fresh functions, of which JAX has kept nothing. "first" is the first call of this process.
    """
    first = _lowering(*_twins()["gather"][0])
    found = {"first gather": {"dml_jax": first}}
    for name, pair in _twins().items():
        in_turn = zip(*([_lowering(*of) for of in pair] for _ in range(LOWERED)), strict=True)
        ours, other = map(median, in_turn)
        found[name] = {"dml_jax": ours, "jnp": other, "ratio": ours / other}
    return found


def _twins() -> dict[str, Sequence[tuple[Function, Sequence[jax.ShapeDtypeStruct]]]]:
    """Functions of this library and of jax.numpy, and what they take."""
    rows, at = jax.ShapeDtypeStruct((2**16, 64), jnp.float32), jax.ShapeDtypeStruct((2**16,), jnp.int32)
    depth, planes = (jax.ShapeDtypeStruct(shape, jnp.float16) for shape in ((8, 64, 128, 128), (64, 3, 224, 224)))
    borders = ((0, 0), (0, 0), (1, 1), (2, 2))
    ours = {
        "gather": lambda x, at: dml_jax.gather(x, at, 0),
        "depth_to_space": lambda x: dml_jax.depth_to_space(x, 2),
        "pad": lambda x: dml_jax.pad(x, *zip(*borders, strict=True)),
    }
    theirs = {
        "gather": lambda x, at: jnp.take(x, at, 0, mode="clip"),
        "depth_to_space": lambda x: (
            x.reshape(8, 2, 2, 16, 128, 128).transpose(0, 3, 4, 1, 5, 2).reshape(8, 16, 256, 256)
        ),
        "pad": lambda x: jnp.pad(x, borders),
    }
    arrays = {"gather": (rows, at), "depth_to_space": (depth,), "pad": (planes,)}
    twins = {name: [(of[name], taken) for of in (ours, theirs)] for name, taken in arrays.items()}
    gradients = [(jax.grad(lambda x, at, read=read: read(x, at).sum()), taken) for read, taken in twins["gather"]]
    return {**twins, "gradient of gather": gradients}


def _lowering(function: Function, arrays: Sequence[Any]) -> float:
    jax.clear_caches()
    start = time.perf_counter()
    jax.jit(lambda *arrays: function(*arrays)).lower(*arrays)
    return 1000 * (time.perf_counter() - start)
