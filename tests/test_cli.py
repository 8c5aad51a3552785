"""The command: the documented models, their broken copies, exit statuses, output lines, JSON, help, completion."""

import contextlib
import dataclasses
import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import click
import jax
import numpy as np
import pytest
from checks import sampled
from click.testing import CliRunner
from command_lines import parse
from example_models import MARK
from model_cases import BROKEN, FOLDER, PRINTS
from PIL import Image

import dml_jax
from dml_jax import FeatureLevel
from dml_jax.__main__ import main
from dml_jax.bench.measuring import Measured
from dml_jax.bench.results import Results
from dml_jax.catalogue import DESCS, STRUCTS
from dml_jax.command.batch_options import batch_operators
from dml_jax.command.main import command
from dml_jax.command.names import function_names, struct_names
from dml_jax.core.tensor import TENSOR

PAGE = FOLDER.parent / "model_files.md"
FILES = sorted(path.name for path in FOLDER.glob("*.json") if MARK not in path.read_text())


def dml_jax_command(*arguments):
    """Runs the command inside this process."""
    return CliRunner().invoke(command, [str(a) for a in arguments])


@pytest.fixture
def models(tmp_path):
    """A copy of the documented models, that a run may write beside."""
    return shutil.copytree(FOLDER, tmp_path / "models", ignore=shutil.ignore_patterns("out"))


def test_every_model_has_its_numbers_and_a_broken_copy():
    assert sorted(PRINTS) == sorted(BROKEN) == FILES  # others are written of the examples, by example_models.py


@pytest.mark.parametrize("name", FILES)
def test_run_prints_directmls_numbers(name, models):
    result = dml_jax_command("run", models / name)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == f"Running on '{jax.devices()[0].device_kind}'"
    printed = [line for line in lines if line.startswith("Resource") and "written" not in line]
    assert printed == [f"Resource '{buffer}': {values}" for buffer, values in PRINTS[name].items()]
    assert all(line.endswith(" ms median (CPU)") for line in lines if line.startswith("Dispatch"))


@pytest.mark.parametrize("name", FILES)
def test_check_refuses_a_broken_copy_with_the_right_rule(name, models):
    assert dml_jax_command("check", models / name).exit_code == 0
    text = (models / name).read_text()
    original, replacement, rule = BROKEN[name]
    assert original in text
    (models / name).write_text(text.replace(original, replacement))
    for verb in ("check", "run"):
        result = dml_jax_command(verb, models / name)
        assert result.exit_code == 1
        assert rule in result.stderr
        assert all(line.startswith(("error: " + str(models / name), "  got ")) for line in result.stderr.splitlines())
        assert result.stdout == ""
    assert not (models / "out").exists()


def test_the_photograph_survives_the_way_there_and_back(models):
    def run():
        result = dml_jax_command("run", models / "photo.json")
        assert f"Resource 'restored' written to {str(models / 'out/restored.png')!r}" in result.output
        return {path.name: path.read_bytes() for path in (models / "out").iterdir()}

    first, second = run(), run()
    assert first == second
    assert sorted(first) == ["depth.npy", "depth.png", "restored.png"]
    with Image.open(FOLDER / "grace_hopper.jpg") as photo, Image.open(models / "out" / "restored.png") as restored:
        pixels = np.asarray(photo.convert("RGB"))
        np.testing.assert_array_equal(np.asarray(restored), pixels)
    with Image.open(models / "out" / "depth.png") as depth:
        four = np.asarray(depth)
    for tile, (y, x) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
        np.testing.assert_array_equal(four[300 * tile : 300 * (tile + 1)], pixels[y::2, x::2])
    assert np.load(models / "out" / "depth.npy").shape == (1, 12, 300, 256)


def test_output_dir_takes_the_files(models, tmp_path):
    result = dml_jax_command("run", models / "photo.json", "--output-dir", tmp_path / "elsewhere")
    assert result.exit_code == 0
    assert (tmp_path / "elsewhere" / "out" / "depth.png").exists()
    assert not (models / "out").exists()


def test_timing_options(models):
    model = models / "gather_elements.json"
    lines = dml_jax_command("run", model, "-i", 5, "-r", 2, "-w", 2, "-v", 2).output.splitlines()
    assert lines[1] == "Dispatch 'example': 5 iterations"
    assert lines[2].startswith("CPU Timings (Cold) : 2 samples, ")
    assert lines[3].startswith("CPU Timings (Hot)  : 3 samples, ")
    assert [line.split(":")[0] for line in lines[5:10]] == [f"iteration {i}" for i in range(5)]
    one = dml_jax_command("run", model, "-v", 1).output.splitlines()
    assert one[2].startswith("CPU Timings (Hot)  : 1 samples")
    timed = dml_jax_command("run", model, "-t", 50, "-I", 10).output.splitlines()[1]
    assert 2 <= int(timed.split(": ")[1].split(" ")[0]) <= 6


def test_feature_level(models):
    result = dml_jax_command("check", models / "gather_nd1.json", "--feature-level", "2_1")
    assert result.exit_code == 1
    assert "dispatchable 'example 1': GATHER_ND1: the operator must exist at feature level 2_1" in result.stderr
    assert dml_jax_command("check", models / "gather_nd1.json", "--feature-level", "3.0").exit_code == 0
    assert dml_jax_command("run", models / "gather_nd1.json", "--feature-level", "2_1").exit_code == 1
    unknown = dml_jax_command("check", models / "gather_nd1.json", "--feature-level", "9_9")
    assert unknown.exit_code == 2
    assert "feature_level must be one of" in unknown.stderr


def test_devices(models):
    listed = dml_jax_command("run", "-s").output.splitlines()
    assert any("(cpu:0)" in line for line in listed)
    assert "Running on" in dml_jax_command("run", models / "gather_nd.json", "-a", "CPU").output
    missing = dml_jax_command("run", models / "gather_nd.json", "--device", "RTX 9090")
    assert missing.exit_code == 2
    assert "no device matches 'RTX 9090'; there are" in missing.stderr


def test_check_lists_every_fault_of_every_file(models):
    text = (
        (models / "gather.json")
        .read_text()
        .replace('"Axis": 0', '"Axis": 7')
        .replace('"type": "print"', '"type": "show"')
    )
    (models / "gather.json").write_text(text)
    (models / "scatter.json").write_text("{")
    result = dml_jax_command("check", *(models / f for f in ("gather.json", "scatter.json", "gather_nd.json")))
    assert result.exit_code == 1
    assert result.stderr.count("Axis must be in") == 2
    assert result.stderr.count("'type' must be one of dispatch, print, writeFile, but it is 'show'") == 5
    assert "scatter.json: not JSON" in result.stderr
    assert "gather_nd.json: valid" in result.stdout


# The operators, from the rule data.


def test_ops_lists_every_operator():
    result = dml_jax_command("ops")
    assert result.exit_code == 0
    for name in ("GATHER", "GATHER_ND1", "SCATTER", "SPACE_TO_DEPTH1"):
        assert f"\n{name} " in result.output


@pytest.mark.parametrize("name", ["gather_nd1", "DML_OPERATOR_SCATTER_ELEMENTS", "DEPTH_TO_SPACE1"])
def test_ops_shows_rules_and_levels(name):
    cls = STRUCTS[name.removeprefix("DML_OPERATOR_").upper()]
    output = dml_jax_command("ops", name).output
    for text in cls.wordings().values():
        assert f"- {text}\n" in output
    assert "- DimensionCount must be in [1, 8]\n" in output
    for row in cls.support:
        assert f"\n{row.since} " in output


@pytest.mark.parametrize("cls", DESCS, ids=lambda cls: cls.operator_type)
def test_ops_lists_the_values_of_enumerations(cls):
    values = {
        cls.directml_names()[name]: [*field.values] for name, field in cls.fields().items() if field.kind == "enum"
    }
    (operator,) = printed_json("ops", cls.operator_type)["operators"]
    assert {field["name"]: field["values"] for field in operator["fields"] if "values" in field} == values
    output = dml_jax_command("ops", cls.operator_type).output
    assert ("values:\n" in output) == bool(values)
    for name, names in values.items():
        assert f"  - {name}: {', '.join(names)}\n" in output


def test_ops_names_the_orders_as_directml_does():
    assert "  - Order: DEPTH_COLUMN_ROW, COLUMN_ROW_DEPTH\n" in dml_jax_command("ops", "DEPTH_TO_SPACE1").output


def test_ops_says_which_functions_a_row_is_about():
    lines = dml_jax_command("ops", "REDUCE").stdout.split("\n\n")[-1].splitlines()
    assert re.search(r"^4_1 +ARGMAX, ARGMIN +1 to 8 ", "\n".join(lines), re.MULTILINE)
    rows = printed_json("ops", "REDUCE")["operators"][0]["feature_levels"]
    newest = next(row for row in rows if row["given"] == {"field": "Function", "values": ["L1", "SUM_SQUARE"]})
    assert (newest["since"], newest["tensors"][0]["name"]) == ("5_0", "InputTensor")


def test_ops_unknown_name():
    result = dml_jax_command("ops", "GATHR")
    assert result.exit_code == 2
    assert "did you mean 'GATHER'" in result.stderr


def test_ops_breaks_no_line_where_a_program_reads():
    lines = dml_jax_command("ops").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [cls.operator_type for cls in DESCS]
    table = dml_jax_command("ops", "GATHER_ND1").stdout.split("\n\n")[-1].splitlines()
    assert [line.split()[0] for line in table[1:]] == [str(row.since) for row in STRUCTS["GATHER_ND1"].support]


# JSON.


def printed_json(*arguments, status=0):
    """What the command prints, which is JSON and nothing else."""
    result = dml_jax_command(*arguments, "--json")
    assert result.exit_code == status, result.output
    assert result.stderr == ""
    return json.loads(result.stdout)


def test_ops_as_json_has_every_rule_field_and_level():
    printed = printed_json("ops")
    assert printed.keys() == {"feature_level", "operators", "tensor_rules"}
    assert printed["feature_level"] == "6_4"
    assert [rule["name"] for rule in printed["tensor_rules"]] == [rule.name for rule in TENSOR]
    for operator, cls in zip(printed["operators"], DESCS, strict=True):
        assert operator.keys() == {"operator", "summary", "fields", "rules", "feature_levels"}
        assert operator["operator"] == cls.operator_type
        assert operator["summary"].endswith(".")
        assert [field["name"] for field in operator["fields"]] == list(cls.directml_names().values())
        assert [field["tensor"] for field in operator["fields"]] == [n in cls.tensor_names() for n in cls.field_names()]
        assert {rule["name"]: rule["text"] for rule in operator["rules"]} == cls.wordings()


def test_ops_as_json_of_one_operator_at_one_level():
    (operator,) = printed_json("ops", "gather", "--feature-level", "2_1")["operators"]
    assert "InputTensor.DimensionCount must be 4 at feature level 2_1" in [rule["text"] for rule in operator["rules"]]
    assert operator["feature_levels"][-1] == {
        "since": "1_0",
        "dimension_counts": [4],
        "tensors": [
            {"name": "InputTensor", "data_types": ["FLOAT32", "FLOAT16"]},
            {"name": "IndicesTensor", "data_types": ["UINT32"]},
        ],
    }
    (missing,) = printed_json("ops", "GATHER_ND1", "--feature-level", "1_0")["operators"]
    assert missing["rules"][-1] == {"name": "available", "text": "the operator must exist at feature level 1_0"}


def test_check_as_json_lists_every_fault_of_every_file(models):
    text = (models / "gather_nd.json").read_text()
    (models / "gather_nd.json").write_text(text.replace('"type": "print"', '"type": "show"'))
    names = ("gather.json", "gather_nd.json", "missing.json")
    printed = printed_json("check", *(models / name for name in names), status=1)
    assert printed.keys() == {"feature_level", "files"}
    valid, faulty, missing = printed["files"]
    assert valid == {
        "path": str(models / "gather.json"),
        "valid": True,
        "operators": [{"where": f"dispatchable 'example {i}'", "operator": "GATHER"} for i in range(1, 6)],
        "faults": [],
    }
    assert (faulty["valid"], faulty["operators"]) == (False, [])
    assert faulty["faults"][0] == {
        "where": "command 1 (show)",
        "line": 36,
        "what": "'type' must be one of dispatch, print, writeFile, but it is 'show'",
    }
    assert missing["faults"] == [{"where": "", "line": None, "what": "cannot be read: No such file or directory"}]
    shown = dml_jax_command("check", *(models / name for name in names)).stderr.splitlines()
    faults = [(file["path"], fault) for file in printed["files"] for fault in file["faults"]]
    assert shown == [
        f"error: {':'.join(map(str, filter(None, (path, fault['line']))))}: "
        f"{': '.join(filter(None, (fault['where'], fault['what'])))}"
        for path, fault in faults
    ]


def test_devices_as_json():
    listed = printed_json("run", "--show-devices")["devices"]
    assert [device["label"] for device in listed] == dml_jax_command("run", "-s").output.splitlines()
    first = jax.devices()[0]
    assert listed[0] == {
        "label": f"{first.device_kind} ({first.platform}:{first.id})",
        "kind": first.device_kind,
        "platform": first.platform,
        "id": first.id,
    }


def keys(value):
    """Every key of every object."""
    if isinstance(value, list):
        return set().union(*map(keys, value))
    return set(value).union(*map(keys, value.values())) if isinstance(value, dict) else set()


def test_every_key_is_documented(models):
    (models / "gather_nd.json").write_text("{")
    printed = [
        printed_json("ops"),
        printed_json("check", models / "gather.json", models / "gather_nd.json", status=1),
        printed_json("run", "--show-devices"),
        json.loads(dml_jax_command("run", models / "gather.json", "--json").stdout),
        json.loads(Results.now("a device", {}, []).json()),
        dict.fromkeys(field.name for field in dataclasses.fields(Measured)),
    ]
    marked = re.findall(r"`([\w.\[\]]+)`", PAGE.read_text())
    documented = {name for path in marked for name in re.findall(r"\w+", path)}
    assert keys(printed) <= documented


def test_the_times_of_a_run_as_json(models):
    options = ("-i", "5", "-w", "2")
    as_json = dml_jax_command("run", models / "gather.json", *options, "--json")
    printed = json.loads(as_json.stdout)
    assert printed["device"] == dml_jax_command("run", "-s").output.splitlines()[0]
    said = dml_jax_command("run", models / "gather.json", *options)
    names = re.findall(r"Dispatch '([^']+)': 5 iterations", said.stdout)
    assert [d["dispatchable"] for d in printed["dispatches"]] == names
    assert len(names) == 5
    for dispatch in printed["dispatches"]:
        assert len(dispatch["milliseconds"]) == 5
        assert min(dispatch["milliseconds"]) > 0
        assert dispatch["warmup"] == 2
    assert not said.stderr
    assert re.sub(r"[\d.]+ ms", "", as_json.stderr) == re.sub(r"[\d.]+ ms", "", said.stdout)


def test_a_run_that_fails_prints_no_json(models):
    (models / "gather_nd.json").write_text("{")
    result = dml_jax_command("run", models / "gather_nd.json", "--json")
    assert result.exit_code == 1
    assert not result.stdout
    assert "not JSON" in result.stderr


# Help.


def commands(group, *names):
    """Every command below a group, by the words that call it."""
    yield names, group
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            yield from commands(group.get_command(context, name), *names, name)


ALL = dict(commands(command))


def examples(page):
    """The lines of the last section of a help page that are commands."""
    return [line.strip() for line in page.partition("Example")[2].splitlines() if line.startswith("    dml-jax ")]


@pytest.mark.parametrize("names", ALL, ids=" ".join)
def test_help_is_whole(names):
    """Complete sentences, every option explained, nothing cut off at 80 columns, exit statuses, examples."""
    page = CliRunner(env={"COLUMNS": "80"}).invoke(command, [*names, "--help"]).output
    assert "..." not in re.sub(r"\[ARGS\]\.\.\.|\b[A-Z]+S\.\.\. ?", "", page)  # any number of arguments
    for wanted in ("Exit status: 0 ", "2 the command line is wrong"):
        assert wanted in " ".join(page.split())
    explained, _, _ = page.partition("Example")
    assert max(map(len, explained.splitlines())) <= 80
    assert examples(page)
    for option in ALL[names].params:
        if isinstance(option, click.Option):
            assert re.fullmatch(r"[A-Z].*\.", option.help or ""), option.opts


EXAMPLES = [line for one in ALL.values() for line in examples(one.get_help(click.Context(one, info_name="dml-jax")))]


@pytest.mark.parametrize("line", dict.fromkeys(EXAMPLES))
def test_examples_of_the_help_can_be_parsed(line):
    parse(line)


def test_version():
    assert dml_jax_command("--version").output == f"command, version {dml_jax.__version__}\n"


@pytest.mark.parametrize("arguments", [["run"], ["check"], ["run", "a", "-i", "0"], ["run", "a", "-v", "3"], ["fly"]])
def test_wrong_command_lines(arguments):
    assert dml_jax_command(*arguments).exit_code == 2


# Completion: the protocol between a shell's function and the command.


def test_names_are_completed_without_jax_as_the_catalogue_has_them():
    assert struct_names() == {name: cls.summary() for name, cls in STRUCTS.items()}
    first = {name: one.function.__doc__.splitlines()[0].replace("`", "") for name, one in batch_operators().items()}
    assert function_names() == first


def completed(monkeypatch, capsys, words, shell="bash"):
    """What the command offers for the last word; type, value, and what else the shell's form has."""
    fish = {"COMP_WORDS": words, "COMP_CWORD": shlex.split(words)[-1]}
    others = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    for name, value in {"_DML_JAX_COMPLETE": f"{shell}_complete", **(fish if shell == "fish" else others)}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("words", "offered"),
    {
        "dml-jax ": ["batch", "bench", "check", "ops", "run"],
        "dml-jax ops SCATTER_": ["SCATTER_ELEMENTS", "SCATTER_ND"],
        "dml-jax ops gather_n": ["GATHER_ND", "GATHER_ND1"],
        "dml-jax ops GATHER --feature-level 2": ["2_0", "2_1"],
        "dml-jax check --feature-level ": [str(level) for level in FeatureLevel],
        "dml-jax run --i": ["--iterations", "--interval", "--input", "--input-path"],
        "dml-jax batch gather_n": ["gather_nd"],
        "dml-jax batch gather --shared in": ["input", "indices"],
        "dml-jax batch depth_to_space --order C": ["CRD", "COLUMN_ROW_DEPTH"],
    }.items(),
)
def test_completion_offers_words(monkeypatch, capsys, words, offered):
    assert completed(monkeypatch, capsys, words) == [f"plain,{word}" for word in offered]


@pytest.mark.parametrize(
    "words", ["dml-jax run docs/mo", "dml-jax check a.json b", "dml-jax batch gather ", "dml-jax bench --json r"]
)
def test_completion_leaves_files_to_the_shell(monkeypatch, capsys, words):
    assert completed(monkeypatch, capsys, words) == [f"file,{words.rpartition(' ')[2]}"]


def test_completion_of_a_folder(monkeypatch, capsys):
    assert completed(monkeypatch, capsys, "dml-jax run --output-dir o") == ["dir,o"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_explains_where_the_shell_shows_it(monkeypatch, capsys, shell):
    offered = "\n".join(completed(monkeypatch, capsys, "dml-jax ops GATHER_ND1", shell))
    assert "GATHER_ND1" in offered
    assert "GATHER_ND with leading dimensions that input, indices and output share." in offered


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", "complete -o nosort -F _dml_jax_completion dml-jax"),
        ("zsh", "#compdef dml-jax"),
        ("fish", "complete --no-files --command dml-jax"),
    ],
)
def test_completion_functions_are_printed(monkeypatch, capsys, shell, line):
    monkeypatch.setenv("_DML_JAX_COMPLETE", f"{shell}_source")
    with pytest.raises(SystemExit):
        main()
    assert line in capsys.readouterr().out
    assert f"_DML_JAX_COMPLETE={shell}_source dml-jax" in PAGE.read_text()


BASH = """
eval "$(_DML_JAX_COMPLETE=bash_source dml-jax)"
complete -p dml-jax
COMP_WORDS=(dml-jax ops GATHER_ND) COMP_CWORD=2
_dml_jax_completion dml-jax
echo "${COMPREPLY[@]}"
"""


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes(tmp_path):
    starter = tmp_path / "dml-jax"
    starter.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m dml_jax "$@"\n')
    starter.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    run = subprocess.run(
        ["bash", "--norc", "-c", BASH], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert run.stdout.splitlines() == ["complete -o nosort -F _dml_jax_completion dml-jax", "GATHER_ND GATHER_ND1"]


# As a process of its own.


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
    assert ended.value.code == f"dml-jax: the command needs {package}; install it with: pip install 'dml_jax[cli]'"


@pytest.mark.parametrize("arguments", [["run", "m.onnx"], ["check", "m.onnx"]], ids=" ".join)
def test_without_the_extra_onnx_says_what_to_install(monkeypatch, arguments):
    for name in [name for name in sys.modules if name.partition(".")[0] == "onnx" or "dml_jax.onnx" in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(vars(dml_jax), "onnx", raising=False)
    monkeypatch.setitem(sys.modules, "onnx", None)
    result = dml_jax_command(*arguments)
    assert result.exit_code == 1
    assert result.output == "dml-jax: dml_jax.onnx needs onnx; install it with: pip install 'dml_jax[onnx]'\n"


def test_without_the_extra_bench_draws_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr("dml_jax.bench.picture.find_spec", lambda name: None)
    result = dml_jax_command("bench", "--quick", "--picture", tmp_path / "p.png")
    assert result.exit_code == 1
    assert result.output == (
        "error: the picture needs the package matplotlib; pip install 'dml_jax[bench]' installs it\n"
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


def test_64_bit_types_work(tmp_path):
    big = [2**40 + i for i in range(4)]
    model = {
        "resources": {
            "x": {"initialValuesDataType": "INT64", "initialValues": big},
            "i": {"initialValuesDataType": "UINT64", "initialValues": [2**63, 1]},
            "y": {"initialValuesDataType": "INT64", "initialValues": {"valueCount": 2, "value": 0}},
        },
        "dispatchables": {
            "g": {
                "type": "GATHER",
                "desc": {
                    "InputTensor": {"DataType": "INT64", "Sizes": [4]},
                    "IndicesTensor": {"DataType": "UINT64", "Sizes": [2]},
                    "OutputTensor": {"DataType": "INT64", "Sizes": [2]},
                    "Axis": 0,
                    "IndexDimensions": 1,
                },
            }
        },
        "commands": [
            {
                "type": "dispatch",
                "dispatchable": "g",
                "bindings": {"InputTensor": "x", "IndicesTensor": "i", "OutputTensor": "y"},
            },
            {"type": "print", "resource": "y"},
        ],
    }
    (tmp_path / "m.json").write_text(json.dumps(model))
    result = dml_jax_command("run", tmp_path / "m.json")
    assert f"Resource 'y': {big[3]}, {big[1]}" in result.output
    assert not jax.config.jax_enable_x64


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1e400", "soon"])
@pytest.mark.parametrize("option", ["-t", "-I"])
def test_times_must_be_finite(models, option, value):
    result = dml_jax_command("run", models / "gather_nd.json", option, value)
    assert result.exit_code == 2
    assert "is no number of milliseconds" in result.stderr


def test_the_output_is_bound_in_timed_iterations(models):
    """Without -v nothing is said; with it, that all iterations wrote into the memory that was bound."""
    quiet = dml_jax_command("run", models / "gather_nd.json", "-i", "3")
    assert "Memory" not in quiet.stdout
    result = dml_jax_command("run", models / "gather_nd.json", "-i", "3", "-v", "1")
    assert result.exit_code == 0
    assert "\nMemory: output of 16 bytes written in place, 0 bytes allocated; 0 bytes temporary\n" in result.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a full device")
def test_a_full_standard_output_is_an_error(models):
    with open("/dev/full", "w") as full:
        run = subprocess.run(
            [sys.executable, "-m", "dml_jax", "ops"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert run.returncode == 1
    assert run.stderr.strip().startswith("error: cannot write the output: ")


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
@pytest.mark.parametrize("seconds", sampled([1.0, 1.5, 2.5], [1.0]))
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
