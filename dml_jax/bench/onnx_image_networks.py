"""ONNX image classifiers that the onnx package ships, with random weights, beside ONNX Runtime on the CPU."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .case import Arrays, Case, Drawn
from .implementations import Implementation, JaxRun
from .peers import runtime_run

# Numbers of weights, and of products that convolutions and matrices need for one picture.
NETWORKS = {
    "bvlc_alexnet": (60_965_224, 654_560_384),
    "densenet121": (8_146_152, 2_834_161_664),
    "inception_v1": (6_998_552, 1_431_556_352),
    "inception_v2": (11_234_792, 2_018_851_840),
    "resnet50": (25_610_153, 4_089_184_256),
    "shufflenet": (1_420_152, 124_664_528),
    "squeezenet": (1_235_496, 349_151_936),
    "vgg19": (143_667_240, 19_632_062_464),
    "zfnet512": (87_250_537, 1_481_727_008),
}
_SHAPE = (1, 3, 224, 224)
PICTURE = Drawn(_SHAPE, np.dtype(np.float32), lambda: np.random.default_rng(1).standard_normal(_SHAPE, np.float32))
TOLERANCE = 1e-3  # of the largest output: they round differently in up to 120 layers


def cases() -> Iterator[Case]:
    """A case per network, of one image of 3 x 224 x 224; none without the package onnx."""
    if find_spec("onnx"):
        for name, (weights, products) in NETWORKS.items():
            how: Any = {"needed": 4 * weights, "tolerance": TOLERANCE, "operations": 2 * products}
            yield Case("network", name, {}, [PICTURE], **how)


def implementations(*, peers: bool) -> list[Implementation]:
    """The network as one program whose arguments are the weights, and ONNX Runtime on all cores of the CPU."""
    found = [Implementation("dml_jax", lambda case, turns: NetworkRun(random_network(case.detail), turns))]
    if peers and find_spec("onnxruntime"):
        runs = lambda case, turns: runtime_run(random_network(case.detail).SerializeToString(), turns[0])  # noqa: E731
        found.append(Implementation("ONNX Runtime", runs))
    return found


@lru_cache(maxsize=1)
def random_network(name: str) -> Any:
    """A model of the onnx package, whose weights are made of shapes alone, with random ones.

    Args:
      name: one of `NETWORKS`.

    Returns:
      An `onnx.ModelProto`, in which initializers stand for ConstantOfShape: matrices and kernels that keep the size of
      numbers, vectors from 0.5 to 1.5, which variances can be too.
    """
    import onnx
    from onnx import numpy_helper

    model = onnx.load(_folder() / f"light_{name}.onnx")
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    rng, kept = np.random.default_rng(0), []
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        weights = _random(rng, known[node.input[0]].tolist())
        model.graph.initializer.append(numpy_helper.from_array(weights, node.output[0]))
    model.graph.ClearField("node")
    model.graph.node.extend(kept)
    return model


def _folder() -> Path:
    import onnx

    return Path(str(onnx.__file__)).parent / "backend/test/data/light"


def _random(rng: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
    if len(shape) < 2:
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)
    inputs = prod(shape[1:]) if len(shape) > 2 else max(shape)
    return rng.standard_normal(shape, np.float32) * np.float32((2 / inputs) ** 0.5)


class NetworkRun(JaxRun):
    """Calls of a network as one program; its weights lie on the device."""

    def __init__(self, model: Any, turns: Sequence[Arrays]):
        from ..onnx import to_jax

        network = to_jax(model)
        weights = jax.device_put(dict(_weights(model, network.parameters)))
        program = jax.jit(lambda p, x: network(x, parameters=p))
        super().__init__(lambda x: program(weights, x), turns, donated=False)
        self.called = partial(program, weights)


def _weights(model: Any, parameters: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """Trainable parameters, except scalars, and quantised matrices and kernels."""
    from onnx import numpy_helper

    for tensor in model.graph.initializer:
        if len(tensor.dims) > (tensor.name not in parameters):
            yield tensor.name, numpy_helper.to_array(tensor)
