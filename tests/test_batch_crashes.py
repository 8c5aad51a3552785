"""map_batches and crashes: a record never runs ahead of the disk, and a death at any moment loses nothing."""

import json
import os
import random
import signal
import time
from importlib.util import find_spec

import pytest
from batch_jobs import (
    NO_ZARR,
    NPY,
    ZARR,
    blocks,
    blocks_oracle,
    death,
    finished,
    job_in,
    names,
    random_rows,
    same_bytes,
    saved,
    started,
    written,
)
from checks import sampled

from dml_jax.batch import journal, map_batches, zarr_output
from dml_jax.batch import npy_output as target

pytestmark = pytest.mark.usefixtures("compiled_once")


# Killed, for real.


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [NPY, ZARR])
def test_a_killed_process_goes_on_from_what_it_recorded(tmp_path, name):
    array = random_rows(200)
    path, out = saved(tmp_path / "in.npy", array), tmp_path / name
    status, _, _ = finished(started(path, out, "--die-after", 80, "--slow", 0.005))
    assert status == -signal.SIGKILL
    lines = out.with_name(f"{name}.progress").read_text().splitlines()
    recorded = json.loads(lines[-1])["rows"]
    assert recorded >= 80
    status, printed, errors = finished(started(path, out))
    assert status == 0, errors
    rows, moved, _ = map(int, printed.split()[1:])
    assert (rows, moved) == (200, 2 * array[recorded:].nbytes)
    same_bytes(out, blocks_oracle(array))
    assert names(tmp_path) == ["in.npy", name]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [NPY, ZARR])
def test_a_process_killed_at_random_times_ends_with_the_same_bytes(tmp_path, name):
    array = random_rows(4000)
    path, out = saved(tmp_path / "in.npy", array), tmp_path / name
    rng, statuses = random.Random(0), []
    for _ in range(3):
        process = started(path, out, "--slow", 0.01)
        process.stdout.readline()
        time.sleep(rng.uniform(0.0, 0.6))
        process.kill()
        finished(process)
        statuses.append(process.returncode)
        assert not out.exists()
    assert statuses == [-signal.SIGKILL] * 3
    status, _, errors = finished(started(path, out))
    assert status == 0, errors
    same_bytes(out, blocks_oracle(array))


# Deaths before each change of the disk, in turn.


def test_rows_are_recorded_once_the_disk_has_them(tmp_path, monkeypatch):
    """What was written when the last sync began is what it brought to the disk."""
    path, array, out = job_in(tmp_path)
    written, synced, records = [0], [0], []
    write, sync, record = os.pwrite, target.sync_data, journal.Journal.record

    def counted(file, content, offset):
        done = write(file, content, offset)
        written[0] += done
        return done

    def syncing(file):
        before = written[0]
        time.sleep(0.01)
        sync(file)
        synced[0] = before

    def recording(self, **facts):
        records.append((facts.get("rows", 0) * array[0].nbytes, synced[0]))
        record(self, **facts)

    monkeypatch.setattr(os, "pwrite", counted)
    monkeypatch.setattr(target, "sync_data", syncing)
    monkeypatch.setattr(journal.Journal, "record", recording)
    map_batches(blocks, path, out, batch_size=8, checkpoint_seconds=1e-3)
    assert len(records) >= 3
    assert all(recorded <= there for recorded, there in records)
    assert max(recorded for recorded, _ in records) == array.nbytes


@pytest.mark.parametrize("overwrite", sampled([False, True], [True]))
@pytest.mark.parametrize("name", [NPY, ZARR])
def test_a_death_before_any_change_of_the_disk_loses_nothing(tmp_path, monkeypatch, overwrite, name, exhaustive):
    """Every change that the job makes is, in turn, the first one that is not made; of zarr by default each seventh."""
    array = random_rows(19)
    monkeypatch.setattr(zarr_output, "CHUNK_BYTES", 8 * array[0].nbytes)
    path, steps = saved(tmp_path / "in.npy", array), 0
    map_batches(blocks, path, tmp_path / name, batch_size=8)  # so that all changes are the job's, none jax's
    while True:
        out = tmp_path / str(steps) / name
        out.parent.mkdir()
        if overwrite:
            map_batches(lambda x: x, array[:1], out)
        with death(monkeypatch, steps):
            map_batches(blocks, path, out, batch_size=8, checkpoint_seconds=1e-3, overwrite=overwrite)
            break
        if overwrite and out.exists() and len(written(out)) == 1:
            same_bytes(out, array[:1])  # until the new one is whole
        done = map_batches(blocks, path, out, batch_size=8, overwrite=overwrite)
        assert done.rows == 19
        same_bytes(out, blocks_oracle(array))
        assert names(out.parent) == [name]
        steps += 7 if name == "out.zarr" and not exhaustive else 1
    assert steps > 12


@pytest.mark.skipif(not find_spec("tensorstore"), reason=NO_ZARR)
def test_a_death_of_a_job_with_several_outputs_loses_nothing(tmp_path, monkeypatch, exhaustive):
    """Between two of them, too; by default each ninth death."""
    array, steps = random_rows(19), 0
    monkeypatch.setattr(zarr_output, "CHUNK_BYTES", 8 * array[0].nbytes)

    def both(x):
        return x[:, 0], blocks(x)

    map_batches(both, array, (tmp_path / "a.npy", tmp_path / "b.zarr"), batch_size=8)
    while True:
        outputs = tmp_path / str(steps) / "a.npy", tmp_path / str(steps) / "b.zarr"
        outputs[0].parent.mkdir()
        with death(monkeypatch, steps):
            map_batches(both, array, outputs, batch_size=8, checkpoint_seconds=1e-3)
            break
        if names(outputs[0].parent) != ["a.npy", "b.zarr"]:  # else it died with nothing left to do
            map_batches(both, array, outputs, batch_size=8)
        same_bytes(outputs[0], array[:, 0])
        same_bytes(outputs[1], blocks_oracle(array))
        assert names(outputs[0].parent) == ["a.npy", "b.zarr"]
        steps += 1 if exhaustive else 9
    assert steps > 20
