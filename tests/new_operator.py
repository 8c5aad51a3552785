"""The example of a new operator in docs/contributing.md, and copies of this clone that have it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from test_code_blocks import blocks_of

__all__ = ["GUIDE", "add_operator", "copy_clone", "new_operator", "python"]

ROOT = Path(__file__).parents[1]
PAGE = "docs/contributing.md"
GUIDE = (ROOT / PAGE).read_text().partition("\n## A new operator\n")[2].partition("\n## A new form")[0]


def new_operator():
    """The source, the test and the page of the example."""
    return [block.code for block in blocks_of(GUIDE, PAGE) if block.language == "{code-block}"]


def copy_clone(clone, *folders):
    for folder in folders:
        shutil.copytree(ROOT / folder, clone / folder, ignore=shutil.ignore_patterns("__pycache__", "out"))


def add_operator(clone, name, source, page):
    (clone / f"dml_jax/operators/_{name}.py").write_text(source)
    (clone / f"docs/operators/{name}.md").write_text(page)
    with open(clone / "dml_jax/operators/__init__.py", "a") as lines:
        lines.write(f"from ._{name} import *\n")


def python(root, *arguments):
    """Runs Python in a clone, with the library of that clone."""
    # Without the options of this run: two -q hide how many passed.
    environment = os.environ | {"PYTHONPATH": str(root), "PYTEST_ADDOPTS": ""}
    return subprocess.run([sys.executable, *arguments], cwd=root, env=environment, capture_output=True, text=True)
