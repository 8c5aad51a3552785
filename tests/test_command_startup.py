"""Start-up of the command: help and lists without importing JAX, and Ctrl-C during its import."""

import os
import subprocess
import sys

import pytest
from model_cases import FOLDER

import dml_jax
from dml_jax import FeatureLevel
from dml_jax.command.batch_options import batch_operators

# Prints on the standard error, after what the command does, the packages that it imported.
TELLING = """
import sys
from dml_jax.__main__ import main
try:
    main()
finally:
    print("imported:", *{name.partition(".")[0] for name in sys.modules}, file=sys.stderr)
"""
SLOW = {"jax", "jaxlib", "ml_dtypes", "numpy", "onnx", "scipy"}


def started(*arguments, status=0, **variables):
    """What the command prints in a process of its own, which imports nothing that is slow."""
    line = [sys.executable, "-c", TELLING, *arguments]
    environment = {**os.environ, **variables}
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=300, check=False)
    errors, _, imported = done.stderr.rpartition("imported:")
    assert (done.returncode, SLOW.intersection(imported.split())) == (status, set()), done.stderr
    return done.stdout + errors


@pytest.mark.parametrize("subcommand", ["run", "check", "ops", "batch", "bench"])
def test_help_of_a_subcommand_imports_no_jax(subcommand):
    assert started(subcommand, "--help").startswith(f"Usage: dml-jax {subcommand} [OPTIONS]")


def test_help_imports_no_jax():
    page = started("--help")
    for name in ("batch", "bench", "check", "ops", "run"):
        assert f"\n  {name} " in page


def test_the_help_of_batch_lists_the_operators_that_it_has():
    """By the first sentences of their docstrings; and `call` and `graph`, whose own help imports no JAX either."""
    listed = started("batch", "--help").partition("\nCommands:\n")[2].partition("\n  Examples:")[0]
    said = {name: one.function.__doc__.splitlines()[0].replace("`", "") for name, one in batch_operators().items()}
    said |= {name: started("batch", name, "--help").split("\n")[2].strip() for name in ("call", "graph")}
    expected = [f"{name} {text.partition(';')[0].rstrip('.')}." for name, text in sorted(said.items())]
    assert "".join(listed.split()) == "".join(" ".join(expected).split())  # lines break at hyphens too


def test_the_version_imports_no_jax():
    assert started("--version") == f"dml-jax, version {dml_jax.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["fly"],
        ["run", "--fly"],
        ["run", "-t", "soon"],
        ["check", "--feature-level", "9"],
        ["check", "m.json", "--picture", "graph.png"],
        ["bench", "x"],
        ["batch", "fly"],
        ["batch", "call", "fly", "x.npy", "y.npy"],
    ],
)
def test_wrong_command_lines_import_no_jax(arguments):
    assert started(*arguments, status=2).startswith("Usage: dml-jax")


@pytest.mark.parametrize(
    ("words", "offered"),
    {
        "dml-jax ": ["batch", "bench", "check", "ops", "run"],
        "dml-jax r": ["run"],
        "dml-jax ba": ["batch"],
        "dml-jax run --i": ["--iterations", "--interval", "--input", "--input-path"],
        "dml-jax bench --j": ["--json"],
        "dml-jax batch --h": ["--help"],
        "dml-jax batch gather_": ["gather_elements", "gather_nd"],
        "dml-jax ops SCATTER": ["SCATTER", "SCATTER_ELEMENTS", "SCATTER_ND"],
        **{
            f"dml-jax {subcommand} --feature-level ": [str(level) for level in FeatureLevel]
            for subcommand in ("run", "check", "ops")
        },
    }.items(),
)
def test_completion_imports_no_jax(words, offered):
    variables = {
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
        "_DML_JAX_COMPLETE": "bash_complete",
    }
    assert started(**variables).splitlines() == [f"plain,{word}" for word in offered]


# Tells which packages were imported when the handler of interruptions is put in place, and when it is taken away; those
# that `threading` imports differ between releases of Python.
SPYING = """
import signal, sys, threading
before, put = {*sys.modules}, signal.signal
def spy(number, handler):
    packages = {name.partition(".")[0] for name in sys.modules if name not in before}
    print(handler.__name__ if callable(handler) else handler.name, *sorted(packages))
    put(number, handler)
signal.signal = spy
from dml_jax.__main__ import main
main()
"""


@pytest.mark.parametrize("arguments", [["--version"], ["fly"], ["ops", "GATHER"]], ids=" ".join)
def test_interruptions_are_told_from_the_first_line_to_the_last(arguments):
    line = [sys.executable, "-c", SPYING, *arguments]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)
    (first, *imported), *_, (last, *_) = [one.split() for one in done.stdout.splitlines()]
    assert (first, last) == ("_interrupted", "SIG_IGN")
    assert {*imported} <= {"dml_jax", "importlib", "warnings"}


# A JAX that is interrupted while it is imported, and would swallow an exception, as callbacks of the real one do.
INTERRUPTED = """
import contextlib, signal
with contextlib.suppress(BaseException):
    signal.raise_signal(signal.SIGINT)
raise RuntimeError("it went on")
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", FOLDER / "gather.json"],
        ["run", "--show-devices"],
        ["check", FOLDER / "gather.json"],
        ["ops"],
        ["ops", "GATHER"],
        ["bench", "--list"],
        ["batch", "gather", "--help"],
        ["batch", "gather", "x.npy", "i.npy", "y.npy", "--axis", "0"],
    ],
    ids=lambda arguments: " ".join(map(str, arguments[:2])).replace(str(FOLDER), ""),
)
def test_interruption_while_jax_is_imported(tmp_path, arguments):
    assert_told(tmp_path, INTERRUPTED, arguments)


def test_interruption_while_the_module_of_unfinished_files_is_imported(tmp_path):
    half = "import sys, types\nsys.modules['dml_jax.atomic_write'] = types.ModuleType('dml_jax.atomic_write')\n"
    assert_told(tmp_path, half + INTERRUPTED, ["ops"])


def assert_told(tmp_path, jax, arguments):
    """The command ends with one line and status 130, while it imports this in place of JAX."""
    (tmp_path / "jax.py").write_text(jax)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", "dml_jax", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
