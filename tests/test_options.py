"""The options of this project: with --no-skips a skip is a failure, with --every some cases run."""

import os
import subprocess
import sys
from pathlib import Path

from conftest import is_chosen

TESTS = Path(__file__).parent
FILES = {
    "pytest.ini": "",  # or pytest looks for one in the folders above
    "test_whole.py": 'import pytest\npytest.importorskip("no_such_package")\n',
    "test_each.py": """import pytest


def test_within():
    pytest.importorskip("no_such_package")


@pytest.mark.skipif(True, reason="it is not there")
def test_marked():
    pass


@pytest.mark.xfail
def test_expected():
    raise AssertionError


def test_passes():
    pass
""",
}


def last_line(folder, *options):
    line = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "--continue-on-collection-errors", *options, "."]
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "PYTEST_ADDOPTS": ""}
    run = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True)
    return run.stdout.splitlines()[-1].partition(" in ")[0]


def test_a_skip_fails_if_it_is_told_to(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    assert last_line(tmp_path) == "1 passed, 3 skipped, 1 xfailed"
    assert last_line(tmp_path, "--no-skips") == "1 failed, 1 passed, 1 xfailed, 2 errors"


def test_one_case_in_so_many_is_chosen_beginning_with_the_first_and_never_the_same_column():
    """A sweep of types and modes, say, has all modes of some type then."""
    chosen = [number for number in range(12) if is_chosen(number, 3)]
    assert [number // 3 for number in chosen] == [0, 1, 2, 3]
    assert [number % 3 for number in chosen] == [0, 2, 1, 0]
