"""The command `dml-jax batch`: every operator, exit statuses, interruption, what it shows, several processes."""

import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time

import click
import jax
import ml_dtypes
import numpy as np
import pytest
from batch_jobs import blocks_oracle, environment, names, random_rows, saved
from catalogue_cases import CASES as CALLS
from catalogue_cases import ORACLES, WITHOUT_EFFECT
from checks import assert_is, sampled
from commands import batch

import dml_jax
from dml_jax.batch.jobs import Run
from dml_jax.command import batch as command
from dml_jax.command import batch_options as options
from dml_jax.command.batch_progress import Interruption, byte_count

RNG = np.random.default_rng(7)
N = 11
OPERATORS = options.batch_operators()


def distinct(high, shape):
    """Items of distinct indices along the last dimension, some negative."""
    at = np.argsort(RNG.random((*shape[:-1], high)), axis=-1)[..., : shape[-1]]
    return np.where(RNG.random(at.shape) < 0.3, at - high, at).astype(np.int64)


X = random_rows(N, np.int64, (4, 6))
INDICES = RNG.integers(-9, 9, (N, 4, 3))
TUPLES = distinct(4, (N, 3))[..., None]
CASES = {
    "gather": ([X, INDICES], ["--axis", 1], lambda x, i: ORACLES["gather"](x, i, 1)),
    "gather_elements": (
        [X, INDICES],
        ["--axis", -1, "--mode", "fill", "--fill-value", -7],
        lambda x, i: ORACLES["gather_elements"](x, i, -1, "fill", -7),
    ),
    "gather_nd": ([X, INDICES[..., :1]], ["--batch-dims", 1], lambda x, i: ORACLES["gather_nd"](x, i, 1)),
    "scatter_elements": (
        [X, distinct(6, (N, 4, 3)), X[:, :, 3:]],
        ["--axis", 1],
        lambda x, i, u: written(x, np.where(i < 0, i + 6, i), u),
    ),
    "scatter_nd": ([X, TUPLES, X[:, 1:]], ["--mode", "clip"], lambda x, i, u: placed(x, i[:, 0], u)),
    "depth_to_space": (
        [random_rows(N, np.uint8)],
        ["--block-size", 2, "--order", "CRD"],
        lambda x: ORACLES["depth_to_space"](x, 2, "CRD"),
    ),
    "space_to_depth": (
        [random_rows(N, np.float64, (4, 6, 2))],
        ["--block-size", 2, "--data-format", "NHWC"],
        lambda x: ORACLES["space_to_depth"](x, 2, data_format="NHWC"),
    ),
    "as_strided_scatter": (
        [X.reshape(N, 24), X[:, :2, :3]],
        ["--strides", "5,1", "--offset", 2],
        lambda x, u: np.concatenate([x[:2], u[0], x[5:7], u[1], x[10:]]),
    ),
    "as_strided": (
        [X.reshape(N, 24)],
        ["--sizes", "5,3", "--strides", "2,1", "--offset", 1],
        lambda x: np.stack([x[1 + 2 * i : 4 + 2 * i] for i in range(5)]),
    ),
}


def written(x, at, updates):
    """Elements put along the last dimension."""
    result = x.copy()
    np.put_along_axis(result, at, updates, axis=-1)
    return result


def placed(x, at, updates):
    """Rows put at indices."""
    result = x.copy()
    result[at] = updates
    return result


def files(tmp_path, arrays):
    return [saved(tmp_path / f"{i}.npy", array) for i, array in enumerate(arrays)]


def test_every_operator_of_arrays_and_one_output_has_a_subcommand():
    """Whose options have different names."""
    made = command.batch.list_commands(click.Context(command.batch))
    several = {name for name, call in CALLS.items() if isinstance(jax.eval_shape(call, *call.leaves), tuple)}
    without_items = {name for name, call in CALLS.items() if not call.arrays}
    assert set(CASES) <= set(OPERATORS) == set(made) - {"call", "graph"} == set(CALLS) - several - without_items
    for name in OPERATORS:
        names = [option for p in command.batch.get_command(None, name).params for option in p.opts]
        assert len({*names}) == len(names), name
        own = {option.name for option in OPERATORS[name].attributes}
        operands = {*OPERATORS[name].operands}
        shared = {p.name for p in command.batch.get_command(None, name).params} - own - operands
        assert shared == (options.COMMON if len(operands) > 1 else options.COMMON - {"shared"})


@pytest.mark.thinned
@pytest.mark.parametrize("name", OPERATORS)
def test_the_call_of_an_operator_is_applied_to_every_item(tmp_path, name):
    """That of the operator's own tests, on items that differ: each is what the operator's oracle says of it alone."""
    call, out = CALLS[name], tmp_path / "out.npy"
    arrays = [np.stack([np.roll(a, i, 0) if a.ndim else a for i in range(N)]) for a in call.leaves]
    given = []
    for option in OPERATORS[name].attributes:
        value = call.static.get(option.name.removeprefix("attribute_"), option.default)
        if option.is_flag:
            given += [option.opts[0]] if value is True else []
        elif value is not None and (option.required or value != option.default):
            given += [option.opts[0], as_text(value)]
    done = batch(name, *files(tmp_path, arrays), out, *given, "--batch-size", 8)
    assert done.exit_code == 0, done.output
    written = np.load(out)
    assert len(written) == N
    known = {key: value for key, value in call.static.items() if key not in WITHOUT_EFFECT}
    as_given = jax.tree.structure([*call.arrays.values()])
    for i, items in enumerate(zip(*arrays, strict=True)):
        operands = dict(zip(call.arrays, jax.tree.unflatten(as_given, items), strict=True))
        assert_is(written[i], ORACLES[name](**operands, **known), operands.get("input"))


def as_text(value):
    """An attribute as an option takes it."""
    if isinstance(value, dml_jax.Activation):
        return f"{value.operator_type.removeprefix('ACTIVATION_')}:{as_text(value.parameters)}"
    return ",".join(map(str, value)) if isinstance(value, tuple) else value


@pytest.mark.parametrize("name", CASES)
def test_an_operator_is_applied_to_every_item(tmp_path, name):
    """64-bit types too, although x64 is off."""
    arrays, attributes, oracle = CASES[name]
    out = tmp_path / "out.npy"
    done = batch(name, *files(tmp_path, arrays), out, *attributes, "--batch-size", 8)
    assert done.exit_code == 0, done.output
    assert not jax.config.jax_enable_x64
    expected = np.stack([oracle(*items) for items in zip(*arrays, strict=True)])
    written = np.load(out)
    assert (written.dtype, written.shape) == (expected.dtype, expected.shape)
    assert written.tobytes() == expected.tobytes()
    assert done.stderr == ""
    assert done.stdout.startswith(f"{out}: {N} items; ")
    assert done.stdout.count("\n") == 1


def test_updates_are_combined(tmp_path):
    """Any number of them per element; the numbers are whole, so that any order gives the same sum."""
    at, updates = np.abs(INDICES[..., :1]) % 4, X[:, ::-1] % 100
    paths, out = files(tmp_path, [X % 100, at, updates]), tmp_path / "out.npy"
    done = batch("scatter_nd", *paths, out, "--reduction", "add", "--deterministic")
    assert done.exit_code == 0, done.output
    expected = X % 100
    for item, rows, some in zip(expected, at[..., 0], updates, strict=True):
        np.add.at(item, rows, some)
    assert np.load(out).tobytes() == expected.tobytes()
    refused = batch("scatter_nd", *paths, out, "--reduction", "median")
    assert refused.exit_code == 2
    assert "'median' is not one of 'add', 'mul', 'min', 'max', 'mean'" in refused.output


@pytest.mark.parametrize("shared", [["indices"], ["input"]])
def test_a_shared_operand_is_read_whole(tmp_path, shared):
    arrays = [X, INDICES]
    which = ["input", "indices"].index(shared[0])
    paths = files(tmp_path, [a[0] if i == which else a for i, a in enumerate(arrays)])
    done = batch("gather", *paths, tmp_path / "out.npy", "--axis", 0, "--shared", *shared)
    assert done.exit_code == 0, done.output
    operands = [[a[0]] * N if i == which else a for i, a in enumerate(arrays)]
    expected = np.stack([ORACLES["gather"](x, i, 0) for x, i in zip(*operands, strict=True)])
    assert np.load(tmp_path / "out.npy").tobytes() == expected.tobytes()


def test_the_output_is_no_shared_operand(tmp_path):
    """The file would be lost."""
    table, at = files(tmp_path, [X[0], INDICES])
    refused = batch("gather", table, at, table, "--axis", 0, "--shared", "input", "--overwrite")
    assert refused.exit_code == 1
    assert "the output must not be an input" in refused.stderr
    assert np.load(table).tobytes() == X[0].tobytes()


def test_the_type_of_data_without_one_is_said(tmp_path):
    array = random_rows(N, ml_dtypes.bfloat16)
    arguments = ["depth_to_space", saved(tmp_path / "in.npy", array), tmp_path / "out.npy", "--block-size", 2]
    refused = batch(*arguments)
    assert refused.exit_code == 1
    assert "say which type with --dtype" in refused.stderr
    assert batch(*arguments, "--dtype", "bfloat16").exit_code == 0
    assert np.load(tmp_path / "out.npy").tobytes() == blocks_oracle(array).tobytes()


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in OPERATORS)])
def test_help_is_complete(arguments):
    shown = batch(*arguments)
    assert shown.exit_code == 0
    if arguments[0] in OPERATORS:
        operator = OPERATORS[arguments[0]]
        for text in (*operator.operands, "output"):
            assert text.upper() in shown.stdout
        for option in (*(a.opts[0] for a in operator.attributes), "--restart", "--coordinator"):
            assert option in shown.stdout
        assert ("--shared" in shown.stdout) == (len(operator.operands) > 1)
    else:
        assert all(name in shown.stdout for name in OPERATORS)


WRONG = {
    "no attribute": (["depth_to_space", "a", "b"], "Missing option '--block-size'"),
    "no number": (["gather", "a", "b", "c", "--axis", "1", "--fill-value", "x"], "'x' is no number"),
    "no list": (["as_strided", "a", "b", "--sizes", "2;3", "--strides", "1"], "'2;3' is not a list of integers"),
    "no operand": (["gather", "a", "b", "c", "--axis", "1", "--shared", "x"], "the operands are input, indices"),
    "all shared": (["gather_nd", "a", "b", "c", "--shared", "input", "--shared", "indices"], "at least one must have"),
    "only one to share": (["depth_to_space", "a", "b", "--block-size", "2", "--shared", "input"], "No such option"),
    "no type": (["depth_to_space", "a", "b", "--block-size", "2", "--dtype", "real"], "'real' is not a type"),
    "no host": (["depth_to_space", "a", "b", "--block-size", "2", "--process-id", "0"], "go together"),
    "no address": (["gather_nd", "a", "b", "c", "--coordinator", "here"], "'here' is not a HOST:PORT"),
    "no such process": (
        ["gather_nd", "a", "b", "c", "--coordinator", "h:1", "--num-processes", "2", "--process-id", "2"],
        "must be below --num-processes 2",
    ),
    "no operator": (["transpose"], "No such command 'transpose'; did you mean 'as_strided'?"),
    "misspelt operator": (["depth_to_spce"], "No such command 'depth_to_spce'; did you mean 'depth_to_space'?"),
    "several outputs": (["top-k"], "No such command 'top-k'; only functions that take arrays and return one have a"),
    "hyphens": (["depth-to-space"], "No such command 'depth-to-space'; did you mean 'depth_to_space'?"),
}


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG)
def test_wrong_command_lines(arguments, message):
    told = batch(*arguments)
    assert told.exit_code == 2
    assert message in told.stderr


def test_failures_are_told_in_a_line_and_leave_nothing(tmp_path):
    path, out = saved(tmp_path / "in.npy", random_rows(N)), tmp_path / "out.npy"
    cases = {
        "none.npy: an input cannot be read": [tmp_path / "none.npy", out, "--block-size", 2],
        "the channels of input must be a multiple": [path, out, "--block-size", 3],
        "the output must not be an input": [path, path, "--block-size", 2],
        "the output must not be an input; choose": [path, path, "--block-size", 2, "--overwrite"],
        "the output exists; --overwrite replaces it when": [path, path.with_name("in2.npy"), "--block-size", 2],
    }
    saved(tmp_path / "in2.npy", random_rows(N))
    for message, arguments in cases.items():
        told = batch("depth_to_space", *arguments)
        assert told.exit_code == 1
        assert told.stderr.startswith("error: ")
        assert message in told.stderr
        assert "Traceback" not in told.stderr
    assert names(tmp_path) == ["in.npy", "in2.npy"]


def test_an_interruption_of_a_complete_output_changes_nothing(tmp_path, monkeypatch):
    path, out = saved(tmp_path / "in.npy", random_rows(N)), tmp_path / "out.npy"
    clear = Run.clear

    def interrupted(run):
        clear(run)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Run, "clear", interrupted)
    before = signal.getsignal(signal.SIGINT)
    try:
        done = batch("depth_to_space", path, out, "--block-size", 2)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{out}: {N} items; ")
    assert names(tmp_path) == ["in.npy", "out.npy"]


def test_an_interruption_before_the_output_is_renamed_says_so(tmp_path, monkeypatch):
    path, out = saved(tmp_path / "in.npy", random_rows(N)), tmp_path / "out.npy"

    def check(self, now):
        self._last = now
        if now.rows == N:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Interruption, "check", check)
        stopped = batch("depth_to_space", path, out, "--block-size", 2)
    told = f"interrupted: {out}: run it again to rename the output: all {N} items are written\n"
    assert (stopped.exit_code, stopped.stderr) == (130, told)
    assert batch("depth_to_space", path, out, "--block-size", 2).exit_code == 0
    assert names(tmp_path) == ["in.npy", "out.npy"]


# As a process of its own.


def process(*arguments, **keywords):
    keywords = {"stderr": subprocess.PIPE, "text": True, **keywords}
    line = [sys.executable, "-m", "dml_jax", "batch", *map(str, arguments)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, env=environment(), **keywords)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A file that takes a while, item by item, and its array."""
    array = random_rows(4000, np.float32, (16, 8, 8))
    return saved(tmp_path_factory.mktemp("large") / "in.npy", array), array


def until(condition):
    """Waits for a condition."""
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize("number", sampled([signal.SIGINT, signal.SIGTERM], [signal.SIGINT]))
def test_an_interruption_says_where_the_same_command_goes_on(large, tmp_path, number):
    path, array = large
    out = tmp_path / "out.npy"
    arguments = ["depth_to_space", path, out, "--block-size", 2, "--batch-size", 1]
    running = process(*arguments)
    partial = out.with_name("out.npy.partial")
    until(lambda: partial.exists() and any(partial.read_bytes()[1024:]))  # before its first item it would end at once
    time.sleep(0.3)
    running.send_signal(number)
    _, errors = running.communicate(timeout=300)
    assert running.returncode == 130
    rows = int(re.fullmatch(rf"interrupted: {out}: run it again to continue from item (\d+) of 4000\n", errors)[1])
    assert 0 < rows < 4000
    assert not out.exists()
    again = process(*arguments[:-2])
    printed, errors = again.communicate(timeout=300)
    assert (again.returncode, errors) == (0, f"{out}: continues from item {rows} of 4000\n")
    assert printed.startswith(f"{out}: 4000 items, {rows} of them by earlier runs; ")
    assert np.load(out).tobytes() == blocks_oracle(array).tobytes()
    assert names(tmp_path) == ["out.npy"]


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (999, "999 B"), (6144, "6.144 kB"), (999.96e6, "1000 MB"), (2.5e9, "2.5 GB"), (3e13, "30 TB")],
)
def test_bytes_have_a_unit_that_fits(count, shown):
    assert byte_count(count) == shown


@pytest.mark.exhaustive
def test_a_terminal_shows_bandwidth_and_the_time_that_remains(large, tmp_path):
    path, _ = large
    ours, theirs = pty.openpty()
    running = process(
        "depth_to_space", path, tmp_path / "out.npy", "--block-size", 2, "--batch-size", 1, stderr=theirs, text=True
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    printed, _ = running.communicate(timeout=300)
    assert running.returncode == 0
    assert printed.count("\n") == 1
    for text in (b"out.npy", b"4000/4000 items", b"B/s", b"0:00:0"):
        assert text in shown
    assert b"0/1" not in shown


@pytest.mark.exhaustive
def test_two_processes_write_one_file(large, tmp_path):
    path, array = large
    out = tmp_path / "out.npy"
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{found.getsockname()[1]}"
    hosts = ["--coordinator", where, "--num-processes", 2, "--process-id"]
    both = [process("depth_to_space", path, out, "--block-size", 2, *hosts, index) for index in range(2)]
    for running in both:
        printed, errors = running.communicate(timeout=300)
        assert (running.returncode, errors) == (0, "")
        assert printed.startswith(f"{out}: 2000 items; ")
    assert np.load(out).tobytes() == blocks_oracle(array).tobytes()
    assert names(tmp_path) == ["out.npy"]


def test_a_flag_that_is_set_by_default_can_be_unset(tmp_path):
    x, out = np.float32([[[[1, 2], [2, 4]]]]), tmp_path / "out.npy"
    given = ("--local-size", 2, "--alpha", 2, "--beta", 1, "--bias", 0)
    for flag, wanted in ((), [[1, 0.5], [0.5, 0.25]]), (("--no-cross-channel",), [[0.04, 0.1], [0.1, 0.25]]):
        assert (
            batch("local_response_normalization", *files(tmp_path, [x]), out, *given, *flag, "--overwrite").exit_code
            == 0
        )
        np.testing.assert_allclose(np.load(out)[0, 0], wanted, rtol=1e-6)
