"""What is built and installed: the files of the wheel and the sdist, their metadata, and a bare environment."""

import email
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from packaging.requirements import Requirement

import dml_jax

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "dml_jax"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NAME = f"dml_jax-{dml_jax.__version__}"
ABSENT = ("PIL", "chex", "click", "flatbuffers", "h5py", "hypothesis", "matplotlib", "onnx", "pytest", "rich", "torch")
ABSENT += ("tensorstore", "zarr")


def run(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command that knows nothing of this checkout but what it is told."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"JAX_PLATFORMS": "cpu"}
    return subprocess.run([*map(str, command)], cwd=cwd, env=env, capture_output=True, text=True, timeout=300)


def built(hook: str, source: Path, target: Path) -> Path:
    """A distribution made by the hook of the build backend that pip and build call, without their fresh environment."""
    target.mkdir()
    code = f"import sys; from hatchling import build; print(build.{hook}(sys.argv[1]))"
    done = run(sys.executable, "-c", code, target, cwd=source)
    assert done.returncode == 0, done.stderr
    return target / done.stdout.split()[-1]


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Where everything is built, once."""
    pytest.importorskip("hatchling", reason="the build backend is not installed")
    return tmp_path_factory.mktemp("packaging")


@pytest.fixture(scope="session")
def wheel(folder):
    with zipfile.ZipFile(built("build_wheel", ROOT, folder / "wheel")) as archive:
        yield archive


@pytest.fixture(scope="session")
def sdist(folder):
    with tarfile.open(built("build_sdist", ROOT, folder / "sdist")) as archive:
        yield archive


@pytest.fixture(scope="session")
def unpacked(sdist, folder):
    """The folder that the sdist unpacks to."""
    sdist.extractall(folder / "unpacked", filter="data")
    return folder / "unpacked" / NAME


@pytest.fixture(scope="session")
def metadata(wheel):
    return email.message_from_bytes(wheel.read(f"{NAME}.dist-info/METADATA"))


def sources(*folders: Path) -> set[str]:
    """The Python files below folders, as the archives name them."""
    return {path.relative_to(ROOT).as_posix() for folder in folders for path in folder.rglob("*.py")}


# Files.


def test_the_wheel_has_every_module_and_nothing_else(wheel):
    inside = {name for name in wheel.namelist() if not name.startswith(f"{NAME}.dist-info/")}
    assert inside == sources(PACKAGE) | {"dml_jax/py.typed"}
    assert len(inside) > 80


def test_the_sdist_has_what_is_listed_and_the_tests(sdist):
    inside = {name.removeprefix(f"{NAME}/") for name in sdist.getnames()}
    listed = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {name.partition("/")[0] for name in inside} == {*listed, "pyproject.toml", "PKG-INFO", ".gitignore"}
    assert sources(*(ROOT / name for name in listed if (ROOT / name).is_dir())) <= inside
    others = (".ci/run", ".github/CITATION.cff", "docs/models/gather.json", "docs/models/grace_hopper.jpg")
    assert {*others, "tests/consumer/pyrightconfig.json", "tests/data/webnn.json"} <= inside
    assert not [name for name in inside if "__pycache__" in name or name.endswith(".pyc")]


def test_the_sdist_builds_the_same_wheel(unpacked, wheel, folder):
    with zipfile.ZipFile(built("build_wheel", unpacked, folder / "again")) as again:
        assert {i.filename: i.CRC for i in again.infolist()} == {i.filename: i.CRC for i in wheel.infolist()}


@pytest.mark.exhaustive
def test_the_sdist_runs_its_tests(unpacked):
    """Some that read files all over it; they import the package that lies beside them."""
    pytest_quietly = (sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider")
    done = run(*pytest_quietly, "tests/test_readme.py", "tests/test_policies.py", cwd=unpacked)
    assert done.returncode == 0, done.stdout


# Metadata.


def test_the_metadata_says_what_is_needed(metadata):
    needed = [Requirement(text) for text in metadata.get_all("Requires-Dist")]
    assert {one.name for one in needed if one.marker is None} == {"jax", "jaxlib", "numpy"}
    assert metadata["Name"].replace("-", "_") == "dml_jax"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Author"] == "The dml_jax contributors"
    assert metadata["Summary"].count(" ") > 5
    assert "jax" in metadata["Keywords"].split(",")


def test_the_classifiers_are_known_and_of_what_was_tested(metadata):
    known = pytest.importorskip("trove_classifiers", reason="it comes with the build backend").classifiers
    stated = {*metadata.get_all("Classifier")}
    assert "Typing :: Typed" in stated
    assert stated <= known
    page = (ROOT / "docs/contributing.md").read_text().partition("### Where the tests passed")[2].partition("\n## ")[0]
    tested = {cells[1] for cells in (line.split(" | ") for line in page.splitlines()) if len(cells) == 4}
    minors = re.findall(r"Python :: (3\.\d+)$", "\n".join(stated), re.MULTILINE)
    assert {*minors} == {version for version in tested if version[0] == "3"}


def test_every_extra_that_is_named_exists(metadata):
    """In messages of the library, in its pages, and among the extras themselves."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *PACKAGE.rglob("*.py")]
    text = "\n".join(path.read_text() for path in pages)
    named = re.findall(r"'\.\[([a-z,]+)\]", text)
    assert {"cli", "export", "onnx", "test"} <= {one for names in named for one in names.split(",")}
    extras = {*metadata.get_all("Provides-Extra")}
    needed = [Requirement(text) for text in metadata.get_all("Requires-Dist")]
    own = {extra for one in needed if one.name.replace("-", "_") == "dml_jax" for extra in one.extras}
    assert {one for names in named for one in names.split(",")} | own <= extras
    for extra in extras:
        assert [one for one in needed if one.marker and one.marker.evaluate({"extra": extra})], extra


def test_the_licence_the_readme_and_the_command_are_in_the_wheel(metadata, wheel):
    info = f"{NAME}.dist-info"
    assert wheel.read(f"{info}/licenses/LICENSE").decode() == (ROOT / "LICENSE").read_text()
    assert metadata.get_all("License-File") == ["LICENSE"]
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload().strip() == (ROOT / "README.md").read_text().strip()
    assert wheel.read(f"{info}/entry_points.txt").decode().split() == [
        "[console_scripts]",
        "dml-jax",
        "=",
        "dml_jax.__main__:main",
    ]
    assert "Tag: py3-none-any" in wheel.read(f"{info}/WHEEL").decode()


def test_the_readme_renders(metadata):
    text = metadata.get_payload()
    html = MarkdownIt("commonmark").enable("table").render(text)
    assert html.count("<table>") == len(re.findall(r"^\| --- ", text, re.MULTILINE)) > 0
    assert html.count("<pre>") == len(re.findall(r"^```\w", text, re.MULTILINE)) > 0
    assert "```" not in html


# A bare environment: the wheel, and jax, jaxlib and numpy with what they need.


@pytest.fixture(scope="session")
def bare(wheel, folder):
    """The scripts of an environment that has the wheel and its requirements, linked to those of the tests."""
    home = folder / "bare"
    assert run(sys.executable, "-m", "venv", "--without-pip", home, cwd=folder).returncode == 0
    (site,) = home.glob("lib/python*/site-packages")
    for path in installed("jax", "jaxlib", "numpy"):
        (site / path.name).symlink_to(path)
    pip = (sys.executable, "-m", "pip", "--python", home / "bin" / "python")
    done = run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel.filename, cwd=folder)
    assert done.returncode == 0, done.stderr
    return home / "bin"


def installed(*names: str) -> Iterator[Path]:
    """The packages of distributions and of all that these require."""
    seen, left = set[str](), [*names]
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        distribution = importlib.metadata.distribution(name)
        requirements = [Requirement(text) for text in distribution.requires or ()]
        left += [one.name for one in requirements if one.marker is None or one.marker.evaluate({"extra": ""})]
        tops = {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}
        yield from (Path(str(distribution.locate_file(top))) for top in sorted(tops))


@pytest.mark.exhaustive
def test_functions_and_batches_need_nothing_else(bare, folder):
    """Two programs that use them all run in the bare environment, which is bare."""
    code = f"""
import importlib.util, json, sys, dml_jax
print(json.dumps([dml_jax.__file__, [name for name in {ABSENT} if importlib.util.find_spec(name)]]))
sys.path.append({str(ROOT / "tests" / "consumer")!r})
import use_batch, use_functions
use_functions.main()
use_batch.main()
"""
    done = run(bare / "python", "-c", code, cwd=folder)
    assert done.returncode == 0, done.stderr
    file, present = json.loads(done.stdout.splitlines()[0])
    assert Path(file).is_relative_to(bare.parent)
    assert present == []


def test_the_examples_of_the_readme_run_from_the_wheel(bare, folder):
    shutil.copy(ROOT / "README.md", folder)
    done = run(bare / "python", "-m", "doctest", "-o", "NORMALIZE_WHITESPACE", "-v", "README.md", cwd=folder)
    assert re.search(r"^[1-9]\d* passed", done.stdout, re.MULTILINE), done.stdout
    assert done.returncode == 0, done.stdout


NEEDS = {
    "cli": ("-m", "dml_jax", "ops"),
    "onnx": ("-c", "import dml_jax.onnx"),
    "export": (
        "-c",
        "from dml_jax import *; t = TensorDesc('INT8', (1, 1, 1, 1))\n"
        "run = compile_operator(DepthToSpaceDesc(t, t, 1)); print(run(__import__('numpy').int8([7])))\n"
        "run.serialize()",
    ),
}


@pytest.mark.thinned
@pytest.mark.parametrize("extra", NEEDS)
def test_what_an_extra_has_says_how_to_install_it(bare, folder, extra):
    done = run(bare / "python", *NEEDS[extra], cwd=folder)
    assert done.returncode != 0
    assert f"pip install '.[{extra}]'" in done.stderr
    assert done.stdout == ("[7]\n" if extra == "export" else "")


def test_the_command_without_its_extra_says_how_to_get_it(bare, folder):
    done = run(bare / "dml-jax", "run", "model.json", cwd=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "dml-jax: the command needs click; install it in a clone: pip install '.[cli]'\n"


# What the import costs.


def test_the_import_loads_nothing_slow_beside_jax():
    """The package alone; and with all its names no other package, though those of the extras are installed."""
    code = """
import json, sys, jax.numpy
loaded = lambda: {*sys.modules} - before
before = {*sys.modules}
import dml_jax
alone = sorted(loaded())
from dml_jax import *
print(json.dumps([alone, sorted({name.partition(".")[0] for name in loaded()} - sys.stdlib_module_names)]))
"""
    done = run(sys.executable, "-c", code, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    alone, packages = json.loads(done.stdout)
    assert alone == ["dml_jax"]
    assert {*packages} <= {"dml_jax", "jax", "jaxlib"}
