"""Sample points of regions (ROI): their count and positions along a dimension, and their interpolation from pixels."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


@dataclass(frozen=True)
class Sampled:
    """Regions along one dimension: where they start and end, in `size` pixels, and into how many elements."""

    first: jax.Array
    last: jax.Array
    size: int
    elements: int
    scale: float

    @property
    def low(self) -> jax.Array:
        return self.first * np.asarray(self.scale, self.first.dtype)

    @property
    def length(self) -> jax.Array:
        return (self.last - self.first) * np.asarray(self.scale, self.first.dtype)

    def most(self, least: int, most: int | None) -> int:
        """The most samples that an element of any region has: as many as if the region were the whole picture."""
        whole = -(-self.size // self.elements)
        return max(least, whole if most is None else min(most, whole))

    def counts(self, least: int, most: int) -> jax.Array:
        """The number of samples of an element, per region."""
        return jnp.clip(jnp.ceil(lax.stop_gradient(self.length) / self.elements), least, most)

    def steps(self, number: jax.Array, counts: jax.Array, offset: float, align_corners: bool) -> jax.Array:
        """The position of sample `number` of each element, as a fraction of the length."""
        samples = jnp.arange(self.elements, dtype=counts.dtype)[None] * counts[:, None] + number
        whole = (self.elements * counts)[:, None]
        shifted = samples - np.asarray(offset, counts.dtype)
        if not align_corners:
            return shifted / whole
        return jnp.where(whole == 1, np.asarray(0.5, counts.dtype), shifted / jnp.maximum(whole - 1, 1))


def _inside(positions: jax.Array, size: int) -> tuple[jax.Array, jax.Array]:
    """Positions on the pixels, and whether they were at most 1 away from them."""
    is_inside = (positions >= -1) & (positions <= size)
    return jnp.clip(jnp.where(is_inside, positions, 0), 0, size - 1), is_inside


def _read(pixels: jax.Array, pictures: jax.Array, y: jax.Array, x: jax.Array) -> jax.Array:
    at = pictures[:, None, None], y.astype(np.int32)[:, :, None], x.astype(np.int32)[:, None, :]
    return pixels.at[at].get(mode="clip")


def nearest(pixels: jax.Array, pictures: jax.Array, y: jax.Array, x: jax.Array, wide: Any) -> Any:
    (y, y_inside), (x, x_inside) = _inside(y, pixels.shape[1]), _inside(x, pixels.shape[2])
    values = _read(pixels, pictures, jnp.ceil(y - 0.5), jnp.ceil(x - 0.5))
    return values.astype(wide), (y_inside[:, :, None] & x_inside[:, None, :])[..., None]


def linear(pixels: jax.Array, pictures: jax.Array, y: jax.Array, x: jax.Array, wide: Any) -> Any:
    (y, y_inside), (x, x_inside) = _inside(y, pixels.shape[1]), _inside(x, pixels.shape[2])
    rows, columns = (
        (jnp.floor(at), jnp.minimum(jnp.floor(at) + 1, size - 1))
        for at, size in zip((y, x), pixels.shape[1:3], strict=True)
    )
    down, right = (y - rows[0]).astype(wide)[:, :, None, None], (x - columns[0]).astype(wide)[:, None, :, None]
    corners = [[_read(pixels, pictures, row, column).astype(wide) for column in columns] for row in rows]
    upper, lower = (left * (1 - right) + other * right for left, other in corners)
    return upper * (1 - down) + lower * down, (y_inside[:, :, None] & x_inside[:, None, :])[..., None]
