"""The type of arguments that name a data type as `jnp.float32` does."""

from typing import Any, Protocol

import numpy as np


class SupportsDType(Protocol):
    """What has the type as its `dtype`: jnp.float32, which is no class to type checkers from jax 0.12 on."""

    @property
    def dtype(self) -> np.dtype[Any]: ...
