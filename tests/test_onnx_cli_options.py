"""The command on .onnx files, with sizes that a model leaves open and DxDispatch's spellings of options."""

import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from commands import dml_jax_command
from model_cases import FOLDER
from onnx_building import TensorProto, helper, model, onnx, runtime
from test_onnx_cli import STATISTICS, TIMED, files, lines_of

from dml_jax.command.run import run
from dml_jax.command.run_options import ALIASES
from dml_jax.core import memory_checks

# Free sizes.


@pytest.fixture
def free(tmp_path):
    """y = the rows of a, then those of b, and of neither the model says how many."""
    proto = model([helper.make_node("Concat", ["a", "b"], ["y"], axis=0)], {}, ["y"])
    for name, size in {"a": "n", "b": "m:o"}.items():
        proto.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [size, 2]))
        proto.graph.input[-1].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    np.save(tmp_path / "a.npy", np.ones((3, 2), np.float32))
    return tmp_path


@pytest.mark.parametrize(
    ("options", "shapes"),
    [
        ([], [(1, 2), (1, 2)]),
        (["-f", "n=5"], [(5, 2), (1, 2)]),
        (["-f", "n=5", "-f", "m:o=3"], [(5, 2), (3, 2)]),
        (["-F", "DATA_BATCH=4"], [(4, 2), (4, 2)]),
        (["-b", "a=5x2", "-b", "b=3x2"], [(5, 2), (3, 2)]),
        (["-f", "n:5"], [(5, 2), (1, 2)]),
        (["-f", "n:5", "-f", "m:o:3"], [(5, 2), (3, 2)]),
        (["--onnx_free_dim_name_override", "n:5"], [(5, 2), (1, 2)]),
        (["--onnx-free-dim-name-override", "n:5"], [(5, 2), (1, 2)]),
        (["-F", "DATA_BATCH:4"], [(4, 2), (4, 2)]),
        (["--onnx_free_dim_denotation_override", "DATA_BATCH:4"], [(4, 2), (4, 2)]),
        (["-b", "a:5,2", "-b", "b:3,2"], [(5, 2), (3, 2)]),
        (["--binding_shape", "a:5,2"], [(5, 2), (1, 2)]),
        (["-f", "n:5", "-b", "y:6,2"], [(5, 2), (1, 2)]),
    ],
)
def test_free_sizes(free, options, shapes):
    first, *_ = lines_of(free / "m.onnx", *options, "--output-dir", free / "out")
    shown = [f"{name!r} float32[{','.join(map(str, shape))}]" for name, shape in zip("ab", shapes, strict=True)]
    assert first == f"Generated inputs, all 0: {', '.join(shown)}"
    expected = runtime(
        onnx.load(free / "m.onnx"), {n: np.zeros(s, np.float32) for n, s in zip("ab", shapes, strict=True)}
    )
    np.testing.assert_array_equal(np.load(free / "out/y.npy"), expected[0])


def test_a_size_of_one_name_is_that_of_the_file(free):
    proto = onnx.load(free / "m.onnx")
    proto.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "n"
    onnx.save(proto, free / "m.onnx")
    first, *_ = lines_of(free / "m.onnx", "--input", free / "a.npy")
    assert first == "Generated inputs, all 0: 'b' float32[3,2]"


def test_shapes_that_are_given_are_not_tied_by_names(free):
    proto = onnx.load(free / "m.onnx")
    proto.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "n"
    onnx.save(proto, free / "m.onnx")
    for given, sizes in {"-b a:5,2 -b b:3,2": (5, 3), "-b a:5,2": (5, 1)}.items():
        *_, written = lines_of(free / "m.onnx", *given.split(), "--output-dir", free / "out")
        assert written.startswith(f"Output 'y' float32[{sum(sizes)},2] ")
        inputs = {name: np.zeros((n, 2), np.float32) for name, n in zip("ab", sizes, strict=True)}
        assert runtime(proto, inputs)[0].shape == (sum(sizes), 2)


def test_an_input_of_any_rank_needs_its_sizes(free):
    proto = onnx.load(free / "m.onnx")
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    onnx.save(proto, free / "m.onnx")
    result = dml_jax_command("run", free / "m.onnx")
    assert result.exit_code == 1
    fact = "the model must say how many dimensions it has, but does not: give a file, or its sizes as"
    assert f"input 'a': {fact} --binding-shape a=1x3x8\n" in result.stderr
    first, *_ = lines_of(free / "m.onnx", "-b", "a:7,2")
    assert first == "Generated inputs, all 0: 'a' float32[7,2], 'b' float32[1,2]"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-f", "k:2"], "--onnx-free-dim-name-override: no free size of an input is called 'k'; known are m:o, n"),
        (["-F", "BATCH:2"], "--onnx-free-dim-denotation-override: no free size of an input is called 'BATCH'; "),
        (["-b", "c:2,2"], "--binding-shape: no input or output is named 'c'; known are a, b, y"),
        (["-b", "a:2,3"], "input 'a': its sizes must be [?, 2], but they are [2, 3]"),
        (["-b", "a:2"], "input 'a': its sizes must be [?, 2], but they are [2]"),
        (["-b", "y:3,2"], "--binding-shape: 'y' must have its sizes, [2, 2], but they are [3, 2]"),
        (["--input", "a.npy", "-b", "a:4,2"], "--binding-shape: 'a' must have its sizes, [3, 2], but they are [4, 2]"),
        (["--input", "a.npy", "-f", "n:4"], "input 'a': its sizes must be [4, 2], but they are [3, 2]"),
        (["-f", "n:4000000000"], "the model needs 29.8 GiB for one array, and the machine has 1.0 GiB"),
    ],
)
def test_sizes_that_do_not_fit(free, options, words, monkeypatch):
    monkeypatch.chdir(free)
    monkeypatch.setattr(memory_checks, "_available", lambda: 2**30)
    before = files(free)
    result = dml_jax_command("run", "m.onnx", *options, "--output-dir", "out")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: m.onnx: ")
    assert words in result.stderr
    assert files(free) == before


# DxDispatch's command line.

PAGE = FOLDER.parent / "command.md"


def test_bindings_are_printed(free):
    for option in ("-p", "--print_onnx_bindings"):
        lines = lines_of(free / "m.onnx", "--input", free / "a.npy", option)
        assert lines[2:-1] == [
            *(
                "Input Tensor 'a':",
                f"  Resource  = explicit ({free / 'a.npy'})",
                "  Data Type = FLOAT",
                "  Shape     = [3,2]",
            ),
            *("", "Input Tensor 'b':", "  Resource  = implicit", "  Data Type = FLOAT", "  Shape     = [1,2]"),
            *("", "Output Tensor 'y':", "  Resource  = implicit", "  Data Type = FLOAT", "  Shape     = [4,2]", ""),
        ]


@pytest.mark.parametrize(
    "options",
    [
        {"--onnx-graph-optimization-level": ["-l", 99]},
        {"--onnx-logging-level": ["-L", 2]},
        {"--onnx-session-config-entry": ["-e", "a.b:0", "-e", "c:1"]},
        {
            "--onnx-graph-optimization-level": ["--onnx_graph_optimization_level", 0],
            "--onnx-logging-level": ["--onnx_logging_level", 4],
            "--onnx-session-config-entry": ["--onnx_session_config_entry", "a.b:0"],
        },
    ],
)
def test_settings_of_onnx_runtime_change_nothing(free, options):
    result = dml_jax_command("run", free / "m.onnx", *(part for option in options.values() for part in option))
    assert result.exit_code == 0
    notes = [f"note: {option} is a setting of ONNX Runtime and changes nothing here" for option in options]
    assert result.stderr.splitlines() == notes


def test_commands_are_told(free):
    lines = lines_of(free / "m.onnx", "--print_commands")
    assert (lines[0], lines[-1]) == (
        '[StartCmd][0000]: {"type": "dispatch", "dispatchable": "m.onnx"}',
        "[EndCmd][0000]",
    )
    lines = lines_of(FOLDER / "gather_elements.json", "--print-commands")
    assert lines[0].startswith('[StartCmd][0000]: {"type": "dispatch", "dispatchable": "example", "bindings": {')
    assert lines[2:] == [
        "[EndCmd][0000]",
        '[StartCmd][0001]: {"type": "print", "resource": "output"}',
        "Resource 'output': 4, 8, 3, 7, 2, 3",
        "[EndCmd][0001]",
    ]


def test_inputs_come_from_a_folder(free):
    (free / "data").mkdir()
    (free / "a.npy").rename(free / "data/a.npy")
    for option in ("--input-path", "--input_path"):
        for given in ("a.npy", "a=a.npy"):
            first, *_ = lines_of(free / "m.onnx", option, free / "data", "--input", given)
            assert first == "Generated inputs, all 0: 'b' float32[1,2]"


def test_sources_of_a_model_file_come_from_a_folder(free):
    (free / "other").mkdir()
    form = {
        "resources": {"a": {"initialValues": {"sourcePath": "a.npy"}}},
        "dispatchables": {"m": {"type": "onnx", "sourcePath": "m.onnx"}},
        "commands": [{"type": "print", "resource": "a"}],
    }
    (free / "other/model.json").write_text(json.dumps(form))
    assert dml_jax_command("run", free / "other/model.json").exit_code == 1
    assert lines_of(free / "other/model.json", "--input_path", free) == ["Resource 'a': 1, 1, 1, 1, 1, 1"]


def test_dxdispatch_spellings(free):
    """Every one that is documented leads to an option of ours, and a whole command line does what it says."""
    section = PAGE.read_text().split("\n### Options of DxDispatch\n")[1].split("\n## ")[0]
    renamed = re.findall(r"^\| .*`--(\w+)` \| `--([\w-]+)`.* \|$", section, re.MULTILINE)
    with_hyphens = re.findall(r"`--(\w+)`", section.rpartition(" |\n")[2])
    assert dict(renamed) | {name: name.replace("_", "-") for name in with_hyphens} == ALIASES
    assert {*ALIASES.values()} < {option.removeprefix("--") for p in run.params for option in p.opts}
    options = "--adapter cpu --dispatch_iterations 4 --dispatch_repeat 2 --warmup_samples 1 --dispatch_interval 1"
    *lines, _ = lines_of(free / "m.onnx", *options.split(), "--timing_verbosity", 1, "--output_path", free / "out")
    assert lines[2:] == [
        "Dispatch 'm.onnx': 4 iterations",
        f"CPU Timings (Cold) : {STATISTICS.format(1)}",
        f"CPU Timings (Hot)  : {STATISTICS.format(3)}",
    ]
    assert (free / "out/y.npy").exists()
    assert lines_of(free / "m.onnx", "--milliseconds_to_run", 0)[-1] == TIMED.format(1)
    assert dml_jax_command("run", "--show_adapters").output == dml_jax_command("run", "--show-devices").output
    level = dml_jax_command("run", FOLDER / "gather_nd1.json", "--dml_feature_level", "2.1")
    assert "GATHER_ND1: the operator must exist at feature level 2_1" in level.stderr


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_interruption(free):
    line = [
        sys.executable,
        "-m",
        "dml_jax",
        "run",
        str(free / "m.onnx"),
        "-t",
        "600000",
        "--output-dir",
        str(free / "out"),
    ]
    running = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not running.stdout.readline().startswith("Compiled in"):
        assert running.poll() is None
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=300)
    assert (running.returncode, errors) == (130, "interrupted\n")
    assert not (free / "out").exists()
