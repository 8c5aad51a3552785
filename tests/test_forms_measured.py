"""Every row of the tables of forms has a case that chooses it, and what it gains is told."""

import json

import jax
import pytest

import dml_jax
from benchmarks import forms
from dml_jax.bench import accumulate
from dml_jax.bench.subjects import cases_of
from dml_jax.lowering.forms import Choice, forced_form
from dml_jax.lowering.plain import depth_space
from dml_jax.lowering.plain import tile as repeats


def tiles(size):
    return [forms.Candidate(case, case.call) for case in cases_of("tile", "full", size)]


def test_the_rows_are_those_of_every_table():
    on = {platform: forms.rows_of(platform) for platform in ("cpu", "cuda")}
    for table in (depth_space, repeats):
        name = table.__name__.rpartition(".")[2]
        found = [row.choice for rows in on.values() for row in rows if row.table == name]
        assert sorted(map(id, found)) == sorted(map(id, table.TABLE))
    assert {row.table for row in on["cuda"]} >= {"combine", "depth_space", "gather", "narrow", "padding", "strided"}
    names = [row.name for rows in on.values() for row in rows]
    assert len(names) == len(set(names))


def test_a_row_is_measured_in_cases_that_choose_it():
    rows = [row for row in forms.rows_of("cpu") if row.choice.form == "concatenated"]
    (found,) = forms.cases_of(rows, iter(tiles(2**20)), "cpu", 3)
    assert len(found) == 3
    dtypes = {candidate.case.name.split()[-1] for candidate in found}
    assert dtypes == {"uint8", "float16"}  # one of each value first


def test_cases_are_far_apart_in_their_groups():
    few, many = tiles(2**20)[:2], tiles(2**20)[2:11]
    assert forms._spread([few], 3) == few
    assert forms._spread([many], 3) == [many[0], many[4], many[8]]
    assert forms._spread([few, many], 3) == [few[0], many[0], few[1]]
    assert forms._spread([few, few], 3) == few


def test_what_a_row_gains_is_printed_and_stored(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(forms, "candidates", lambda rows, size: iter(tiles(size)))
    forms.main(
        ["-k", "concatenated", "--most", "1", "--rounds", "1", "--size", "1", "--json", str(tmp_path / "f.json")]
    )
    document = json.loads((tmp_path / "f.json").read_text())
    assert document["versions"]["jax"] == jax.__version__
    (stored,) = document["rows"]
    assert stored["row"] == "repeats[2] concatenated: itemsize 1/2, inner True"
    (case,) = stored["cases"].values()
    assert case["speed"] == stored["least"]
    assert case["seconds"] / case["of_plain"] == case["compiling"] == pytest.approx(stored["compiling"])
    assert case["seconds"] - case["of_plain"] == pytest.approx(stored["longer"])
    told = capsys.readouterr().out
    assert f"least {stored['least']:.2f}, geometric mean {stored['mean']:.2f}, compiling" in told
    assert f"compiling {stored['compiling']:.2f} x, {stored['longer']:+.2f} s" in told
    assert told.splitlines()[-1].split(": ")[1].startswith(f"{int(stored['mean'] < 1.15)} gains less than 1.15, ")


def test_a_row_that_gains_little_is_marked_and_the_longer_it_compiles_the_more_it_has_to_gain():
    row = forms.Row("t", 3, Choice("cpu", "words", {"itemsize": {2, 1}, "row_bytes": range(32, 2**62)}, ""))
    gain = forms.Gain(row, {"a": forms.Beside(1.0, 0.8, 0.4), "b": forms.Beside(1.21, 0.2, 0.1)})
    assert forms.report(gain).splitlines() == [
        "t[3] words: itemsize 1/2, row_bytes from 32",
        "  least 1.00, geometric mean 1.10, compiling 2.00 x, +0.25 s  gains less than 1.15",
        "    1.00  2.00 x  a",
        "    1.21  2.00 x  b",
    ]
    little, slow = "gains less than 1.15", "compiles longer than 2 x and gains less than 1.5"
    for speed, seconds, marks in (
        (1.2, 1.9, []),
        (1.2, 2.1, [slow]),
        (1.5, 2.1, []),
        (1.1, 1.9, [little]),
        (1.1, 2.1, [little, slow]),
    ):
        gain = forms.Gain(row, {"a": forms.Beside(speed, seconds, 1.0)})
        assert gain.marks == marks
        assert forms.report(gain).splitlines()[1].split("  ")[2:] == marks


def test_both_are_compiled_for_the_first_time(monkeypatch):
    """XLA:GPU keeps the tiles that it tuned, so that what is compiled again takes less."""
    order, seconds = [], iter((2.0, 1.5))
    monkeypatch.setattr(forms, "_time_compiling", lambda candidate: order.append("compiled") or next(seconds))
    measured = forms.measure
    monkeypatch.setattr(forms, "measure", lambda *given: order.append("measured") or measured(*given))
    assert forms._beside_plain(tiles(2**16)[0], forms.Effort(1, 0.0))[1:] == (2.0, 1.5)
    assert order == ["compiled", "compiled", "measured"]


def test_a_gradient_is_measured_and_not_its_operator(monkeypatch, capsys):
    case = accumulate.of_elements((64, 1024), 1, "float32", "uniform")
    gradient = forms.Candidate(case, accumulate.gradient_of(case))
    monkeypatch.setattr(forms, "candidates", lambda rows, size: iter([gradient]))
    forms.main(["-k", " numbered: takes elements", "--rounds", "1"])
    assert case.name in capsys.readouterr().out


def test_an_interrupted_run_keeps_the_rows_that_it_measured(monkeypatch, tmp_path):
    def measured(row, found, effort):
        if row.table == "extremes":
            raise KeyboardInterrupt
        return forms.Gain(row, {"a": forms.Beside(1.0, 1.0, 1.0)})

    monkeypatch.setattr(forms, "cases_of", lambda rows, found, platform, most: [tiles(2**16)[:1]] * len(rows))
    monkeypatch.setattr(forms, "_gain", measured)
    with pytest.raises(KeyboardInterrupt):
        forms.main(["--json", str(tmp_path / "f.json")])
    stored = [row["row"] for row in json.loads((tmp_path / "f.json").read_text())["rows"]]
    names = [row.name for row in forms.rows_of("cpu") if row.may_run]
    assert 0 < len(stored) < len(names)
    assert stored == names[: len(stored)]


def test_a_row_without_a_case_is_an_error_that_names_it(monkeypatch, capsys):
    """Those for programs of several devices, and for another jaxlib, are told, as none of them is measured."""
    monkeypatch.setattr(forms, "candidates", lambda rows, size: iter(tiles(2**16)))
    with pytest.raises(SystemExit) as left:
        forms.main(["-k", "depth_space"])
    assert "no case chooses these rows" in str(left.value)
    told = capsys.readouterr().out
    rows = forms.rows_of("cpu")
    for row in rows:
        is_named = row.table == "depth_space"
        assert (row.name in str(left.value)) == (is_named and row.may_run)
        assert (f"another jaxlib: {row.name}" in told) == (is_named and not row.may_run)
    assert not all(row.may_run for row in rows)


def test_one_other_bit_than_plain_is_an_error_that_names_the_row(monkeypatch):
    def wrong(x):
        right = dml_jax.tile(x, (1, 8))
        return right if forced_form() else right.at[-1, -3].add(1)

    case = tiles(2**20)[1].case
    monkeypatch.setattr(forms, "candidates", lambda rows, size: iter([forms.Candidate(case, wrong)]))
    with pytest.raises(SystemExit, match=r"error: repeats\[2\].*other bits"):
        forms.main(["-k", "concatenated", "--most", "1", "--rounds", "1", "--size", "1"])


def test_no_row_is_an_error(capsys):
    with pytest.raises(SystemExit) as left:
        forms.main(["-k", "nothing"])
    assert left.value.code == 2
    assert "no row of a table for cpu has 'nothing' in its name" in capsys.readouterr().err


@pytest.mark.exhaustive
@pytest.mark.parametrize(("platform", "size"), [("cpu", 2**24), ("cuda", 2**27)])
def test_every_row_has_a_case(platform, size):
    jax.clear_caches()  # what was traced before chooses nothing again
    rows = [row for row in forms.rows_of(platform) if row.may_run]
    found = forms.cases_of(rows, forms.candidates(rows, size), platform, 1)
    assert [row.name for row, each in zip(rows, found, strict=True) if not each] == []
