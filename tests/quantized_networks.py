"""Networks that grow node by node, with DequantizeLinear nodes of random integers."""

import re

import jax
import numpy as np
from onnx_building import helper, model

make = helper.make_node
INTEGER_PRODUCT = re.compile(r"dot_general.*xi8>.*xi8>\) -> tensor<.*xi32>")
FLOAT_PRODUCT = re.compile(r"(dot_general|convolution).*-> tensor<.*xf32>")


def lowered(function, inputs):
    return jax.jit(function).lower(*inputs.values()).as_text()


class Network:
    """A network that grows: nodes, inputs and initializers."""

    def __init__(self, rng=None):
        self.rng = rng or np.random.default_rng(0)
        self.nodes, self.inputs, self.constants = [], {}, {}

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def scale(self, dtype, shape=(), low=0.001, high=0.1):
        """The names of a random scale and zero point."""
        limits = np.iinfo(dtype)
        zero_point = self.rng.integers(limits.min, int(limits.max) + 1, shape)
        return self.constant(np.float32(self.rng.uniform(low, high, shape))), self.constant(zero_point.astype(dtype))

    def dequantized(self, shape, dtype, *, is_weight, axis=None, scale=None):
        """The name of floats that are made of random integers, with one scale or one for each element of an axis."""
        limits = np.iinfo(dtype)
        q = self.rng.integers(limits.min, int(limits.max) + 1, shape).astype(dtype)
        name = f"{'w' if is_weight else 'x'}{len(self.nodes)}"
        (self.constants if is_weight else self.inputs)[f"{name}_q"] = q
        scale = scale or self.scale(dtype, () if axis is None else (shape[axis],))
        self.nodes.append(make("DequantizeLinear", [f"{name}_q", *scale], [name], axis=1 if axis is None else axis))
        return name

    def bias(self, count):
        """The name of floats that are made of int32, as quantisers write a bias."""
        self.constants["b_q"] = self.rng.integers(-3000, 3000, count).astype(np.int32)
        scale = self.constant(np.float32(self.rng.uniform(1e-4, 1e-3, count)))
        self.nodes.append(make("DequantizeLinear", ["b_q", scale], ["b"], axis=0))
        return "b"

    def node(self, kind, *inputs, **attributes):
        name = f"y{len(self.nodes)}"
        self.nodes.append(make(kind, inputs, [name], **attributes))
        return name

    def model(self, *outputs):
        return model(self.nodes, self.inputs, outputs, self.constants, opset=21)
