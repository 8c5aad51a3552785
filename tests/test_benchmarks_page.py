"""Every number in the tables between comments was measured, and is stored beside the pages; targets are judged."""

import re
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.page import OTHERS, PAGES, STORED, rewritten
from benchmarks.targets import HEAD, LARGE, TARGETS, Target, verdict
from dml_jax.bench.measuring import Measured
from dml_jax.bench.results import Results
from dml_jax.lowering.forms import FORMS

TEXT, OF_FORMS, README = (page.read_text() for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tables_are_made_from_the_stored_results(page):
    text = page.read_text()
    assert "<!-- end -->" in text
    assert rewritten(text, STORED) == text


@pytest.mark.parametrize("file", sorted(STORED.glob("*.json")), ids=lambda path: path.name)
def test_all_that_is_stored_is_shown(file):
    assert f"<!-- {file.name}: " in TEXT + OF_FORMS
    drawn_nowhere = ("_gradients", "_graphs", "_networks", "_forms", "_sharded")
    assert file.with_suffix(".svg").name in TEXT or file.stem.endswith(drawn_nowhere)


@pytest.mark.parametrize("file", ["h200.json", "cpu.json"])
def test_every_operator_has_a_table_behind_a_fold(file):
    """Beginning with the case, and no wider than eight columns."""
    tables = TEXT.partition(f"<!-- {file}: operators -->")[2].partition("<!-- end -->")[0]
    folds = re.findall(r"<details>\n<summary>(\w+): (\d+) cases?.*</summary>\n\n((?:\|.*\n)+)\n</details>\n", tables)
    rows = [row for row in Results.read(STORED / file).rows if row.contender == "dml_jax"]
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
    rows = Results.read(STORED / "cpu.json").rows
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
    for row in Results.read(STORED / "h200.json").rows:
        if row.operator == "gather_nd" and row.moved >= 2**24 and not row.case.endswith(", call"):
            pairs.setdefault(row.case, {})[row.contender.partition(" ")[0]] = row
    of_copy = np.exp(np.mean([np.log(pair["dml_jax"].of_copy) for pair in pairs.values()]))
    of_jnp = np.exp(np.mean([np.log(pair["jnp"].seconds / pair["dml_jax"].seconds) for pair in pairs.values()]))
    assert f"| gather_nd | {len(pairs)} | {of_copy:.2f} | {of_jnp:.2f} |" in TEXT


def test_the_speed_in_the_readme_is_that_of_large_cases():
    """Computed here in another way; no other number of speed stands there."""
    section = README.partition("\n## Speed\n")[2].partition("\n## ")[0]
    pairs = {}
    for row in Results.read(STORED / "cpu.json").rows:
        if row.case.startswith("gather rows of ") and " float32 " in row.case and row.moved >= 2**24:
            pairs.setdefault(row.case, {})[row.contender] = row.seconds
    times = [pair["jnp"] / pair["dml_jax"] for pair in pairs.values()]
    numbers = f"{np.exp(np.mean(np.log(times))):.2f} ({min(times):.2f}-{max(times):.2f})"
    assert re.search(rf"4-byte elements \| [^|]+ \| {re.escape(numbers)} \|\n", section)
    words = re.sub("<!-- h200.*?<!-- end -->", "", section, flags=re.DOTALL)
    assert re.findall(r"\d[\d.]*", words) == ["1.00", "16"]  # on a par, and MiB


def test_a_result_that_differs_is_told_and_counts_in_no_mean(tmp_path):
    row = Measured("rnn a", "rnn", "dml_jax", 2**24, 2e-3, 2e-3, 2e-3, 0.5, True)
    wrong = replace(row, contender="torch rnn", seconds=1e-3, same_bits=False)
    right = [replace(one, case="rnn b", same_bits=True) for one in (row, replace(wrong, seconds=6e-3))]
    for name in ("r", "r_gradients", "r_graphs"):
        (tmp_path / f"{name}.json").write_text(Results("d", "2026", {}, (row, wrong, *right)).json())
    page = rewritten("<!-- r.json: operators -->\n<!-- end --><!-- r.json: summary -->\n<!-- end -->", tmp_path)
    assert "| a | 0.50 | differs | rnn |" in page
    assert "| products of matrices | 2 | 0.50 | - | 3.00 |" in page


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
    table = OF_FORMS.partition("## All forms")[2].partition("\n## ")[0]
    assert {*re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)} == {*FORMS}


# Targets.


def measured(name, of_copy=0.5, moved=LARGE, **seconds):
    """dml_jax takes 1 second."""
    ours = Measured(name, "gather", "dml_jax", moved, 1.0, 1.0, 1.0, of_copy, True)
    return {"dml_jax": ours, **{n: replace(ours, contender=n, seconds=time) for n, time in seconds.items()}}


def judged(target, *cases):
    return dict(zip(HEAD, verdict(target, {case["dml_jax"].case: case for case in cases}), strict=True))


def test_a_target_is_reached_by_every_case_and_by_the_mean():
    slow, fast = measured("gather a", 0.494), measured("gather b", 0.9)
    each, both = Target("rows", "gather", "copy", 0.5), Target("rows", "gather", "copy", 0.5, 0.6)
    assert judged(each, slow, fast) == {
        "cases": "rows",
        "unit": "of a copy",
        "each": "0.50",
        "mean": "-",
        "reached": "no",
        "by": "1 of 2",
        "has in the mean": "0.67",
        "the least": "0.49 gather a",
    }
    assert judged(each, fast)["reached"] == "yes"
    assert judged(each, fast)["the least"] == "0.90 gather b"
    assert judged(both, measured("gather a", 0.5))["reached"] == "no"
    assert judged(both, fast, measured("gather c", 0.496))["reached"] == "yes"  # as the page shows it, 0.50
    alone = judged(Target("rows", "gather", "copy", mean=0.6), slow, fast)
    assert (alone["reached"], alone["each"], alone["by"], alone["the least"]) == ("yes", "-", "-", "0.49 gather a")


def test_three_cases_that_miss_a_target_are_named():
    cases = [measured(f"gather {part}", part) for part in (0.4, 0.1, 0.6, 0.3, 0.2)]
    told = judged(Target("rows", "gather", "copy", 0.5), *cases)["the least"]
    assert told == "0.10 gather 0.1<br>0.20 gather 0.2<br>0.30 gather 0.3"


def test_small_cases_and_those_of_others_do_not_count():
    target = Target("rows", "gather", "copy", 0.5)
    of_others = (measured("scatter", 0.1), measured("gather small", 0.1, LARGE - 1))
    assert judged(target, measured("gather", 0.6), *of_others)["by"] == "1 of 1"
    assert judged(target._replace(least_moved=0), measured("gather", 0.6), *of_others)["by"] == "1 of 2"
    with pytest.raises(ValueError, match="no case matches 'gather' of the target 'rows'"):
        judged(target, *of_others)


def test_only_right_results_are_compared_with():
    """The fastest way of torch is wrong here."""
    case = measured("gather", **{"torch take": 2.0, "torch compile": 0.5, "fresh": 0.9, "NumPy": 1.5})
    case["torch compile"] = replace(case["torch compile"], same_bits=False)
    for unit, value in (("torch", "2.00"), ("fresh", "0.90"), ("others", "1.50")):
        assert judged(Target("rows", "gather", unit, 1.0), case)["has in the mean"] == value


def test_short_rows_count_with_the_sectors_that_they_lie_in():
    """Rows of 4 bytes: 64 read, 4 written, 4 of an index, of which 12 bytes are asked for."""
    for width, factor in ((4, 72 / 12), (64, 1), (100, (128 + 100 + 4) / 204)):
        row = judged(Target("rows", "gather", "sectors", 0.1), measured(f"gather rows of {width} bytes", 0.1))
        assert row["has in the mean"] == f"{0.1 * factor:.2f}"


def test_every_target_has_cases_and_is_on_the_page():
    assert {f"{file}.json" for file in TARGETS} <= {path.name for path in STORED.glob("*.json")}
    tables = re.findall(r"<!-- \w+.json: targets -->\n(.*?)<!-- end -->", TEXT, re.DOTALL)
    assert sum(table.count("\n| ") for table in tables) - 2 * 2 == sum(map(len, TARGETS.values()))
    assert TEXT.index(": targets -->") < TEXT.index("<details>")  # before any fold


@pytest.mark.parametrize("page", [TEXT, README], ids=["benchmarks", "README"])
def test_a_changed_number_is_found(page):
    number = re.search(r"\| (\d\.\d\d) [|(]", page)
    changed = f"{page[: number.start(1)]}9.99{page[number.end(1) :]}"
    assert rewritten(changed, STORED) == page
