"""benchmarks.variants: random programs, compared with the plain form, and reports."""

import json
import random
import re
from dataclasses import replace

import jax
import pytest

from benchmarks import variants
from dml_jax.bench.random_draws import Draws
from dml_jax.bench.random_programs import GROUPS
from dml_jax.bench.timing import Effort
from dml_jax.operations.programs.forced_form import forced_form

SIZE, ROWS = 2**16, GROUPS["rows"]
CASE = variants.Measured("rows", "gather", "gather: words", 1.21, 1.0, None, 0.5, 2.0, same=True)


@pytest.fixture(autouse=True)
def few_samples(monkeypatch):
    monkeypatch.setattr(variants, "EFFORT", Effort(rounds=1, seconds=1e-4))


@pytest.mark.thinned
@pytest.mark.parametrize("group", GROUPS)
def test_programs_of_every_group_are_measured(group):
    for seed in range(2):
        case = variants.measured(GROUPS[group](Draws(seed, SIZE)), random.Random(seed))
        assert (case.group, case.same) == (group, True)
        assert case.over_old is None
        assert min(case.over_plain, case.control, case.of_copy, case.compiling) > 0


def wrong_unless_plain(draws):
    """Differs from plain in one bit."""

    def way(function):
        def changed(*arrays):
            right = function(*arrays)
            return right if forced_form() == "plain" else right.at[-1, -1].add(1)

        return changed

    return replace(ROWS(draws), way=way)


def raising(draws):
    def way(function):
        raise ValueError("it cannot be compiled")

    return replace(ROWS(draws), detail="a program", way=way)


def interrupted(draws):
    raise KeyboardInterrupt


def run(capsys, *options):
    status, told = variants.main([*options, "--seconds", "0", "--size", "1"]), capsys.readouterr()
    assert "\r" not in told.err  # which is no terminal
    return status, told.out.splitlines()


@pytest.fixture
def file(tmp_path):
    return tmp_path / "variants.json"


def test_groups_and_variants_are_told_and_stored(capsys, file):
    """One program of each group at least, however short the time."""
    status, lines = run(capsys, "rows", "narrow", "--old", "dml_jax", "--json", str(file))
    assert status == 0
    assert lines[0].endswith(", 1 MiB, seed 0")
    stored = json.loads(file.read_text())
    assert stored["versions"]["jax"] == jax.__version__
    assert [case["group"] for case in stored["cases"]] == ["rows", "narrow"]
    for case in stored["cases"]:
        assert any(line.startswith(f"{case['group']}: 1 cases, {case['over_plain']:.2f} x plain") for line in lines)
        assert any(line.startswith(f"{case['variants']}: ") and line.endswith(" x old") for line in lines)


def test_a_summary_has_geometric_means_and_shares():
    cases = [CASE, replace(CASE, over_plain=0.8), replace(CASE, over_plain=0.5, control=0.7), CASE]
    assert variants.summary("rows", cases) == (
        "rows: 4 cases, 0.87 x plain, control 0.91, 25 % below 0.9 beyond the control, 0.50 of a copy, "
        "compiling 2.00 x plain"
    )


def test_one_other_bit_than_plain_is_told(capsys, monkeypatch):
    monkeypatch.setitem(GROUPS, "rows", wrong_unless_plain)
    status, lines = run(capsys, "rows")
    assert status == 1
    assert any("OTHER RESULTS: gather rows, axis=0: " in line for line in lines)


def test_other_programs_run_when_one_fails(capsys, monkeypatch):
    monkeypatch.setitem(GROUPS, "rows", raising)
    status, lines = run(capsys, "rows", "narrow")
    assert status == 1
    assert "gather a program: ValueError: it cannot be compiled" in lines
    assert any(line.startswith("narrow: 1 cases") for line in lines)


def test_an_interrupted_run_keeps_what_it_measured(capsys, monkeypatch, file):
    monkeypatch.setitem(GROUPS, "narrow", interrupted)
    status, lines = run(capsys, "rows", "narrow", "--json", str(file))
    assert status == 130
    assert any(line.startswith("rows: 1 cases") for line in lines)
    assert len(json.loads(file.read_text())["cases"]) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["columns"], "groups are blocks, views, .* windows, but not columns"),
        (["--old", "no_such_package"], "no package 'no_such_package' can be imported"),
    ],
)
def test_bad_usage(options, message, capsys):
    with pytest.raises(SystemExit) as left:
        variants.main(options)
    assert left.value.code == 2
    assert re.search(message, capsys.readouterr().err)
