"""The programs of docs/examples that begin with an .onnx file, against ONNX Runtime and NumPy."""

import jax
import numpy as np
import pytest
from onnx_building import numpy_helper, onnx, runtime
from PIL import Image
from test_examples import imported, numbers, printed

onnx_classifier = imported("onnx_classifier")
onnx_super_resolution = imported("onnx_super_resolution")


pytestmark = pytest.mark.usefixtures("full_precision")


@pytest.mark.parametrize("module", [onnx_classifier, onnx_super_resolution], ids=lambda m: m.__name__)
def test_every_example_says_what_it_is_and_how_to_run_it(module):
    assert module.__doc__.splitlines()[0].endswith(".")
    assert f"    python docs/examples/{module.__name__}.py" in module.__doc__.splitlines()[2]


def test_super_resolution_writes_the_network_whose_noise_it_prints(tmp_path):
    path = tmp_path / "network.onnx"
    text = printed(onnx_super_resolution, path, "--steps", 30)
    before, after = numbers(r"before ([\d.]+) dB\nPSNR after +([\d.]+) dB", text)
    with Image.open(onnx_super_resolution.PHOTOGRAPH) as image:
        photo = np.asarray(image.convert("RGB"), np.float64)[:330, :510].transpose(2, 0, 1) / 255
    low = photo.reshape(3, 110, 3, 170, 3).mean((2, 4))[None].astype(np.float32)
    (network,) = runtime(onnx.load(path), {"low": low})
    for made, ratio in ((low.repeat(3, 2).repeat(3, 3), before), (network, after)):
        assert abs(-10 * np.log10(np.mean((made[0] - photo) ** 2)) - ratio) < 0.02
    assert after > before + 0.1
    start = printed(onnx_super_resolution, path, "--steps", 0)  # from what was written
    assert numbers(r"before ([\d.]+) dB", start) == [after]


def test_classifier_learns_and_exports_what_onnx_runtime_computes(tmp_path):
    rng, path = np.random.default_rng(1), tmp_path / "network.onnx"
    onnx_classifier.write_network(path, rng)
    classify, weights = onnx_classifier.batched(path)
    learned, losses = onnx_classifier.trained(classify, weights, rng, 60)
    assert losses[0] == pytest.approx(np.log(4), abs=1e-5)  # all scores are 0 at the start
    assert {n for n, w in weights.items() if not np.array_equal(w, learned[n])} == set(onnx_classifier.TRAINED)

    proto = onnx.load(path)
    for tensor in proto.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(np.asarray(learned[tensor.name]), tensor.name))
    pictures, labels = onnx_classifier.stripes(rng, 100)
    expected = np.concatenate([runtime(proto, {"picture": picture[None]})[0] for picture in pictures])
    assert np.mean(expected.argmax(axis=1) == labels) > 0.9
    onnx_classifier.export(tmp_path / "artifact", classify, learned)
    actual = jax.export.deserialize((tmp_path / "artifact").read_bytes()).call(pictures)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.exhaustive
def test_classifier_prints_how_well_it_learns(tmp_path):
    text = printed(onnx_classifier, "--steps", 60, "--export", tmp_path / "artifact")
    start, end = numbers(r"loss: ([\d.]+) at the start, ([\d.]+) after 60 steps", text)
    assert end < 0.5 * start
    told, of = numbers(r"told: (\d+) of (\d+) pictures", text)
    assert told > 0.9 * of
    assert (tmp_path / "artifact").stat().st_size == numbers(r"wrote .*: (\d+) bytes", text)[0]
