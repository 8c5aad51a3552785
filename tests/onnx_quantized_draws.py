"""Random nodes of quantised operators."""

from dataclasses import dataclass

import numpy as np
from onnx_building import helper, one_node

MICROSOFT = "com.microsoft"
U8, I8 = np.uint8, np.int8


class Draw:
    """Random operands of a node. Bytes with signs keep to 7 bits: of more, some CPUs saturate sums of two products."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def size(self, low=1, high=6):
        return int(self.rng.integers(low, high))

    def sizes(self, count):
        return tuple(self.size() for _ in range(count))

    def flip(self):
        return bool(self.rng.integers(2))

    def pick(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def byte(self):
        return self.pick(U8, I8)

    def q(self, shape, dtype):
        low, high = (0, 256) if dtype == U8 else (-64, 64)
        return self.rng.integers(low, high, shape).astype(dtype)

    def scale(self, shape=()):
        return self.rng.uniform(0.01, 0.2, shape).astype(np.float32)

    def zero(self, dtype, shape=()):
        low, high = (60, 200) if dtype == U8 else (-60, 60)
        return self.rng.integers(low, high, shape).astype(dtype)

    def maybe(self, value):
        return value if self.flip() else None

    def floats(self, shape, most=4):
        return self.rng.uniform(-most, most, shape).astype(np.float32)

    def broadcast(self, shape):
        """Sizes that broadcast to these."""
        kept = [n if self.flip() else 1 for n in shape]
        return tuple(kept[self.size(0, len(shape)) :])

    def matrices(self):
        """Sizes of two matrices whose batches broadcast."""
        m, k, n = (*self.sizes(2), self.size(2, 9))
        batch = self.sizes(self.size(0, 3))
        others = self.pick((), batch)
        return self.pick(((*batch, m, k), (*others, k, n)), ((*others, m, k), (*batch, k, n)))

    def windows(self, rank, dilated=True):
        """The sizes of a window, attributes, and sizes that it fits."""
        window, strides, dilations = self.sizes(rank), self.sizes(rank), self.sizes(rank)
        spans = [(k - 1) * (d if dilated else 1) + 1 for k, d in zip(window, dilations, strict=True)]
        sizes = tuple(n + self.size(0, 6) for n in spans)
        attributes = {"strides": strides} | ({"dilations": dilations} if dilated else {})
        pads = [int(self.rng.integers(0, k)) for k in (*window, *window)]
        ways = [{"pads": pads}, {"auto_pad": "VALID"}, {}]
        # Beyond, Runtime pads by negative numbers.
        if all(s <= k for s, k in zip(strides, spans, strict=True)) and (not dilated or max(dilations) == 1):
            ways += [{"auto_pad": "SAME_UPPER"}, {"auto_pad": "SAME_LOWER"}]
        return window, sizes, attributes | self.pick(*ways)


@dataclass(frozen=True)
class Case:
    inputs: list
    attributes: dict
    outputs: int = 1


# By operator, a draw of its inputs and attributes.


def dynamic_quantize_linear(d):
    low = d.pick(-4, 0, 1)
    return Case([d.rng.uniform(low, low + d.pick(0, 0.5, 5), d.sizes(d.size(0, 4))).astype(np.float32)], {}, 3)


def columns(d, b):
    """Sizes of scales and zero points of the columns of b, or of all; Runtime takes no others of a batch."""
    return d.pick((), b[-1:] if len(b) == 2 else (*b[:-2], 1, b[-1]))


def mat_mul_integer(d):
    (a, b), of_a, of_b = d.matrices(), d.byte(), d.byte()
    zero_of_b = d.zero(of_b, columns(d, b))
    return Case([d.q(a, of_a), d.q(b, of_b), d.maybe(d.zero(of_a)), d.maybe(zero_of_b)], {})


def qlinear_mat_mul(d):
    (a, b), of_a = d.matrices(), d.byte()
    of_b, along = I8 if of_a == I8 else d.byte(), columns(d, b)
    of_terms = [d.q(a, of_a), d.scale(), d.zero(of_a), d.q(b, of_b), d.scale(along), d.zero(of_b, along)]
    return Case([*of_terms, d.scale() * 20, d.zero(of_a)], {})


def conv(d):
    rank = d.size(1, 4)
    window, sizes, attributes = d.windows(rank)
    group = d.pick(1, 1, 2, 3)
    own, filters = d.size(1, 4), group * d.size(1, 4)
    attributes |= {"group": group} | d.pick({}, {"kernel_shape": window})
    return (d.size(1, 3), own * group, *sizes), (filters, own, *window), attributes


def conv_integer(d):
    x, w, attributes = conv(d)
    of_w = d.byte()
    zeros = d.maybe(d.zero(U8)), d.maybe(d.zero(of_w, d.pick((), (1,))))
    return Case([d.q(x, U8), d.q(w, of_w), *zeros], attributes)


def qlinear_conv(d):
    x, w, attributes = conv(d)
    of_x = d.byte()
    of_w = I8 if of_x == I8 else d.byte()
    zero_of_w = d.pick(d.zero(of_w), np.full(w[0], d.zero(of_w)))
    bias = d.maybe(d.rng.integers(-3000, 3000, w[0]).astype(np.int32))
    of_terms = [d.q(x, of_x), d.scale(), d.zero(of_x), d.q(w, of_w), d.scale(d.pick((), w[:1])), zero_of_w]
    return Case([*of_terms, d.scale() * 20, d.zero(of_x), bias], attributes)


def terms(d):
    dtype, shape = d.byte(), d.sizes(d.size(1, 5))
    a, b = d.pick((shape, d.broadcast(shape)), (d.broadcast(shape), shape))
    return [one for s in (a, b) for one in (d.q(s, dtype), d.scale(), d.zero(dtype))], dtype


def qlinear_add(d):
    given, dtype = terms(d)
    return Case([*given, d.scale(), d.zero(dtype)], {})


def qlinear_mul(d):
    given, dtype = terms(d)
    return Case([*given, d.scale() * 9, d.zero(dtype)], {})


def qlinear_concat(d):
    dtype, shape = d.byte(), d.sizes(d.size(1, 4))
    axis = d.size(-len(shape), len(shape))
    inputs = [d.scale(), d.zero(dtype)]
    for _ in range(d.size(1, 4)):
        part = list(shape)
        part[axis] = d.size()
        inputs += [d.q(part, dtype), d.scale(), d.zero(dtype)]
    return Case(inputs, {"axis": axis})


def unary(d, shape, scale=1.0):
    dtype = d.byte()
    return [d.q(shape, dtype), d.scale(), d.zero(dtype), d.scale() * scale, d.zero(dtype)]


def without_zeros(d, inputs):
    """Some zero points are left out; of the other operators Runtime does not find the types then."""
    return [d.maybe(one) if i in (2, 4) else one for i, one in enumerate(inputs)]


def qlinear_sigmoid(d):
    return Case(without_zeros(d, unary(d, d.sizes(d.size(0, 5)), 0.1)), {})


def qlinear_softmax(d):
    shape = d.sizes(d.size(1, 5))
    inputs = unary(d, shape)
    inputs[3] = np.float32(1 / 256)
    return Case(inputs, {"axis": d.size(-len(shape), len(shape)), "opset": d.pick(1, 11, 13, 22)})


def qlinear_leaky_relu(d):
    return Case(without_zeros(d, unary(d, d.sizes(d.size(0, 5)))), d.pick({}, {"alpha": d.pick(0.2, -0.5, 1.5)}))


def qlinear_average_pool(d):
    window, sizes, attributes = d.windows(d.size(1, 4), dilated=False)
    last = d.flip()
    lead, channels = d.sizes(1), d.sizes(1)
    shape = (*lead, *sizes, *channels) if last else (*lead, *channels, *sizes)
    attributes |= {"kernel_shape": window, "channels_last": int(last)}
    # With both, Runtime counts what lies behind the padding, as AveragePool did before opset 19.
    attributes |= d.pick({}, {"count_include_pad": 1}, {} if "auto_pad" in attributes else {"ceil_mode": 1})
    return Case(unary(d, shape), attributes)


def qlinear_global_average_pool(d):
    dtype = d.byte()
    inputs = [d.q(d.sizes(d.size(3, 6)), dtype), d.scale(), d.zero(dtype), d.scale() / 9, d.zero(dtype)]
    return Case(inputs, {"channels_last": int(d.flip())})


def nhwc_max_pool(d):
    window, sizes, attributes = d.windows(2)
    attributes |= {"kernel_shape": window} | ({} if "auto_pad" in attributes else d.pick({}, {"ceil_mode": 1}))
    return Case([d.q((*d.sizes(1), *sizes, *d.sizes(1)), d.byte())], attributes)


def qlinear_where(d):
    dtype, shape = d.byte(), d.sizes(d.size(1, 5))
    a, b = d.pick((shape, d.broadcast(shape)), (d.broadcast(shape), shape))
    of_terms = [one for s in (a, b) for one in (d.q(s, dtype), d.scale(), d.zero(dtype))]
    return Case([d.rng.random(d.broadcast(shape)) < 0.5, *of_terms, d.scale(), d.zero(dtype)], {})


def qlinear_conv_of_microsoft(d):
    """Channels may be last in x and y; in the filters they are not."""
    case, last = qlinear_conv(d), d.flip()
    x, *rest = case.inputs
    return Case([np.moveaxis(x, 1, -1) if last else x, *rest], case.attributes | {"channels_last": int(last)})


def qgemm(d):
    m, k, n = (*d.sizes(2), d.size(2, 9))
    of_a, of_b = d.pick((U8, U8), (U8, I8), (I8, I8))
    trans_a, trans_b, along = d.flip(), d.flip(), d.pick((), (n,))
    a, b = d.q((k, m) if trans_a else (m, k), of_a), d.q((n, k) if trans_b else (k, n), of_b)
    c = d.maybe(d.rng.integers(-3000, 3000, d.pick((n,), (m, 1), (1, n), (m, n), (1,))).astype(np.int32))
    of_output = d.pick([], [d.scale() * 20, d.zero(of_a)])
    of_terms = [a, d.scale(), d.zero(of_a), b, d.scale(along), d.zero(of_b, along), c]
    attributes = d.pick({}, {"alpha": d.pick(0.5, 3.0)})
    return Case([*of_terms, *of_output], attributes | {"transA": int(trans_a), "transB": int(trans_b)})


def of_columns(d, b, of_b):
    along = columns(d, b)
    zero_of_b = d.maybe(d.zero(of_b, along))
    return d.q(b, of_b), d.scale(along), zero_of_b, d.maybe(d.floats(b[-1:]))


def dynamic_quantize_mat_mul(d):
    a, b = d.matrices()
    return Case([d.floats(a), *of_columns(d, b, d.byte())], {})


def dynamic_quantize_lstm(d):
    """Without lengths of sequences: there the range of what becomes bytes is not the same, as padding is part of it."""
    direction, count = d.pick(("forward", 1), ("reverse", 1), ("bidirectional", 2))
    steps, batch, inputs, units, dtype = *d.sizes(4), d.byte()
    of_weights = d.pick((count,), (count, 4 * units))
    w, r = (d.q((count, n, 4 * units), dtype) for n in (inputs, units))
    # Runtime takes several zero points only if they are equal, of signed bytes if they are 0.
    zero = d.zero(dtype, of_weights) if of_weights == (1,) else np.full(of_weights, dtype(128 if dtype == U8 else 0))
    parameters = [one for _ in (w, r) for one in (d.scale(of_weights) / 10, zero)]
    states = [d.maybe(d.floats((count, batch, units))) for _ in "hc"]
    bias, peepholes = d.maybe(d.floats((count, 8 * units))), d.maybe(d.floats((count, 3 * units)))
    attributes = {"direction": direction, "hidden_size": units, "input_forget": int(d.flip())}
    attributes |= d.pick({}, {"clip": 0.5}, {"activations": ["Sigmoid", "Relu", "Tanh"] * count})
    inputs = [d.floats((steps, batch, inputs)), w, r, bias, None, *states, peepholes, *parameters]
    return Case(inputs, attributes, 3)


def q_attention(d):
    batch, queries, inputs, heads, size = d.sizes(5)
    width, past, of_w = 3 * heads * size, d.pick(0, 0, d.size()), d.byte()
    along = d.pick((), (width,))
    total = past + queries
    mask = d.pick(
        None,
        d.rng.integers(1, total + 1, batch).astype(np.int32),
        np.int32([*d.rng.integers(1, total + 1, batch), *[0] * batch]),
        d.rng.integers(0, 2, (batch, total)).astype(np.int32),
    )
    zero_of_w = d.maybe(d.zero(of_w, along))
    state = d.floats((2, batch, heads, past, size)) if past else None
    x, w = d.q((batch, queries, inputs), U8), d.q((inputs, width), of_w)
    given = [x, w, d.floats((width,)), d.scale(), d.scale(along) / 9, mask, d.maybe(d.zero(U8)), zero_of_w, state]
    attributes = {"num_heads": heads, "unidirectional": int(d.flip())} | d.pick({}, {"mask_filter_value": -50.0})
    return Case(given, attributes, 2 if past else 1)


def mat_mul_integer_to_float(d):
    (a, b), of_a = d.matrices(), d.byte()
    q, scale, zero, bias = of_columns(d, b, I8 if of_a == I8 else d.byte())
    return Case([d.q(a, of_a), q, d.scale(), scale, d.maybe(d.zero(of_a)), zero, bias], {})


DRAWS = {
    "ConvInteger": conv_integer,
    "DynamicQuantizeLinear": dynamic_quantize_linear,
    "MatMulInteger": mat_mul_integer,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_mat_mul,
}
MICROSOFTS = {
    "DynamicQuantizeLSTM": dynamic_quantize_lstm,
    "DynamicQuantizeMatMul": dynamic_quantize_mat_mul,
    "MatMulIntegerToFloat": mat_mul_integer_to_float,
    "NhwcMaxPool": nhwc_max_pool,
    "QAttention": q_attention,
    "QGemm": qgemm,
    "QLinearAdd": qlinear_add,
    "QLinearAveragePool": qlinear_average_pool,
    "QLinearConcat": qlinear_concat,
    "QLinearGlobalAveragePool": qlinear_global_average_pool,
    "QLinearLeakyRelu": qlinear_leaky_relu,
    "QLinearMul": qlinear_mul,
    "QLinearSigmoid": qlinear_sigmoid,
    "QLinearSoftmax": qlinear_softmax,
    "QLinearWhere": qlinear_where,
}


def drawn(name, seed):
    """A model of one node, and its inputs."""
    return model_of(name, {**DRAWS, **MICROSOFTS}[name](Draw(seed)), MICROSOFT if name in MICROSOFTS else "")


def model_of(name, case, domain):
    proto, inputs = one_node(name, case.inputs, case.outputs, domain)
    proto.graph.node[0].attribute.extend(helper.make_attribute(*one) for one in case.attributes.items())
    return proto, inputs
