"""The command on .onnx files: all outputs as .npy files or none; what feature levels take; wrong command lines."""

import shutil

import jax
import numpy as np
import pytest
from click.testing import CliRunner
from model_cases import FOLDER
from onnx_building import TensorProto, helper, model

from dml_jax.command.main import command


def dml_jax_command(*arguments):
    """Runs the command inside this process."""
    return CliRunner().invoke(command, [str(a) for a in arguments])


@pytest.fixture
def folder(tmp_path):
    """A model that gathers rows of 64-bit integers, with its inputs."""
    nodes = [
        helper.make_node("Gather", ["table", "rows"], ["picked"], name="pick"),
        helper.make_node("Unsqueeze", ["picked", "axes"], ["layer/0:y"], name="wrap"),
    ]
    table, rows = np.int64([[2**40, 1], [2, 3]]), np.int64([1, -2])
    proto = model(nodes, {"table": table, "rows": rows}, ["picked", "layer/0:y"], {"axes": np.int64([0])})
    for output, rank in zip(proto.graph.output, (2, 3), strict=True):
        output.CopyFrom(helper.make_tensor_value_info(output.name, TensorProto.INT64, [None] * rank))
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    np.save(tmp_path / "table.npy", table)
    np.save(tmp_path / "rows.npy", rows)
    return tmp_path


def files(folder):
    return sorted(path.name for path in folder.rglob("*"))


@pytest.mark.parametrize("named", [False, True])
def test_run_writes_every_output(folder, named):
    table, rows, out = folder / "table.npy", folder / "rows.npy", folder / "out"
    given = [f"rows={rows}", f"table={table}"] if named else [table, rows]
    result = dml_jax_command("run", folder / "m.onnx", "--input", given[0], "--input", given[1], "--output-dir", out)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == [
        f"Running on '{jax.devices()[0].device_kind}'",
        f"Output 'picked' int64[2,2] written to {str(out / 'picked.npy')!r}",
        f"Output 'layer/0:y' int64[1,2,2] written to {str(out / 'layer_0_y.npy')!r}",
    ]
    np.testing.assert_array_equal(np.load(out / "picked.npy"), [[2, 3], [2**40, 1]])
    assert np.load(out / "layer_0_y.npy").shape == (1, 2, 2)
    assert not jax.config.jax_enable_x64


def test_outputs_go_to_the_folder_of_the_model(folder):
    given = ("--input", folder / "table.npy", "--input", folder / "rows.npy", "-a", "cpu")
    assert dml_jax_command("run", folder / "m.onnx", *given).exit_code == 0
    assert files(folder) == ["layer_0_y.npy", "m.onnx", "picked.npy", "rows.npy", "table.npy"]


def run_with(folder, *given, model="m.onnx"):
    options = [part for file in given for part in ("--input", file)]
    return dml_jax_command("run", folder / model, *options, "--output-dir", folder / "out")


def test_errors_write_nothing(folder):
    table, rows = folder / "table.npy", folder / "rows.npy"
    np.save(folder / "wide.npy", np.zeros((2, 2), np.float32))
    np.save(folder / "long.npy", np.zeros(3, np.int64))
    np.save(folder / "objects.npy", np.array([{}]), allow_pickle=True)
    np.savez(folder / "several.npz", a=np.zeros(1))
    (folder / "text.npy").write_text("1 2 3")
    before = files(folder)
    for given, text in [
        ((table,), "--input must give a file to each input of the model, table, rows, but 'rows' has none"),
        ((table, rows, rows), "to each input of the model, table, rows, but"),
        ((f"rows={rows}", f"rows={rows}"), "every input must be given once, but 'rows' is given twice"),
        ((f"row={rows}",), f"--input row={rows}: no input is named 'row'; did you mean 'rows'?"),
        ((f"tabel={table}", rows), "tabel="),
        ((table, folder / "none.npy"), "input 'rows': "),
        ((table, folder / "text.npy"), "must be a .npy file of numbers, but"),
        ((table, folder / "objects.npy"), "must be a .npy file of numbers, but"),
        ((table, folder / "several.npz"), "must be a .npy file, but it is an archive"),
        ((folder / "wide.npy", rows), "input 'table': its type must be int64, but it is float32"),
        ((table, folder / "long.npy"), "input 'rows': its sizes must be [2], but they are [3]"),
    ]:
        result = run_with(folder, *given)
        assert result.exit_code == 1, result.output
        assert result.stderr.startswith(f"error: {folder / 'm.onnx'}: ")
        assert text in result.stderr
        assert "Traceback" not in result.output
        assert files(folder) == before


def test_models_that_cannot_run_write_nothing(folder):
    proto = model([helper.make_node("LSTM", ["x"], ["y"], name="memory")], {"x": np.zeros(1)}, ["y"])
    (folder / "lstm.onnx").write_bytes(proto.SerializeToString())
    (folder / "broken.onnx").write_bytes(b"nothing")
    for name, text in [
        ("lstm.onnx", "  LSTM (node 'memory')"),
        ("broken.onnx", "is no ONNX model"),
        ("none.onnx", "cannot be read: No such file or directory"),
    ]:
        result = run_with(folder, model=name)
        assert result.exit_code == 1
        assert text in result.stderr
        assert not (folder / "out").exists()


def test_files_that_are_read_are_not_overwritten(folder):
    proto = model([helper.make_node("Identity", ["x"], ["rows"])], {"x": np.int64([1, -2])}, ["rows"])
    (folder / "i.onnx").write_bytes(proto.SerializeToString())
    result = dml_jax_command("run", folder / "i.onnx", "--input", folder / "rows.npy")
    assert result.exit_code == 1
    assert "output 'rows' must not overwrite what is read" in result.stderr
    np.testing.assert_array_equal(np.load(folder / "rows.npy"), [1, -2])


def test_outputs_of_one_file_name_are_refused(folder):
    nodes = [helper.make_node("Identity", ["x"], [name]) for name in ("a/b", "a:b")]
    proto = model(nodes, {"x": np.int64([1, -2])}, ["a/b", "a:b"])
    (folder / "two.onnx").write_bytes(proto.SerializeToString())
    result = run_with(folder, folder / "rows.npy", model="two.onnx")
    assert result.exit_code == 1
    assert "every output must have a file of its own, but 'a/b' and 'a:b' give 'a_b.npy'" in result.stderr


def test_a_failed_write_leaves_none(folder):
    out = folder / "out"
    (out / "layer_0_y.npy").mkdir(parents=True)
    result = run_with(folder, folder / "table.npy", folder / "rows.npy")
    assert result.exit_code == 1
    assert "cannot be written" in result.stderr
    assert not (out / "picked.npy").exists()


def test_types_that_npy_has_no_name_for(tmp_path):
    bfloat16 = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
    x = np.arange(3).astype(bfloat16)
    proto = model([helper.make_node("Identity", ["x"], ["y"])], {"x": x}, ["y"])
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    np.save(tmp_path / "x.npy", x)
    result = dml_jax_command("run", tmp_path / "m.onnx", "--input", tmp_path / "x.npy")
    assert result.exit_code == 0, result.output
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy").view(bfloat16), x)


# Checking.


def test_check_says_which_nodes_a_level_takes(folder):
    path = folder / "m.onnx"
    fine = dml_jax_command("check", path)
    assert fine.exit_code == 0
    assert fine.output.splitlines() == [
        f"{path}: Gather node 'pick': GATHER is accepted at feature level 6_4",
        f"{path}: Unsqueeze node 'wrap': ELEMENT_WISE_IDENTITY is accepted at feature level 6_4",
    ]
    refused = dml_jax_command("check", path, "--feature-level", "3_0")
    assert refused.exit_code == 1
    assert refused.stdout == ""
    assert refused.stderr.startswith(f"error: {path}: Gather node 'pick': GATHER: InputTensor.DataType must be one of")
    assert "it is INT64, which feature level 4_1 accepts" in refused.stderr


def test_check_lists_every_node_and_file(folder):
    x = np.zeros((1, 4, 1, 1), np.float32)
    nodes = [
        helper.make_node("DepthToSpace", ["x"], ["a"], name="d", blocksize=2),
        helper.make_node("ScatterND", ["x", "i", "x"], ["b"], name="s", reduction="max"),
    ]
    proto = model(nodes, {"x": x}, ["a", "b"], {"i": np.int64([[0]])})
    for output in proto.graph.output:
        output.CopyFrom(helper.make_tensor_value_info(output.name, 1, [None] * 4))
    (folder / "two.onnx").write_bytes(proto.SerializeToString())
    shutil.copy(FOLDER / "gather.json", folder)
    result = dml_jax_command("check", *(folder / n for n in ("two.onnx", "none.onnx", "gather.json")))
    assert result.exit_code == 1
    assert "DepthToSpace node 'd': DEPTH_TO_SPACE1 is accepted at feature level 6_4" in result.stdout
    assert "gather.json: valid at feature level 6_4" in result.stdout
    assert "ScatterND node 's': reduction must be none in DirectML, but it is max" in result.stderr
    assert "none.onnx: cannot be read" in result.stderr


# Wrong command lines.


@pytest.mark.parametrize(
    ("option", "shown"),
    [
        (("-i", "3"), "--iterations"),
        (("-r", "2"), "--repeat"),
        (("-t", "5"), "--milliseconds"),
        (("-w", "1"), "--warmup"),
        (("-I", "1"), "--interval"),
        (("-v", "1"), "--verbosity"),
        (("--feature-level", "3_0"), "--feature-level"),
    ],
)
def test_options_of_model_files_are_refused(folder, option, shown):
    result = dml_jax_command("run", folder / "m.onnx", *option)
    assert result.exit_code == 2
    assert f"{shown} is for a DxDispatch model file only" in result.stderr


def test_options_of_onnx_files_are_refused(folder):
    result = dml_jax_command("run", FOLDER / "gather.json", "--input", "a.npy")
    assert result.exit_code == 2
    assert "--input is for a .onnx or .bin file only" in result.stderr
    result = dml_jax_command("check", folder / "m.onnx", "--output-dir", folder)
    assert result.exit_code == 2
    assert "--output-dir is for DxDispatch model files only" in result.stderr
    missing = dml_jax_command("run", folder / "m.onnx", "-a", "RTX 9090")
    assert missing.exit_code == 2


def test_help_says_what_onnx_files_take():
    text = dml_jax_command("run", "--help").output
    assert "--input [NAME=]FILE" in text
    assert ".onnx" in text
    assert ".onnx" in dml_jax_command("check", "--help").output
