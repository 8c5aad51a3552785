"""Every number in the tables of docs/benchmarks.md is one that was measured, and stored beside the page."""

import re
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.page import OTHERS, PAGE, rewritten
from dml_jax.bench.measuring import Measured
from dml_jax.bench.results import Results
from dml_jax.lowering.forms import FORMS

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
def test_every_operator_has_a_table_behind_a_fold(file):
    """Beginning with the case, and no wider than eight columns."""
    tables = TEXT.partition(f"<!-- {file}: operators -->")[2].partition("<!-- end -->")[0]
    folds = re.findall(r"<details>\n<summary>(\w+): (\d+) cases?.*</summary>\n\n((?:\|.*\n)+)\n</details>\n", tables)
    rows = [row for row in Results.read(PAGE.parent / "benchmarks" / file).rows if row.contender == "dml_jax"]
    usual = [row for row in rows if not row.case.endswith(", call") and "file" not in row.case]
    assert {operator for operator, _, _ in folds} == {row.operator for row in usual}
    for operator, count, table in folds:
        head, _, *lines = table.splitlines()
        assert head.startswith("| case | of a copy |")
        assert len(head.split("|")) - 2 <= 8
        assert len(lines) == int(count) == sum(row.operator == operator for row in usual)


@pytest.mark.parametrize("file", ["h200.json", "cpu.json"])
def test_what_a_reader_needs_first_is_on_top(file):
    """One line per operator and group, before any fold."""
    top = TEXT.partition("<details>")[0]
    summary = top.partition(f"<!-- {file}: summary -->")[2].partition("<!-- end -->")[0]
    names = [line.split("|")[1].strip() for line in summary.strip().splitlines()[2:]]
    assert {"gather", "depth_to_space", "gradients, float32", "graphs of three operators"} <= {*names}
    assert len(names) <= 25


def test_operators_that_share_a_line_have_one_of_their_own_below():
    rows = Results.read(PAGE.parent / "benchmarks" / "cpu.json").rows
    shared = [name for operators in OTHERS.values() for name in operators]
    assert len(shared) == len({*shared})
    assert {*shared} <= {row.operator for row in rows}
    others = TEXT.partition("<!-- cpu.json: others -->")[2].partition("<!-- end -->")[0]
    names = re.findall(r"^\| (\w+) \| \d+ \|", others, re.MULTILINE)
    assert names == shared
    top = TEXT.partition("<details>")[0].partition("<!-- cpu.json: summary -->")[2]
    for group, operators in OTHERS.items():
        cases = {row.case for row in rows if row.operator in operators and row.contender == "dml_jax"}
        count = sum(not case.endswith(", call") for case in cases)  # calls have a line of their own
        assert f"| {group} | {count} |" in top
        assert not any(f"| {name} |" in top for name in operators)


def test_means_are_those_of_large_cases():
    """Computed here in another way."""
    pairs = {}
    for row in Results.read(PAGE.parent / "benchmarks" / "h200.json").rows:
        if row.operator == "gather_nd" and row.moved >= 2**24 and not row.case.endswith(", call"):
            pairs.setdefault(row.case, {})[row.contender.partition(" ")[0]] = row
    of_copy = np.exp(np.mean([np.log(pair["dml_jax"].of_copy) for pair in pairs.values()]))
    of_jnp = np.exp(np.mean([np.log(pair["jnp"].seconds / pair["dml_jax"].seconds) for pair in pairs.values()]))
    assert f"| gather_nd | {len(pairs)} | {of_copy:.2f} | {of_jnp:.2f} |" in TEXT


def test_the_best_of_torch_is_named(tmp_path):
    row = Measured("gather rows", "gather", "dml_jax", 2**24, 2e-3, 2e-3, 2e-3, 0.5, True)
    ways = [
        replace(row, contender=f"torch {name}", seconds=time) for name, time in (("embedding", 3e-3), ("take", 9e-3))
    ]
    wrong = replace(row, contender="torch compile", seconds=1e-3, same_bits=False)
    (tmp_path / "r.json").write_text(Results("d", "2026", {}, (row, *ways, wrong)).json())
    page = rewritten("<!-- r.json: operators -->\n<!-- end -->", tmp_path)
    assert "| case | of a copy | x best of torch | which is |" in page
    assert "| rows | 0.50 | 1.50 | embedding |" in page
    assert "<summary>gather: 1 case, 0.50 of a copy</summary>" in page


def test_every_form_is_on_the_page():
    table = TEXT.partition("## Forms")[2].partition("\n## ")[0]
    assert {*re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)} == {*FORMS}


def test_a_changed_number_is_found():
    number = re.search(r"\| (\d\.\d\d) \|", TEXT)
    changed = f"{TEXT[: number.start(1)]}9.99{TEXT[number.end(1) :]}"
    assert rewritten(changed, PAGE.parent / "benchmarks") == TEXT
