"""The command as a process of its own: exit statuses, signals, pipes and terminals, and extras that are missing."""

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from checks import sampled
from documented_models import copy_models, dml_jax_command
from model_cases import FOLDER

import dml_jax
from dml_jax.__main__ import main

models = pytest.fixture(copy_models)


def process(*arguments, **keywords):
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    return subprocess.Popen(
        [sys.executable, "-m", "dml_jax", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **keywords,
    )


def test_exit_statuses_of_the_process(models):
    good = process("run", models / "gather_nd.json")
    bad = process("check", models / "missing.json")
    wrong = process("run", models / "gather_nd.json", "--nonsense")
    assert "Resource '1 output': 2, 3, 0, 1" in good.communicate()[0]
    assert "missing.json: cannot be read: No such file or directory" in bad.communicate()[1]
    assert "No such option" in wrong.communicate()[1]
    assert (good.returncode, bad.returncode, wrong.returncode) == (0, 1, 2)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_interruption_leaves_nothing_half_written(models):
    running = process("run", models / "photo.json", "-t", 60_000)
    assert running.stdout.readline().startswith("Running on")
    time.sleep(1)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=300)
    assert running.returncode == 130
    assert errors.strip().endswith("interrupted")
    assert "Traceback" not in errors
    assert not (models / "out").exists()


@pytest.mark.parametrize("package", ["click", "rich", "PIL"])
def test_without_the_extra_the_command_says_what_to_install(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == f"dml-jax: the command needs {package}; install it in a clone: pip install '.[cli]'"


@pytest.mark.parametrize("arguments", [["run", "m.onnx"], ["check", "m.onnx"]], ids=" ".join)
def test_without_the_extra_onnx_says_what_to_install(monkeypatch, arguments):
    for name in [name for name in sys.modules if name.partition(".")[0] == "onnx" or "dml_jax.onnx" in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(vars(dml_jax), "onnx", raising=False)
    monkeypatch.setitem(sys.modules, "onnx", None)
    result = dml_jax_command(*arguments)
    assert result.exit_code == 1
    assert result.output == "dml-jax: dml_jax.onnx needs onnx; install it in a clone: pip install '.[onnx]'\n"


def test_without_the_extra_bench_draws_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr("dml_jax.bench.run_picture.find_spec", lambda name: None)
    result = dml_jax_command("bench", "--quick", "--picture", tmp_path / "p.png")
    assert result.exit_code == 1
    assert result.output == (
        "error: the picture needs the package matplotlib; pip install '.[bench]' in a clone installs it\n"
    )


@pytest.mark.parametrize("platform", ["nonsense", "cuda"])
def test_a_platform_that_is_not_here_is_an_error(monkeypatch, tmp_path, platform):
    def none():
        raise {"nonsense": RuntimeError("Unable to initialize backend"), "cuda": AssertionError()}[platform]

    monkeypatch.setattr(jax, "devices", none)
    monkeypatch.setenv("JAX_PLATFORMS", platform)
    np.save(tmp_path / "x.npy", np.zeros((2, 4, 1, 1), np.float32))
    batch = ["batch", "depth_to_space", tmp_path / "x.npy", tmp_path / "y.npy", "--block-size", 2]
    for arguments in (["run", "-s"], ["run", FOLDER / "gather.json"], ["bench", "--list"], batch):
        result = dml_jax_command(*arguments)
        assert result.exit_code == 1
        assert result.output.startswith(f"error: JAX finds no device of JAX_PLATFORMS={platform}: ")
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


MEASURED = ["bench", "--quick", "-k", "gather rows", "--rounds", "1", "--no-peers"]


def test_nothing_but_text_is_printed_into_pipes():
    """No escape codes, and no bar of progress."""
    for arguments in (["--help"], ["ops"], ["ops", "GATHER"], ["run", FOLDER / "gather.json"], MEASURED):
        result = dml_jax_command(*arguments)
        assert result.exit_code == 0
        assert "\x1b" not in result.output
        assert result.stderr == ""


@pytest.mark.exhaustive
@pytest.mark.skipif(os.name != "posix", reason="terminals of POSIX")
def test_a_terminal_gets_no_colours_with_no_color():
    """A bar of progress is drawn, in bold, and nothing has a colour."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "TERM": "xterm-256color", "NO_COLOR": "1"}
    line = [sys.executable, "-m", "dml_jax", *MEASURED]
    running = subprocess.Popen(line, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    assert running.wait(timeout=300) == 0
    parameters = {p for code in re.findall(rb"\x1b\[([\d;]*)m", shown) for p in code.split(b";")}
    assert b"1/1" in shown
    assert parameters <= {b"", b"0", b"1", b"2", b"3", b"4", b"22", b"23", b"24"}


# What each command prints to the standard output and to the standard error.
OUTPUT, ERRORS = (True, False), (False, True)
BATCH = ["batch", "depth_to_space", "x.npy", "y.npy", "--block-size", 2]
COMMANDS = {
    "ops": (["ops"], 0, OUTPUT),
    "batch": (BATCH, 0, OUTPUT),
    "check of no file": (["check", "none.json"], 1, ERRORS),
    "help": (["--help"], 0, OUTPUT),
    "wrong": (["nonsense"], 2, ERRORS),
    "run": (["run", FOLDER / "photo.json", "--output-dir", "out"], 0, OUTPUT),
    "check": (["check", FOLDER / "gather.json"], 0, OUTPUT),
    "check as JSON": (["check", FOLDER / "gather.json", "--json"], 0, OUTPUT),
    "bench": (["bench", "--list"], 0, OUTPUT),
}
# What a shell does with the streams, whether the output is lost, and whether the errors are.
STREAMS = {
    "closed output": ('"$@" >&-', True, False),
    "closed errors": ('"$@" 2>&-', False, True),
    "all closed": ('"$@" <&- >&- 2>&-', True, True),
    "full output": ('"$@" >/dev/full', True, False),
    "full errors": ('"$@" 2>/dev/full', False, True),
    "a reader that goes away": ('{ "$@"; echo $? >status; } | :', True, False),
}


SAMPLE = [
    ("all closed", "batch"),
    ("full output", "ops"),
    ("full errors", "wrong"),
]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a full device")
@pytest.mark.parametrize("case", sampled([(way, name) for way in STREAMS for name in COMMANDS], SAMPLE), ids=", ".join)
def test_output_that_is_lost_is_an_error_and_closed_streams_are_none(tmp_path, case):
    """Status 1, and a line that says so unless the reader went away. Closed streams end no work: files are written."""
    way, name = case
    (arguments, status, (prints, tells)), (line, output_lost, errors_lost) = COMMANDS[name], STREAMS[way]
    np.save(tmp_path / "x.npy", np.zeros((2, 4, 1, 1), np.float32))
    run = subprocess.run(
        ["sh", "-c", line, "sh", sys.executable, "-m", "dml_jax", *map(str, arguments)],
        cwd=tmp_path,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    ended = tmp_path / "status"
    is_lost = output_lost and prints
    says_so = is_lost and not errors_lost and way != "a reader that goes away"
    assert "Traceback" not in run.stderr
    assert (int(ended.read_text()) if ended.exists() else run.returncode) == (1 if is_lost else status)
    assert bool(run.stdout) == (prints and not output_lost)
    assert ("error: cannot write the output: " in run.stderr) == says_so
    assert bool(run.stderr) == (says_so or (tells and not errors_lost))
    written = [path.name for path in tmp_path.iterdir() if path.name in ("y.npy", "out")]
    stops = way in ("full output", "a reader that goes away")
    assert written == {"batch": ["y.npy"], "run": [] if stops else ["out"]}.get(name, [])


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_a_reader_that_goes_away_is_no_fault_of_the_model(models):
    running = process("run", models / "gather.json", "-t", 300)
    running.stdout.readline()
    running.stdout.close()
    with running.stderr:
        errors = running.stderr.read()
    assert running.wait(timeout=300) == 1
    assert errors == ""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.exhaustive
@pytest.mark.parametrize("seconds", [1.0, 1.5, 2.5])
def test_interruption_at_any_time_ends_the_command(models, seconds):
    running = process("run", models / "photo.json", "-t", 60_000)
    time.sleep(seconds)
    for _ in range(5):  # JAX, while it is imported, has a callback that swallows one
        running.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.communicate(timeout=6)
            break
    assert running.returncode in (130, -signal.SIGINT)
    assert not (models / "out").exists()
