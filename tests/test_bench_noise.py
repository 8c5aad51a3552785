"""Warnings about uncertain measurements stand before the benchmark's table, and make `--strict` fail."""

import subprocess
import sys
from dataclasses import replace

import pytest
from commands import bench

from dml_jax.bench import noise, operators, peers, timing
from dml_jax.bench.results import Results

QUIET = timing.Measured("a case", "gather", "dml_jax", 2**20, 1.0, 0.95, 1.05, 0.5, True, 1.02)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"control": None}, []),
        ({"low": 0.9, "high": 3.28}, ["1 of 2 cases vary by more than 20%, the most by ±119% (another): "]),
        ({"control": 1.3}, ["In 1 of 2 cases two timings of the same copy in the same rounds differ, by up to 30%: "]),
        ({"control": 0.6}, ["In 1 of 2 cases two timings of the same copy in the same rounds differ, by up to 40%: "]),
    ],
)
def test_cases_that_are_uneven_are_counted(changes, said):
    rows = [QUIET, replace(QUIET, contender="jnp", high=9.0), replace(QUIET, case="another", **changes)]
    found = [*noise.notes(rows)]
    assert len(found) == len(said)
    assert all(sentence.startswith(start) for sentence, start in zip(found, said, strict=True))


def stat(busy, idle):
    """What Linux tells of two cores: user, nice, system, idle, waits for disks, interrupts of two kinds, and stolen."""
    core = f"{busy} 0 0 {idle} 50 0 0 0 0 0"
    return f"cpu  1 2 3 4 5 6 7 8 9 0\ncpu0 {core}\ncpu1 {core}\ncpu77 999999 0 0 0 0 0 0 0 0 0\nintr 5\n"


@pytest.mark.parametrize(("used", "own", "said"), [(500, 10.0, ""), (500, 1.0, "0.9 of 2"), (0, 0.0, "")])
def test_what_others_use_of_the_cores_is_told(monkeypatch, tmp_path, used, own, said):
    """In 10 seconds each core was busy for `used` hundredths of a second, of which this process had `own` seconds."""
    file, times = tmp_path / "stat", iter([0.0, 10.0])
    monkeypatch.setattr(noise, "_STAT", file)
    monkeypatch.setattr(noise.os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(noise.os, "sysconf", lambda _: 100)
    monkeypatch.setattr(noise.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(noise.time, "process_time", iter([0.0, own]).__next__)
    file.write_text(stat(busy=1000, idle=1000))
    load = noise.Load()
    file.write_text(stat(busy=1000 + used, idle=2000))
    assert [*load.note()] == [f"Other processes kept {said} cores busy while this was measured."] * bool(said)


def test_a_system_that_tells_nothing_of_its_cores_gives_no_note(monkeypatch, tmp_path):
    for content in (None, "", "cpu0 0 0 0 0 0 0 0 0 0 0\n"):
        monkeypatch.setattr(noise, "_STAT", tmp_path / "stat")
        if content is not None:
            (tmp_path / "stat").write_text(content)
        assert [*noise.Load().note()] == []


@pytest.mark.parametrize(
    ("told", "said"),
    [("0\n", ""), ("0\n97\n", "97 %"), ("[N/A]\n", ""), (subprocess.CalledProcessError(9, "x"), ""), (OSError(), "")],
)
def test_a_gpu_that_another_process_uses_is_told(monkeypatch, told, said):
    def run(*_, **__):
        if isinstance(told, Exception):
            raise told
        return subprocess.CompletedProcess((), 0, told)

    monkeypatch.setattr(noise.subprocess, "run", run)
    assert [*noise.busy_gpu()] == [
        f"A GPU was busy for {said} of the time before anything was measured: another process uses it."
    ] * bool(said)


def test_the_control_is_the_copy_itself_in_the_same_rounds(monkeypatch):
    case = next(case for case in operators.small() if case.operator == "gather")
    seen = []
    rounds = timing._rounds
    monkeypatch.setattr(timing, "_rounds", lambda runs, effort: seen.append(runs) or rounds(runs, effort))
    found = timing.measure(case, peers.implementations(eager=True), timing.Effort(rounds=3, seconds=1e-4))
    (runs,) = seen
    assert runs["control"] is runs["copy"]
    assert "control" not in [row.contender for row in found]
    assert len({row.control for row in found}) == 1
    assert found[0].control > 0


@pytest.mark.thinned(2)
@pytest.mark.parametrize("note", [None, "the machine was asleep"])
@pytest.mark.parametrize("options", [[], ["--strict"]])
def test_a_note_stands_before_the_table_and_strict_fails(monkeypatch, tmp_path, note, options):
    monkeypatch.setattr(noise, "notes", lambda _: [note] if note else [])
    monkeypatch.setattr(noise.Load, "note", lambda _: [])
    file = tmp_path / "r.json"
    chosen = ["--quick", "-k", "gather rows", "--rounds", "1", "--no-peers", "--json", str(file), *options]
    done = bench(*chosen)
    assert done.exit_code == (1 if note and options else 0), done.output
    if note:
        assert done.output.index(f"Note: {note}\n") < done.output.index("of copy")
    assert Results.read(file).notes == ((note,) if note else ())
    assert ("error: the numbers are uncertain" in done.output) == bool(note and options)


def test_one_sample_has_no_spread():
    done = bench("--quick", "-k", "gather rows", "--rounds", "1", "--no-peers")
    (line,) = (line for line in done.output.splitlines() if line.startswith("gather rows"))
    assert "±" not in line


@pytest.mark.exhaustive
def test_a_machine_made_busy_is_reported():
    """Three processes for every core that do nothing but count."""
    count = 3 * max(1, len(noise.Load().cores))
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        line = [sys.executable, "-m", "dml_jax", "bench", "--quick", "-k", "gather rows", "--no-peers", "--strict"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=600, check=False)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("Note: ")
    assert "the numbers are uncertain" in done.stderr
