"""Trains the last layer of a classifier of an .onnx file, on all devices, and exports it.

    python docs/examples/onnx_classifier.py [--steps 100] [--export classifier.bin]

The file's network takes one picture at a time, as exporters often fix it: `jax.vmap` puts a
batch in front, and the batch is split among the devices. Its weights are random, and so are
its features; the last layer learns to tell four directions of stripes by them. `jax.export`
writes one artifact for any batch, which holds the weights and needs neither dml_jax nor
onnx. It needs onnx, and flatbuffers to export: `pip install '.[onnx,export]'`.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    raise SystemExit(f"onnx_classifier: {missing}; pip install '.[onnx,export]'") from None

from dml_jax.onnx import to_jax

DIRECTIONS = ((1, 0), (0, 1), (1, 1), (1, -1))  # across the stripes
SIZE, CHANNELS = 16, 16
BATCH = 64
RATE = 0.5
TRAINED = ("last_weight", "last_bias")

Weights = dict[str, jax.Array]
Classify = Callable[[Weights, jax.Array], jax.Array]


def write_network(path: Path, rng: np.random.Generator) -> None:
    """A residual network of random weights, for one picture."""
    c = CHANNELS
    weights = {
        "w1": rng.normal(0, 1 / np.sqrt(75), (c, 3, 5, 5)),
        "scale": np.ones(c),
        "shift": np.zeros(c),
        "mean": np.zeros(c),
        "variance": np.full(c, 0.5),
        "w2": rng.normal(0, 1 / np.sqrt(9 * c), (c, c, 3, 3)),
        "last_weight": np.zeros((c, len(DIRECTIONS))),
        "last_bias": np.zeros(len(DIRECTIONS)),
    }
    nodes = [
        helper.make_node("Conv", ["picture", "w1"], ["a"], pads=[2] * 4),
        helper.make_node(
            "BatchNormalization", ["a", "scale", "shift", "mean", "variance"], ["b"]
        ),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("MaxPool", ["c"], ["d"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["d", "w2"], ["e"], pads=[1] * 4),
        helper.make_node("Add", ["e", "d"], ["f"]),
        helper.make_node("GlobalAveragePool", ["f"], ["g"]),
        helper.make_node("Flatten", ["g"], ["h"]),
        helper.make_node("Gemm", ["h", "last_weight", "last_bias"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["probabilities"]),
    ]
    picture = helper.make_tensor_value_info(
        "picture", TensorProto.FLOAT, [1, 3, SIZE, SIZE]
    )
    probabilities = helper.make_tensor_value_info(
        "probabilities", TensorProto.FLOAT, [1, len(DIRECTIONS)]
    )
    initializers = [
        numpy_helper.from_array(np.float32(array), name) for name, array in weights.items()
    ]
    graph = helper.make_graph(nodes, "classifier", [picture], [probabilities], initializers)
    onnx.save(
        helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10
        ),
        path,
    )


def stripes(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Pictures [count, 3, SIZE, SIZE] of stripes in noise, and the number of the direction
    of each."""
    labels = rng.integers(len(DIRECTIONS), size=count)
    across = np.array(DIRECTIONS)[labels][:, :, None, None]
    y, x = np.mgrid[:SIZE, :SIZE]
    waves = np.sin(
        1.5 * (across[:, 0] * y + across[:, 1] * x) + rng.uniform(0, 6, (count, 1, 1))
    )
    pictures = waves[:, None] + rng.normal(0, 0.3, (count, 3, SIZE, SIZE))
    return pictures.astype(np.float32), labels.astype(np.int32)


def batched(path: Path) -> tuple[Classify, Weights]:
    """A network for one picture as a function of weights and a batch, and the weights."""
    network = to_jax(path)

    def classify(weights: Weights, pictures: jax.Array) -> jax.Array:
        return jax.vmap(lambda picture: network(picture[None], parameters=weights)[0])(
            pictures
        )

    return classify, {name: jnp.asarray(w) for name, w in network.parameters.items()}


def trained(
    classify: Classify, weights: Weights, rng: np.random.Generator, steps: int
) -> tuple[Weights, list[float]]:
    """The weights after some steps of gradient descent on the last layer, and the loss
    before each."""
    mesh = jax.make_mesh(
        (np.gcd(BATCH, jax.device_count()),), ("batch",), axis_types=(AxisType.Auto,)
    )
    split, whole = jax.NamedSharding(mesh, jax.P("batch")), jax.NamedSharding(mesh, jax.P())

    def loss(
        last: Weights, rest: Weights, pictures: jax.Array, labels: jax.Array
    ) -> jax.Array:
        probabilities = classify(rest | last, pictures)
        chosen = jax.nn.one_hot(labels, len(DIRECTIONS)) * jnp.log(probabilities + 1e-7)
        return -chosen.sum(axis=1).mean()

    @jax.jit
    def step(last: Weights, *rest: jax.Array) -> tuple[jax.Array, Weights]:
        value, gradient = jax.value_and_grad(loss)(last, *rest)
        return value, jax.tree.map(lambda w, g: w - RATE * g, last, gradient)

    rest = jax.device_put(
        {name: w for name, w in weights.items() if name not in TRAINED}, whole
    )
    last = jax.device_put({name: weights[name] for name in TRAINED}, whole)
    losses = []
    for _ in range(steps):
        value, last = step(last, rest, *jax.device_put(stripes(rng, BATCH), split))
        losses.append(float(value))
    return jax.device_get(rest | last), losses


def export(path: Path, classify: Classify, weights: Weights) -> None:
    """Writes an artifact that takes a batch of any size, for CPUs and NVIDIA's GPUs."""
    from jax import export

    pictures = jax.ShapeDtypeStruct(
        export.symbolic_shape(f"n, 3, {SIZE}, {SIZE}"), np.float32
    )
    function = jax.jit(lambda pictures: classify(weights, pictures))
    path.write_bytes(
        export.export(function, platforms=["cpu", "cuda"])(pictures).serialize()
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Trains, prints the loss and how many pictures are told, and exports if asked to."""
    parser = argparse.ArgumentParser(
        description="Trains the last layer of a classifier of an .onnx file."
    )
    parser.add_argument("--steps", type=int, default=100, help="of training")
    parser.add_argument("--export", type=Path, help="file to write")
    options = parser.parse_args(argv)

    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        write_network(Path(folder, "classifier.onnx"), rng)
        classify, weights = batched(Path(folder, "classifier.onnx"))
    pictures, labels = stripes(rng, 400)
    print(f"training: {options.steps} steps on {jax.devices()[0].device_kind}")
    weights, losses = trained(classify, weights, rng, options.steps)
    told = np.asarray(jax.jit(classify)(weights, pictures)).argmax(axis=1) == labels
    print(
        f"loss: {losses[0]:.3f} at the start, {losses[-1]:.3f} after {options.steps} steps"
    )
    print(f"told: {told.sum()} of {len(told)} pictures, on {jax.device_count()} devices")
    if options.export:
        export(options.export, classify, weights)
        print(f"wrote {options.export}: {options.export.stat().st_size} bytes")


if __name__ == "__main__":
    main()
