"""Structure of lowering/ and operations/: their imports, the number of variants, and operators without any of them."""

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dml_jax
from dml_jax.lowering import cpu, gpu
from dml_jax.lowering.registry import VARIANTS

PACKAGE, TESTS = Path(dml_jax.__file__).parent, Path(__file__).parent
MODULES = {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}


def imported(name):
    """What a module of dml_jax imports of it, anywhere in it: "core/rules" where a name of rules.py is imported."""
    package = ".".join(["dml_jax", *name.split("/")[:-1]])
    for node in ast.walk(MODULES[name]):
        if isinstance(node, ast.ImportFrom):
            origin = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            whole = [f"{origin}.{alias.name}" for alias in node.names]
        else:
            whole = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        yield from (path.removeprefix("dml_jax.").replace(".", "/") for path in whole if path.startswith("dml_jax."))


def importers(place):
    """The modules outside of a folder that import something of it."""
    inside = f"{place}/"
    return {
        name
        for name in MODULES
        if not name.startswith(inside) and any(f"{path}/".startswith(inside) for path in imported(name))
    }


def test_nothing_but_the_entries_of_the_package_imports_lowering():
    assert importers("lowering") == {"__init__.py", "operators/__init__.py"}


def test_only_the_registry_names_gpu_and_cpu():
    names = {"lowering/registry.py"}
    assert importers("lowering/gpu") == importers("lowering/cpu") == names


@pytest.mark.parametrize("name", sorted(name for name in MODULES if name.startswith("operations/")))
def test_what_operations_mean_knows_no_platform(name):
    assert {path.split("/")[0] for path in imported(name)} <= {"operations", "errors", "strides"}


@pytest.mark.parametrize("folder", ["core", "lowering", "operations", "operators", "strides"])
def test_no_import_is_inside_a_function(folder):
    for name, module in MODULES.items():
        if name.startswith(f"{folder}/"):
            functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
            inside = [one for function in functions for one in ast.walk(function) if isinstance(one, ast.ImportFrom)]
            assert not inside, name


def test_only_workarounds_of_faults_know_the_release_of_jaxlib():
    """Names, not comments: what a release got wrong may be told."""
    knowing = set()
    for name, module in MODULES.items():
        if name.split("/")[0] not in ("lowering", "operations"):
            continue
        names = {getattr(node, field, None) for node in ast.walk(module) for field in ("id", "attr", "name")}
        if names & {"jaxlib", "jaxlib.version", "JAXLIB", "__version__"}:
            knowing.add(name)
    assert knowing == {"operations/values/xla_workarounds.py"}


# Outside of lowering/ a choice by platform is one of results or of memory, never of speed alone.
CHOOSING = {
    "compiled/compile.py": "buffers in memory are flat, or have the shape of the output",
    "onnx/backend.py": "ONNX names devices",
    "operations/gather.py": "XLA:CPU quiets NaNs",
    "operations/max_pool_with_indices.py": "XLA:CPU takes subnormal floats for 0",
    "operations/min_max.py": "XLA:CPU loses NaNs",
    "operations/scatter_reduce.py": "a sum is deterministic as it stands where updates are added in order, as on a CPU",
    "operations/values/bit_exact.py": "XLA:CPU moves narrow floats through wider ones",
    "operations/values/xla_workarounds.py": "XLA:GPU errs in quotients, and in small products of bytes",
}
# Not those that only run, measure or show what was chosen.
COMPUTING = ("compiled", "core", "graphs", "layers", "onnx", "operations", "operators", "strides")


def test_only_results_depend_on_the_platform_outside_of_lowering():
    choosing = set()
    for name, module in MODULES.items():
        if name.split("/")[0] not in COMPUTING or name.startswith("operations/programs/"):
            continue
        names = {getattr(node, field, None) for node in ast.walk(module) for field in ("id", "attr", "name")}
        if names & {"by_platform", "default_backend", "platform", "platform_dependent"}:
            choosing.add(name)
    assert choosing == {*CHOOSING}


@pytest.mark.parametrize("platform", [cpu, gpu], ids=["cpu", "gpu"])
def test_every_file_of_a_platform_has_variants_of_its_name(platform):
    files = Path(platform.__file__).parent.glob("[a-z]*.py")
    named = {path.stem for path in files if "VARIANTS = (" in path.read_text()}
    assert {variant.name for variant in platform.VARIANTS} == named
    assert len(named) > 10


def test_there_are_few_variants():
    assert len(VARIANTS) <= 62
    assert len({variant.name for variant in VARIANTS}) <= 31
    assert {variant.platform for variant in VARIANTS} == {"cpu", "cuda"}


def test_files_are_short():
    for folder in ("lowering", "operations"):
        assert max(len(path.read_text().splitlines()) for path in (PACKAGE / folder).rglob("*.py")) <= 300


PARTS = 8  # of the tests of operators
PLUGIN = """
from dml_jax.operations.programs.variant_selection import registered

def pytest_report_header():
    import dml_jax.operators
    return f"{len(registered())} variants, {dml_jax.__file__}"
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(PARTS))
def test_operators_need_no_variant(first, tmp_path):
    """Where lowering/ has no more than `use_form`, all tests of operators pass but those of variants."""
    shutil.copytree(PACKAGE, tmp_path / "dml_jax", ignore=shutil.ignore_patterns("__pycache__", "lowering"))
    lowering = tmp_path / "dml_jax" / "lowering"
    lowering.mkdir()
    (lowering / "__init__.py").touch()
    shutil.copy(PACKAGE / "lowering" / "use_form.py", lowering)
    (tmp_path / "emptied.py").write_text(PLUGIN)
    paths = [
        "-c",
        str(TESTS.parent / "pyproject.toml"),
        "-o",
        f"pythonpath={TESTS} {tmp_path}",
        *map(str, sorted((TESTS / "operators").glob("test_*.py"))[first::PARTS]),
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
    assert f"0 variants, {tmp_path / 'dml_jax' / '__init__.py'}" in ran.stdout, ran.stderr
    assert ran.returncode == 0, ran.stdout[-5000:]
