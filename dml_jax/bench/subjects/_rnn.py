"""rnn: a layer of a few hundred units over a hundred steps."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..case import DTYPES, Case, Form, normal

Attributes = Mapping[str, Any]


def quick(size: int) -> Iterator[Case]:
    yield _case(32, 8, 128)


def full(size: int) -> Iterator[Case]:
    yield _case(128, 32, 256)


def of_jnp(_: Attributes) -> Callable[..., Any]:
    def run(x: Any, w: Any, r: Any) -> Any:
        def step(h: Any, given: Any) -> Any:
            h = jnp.tanh(given + h @ r[0].T)
            return h, h

        last, states = lax.scan(step, jnp.zeros((x.shape[1], r.shape[2]), x.dtype), x @ w[0].T)
        return states[:, None], last[None, None]

    return run


def of_numpy(_: Attributes) -> Callable[..., Any]:
    def write(outs: Any, x: np.ndarray, w: np.ndarray, r: np.ndarray) -> None:
        given, h = x @ w[0].T, np.zeros((x.shape[1], r.shape[2]), x.dtype)
        for out, one in zip(outs[0], given, strict=True):
            h = np.tanh(one + h @ r[0].T, out=out[0])
        outs[1][0, 0] = h

    return write


def _run(torch: Any, _: Attributes) -> Callable[..., Any]:
    def write(outs: Any, x: Any, w: Any, r: Any) -> tuple[Any, Any]:
        start = x.new_zeros(1, x.shape[1], r.shape[2])
        states, last = torch.rnn_tanh(x, start, [w[0], r[0]], False, 1, 0.0, False, False, False)
        return states[:, None], last[None]

    return write


TORCH: Mapping[str, Form] = {"rnn_tanh": _run}


def _case(steps: int, batch: int, units: int) -> Case:
    inputs, weights = (steps, batch, units), (1, units, units)
    return Case(
        "rnn",
        f"{steps} steps of {batch} rows, {units} units {DTYPES[4].name}",
        {},
        lambda: (normal(inputs, 4), 0.05 * normal(weights, 4), 0.05 * normal(weights, 4)[:, ::-1]),
        4 * (2 * steps * batch * units + 2 * units**2),
        tolerance=2**-12,
        operations=4 * steps * batch * units**2,
    )
