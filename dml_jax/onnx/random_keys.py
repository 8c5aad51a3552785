"""`RandomKeys`: derives the key of each draw of random numbers from the key of the call and the place in the model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import DataTypeError
from .errors import OnnxError

# The name of the `RandomKeys` among the values of a graph. No file can have it: protobuf's texts are UTF-8.
RANDOM = "\ud800random keys"


@dataclass(frozen=True)
class RandomKeys:
    """The key of a call, and the place of a step in the model; together they make a key that no other step has.

    Example: iteration 3 of the Loop that is node 5 runs its node 2. The path is (5, 0, 3, 2), as the body is the first
    graph among the attributes of the Loop.

    Args:
      of_call: the key of the call, or None.
      path: numbers of nodes, graphs of a node, and iterations, the outermost first; iterations may be traced.
      is_name_taken: whether an input of the model is named "key".
    """

    of_call: jax.Array | None
    path: tuple[Any, ...] = ()
    is_name_taken: bool = False

    def at(self, number: Any) -> RandomKeys:
        """Returns the keys of a part: of a node, of a graph of a node, or of an iteration."""
        return replace(self, path=(*self.path, number))

    def key(self, seed: float | None = None) -> jax.Array:
        """Returns the key of this place, from the seed of a node if it has one.

        Raises:
          OnnxError: there is neither a seed nor a key.
        """
        key = self.of_call if seed is None else _key_of(seed)
        if key is None:
            rule = "it draws random numbers, and must have a seed or be given a key"
            hint = ", and give the input 'key' in order" if self.is_name_taken else ""
            raise OnnxError(f"{rule}, but there is neither: call the function with key=jax.random.key(0){hint}")
        return reduce(jax.random.fold_in, self.path, key)


def _key_of(seed: float) -> jax.Array:
    high, low = np.asarray(seed, np.float64).reshape(1).view(np.uint32)  # a seed may be a fraction
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(0), high), low)


def as_key(key: Any) -> jax.Array:
    """Checks a key of `jax.random`, typed or raw, and returns a typed one.

    Raises:
      DataTypeError: it is none, or it is several.
    """
    is_array = isinstance(key, (jax.Array, np.ndarray))
    is_typed = is_array and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    try:
        typed = key if is_typed or not is_array else jax.random.wrap_key_data(jnp.asarray(key))
    except TypeError:  # other numbers than those of a key
        typed = None
    if not isinstance(typed, jax.Array) or typed.shape != ():
        fact = f"it is {key.dtype}{list(key.shape)}" if is_array else f"it is {key!r:.60}"
        raise DataTypeError(f"key must be one key of jax.random, such as jax.random.key(0), but {fact}")
    return typed
