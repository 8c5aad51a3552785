"""`dml-jax batch call` and `dml-jax batch graph`: functions and graphs over files, resumed jobs, wrong uses."""

import json
import os
import re
import socket
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from batch_jobs import environment, names, random_rows, saved
from commands import batch, dml_jax_command
from operator_cases import f32, u32

from dml_jax import Constant, DepthToSpaceDesc, GatherDesc, GraphBuilder, GraphDesc, SpaceToDepthDesc, TensorDesc
from dml_jax import desc_to_json as to_json
from dml_jax.command import batch_run

N = 11
STEPS = """
import jax, jax.numpy as jnp
TABLE = jnp.arange(3.0)  # runs on a device already
print("imported")

class Steps:
    shift = jax.jit(lambda x: x + 1)

def swap(x):
    print("traced")
    return x[:, ::-1]

def look_up(table, at, factor):
    return table[at] * factor[:, None]

def doubled(x):
    return 2 * x

def branch(x):
    return x if x.sum() > 0 else -x

def leave(x):
    raise SystemExit(3)

def forget(x):
    pass

def several(x):
    return x, x

def shorter(x):
    return x[1:]

def alone(x):
    return [x]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current directory, with a module that nothing has imported, and files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    modules = {"steps": STEPS, "exits": "import sys\nsys.exit(3)", "fails": "x = 1\nx / 0", "needs": "import no_such"}
    for name, text in modules.items():
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]
    saved(tmp_path / "x.npy", PICTURES)
    saved(tmp_path / "wide.npy", np.zeros((N, 1, 4, 6), np.float32))
    saved(tmp_path / "double.npy", PICTURES.astype(np.float64))
    saved(tmp_path / "table.npy", TABLE)
    for name, graph in GRAPHS.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(to_json(graph)))
    (tmp_path / "operator.json").write_text(json.dumps(to_json(GRAPHS["three"].nodes["blocks"])))
    return tmp_path


PICTURES = np.arange(N * 16, dtype=np.float32).reshape(N, 1, 4, 4)
TABLE = np.float32([[1, 2], [3, 4], [5, 6]])
INDICES = np.arange(N).astype(np.uint32).reshape(N, 1, 1) % 3


def three_operators():
    """Blocks of 2 by 2 pixels, turned by half a turn."""
    picture, blocks = f32(1, 1, 4, 4), f32(1, 4, 2, 2)
    order = u32(1, 1, 1, 4)
    nodes = {
        "blocks": SpaceToDepthDesc(picture, blocks, block_size=2),
        "order": Constant(np.uint32([3, 2, 1, 0])),
        "pick": GatherDesc(blocks, order, blocks, axis=1, index_dimensions=1),
        "picture": DepthToSpaceDesc(blocks, picture, block_size=2),
    }
    edges = {
        ("blocks", "input"): "x",
        ("pick", "input"): ("blocks", "output"),
        ("pick", "indices"): ("order", "output"),
        ("picture", "input"): ("pick", "output"),
        "y": ("picture", "output"),
    }
    return nodes, edges


def look_up(flags="NONE"):
    """A row of a table by its number."""
    builder = GraphBuilder()
    table, at = (
        builder.input("table", TensorDesc("FLOAT32", (3, 2), flags=flags)),
        builder.input("at", ("UINT32", (1, 1))),
    )
    return builder.build({"y": builder.gather(table, at, axis=0, index_dimensions=1)})


def transposed():
    """Columns of one tensor, which lie behind one another in its buffer, as rows of another."""
    builder = GraphBuilder()
    identity = builder.element_wise_identity(builder.input("packed", ("FLOAT32", (2, 3))))
    graph = builder.build({"y": identity})
    return GraphDesc(graph.nodes, graph.edges, {"packed": f32(2, 3, strides=(1, 2))})


def nibbles():
    builder = GraphBuilder()
    x, scale = builder.input("x", ("INT4", (1, 6))), builder.input("scale", ("FLOAT32", (1, 6)))
    return builder.build({"y": builder.dequantize(x, "SCALE", [scale])})


NODES, EDGES = three_operators()
GRAPHS = {
    "three": GraphDesc(NODES, EDGES),
    "look_up": look_up(),
    "owned": look_up("OWNED_BY_DML"),
    "transposed": transposed(),
    "nibbles": nibbles(),
    "several": GraphDesc(NODES, {**EDGES, "z": ("pick", "output")}),
}


def turned(x):
    return x.reshape(-1, 1, 2, 2, 2, 2)[:, :, :, ::-1, :, ::-1].reshape(x.shape)


ROWS = random_rows(N, np.uint8, (2, 3)).astype(np.float32)
SMALL = (np.arange(N * 6).reshape(N, 6) % 16 - 8).astype(ml_dtypes.int4)
SCALE = 2.0 ** np.arange(6, dtype=np.float32).reshape(1, 6)
# The function or graph, the files, which are shared, and the result.
CASES = {
    "function": ("call", "steps:swap", [ROWS], [], ROWS[:, ::-1]),
    "method": ("call", "steps:Steps.shift", [ROWS], [], ROWS + 1),
    "installed": ("call", "jax.numpy:negative", [ROWS], [], -ROWS),
    "shared first": ("call", "steps:look_up", [TABLE, INDICES[:, 0, 0], ROWS[:, 0, 0]], [0], None),
    "three operators": ("graph", "three.json", [PICTURES], [], turned(PICTURES)),
    "shared input": ("graph", "look_up.json", [TABLE, INDICES[:, 0]], [0], TABLE[INDICES[:, 0, 0]]),
    "owned input": ("graph", "owned.json", [TABLE, INDICES[:, 0]], [], TABLE[INDICES[:, 0, 0]]),
    "all have items": (
        "graph",
        "look_up.json",
        [np.stack([TABLE + i for i in range(N)]), INDICES[:, 0]],
        [],
        TABLE[INDICES[:, 0, 0]] + np.arange(N, dtype=np.float32)[:, None],
    ),
    "strides": ("graph", "transposed.json", [ROWS], [], ROWS.transpose(0, 2, 1).reshape(ROWS.shape)),
    "four bits": ("graph", "nibbles.json", [SMALL, SCALE], [1], SMALL.astype(np.float32) * SCALE),
}
CASES["shared first"] = (*CASES["shared first"][:4], TABLE[INDICES[:, 0, 0]] * ROWS[:, 0, 0][:, None])


@pytest.mark.parametrize(("kind", "what", "arrays", "shared", "expected"), CASES.values(), ids=CASES)
def test_results_of_every_item(folder, kind, what, arrays, shared, expected):
    """Also of the last batch, which has three."""
    paths = [saved(folder / f"{i}.npy", array) for i, array in enumerate(arrays)]
    options = [word for i in shared for word in ("--shared", paths[i])]
    done = batch(kind, what, *paths, "out.npy", "--batch-size", 8, *options)
    assert done.exit_code == 0, done.output
    assert re.fullmatch(r"out.npy: 11 items; .*\n", done.stdout)
    assert done.stderr == ("imported\n" + "traced\n" * 2 * (what == "steps:swap") if "steps" in what else "")
    written = np.load("out.npy")
    assert (written.dtype, written.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(written, expected)


@pytest.mark.parametrize("what", [["call", "--outputs", 2, "steps:several"], ["graph", "several.json"]], ids=str)
def test_results_of_several_arrays_have_a_file_each(folder, what):
    """The first two are those of the items, in order; the graph has the one before its last step as well."""
    picked = PICTURES.reshape(N, 2, 2, 2, 2).transpose(0, 2, 4, 1, 3).reshape(N, 4, 2, 2)[:, ::-1]
    expected = (PICTURES, PICTURES) if "steps:several" in what else (turned(PICTURES), picked)
    done = batch(*what, "x.npy", "y.npy", "z.npy")
    assert done.exit_code == 0, done.output
    assert re.fullmatch(r"y.npy, z.npy: 11 items; .*\n", done.stdout)
    for name, array in zip(("y.npy", "z.npy"), expected, strict=True):
        assert np.load(name).tobytes() == np.ascontiguousarray(array).tobytes()


def test_a_list_of_one_array_is_one_output(folder):
    done = batch("call", "steps:alone", "x.npy", "out.npy")
    assert done.exit_code == 0, done.output
    np.testing.assert_array_equal(np.load("out.npy"), PICTURES)


@pytest.mark.parametrize("subcommand", ["run", "check"])
def test_a_graph_is_no_model_file(folder, subcommand):
    told = dml_jax_command(subcommand, "three.json")
    rule = "a model must be an object of resources, dispatchables, commands"
    fact = "but it is a graph, which `dml-jax batch graph` and desc_from_json take"
    assert (told.exit_code, told.stderr) == (1, f"error: three.json: {rule}, {fact}\n")


def test_a_type_is_for_files_that_name_none(folder):
    table = saved(folder / "half.npy", TABLE.astype(ml_dtypes.bfloat16))
    factor = saved(folder / "factor.npy", np.full(N, 2, ml_dtypes.bfloat16))
    files = [table, saved(folder / "at.npy", INDICES[:, 0, 0]), factor, "out.npy", "--shared", table]
    refused = batch("call", "steps:look_up", *files)
    assert (refused.exit_code, "say which type with --dtype" in refused.stderr) == (1, True)
    assert batch("call", "steps:look_up", *files, "--dtype", "bfloat16").exit_code == 0
    np.testing.assert_array_equal(np.load("out.npy").view(ml_dtypes.bfloat16), 2 * TABLE[INDICES[:, 0, 0]])


@pytest.mark.parametrize(
    ("kind", "what", "other", "oracle"),
    [("call", "steps:swap", "steps:doubled", lambda x: x[:, ::-1]), ("graph", "three.json", "other.json", turned)],
    ids=["call", "graph"],
)
def test_an_interrupted_job_goes_on(folder, monkeypatch, kind, what, other, oracle):
    """By its program: that of another function or graph is refused. --restart forgets it."""
    nodes = {**NODES, "order": Constant(np.uint32([1, 0, 3, 2]))}
    (folder / "other.json").write_text(json.dumps(to_json(GraphDesc(nodes, EDGES))))
    many = np.concatenate([PICTURES + i for i in range(0, 800, 100)])
    job = [saved(folder / "many.npy", many), "out.npy", "--batch-size", 8]

    def interrupted(*options):
        """The rows that are kept: at most three batches are at work when the first is told as written."""
        with monkeypatch.context() as patch:
            check = batch_run.Interruption.check
            asked = lambda self, now: [setattr(self, "_asked", now.rows > 0), check(self, now)]  # noqa: E731
            patch.setattr(batch_run.Interruption, "check", asked)
            stopped = batch(kind, what, *job, *options)
        said = re.search(r"interrupted: out.npy: run it again to continue from item (\d+) of 88\n$", stopped.stderr)
        assert (stopped.exit_code, said is not None) == (130, True), stopped.output
        assert ("continues" in stopped.stderr, 8 <= int(said[1]) < 88) == (False, True)
        return said[1]

    interrupted()
    rows = interrupted("--restart")
    refused = batch(kind, other, *job)
    assert (refused.exit_code, refused.stderr.startswith("error: program.")) == (1, True)
    done = batch(kind, what, *job)
    assert done.stdout.startswith(f"out.npy: 88 items, {rows} of them by earlier runs; ")
    assert f"out.npy: continues from item {rows} of 88\n" in done.stderr
    assert np.load("out.npy").tobytes() == oracle(many).tobytes()
    assert [name for name in names(folder) if name.startswith("out.npy")] == ["out.npy"]


WRONG = {
    "no colon": (2, "call steps x.npy", "'steps' is not a MODULE:NAME such as steps:enlarge"),
    "no name": (2, "call steps: x.npy", "'steps:' is not a MODULE:NAME"),
    "no input": (2, "call steps:swap", "Missing argument 'INPUTS...'"),
    "no module": (2, "call stps:swap x.npy", "no module 'stps' is in FOLDER or installed"),
    "no package": (2, "call steps.more:swap x.npy", "no module 'steps.more' is in FOLDER or installed"),
    "no attribute": (2, "call steps:look_pu x.npy", "steps:look_pu: there is no 'look_pu'; did you mean 'look_up'?"),
    "no method": (2, "call steps:Steps.shft x.npy", "there is no 'shft'; did you mean 'shift'?"),
    "no function": (2, "call steps:TABLE x.npy", "steps:TABLE must be a function, but it is ArrayImpl"),
    "module that needs another": (1, "call needs:f x.npy", "needs raised ModuleNotFoundError in line 1 of FOLDER/n"),
    "module that raises": (1, "call fails:f x.npy", "fails raised ZeroDivisionError in line 2 of FOLDER/fails.py: d"),
    "module that exits": (1, "call exits:f x.npy", "exits raised SystemExit in line 2 of FOLDER/exits.py: 3"),
    "function that raises": (1, "call steps:branch x.npy", "steps:branch raised TracerBoolConversionError in line 20"),
    "function that exits": (1, "call steps:leave x.npy", "steps:leave raised SystemExit in line 23 of FOLDER/steps"),
    "function of one": (1, "call steps:swap x.npy x.npy", "steps:swap raised TypeError: swap() takes 1 positional"),
    "nothing": (1, "call steps:forget x.npy", "the function must return arrays with a row per row of its batch, but"),
    "two arrays": (1, "call steps:several x.npy", "the function returns (*, *), so it needs --outputs 2"),
    "one array of two": (
        1,
        "call --outputs 2 steps:swap x.npy a.npy",
        "the function returns *, so it needs --outputs 1",
    ),
    "nothing of two": (
        1,
        "call --outputs 2 steps:forget x.npy a.npy",
        "the function must return arrays with a row per",
    ),
    "other items": (
        1,
        "call steps:look_up table.npy x.npy x.npy",
        "error: all inputs must have the same number of items, but inputs[0] (FOLDER/table.npy) has 3, inputs[1] "
        "(FOLDER/x.npy) has 11, inputs[2] (FOLDER/x.npy) has 11; --shared reads one of them whole, for every item",
    ),
    "resume": (
        2,
        "call --resume steps:swap x.npy",
        "No such option '--resume': an interrupted job goes on by the same",
    ),
    "no input but outputs": (
        2,
        "call --outputs 2 steps:swap x.npy",
        "there must be an input, but of 2 files 2 are outputs",
    ),
    "fewer rows": (1, "call steps:shorter x.npy", "for a batch of 1 it returns float32[0,1,4,4]"),
    "no such file": (1, "call steps:swap no.npy", "no.npy: an input cannot be read"),
    "all shared": (2, "call steps:swap --shared x.npy x.npy", "at least one must have items"),
    "another shared": (2, "call steps:swap --shared no.npy x.npy", "--shared no.npy: the operands are x.npy"),
    "no graph": (1, "graph no.json x.npy", "no.json: cannot be read: No such file"),
    "pipe": (1, "graph pipe.json x.npy", "pipe.json: cannot be read: Not a regular file"),
    "no JSON": (1, "graph x.npy x.npy", "x.npy: not JSON"),
    "operator": (
        1,
        "graph operator.json x.npy",
        'operator.json: it must be a graph as desc_to_json(graph) returns it, {"',
    ),
    "fault": (1, "graph fault.json x.npy", "fault.json: GRAPH: unknown field 'Node'"),
    "several outputs": (2, "graph several.json x.npy", "inputs and outputs, 'x', 'y', 'z', but there are 2"),
    "too many files": (2, "graph three.json x.npy x.npy", "each of its inputs and outputs, 'x', 'y', but there are 3"),
    "other sizes": (
        1,
        "graph three.json wide.npy",
        "which takes items of float32[1,4,4], but its items are float32[1,4,6]",
    ),
    "other type": (1, "graph three.json double.npy", "double.npy: input 'x' of the graph is FLOAT32[1,1,4,4], which t"),
    "shared sizes": (
        1,
        "graph look_up.json --shared wide.npy wide.npy x.npy",
        "wide.npy: input 'table' of the graph is FLOAT32[3,2], which takes an array of float32[3,2], but it is f",
    ),
    "shared graph": (2, "graph three.json --shared x.npy x.npy", "at least one must have items"),
}


@pytest.mark.parametrize(("status", "line", "message"), WRONG.values(), ids=WRONG)
def test_wrong_uses_are_told_and_leave_nothing(folder, status, line, message):
    (folder / "fault.json").write_text('{"type": "DML_GRAPH_DESC", "desc": {"Node": {}}}')
    os.mkfifo("pipe.json")
    told = batch(*line.split(), "out.npy")
    assert told.exit_code == status, told.output
    assert message.replace("FOLDER", str(folder)) in " ".join(told.stderr.split())
    assert "Traceback" not in told.stderr
    assert told.stdout == ""
    assert not [name for name in names(folder) if name.startswith("out.npy")]


def process(*arguments):
    """The command as an installed one: Python does not look into the current directory."""
    line = [sys.executable, "-P", "-m", "dml_jax", "batch", *map(str, arguments)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), text=True)


def test_the_current_directory_is_searched(folder):
    """After the devices are arranged: the module may run on them."""
    printed, told = process("call", "steps:swap", "x.npy", "out.npy", "--cpu-devices", 3).communicate(timeout=300)
    assert (re.fullmatch(r"out.npy: 11 items; .*\n", printed) is not None, told) == (True, "imported\ntraced\ntraced\n")
    assert np.load("out.npy").tobytes() == PICTURES[:, ::-1].tobytes()


@pytest.mark.exhaustive
@pytest.mark.parametrize("what", [("call", "steps:swap"), ("graph", "three.json")], ids=["call", "graph"])
def test_two_processes_write_one_file(folder, what):
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{found.getsockname()[1]}"
    hosts = ["--coordinator", where, "--num-processes", 2, "--process-id"]
    both = [process(*what, "x.npy", "out.npy", *hosts, index) for index in range(2)]
    for running in both:
        told = running.communicate(timeout=300)[1]
        assert running.returncode == 0, told
    expected = PICTURES[:, ::-1] if what[0] == "call" else turned(PICTURES)
    assert np.load("out.npy").tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", ["call", "graph"])
def test_help_says_what_an_item_is(name):
    shown = " ".join(batch(name, "--help").stdout.split())
    assert {"call": "a batch of items of each", "graph": "[1, C, H, W] is a file [N, C, H, W]"}[name] in shown
    assert ("--dtype" in shown) == (name == "call")  # a graph says its types
    for option in ("--shared FILE", "--batch-size", "--restart", "--overwrite", "--coordinator", "--process-id"):
        assert option in shown
