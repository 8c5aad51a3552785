"""The command on serialized graphs: outputs as .npy files or none, constants beside the graph, benchmarks."""

import json
import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from commands import dml_jax_command
from model_cases import FOLDER
from operator_cases import f16, i64, u32

from dml_jax import Constant, DepthToSpaceDesc, ElementWiseIdentityDesc, GatherDesc, GraphDesc, TensorDesc
from dml_jax.array_models.serialized_graph_model import read_graph_model

pytest.importorskip("flatbuffers")


CHANNELS, PICTURE = i64(1, 4, 1, 1), i64(1, 1, 2, 2)
# The table lies column by column; its indices are bytes of the file of the graph.
TABLE = f16(2, 3, strides=(1, 2), flags="OWNED_BY_DML")
ROW, INDEX = f16(1, 3), u32(1, 1)
GRAPH = GraphDesc(
    {
        "enlarge": DepthToSpaceDesc(CHANNELS, PICTURE, 2),
        "index": Constant(np.uint32([1])),
        "pick": GatherDesc(TABLE, INDEX, ROW, axis=0, index_dimensions=1),
        "copy": ElementWiseIdentityDesc(ROW, ROW),
    },
    {
        ("enlarge", "input"): "x",
        ("pick", "input"): "table",
        ("pick", "indices"): ("index", "output"),
        ("copy", "input"): ("pick", "output"),
        "picture": ("enlarge", "output"),
        "layer/0:row": ("copy", "output"),
    },
)


@pytest.fixture
def folder(tmp_path):
    """The graph, its constant and an input."""
    (tmp_path / "graph.bin").write_bytes(GRAPH.to_bytes())
    np.float16([1, 4, 2, 5, 3, 6]).tofile(tmp_path / "table.bin")
    np.save(tmp_path / "x.npy", np.arange(4).reshape(1, 4, 1, 1) + 2**40)
    return tmp_path


def files(folder):
    return sorted(path.name for path in folder.rglob("*"))


@pytest.mark.parametrize("name", ["x=", ""])
def test_run_writes_every_output(folder, name):
    out = folder / "out"
    result = dml_jax_command("run", folder / "graph.bin", "--input", f"{name}{folder / 'x.npy'}", "--output-dir", out)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == [
        f"Running on '{jax.devices()[0].device_kind}'",
        f"Output 'picture' int64[1,1,2,2] written to {str(out / 'picture.npy')!r}",
        f"Output 'layer/0:row' float16[1,3] written to {str(out / 'layer_0_row.npy')!r}",
    ]
    np.testing.assert_array_equal(np.load(out / "picture.npy"), [[[[2**40, 2**40 + 1], [2**40 + 2, 2**40 + 3]]]])
    np.testing.assert_array_equal(np.load(out / "layer_0_row.npy"), np.float16([[4, 5, 6]]))
    assert not jax.config.jax_enable_x64


def test_outputs_go_to_the_folder_of_the_graph(folder):
    assert dml_jax_command("run", folder / "graph.bin", "--input", folder / "x.npy", "-a", "cpu").exit_code == 0
    assert files(folder) == ["graph.bin", "layer_0_row.npy", "picture.npy", "table.bin", "x.npy"]


def changed(folder, **tensor):
    """The graph with another table, as another file."""
    pick = GRAPH.nodes["pick"]
    table = TensorDesc(**{"data_type": "FLOAT16", "sizes": (2, 3), "flags": "OWNED_BY_DML", **tensor})
    nodes = {**GRAPH.nodes, "pick": GatherDesc(table, pick.indices, pick.output, 0, 1)}
    (folder / "graph.bin").write_bytes(GraphDesc(nodes, GRAPH.edges).to_bytes())


def renamed(folder, name):
    """The graph with a constant of another name, which has as many letters."""
    content = (folder / "graph.bin").read_bytes()
    assert len(name) == len("table")
    (folder / "graph.bin").write_bytes(content.replace(b"table", name.encode()))


BREAKS = {
    "no such constant": (lambda f: (f / "table.bin").unlink(), "constant 'table': "),
    "a folder": (lambda f: ((f / "table.bin").unlink(), (f / "table.bin").mkdir()), "but it is not a file"),
    "too short": (lambda f: np.zeros(5, np.float16).tofile(f / "table.bin"), "must have the 12 bytes of FLOAT16[2,3]"),
    "too long": (lambda f: np.zeros(7, np.float16).tofile(f / "table.bin"), "but it has 14"),
    "another folder": (lambda f: renamed(f, "../up"), "constant '../up': it must be named as a file beside that of"),
    "another drive": (lambda f: renamed(f, "C:abc"), "constant 'C:abc': it must be named as a file beside that of"),
    "not written down": (lambda f: renamed(f, "a\\bcd"), "constant 'a\\\\bcd': it must be named as a file beside"),
    "no graph": (lambda f: shutil.copy(f / "table.bin", f / "graph.bin"), "serialized graph: "),
    "an empty file": (lambda f: (f / "graph.bin").write_bytes(b""), "must lie in the 0 bytes of the file"),
    "no file": (lambda f: (f / "graph.bin").unlink(), "it cannot be read: No such file or directory"),
}


@pytest.mark.parametrize("break_it", BREAKS)
@pytest.mark.parametrize("subcommand", ["run", "check"])
def test_faults_write_nothing(folder, break_it, subcommand):
    change, words = BREAKS[break_it]
    change(folder)
    before = files(folder)
    given = ("--input", folder / "x.npy") if subcommand == "run" else ()
    result = dml_jax_command(subcommand, folder / "graph.bin", *given)
    assert result.exit_code == 1, result.output
    assert result.stderr.startswith(f"error: {folder / 'graph.bin'}: ")
    assert words in result.stderr
    assert "Traceback" not in result.output
    assert files(folder) == before


def test_a_constant_may_be_as_long_as_its_tensor_or_its_elements(folder):
    changed(folder, sizes=(1, 3), total_tensor_size_in_bytes=8)
    for count in (3, 4):
        np.arange(count, dtype=np.float16).tofile(folder / "table.bin")
        assert dml_jax_command("run", folder / "graph.bin", "--input", folder / "x.npy").exit_code == 0
        np.testing.assert_array_equal(np.load(folder / "layer_0_row.npy"), np.float16([[0, 1, 2]]))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["x.npy", "x.npy"], "too many --input: the model's inputs are x, and nothing is left for x.npy"),
        (["x.npy", "table=x.npy"], "--input table=x.npy: no input is named 'table'; known are x"),
        (["none.npy"], "input 'x': "),
        (["narrow.npy"], "input 'x': its type must be int64, but it is int32"),
        (["short.npy"], "GRAPH: the array of x must have its sizes, (1, 4, 1, 1), but its shape is (4,)"),
    ],
)
def test_wrong_inputs_write_nothing(folder, given, words, monkeypatch):
    np.save(folder / "narrow.npy", np.zeros((1, 4, 1, 1), np.int32))
    np.save(folder / "short.npy", np.zeros(4, np.int64))
    monkeypatch.chdir(folder)
    before = files(folder)
    result = dml_jax_command("run", "graph.bin", *(part for file in given for part in ("--input", file)))
    assert result.exit_code == 1, result.output
    assert words in result.stderr
    assert files(folder) == before


def test_files_that_are_read_are_not_overwritten(folder):
    shutil.copy(folder / "x.npy", folder / "picture.npy")
    result = dml_jax_command("run", folder / "graph.bin", "--input", folder / "picture.npy")
    assert result.exit_code == 1
    assert "output 'picture' must not overwrite what is read" in result.stderr


def test_check_lists_operators_and_faults_of_a_feature_level(folder):
    result = dml_jax_command("check", folder / "graph.bin")
    assert result.exit_code == 0, result.output
    assert f"{folder / 'graph.bin'}: node 'pick': GATHER is accepted at feature level 6_4" in result.output
    result = dml_jax_command("check", folder / "graph.bin", "--feature-level", "4_0", "--json")
    assert result.exit_code == 1
    (checked,) = json.loads(result.stdout)["files"]
    assert not checked["valid"]
    facts = {fault["where"]: fault["what"] for fault in checked["faults"]}
    assert facts["node 'index'"].endswith("but constant nodes exist from feature level 6_2 on")
    assert {"where": "node 'pick'", "operator": "GATHER"} in checked["operators"]


# Benchmarks.


@pytest.mark.parametrize(
    ("options", "times"),
    [
        ([], ["Dispatch 'graph.bin': 1 iterations, # ms median (CPU)"]),
        (["-i", 3, "-r", 2, "-I", 1], ["Dispatch 'graph.bin': 3 iterations, # ms median (CPU)"]),
        (["-t", 0], ["Dispatch 'graph.bin': 1 iterations, # ms median (CPU)"]),
        (
            ["-i", 2, "-w", 0, "-v", 2],
            [
                "Dispatch 'graph.bin': 2 iterations",
                "CPU Timings (Hot)  : 2 samples, # ms average, # ms min, # ms median, # ms max",
                "The timings of each iteration:",
                "iteration 0: # ms (CPU)",
                "iteration 1: # ms (CPU)",
            ],
        ),
    ],
)
def test_a_benchmark_needs_no_inputs_and_writes_nothing(folder, options, times):
    before = files(folder)
    result = dml_jax_command("run", folder / "graph.bin", *options)
    assert result.exit_code == 0, result.output
    lines = [re.sub(r"\d+\.\d+ (m?s)", r"# \1", line) for line in result.output.splitlines()]
    assert lines[1:] == ["Generated inputs, all 0: 'x' int64[1,4,1,1]", "Compiled in # s", *times]
    assert files(folder) == before


def test_a_benchmark_writes_to_a_folder_that_is_given(folder):
    given = ("--input", "x.npy", "--input_path", folder)
    result = dml_jax_command("run", folder / "graph.bin", *given, "-i", 2, "--output-dir", folder / "out")
    assert result.exit_code == 0, result.output
    np.testing.assert_array_equal(np.load(folder / "out/picture.npy").ravel(), np.arange(4) + 2**40)
    np.testing.assert_array_equal(np.load(folder / "out/layer_0_row.npy"), np.float16([[4, 5, 6]]))
    assert files(folder / "out") == ["layer_0_row.npy", "picture.npy"]


def test_constants_stay_on_the_device(folder):
    """Of what is timed, nothing is moved to the device."""
    with jax.enable_x64(True):
        program = read_graph_model(folder / "graph.bin", "6_4").prepare([jnp.zeros((1, 4, 1, 1), jnp.int64)])
        with jax.transfer_guard("disallow"):
            _, row = program.run()
    np.testing.assert_array_equal(row, np.float16([[4, 5, 6]]))


def test_times_as_json(folder):
    result = dml_jax_command("run", folder / "graph.bin", "-i", 3, "--json", "--print-commands")
    assert result.exit_code == 0, result.output
    (dispatch,) = json.loads(result.stdout)["dispatches"]
    assert (dispatch["dispatchable"], len(dispatch["milliseconds"]), dispatch["warmup"]) == ("graph.bin", 3, 1)
    assert dispatch["compile_seconds"] > 0
    assert result.stderr.splitlines()[1] == '[StartCmd][0000]: {"type": "dispatch", "dispatchable": "graph.bin"}'
    assert result.stderr.splitlines()[-1] == "[EndCmd][0000]"


def test_a_feature_level_is_checked_first(folder):
    result = dml_jax_command("run", folder / "graph.bin", "--dml_feature_level", "4.0")
    assert result.exit_code == 1
    constants, types, *_ = result.stderr.splitlines()
    assert constants.startswith(f"error: {folder / 'graph.bin'}: node 'index': ")
    assert constants.endswith("but constant nodes exist from feature level 6_2 on")
    assert types.startswith(f"error: {folder / 'graph.bin'}: node 'enlarge': DEPTH_TO_SPACE: InputTensor.DataType must")
    assert not (folder / "picture.npy").exists()
    assert dml_jax_command("run", folder / "graph.bin", "--feature-level", "6_2").exit_code == 0


def test_options_of_model_files_are_refused(folder):
    result = dml_jax_command("check", folder / "graph.bin", FOLDER / "gather.json", "--output-dir", folder)
    assert result.exit_code == 2
    assert "--output-dir is for DxDispatch model files only" in result.stderr
