"""The command on .onnx files: outputs as .npy files or none, benchmarks, feature levels, wrong command lines."""

import json
import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from commands import dml_jax_command
from model_cases import FOLDER
from onnx_building import TensorProto, helper, model, onnx, runtime

from dml_jax.array_models.onnx_model import read_onnx_file


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
        ((table, rows, rows), "too many --input: the model's inputs are table, rows, and nothing is left for"),
        ((f"rows={rows}", f"rows={rows}"), "every input must be given once, but 'rows' is given twice"),
        ((f"row={rows}",), f"--input row={rows}: no input is named 'row'; did you mean 'rows'?"),
        ((f"tabel={table}", rows), "tabel="),
        ((table, folder / "none.npy"), "input 'rows': "),
        ((table, folder / "text.npy"), "must be a .npy file of numbers, but"),
        ((table, folder / "objects.npy"), "must be a .npy file of numbers, but"),
        ((table, folder / "several.npz"), "must be a .npy file of numbers, but it is an archive"),
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
    proto = model([helper.make_node("StringNormalizer", ["x"], ["y"], name="memory")], {"x": np.zeros(1)}, ["y"])
    (folder / "strings.onnx").write_bytes(proto.SerializeToString())
    (folder / "broken.onnx").write_bytes(b"nothing")
    for name, text in [
        ("strings.onnx", "  StringNormalizer (node 'memory')"),
        ("broken.onnx", "is not an ONNX model"),
        ("none.onnx", "cannot be read: No such file or directory"),
    ]:
        result = run_with(folder, model=name)
        assert result.exit_code == 1
        assert text in result.stderr
        assert not (folder / "out").exists()


@pytest.mark.parametrize("kind", ["compiled", "node by node"])
def test_a_seed_of_random_numbers(tmp_path, kind):
    """The same seed gives the same numbers, and no seed is 0."""
    nodes = [helper.make_node("RandomNormalLike", ["x"], ["z"], name="noise")]
    x = np.zeros(3, np.float32)
    if kind == "node by node":
        nodes += [helper.make_node("NonZero", ["x"], ["never"])]
    proto = model(nodes, {"x": x}, ["z", "never"][: len(nodes)])
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    np.save(tmp_path / "x.npy", x)
    numbers = []
    for options in ([], ["--seed", 0], ["--seed", 1], ["--seed", 2**63 - 1]):
        result = dml_jax_command("run", tmp_path / "m.onnx", "--input", tmp_path / "x.npy", *options)
        assert result.exit_code == 0, result.output
        assert ("run node by node" in result.output) == (kind == "node by node")
        numbers.append(np.load(tmp_path / "z.npy"))
    np.testing.assert_array_equal(numbers[0], numbers[1])
    assert len(np.unique(numbers[1:])) == 9


def test_files_that_are_read_are_not_overwritten(folder):
    proto = model([helper.make_node("Identity", ["x"], ["rows"])], {"x": np.int64([1, -2])}, ["rows"])
    (folder / "i.onnx").write_bytes(proto.SerializeToString())
    result = dml_jax_command("run", folder / "i.onnx", "--input", folder / "rows.npy")
    assert result.exit_code == 1
    assert "output 'rows' must not overwrite what is read" in result.stderr
    np.testing.assert_array_equal(np.load(folder / "rows.npy"), [1, -2])


@pytest.mark.parametrize("of_a_node", [False, True])
def test_weights_beside_the_model_are_not_overwritten(tmp_path, of_a_node):
    """The output 'y' would go to the file that the weights are read from."""
    weights = helper.make_tensor("w", TensorProto.FLOAT, [2], np.float32([1, 2]).tobytes(), raw=True)
    onnx.external_data_helper.set_external_data(weights, "y.npy")
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": np.zeros(2, np.float32)}, ["y"])
    if of_a_node:
        proto.graph.node.insert(0, helper.make_node("Constant", [], ["w"], value=weights))
    else:
        proto.graph.initializer.append(weights)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    np.float32([1, 2]).tofile(tmp_path / "y.npy")
    np.save(tmp_path / "x.npy", np.float32([10, 20]))
    result = dml_jax_command("run", tmp_path / "m.onnx", "--input", tmp_path / "x.npy")
    assert result.exit_code == 1
    assert "output 'y' must not overwrite what is read" in result.stderr
    assert (tmp_path / "y.npy").read_bytes() == np.float32([1, 2]).tobytes()
    elsewhere = dml_jax_command(
        "run", tmp_path / "m.onnx", "--input", tmp_path / "x.npy", "--output-dir", tmp_path / "o"
    )
    assert elsewhere.exit_code == 0, elsewhere.output
    np.testing.assert_array_equal(np.load(tmp_path / "o/y.npy"), [11, 22])


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


def test_a_folder_that_cannot_be_made_is_named(folder):
    new = folder / "m.onnx" / "new"  # below a file
    given = (word for name in ("table", "rows") for word in ("--input", folder / f"{name}.npy"))
    result = dml_jax_command("run", folder / "m.onnx", *given, "--output-dir", new)
    assert result.exit_code == 1
    assert f"m.onnx: the folder {new} cannot be made: Not a directory; --output-dir chooses another" in result.stderr


@pytest.mark.parametrize("subcommand", ["run", "check"])
def test_a_file_that_is_no_model_is_named_once(tmp_path, subcommand):
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"nothing")
    result = dml_jax_command(subcommand, path)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {path}: is not an ONNX model")


def test_types_that_npy_has_no_name_for(tmp_path):
    bfloat16 = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
    x = np.arange(3).astype(bfloat16)
    proto = model([helper.make_node("Identity", ["x"], ["y"])], {"x": x}, ["y"])
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    np.save(tmp_path / "x.npy", x)
    result = dml_jax_command("run", tmp_path / "m.onnx", "--input", tmp_path / "x.npy")
    assert result.exit_code == 0, result.output
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy").view(bfloat16), x)


# Benchmarks.


def lines_of(*arguments):
    """What a run prints, without the name of the device and times."""
    result = dml_jax_command("run", *arguments)
    assert result.exit_code == 0, result.output
    assert result.output.startswith("Running on ")
    return [re.sub(r"\d+\.\d+ (m?s)", r"# \1", line) for line in result.output.splitlines()[1:]]


GENERATED = "Generated inputs, all 0: 'table' int64[2,2], 'rows' int64[2]"
COMPILED = "Compiled in # s"
TIMED = "Dispatch 'm.onnx': {} iterations, # ms median (CPU)"
STATISTICS = "{} samples, # ms average, # ms min, # ms median, # ms max"


@pytest.mark.parametrize(
    ("options", "times"),
    [
        ([], [TIMED.format(1)]),
        (["-i", 3], [TIMED.format(3)]),
        (["-i", 2, "-r", 3], [TIMED.format(2)]),
        (["-i", 5, "-t", 0], [TIMED.format(1)]),
        (["-I", 1, "-w", 0], [TIMED.format(1)]),
        (
            ["-i", 4, "-w", 3, "-v", 1],
            [
                "Dispatch 'm.onnx': 4 iterations",
                f"CPU Timings (Cold) : {STATISTICS.format(3)}",
                f"CPU Timings (Hot)  : {STATISTICS.format(1)}",
            ],
        ),
        (
            ["-i", 2, "-w", 0, "-v", 2],
            [
                "Dispatch 'm.onnx': 2 iterations",
                f"CPU Timings (Hot)  : {STATISTICS.format(2)}",
                "The timings of each iteration:",
                "iteration 0: # ms (CPU)",
                "iteration 1: # ms (CPU)",
            ],
        ),
    ],
)
def test_a_benchmark_needs_no_inputs_and_writes_nothing(folder, options, times):
    before = files(folder)
    assert lines_of(folder / "m.onnx", *options) == [GENERATED, COMPILED, *times]
    assert files(folder) == before


def test_a_benchmark_of_given_inputs_writes_nothing(folder):
    before = files(folder)
    given = ("--input", folder / "table.npy", "--input", folder / "rows.npy")
    assert lines_of(folder / "m.onnx", *given, "-i", 2) == [COMPILED, TIMED.format(2)]
    assert files(folder) == before


def test_a_benchmark_writes_to_a_folder_that_is_given(folder):
    """Of the last iteration; an input without a file is 0."""
    out = folder / "out"
    options = ("--input", f"table={folder / 'table.npy'}", "--output-dir", out, "-i", 2)
    *lines, picked, _ = lines_of(folder / "m.onnx", *options)
    assert lines == ["Generated inputs, all 0: 'rows' int64[2]", COMPILED, TIMED.format(2)]
    assert picked == f"Output 'picked' int64[2,2] written to {str(out / 'picked.npy')!r}"
    inputs = {"table": np.load(folder / "table.npy"), "rows": np.zeros(2, np.int64)}
    expected, _ = runtime(onnx.load(folder / "m.onnx"), inputs)
    np.testing.assert_array_equal(np.load(out / "picked.npy"), expected)


def test_times_as_json(folder):
    result = dml_jax_command("run", folder / "m.onnx", "-i", 4, "-w", 2, "--json")
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert printed.keys() == {"device", "dispatches"}
    (dispatch,) = printed["dispatches"]
    assert dispatch.keys() == {"dispatchable", "milliseconds", "warmup", "compile_seconds"}
    assert (dispatch["dispatchable"], len(dispatch["milliseconds"]), dispatch["warmup"]) == ("m.onnx", 4, 2)
    assert dispatch["compile_seconds"] > 0
    assert GENERATED in result.stderr


def test_weights_stay_on_the_device(tmp_path):
    """Of what is timed, nothing is moved to the device."""
    weights = np.arange(6000, dtype=np.float32).reshape(3, 2000)
    proto = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": np.zeros((1, 3), np.float32)}, ["y"], {"w": weights}
    )
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    program = read_onnx_file(tmp_path / "m.onnx", {}, {}, ()).prepare([jnp.float32([[1, 10, 100]])])
    with jax.transfer_guard("disallow"):
        (y,) = program.run()
    np.testing.assert_array_equal(y, np.float32([[1, 10, 100]]) @ weights)


def test_initializers_that_decide_a_shape_are_part_of_the_program(tmp_path):
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="nearest")
    proto = model([node], {"x": np.zeros((1, 1, 2, 2), np.float32)}, ["y"], {"scales": np.float32([1, 1, 2, 3])})
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    assert lines_of(tmp_path / "m.onnx")[1:] == [COMPILED, TIMED.format(1)]


def test_data_that_decide_a_shape_run_node_by_node(tmp_path):
    proto = model([helper.make_node("Range", ["a", "b", "c"], ["y"])], {n: np.int64(0) for n in "abc"}, ["y"])
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    for name, number in {"a": 2, "b": 9, "c": 3}.items():
        np.save(tmp_path / f"{name}.npy", np.int64(number))
    given = [part for name in "abc" for part in ("--input", tmp_path / f"{name}.npy")]
    reason = "Not compiled, but run node by node: Range node #0: "
    first, _ = lines_of(tmp_path / "m.onnx", *given)
    assert first.startswith(reason)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), [2, 5, 8])
    first, timed = lines_of(tmp_path / "m.onnx", *given, "-i", 2)
    assert first.startswith(reason)
    assert timed == TIMED.format(2)
    result = dml_jax_command("run", tmp_path / "m.onnx", *given, "--json")
    assert json.loads(result.stdout)["dispatches"][0]["compile_seconds"] is None


def test_types_of_generated_inputs(tmp_path):
    inputs = {"b": np.zeros((2, 0), bool), "h": np.zeros((), np.float16), "d": np.zeros(3, np.float64)}
    proto = model(
        [helper.make_node("Identity", [name], [f"{name}_out"]) for name in inputs], inputs, ["b_out", "h_out", "d_out"]
    )
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    assert lines_of(tmp_path / "m.onnx", "--output-dir", tmp_path)[0].endswith(
        "'b' bool[2,0], 'h' float16[], 'd' float64[3]"
    )
    for name, array in inputs.items():
        made = np.load(tmp_path / f"{name}_out.npy")
        assert made.dtype == array.dtype
        np.testing.assert_array_equal(made, array)


# Checking.


def test_check_says_which_nodes_a_level_takes(folder):
    path = folder / "m.onnx"
    fine = dml_jax_command("check", path)
    assert fine.exit_code == 0
    assert fine.output.splitlines() == [
        f"{path}: `dml-jax run` takes it",
        f"{path}: `to_jax(model)` takes it; under jax.jit say to_jax(model, int32=['table', 'rows']), and give "
        "int32 arrays",
        f"{path}: Gather node 'pick': GATHER is accepted at feature level 6_4",
        f"{path}: Unsqueeze node 'wrap': ELEMENT_WISE_IDENTITY is accepted at feature level 6_4",
    ]
    refused = dml_jax_command("check", path, "--feature-level", "3_0")
    assert refused.exit_code == 1
    assert "GATHER" not in refused.stdout
    assert refused.stderr.startswith(f"error: {path}: Gather node 'pick': GATHER: InputTensor.DataType must be one of")
    assert "it is INT64, which feature level 4_1 accepts" in refused.stderr


def test_check_takes_sizes_that_a_model_leaves_open(folder):
    node = helper.make_node("DepthToSpace", ["x"], ["y"], name="d", blocksize=2)
    proto = model([node], {"x": np.zeros((1, 4, 2, 3), np.float32)}, ["y"])
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, [None] * 4))
    for size, text in zip(proto.graph.input[0].type.tensor_type.shape.dim, "n4hw", strict=True):
        if not text.isdecimal():
            size.dim_param = text
    (folder / "open.onnx").write_bytes(proto.SerializeToString())
    path = folder / "open.onnx"
    missing = dml_jax_command("check", path, "--shape", "n=1")
    assert missing.exit_code == 1
    assert "node 'd': for DirectML every size must be known, or be given" in missing.stderr
    assert "--shape in the command, but not 'h' of input 'x', 'w' of input 'x'" in missing.stderr
    for shapes in (["x=1x4x2x3"], ["n=1", "h=2", "w=3"]):
        fine = dml_jax_command("check", path, *(text for shape in shapes for text in ("--shape", shape)))
        assert (fine.exit_code, fine.stderr) == (0, "")
    for wrong, code, text in [
        ("x=1x4x2", 1, "sizes must fit the input x: float32[n, 4, h, w], but they are [1, 4, 2]"),
        ("z=1", 1, "but 'z' is neither; known are h, n, w, x"),
        ("x", 2, "'x' is not NAME=SIZES, such as n=2 or image=1x3x224x224"),
        ("x=1xa", 2, "'x=1xa' is not NAME=SIZES, such as n=2 or image=1x3x224x224: 'a' is no integer"),
    ]:
        result = dml_jax_command("check", path, "--shape", wrong)
        assert result.exit_code == code
        assert text in result.stderr
    assert (
        "--shape is for ONNX models only" in dml_jax_command("check", FOLDER / "gather.json", "--shape", "n=1").stderr
    )


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
    ("options", "words"),
    [
        (["--feature-level", "3_0"], "--feature-level is for a model file or a graph only; `dml-jax check` says what"),
        (["-f", "rows"], "'rows' is not NAME=SIZE"),
        (["-f", "rows:0"], "'rows:0' is not NAME=SIZE, such as n=5: '0' is no integer in [1, 2**32 - 1]"),
        (["-f", "rows:2", "-f", "rows:3"], "'rows' is given twice; leave one out"),
        (["-F", "DATA_BATCH:x"], "'DATA_BATCH:x' is not NAME=SIZE"),
        (["-b", "table"], "'table' is not NAME=SIZES"),
        (
            ["-b", "table:2,,2"],
            "'table:2,,2' is not NAME=SIZES, such as x=1x3x224x224: '' is no integer in [1, 2**32 - 1]",
        ),
        (["-b", "table:-1,2"], "'-1' is no integer"),
        (["-b", f"table:{','.join('1' * 33)}"], "there must be at most 32 sizes, but there are 33"),
        (["-e", "key"], "'key' is not KEY:VALUE"),
        (["-l", "100"], "100 is not in the range 0<=x<=99"),
        (["-L", "5"], "5 is not in the range 0<=x<=4"),
        (["-i", "0"], "0 is not in the range x>=1"),
        (["-x"], "No such option"),
    ],
)
def test_wrong_options_say_what_to_do(folder, options, words):
    result = dml_jax_command("run", folder / "m.onnx", *options)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("option", "shown", "has_a_field"),
    [
        (["-f", "n:1"], "--onnx-free-dim-name-override", True),
        (["-F", "n:1"], "--onnx-free-dim-denotation-override", True),
        (["-b", "x:1"], "--binding-shape", True),
        (["-p"], "--print-onnx-bindings", False),
        (["--max-nodes", "1"], "--max-nodes", False),
        (["--seed", "1"], "--seed", False),
        (["-l", "1"], "--onnx-graph-optimization-level", True),
        (["-L", "1"], "--onnx-logging-level", True),
        (["-e", "k:1"], "--onnx-session-config-entry", True),
    ],
)
def test_options_of_onnx_models_are_refused_elsewhere(option, shown, has_a_field):
    result = dml_jax_command("run", FOLDER / "gather.json", *option)
    assert result.exit_code == 2
    hint = "set it in the model file, or " if has_a_field else ""
    assert f"{shown} is for a .onnx file only; {hint}leave it out" in result.stderr
    result = dml_jax_command("run", "graph.bin", *option)
    assert result.exit_code == 2
    assert f"{shown} is for a .onnx file only; leave it out" in result.stderr


def test_options_of_onnx_files_are_refused(folder):
    result = dml_jax_command("run", FOLDER / "gather.json", "--input", "a.npy")
    assert result.exit_code == 2
    assert "--input is for a .onnx or .bin file only; a model file has sourcePath" in result.stderr
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
