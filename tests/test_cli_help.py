"""The command's help and completion."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner
from command_lines import parse
from documented_models import PAGE, dml_jax_command

import dml_jax
from dml_jax import FeatureLevel
from dml_jax.__main__ import main
from dml_jax.catalogue import STRUCTS
from dml_jax.command.batch_options import batch_operators
from dml_jax.command.main import command
from dml_jax.command.operator_names import function_names, struct_names

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
    assert "..." not in re.sub(r"\b[A-Z]+S\]?\.\.\. ?", "", page)  # any number of arguments
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
