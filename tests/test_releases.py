"""Releases of jax beside each other: medians, what is slower, and environments that are complete or made anew."""

import subprocess

import pytest

from benchmarks import releases
from dml_jax.bench.results import Results
from dml_jax.bench.timing import Measured


def row(case="a case", seconds=1e-3, contender="dml_jax", of_copy=0.5):
    return Measured(case, "gather", contender, 2**20, seconds, 0.9e-3, 1.2e-3, of_copy, True)


def run(*rows):
    return Results("a device", "2026-01-01T00:00:00+00:00", {"jax": "0.10.2"}, rows)


def test_times_are_in_units_of_numpys():
    """The machine of the second run is half as fast, and the third run was disturbed."""
    runs = [
        run(row(), row(contender="NumPy", seconds=2e-3), row("other", 4e-3, "NumPy")),
        run(row(seconds=2e-3), row(contender="NumPy", seconds=4e-3), row("other", 8e-3, "NumPy")),
        run(row(seconds=9e-3), row(contender="NumPy", seconds=2e-3), row("other", 4e-3, "NumPy")),
    ]
    times = releases.times_of(runs)
    assert times["a case", "dml_jax"] == pytest.approx(8**-0.5)
    assert times["a case", "copy"] == pytest.approx(0.5 * 8**-0.5)
    assert times["other", "NumPy"] == pytest.approx(2**0.5)


def test_without_cases_of_numpy_times_are_seconds():
    assert releases.times_of([run(row())])["a case", "dml_jax"] == 1e-3


def test_what_is_slower_than_under_the_first_release_is_told():
    """A faster copy makes nothing slower."""
    times = {
        "1.0": {
            ("a case", "dml_jax"): 1.0,
            ("a case", "copy"): 1.0,
            ("even", "dml_jax"): 1.0,
            ("gone", "dml_jax"): 1.0,
        },
        "1.1": {("a case", "dml_jax"): 1.25, ("a case", "copy"): 0.5, ("even", "dml_jax"): 1.1},
        "1.2": {
            ("a case", "dml_jax"): 0.8,
            ("a case", "copy"): 1.0,
            ("even", "dml_jax"): 5.0,
            ("gone", "dml_jax"): 2.0,
        },
    }
    lines, slower = releases.compared(times, 0.15)
    assert lines == [
        "jax 1.1 beside 1.0: 2 measurements, 1 slower by more than 15%;"
        " times as long, in the mean: dml_jax 1.17, jnp 1.00, copy 0.50",
        "  slower: a case, dml_jax: 1.25 times as long",
        "  measured under one of them only: gone",
        "jax 1.2 beside 1.0: 3 measurements, 2 slower by more than 15%;"
        " times as long, in the mean: dml_jax 2.00, jnp 1.00, copy 1.00",
        "  slower: even, dml_jax: 5.00 times as long",
        "  slower: gone, dml_jax: 2.00 times as long",
    ]
    assert slower == 3
    assert releases.compared({"1.0": times["1.0"], "1.1": times["1.0"]}, 0.15)[1] == 0


def test_a_case_that_one_contender_lacks_is_not_missing():
    """Such as jax.numpy, which an old release may not have for it."""
    old = {("a case", "dml_jax"): 1.0}
    lines, slower = releases.compared({"1.0": old, "1.1": {**old, ("a case", "jnp"): 1.0}}, 0.15)
    assert (len(lines), slower) == (1, 0)


def test_a_slower_case_says_what_jax_numpy_lost():
    """The release then, and not the form that is chosen for it."""
    old, new = ({("a case", "dml_jax"): time, ("a case", "jnp"): 2 * time} for time in (1.0, 3.0))
    (_, line), _ = releases.compared({"1.0": old, "1.1": new}, 0.15)
    assert line == "  slower: a case, dml_jax: 3.00 times as long, jnp 3.00"


@pytest.fixture
def commands(monkeypatch):
    """What would be run; `commands.result` says how it ends."""

    class Commands(list):
        result = subprocess.CompletedProcess([], 0, "", "")

    run = Commands()

    def called(command, **_):
        run.append(command)
        if command[1:3] == ["-m", "venv"]:
            (releases.Path(command[3]) / "bin").mkdir(parents=True)
            return subprocess.CompletedProcess(command, 0, "", "")
        if isinstance(run.result, BaseException):
            raise run.result
        return run.result

    monkeypatch.setattr(releases.subprocess, "run", called)
    return run


def test_an_environment_is_made_once(tmp_path, commands):
    python = releases.environment(tmp_path, "0.10.2")
    assert commands[0][2:] == ["venv", str(python.parent.parent)]
    asked = commands[1][commands[1].index("install") :]
    assert "jax==0.10.2" in asked
    assert any(one.startswith("click") for one in asked)
    assert not any(one.startswith(("jax>", "jaxlib")) for one in asked)
    assert releases.environment(tmp_path, "0.10.2") == python
    assert len(commands) == 2


def test_one_that_an_interruption_left_is_made_anew(tmp_path, commands):
    commands.result = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        releases.environment(tmp_path, "0.10.2")
    assert not list(tmp_path.iterdir())
    commands.result = subprocess.CompletedProcess([], 0, "", "")
    half = releases.environment(tmp_path, "0.10.2").parent.parent
    (half / releases.COMPLETE).unlink()  # as one that was killed
    (half / "old").touch()
    releases.environment(tmp_path, "0.10.2")
    assert not (half / "old").exists()
    assert (half / releases.COMPLETE).exists()


def test_a_release_that_cannot_be_installed_is_told(tmp_path, commands, capsys):
    commands.result = subprocess.CompletedProcess([], 1, "", "ERROR: several lines\nERROR: No jax==9.9 was found\n")
    with pytest.raises(SystemExit) as told:
        releases.main(["9.9", "9.8", "--folder", str(tmp_path)])
    assert "jax 9.9 cannot be installed for Python 3." in str(told.value)
    assert str(told.value).endswith("ERROR: No jax==9.9 was found")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["0.10.2"], "two releases or more"),
        (["0.10.2", "newest"], "numbers with dots, such as 0.10.2"),
        ([], "RELEASE"),
    ],
)
def test_mistakes_are_told(arguments, message, capsys):
    with pytest.raises(SystemExit) as left:
        releases.main(arguments)
    assert left.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("seconds", "code"), [(1e-3, None), (2e-3, 1)])
def test_slower_releases_end_with_1(tmp_path, monkeypatch, commands, capsys, seconds, code):
    found = {"0.10.0": run(row()), "0.10.2": run(row(seconds=seconds))}
    monkeypatch.setattr(releases, "_measured", lambda python, release, *_: found[release])
    arguments = ["0.10.0", "0.10.2", "--folder", str(tmp_path), "--runs", "1"]
    if code:
        with pytest.raises(SystemExit) as left:
            releases.main(arguments)
        assert left.value.code == code
    else:
        releases.main(arguments)
    assert "jax 0.10.2 beside 0.10.0: 1 measurements" in capsys.readouterr().out
