"""Every number in the tables between comments is of a stored run; each stored run makes a page with every case."""

import re
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.page import OTHERS, PAGES, STORED, comparisons, rewritten
from benchmarks.tables import kind_of, page
from dml_jax.bench import bandwidth_ceilings, cache_bandwidth, compile_costs
from dml_jax.bench.results import FILES, Results
from dml_jax.bench.run_comparison import described
from dml_jax.bench.timing import Measured

TEXT, README, DEVICES, NETWORKS = (page.read_text() for page in PAGES)
RUNS = sorted(STORED.glob("*.json"))

# Short tables.


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_short_tables_are_made_from_the_stored_runs(path):
    text = path.read_text()
    assert "<!-- end -->" in text
    assert rewritten(text, STORED) == text


@pytest.mark.parametrize("text", [TEXT, README, DEVICES], ids=["benchmarks", "README", "devices"])
def test_a_changed_number_is_found(text):
    number = re.search(r"\| (\d\.\d\d) [|(]", text)
    changed = f"{text[: number.start(1)]}9.99{text[number.end(1) :]}"
    assert rewritten(changed, STORED) == text


@pytest.mark.parametrize("file", RUNS, ids=lambda path: path.name)
def test_each_stored_run_is_in_a_short_table_and_linked(file):
    assert re.search(rf"<!-- (\w+\.json, )*{file.name}[:,]", TEXT + NETWORKS)
    assert f"](benchmarks/{file.name})" in TEXT


def test_the_short_page_is_short():
    assert len(TEXT.splitlines()) <= 300


def test_operators_that_share_a_row_are_measured_and_have_no_other():
    operators = [row.operator for row in Results.read(STORED / "cpu.json").rows if row.contender == "dml_jax"]
    shared = [name for names in OTHERS.values() for name in names]
    assert len(shared) == len({*shared})
    assert {*shared} <= {*operators}
    summary = TEXT.partition("<!-- cpu.json: summary -->")[2].partition("<!-- end -->")[0]
    names = re.findall(r"^\| ([^|]+) \| \d+ \|", summary, re.MULTILINE)
    assert {*names} == {*OTHERS, *operators, "shapes of real programs", "eager calls on 1 KB", FILES} - {*shared}
    assert len(names) == len({*names})


def test_means_are_those_of_large_cases():
    """Computed here in another way."""
    of_copy, of_jnp, count = means_of("h100.json", lambda row: row.operator == "gather_nd")
    assert f"| gather_nd | {count} | {of_copy:.2f} | {of_jnp:.2f} |" in TEXT
    of_copy, of_jnp, count = means_of("cpu_gradients.json", lambda row: row.case.endswith(" Zipf"))
    assert f"| ids after Zipf's law, such as words | {count} | {of_copy:.2f} | {of_jnp:.2f} |" in TEXT


def means_of(file, is_meant):
    """Geometric means of the fraction of a copy and of the times as fast as `jnp`, and how many cases they count."""
    found = {}
    for row in Results.read(STORED / file).rows:
        if is_meant(row) and row.moved >= 2**24 and not row.case.endswith(", call"):
            found.setdefault(row.case, {})[row.contender] = row
    ours, jnp = ([case[name] for case in found.values()] for name in ("dml_jax", "jnp"))
    times = np.array([row.seconds for row in jnp]) / [row.seconds for row in ours]
    return np.exp(np.mean(np.log([row.of_copy for row in ours]))), np.exp(np.mean(np.log(times))), len(found)


def test_the_speed_in_the_readme_is_that_of_large_cases():
    """Computed here in another way; no other number of speed stands there."""
    section = README.partition("\n## Speed\n")[2].partition("\n## ")[0]
    found = {}
    for row in Results.read(STORED / "cpu.json").rows:
        if row.case.startswith("gather rows of ") and " float32 " in row.case and row.moved >= 2**24:
            found.setdefault(row.case, {})[row.contender] = row.seconds
    times = [case["jnp"] / case["dml_jax"] for case in found.values()]
    numbers = f"{np.exp(np.mean(np.log(times))):.2f} ({min(times):.2f}-{max(times):.2f})"
    assert re.search(rf"4-byte elements \| [^|]+ \| {re.escape(numbers)} \|\n", section)
    words = re.sub("<!-- h100.*?<!-- end -->", "", section, flags=re.DOTALL)
    assert re.findall(r"\d[\d.]*", words) == ["1.00", "16"]  # on a par, and MiB


# What is uncertain.


@pytest.mark.parametrize("file", RUNS, ids=lambda path: path.name)
def test_notes_of_a_run_stand_beside_each_table_that_is_made_from_it(file):
    """The worst of them, whose percentage is the largest; the page of the run and a fold have all."""
    notes = Results.read(file).notes
    assert page(file).count("\n* ".join(["## Notes\n", *notes])) == bool(notes)
    percents = [max(map(int, re.findall(r"(\d+) ?%", note)), default=0) for note in notes]
    for text in (TEXT, README, DEVICES, NETWORKS):
        for files, table in re.findall(r"<!-- ([\w., ]+): [\w ]+ -->\n(.*?)<!-- end -->", text, re.DOTALL):
            if notes and file.name in files.split(", "):
                worst = notes[percents.index(max(percents))]
                assert worst in table or f"by up to {max(percents)}%" in table
                assert text != DEVICES or all(note in table for note in notes)


# Runs beside each other.


def test_all_runs_of_a_kind_are_compared_and_the_pictures_are_those_of_the_tables():
    """A picture says its numbers. Caches, costs and quantised networks are not beside a copy."""
    kinds = {}
    for file in RUNS:
        kinds.setdefault(kind_of(file), []).append(file.name)
    for kind in ("quantised", "caches", "costs"):
        del kinds[kind]
    named = [{*files.split(", ")} for files in re.findall("<!-- (.*): devices -->", DEVICES)]
    assert sorted(map(sorted, named)) == sorted(sorted(files) for files in kinds.values() if len(files) > 1)
    drawn = dict(comparisons(DEVICES, STORED))
    assert {svg.name for svg in STORED.glob("*.svg")} - {path.name for path in drawn} <= {f"{p.stem}.svg" for p in RUNS}
    for picture, comparison in drawn.items():
        assert f"]({picture.name})" in DEVICES
        assert f"<dc:description>{described(comparison)}</dc:description>" in picture.read_text()


# Pages of every case.


def folds(text):
    """The lines of each fold's table, by the operator that its title names."""
    found = re.findall(r"<details>\n<summary>(.+): (\d+) cases?, .*</summary>\n\n((?:\|.*\n)+)\n</details>\n", text)
    assert all(len(table.splitlines()) == int(count) + 2 for _, count, table in found)
    return {name: table.splitlines() for name, count, table in found}


@pytest.mark.parametrize("file", RUNS, ids=lambda path: path.name)
def test_a_page_says_where_the_run_was_and_has_every_case(file):
    """In tables that begin with the case and have no more than eight columns."""
    run, text = Results.read(file), page(file)
    assert all(word in text for word in (run.device, run.date[:10], *map(" ".join, run.versions.items())))
    assert file.with_suffix(".svg").exists() == (f"]({file.stem}.svg)" in text)
    left = {row.case: f"{row.of_copy:.2f}" for row in run.rows if row.contender == "dml_jax"}
    for title, (head, _, *lines) in folds(text).items():
        assert re.match(r"\| case \| of (a copy|a matmul|linear) \|", head)
        assert len(head.split("|")) - 2 <= 8
        for line in lines:
            name, of_copy = line.strip("| ").split(" | ")[:2]
            names = {name, f"{title} {name}", f"{title}, {name}", f"{name}, call"}
            (case,) = names & left.keys()
            assert left.pop(case) == of_copy
    assert left == {}


@pytest.mark.parametrize("file", RUNS, ids=lambda path: path.name)
def test_a_page_begins_with_the_mean_of_each_operator(file):
    text = page(file)
    means = text.partition("\n## Means\n")[2].partition("\n## ")[0]
    ours = [row for row in Results.read(file).rows if row.contender == "dml_jax"]
    operators = {row.operator for row in ours if not row.case.endswith((", call", FILES))}
    names = {*re.findall(r"^\| ([^|]+) \| \d+ \|", means, re.MULTILINE)}
    assert {name.removesuffix(" gradient") for name in names} - {"eager calls on 1 KB"} == operators
    assert not operators or text.index("\n## Means\n") < text.index("<details>")


OURS = Measured("gather rows", "gather", "dml_jax", 2**24, 2e-3, 2e-3, 2e-3, 0.5, True)


def page_of(folder, *rows):
    (folder / "r.json").write_text(Results("d", "2026-11-22T18:22:30", {"jax": "1.2"}, rows).json())
    return page(folder / "r.json")


def test_ceilings_and_caches_have_tables_and_count_in_no_mean(tmp_path):
    read = replace(OURS, case="ceiling read 16 MiB", operator="ceiling", contender="jax", of_copy=1.25)
    text = page_of(tmp_path, read, OURS)
    assert f"## Ceilings\n\n```text\n{bandwidth_ceilings.LEGEND}\n```\n\n| ceiling | GB/s | of copy | spread |" in text
    assert "| read 16 MiB | 8.4 | 1.25 | - |" in text
    assert "| ceiling | 1 |" not in text
    warm, cold = (replace(OURS, case="caches 16 MiB", operator="caches", contender=name) for name in ("warm", "cold"))
    text = page_of(tmp_path, warm, cold)
    assert f"## Caches\n\n```text\n{cache_bandwidth.LEGEND}\n```\n\n| working set | warm | cold |" in text
    assert "| 16 MiB | 8.4 | 8.4 |" in text
    assert "## Means" not in text


def test_costs_have_a_table(tmp_path):
    ours = compile_costs.Cost("gather rows", "gather", "dml_jax", 2e-3, 3e-3, 4e-2, 0.1, 110, 100)
    found = Results("d", "2026-11-22", {}, (), costs=(ours, replace(ours, contender="jnp", tracing=1e-3)))
    (tmp_path / "r_costs.json").write_text(found.json())
    text = page(tmp_path / "r_costs.json")
    assert "# D: costs" in text
    assert "| gather rows | 2.00 | 0.50 | 3.00 | 1.00 | 40.00 | 1.00 | 1.10 | 1.00 |" in text
    short = rewritten("<!-- r_costs.json: costs -->\n<!-- end -->", tmp_path)
    assert "| d | 2.00 | 0.50 | 3.00 | 1.00 | 40.00 | 1.00 | 1.10 | 1.00 |" in short


def test_a_result_that_differs_is_told_and_counts_in_no_mean(tmp_path):
    wrong = replace(OURS, case="rnn a", operator="rnn", contender="torch rnn", seconds=1e-3, same_bits=False)
    ours = replace(wrong, contender="dml_jax", seconds=2e-3, same_bits=True)
    right = [replace(one, case="rnn b", same_bits=True) for one in (ours, replace(wrong, seconds=6e-3))]
    text = page_of(tmp_path, ours, wrong, *right)
    assert "| a | 0.50 | differs | rnn |" in text
    assert "| rnn | 2 | 0.50 | 3.00 |" in text


def test_small_cases_count_only_where_there_are_no_others(tmp_path):
    small = replace(OURS, case="gather small", moved=2**24 - 1, of_copy=0.1)
    alone = replace(small, case="top_k small", operator="top_k")
    text = page_of(tmp_path, OURS, small, alone)
    assert "| gather | 1 | 0.50 |" in text
    assert "| top_k | 1 | 0.10 |" in text
    assert "<summary>gather: 2 cases, 0.50 of a copy</summary>" in text


def test_the_best_of_torch_is_named(tmp_path):
    ways = [
        replace(OURS, contender=f"torch {name}", seconds=time) for name, time in (("embedding", 3e-3), ("take", 9e-3))
    ]
    wrong = replace(OURS, contender="torch compile", seconds=1e-3, same_bits=False)
    text = page_of(tmp_path, OURS, *ways, wrong)
    assert "# D: operators\n\nMeasured on d, 2026-11-22: jax 1.2.\n" in text
    assert "| case | of a copy | x best of torch | which is |" in text
    assert "| rows | 0.50 | 1.50 | embedding |" in text


def test_products_of_matrices_are_not_compared_with_a_copy(tmp_path):
    row = replace(OURS, case="gemm a", operator="gemm")
    assert "| case | of a matmul |" in page_of(tmp_path, row)
    assert "<summary>gemm: 1 case, 0.50 of a matmul</summary>" in page_of(tmp_path, OURS, row)


def test_a_run_on_many_devices_says_how_much_of_linear_scaling_there_is(tmp_path):
    both = [replace(OURS, case="copy a", operator="copy"), replace(OURS, case="copy a", contender="one device")]
    programs = [
        replace(OURS, case=f"gather {way}, Auto mesh of 2, dimension 0", operator="gather on meshes", of_copy=part)
        for way, part in (("forward", 0.9), ("backward", 0.4))
    ]
    programs[0] = replace(programs[0], collectives={})
    programs[1] = replace(programs[1], collectives={"all-gather": (1, 2**20)}, why="all-gather of 1.05 MB")
    trained = replace(OURS, case="training embedding, sgd", operator="training", of_copy=0.5)
    moved = replace(OURS, case="transfer from host", operator="transfer", contender="jax")
    results = Results("2 d, 2 devices on 4 cores", "2026-11-22", {}, [*both, *programs, trained, moved])
    (tmp_path / "r_sharded.json").write_text(results.json())
    short = rewritten("<!-- r_sharded.json: sharded -->\n<!-- end -->", tmp_path)
    assert "| batches | 1 | 0.50 | 0.50 |" in short
    assert "| operators on meshes, forward, without collectives | 1 | 0.90 | 0.90 |" in short
    assert "| operators on meshes, backward, with collectives | 1 | 0.40 | 0.40 |" in short
    assert "| embedding | 1 | 0.50 | 0.50 |" in short
    assert "Transfers: from host 8.39 GB/s." in short
    text = page(tmp_path / "r_sharded.json")
    assert "| gather | 0.40 | 0.60 | 2 | 1 | 0 | 1 all-gather | all-gather |" in text
    assert "| from host | 17 | 8.39 | - | 50% | - |" in text
    assert "<summary>gather on meshes: 2 cases, 0.60 of linear</summary>" in text
