"""Trains a super-resolution network of an .onnx file, on all devices, and writes it again.

    python docs/examples/onnx_super_resolution.py network.onnx [--steps 100]

A file that does not exist is made first: a network whose last layer is zero, so that it
enlarges by repeating pixels. `to_jax` makes a function of it; its weights are arguments of
the training step, whole on every device, and the patches of a batch are split among the
devices. Another network works as well, if it takes pictures [n, 3, h, w] of any size and
enlarges them by a whole number. It needs Pillow and onnx: `pip install '.[cli,onnx]'`.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from PIL import Image
except ImportError as missing:
    raise SystemExit(
        f"onnx_super_resolution: {missing}; pip install '.[cli,onnx]'"
    ) from None

from dml_jax.onnx import OnnxFunction, to_jax

PHOTOGRAPH = Path(__file__).parents[1] / "models" / "grace_hopper.jpg"
HELD_OUT_ROWS = 330
PATCH, BATCH = 16, 16  # pixels of what is enlarged, patches of a step
FACTOR, CHANNELS = 3, 16  # of the network that is made
RATE, KEPT = 0.3, 0.9  # of gradient descent with momentum

Weights = dict[str, jax.Array]


def new_network(rng: np.random.Generator) -> onnx.ModelProto:
    """A network that says what to add to every pixel when it is repeated."""
    weights = {
        "w1": rng.normal(0, np.sqrt(2 / 75), (CHANNELS, 3, 5, 5)),
        "b1": np.zeros(CHANNELS),
        "w2": np.zeros((3 * FACTOR**2, CHANNELS, 3, 3)),
        "b2": np.zeros(3 * FACTOR**2),
        "scales": np.array([1, 1, FACTOR, FACTOR]),
    }
    nodes = [
        helper.make_node("Conv", ["low", "w1", "b1"], ["features"], pads=[2] * 4),
        helper.make_node("Relu", ["features"], ["kept"]),
        helper.make_node("Conv", ["kept", "w2", "b2"], ["channels"], pads=[1] * 4),
        helper.make_node(
            "DepthToSpace", ["channels"], ["added"], blocksize=FACTOR, mode="CRD"
        ),
        helper.make_node(
            "Resize",
            ["low", "", "scales"],
            ["repeated"],
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
        helper.make_node("Add", ["repeated", "added"], ["high"]),
    ]
    low = helper.make_tensor_value_info("low", TensorProto.FLOAT, ["n", 3, "h", "w"])
    high = helper.make_tensor_value_info("high", TensorProto.FLOAT, ["n", 3, "H", "W"])
    initializers = [
        numpy_helper.from_array(np.float32(array), name) for name, array in weights.items()
    ]
    graph = helper.make_graph(nodes, "super_resolution", [low], [high], initializers)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10
    )


def factor_of(network: OnnxFunction) -> int:
    """By how much it enlarges; nothing is computed."""
    large = jax.eval_shape(network, jax.ShapeDtypeStruct((1, 3, PATCH, PATCH), np.float32))
    return large.shape[2] // PATCH


def photograph(factor: int) -> np.ndarray:
    """The photograph as [1, 3, H, W] in [0, 1], cut to a multiple of the factor."""
    with Image.open(PHOTOGRAPH) as image:
        pixels = np.asarray(image.convert("RGB"), np.float32) / 255
    height, width = (size - size % factor for size in pixels.shape[:2])
    return pixels[:height, :width].transpose(2, 0, 1)[None]


def downscaled(high: np.ndarray, factor: int) -> np.ndarray:
    """The mean of every block of factor x factor pixels."""
    n, channels, height, width = high.shape
    return high.reshape(
        n, channels, height // factor, factor, width // factor, factor
    ).mean((3, 5))


def patches(rng: np.random.Generator, picture: np.ndarray, size: int) -> np.ndarray:
    """Squares from random places of a picture [1, C, H, W]."""
    tops, lefts = (rng.integers(n - size, size=BATCH) for n in picture.shape[2:])
    return np.stack(
        [
            picture[0, :, y : y + size, x : x + size]
            for y, x in zip(tops, lefts, strict=True)
        ]
    )


def trained(
    network: OnnxFunction, rng: np.random.Generator, picture: np.ndarray, steps: int
) -> Weights:
    """The weights after some steps on patches of one picture."""
    factor = factor_of(network)
    mesh = jax.make_mesh(
        (np.gcd(BATCH, jax.device_count()),), ("batch",), axis_types=(AxisType.Auto,)
    )
    split, whole = jax.NamedSharding(mesh, jax.P("batch")), jax.NamedSharding(mesh, jax.P())

    def loss(weights: Weights, low: jax.Array, high: jax.Array) -> jax.Array:
        return jnp.mean((network(low, parameters=weights) - high) ** 2)

    @jax.jit
    def step(
        weights: Weights, speed: Weights, low: jax.Array, high: jax.Array
    ) -> tuple[Weights, Weights]:
        gradient = jax.grad(loss)(weights, low, high)
        speed = jax.tree.map(lambda v, g: KEPT * v - RATE * g, speed, gradient)
        return jax.tree.map(jnp.add, weights, speed), speed

    weights = jax.device_put(network.parameters, whole)
    speed = jax.tree.map(jnp.zeros_like, weights)
    for _ in range(steps):
        high = patches(rng, picture, PATCH * factor)
        batch = jax.device_put((downscaled(high, factor), high), split)
        weights, speed = step(weights, speed, *batch)
    return weights


def with_weights(model: onnx.ModelProto, weights: Weights) -> onnx.ModelProto:
    """The model with these arrays as initializers."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for tensor in made.graph.initializer:
        if tensor.name in weights:
            tensor.CopyFrom(
                numpy_helper.from_array(np.asarray(weights[tensor.name]), tensor.name)
            )
    return made


def psnr(picture: np.ndarray | jax.Array, original: np.ndarray) -> float:
    """The peak signal-to-noise ratio in dB, of values in [0, 1]."""
    return -10 * float(np.log10(np.mean((np.asarray(picture) - original) ** 2)))


def main(argv: Sequence[str] | None = None) -> None:
    """Trains, prints the ratios of both networks on what they have not seen, and writes the
    file."""
    parser = argparse.ArgumentParser(
        description="Trains a super-resolution network of an .onnx file."
    )
    parser.add_argument("network", type=Path, help=".onnx file, which is written again")
    parser.add_argument("--steps", type=int, default=100, help="of training")
    options = parser.parse_args(argv)

    rng = np.random.default_rng(0)
    model = onnx.load(options.network) if options.network.exists() else new_network(rng)
    network = to_jax(model)
    factor = factor_of(network)
    photo = photograph(factor)
    held_out = photo[:, :, : HELD_OUT_ROWS - HELD_OUT_ROWS % factor]
    enlarge = jax.jit(lambda weights, low: network(low, parameters=weights))
    low = downscaled(held_out, factor)
    print(f"{network}, on {jax.device_count()} devices")
    print(f"PSNR before {psnr(enlarge(network.parameters, low), held_out):.2f} dB")
    weights = trained(network, rng, photo[:, :, HELD_OUT_ROWS:], options.steps)
    print(f"PSNR after  {psnr(enlarge(weights, low), held_out):.2f} dB")
    onnx.save(with_weights(model, weights), options.network)
    print(f"wrote {options.network}")


if __name__ == "__main__":
    main()
