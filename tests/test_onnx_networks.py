"""Whole networks: those that the onnx package ships, and those of packages that use ONNX Runtime, equal its answers."""

import unittest
from importlib.util import find_spec
from pathlib import Path

import jax
import numpy as np
import pytest
from onnx_building import onnx, onnxruntime
from onnx_cases import cases

from dml_jax.bench.onnx_image_networks import NETWORKS, random_network
from dml_jax.onnx import Backend, to_jax
from dml_jax.onnx.graph import read_graph
from dml_jax.onnx.shape_inference import known_shapes

CLOSE = 1e-4  # of the largest number


pytestmark = pytest.mark.usefixtures("full_precision")


def jitted(function, inputs):
    """What a function gives, its weights outside of the program."""
    weights = {name: value for name, value in function.parameters.items() if value.ndim}
    results = jax.jit(lambda p, x: function(**x, parameters=p))(weights, inputs)
    return results if isinstance(results, tuple) else (results,)


def assert_close(results, expected):
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        assert result.shape == wanted.shape
        assert np.isfinite(wanted).all()
        assert wanted.any()
        np.testing.assert_allclose(result, wanted, rtol=0, atol=CLOSE * np.abs(wanted).max())


def session(content):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


# Those of the onnx package.


def random_case(name):
    proto = random_network(name)
    picture = np.random.default_rng(3).standard_normal((1, 3, 224, 224), np.float32)
    run, function = session(proto.SerializeToString()), to_jax(proto)
    (spec,) = function.inputs
    return function, {spec.name: picture}, run.run(None, {spec.name: picture})


def test_a_network_with_random_weights_agrees_with_onnx_runtime():
    function, inputs, expected = random_case("squeezenet")
    assert_close(jitted(function, inputs), expected)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "squeezenet"])
def test_every_network_with_random_weights_agrees_with_onnx_runtime(name):
    function, inputs, expected = random_case(name)
    assert_close(jitted(function, inputs), expected)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NETWORKS)
def test_the_benchmark_counts_weights_and_products(name):
    """By the shapes: a weight of a kernel has a product at each place of the output, in its group of channels."""
    graph = read_graph(random_network(name), Path())
    shapes = {key: value.shape for key, value in known_shapes(graph).items()}
    steps = [step for step in graph.steps if step.op_type in ("Conv", "Gemm")]
    products = sum(
        np.prod(shapes[step.outputs[0]]) * np.prod(shapes[step.inputs[1]][1:])
        if step.op_type == "Conv"
        else np.prod(shapes[step.inputs[1]])
        for step in steps
    )
    weights = sum(value.size for value in graph.initializers.values() if value.dtype == np.float32)
    assert NETWORKS[name] == (weights, products)


@pytest.mark.exhaustive
def test_onnxs_runner_drives_the_backend(monkeypatch, tmp_path):
    """All models in ONNX's package, of all opsets, the nine networks too; node cases are tests of their own."""
    runner = pytest.importorskip("onnx.backend.test.runner")
    load = runner.load_model_tests

    def local(kind):
        if kind == "node":
            return [cases()[name] for name in ("test_gather_0", "test_reshape_zero_dim")]
        # The others of this kind are downloaded.
        return [case for case in load(kind=kind) if kind != "real" or (case.url or "").startswith("onnx/backend/")]

    monkeypatch.setattr(runner, "load_model_tests", local)
    monkeypatch.setenv("ONNX_MODELS", str(tmp_path))
    suite = unittest.TestSuite()
    for case in runner.Runner(Backend, __name__).test_cases.values():
        names = unittest.defaultTestLoader.getTestCaseNames(case)
        suite.addTests(case(name) for name in names if name.endswith("_cpu"))
    result = unittest.TestResult()
    suite.run(result)
    assert not result.errors
    assert not result.failures
    assert {reason for _, reason in result.skipped} == {"Not compatible with backend"}
    names = {str(case).partition(" ")[0] for case, _ in result.skipped}
    assert all(name.startswith(("test_sequence_model", "test_strnorm_model", "test_gradient_of")) for name in names), (
        names
    )
    models = sum(len(load(kind=kind)) for kind in ("simple", "pytorch-converted", "pytorch-operator")) + len(NETWORKS)
    run = result.testsRun - 2 - len(result.skipped)
    print(f"{run} of {models} models of onnx {onnx.__version__}")  # noqa: T201
    assert models >= 149
    assert run >= 130


# Those of packages.

SMALL, LINE, SPEECH = (1, 3, 64, 96), (1, 3, 48, 192), (1, 576)
STATE, CELL, RATE = (2, 1, 128), (1, 1, 128), {"sr": 16000}
# Package, file, shapes of the inputs, those that are known.
PACKAGED = [
    ("rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": LINE}, {}),
    ("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx", {"x": LINE}, {}),
    ("rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx", {"x": SMALL}, {}),
    ("magika", "models/standard_v3_3/model.onnx", {"bytes": (2, 2048)}, {}),
    ("silero_vad", "data/silero_vad.onnx", {"input": SPEECH, "state": STATE}, RATE),
    ("silero_vad", "data/silero_vad_16k_op15.onnx", {"input": SPEECH, "state": STATE}, RATE),
    ("silero_vad", "data/silero_vad_16k_sequence.onnx", {"input": SPEECH, "h": CELL, "c": CELL}, {}),
    ("silero_vad", "data/silero_vad_half.onnx", {"input": SPEECH, "state": STATE}, {}),
    ("silero_vad", "data/silero_vad_op18_ifless.onnx", {"input": SPEECH, "state": STATE}, RATE),
    ("silero_vad", "data/silero_vad_openvino_16k.onnx", {"input": SPEECH, "state": STATE}, {}),
]
# Of a package that is quantised: integers that a layer rounds otherwise change what the next ones make.
QUANTISED = ("pipecat", "audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx", (2, 80, 800))


def random_input(rng, shape, dtype):
    """Bytes, noise, or of pictures strokes like those of letters: noise alone has nothing to be found."""
    if dtype.kind == "i":
        return rng.integers(256, size=shape, dtype=dtype)
    noise = rng.standard_normal(shape)
    if len(shape) < 4:
        return noise.astype(dtype)
    row, column = np.indices(shape[2:])
    strokes = np.where((row // 8 % 2 == 1) & (column // 4 % 2 == 0), -2.0, 2.0)
    return (strokes[None, None] + 0.1 * noise).astype(dtype)


def installed(package, file):
    spec = find_spec(package)
    path = Path(str(spec.origin)).parent / file if spec else Path()
    if not path.is_file():
        pytest.skip(f"{package} with {file} is not installed")
    return path


@pytest.mark.exhaustive
def test_a_quantised_network_of_a_package():
    """Probabilities that are within a hundredth of ONNX Runtime's, whose own two ways differ by a third of that."""
    package, file, shape = QUANTISED
    path = installed(package, file)
    sound = np.random.default_rng(0).standard_normal(shape, np.float32)
    function = jax.jit(to_jax(path))
    (expected,) = session(path.read_bytes()).run(None, {"input_features": sound})
    np.testing.assert_allclose(function(sound), expected, atol=0.01)
    text = function.lower(sound).as_text()
    assert "stablehlo.convolution" not in text
    products = [line for line in text.splitlines() if "dot_general" in line]
    assert len(products) >= 39
    assert all("xi32>" in line for line in products)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("package", "file", "shapes", "static"), PACKAGED, ids=[row[1] for row in PACKAGED])
def test_a_network_of_a_package_agrees_with_onnx_runtime(package, file, shapes, static):
    """The packages need not be importable: `pip install --no-deps rapidocr-onnxruntime magika silero-vad`."""
    path = installed(package, file)
    function, rng = to_jax(path, static=static), np.random.default_rng(0)
    dtypes = {spec.name: spec.dtype for spec in function.inputs}
    assert dtypes.keys() == shapes.keys()
    inputs = {name: random_input(rng, shape, dtypes[name]) for name, shape in shapes.items()}
    known = {name: np.asarray(value, np.int64) for name, value in static.items()}
    assert_close(jitted(function, inputs), session(path.read_bytes()).run(None, inputs | known))
