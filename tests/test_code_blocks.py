"""Every fenced code block of the documentation is executed, in the way that its language names, or is no code.

| language | how |
| --- | --- |
| `python`, `pycon` with `>>>` | by pytest's doctests, which collect the page |
| `python` without | as a script, in a process of its own |
| `console` | each `$` line is executed, and what it prints compared; one that fails is followed by `$ echo $?` |
| `json` | a whole model file, which `dml-jax check` accepts |
| `sh` | lines that .ci/run executes; `pip install`: its extras exist; `dml-jax` on several hosts: it is parsed |

Scripts, consoles and model files have a folder of their own, with a copy of `docs/models` in it.
"""

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.metadata import metadata
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from command_lines import parse
from test_large_results import settings_of_the_page

from dml_jax.command.main import command

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
FENCE = re.compile(r" *(`{3,}|~{3,})(.*)")
PLAIN = re.compile(r"dml-jax [\w./= -]+")  # nothing that a shell would expand
DISGUISED = re.compile(r">>> |\.\. (code|sourcecode|doctest|literalinclude)")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Args:
      page: relative to the root of the repository.
      line: of its first line of code, from 1.
      language: the first word behind the fence.
      code: what it encloses.
    """

    page: str
    line: int
    language: str
    code: str

    def __str__(self):
        return f"{self.page}:{self.line}"

    @property
    def kind(self):
        """The language, doctests apart from scripts."""
        prompts = self.language in ("python", "pycon") and re.search(r"^ *>>> ", self.code, re.MULTILINE)
        return "doctest" if prompts else self.language


def blocks_of(text, page):
    """The fenced blocks of a page."""
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if opening := FENCE.fullmatch(line):
            fence, language = opening[1], opening[2].strip().partition(" ")[0]
            closed = re.compile(rf" *{re.escape(fence)}+ *")
            code = []
            for _, inner in lines:
                if closed.fullmatch(inner):
                    break
                code.append(inner)
            else:
                raise AssertionError(f"{page}:{number}: the block has no end")
            yield Block(page, number + 1, language, "\n".join(code) + "\n")


BLOCKS = [block for page in PAGES for block in blocks_of(page.read_text(), page.relative_to(ROOT).as_posix())]


WIDTH = 92  # characters that a page shows beside its side bars, 1400 pixels wide


def test_no_line_of_code_is_cut_on_a_page():
    """The README is no page of the site, and its commands are run line by line. ruff.toml holds docs/examples to it."""
    shown = [block for block in BLOCKS if block.page != "README.md" and block.kind not in DIRECTIVES]
    lines = [
        (f"{block.page}:{block.line + i}", line) for block in shown for i, line in enumerate(block.code.splitlines())
    ]
    assert [place for place, line in lines if len(line) > WIDTH] == []


# Doctests.


@cache
def examples_of(page):
    """The examples of a page, as pytest finds them."""
    return doctest.DocTestParser().get_examples((ROOT / page).read_text())


def check_prompts(block):
    """Every prompt is an example of the page, and none is skipped."""
    last = block.line + block.code.count("\n")
    examples = examples_of(block.page)
    found = {example.lineno + 1: example for example in examples if block.line <= example.lineno + 1 < last}
    prompts = [block.line + i for i, line in enumerate(block.code.splitlines()) if re.match(r" *>>> ", line)]
    assert list(found) == prompts
    assert doctest.SKIP not in {flag for example in found.values() for flag in example.options}


PAGES_ALONE = ("--ignore-glob=*.py",)  # importing the examples takes seconds


@pytest.fixture(scope="session")
def collected(request):
    """The pages that pytest collects where it collects all: those of its own `testpaths` that have any."""
    paths = request.config.getini("testpaths")
    paths = [path for path in paths if any(page == ROOT / path or ROOT / path in page.parents for page in PAGES)]
    line = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *PAGES_ALONE, *paths]
    run = subprocess.run(line, cwd=ROOT, env=os.environ | {"PYTEST_ADDOPTS": ""}, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
    return {test.partition("::")[0] for test in run.stdout.splitlines()}


@pytest.mark.parametrize("page", dict.fromkeys(block.page for block in BLOCKS if block.kind == "doctest"))
def test_pytest_collects_the_page(page, collected):
    assert page in collected


# Scripts and model files.


def run_script(block):
    """In a process of its own, which may say how many devices there are."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", block.code], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, f"{block}\n{run.stderr}"


def check_model(block):
    """`dml-jax check` accepts it, beside the documented models."""
    path = Path("docs/models/block.json")
    path.write_text(block.code)
    result = CliRunner().invoke(command, ["check", str(path)])
    assert result.exit_code == 0, result.output


# Consoles.


def run_console(block):
    """Executes each command, and compares what it prints with what the page says."""
    console, flags = Console(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    for line, printed in sessions(block.code):
        assert not console.status or line == "echo $?", f"the status {console.status} must be told by `$ echo $?`"
        actual = console.execute(line)
        assert doctest.OutputChecker().check_output(printed, actual, flags), f"$ {line}\n{actual}"
    assert not console.status, f"the status {console.status} must be told by `$ echo $?`"


def sessions(code):
    """The commands of a console, each with what it prints; `> ` continues a command."""
    assert code.startswith("$ "), "a console begins with a command, `$ `"
    for part in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
        typed, printed = re.fullmatch(r"(.*\n(?:> .*\n)*)((?:.*\n)*)", part).groups()
        yield typed.replace("\n> ", "\n").rstrip("\n"), printed


class Console:
    """Executes lines: `dml-jax` alone inside this process, anything else by sh, which finds this interpreter."""

    def __init__(self):
        self.status, programs = 0, Path("bin").absolute()
        programs.mkdir()
        for name, arguments in {"python": "", "dml-jax": "-m dml_jax "}.items():
            (programs / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {arguments}"$@"\n')
            (programs / name).chmod(0o755)
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}

    def execute(self, line):
        """What a line prints, errors too."""
        if PLAIN.fullmatch(line):
            result = CliRunner().invoke(command, shlex.split(line)[1:], prog_name="dml-jax")
            assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
            self.status = result.exit_code
            return result.output
        shell = ["sh", "-c", f"(exit {self.status}); {line}"]
        run = subprocess.run(shell, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.status = run.returncode
        return run.stdout


# Lines for a shell.


def check_lines(block):
    """.ci/run executes each line, or it installs what exists, is for several hosts, or sets what a test tries."""
    for line in filter(None, block.code.replace("\\\n", "").splitlines()):
        if line.startswith("dml-jax ") and "--coordinator" in line:
            parse(line)
        elif line.startswith("export "):
            assert dict(setting.split("=", 1) for setting in line.split()[1:]) in settings_of_the_page()
        else:
            assert line in executed_by_ci() or installs_what_exists(line), f"nothing executes {line!r}"


def executed_by_ci():
    """The lines that .ci/run executes: its own, and those of the README that it greps for."""
    script = (ROOT / ".ci/run").read_text()
    pattern, page = re.search(r"^grep '(.+)' (\S+) \| while", script, re.MULTILINE).groups()
    assert 'sh -eu -c "$line"' in script
    return {*script.splitlines(), *(line for line in (ROOT / page).read_text().splitlines() if re.match(pattern, line))}


def installs_what_exists(line):
    """Whether a line is a `pip install` of packages and extras that exist."""
    pip, install, *words = shlex.split(line)
    packages = [re.fullmatch(r"([\w.]+)(?:\[([\w,]+)\])?", word) for word in words if not word.startswith("-")]
    extras = {(name, extra) for name, wanted in map(re.Match.groups, packages) for extra in (wanted or "").split(",")}
    return [pip, install] == ["pip", "install"] and all(extra in {"", *extras_of(name)} for name, extra in extras)


def extras_of(name):
    """The extras of this project, or of jax as it is installed; no other package has a place in the documentation."""
    if name == ".":  # its name is on no index
        return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"].keys()
    assert name == "jax", f"{name} is neither this project nor jax"
    return set(metadata("jax").get_all("Provides-Extra"))


# All of them.


def check_directive(block):
    """Sphinx executes it when the site is built; no code is hidden in it."""
    assert not DISGUISED.search(block.code)


def check_output(block):
    """A program that Sphinx executes behind the doctests of the page; test_site.py looks at what it prints."""
    compile(block.code, block.page, "exec")


def check_program(block):
    """A program, or a function of it, that Sphinx puts there: the tests of the examples run it."""
    line = (ROOT / block.page).read_text().splitlines()[block.line - 2]
    assert re.fullmatch(r"```\{literalinclude\} examples/\w+\.py", line)
    program = (ROOT / "docs" / line.partition(" ")[2]).read_text()
    chosen = re.fullmatch(r"(?::pyobject: (\w+))?\n", block.code)
    assert chosen[1] is None or re.search(rf"^(def|class) {chosen[1]}\b", program, re.MULTILINE)


def check_cpp(block):
    """DirectML in C++, beside what replaces it: nothing here compiles it."""


def check_file(block):
    """A file of an operator that does not exist: test_new_operator.py puts it into a copy of this clone."""
    assert block.page == "docs/contributing.md"


DIRECTIVES = tuple(
    f"{{{name}}}"
    for name in (
        "toctree",
        "include",
        "eval-rst",
        "operators",
        "function",
        "struct",
        "structs",
        "rows",
        "tensor",
        "activations",
        "reference",
    )
)
KINDS = {
    "doctest": check_prompts,
    "python": run_script,
    "json": check_model,
    "console": run_console,
    "sh": check_lines,
    "cpp": check_cpp,
    "{code-block}": check_file,
    "{literalinclude}": check_program,
    "{output}": check_output,
    **dict.fromkeys(DIRECTIVES, check_directive),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, with the documented models."""
    shutil.copytree(ROOT / "docs/models", tmp_path / "docs/models", ignore=shutil.ignore_patterns("out"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


EXECUTED = ("python", "json", "console")


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.kind in EXECUTED], ids=str)
def test_block(block, folder):
    if block.page in ("docs/onnx.md", "docs/networks.md"):  # their doctests do the same
        pytest.importorskip("onnx")
    if ".zarr" in block.code:
        pytest.importorskip("tensorstore")
    KINDS[block.kind](block)


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.kind not in EXECUTED], ids=str)
def test_block_that_needs_no_folder(block):
    assert block.kind in KINDS, f"the language is {block.language!r}; it must be one of {', '.join(KINDS)}"
    KINDS[block.kind](block)


WRONG = [
    ("python", "assert False", AssertionError),
    ("json", "{}", AssertionError),
    ("console", "$ dml-jax run docs/models/gather_elements.json\nRunning", AssertionError),
    ("console", "$ echo 1", AssertionError),
    ("console", "$ false", AssertionError),
    ("console", "$ false\n$ echo 1\n1", AssertionError),
    ("console", "$ false\n$ echo $?\n0", AssertionError),
    ("console", "dml-jax ops", AssertionError),
    ("console", "$ dml-jax run missing.json\nerror: ...", AssertionError),
    ("sh", "make test", AssertionError),
    ("sh", "pip install '.[none]'", AssertionError),
    ("sh", "pip install 'dml_jax[cli]'", AssertionError),
    ("sh", "pip install 'jax[none]'", AssertionError),
    ("sh", "pip install numpy", AssertionError),
    ("sh", "dml-jax ops", AssertionError),
    ("sh", "dml-jax batch gather_nd a b c --coordinator here", click.UsageError),
    ("{eval-rst}", ".. code-block:: python", AssertionError),
]


@pytest.mark.parametrize(("kind", "code", "error"), WRONG)
def test_a_wrong_block_fails(kind, code, error, folder):
    with pytest.raises(error):
        KINDS[kind](Block("page", 1, kind, f"{code}\n"))


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("python", "import jax\nprint(jax.numpy.zeros(3))"),
        ("console", "$ false\n$ echo $?\n1\n$ echo 1 \\\n> 2\n1 2"),
        ("sh", "pip install '.[cli,onnx]'"),
        ("sh", "pip install -e . 'jax[cuda13]'"),
    ],
)
def test_a_right_block_passes(kind, code, folder):
    KINDS[kind](Block("page", 1, kind, f"{code}\n"))
