"""The examples of new operators in docs/contributing.md, and copies of this clone that have them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from test_code_blocks import blocks_of

ROOT = Path(__file__).parents[1]
PAGE = "docs/contributing.md"
_FUNCTIONS_AND_ROWS = (ROOT / PAGE).read_text().partition("\n## A new operator\n")[2].partition("\n### The parts of")[0]
GUIDE, _, GUIDE_TO_ROWS = _FUNCTIONS_AND_ROWS.partition("\n### A row of a table\n")


def blocks_to_paste(guide):
    """The files of an example in their order, or the rows: the source, the test and, for a function, the page."""
    return [block.code for block in blocks_of(guide, PAGE) if block.language == "{code-block}"]


def copy_clone(clone, *folders):
    for folder in folders:
        shutil.copytree(ROOT / folder, clone / folder, ignore=shutil.ignore_patterns("__pycache__", "out"))
    shutil.copy(ROOT / "README.md", clone)  # a part of which the site shows


def add_operator(clone, name, source, page):
    (clone / f"dml_jax/operators/_{name}.py").write_text(source)
    (clone / f"docs/operators/{name}.md").write_text(page)
    with open(clone / "dml_jax/operators/__init__.py", "a") as lines:
        lines.write(f"from ._{name} import *\n")


def add_row(path, row):
    """Adds a row to the table ROWS of a file, as the first one."""
    path.write_text(re.sub(r"^ROWS\b.* = \{\n", lambda head: head[0] + row, path.read_text(), flags=re.MULTILINE))


def python(root, *arguments):
    """Runs Python in a clone, with the library of that clone."""
    # Without the options of this run: two -q hide how many passed.
    environment = os.environ | {"PYTHONPATH": str(root), "PYTEST_ADDOPTS": ""}
    return subprocess.run([sys.executable, *arguments], cwd=root, env=environment, capture_output=True, text=True)
