"""Structure of lowering/: its imports, the number of variants, and operators without any variant."""

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dml_jax.lowering
from dml_jax.lowering.registry import VARIANTS

LOWERING, TESTS = Path(dml_jax.lowering.__file__).parent, Path(__file__).parent
MODULES = {path.relative_to(LOWERING).as_posix(): ast.parse(path.read_text()) for path in LOWERING.rglob("*.py")}
PLAIN = {"values", "primitive", "variant_selection", "forced_form", "partition", "plain", "errors", "strides"}


def parts_imported(name):
    """The parts of lowering/, and of dml_jax beside it, that a module of lowering/ imports anywhere in it."""
    package, parts = ".".join(["dml_jax", "lowering", *name.split("/")[:-1]]), set()
    for node in ast.walk(MODULES[name]):
        if isinstance(node, ast.ImportFrom):
            origin = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            parts |= {part_of(f"{origin}.{alias.name}") for alias in node.names}
        elif isinstance(node, ast.Import):
            parts |= {part_of(alias.name) for alias in node.names}
    return parts - {None}


def part_of(path):
    """The folder or file below dml_jax.lowering, or below dml_jax, of a module or of a name in one; None elsewhere."""
    top, *inner = path.split(".")
    if top != "dml_jax" or not inner:
        return None
    return inner[1] if inner[0] == "lowering" and len(inner) > 1 else inner[0]


def test_only_the_registry_names_gpu_and_cpu():
    naming = {name for name in MODULES if parts_imported(name) & {"gpu", "cpu"}}
    assert {name for name in naming if name.split("/")[0] not in ("gpu", "cpu")} == {"registry.py"}
    assert {"gpu", "cpu"} <= parts_imported("registry.py")


def test_no_mechanism_of_one_platform_imports_one_of_the_other():
    for name in MODULES:
        assert not (name.startswith("gpu/") and "cpu" in parts_imported(name)), name
        assert not (name.startswith("cpu/") and "gpu" in parts_imported(name)), name


@pytest.mark.parametrize("name", sorted(name for name in MODULES if name.startswith(("plain/", "values/"))))
def test_what_operations_mean_knows_no_platform(name):
    assert parts_imported(name) <= PLAIN - ({"plain"} if name.startswith("values/") else set())


def test_only_workarounds_of_faults_know_the_release_of_jaxlib():
    """Names, not comments: what a release got wrong may be told."""
    knowing = set()
    for name, module in MODULES.items():
        names = {getattr(node, field, None) for node in ast.walk(module) for field in ("id", "attr", "name")}
        if names & {"jaxlib", "jaxlib.version", "JAXLIB", "__version__"}:
            knowing.add(name)
    assert knowing == {"values/xla_workarounds.py"}


def test_there_are_few_variants():
    assert len(VARIANTS) <= 60
    assert len({variant.name for variant in VARIANTS}) <= 24
    assert {variant.platform for variant in VARIANTS} == {"cpu", "cuda"}


def test_files_are_short():
    assert max(len(path.read_text().splitlines()) for path in LOWERING.rglob("*.py")) <= 300


PLUGIN = """
import dml_jax.lowering.registry as registry

def pytest_report_header():
    return f"{len(registry.VARIANTS)} variants of {registry.__file__}"
"""


@pytest.mark.exhaustive
def test_operators_need_no_variant(tmp_path):
    """Without gpu/ and cpu/, and with an empty registry, all tests of operators pass but those of variants."""
    lowering = tmp_path / "dml_jax" / "lowering"
    shutil.copytree(LOWERING.parent, lowering.parent, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(lowering / "gpu")
    shutil.rmtree(lowering / "cpu")
    (lowering / "registry.py").write_text("VARIANTS = ()\n")
    (tmp_path / "emptied.py").write_text(PLUGIN)
    paths = [
        "-c",
        str(TESTS.parent / "pyproject.toml"),
        "-o",
        f"pythonpath={TESTS} {tmp_path}",
        str(TESTS / "operators"),
    ]
    options = ["-p", "emptied", "-p", "no:cacheprovider", "-n", "0", "-m", "not variants"]
    # Without options of the environment: quiet ones would leave out the header.
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", *options, *paths],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert f"0 variants of {lowering / 'registry.py'}" in ran.stdout, ran.stderr
    assert ran.returncode == 0, ran.stdout[-5000:]
