"""`dml-jax bench MODEL`: time, costs and results of model files, beside ONNX Runtime and plain."""

import shutil
import signal
from contextlib import contextmanager
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from commands import bench
from onnx_building import onnx
from serialized_graph_cases import MATMUL_ADD

from dml_jax.array_models.array_model import ArrayModel, Program
from dml_jax.array_models.random_inputs import drawn_from
from dml_jax.array_models.run import ArrayRun
from dml_jax.bench import model_files
from dml_jax.bench.implementations import CallRun
from dml_jax.bench.results import Results
from dml_jax.bench.timing import Effort
from dml_jax.command import bench_run
from dml_jax.core.tensors.tensor_spec import TensorSpec
from dml_jax.graphs.serialized.codec import encode
from dml_jax.operations.programs.forced_form import forced_form

HEADER = '<ir_version: 10, opset_import: ["": 21]>'
EFFORT = Effort(rounds=2, seconds=1e-5)


def run(*arguments):
    return bench("--rounds", 2, *arguments)


@pytest.fixture(autouse=True)
def not_interrupted(monkeypatch):
    monkeypatch.setattr(bench_run, "_interrupted", [])


@pytest.fixture(autouse=True)
def on_a_cpu(monkeypatch):
    """On a GPU the plain form has rows, too."""
    monkeypatch.setattr(model_files.jax, "default_backend", lambda: "cpu")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to work in, with the model dense.onnx: tanh(x @ w), where x has n rows of 3."""
    monkeypatch.chdir(tmp_path)
    write("dense", "dense (float[n, 3] x) => (float[n, 128] y) { h = MatMul (x, w) y = Tanh (h) }", w=(3, 128))
    return tmp_path


def write(name, text, **weights):
    """Writes a model, with initializers of random numbers."""
    proto = onnx.parser.parse_model(HEADER + text)
    random = np.random.default_rng(0)
    for weight, shape in weights.items():
        array = random.standard_normal(shape, np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, weight))
    onnx.save(proto, f"{name}.onnx")


@pytest.fixture
def seen(monkeypatch):
    """The inputs that ONNX Runtime is given."""
    given, real = [], model_files.runtime_run

    def spy(path, inputs):
        given.append(list(map(np.asarray, inputs)))
        return real(path, inputs)

    monkeypatch.setattr(model_files, "runtime_run", spy)
    return given


def test_a_model_is_measured_beside_onnx_runtime(here):
    done = run("dense.onnx", "-f", "n:5", "--json", "r.json")
    assert done.exit_code == 0, done.output
    stored = Results.read(here / "r.json")
    ours, other = stored.rows
    assert (ours.contender, other.contender) == ("dml_jax", "ORT")
    assert ours.case == other.case == "model dense.onnx"
    assert ours.same_bits
    assert other.same_bits
    assert 0 <= other.error < 1e-6
    assert ours.moved == 4 * (5 * 3 + 3 * 128 + 5 * 128)  # input, weights and output
    cost, loaded = stored.costs
    assert min(cost.loading, cost.tracing, cost.lowering, cost.compiling, loaded.loading) > 0
    assert cost.peak >= cost.floor == ours.moved
    title, head, line = done.output.split("\n\n")[0].splitlines()[-3:]
    assert title.rstrip().endswith(", models")
    assert head.split() == [
        *["model", "ms", "spread", "x", "ORT", "error", "load", "s", "trace", "s", "compile", "s", "MiB"]
    ]
    assert line.split()[0] == "dense.onnx"
    assert max(map(len, (head, line, *done.output.split("\n\n")[1].splitlines()))) <= 100


def test_rows_of_two_runs_are_compared(here):
    assert run("dense.onnx", "--json", "old.json").exit_code == 0
    done = run("dense.onnx", "--compare", "old.json", "--tolerance", 1)
    assert done.exit_code == 0, done.output
    assert "1 measurements, 0 slower by more than 100%" in done.output


def test_inputs_are_drawn_from_a_seed_and_have_the_shapes_that_are_asked_for(here, seen):
    for options in ([], ["--seed", 0], ["--seed", 1], ["-f", "n:4"], ["-b", "x:6,3"]):
        assert run("dense.onnx", *options).exit_code == 0
    (default,), (same,), (other,), (four,), (six,) = seen
    np.testing.assert_array_equal(default, same)
    assert not np.array_equal(default, other)
    assert [x.shape for x in (default, four, six)] == [(1, 3), (4, 3), (6, 3)]


def test_sizes_that_nobody_has_said_are_told(here):
    write("two", "two (float[n, 1] x, float[n, k] y, float[1] z) => (float w) { a = Add (x, y) w = Add (a, z) }")
    np.save("x.npy", np.ones((1, 1), np.float32))
    told = "two.onnx: sizes without -f and -b are 1: "
    for options, ones in [
        ([], "x: float32[n, 1], y: float32[n, k]\n"),
        (["-f", "n:2"], "y: float32[2, k]\n"),
        (["--input", "x=x.npy", "-f", "k:2"], "y: float32[n, 2]\n"),
    ]:
        assert told + ones in run("two.onnx", *options).stdout
    assert told not in run("two.onnx", "-f", "n:2", "-b", "y:2,1").stdout


def test_an_input_may_have_a_file(here, seen):
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    np.save("x.npy", x)
    assert run("dense.onnx", "--input", "x=x.npy").exit_code == 0
    np.testing.assert_array_equal(seen[0][0], x)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, jnp.bfloat16, jnp.float8_e4m3fn])
def test_floats_are_normally_distributed(dtype):
    drawn = drawn_from(0)(TensorSpec("x", np.dtype(dtype), None), (50, 40))
    assert drawn.dtype == dtype
    assert abs(drawn.astype(np.float64).mean()) < 0.1
    assert abs(drawn.astype(np.float64).std() - 1) < 0.1


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        *((dtype, 0, 1) for dtype in (np.bool, np.int64, np.int32, np.uint32, np.int16)),
        (np.uint8, 0, 255),
        (np.int8, -128, 127),
        (jnp.int4, -8, 7),
        (jnp.uint4, 0, 15),
    ],
)
def test_integers_are_ones_that_models_accept(dtype, low, high):
    """Ids that every table has; pixels and quantised numbers of the whole range; and masks that hide nothing."""
    draw = drawn_from(0)
    drawn = draw(TensorSpec("ids", np.dtype(dtype), None), (100, 100))
    assert drawn.dtype == dtype
    assert (drawn.astype(int).min(), drawn.astype(int).max()) == (low, high)
    mask = draw(TensorSpec("Attention_Mask", np.dtype(dtype), None), (3,))
    assert mask.dtype == dtype
    assert mask.astype(int).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("ours", "other", "error"),
    [
        ([1, 2, -4], [1, 2.5, -5], 0.2),
        ([1, 2], [1, 2], 0.0),
        ([], [], 0.0),
        ([np.nan, np.inf, 2], [np.nan, np.inf, 4], 0.5),
        ([np.nan, 1], [1, 1], None),
        ([np.inf, 1], [-np.inf, 1], None),
        ([0, 1], [0, 0], None),
        ([[1, 2]], [1, 2], None),
    ],
)
def test_errors_are_parts_of_the_largest_number(ours, other, error):
    for dtype in (np.float32, np.float64):
        found = model_files._error(np.array(ours, dtype), np.array(other, dtype))
        assert found == (error if error is None else pytest.approx(error))
    assert model_files._error(np.uint8([250]), np.uint8([1])) == 249
    assert model_files._error(np.array([True]), np.array([True])) == 0


def test_a_large_output_does_not_hide_the_error_of_a_small_one(here):
    write("two", "two (float[4] x) => (float[4] small, float[4] large) { small = Abs (x) large = Exp (x) }")
    x = np.float32([1, 2, 3, 4])
    row = next(iter(model_files._measure(file_of("two.onnx"), ["ORT"], 0.01, EFFORT)[2:]))
    compared = model_files._compared(row, [x, 1e6 * x], [x * np.float32(1.1), 1e6 * x], 0.01)
    assert compared.error == pytest.approx(0.1 / 1.1, rel=1e-5)
    assert not compared.same_bits


def file_of(path, read=None):
    from dml_jax.array_models.onnx_model import read_onnx_file

    reading = read or (lambda: read_onnx_file(Path(path), {}, {}, ()))
    return model_files.ModelFile(path, reading, ArrayRun(), 0, lambda: "")


def test_results_that_differ_are_told_and_the_run_fails(here, monkeypatch):
    """What was measured is stored nevertheless."""
    real = model_files.runtime_run
    monkeypatch.setattr(
        model_files, "runtime_run", lambda *given: CallRun(lambda: [2 * y for y in real(*given).call()])
    )
    done = run("dense.onnx", "--json", "r.json")
    assert done.exit_code == 1
    fact = "results differ from those of ONNX Runtime by 0.5 of the largest number; --bound is 0.01"
    assert f"error: model dense.onnx: {fact}\n" in done.stderr
    assert "error: 1 case failed, as said above; all others were measured" in done.stdout
    assert "differs  5.0e-01" in done.stdout
    _, other = Results.read(here / "r.json").rows
    assert (other.same_bits, other.error) == (False, pytest.approx(0.5))
    assert run("dense.onnx", "--bound", 0.6).exit_code == 0
    monkeypatch.setattr(model_files, "runtime_run", lambda *given: CallRun(lambda: [real(*given).call()[0][0]]))
    assert (
        "results differ from those of ONNX Runtime in shape, NaN or infinities; --bound is 0.01"
        in run("dense.onnx").stderr
    )


BAD = {
    "missing.onnx": "cannot be read: No such file or directory",
    "junk.onnx": "is not an ONNX model: it must have a graph and an opset version, and lacks one",
    "strings.onnx": "input 'x': the elements must be numbers, but they are strings",
    "unsupported.onnx": "the model must have only operators that are supported here, ",
    "open.onnx": "input 'x': the model must say how many dimensions it has, but does not: give a file, or its sizes as",
    "wrong.onnx": "MatMul node #0: ",
}


def test_a_file_that_cannot_run_does_not_hide_the_others(here):
    Path("junk.onnx").write_bytes(b"xx")
    write("strings", "s (string[n] x) => (string[n] y) { y = Identity (x) }")
    write("unsupported", "u (float[2] x) => (float y) { y = TfIdfVectorizer (x) }")
    write("wrong", "w (float[2, 3] x, float[4, 5] y) => (float z) { z = MatMul (x, y) }")
    write("open", "o (float[1] x) => (float y) { y = Neg (x) }")
    proto = onnx.load("open.onnx")
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    onnx.save(proto, "open.onnx")
    done = run(*BAD, "dense.onnx", "--json", "r.json")
    assert done.exit_code == 1
    assert "Traceback" not in done.output
    for name, text in BAD.items():
        assert f"error: model {name}: {text}" in done.stderr
    assert f"error: {len(BAD)} cases failed, as said above; all others were measured" in done.stdout
    assert {row.case for row in Results.read(here / "r.json").rows} == {"model dense.onnx"}
    assert "\ndense.onnx " in done.stdout


@pytest.mark.parametrize("options", [["--no-peers"], []])
def test_without_onnx_runtime_the_model_is_measured_alone(here, monkeypatch, options):
    monkeypatch.setattr(model_files, "find_spec", lambda name: None)
    done = run("dense.onnx", *options, "--json", "r.json")
    assert done.exit_code == 0, done.output
    assert [row.contender for row in Results.read(here / "r.json").rows] == ["dml_jax"]
    assert "ORT" not in done.output
    assert "error" not in done.output


@pytest.mark.parametrize("not_compiled", ["", "data decide a shape"])
def test_on_a_gpu_the_plain_form_is_measured_too(monkeypatch, not_compiled):
    """The model is prepared anew while it is forced; what runs node by node would run it outside."""
    monkeypatch.setattr(model_files.jax, "default_backend", lambda: "gpu")
    forms = []

    def prepare(arrays):
        forms.append(forced_form())
        return Program(lambda: (arrays[0],), not_compiled)

    spec = TensorSpec("x", np.dtype(np.float32), (3,))
    read = lambda: ArrayModel(Path("m.onnx"), (spec,), ("y",), (), prepare)  # noqa: E731
    section = model_files.model_section([file_of("m.onnx", read)], 0.01, peers=False)
    rows = section.jobs[0].measure(EFFORT)
    contenders = ["dml_jax"] if not_compiled else ["dml_jax", "plain"]
    assert forms == [None, "plain"][: len(contenders)]
    assert [row.contender for row in rows] == contenders * 2
    (table, *_) = section.table("", rows, section.implementations, None).renderables
    assert [column.header for column in table.columns][:4] == ["model", "ms", "spread", "x plain"]


def test_what_onnx_runtime_does_not_run_is_measured_alone_and_told(here):
    write("narrow", "n (bfloat16[4] x) => (bfloat16[4] y) { y = Neg (x) }")
    done = run("narrow.onnx", "dense.onnx", "--json", "r.json")
    assert done.exit_code == 0, done.output
    alone, _, _ = Results.read(here / "r.json").rows
    assert alone.why.startswith("ONNX Runtime does not run it: ")
    assert f"\nnarrow.onnx: {alone.why[:60]}" in done.stdout


def test_a_serialized_graph_is_measured_alone(here):
    pytest.importorskip("flatbuffers")
    Path("graph.bin").write_bytes(encode(MATMUL_ADD))
    for name, count in (("matmul_b_tensor", 25), ("add_b_tensor", 5)):
        np.ones(count, np.float32).tofile(f"{name}.bin")
    done = run("graph.bin", "dense.onnx", "--json", "r.json")
    assert done.exit_code == 0, done.output
    alone, *_ = rows = Results.read(here / "r.json").rows
    assert [(row.case, row.contender) for row in rows[:2]] == [
        ("model graph.bin", "dml_jax"),
        ("model dense.onnx", "dml_jax"),
    ]
    assert alone.why == ""


def test_random_numbers_are_not_compared(here):
    write("noise", "r (float[4] x) => (float[4] y) { z = RandomNormalLike (x) y = Add (x, z) }")
    done = run("noise.onnx")
    assert done.exit_code == 0, done.output
    assert "noise.onnx: its results are not compared, as it draws random numbers" in done.stdout


def test_a_model_that_is_not_compiled_has_no_costs_of_xla(here):
    write("found", "f (float[8] x) => (int64[r, n] y) { y = NonZero (x) }")
    done = run("found.onnx", "--json", "r.json")
    assert done.exit_code == 0, done.output
    line = next(line for line in done.stdout.splitlines() if line.startswith("found.onnx "))
    assert line.split()[-3:] == ["-", "-", "-"]
    assert "found.onnx: it runs node by node: NonZero node #0" in done.stdout


def test_files_of_one_name_are_told_apart_by_their_folders(here):
    for name in ("a", "b"):
        Path(name).mkdir()
        shutil.copy("dense.onnx", f"{name}/[dense].onnx")
    done = run(here / "a/[dense].onnx", here / "b/[dense].onnx")
    assert done.exit_code == 0, done.output
    lines = [line.split()[0].rstrip(":") for line in done.stdout.splitlines() if line.startswith(("a/", "b/"))]
    assert lines == ["a/[dense].onnx", "b/[dense].onnx"] * 2  # in the table, and what is said of them


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["dense.onnx", "gather"],
            "'gather' is no ONNX model (.onnx) and no graph (.bin); -k gather chooses cases of operators",
        ),
        (["dense.onnx", "--size", 1], "--size is for runs without MODELS only"),
        (["dense.onnx", "--random", 1], "--random is for runs without MODELS only"),
        (["dense.onnx", "--costs"], "--costs is for runs without MODELS only"),
        (["graph.bin", "-f", "n:2"], "--onnx-free-dim-name-override is for ONNX models only"),
        (["dense.onnx", "--no-measure"], "MODELS is for a run that measures only; leave it out"),
        (["--bound", 1], "--bound is for MODELS only"),
        (["--seed", 1, "--quick"], "--seed is for MODELS only"),
        (["dense.onnx", "-k", "nothing"], "no case has 'nothing' in its name"),
    ],
)
def test_options_that_do_nothing_are_refused(here, arguments, text):
    done = run(*arguments)
    assert done.exit_code == 2
    assert text in done.output


def test_the_second_interrupt_leaves_the_case_at_hand_out(here, monkeypatch):
    real = model_files.runtime_run

    def interrupted(path, inputs):
        if "slow" in path:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        return real(path, inputs)

    monkeypatch.setattr(model_files, "runtime_run", interrupted)
    shutil.copy("dense.onnx", "slow.onnx")
    done = run("dense.onnx", "slow.onnx", "dense.onnx", "--json", "r.json")
    assert done.exit_code == 130
    assert "interrupted: finishing the case at hand; once more leaves it out" in done.stderr
    assert "\ndense.onnx " in done.stdout
    assert {row.case for row in Results.read(here / "r.json").rows} == {"model dense.onnx"}


def test_while_xla_compiles_the_second_interrupt_leaves_at_once(monkeypatch, capsys):
    """The handler cannot run then; where it has run, nothing more is done."""
    left = []
    monkeypatch.setattr(bench_run, "_pressed", [])
    monkeypatch.setattr(bench_run.os, "_exit", left.append)
    signal.signal(signal.SIGINT, bench_run._interrupt)
    bench_run.check_interrupted()
    assert capsys.readouterr().err == "interrupted: XLA has to finish first; once more leaves at once\n"
    monkeypatch.setattr(bench_run, "_interrupted", [signal.SIGINT] * 2)
    bench_run.check_interrupted()
    assert left == []
    monkeypatch.setattr(bench_run, "_interrupted", [])
    bench_run.check_interrupted()
    assert left == [130]


def test_long_work_says_which_model_it_is(here, monkeypatch):
    told = []

    @contextmanager
    def at_the_end(doing, tell):
        yield
        told.append(doing())

    monkeypatch.setattr(bench_run, "told_if_long", at_the_end)
    assert run("dense.onnx").exit_code == 0
    assert told == ["model dense.onnx: it runs"]
