"""WebNN's operators as calls of DirectML's structs: `CALLS` has by operator a function of a `Vector`."""

import math
from collections.abc import Callable

import numpy as np
from webnn_vectors import Call, Vector, call

from dml_jax import Activation

CALLS: dict[str, Callable[[Vector], Call]] = {}


def operator(*names):
    def kept(function):
        CALLS.update(dict.fromkeys(names, function))
        return function

    return kept


# One input, and two.

UNARY = {
    **{
        name: f"ELEMENT_WISE_{name.upper()}" for name in ("abs", "ceil", "erf", "exp", "identity", "log", "sin", "sqrt")
    },
    "isNaN": "ELEMENT_WISE_IS_NAN",
    "logicalNot": "ELEMENT_WISE_LOGICAL_NOT",
    "neg": "ELEMENT_WISE_NEGATE",
    "reciprocal": "ELEMENT_WISE_RECIP",
    "gelu": "ACTIVATION_GELU",
    "relu": "ACTIVATION_RELU",
    "sigmoid": "ACTIVATION_SIGMOID",
}
# With what stands for options that are left out.
PARAMETERS = {
    "elu": ("ACTIVATION_ELU", {"alpha": 1.0}),
    "hardSigmoid": ("ACTIVATION_HARD_SIGMOID", {"alpha": 0.2, "beta": 0.5}),
    "leakyRelu": ("ACTIVATION_LEAKY_RELU", {"alpha": 0.01}),
}
# The struct, and its fields.
BINARY = {
    "sub": ("ELEMENT_WISE_SUBTRACT", "a", "b"),
    "mul": ("ELEMENT_WISE_MULTIPLY", "a", "b"),
    "max": ("ELEMENT_WISE_MAX", "a", "b"),
    "pow": ("ELEMENT_WISE_POW", "input", "exponent"),
    "equal": ("ELEMENT_WISE_LOGICAL_EQUALS", "a", "b"),
    "greater": ("ELEMENT_WISE_LOGICAL_GREATER_THAN", "a", "b"),
    "lesserOrEqual": ("ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL", "a", "b"),
    "logicalAnd": ("ELEMENT_WISE_LOGICAL_AND", "a", "b"),
    "prelu": ("ACTIVATION_PARAMETERIZED_RELU", "input", "slope"),
}


@operator(*UNARY)
def unary(v):
    return call(UNARY[v.operator], input=v.input, output=v.output)


@operator(*PARAMETERS)
def with_parameters(v):
    struct, defaults = PARAMETERS[v.operator]
    return call(struct, input=v.input, output=v.output, **{name: v.option(name, x) for name, x in defaults.items()})


@operator("roundEven")
def round_even(v):
    return call("ELEMENT_WISE_ROUND", input=v.input, output=v.output, rounding_mode="HALVES_TO_NEAREST_EVEN")


@operator("clamp")
def clamp(v):
    dtype = v.input.dtype
    limits = (
        {"min": -math.inf, "max": math.inf}
        if dtype.kind == "f"
        else {n: getattr(np.iinfo(dtype), n) for n in ("min", "max")}
    )
    given = {name: v.option(f"{name}Value") for name in limits}
    bounds = {n: limits[n] if x is None or float(x) != float(x) else dtype.type(x) for n, x in given.items()}
    return call("ELEMENT_WISE_CLIP1", input=v.input, output=v.output, min_max_data_type=dtype, **bounds)


@operator("softmax")
def softmax(v):
    return call("ACTIVATION_SOFTMAX1", input=v.input, output=v.output, axes=(v.option("axis", 1),))


@operator(*BINARY)
def binary(v):
    struct, *names = BINARY[v.operator]
    views = (np.broadcast_to(x, v.output.shape) for x in v.inputs.values())
    return call(struct, **dict(zip(names, views, strict=True)), output=v.output)


@operator("quantizeLinear")
def quantize_linear(v):
    def spread(x):
        """One number per element; each size divides that of the input, and stands for a block of it."""
        x = x.reshape((1,) * (v.output.ndim - x.ndim) + x.shape)
        for d, n in enumerate(x.shape):
            x = x if n == 1 else np.repeat(x, v.output.shape[d] // n, axis=d)
        return np.broadcast_to(x, v.output.shape)

    scale, zero = (spread(v.inputs[name]) for name in ("scale", "zeroPoint"))
    if v.output.dtype.name.endswith("int4"):
        parts = {"quantization_type": "SCALE_ZERO_POINT", "quantizations": [scale, zero]}
        return call("QUANTIZE", input=v.input, **parts, output=v.output)
    return call("ELEMENT_WISE_QUANTIZE_LINEAR", input=v.input, scale=scale, zero_point=zero, output=v.output)


# Movement.


@operator("transpose")
def transpose(v):
    view = v.input.transpose(v.option("permutation"))
    return call("ELEMENT_WISE_IDENTITY", input=view, output=v.output)


@operator("expand")
def expand(v):
    return call("ELEMENT_WISE_IDENTITY", input=np.broadcast_to(v.input, v.output.shape), output=v.output)


@operator("concat")
def concat(v):
    return call("JOIN", inputs=[*v.inputs.values()], output=v.output, axis=v.option("axis"))


@operator("slice")
def slice_(v):
    if v.input.ndim == 0:
        return call("ELEMENT_WISE_IDENTITY", input=v.input, output=v.output)
    fields = {"offsets": v.option("starts"), "sizes": v.option("sizes")}
    fields["strides"] = v.option("strides") or [1] * v.input.ndim
    return call("SLICE1", input=v.input, output=v.output, **{f"input_window_{name}": x for name, x in fields.items()})


@operator("pad")
def pad(v):
    dtype = v.input.dtype
    return call(
        "PADDING1",
        input=v.input,
        output=v.output,
        padding_mode=v.option("mode", "constant").upper(),
        padding_value_data_type=dtype,
        padding_value=dtype.type(v.option("value", 0)),
        start_padding=v.option("beginningPadding"),
        end_padding=v.option("endingPadding"),
    )


@operator("triangular")
def triangular(v):
    is_upper, diagonal = v.option("upper", True), v.option("diagonal", 0)
    begin, end = (-(2**31), diagonal) if is_upper else (diagonal + 1, 2**31 - 1)  # what is filled with 0
    flat = (-1, *v.input.shape[-2:])
    return call(
        "DIAGONAL_MATRIX1",
        input=v.input.reshape(flat),
        output=v.output.reshape(flat),
        value_data_type=v.input.dtype,
        value=0,
        diagonal_fill_begin=begin,
        diagonal_fill_end=end,
    )


def ranked(*arrays, rank=1):
    """Views of one rank, with leading sizes of 1."""
    rank = max(rank, *(x.ndim for x in arrays))
    return [x.reshape((1,) * (rank - x.ndim) + x.shape) for x in arrays]


@operator("gather")
def gather(v):
    x, indices, axis = v.inputs["input"], v.inputs["indices"], v.option("axis", 0)
    wrapped = np.where(indices < 0, indices.astype(np.int64) + x.shape[axis], indices)
    clamped = np.clip(wrapped, 0, x.shape[axis] - 1).astype(indices.dtype)  # as WebNN's
    views = dict(zip(("input", "indices", "output"), ranked(x, clamped, v.output), strict=True))
    axis += views["input"].ndim - x.ndim
    return call("GATHER", **views, axis=axis, index_dimensions=indices.ndim)


@operator("gatherElements")
def gather_elements(v):
    return call("GATHER_ELEMENTS", **v.inputs, output=v.output, axis=v.option("axis", 0))


@operator("scatterElements")
def scatter_elements(v):
    return call("SCATTER_ELEMENTS", **v.inputs, output=v.output, axis=v.option("axis", 0))


@operator("gatherND", "scatterND")
def of_index_tuples(v):
    counts = {f"{name}_dimension_count": v.inputs[name].ndim for name in ("input", "indices")}
    views = dict(zip((*v.inputs, "output"), ranked(*v.inputs.values(), v.output), strict=True))
    if v.operator == "scatterND":
        return call("SCATTER_ND", **views, **counts)
    return call("GATHER_ND1", **views, **counts, batch_dimension_count=0)


@operator("resample2d")
def resample(v):
    scales = [1.0] * 4
    for n, axis in enumerate(v.option("axes", (2, 3))):
        by_sizes = v.output.shape[axis] / v.input.shape[axis]
        scales[axis] = by_sizes if v.option("sizes") else float(v.option("scales")[n])
    mode = {"linear": "LINEAR", "nearest-neighbor": "NEAREST_NEIGHBOR"}[v.option("mode", "nearest-neighbor")]
    offsets = {"input_pixel_offsets": (0.5,) * 4, "output_pixel_offsets": (-0.5,) * 4}
    return call("RESAMPLE1", input=v.input, output=v.output, interpolation_mode=mode, scales=scales, **offsets)


# Sums, products, and what is divided by them.

FUNCTIONS = {
    "argMax": "ARGMAX",
    "reduceL1": "L1",
    "reduceLogSum": "LOG_SUM",
    "reduceMax": "MAX",
    "reduceMean": "AVERAGE",
    "reduceSum": "SUM",
}


@operator(*FUNCTIONS)
def reduce(v):
    x, axes = v.input, [v.option("axis")] if v.operator == "argMax" else v.option("axes")
    if axes == [] or x.ndim == 0:  # each element alone
        x, axes = x[None], [0]
    axes = [*range(x.ndim)] if axes is None else axes
    kept = v.output.reshape([1 if d in axes else n for d, n in enumerate(x.shape)])
    return call("REDUCE", function=FUNCTIONS[v.operator], input=x, output=kept, axes=axes)


def channels_first(view, layout):
    return view.transpose(0, 3, 1, 2) if layout == "nhwc" else view


@operator("averagePool2d", "maxPool2d")
def pool(v):
    x, y = (channels_first(view, v.option("layout")) for view in (v.input, v.output))
    window, strides = v.option("windowDimensions") or x.shape[2:], v.option("strides") or [1, 1]
    dilations, (top, bottom, left, right) = v.option("dilations") or [1, 1], v.option("padding") or [0] * 4
    # Sizes that are rounded up need more padding.
    spans = [(n - 1) * s + (w - 1) * d + 1 for n, s, w, d in zip(y.shape[2:], strides, window, dilations, strict=True)]
    ends = [max(e, n - m - b) for e, n, m, b in zip((bottom, right), spans, x.shape[2:], (top, left), strict=True)]
    fields = {"input": x, "output": y, "strides": strides, "window_size": window}
    fields |= {"start_padding": (top, left), "end_padding": ends}
    if v.operator == "averagePool2d":
        return call("AVERAGE_POOLING1", **fields, dilations=dilations, include_padding=False)
    return call("MAX_POOLING2", **fields, dilations=dilations)


FILTERS = {"oihw": (0, 1, 2, 3), "hwio": (3, 2, 0, 1), "ohwi": (0, 3, 1, 2), "ihwo": (3, 0, 1, 2)}


@operator("conv2d")
def convolution(v):
    x, y = (channels_first(view, v.option("inputLayout")) for view in (v.input, v.output))
    top, bottom, left, right = v.option("padding") or [0] * 4
    return call(
        "CONVOLUTION",
        input=x,
        filter=v.inputs["filter"].transpose(FILTERS[v.option("filterLayout", "oihw")]),
        bias=v.inputs["bias"].reshape(1, -1, 1, 1) if "bias" in v.inputs else None,
        output=y,
        mode="CROSS_CORRELATION",
        direction="FORWARD",
        strides=v.option("strides") or [1, 1],
        dilations=v.option("dilations") or [1, 1],
        start_padding=(top, left),
        end_padding=(bottom, right),
        output_padding=(0, 0),
        group_count=v.option("groups", 1),
    )


@operator("matmul")
def matmul(v):
    a, b = v.inputs.values()
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
    if len(batch) > 2:
        a, b = (np.ascontiguousarray(x).reshape(-1, *x.shape[-2:]) for x in (a, b))
    y = v.output.reshape(*a.shape[:-1], b.shape[-1])
    return call("GEMM", a=a, b=b, output=y, trans_a="NONE", trans_b="NONE", alpha=1, beta=0)


@operator("batchNormalization")
def batch_normalization(v):
    x, axis = v.input, v.option("axis", 1) % v.input.ndim
    sizes, defaults = [n if d == axis else 1 for d, n in enumerate(x.shape)], {"scale": 1, "bias": 0}
    given = {name: np.full(x.shape[axis], number, x.dtype) for name, number in defaults.items()} | v.inputs
    fields = {name: given[name].reshape(sizes) for name in ("mean", "variance", "scale", "bias")}
    return call(
        "BATCH_NORMALIZATION", input=x, **fields, output=v.output, spatial=True, epsilon=v.option("epsilon", 1e-5)
    )


@operator("instanceNormalization")
def instance_normalization(v):
    x, y = (channels_first(view, v.option("layout")) for view in (v.input, v.output))
    given = {"scale": np.ones(x.shape[1], x.dtype), "bias": np.zeros(x.shape[1], x.dtype)} | v.inputs
    fields = {name: given[name].reshape(1, -1, 1, 1) for name in ("scale", "bias")}
    fields |= {"axes": (2, 3), "normalize_variance": True, "epsilon": v.option("epsilon", 1e-5)}
    return call("MEAN_VARIANCE_NORMALIZATION1", input=x, output=y, **fields)


# Recurrent layers.

# Where DirectML's gates stand in WebNN's layouts.
ORDERS = {"iofg": (0, 1, 2, 3), "ifgo": (0, 3, 1, 2), "zrn": (0, 1, 2), "rzn": (1, 0, 2)}
DIRECTIONS = {"forward": "FORWARD", "backward": "BACKWARD", "both": "BIDIRECTIONAL"}


def recurrent(v, x, weights, layout, activations):
    """The fields that LSTM and GRU share; `weights` has arrays of every direction."""
    order, directions = ORDERS[v.option("layout", layout)], len(weights["weight"])

    def reordered(gates):
        return np.concatenate([np.split(gates, len(order), axis=1)[n] for n in order], axis=1)

    zeros = np.zeros(weights["weight"].shape[:2], x.dtype)
    biases = [reordered(weights.get(name, zeros)) for name in ("bias", "recurrentBias")]
    names = v.option("activations", activations)
    return {
        "input": x[None],
        "weight": reordered(weights["weight"])[None],
        "recurrence": reordered(weights["recurrentWeight"])[None],
        "bias": np.concatenate(biases, axis=1)[None, None],
        "activation_descs": [Activation(f"ACTIVATION_{name.upper()}") for name in names] * directions,
        "direction": DIRECTIONS[v.option("direction", "forward")],
    }


@operator("gru")
def gru(v):
    single, *sequence = v.outputs
    initial = v.inputs.get("initialHiddenState")
    return call(
        "GRU",
        **recurrent(v, v.input, v.inputs, "zrn", ("sigmoid", "tanh")),
        hidden_init=None if initial is None else initial[None],
        output_sequence=sequence[0] if sequence else None,
        output_single=single[None],
        linear_before_reset=v.option("resetAfter", True),
    )


@operator("lstmCell")
def lstm_cell(v):
    """A layer of one step."""
    of_all = {name: x[None] for name, x in v.inputs.items()}
    peephole = of_all.get("peepholeWeight")
    hidden, cell = (output[None, None] for output in v.outputs)
    return call(
        "LSTM",
        **recurrent(v, v.input[None], of_all, "iofg", ("sigmoid", "tanh", "tanh")),
        hidden_init=of_all["hiddenState"][None],
        cell_mem_init=of_all["cellState"][None],
        peephole=None if peephole is None else peephole[None, None],
        output_single=hidden,
        output_cell_single=cell,
        clip_threshold=0,
        use_clip_threshold=False,
        couple_input_forget=False,
    )
