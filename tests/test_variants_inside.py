"""benchmarks.inside: operators that choose a variant, in programs."""

import json

import pytest

from benchmarks import inside


@pytest.fixture(autouse=True)
def few_samples(monkeypatch):
    monkeypatch.setattr(inside, "ROUNDS", 1)
    monkeypatch.setattr("os.sched_setaffinity", lambda *_: None, raising=False)


def test_an_operator_is_measured_in_every_program(tmp_path, capsys):
    inside.main(["blocks", "--seconds", "0", "--seed", "4", "--size", "0.25", "--json", str(tmp_path / "cases.json")])
    cases = json.loads((tmp_path / "cases.json").read_text())
    assert [case["program"] for case in cases] == [*inside.PROGRAMS]
    assert {case["variant"] for case in cases} == {"permute: halves"}
    assert min(case["over_plain"] for case in cases) > 0
    assert capsys.readouterr().out.count("1 cases,") == len(cases)


def test_unknown_groups_are_named(capsys):
    with pytest.raises(SystemExit):
        inside.main(["bytes"])
    assert "but not bytes" in capsys.readouterr().err
