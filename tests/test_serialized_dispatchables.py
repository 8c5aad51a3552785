"""Dispatchables that are serialized graphs: a file beside the model, constants beside that file."""

import json

import numpy as np
import pytest
from commands import dml_jax_command
from model_building import faults, lines_of, saved, show, zeros
from serialized_graph_cases import MATMUL_ADD

from dml_jax.graphs.serialized.codec import encode

pytest.importorskip("flatbuffers")

WEIGHTS, BIAS = np.arange(25, dtype=np.float32).reshape(5, 5) / 4, np.float32([1, -2, 3, -4, 5])
INPUT = {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2, 3, 4, 5]}
BINDINGS = {"model_input": "x", "model_output": "y"}


@pytest.fixture
def folder(tmp_path):
    """The graph x @ weights + bias of Microsoft's sample, with other numbers."""
    (tmp_path / "graphs").mkdir()
    (tmp_path / "graphs" / "graph.bin").write_bytes(encode(MATMUL_ADD))
    WEIGHTS.tofile(tmp_path / "graphs" / "matmul_b_tensor.bin")
    BIAS.tofile(tmp_path / "graphs" / "add_b_tensor.bin")
    return tmp_path


def model(*commands, bound=BINDINGS, **fields):
    return {
        "resources": {"x": INPUT, "y": zeros(5)},
        "dispatchables": {"g": {"type": "dmlSerializedGraph", "sourcePath": "graphs/graph.bin", **fields}},
        "commands": [{"type": "dispatch", "dispatchable": "g", "bindings": bound}, *(commands or [show()])],
    }


def test_the_constants_are_those_of_the_files(folder):
    expected = np.arange(1, 6) @ WEIGHTS.astype(np.float64) + BIAS
    fields = {"type": "DMLserializedGRAPH", "executionFlags": ["DML_EXECUTION_FLAG_NONE"], "bindings": {}}
    assert lines_of(folder, model(**fields)) == [f"Resource 'y': {', '.join(f'{n:g}' for n in expected)}"]


def test_dispatched_twice(folder):
    """What the first dispatch wrote is what the second one reads: the constants stay."""
    form = model()
    form["commands"][1:] = [{**form["commands"][0], "bindings": {"model_input": "y", "model_output": "x"}}, show("x")]
    once = np.arange(1, 6) @ WEIGHTS.astype(np.float64) + BIAS
    twice = once @ WEIGHTS.astype(np.float64) + BIAS
    (line,) = lines_of(folder, form)
    np.testing.assert_allclose([float(n) for n in line.split(": ")[1].split(", ")], twice, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"bindings": {"matmul_b_tensor": "x"}}, "dispatchable 'g': 'bindings' must be empty, as constants come from"),
        ({"sourcePath": "none.bin"}, "dispatchable 'g': no file \"none.bin\" in the model's folder"),
        ({"sourcePath": 3}, "dispatchable 'g': 'sourcePath' must be a string, but it is 3"),
        ({"sourcepath": ""}, "dispatchable 'g': unknown field 'sourcepath'; did you mean 'sourcePath'"),
        ({"sourcePath": "model.json"}, "dispatchable 'g': 'model.json': serialized graph: "),
    ],
)
def test_fields_of_the_dispatchable(folder, change, found):
    assert faults(folder, model(**change))[0].startswith(found)


@pytest.mark.parametrize(
    ("bindings", "found"),
    [
        ({"model_input": "x"}, "model_output: it is not bound"),
        ({**BINDINGS, "add_b_tensor": "x"}, "add_b_tensor: it is OWNED_BY_DML, and bound in"),
        ({**BINDINGS, "model_inputs": "x"}, "unknown field 'model_inputs'; did you mean 'model_input'"),
        ({**BINDINGS, "model_output": "x"}, "model_input and model_output share bytes of 'x'"),
    ],
)
def test_bindings(folder, bindings, found):
    (fault,) = faults(folder, model(bound=bindings))
    assert fault.startswith("command 0 (dispatch): dispatchable 'g': ")
    assert found in fault


def test_constants_that_are_missing_and_too_short_are_both_listed(folder):
    (folder / "graphs" / "add_b_tensor.bin").unlink()
    WEIGHTS[:4].tofile(folder / "graphs" / "matmul_b_tensor.bin")
    found = faults(folder, model())
    assert [fault.split(": ")[:3] for fault in found] == [
        ["dispatchable 'g'", "'graph.bin'", "constant 'matmul_b_tensor'"],
        ["dispatchable 'g'", "'graph.bin'", "constant 'add_b_tensor'"],
    ]
    assert "must have the 100 bytes of FLOAT32[1,1,5,5] OWNED_BY_DML, but it has 80" in found[0]


@pytest.mark.parametrize("name", ["graphs/graph.bin", "graphs/add_b_tensor.bin"])
def test_its_files_are_not_written_over(folder, name):
    write = {"type": "writeFile", "resource": "y", "targetPath": name}
    assert faults(folder, model(write)) == [
        f"command 1 (writeFile): 'targetPath' {name!r} would overwrite a file that the model is read from"
    ]


def test_the_feature_level_holds_for_it(folder):
    (fault,) = faults(folder, model(), feature_level="1_0")
    assert fault.startswith("dispatchable 'g': 'graph.bin': the feature level must have what the graph is made of")


def test_it_is_no_node_of_a_graph(folder):
    form = model()
    form["dispatchables"]["outer"] = {"type": "DML_GRAPH_DESC", "desc": {"Nodes": {"a": "g"}}}
    assert "dispatchable 'outer': GRAPH: node 'a': no operator is named 'g'" in faults(folder, form)[0]


def test_the_command_checks_and_draws_it(folder):
    path = saved(folder, model())
    done = dml_jax_command("check", path, "--picture", folder / "g.dot", "--json")
    assert done.exit_code == 0
    assert json.loads(done.output)["files"][0]["operators"] == [
        {"where": "dispatchable 'g': node 'model_output_dmlEp_0'", "operator": "GEMM"}
    ]
    assert "model_output_dmlEp_0" in (folder / "g.dot").read_text()
    assert "valid" in dml_jax_command("check", path).output
