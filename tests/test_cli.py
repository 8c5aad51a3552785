"""`dml-jax run` and `dml-jax check`: the documented models, their broken copies, devices and times."""

import json

import jax
import numpy as np
import pytest
from documented_models import FILES, copy_models, dml_jax_command
from model_cases import BROKEN, FOLDER, PRINTS
from PIL import Image

models = pytest.fixture(copy_models)


def test_every_model_has_its_numbers_and_a_broken_copy():
    assert sorted(PRINTS) == sorted(BROKEN) == FILES  # others are written of the examples, by example_models.py


@pytest.mark.parametrize("name", FILES)
def test_run_prints_directmls_numbers(name, models):
    result = dml_jax_command("run", models / name)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == f"Running on '{jax.devices()[0].device_kind}'"
    printed = [line for line in lines if line.startswith("Resource") and "written" not in line]
    assert printed == [f"Resource '{buffer}': {values}" for buffer, values in PRINTS[name].items()]
    assert all(line.endswith(" ms median (CPU)") for line in lines if line.startswith("Dispatch"))


@pytest.mark.parametrize("name", FILES)
def test_check_refuses_a_broken_copy_with_the_right_rule(name, models):
    assert dml_jax_command("check", models / name).exit_code == 0
    text = (models / name).read_text()
    original, replacement, rule = BROKEN[name]
    assert original in text
    (models / name).write_text(text.replace(original, replacement))
    for verb in ("check", "run"):
        result = dml_jax_command(verb, models / name)
        assert result.exit_code == 1
        assert rule in result.stderr
        assert all(line.startswith(("error: " + str(models / name), "  got ")) for line in result.stderr.splitlines())
        assert result.stdout == ""
    assert not (models / "out").exists()


def test_the_photograph_survives_the_way_there_and_back(models):
    def run():
        result = dml_jax_command("run", models / "photo.json")
        assert f"Resource 'restored' written to {str(models / 'out/restored.png')!r}" in result.output
        return {path.name: path.read_bytes() for path in (models / "out").iterdir()}

    first, second = run(), run()
    assert first == second
    assert sorted(first) == ["depth.npy", "depth.png", "restored.png"]
    with Image.open(FOLDER / "grace_hopper.jpg") as photo, Image.open(models / "out" / "restored.png") as restored:
        pixels = np.asarray(photo.convert("RGB"))
        np.testing.assert_array_equal(np.asarray(restored), pixels)
    with Image.open(models / "out" / "depth.png") as depth:
        four = np.asarray(depth)
    for tile, (y, x) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
        np.testing.assert_array_equal(four[300 * tile : 300 * (tile + 1)], pixels[y::2, x::2])
    assert np.load(models / "out" / "depth.npy").shape == (1, 12, 300, 256)


def test_output_dir_takes_the_files(models, tmp_path):
    result = dml_jax_command("run", models / "photo.json", "--output-dir", tmp_path / "elsewhere")
    assert result.exit_code == 0
    assert (tmp_path / "elsewhere" / "out" / "depth.png").exists()
    assert not (models / "out").exists()


def test_timing_options(models):
    model = models / "gather_elements.json"
    lines = dml_jax_command("run", model, "-i", 5, "-r", 2, "-w", 2, "-v", 2).output.splitlines()
    assert lines[1] == "Dispatch 'example': 5 iterations"
    assert lines[2].startswith("CPU Timings (Cold) : 2 samples, ")
    assert lines[3].startswith("CPU Timings (Hot)  : 3 samples, ")
    assert [line.split(":")[0] for line in lines[5:10]] == [f"iteration {i}" for i in range(5)]
    one = dml_jax_command("run", model, "-v", 1).output.splitlines()
    assert one[2].startswith("CPU Timings (Hot)  : 1 samples")
    timed = dml_jax_command("run", model, "-t", 50, "-I", 10).output.splitlines()[1]
    assert 2 <= int(timed.split(": ")[1].split(" ")[0]) <= 6


def test_feature_level(models):
    result = dml_jax_command("check", models / "gather_nd1.json", "--feature-level", "2_1")
    assert result.exit_code == 1
    assert "dispatchable 'example 1': GATHER_ND1: the operator must exist at feature level 2_1" in result.stderr
    assert dml_jax_command("check", models / "gather_nd1.json", "--feature-level", "3.0").exit_code == 0
    assert dml_jax_command("run", models / "gather_nd1.json", "--feature-level", "2_1").exit_code == 1
    unknown = dml_jax_command("check", models / "gather_nd1.json", "--feature-level", "9_9")
    assert unknown.exit_code == 2
    assert "feature_level must be one of" in unknown.stderr


def test_devices(models):
    listed = dml_jax_command("run", "-s").output.splitlines()
    assert any("(cpu:0)" in line for line in listed)
    assert "Running on" in dml_jax_command("run", models / "gather_nd.json", "-a", "CPU").output
    missing = dml_jax_command("run", models / "gather_nd.json", "--device", "RTX 9090")
    assert missing.exit_code == 2
    assert "no device matches 'RTX 9090'; there are" in missing.stderr


def test_check_lists_every_fault_of_every_file(models):
    text = (
        (models / "gather.json")
        .read_text()
        .replace('"Axis": 0', '"Axis": 7')
        .replace('"type": "print"', '"type": "show"')
    )
    (models / "gather.json").write_text(text)
    (models / "scatter.json").write_text("{")
    result = dml_jax_command("check", *(models / f for f in ("gather.json", "scatter.json", "gather_nd.json")))
    assert result.exit_code == 1
    assert result.stderr.count("Axis must be in") == 2
    assert result.stderr.count("'type' must be one of dispatch, print, writeFile, but it is 'show'") == 5
    assert "scatter.json: not JSON" in result.stderr
    assert "gather_nd.json: valid" in result.stdout


def test_64_bit_types_work(tmp_path):
    big = [2**40 + i for i in range(4)]
    model = {
        "resources": {
            "x": {"initialValuesDataType": "INT64", "initialValues": big},
            "i": {"initialValuesDataType": "UINT64", "initialValues": [2**63, 1]},
            "y": {"initialValuesDataType": "INT64", "initialValues": {"valueCount": 2, "value": 0}},
        },
        "dispatchables": {
            "g": {
                "type": "GATHER",
                "desc": {
                    "InputTensor": {"DataType": "INT64", "Sizes": [4]},
                    "IndicesTensor": {"DataType": "UINT64", "Sizes": [2]},
                    "OutputTensor": {"DataType": "INT64", "Sizes": [2]},
                    "Axis": 0,
                    "IndexDimensions": 1,
                },
            }
        },
        "commands": [
            {
                "type": "dispatch",
                "dispatchable": "g",
                "bindings": {"InputTensor": "x", "IndicesTensor": "i", "OutputTensor": "y"},
            },
            {"type": "print", "resource": "y"},
        ],
    }
    (tmp_path / "m.json").write_text(json.dumps(model))
    result = dml_jax_command("run", tmp_path / "m.json")
    assert f"Resource 'y': {big[3]}, {big[1]}" in result.output
    assert not jax.config.jax_enable_x64


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1e400", "soon"])
@pytest.mark.parametrize("option", ["-t", "-I"])
def test_times_must_be_finite(models, option, value):
    result = dml_jax_command("run", models / "gather_nd.json", option, value)
    assert result.exit_code == 2
    assert "is no number of milliseconds" in result.stderr


def test_the_output_is_bound_in_timed_iterations(models):
    """Without -v nothing is said; with it, that all iterations wrote into the memory that was bound."""
    quiet = dml_jax_command("run", models / "gather_nd.json", "-i", "3")
    assert "Memory" not in quiet.stdout
    result = dml_jax_command("run", models / "gather_nd.json", "-i", "3", "-v", "1")
    assert result.exit_code == 0
    assert "\nMemory: output of 16 bytes written in place, 0 bytes allocated; 0 bytes temporary\n" in result.stdout
