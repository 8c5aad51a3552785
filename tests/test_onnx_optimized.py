"""Files of ONNX Runtime's optimiser: FusedConv and FusedGemm of the level "extended", and refused ones of "all"."""

import jax
import numpy as np
import pytest
from checks import sampled
from onnx_building import helper, model, onnx, onnxruntime, runtime
from onnx_one_node import MICROSOFT, assert_as_runtime, assert_refused, computed

from dml_jax.onnx import UnsupportedError, to_jax

LEVELS = onnxruntime.GraphOptimizationLevel
make = helper.make_node


def normals(rng, *sizes, dtype=np.float32):
    return rng.standard_normal(sizes).astype(dtype)


def optimized(proto, folder, level=LEVELS.ORT_ENABLE_EXTENDED):
    """The model as ONNX Runtime saves it for its CPU provider."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.load(options.optimized_model_filepath)


# By name: the attributes of the node, and whether the optimiser writes it into a FusedConv and into a FusedGemm.
ACTIVATIONS = {
    "Relu": ({}, True, True),
    "LeakyRelu": ({"alpha": 0.3}, True, True),
    "HardSigmoid": ({"alpha": 0.3}, True, True),
    "Sigmoid": ({}, True, True),
    "Tanh": ({}, True, True),
    "Clip": ({}, True, False),
    "Elu": ({"alpha": 0.7}, False, True),
    "Selu": ({"alpha": 1.5}, False, True),
    "Softplus": ({}, False, True),
    "Softsign": ({}, False, True),
    "ThresholdedRelu": ({"alpha": 0.2}, False, True),
}


def network(name):
    """A convolution with batch normalization, a sum of two, and a matrix product, each before an activation."""
    rng = np.random.default_rng(0)

    def activated(i):
        numbers = ["low", "high"] if name == "Clip" else []
        return make(name, [f"before{i}", *numbers], [f"after{i}"], **ACTIVATIONS[name][0])

    weights = {"w": normals(rng, 4, 2, 3, 3), "v": normals(rng, 4, 2, 3, 3), "m": normals(rng, 12, 5)}
    weights |= {name: normals(rng, 4) for name in ("bias", "scale", "shift", "mean")}
    weights |= {"variance": np.float32([0.5, 1, 2, 1]), "low": np.float32(-0.2), "high": np.float32(0.4)}
    nodes = [
        make("Conv", ["x", "w", "bias"], ["c"], pads=[1, 1, 1, 1]),
        make("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["before0"]),
        activated(0),
        make("Conv", ["after0", "v"], ["before1"], group=2, strides=[2, 2], pads=[1, 1, 1, 1]),
        activated(1),
        make("MaxPool", ["after1"], ["p"], kernel_shape=[3, 1]),
        make("Flatten", ["p"], ["f"]),
        make("Gemm", ["f", "m"], ["before2"], alpha=0.5),
        activated(2),
    ]
    return model(nodes, {"x": normals(rng, 2, 2, 6, 6)}, ["after2"], weights, opset=18), normals(rng, 2, 2, 6, 6)


@pytest.mark.parametrize("name", sampled(ACTIVATIONS, ["HardSigmoid"]))
def test_a_network_saved_at_the_level_extended(name, tmp_path):
    """Its answers are those of the file before."""
    proto, x = network(name)
    saved = optimized(proto, tmp_path)
    kinds = [node.op_type for node in saved.graph.node]
    _, in_conv, in_gemm = ACTIVATIONS[name]
    assert (kinds.count("FusedConv"), kinds.count("FusedGemm")) == (2 * in_conv, in_gemm)
    np.testing.assert_allclose(jax.jit(to_jax(saved))(x), runtime(proto, {"x": x})[0], rtol=1e-5, atol=1e-5)


def test_a_file_for_one_kind_of_cpu(tmp_path):
    wide = model(
        [make("Conv", ["x", "w"], ["a"]), make("Relu", ["a"], ["y"])],
        {"x": np.zeros((1, 16, 4, 4), np.float32)},
        ["y"],
        {"w": np.ones((16, 16, 3, 3), np.float32)},
    )
    saved = optimized(wide, tmp_path, LEVELS.ORT_ENABLE_ALL)
    assert "com.microsoft.nchwc" in {node.domain for node in saved.graph.node}
    hint = 'save it again at the level "extended", with SessionOptions.graph_optimization_level = .*ORT_ENABLE_EXTENDED'
    with pytest.raises(UnsupportedError, match=hint):
        to_jax(saved)


def test_a_quantised_network_saved_at_the_level_all(tmp_path):
    """Bytes are in no layout of one CPU: channels are last. A rounding may differ by 1."""
    rng = np.random.default_rng(0)

    def quantised(name, scale):
        numbers = [f"{name} scale", f"{name} zero"]
        weights.update({numbers[0]: np.float32(scale), numbers[1]: np.uint8(128)})
        q, real = f"{name} q", f"{name} real"
        return [make("QuantizeLinear", [name, *numbers], [q]), make("DequantizeLinear", [q, *numbers], [real])]

    weights = {"w q": rng.integers(-127, 128, (8, 4, 3, 3)).astype(np.int8), "w scale": np.float32(0.01)}
    nodes = [
        *quantised("x", 0.02),
        make("DequantizeLinear", ["w q", "w scale"], ["w"]),
        make("Conv", ["x real", "w"], ["a"]),
        *quantised("a", 0.1),
        make("MaxPool", ["a real"], ["b"], kernel_shape=[2, 2]),
        *quantised("b", 0.1),
    ]
    x = normals(rng, 1, 4, 8, 8)
    saved = optimized(model(nodes, {"x": x}, ["b real"], weights, opset=17), tmp_path, LEVELS.ORT_ENABLE_ALL)
    assert {"QLinearConv", "NhwcMaxPool"} <= {node.op_type for node in saved.graph.node if node.domain == MICROSOFT}
    np.testing.assert_allclose(jax.jit(to_jax(saved))(x), runtime(saved, {"x": x})[0], rtol=0, atol=0.11)


# Single nodes.

PARAMETERS = {"Clip": [-0.3, 0.6], "HardSigmoid": [0.3, 0.4], "LeakyRelu": [0.2]}
OF_CONV = ("Clip", "HardSigmoid", "HardSwish", "LeakyRelu", "Relu", "Sigmoid", "Tanh", None)


def fused_conv(seed, name, dtype=np.float32):
    """Operands and attributes of a FusedConv of one or two spatial dimensions, with and without bias and Z."""
    rng = np.random.default_rng(seed)
    rank, group = 1 + seed % 2, 1 + seed // 2 % 2
    x, w = normals(rng, 2, 2 * group, *(7, 6)[:rank], dtype=dtype), normals(rng, 4, 2, *(3, 2)[:rank], dtype=dtype)
    bias = normals(rng, 4, dtype=dtype) if seed % 3 else None
    attributes = {"group": group, "strides": [2, 1][:rank], "pads": [1] * 2 * rank}
    attributes |= {} if name is None else {"activation": name}
    attributes |= {"activation_params": PARAMETERS[name]} if name in PARAMETERS else {}
    sizes = [(7 + 2 - 3) // 2 + 1, 6 + 2 - 2 + 1][:rank]
    return [x, w, bias, *([normals(rng, 2, 4, *sizes, dtype=dtype)] if seed % 4 < 2 else [])], attributes


@pytest.mark.parametrize("seed", sampled(range(12), [1]))
@pytest.mark.parametrize("name", OF_CONV)
def test_fused_convolutions_are_those_of_onnx_runtime(name, seed):
    operands, attributes = fused_conv(seed, name)
    assert_as_runtime("FusedConv", operands, domain=MICROSOFT, units=32, **attributes)


OF_GEMM = {
    "Celu": {"alpha": 0.7},
    "Elu": {"alpha": 0.7},
    "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
    "LeakyRelu": {"alpha": 0.2},
    "ParametricSoftplus": {"alpha": 0.7, "beta": 1.5},
    "Relu": {},
    "ScaledTanh": {"alpha": 0.7, "beta": 1.5},
    "Selu": {"alpha": 1.5, "gamma": 1.2},
    "Sigmoid": {},
    "Softplus": {},
    "Softsign": {},
    "Tanh": {},
    "ThresholdedRelu": {"alpha": 0.4},
}


@pytest.mark.parametrize("flags", sampled([(0, 0), (1, 0), (0, 1), (1, 1)], [(1, 0)]))
@pytest.mark.parametrize("name", OF_GEMM)
def test_fused_products_are_those_of_onnx_runtime(name, flags):
    rng = np.random.default_rng(1)
    a, b, c = normals(rng, 3, 4), normals(rng, 4, 5), normals(rng, 5)
    operands = [a.T if flags[0] else a, b.T if flags[1] else b, c]
    numbers = {f"activation_{key}": number for key, number in OF_GEMM[name].items()}
    attributes = {"alpha": 0.5, "beta": 2.0, "transA": flags[0], "transB": flags[1], "activation": name}
    assert_as_runtime("FusedGemm", operands, domain=MICROSOFT, **attributes, **numbers)


OTHERS = [
    "Abs",
    "Celu",
    "Erf",
    "Exp",
    "FastGelu",
    "Gelu",
    "HardSwish",
    "Mish",
    "QuickGelu",
    "Shrink",
    "Softmax",
    "relu",
]


def is_taken(run, proto, *inputs):
    try:
        run(proto, dict(zip("xw", inputs, strict=True)))
    except Exception:
        return False
    return True


@pytest.mark.parametrize("kind", ["FusedConv", "FusedGemm"])
def test_activations_are_those_that_onnx_runtime_takes(kind):
    """Here FusedConv takes Silu, too, as other versions than 1.32 do."""
    x = np.ones((1, 1, 1) if kind == "FusedConv" else (1, 1), np.float32)
    numbers = [{f"activation_{name}": 0.5 for name in ("alpha", "beta", "gamma")}]
    numbers = [{}, *({"activation_params": [0.5] * n} for n in (1, 2))] if kind == "FusedConv" else numbers
    for name in {*OTHERS, *OF_GEMM, *filter(None, OF_CONV)}:
        for attributes in numbers:
            node = make(kind, ["x", "w"], ["y"], domain=MICROSOFT, activation=name, **attributes)
            proto = model([node], {"x": x, "w": x}, ["y"])
            assert is_taken(lambda p, named: to_jax(p)(**named), proto, x, x) == is_taken(runtime, proto, x, x), name


def test_silu_of_a_convolution():
    x, w = np.float32([[[-2, 0, 3]]]), np.float32([[[2]]])
    (y,) = computed("FusedConv", [x, w], domain=MICROSOFT, activation="Silu")
    np.testing.assert_allclose(y, 2 * x / (1 + np.exp(-2 * x)), rtol=1e-6)


@pytest.mark.parametrize("kind", ["FusedConv", "FusedGemm"])
def test_halves_are_those_of_the_nodes_that_are_fused(kind):
    rng = np.random.default_rng(0)
    sizes = ((2, 3, 9), (4, 3, 3), (4,)) if kind == "FusedConv" else ((5, 4), (4, 6), (6,))
    operands = [normals(rng, *size, dtype=np.float16) for size in sizes]
    (fused,) = computed(kind, operands, domain=MICROSOFT, activation="Tanh")
    (plain,) = computed(kind.removeprefix("Fused"), operands)
    # XLA:GPU may leave out the rounding between the two, which changes a result by its last place.
    np.testing.assert_allclose(fused, computed("Tanh", [plain])[0], rtol=2**-9)


X, W = np.zeros((1, 2, 5), np.float32), np.zeros((3, 2, 3), np.float32)
CLIP = {"activation": "Clip", "activation_params": [1.0]}


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes", "message"),
    [
        ("FusedConv", [X, W, None, X], {}, "Z: its sizes must be [1, 3, 3], but they are [1, 2, 5]"),
        ("FusedConv", [X, W], CLIP, "activation_params of Clip must be 2 numbers, but they are [1.0]"),
        ("FusedConv", [X, W], {"activation": "Elu"}, "com.microsoft::FusedConv with activation=Elu (node #0)"),
        ("FusedGemm", [X[0], X[0].T], {"activation": "Clip"}, "com.microsoft::FusedGemm with activation=Clip"),
        (
            "FusedGemm",
            [X[0], X[0].T],
            {"activation": "Elu"},
            "activation_alpha must be given, because the activation is",
        ),
        ("FusedGemm", [X[0], X[0].T], {}, "it must have the attribute 'activation'"),
    ],
)
def test_onnx_runtime_refuses_them_too(kind, inputs, attributes, message):
    assert_refused(message, kind, inputs, by_runtime=True, domain=MICROSOFT, **attributes)
