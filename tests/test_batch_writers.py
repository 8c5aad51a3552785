"""Batches written by several threads into a map of the file: the same bits as by `pwrite`, and nothing is lost."""

import errno
import mmap
import os
import signal
import threading

import numpy as np
import pytest
from batch_jobs import blocks, blocks_oracle, death, finished, names, random_rows, saved, started

from dml_jax.batch import BatchError, map_batches, mapped_write, npy_output

ROWS = 37
ARRAY = random_rows(ROWS)

pytestmark = [
    pytest.mark.usefixtures("compiled_once", "several_writers"),
    pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the system cannot reserve space for a map"),
]


@pytest.fixture
def several_writers(monkeypatch):
    monkeypatch.setattr(mapped_write, "LEAST", 1)
    monkeypatch.setattr(mapped_write, "MOST", 3)
    monkeypatch.setattr(mapped_write, "PIECE", 100)


@pytest.fixture
def job(tmp_path):
    return saved(tmp_path / "in.npy", ARRAY), tmp_path / "out.npy"


def same_bytes(path, array):
    np.testing.assert_array_equal(np.load(path).view(np.uint8), blocks_oracle(array).view(np.uint8))


@pytest.mark.parametrize("batch_size", [1, 7, None])
def test_the_file_has_the_same_bytes(job, batch_size, monkeypatch):
    """On one device, on seven, and on eight."""
    path, out = job
    map_batches(blocks, path, out, batch_size=batch_size)
    several = out.read_bytes()
    monkeypatch.setattr(mapped_write, "LEAST", 10**6)
    map_batches(blocks, path, out, batch_size=batch_size, overwrite=True)
    assert several == out.read_bytes()


def test_rows_without_bytes_and_iterators_are_written(tmp_path):
    map_batches(lambda x: x[:, :0], ARRAY, tmp_path / "none.npy")
    assert np.load(tmp_path / "none.npy").shape == (ROWS, 0, *ARRAY.shape[2:])
    map_batches(blocks, (ARRAY[i : i + 5] for i in range(0, ROWS, 5)), tmp_path / "out.npy", batch_size=8)
    same_bytes(tmp_path / "out.npy", ARRAY)


def test_a_job_that_was_stopped_goes_on(job):
    def stop(now):
        if now.rows >= 16:
            raise KeyboardInterrupt

    path, out = job
    with pytest.raises(KeyboardInterrupt):
        map_batches(blocks, path, out, batch_size=8, progress=stop)
    assert map_batches(blocks, path, out, batch_size=11).resumed >= 16
    same_bytes(out, ARRAY)


def test_a_death_before_any_change_of_the_disk_loses_nothing(tmp_path, monkeypatch, exhaustive):
    """By default before each third one."""
    array = ARRAY[:19]
    path, steps = saved(tmp_path / "in.npy", array), 0
    map_batches(blocks, path, tmp_path / "out.npy", batch_size=8)  # so that all changes are the job's, none jax's
    while True:
        out = tmp_path / str(steps) / "out.npy"
        out.parent.mkdir()
        with death(monkeypatch, steps):
            map_batches(blocks, path, out, batch_size=8, checkpoint_seconds=1e-3)
            break
        map_batches(blocks, path, out, batch_size=8, overwrite=True)
        same_bytes(out, array)
        assert names(out.parent) == ["out.npy"]
        steps += 1 if exhaustive else 3
    assert steps > 12


@pytest.mark.exhaustive
def test_a_killed_process_goes_on_from_what_it_recorded(tmp_path):
    array = random_rows(200)
    path, out = saved(tmp_path / "in.npy", array), tmp_path / "out.npy"
    status, _, _ = finished(started(path, out, "--writers", "--die-after", 80, "--slow", 0.005))
    assert status == -signal.SIGKILL
    status, printed, errors = finished(started(path, out, "--writers"))
    assert status == 0, errors
    assert int(printed.split()[2]) <= 2 * array[80:].nbytes
    same_bytes(out, array)


def test_a_full_disk_is_told_before_the_map_is_written(job, monkeypatch):
    """A process that writes into a map of a full disk is killed."""
    path, out = job
    reserve = os.posix_fallocate

    def fill(file, offset, size):
        if offset > ARRAY[:10].nbytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        reserve(file, offset, size)

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", fill)
        with pytest.raises(BatchError, match=r"the disk is full: .*run the same again"):
            map_batches(blocks, path, out, batch_size=8)
    assert map_batches(blocks, path, out, batch_size=8).resumed == 8
    same_bytes(out, ARRAY)


@pytest.mark.parametrize("where", [(os, "posix_fallocate"), (mmap, "mmap")], ids=["space", "map"])
def test_files_that_cannot_be_mapped_are_written_by_one_thread(tmp_path, monkeypatch, where):
    def refuse(*_):
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))

    monkeypatch.setattr(*where, refuse)
    map_batches(blocks, ARRAY, tmp_path / "out.npy")
    same_bytes(tmp_path / "out.npy", ARRAY)


def test_processes_that_share_a_file_write_their_bytes_alone(tmp_path, monkeypatch):
    """A map has whole pages, which a file system of a network may write back over those of another host."""
    monkeypatch.setattr(npy_output, "write_mapped", None)
    out = tmp_path / "out.npy"
    first = threading.Thread(target=map_batches, args=(blocks, ARRAY, out), kwargs={"share": (0, 2)})
    first.start()
    map_batches(blocks, ARRAY, out, share=(1, 2))
    first.join()
    same_bytes(out, ARRAY)
