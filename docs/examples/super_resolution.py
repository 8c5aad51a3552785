"""Sub-pixel super-resolution: a small network learns to enlarge a photograph threefold.

    python docs/examples/super_resolution.py [--steps 300] [--picture OUT.png]

The network computes nine channels per colour at low resolution; `depth_to_space` with
order="CRD", which is what torch's PixelShuffle does, lays them out as blocks of pixels. It
learns from the lower part of the photograph and is measured on the upper part, with the
face. `--picture` writes that part, nearest neighbour, network and original side by side.
Needs Pillow: `pip install '.[cli]'`.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.lib.stride_tricks import sliding_window_view

import dml_jax

PHOTOGRAPH = Path(__file__).parents[1] / "models" / "grace_hopper.jpg"
FACTOR = 3
HELD_OUT_ROWS = 330
PATCH, BATCH = 48, 16  # pixels of the enlarged picture
RATE, KEEP_MEAN, KEEP_SQUARE = 2e-3, 0.9, 0.99  # of Adam

Layers = list[tuple[jax.Array, jax.Array]]


class Training(NamedTuple):
    """The network and what Adam remembers of its gradients."""

    layers: Layers
    mean: Layers
    square: Layers
    step: jax.Array


def photograph() -> np.ndarray:
    """The photograph as [1, 3, H, W] in [0, 1], cut to a multiple of FACTOR."""
    try:
        from PIL import Image
    except ImportError:
        raise SystemExit(
            "super_resolution: needs Pillow; install it in a clone: pip install '.[cli]'"
        ) from None
    with Image.open(PHOTOGRAPH) as image:
        pixels = np.asarray(image.convert("RGB"), np.float32) / 255
    height, width = (size - size % FACTOR for size in pixels.shape[:2])
    return pixels[:height, :width].transpose(2, 0, 1)[None]


def downscaled(pictures: jax.Array) -> jax.Array:
    """The mean of every block of FACTOR x FACTOR pixels."""
    blocks = dml_jax.space_to_depth(pictures, FACTOR, order="CRD")
    n, _, h, w = blocks.shape
    return blocks.reshape(n, -1, FACTOR**2, h, w).mean(axis=2)


def nearest(low: jax.Array) -> jax.Array:
    """Enlarges by repeating every pixel."""
    return dml_jax.depth_to_space(jnp.repeat(low, FACTOR**2, axis=1), FACTOR, order="CRD")


def enlarged(layers: Layers, low: jax.Array) -> jax.Array:
    """Enlarges by the network, which says what to add to the nearest neighbour."""
    x = low - 0.5
    for layer in layers[:-1]:
        x = jax.nn.relu(convolved(x, *layer))
    return nearest(low) + dml_jax.depth_to_space(
        convolved(x, *layers[-1]), FACTOR, order="CRD"
    )


def convolved(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    """A convolution that keeps the size of a picture."""
    return (
        lax.conv_general_dilated(x, kernel, window_strides=(1, 1), padding="SAME")
        + bias[None, :, None, None]
    )


def new_layers(rng: np.random.Generator) -> Layers:
    """Random layers, but for the last: it is zero, so that training starts from nearest
    neighbour."""
    shapes = [(32, 3, 5, 5), (32, 32, 3, 3), (3 * FACTOR**2, 32, 3, 3)]
    scales = [*(np.sqrt(2 / np.prod(shape[1:])) for shape in shapes[:-1]), 0]
    return [
        (
            jnp.asarray(scale * rng.normal(size=shape), jnp.float32),
            jnp.zeros(shape[0], jnp.float32),
        )
        for shape, scale in zip(shapes, scales, strict=True)
    ]


@jax.jit
def loss(layers: Layers, pictures: jax.Array) -> jax.Array:
    """The mean squared error of pictures that were downscaled and enlarged again."""
    return jnp.mean((enlarged(layers, downscaled(pictures)) - pictures) ** 2)


def patches(rng: np.random.Generator, picture: np.ndarray) -> np.ndarray:
    """Squares from random places of a picture [1, C, H, W], turned."""
    squares = sliding_window_view(picture[0], (PATCH, PATCH), axis=(1, 2))
    _, tops, lefts, _, _ = squares.shape
    batch = squares[
        :, rng.integers(tops, size=BATCH), rng.integers(lefts, size=BATCH)
    ].swapaxes(0, 1)
    return np.rot90(batch, rng.integers(4), axes=(2, 3))


@jax.jit
def trained_once(training: Training, batch: jax.Array) -> Training:
    """One step of Adam."""
    layers, mean, square, step = training
    gradient = jax.grad(loss)(layers, batch)
    step = step + 1
    mean = jax.tree.map(lambda m, g: KEEP_MEAN * m + (1 - KEEP_MEAN) * g, mean, gradient)
    square = jax.tree.map(
        lambda s, g: KEEP_SQUARE * s + (1 - KEEP_SQUARE) * g**2, square, gradient
    )
    rate = RATE * jnp.sqrt(1 - KEEP_SQUARE**step) / (1 - KEEP_MEAN**step)
    layers = jax.tree.map(
        lambda p, m, s: p - rate * m / (jnp.sqrt(s) + 1e-8), layers, mean, square
    )
    return Training(layers, mean, square, step)


def trained(
    layers: Layers, rng: np.random.Generator, picture: np.ndarray, steps: int
) -> Layers:
    """The layers after some steps on patches of one picture."""
    zeros = jax.tree.map(jnp.zeros_like, layers)
    training = Training(layers, zeros, zeros, jnp.float32(0))
    for _ in range(steps):
        training = trained_once(training, patches(rng, picture))
    return training.layers


def psnr(picture: Any, original: Any) -> float:
    """The peak signal-to-noise ratio in dB, of values in [0, 1]."""
    return -10 * float(jnp.log10(jnp.mean((picture - original) ** 2)))


def write_side_by_side(path: Path, pictures: Sequence[Any]) -> None:
    """Writes pictures [1, 3, H, W] as one."""
    from PIL import Image

    pixels = np.concatenate(pictures, axis=-1)[0].transpose(1, 2, 0)
    Image.fromarray(np.rint(pixels.clip(0, 1) * 255).astype(np.uint8)).save(path)


def main(argv: Sequence[str] | None = None) -> None:
    """Trains, prints the loss and both ratios, and writes a picture if asked to."""
    parser = argparse.ArgumentParser(
        description="Trains a small super-resolution network on a photograph."
    )
    parser.add_argument("--steps", type=int, default=300, help="of training")
    parser.add_argument("--picture", type=Path, help="PNG file to write")
    options = parser.parse_args(argv)

    photo, rng = photograph(), np.random.default_rng(0)
    held_out, lower = photo[:, :, :HELD_OUT_ROWS], photo[:, :, HELD_OUT_ROWS:]
    start = new_layers(rng)
    print(f"training: {options.steps} steps on {jax.devices()[0].device_kind}")
    layers = trained(start, rng, lower, options.steps)
    print(
        f"loss: {loss(start, lower):.6f} at the start,"
        f" {loss(layers, lower):.6f} after {options.steps} steps"
    )

    low = downscaled(held_out)
    repeated, network = nearest(low), jax.jit(enlarged)(layers, low)
    print("PSNR on the part held out:")
    print(f"  nearest neighbour {psnr(repeated, held_out):.2f} dB")
    print(f"  network           {psnr(network, held_out):.2f} dB")
    if options.picture:
        write_side_by_side(options.picture, (repeated, network, held_out))
        print(f"wrote {options.picture}: nearest neighbour, network, original")


if __name__ == "__main__":
    main()
