"""The layers of docs/contributing.md: each imports only itself and those below it, and no files form a circle."""

import ast
import importlib.util
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import dml_jax

ROOT = Path(dml_jax.__file__).parent
# From the top. What is not listed, such as errors.py, serves all layers or opens the package.
LAYERS = (
    ("command", "array_models", "dxdispatch", "onnx", "batch", "bench"),
    ("compiled", "layers"),
    ("graphs", "desc_json"),
    ("operators", "descs", "catalogue"),
    ("core", "lowering"),
    ("operations", "strides"),
)
CORE = (("indices",), ("structs",), ("tensors",), ("arguments",), ("rules", "sharding", "memory_checks"))


def imported(path):
    """The modules that a file imports, with the names that may be modules, anywhere in it."""
    package = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts[:-1])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            module = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize(("folder", "layers"), [("", LAYERS), ("core", CORE)], ids=["dml_jax", "core"])
def test_each_layer_imports_only_itself_and_those_below(folder, layers):
    floors = {name: floor for floor, names in enumerate(reversed(layers)) for name in names}
    depth = len(Path(folder).parts)
    upward, counted = [], 0
    for path in (ROOT / folder).rglob("*.py"):
        room = path.relative_to(ROOT / folder).with_suffix("").parts[0]
        for module in imported(path):
            parts = module.split(".")
            if parts[: depth + 1] != ["dml_jax", *Path(folder).parts] or room not in floors:
                continue
            other = parts[depth + 1] if len(parts) > depth + 1 else ""
            counted += other in floors
            if floors.get(other, 0) > floors[room]:
                upward.append(f"{path.relative_to(ROOT)} imports {module}")
    assert not upward, "\n".join(upward)
    assert counted > 50


def module_of(path):
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


def test_no_files_import_each_other_in_a_circle():
    """Imports for type checkers, too."""
    files = {module_of(path): path for path in ROOT.rglob("*.py")}
    graph = {name: {*filter(None, (file_of(found, files) for found in imported(files[name])))} for name in files}
    assert len([*TopologicalSorter(graph).static_order()]) == len(files)  # a CycleError names the circle


def file_of(name, files):
    """The module that `import name` or `from module import name` reads."""
    return name if name in files else name.rpartition(".")[0] if name.rpartition(".")[0] in files else None
