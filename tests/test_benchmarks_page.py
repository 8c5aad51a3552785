"""Every number in the tables of docs/benchmarks.md is one that was measured, and stored beside the page."""

import re

import pytest

from benchmarks.page import PAGE, rewritten

TEXT = PAGE.read_text()


def test_the_tables_are_made_from_the_stored_results():
    assert TEXT.count("<!-- end -->") >= 6
    assert rewritten(TEXT, PAGE.parent / "benchmarks") == TEXT


@pytest.mark.parametrize("file", sorted((PAGE.parent / "benchmarks").glob("*.json")), ids=lambda path: path.name)
def test_all_that_is_stored_is_shown(file):
    assert f"<!-- {file.name}: " in TEXT
    assert file.with_suffix(".svg").name in TEXT


def test_a_changed_number_is_found():
    number = re.search(r"\| (\d\.\d\d) \|", TEXT)
    changed = f"{TEXT[: number.start(1)]}9.99{TEXT[number.end(1) :]}"
    assert rewritten(changed, PAGE.parent / "benchmarks") == TEXT
