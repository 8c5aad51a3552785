"""Several processes that write one file: complete and identical, whoever dies and comes back."""

import signal
import socket
import time

import numpy as np
import pytest
from batch_jobs import blocks, blocks_oracle, death, finished, job_in, names, random_rows, saved, started
from checks import sampled

from dml_jax.batch import BatchError, jobs, journal, map_batches

ROWS = 61


def part(path, out, index, count=2, **options):
    """One process's share."""
    return map_batches(blocks, path, out, batch_size=16, share=(index, count), **options)


def leave(path, out, index=0, count=2, **options):
    """Process 0 does its share and is interrupted while it waits for the others."""
    share = jobs.Share(index, count).rows(ROWS)

    def progress(now):
        if now.rows == len(share):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        part(path, out, index, count, progress=progress, **options)


pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.fixture
def job(tmp_path):
    return job_in(tmp_path, ROWS)


def is_right(out, array):
    """Whether the output is complete, and nothing is left beside it."""
    assert np.load(out).tobytes() == blocks_oracle(array).tobytes()
    assert names(out.parent) == ["in.npy", "out.npy"]


@pytest.mark.parametrize("count", [2, 3, 70])
def test_shares_are_contiguous_even_and_all_rows(count):
    parts = [jobs.Share(i, count).rows(ROWS) for i in range(count)]
    assert [row for rows in parts for row in rows] == list(range(ROWS))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_the_last_process_completes_the_file(job):
    path, array, out = job
    leave(path, out)
    assert not out.exists()
    assert part(path, out, 1).rows == 31
    is_right(out, array)


def test_a_process_that_is_early_leaves_the_end_to_process_0(job):
    path, array, out = job
    leave(path, out, count=3)
    assert part(path, out, 2, 3).rows == 21
    assert part(path, out, 2, 3).bytes == 0  # once more, and there is nothing to do
    assert not out.exists()
    assert part(path, out, 1, 3).rows == 20
    is_right(out, array)


def test_process_0_completes_what_the_others_have_done(job):
    path, array, out = job
    with pytest.raises(KeyboardInterrupt):
        part(path, out, 0, progress=interrupt)
    part(path, out, 1)
    assert not out.exists()
    assert part(path, out, 0).rows == 30
    is_right(out, array)


def interrupt(_):
    raise KeyboardInterrupt


@pytest.mark.exhaustive
@pytest.mark.parametrize("index", sampled([0, 1], [0]))
def test_a_death_before_any_change_of_the_disk_loses_nothing(tmp_path, monkeypatch, index):
    """Of either process, the other having done its share before."""
    array = random_rows(ROWS)
    path, steps, ended = saved(tmp_path / "in.npy", array), 0, False
    while not ended:
        out = tmp_path / str(steps) / "out.npy"
        out.parent.mkdir()
        if index:
            leave(path, out)
        else:
            with pytest.raises(KeyboardInterrupt):
                part(path, out, 0, progress=interrupt)
            part(path, out, 1)
        with death(monkeypatch, steps):
            part(path, out, index)
            ended = True
        if not ended and names(out.parent) != ["out.npy"]:  # else it died with nothing left to do
            part(path, out, index)
        assert names(out.parent) == ["out.npy"]
        assert np.load(out).tobytes() == blocks_oracle(array).tobytes()
        steps += 1
    assert steps > 8


def test_another_number_of_processes_is_refused(job):
    path, array, out = job
    leave(path, out, count=3)
    with pytest.raises(BatchError, match=r"process.of was 3 and is 2"):
        part(path, out, 0)
    with pytest.raises(BatchError, match="it belongs to a run with another number of processes"):
        map_batches(blocks, path, out, batch_size=8)
    map_batches(blocks, path, out, batch_size=8, restart=True)
    is_right(out, array)


def test_a_process_waits_for_process_0(job, monkeypatch):
    path, _, out = job
    monkeypatch.setattr(jobs, "PATIENCE", 0.1)
    with pytest.raises(BatchError, match="process 0 has not begun this job"):
        part(path, out, 1)
    assert names(out.parent) == ["in.npy"]


# As processes of their own, connected.


def address():
    """HOST:PORT of a port that is free."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{found.getsockname()[1]}"


def pair(path, out, where, *, slow):
    """Both processes, once they have met."""
    processes = [started(path, out, "--slow", slow, "--hosts", where, index, 2) for index in range(2)]
    for process in processes:
        line = process.stdout.readline()
        assert line == "running\n", line + process.stderr.read()
    return processes


def recorded(out, index):
    """How many rows the disk has of a process's share."""
    return journal.read_record(journal.progress_path(out, index, 2)).rows


def until_recorded(out, index, rows):
    """Waits until a process has recorded that many."""
    deadline = time.monotonic() + 300
    while recorded(out, index) < rows:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.exhaustive
def test_a_killed_process_comes_back_while_the_other_goes_on(tmp_path):
    array = random_rows(480)
    path, out, where = saved(tmp_path / "in.npy", array), tmp_path / "out.npy", address()
    first, second = pair(path, out, where, slow=0.1)
    until_recorded(out, 1, 40)
    second.kill()
    assert finished(second)[0] == -signal.SIGKILL
    done = recorded(out, 1)
    again = started(path, out, "--hosts", where, 1, 2)
    status, printed, errors = finished(again)
    assert status == 0, errors
    rows, moved, _ = map(int, printed.split()[1:])
    assert (rows, moved) == (240, 2 * array[:240][done:].nbytes)
    status, _, errors = finished(first)
    assert status == 0, errors
    is_right(out, array)


@pytest.mark.exhaustive
def test_when_process_0_is_killed_all_start_again_and_go_on(tmp_path):
    array = random_rows(800)
    path, out, where = saved(tmp_path / "in.npy", array), tmp_path / "out.npy", address()
    first, second = pair(path, out, where, slow=0.1)
    until_recorded(out, 0, 40)
    first.kill()
    assert finished(first)[0] == -signal.SIGKILL
    finished(second)  # JAX ends it once its coordinator is gone
    assert not out.exists()
    done = [recorded(out, index) for index in range(2)]
    assert min(done) > 0
    for process, before in zip(pair(path, out, where, slow=0), done, strict=True):
        status, printed, errors = finished(process)
        assert status == 0, errors
        assert tuple(map(int, printed.split()[:2])) == (400, 2 * array[:400][before:].nbytes)
    is_right(out, array)
