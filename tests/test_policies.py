"""Project files: stability, security, changelog and citation."""

import datetime
import importlib
import re
import tomllib
from pathlib import Path

import click
import pytest
import yaml

import dml_jax
from dml_jax.command.main import command
from dml_jax.compiled.artifact import VERSION
from dml_jax.onnx import check_file, constant_work, memory_limits, node_limits, node_reader, traced_memory

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
STABILITY, SECURITY, CHANGES = (
    (ROOT / f"docs/{name}.md").read_text() for name in ("stability", "security", "changelog")
)


def test_the_test_files_that_ci_names_exist():
    named = set(re.findall(r"\btests/\w[\w/.]*", (ROOT / ".ci/run").read_text()))
    assert "tests/test_onnx.py" in named
    assert {name for name in named if not (ROOT / name).exists()} == set()


# Stability.


@pytest.mark.parametrize("module", ["dml_jax", "dml_jax.batch", "dml_jax.onnx"])
def test_every_public_name_exists_and_is_documented(module):
    """What `dir` and `__all__` list, and the page speaks of these modules and no other."""
    found = importlib.import_module(module)
    names = {*dir(dml_jax)} if module == "dml_jax" else {*found.__all__}
    assert all(getattr(found, name, None) is not None for name in names)
    assert f"`{module}" in STABILITY
    silent = {name for name in names - {"__version__"} if not getattr(found, name).__doc__}
    assert not silent


def test_versions_are_those_of_the_metadata():
    stated = re.search(
        r"Python ([\d.]+) or newer, jax and jaxlib ([\d.]+) or newer but not ([\d.]+) and not ([\d.]+), "
        r"and numpy ([\d.]+)",
        STABILITY,
    )
    python, oldest, *excluded, numpy = stated.groups()
    jax = ",".join([f">={oldest}", *(f"!={release}" for release in excluded)])
    assert PROJECT["requires-python"] == f">={python}"
    assert set(PROJECT["dependencies"]) == {f"jax{jax}", f"jaxlib{jax}", f"numpy>={numpy}"}


def test_the_releases_to_take_are_those_that_were_tested():
    (sentence,) = re.findall(r"\*\*(Take jax .*?)\*\*", STABILITY, re.DOTALL)
    table = (ROOT / "docs/contributing.md").read_text().partition("### Where the tests passed")[2].partition("\n## ")[0]
    tested = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")][2:]
    releases = re.findall(r"jax (0[\d.]*\d)( on NVIDIA GPUs)?", sentence)
    assert len(releases) == 3
    for release, on_gpus in releases:
        assert any(
            jax.startswith(release) and ("NVIDIA" in platform) == bool(on_gpus) for platform, _, jax, _ in tested
        )


def test_the_version_of_artifacts_is_the_one_written():
    assert f"all that write artifact version {VERSION};" in STABILITY


def test_the_exit_statuses_are_those_of_the_help():
    stated = set(re.findall(r"^\| (\d+) \|", STABILITY, re.MULTILINE))
    for name, one in {"dml-jax": command, **command.commands}.items():
        (line,) = re.findall(r"Exit status: (.*?)\.$", click.unstyle(one.help), re.MULTILINE | re.DOTALL)
        assert set(re.findall(r"\b\d+\b", line)) == stated, name


# Security.


def test_every_claim_names_tests_that_exist():
    excluded = SECURITY.partition("## Excluded harm")[2].partition("\n## ")[0]
    claims = [line.rpartition(" | ")[2] for line in excluded.splitlines() if line.startswith("| ")][2:]
    assert len(claims) > 15
    for tests in claims:
        named = re.findall(r"`([\w./]+)`", tests)
        assert named
        assert all((ROOT / "tests" / name).exists() for name in named), tests


def test_limits_of_onnx_models_are_those_of_the_library():
    counted = " ".join(SECURITY.partition("## What is counted of an ONNX model")[2].partition("\n## ")[0].split())
    stated = {
        f"`max_nodes`, by default {node_limits.MAX_NODES:,}": True,
        f"{node_limits.PER_SEQUENCE} arrays of a sequence that a node reads count as a node": True,
        f"| dimensions of an array | it is used | {memory_limits.MOST_DIMENSIONS} |": True,
        f"| graphs and functions in each other | `to_jax` returns | {node_reader.DEEPEST} |": True,
        f"constants of more than {memory_limits.SURELY_FITS // 2**20} MiB": True,
        f"up to {traced_memory.MANY // 2**20} MiB each": True,
        "more than a million iterations": constant_work.MOST_ITERATIONS == 2**20,
        "more than 2**32 pairs of elements": constant_work.MOST_PRODUCTS == 2**32,
    }
    assert [words for words, is_so in stated.items() if words not in counted or not is_so] == []
    assert f"trace more than {check_file.MOST_TRACED:,} nodes" in SECURITY


# Installing.


@pytest.mark.parametrize("folder", ["README.md", "docs", "dml_jax", "benchmarks", ".ci", ".github"])
def test_pip_installs_a_clone_as_the_name_is_on_no_index(folder):
    """In pages, docstrings and messages: `pip install '.[cli]'`."""
    paths = [path for path in (ROOT / folder, *(ROOT / folder).rglob("*")) if path.is_file()]
    texts = {path: path.read_text() for path in paths if path.suffix in ("", ".md", ".py", ".cff")}
    assert texts
    by_name = re.compile(r"pip install (?:-+\S+ )*['\"]?dml[_-]jax\b")
    assert [str(path) for path, text in texts.items() if by_name.search(text)] == []


# Tests.


def test_no_test_reads_a_file_beside_the_project():
    """Every clone has it: `parents[1]` of a file in `tests/` is the project."""
    for path in (ROOT / "tests").rglob("*.py"):
        depth = len(path.relative_to(ROOT).parents)
        assert all(int(n) < depth for n in re.findall(r"\.parents\[(\d+)\]", path.read_text())), path


# Changelog, in the form of keepachangelog.com.

KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
HEADS = re.findall(r"^## (.*)$", CHANGES, re.MULTILINE)


def test_the_newest_version_comes_first():
    first, *released = HEADS
    assert first == "Unreleased"
    pairs = [re.fullmatch(r"(\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)", head).groups() for head in released]
    versions, dates = zip(*pairs, strict=True)
    numbers = [tuple(map(int, version.split("."))) for version in versions]
    assert numbers == sorted(set(numbers), reverse=True)
    assert [*dates] == sorted(map(str, map(datetime.date.fromisoformat, dates)), reverse=True)
    assert dml_jax.__version__ in versions


def test_changes_are_of_the_usual_kinds_in_the_usual_order():
    for head, body in zip(HEADS, re.split(r"^## .*$", CHANGES, flags=re.MULTILINE)[1:], strict=True):
        kinds = re.findall(r"^### (.*)$", body, re.MULTILINE)
        assert kinds == [kind for kind in KINDS if kind in kinds], head


# Citation.


def test_the_citation_is_valid_and_agrees_with_the_metadata():
    cited = yaml.safe_load((ROOT / ".github/CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()
    assert cited["title"] == PROJECT["name"]
    assert cited["license"] == PROJECT["license"]
    assert cited["authors"] == PROJECT["authors"]
    assert cited["abstract"].rstrip(".") == PROJECT["description"]
