"""The benchmark of quantised networks, in small: the files, who is measured, and that all agree."""

from functools import partial

import numpy as np
import pytest
from checks import sampled
from onnx_building import numpy_helper, onnx, runtime

from benchmarks import quantised
from benchmarks.quantised import Network, convolutions, dense_layers, feed_forward, measured
from dml_jax.bench.onnx_image_networks import NetworkRun
from dml_jax.bench.results import Results
from dml_jax.bench.timing import Effort
from dml_jax.onnx import to_jax

DENSE = Network("dense", partial(dense_layers, (64, 128, 32)), None, (64,), (3,), "row", 0.05)
PICTURES = Network("convolutions", partial(convolutions, (8, 16)), None, (3, 32, 32), (1, 2), "picture", 0.05)


def block(dtype):
    files = (partial(feed_forward, 64, 96, dtype, is_quantised=q) for q in (False, True))
    return Network(f"block of {dtype}", *files, (64,), (3,), "row", 0.05, dtype)


SMALL = [DENSE, block("float32"), PICTURES, block("float16")]
IMPLEMENTATIONS = ["dml_jax", "floats", "constants", "ONNX Runtime", "ONNX Runtime floats"]


@pytest.mark.parametrize("network", sampled(SMALL, SMALL[:1]), ids=lambda network: network.name)
def test_a_network_is_measured_in_each_way(tmp_path, monkeypatch, network):
    monkeypatch.setattr("jax.default_backend", lambda: "cpu")
    found = list(measured([network], tmp_path, Effort(rounds=2, seconds=1e-4)))
    assert len(found) == len(network.batches)
    for batch, rows in zip(network.batches, found, strict=True):
        assert [row.contender for row in rows] == IMPLEMENTATIONS
        assert all(row.same_bits for row in rows)
        assert {row.case for row in rows} == {f"quantised {network.name}, {batch} {network.unit}{'s' * (batch > 1)}"}
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert {*quantised._files(network, tmp_path)} == {*before}
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before  # what is there is taken


def test_the_command_stores_and_shows_each_case(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(quantised, "NETWORKS", [block("float32")])
    quantised.main(["--models", str(tmp_path / "models"), "--json", str(tmp_path / "found.json")])
    ((case, rows),) = Results.read(tmp_path / "found.json").by_case()
    assert {"dml_jax", "floats", "constants"} <= {*rows}
    shown = capsys.readouterr().out
    assert shown.startswith(f"{case}: dml_jax ")
    assert f"| {case} | {rows['dml_jax'].of_copy:.2f} | " in shown
    assert len([*(tmp_path / "models").iterdir()]) == 2


def test_quantised_matrices_are_arguments_and_are_multiplied_as_integers(tmp_path):
    x = (DENSE.input(3).make(),)
    run = NetworkRun(onnx.load(quantised._files(DENSE, tmp_path)[0]), [x])
    weights = run.called.args[0]
    assert [(w.shape, w.dtype) for w in weights.values()] == [((64, 128), np.int8), ((128, 32), np.int8)]
    text = run.called.func.lower(weights, *x).as_text()
    products = [line for line in text.splitlines() if "dot_general" in line]
    assert len(products) == 2
    assert all("xi8>) ->" in line and "xi32>" in line for line in products)


def test_the_block_of_4_bits_is_that_of_its_floats():
    floats, bits = (feed_forward(64, 96, "float32", is_quantised=q) for q in (False, True))
    x = block("float32").input(3).make()
    (wanted,) = runtime(floats, {"x": x})
    np.testing.assert_allclose(to_jax(bits)(x), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    stored = [numpy_helper.to_array(tensor).nbytes for tensor in bits.graph.initializer]
    assert sum(stored) == 3 * 64 * 96 * (4 + 32 / 32) / 8  # bits of each weight, and a scale of 32 for 32 of them


def test_without_onnx_runtime_a_folder_must_have_its_files(tmp_path, monkeypatch):
    monkeypatch.setattr(quantised, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"dense\.quantised\.onnx must exist, as onnxruntime, which makes it, is not"):
        quantised._files(DENSE, tmp_path)
    made = quantised._files(block("float32"), tmp_path)
    assert all(path.exists() for path in made)
