"""Graphs of Microsoft's samples for DirectMLX and pydirectml, in small sizes, against NumPy in float64."""

import numpy as np
from checks import assert_same_bits
from numpy.lib.stride_tricks import sliding_window_view

from dml_jax import Activation, GraphBuilder, compile_operator

RELU, LEAKY_RELU = Activation("ACTIVATION_RELU"), Activation("ACTIVATION_LEAKY_RELU", (0.1,))


class Sample:
    """A graph and the arrays of its inputs, which are random numbers."""

    def __init__(self):
        self.graph, self.arrays, self.rng = GraphBuilder(), [], np.random.default_rng(0)

    def input(self, *sizes, positive=False):
        """An input of the graph, and its numbers in float64."""
        array = self.rng.normal(size=sizes).astype(np.float32)
        self.arrays.append(np.abs(array) + np.float32(0.5) if positive else array)
        return self.graph.input(f"input {len(self.arrays)}", ("FLOAT32", sizes)), self.arrays[-1].astype(np.float64)

    def computed(self, *outputs):
        """What the graph computes, on flat buffers."""
        run = compile_operator(self.graph.build(outputs))
        made = run(*(array.ravel() for array in self.arrays))
        return [np.reshape(x, one.sizes) for x, one in zip(made if len(outputs) > 1 else [made], outputs, strict=True)]


def assert_near(made, exact):
    np.testing.assert_allclose(made, exact, rtol=1e-4, atol=1e-5)


def windows(x, sizes, strides, padding, fill):
    """Windows of the last two dimensions, (..., rows, columns, *sizes)."""
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)), constant_values=fill)
    return sliding_window_view(padded, sizes, (2, 3))[:, :, ::strides, ::strides]


def convolved(x, weights, bias, strides=1, padding=0, groups=1):
    blocks = windows(x, weights.shape[2:], strides, padding, 0)
    channels = x.shape[1] // groups
    parts = [
        np.einsum("nchwij,ocij->nohw", blocks[:, g * channels : (g + 1) * channels], some)
        for g, some in enumerate(np.split(weights, groups))
    ]
    return np.concatenate(parts, axis=1) + bias


def convolution(graph, x, weights, bias, strides=1, padding=0, groups=1, activation=None):
    pair = (strides, strides), (1, 1), (padding, padding), (padding, padding), (0, 0)
    return graph.convolution(x, weights, bias, "CROSS_CORRELATION", "FORWARD", *pair, groups, activation)


def softmax(x):
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def test_hello_directml():
    """The identity, and a product with a constant that is broadcast by strides of 0."""
    array = np.float32(1.618) * np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    graph = GraphBuilder()
    x = graph.input("x", ("FLOAT32", array.shape))
    number = graph.reinterpret(graph.constant(np.float32([3.4])), x.sizes, (0, 0, 0, 0))
    same, *products = graph.build([+x, +x * number, x * graph.constant(np.float32([3.4])), x * 3.4]).compute(array)
    assert_same_bits(same, array)
    for product in products:
        assert_same_bits(product, array * np.float32(3.4))


# yolov4.


def mish(x):
    return x * np.tanh(np.log1p(np.exp(x)))


class Yolo(Sample):
    """Blocks of the network, each with the same in NumPy."""

    def convolutional(self, both, filters, size, strides=1, activation="mish"):
        x, exact = both
        weights, exact_weights = self.input(filters, x.sizes[1], size, size)
        bias, exact_bias = self.input(1, filters, 1, 1)
        fused = LEAKY_RELU if activation == "leaky" else None
        y = convolution(self.graph, x, weights, bias, strides, size // 2, activation=fused)
        exact = convolved(exact, exact_weights, exact_bias, strides, size // 2)
        if activation == "mish":
            softplus = self.graph.activation_softplus(y, 1)
            return y * self.graph.activation_tanh(softplus), mish(exact)
        return y, np.where(exact >= 0, exact, 0.1 * exact) if activation == "leaky" else exact

    def residual(self, both):
        x, exact = both
        y, change = self.convolutional(self.convolutional(both, 2, 1), x.sizes[1], 3)
        return x + y, exact + change

    def joined(self, *pairs):
        return self.graph.join([x for x, _ in pairs], axis=1), np.concatenate([exact for _, exact in pairs], axis=1)

    def pooled(self, both, size):
        x, exact = both
        sides = (size, size), (size // 2,) * 2, (size // 2,) * 2, (1, 1)
        blocks = windows(exact, (size, size), 1, size // 2, -np.inf)
        return self.graph.max_pooling2(x, (1, 1), *sides), blocks.max(axis=(-2, -1))

    def upsampled(self, both):
        x, exact = both
        return self.graph.upsample_2d(x, (2, 2), "NEAREST_NEIGHBOR"), exact.repeat(2, axis=2).repeat(2, axis=3)


def test_yolov4_blocks():
    """A stage of the backbone with its shortcut and its route, the pools, and the way up, joined with the stage."""
    net = Yolo()
    x = net.convolutional(net.input(1, 3, 8, 8), 4, 3)
    x = net.convolutional(x, 4, 3, strides=2)
    route = net.convolutional(x, 4, 1)
    x = net.residual(net.convolutional(x, 4, 1))
    stage = net.joined(net.convolutional(x, 4, 1), route)
    x = net.convolutional(stage, 4, 3, strides=2, activation="leaky")
    x = net.joined(net.pooled(x, 5), net.pooled(x, 3), x)
    x = net.upsampled(net.convolutional(x, 4, 1, activation="leaky"))
    x = net.joined(net.convolutional(stage, 4, 1, activation="leaky"), x)
    y, exact = net.convolutional(x, 5, 1, activation="none")
    (made,) = net.computed(y)
    assert_near(made, exact)


def test_yolov4_decodes_boxes():
    """Sigmoids and powers of channels; the number of the most likely class goes as a float's bits; channels last."""
    classes, size = 4, 3
    net = Sample()
    x, exact = net.input(1, 3 * (classes + 5), size, size)
    graph = net.graph
    parts = [(3, n, size, size) for n in (2, 2, 1, classes)]
    at, extent, sure, likely = graph.split(graph.reinterpret(x, (3, classes + 5, size, size)), 1, outputs=parts)
    at, sure, likely = (graph.activation_sigmoid(one) for one in (at, sure, likely))
    most, number = (graph.reduce(function, likely, (1,)) for function in ("MAX", "ARGMAX"))
    joined = graph.join([at, graph.element_wise_exp(extent), sure, most, graph.reinterpret(number, "FLOAT32")], 1)
    strides = 7 * size * size, size, 1, size * size
    (made,) = net.computed(+graph.reinterpret(joined, (3, size, size, 7), strides))

    exact = exact.reshape(3, classes + 5, size, size).transpose(0, 2, 3, 1)
    sigmoid = 1 / (1 + np.exp(-exact))
    boxes = [sigmoid[..., :2], np.exp(exact[..., 2:4]), sigmoid[..., 4:5], sigmoid[..., 5:].max(axis=-1, keepdims=True)]
    assert_near(made[..., :6], np.concatenate(boxes, axis=-1))
    assert_same_bits(made[..., 6].copy().view(np.uint32), exact[..., 5:].argmax(axis=-1).astype(np.uint32))


# MobileNet.


class MobileNet(Sample):
    """Convolutions with normalized channels, each with the same in NumPy."""

    def normalized(self, both, filters, size, strides=1, groups=1, activation=RELU):
        x, exact = both
        weights, exact_weights = self.input(filters, x.sizes[1] // groups, size, size)
        bias, exact_bias = self.input(1, filters, 1, 1)
        y = convolution(self.graph, x, weights, bias, strides, size // 2, groups)
        exact = convolved(exact, exact_weights, exact_bias, strides, size // 2, groups)
        channels = [
            self.input(1, filters, 1, 1, positive=name == "variance") for name in ("mean", "variance", "scale", "b")
        ]
        mean, variance, scale, shift = (array for _, array in channels)
        y = self.graph.batch_normalization(y, *(one for one, _ in channels), True, 1e-5, activation)
        exact = (exact - mean) / np.sqrt(variance + 1e-5) * scale + shift
        return y, exact if activation is None else np.maximum(exact, 0)

    def bottleneck(self, both, inner, filters, strides=1):
        """Wider, each channel for itself, and narrower again; with a shortcut where the sizes are the same."""
        x, exact = both
        y = self.normalized(self.normalized(both, inner, 1), inner, 3, strides, groups=inner)
        y, other = self.normalized(y, filters, 1, activation=None)
        return (x + y, exact + other) if x.sizes == y.sizes else (y, other)


def test_mobilenet():
    net = MobileNet()
    x = net.normalized(net.input(1, 3, 8, 8), 4, 3, strides=2)
    for inner, filters, strides in ((4, 3, 1), (6, 4, 2), (8, 4, 1)):
        x = net.bottleneck(x, inner, filters, strides)
    x, exact = net.normalized(x, 6, 1)
    x = net.graph.average_pooling(x, (1, 1), x.sizes[2:], (0, 0), (0, 0), False)
    weights, exact_weights = net.input(10, 6, 1, 1)
    scores = net.graph.reinterpret(convolution(net.graph, x, weights, None), (1, 1, 1, 10))
    (made,) = net.computed(net.graph.activation_softmax(scores))
    pooled = exact.mean(axis=(2, 3), keepdims=True)
    assert_near(made, softmax(convolved(pooled, exact_weights, 0).reshape(1, 1, 1, 10)))


# MNIST.


def test_mnist():
    """Channels are broadcast by strides of 0; a weight of four dimensions is read as a matrix."""
    net = Sample()
    graph = net.graph
    x, exact = net.input(1, 1, 12, 12)
    for filters, pool in ((2, 2), (3, 3)):
        weights, exact_weights = net.input(filters, x.sizes[1], 5, 5)
        plus, exact_plus = net.input(1, filters, 1, 1)
        y = graph.activation_relu(convolution(graph, x, weights, None, padding=2) + plus)
        exact = np.maximum(convolved(exact, exact_weights, exact_plus, padding=2), 0)
        x = graph.max_pooling2(y, *2 * [(pool, pool)], (0, 0), (0, 0), (1, 1))
        exact = windows(exact, (pool, pool), pool, 0, 0).max(axis=(-2, -1))
    weights, exact_weights = net.input(3, 2, 2, 10)
    bias, exact_bias = net.input(1, 1, 1, 10)
    scores = graph.reinterpret(x, (1, 1, 1, 12)) @ graph.reinterpret(+weights, (1, 1, 12, 10)) + bias
    (made,) = net.computed(graph.activation_softmax(scores))
    assert_near(made, softmax(exact.reshape(1, 1, 1, 12) @ exact_weights.reshape(1, 1, 12, 10) + exact_bias))


def test_a_step_of_training():
    """The weights move against the derivatives of the loss, which NumPy finds by small changes of each number."""
    net = Sample()
    graph, rate = net.graph, 0.5
    x, pictures = net.input(2, 1, 5, 5)
    weights = [net.input(*sizes) for sizes in ((2, 1, 3, 3), (18, 3), (1, 3))]
    filters, matrix, bias = (one for one, _ in weights)
    truth = np.eye(3)[[2, 0]]
    labels = graph.constant(truth.astype(np.float32))

    sums = convolution(graph, x, filters, None)
    hidden = graph.reinterpret(graph.activation_relu(sums), (2, 18))
    chances = graph.activation_softmax(hidden @ matrix + bias)
    back = (chances - labels) / 2
    to_hidden = graph.gemm(back, matrix, None, trans_b="TRANSPOSE")
    to_sums = graph.activation_relu_grad(sums, graph.reinterpret(to_hidden, sums.sizes))
    # A filter's derivative is a convolution over the batch, which stands where channels do.
    as_channels = graph.reinterpret(x, (1, 2, 5, 5), (25, 25, 5, 1))
    as_filters = graph.reinterpret(to_sums, (2, 2, 3, 3), (9, 18, 3, 1))
    changes = (
        graph.reinterpret(convolution(graph, as_channels, as_filters, None), filters.sizes),
        graph.gemm(hidden, back, None, trans_a="TRANSPOSE"),
        graph.reduce("SUM", back, (0,)),
    )
    made = net.computed(*(one - change * rate for (one, _), change in zip(weights, changes, strict=True)))

    def loss(filters, matrix, bias):
        hidden = np.maximum(convolved(pictures, filters, 0), 0).reshape(2, 18)
        return -(truth * np.log(softmax(hidden @ matrix + bias))).sum() / 2

    arrays = [array for _, array in weights]
    for number, (moved, array) in enumerate(zip(made, arrays, strict=True)):
        exact = np.empty_like(array)
        for at in np.ndindex(array.shape):
            near = [[one.copy() for one in arrays] for _ in range(2)]
            for step, some in zip((1e-6, -1e-6), near, strict=True):
                some[number][at] += step
            up, down = (loss(*some) for some in near)
            exact[at] = array[at] - rate * (up - down) / 2e-6
        assert_near(moved, exact)
