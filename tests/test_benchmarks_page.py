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
    picture = file.with_suffix(".svg")
    assert picture.name in TEXT or file.stem.endswith(("_gradients", "_graphs", "_networks"))  # which are drawn nowhere


@pytest.mark.parametrize("file", ["h200.json", "cpu.json"])
def test_every_block_and_type_has_a_column(file):
    table = TEXT.partition(f"<!-- {file}: depth and space -->")[2].partition("<!-- end -->")[0]
    head, _, *rows = table.strip().splitlines()
    columns = [f"{dtype} b={b}" for dtype in ("uint8", "float16", "float32") for b in (2, 3, 4, 8)]
    assert [cell.strip() for cell in head.split("|")[2:-1]] == [*columns, "float64 b=2"]
    assert len(rows) == 8
    assert "| - |" not in table


def test_a_changed_number_is_found():
    number = re.search(r"\| (\d\.\d\d) \|", TEXT)
    changed = f"{TEXT[: number.start(1)]}9.99{TEXT[number.end(1) :]}"
    assert rewritten(changed, PAGE.parent / "benchmarks") == TEXT
