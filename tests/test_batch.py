"""map_batches: exact bits of every type, resuming after a crash at any point, and memory."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from importlib.util import find_spec

import jax
import ml_dtypes
import numpy as np
import pytest
from batch_jobs import (
    ITEM,
    NO_ZARR,
    NPY,
    ROWS,
    ZARR,
    blocks,
    blocks_oracle,
    death,
    environment,
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

import dml_jax
from dml_jax import ConstraintError, DataTypeError
from dml_jax.batch import BatchError, NpyFile, journal, map_batches, zarr_output
from dml_jax.batch import npy_output as target

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.fixture
def job(tmp_path):
    return job_in(tmp_path)


@pytest.fixture(params=[NPY, ZARR])
def job_of_any_format(tmp_path, request, monkeypatch):
    """The same for an output of each format; a chunk has eight rows."""
    path, array, out = job_in(tmp_path)
    monkeypatch.setattr(zarr_output, "CHUNK_BYTES", 8 * array[0].nbytes)
    return path, array, out.with_name(request.param)


# What is written.


@pytest.mark.parametrize("rows", [0, 1, 8, ROWS])
@pytest.mark.parametrize("batch_size", [1, 8, 11, None])
def test_the_output_is_what_numpy_saves(tmp_path, rows, batch_size):
    array = random_rows(rows)
    done = map_batches(blocks, saved(tmp_path / "in.npy", array), tmp_path / "out.npy", batch_size=batch_size)
    same_bytes(tmp_path / "out.npy", blocks_oracle(array))
    assert names(tmp_path) == ["in.npy", "out.npy"]
    assert (done.rows, done.total, done.bytes) == (rows, rows, 2 * array.nbytes)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8, np.float16, np.uint32, np.complex64, ">u2", ">f4"])
def test_every_type_keeps_its_bits(tmp_path, dtype):
    array = random_rows(ROWS, dtype)
    map_batches(blocks, saved(tmp_path / "in.npy", array), tmp_path / "out.npy", batch_size=8)
    native = array.astype(array.dtype.newbyteorder("="))
    same_bytes(tmp_path / "out.npy", blocks_oracle(native))


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_types_that_numpy_does_not_name_are_said(tmp_path, dtype):
    array = random_rows(ROWS, dtype)
    void = f"V{array.dtype.itemsize}"
    path = saved(tmp_path / "in.npy", array.view(void))
    with pytest.raises(BatchError, match="without a type, as bfloat16 and float8 are saved; say"):
        map_batches(blocks, path, tmp_path / "out.npy", batch_size=8)
    map_batches(blocks, NpyFile(path, dtype), tmp_path / "out.npy", batch_size=8)
    written = np.load(tmp_path / "out.npy")
    assert written.dtype == void
    assert written.tobytes() == blocks_oracle(array).tobytes()
    with pytest.raises(BatchError, match="and float32 has 4"):
        map_batches(blocks, NpyFile(path, np.float32), tmp_path / "out2.npy", batch_size=8)


def test_elements_of_4_bits_keep_them_also_where_jit_is_disabled(tmp_path):
    array = np.arange(-8, 8).astype(ml_dtypes.int4).reshape(4, 2, 2)
    with jax.disable_jit():
        map_batches(lambda x, y: dml_jax.tile(x, (1, 2, 1)) + y, array, tmp_path / "out.npy", shared=[array[:1, :1]])
    written = np.load(tmp_path / "out.npy").view(ml_dtypes.int4)
    expected = (np.tile(array.astype(int), (1, 2, 1)) + np.array([-8, -7])).astype(ml_dtypes.int4)
    assert written.tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.complex128])
def test_64_bit_types_are_refused_or_exact(tmp_path, dtype):
    array = random_rows(ROWS, dtype)
    path = saved(tmp_path / "in.npy", array)
    with jax.enable_x64(False), pytest.raises(DataTypeError, match="needs 64-bit types, but jax_enable_x64 is off"):
        map_batches(blocks, path, tmp_path / "out.npy", batch_size=8)
    assert names(tmp_path) == ["in.npy"]
    with jax.enable_x64(True):
        map_batches(blocks, path, tmp_path / "out.npy", batch_size=8)
    same_bytes(tmp_path / "out.npy", blocks_oracle(array))


def test_several_inputs_and_a_shared_one(tmp_path):
    """Row by row, as under vmap; a shared operand is the same for each."""
    x, i = random_rows(ROWS, np.int16, (5, 4)), np.random.default_rng(1).integers(-5, 9, (ROWS, 3), np.int32)
    table = random_rows(6, np.int16, (4,))
    paths = saved(tmp_path / "x.npy", x), saved(tmp_path / "i.npy", i)
    gathered = jax.vmap(lambda x, i: dml_jax.gather(x, i, 0))
    map_batches(gathered, paths, tmp_path / "out.npy", batch_size=8)
    at = np.clip(np.where(i < 0, i + 5, i), 0, 4)
    same_bytes(tmp_path / "out.npy", np.stack([a[b] for a, b in zip(x, at, strict=True)]))

    def looked_up(i, table):
        return jax.vmap(lambda i: dml_jax.gather(table, i, 0))(i)

    map_batches(looked_up, paths[1], tmp_path / "out2.npy", batch_size=8, shared=[table])
    same_bytes(tmp_path / "out2.npy", table[np.clip(np.where(i < 0, i + 6, i), 0, 5)])


def test_shared_arrays_may_come_from_an_iterator(tmp_path):
    array = random_rows(5, np.int32, (2,))
    two = iter([np.int32([[3, 4]]), np.int32([[1, 1]])])
    map_batches(lambda x, one, other: x + one - other, array, tmp_path / "out.npy", shared=two)
    same_bytes(tmp_path / "out.npy", array + np.int32([2, 3]))


@pytest.mark.parametrize("wrong", ["bf16", "f4,,", 3])
def test_a_type_that_is_none_is_told_with_its_file(wrong):
    with pytest.raises(ConstraintError, match=rf"^NpyFile\(in.npy\): dtype must be .*bfloat16.*, but it is '?{wrong}"):
        NpyFile("in.npy", wrong)


def test_arrays_and_iterators_are_inputs_too(tmp_path):
    array = random_rows(ROWS)
    reused = np.empty((5, *ITEM), np.float32)

    def one_buffer():
        for start in range(0, ROWS, 5):
            part = array[start : start + 5]
            reused[: len(part)] = part
            yield reused[: len(part)]

    given = {
        "array": array,
        "reversed": array[::-1][::-1],
        "memmap": np.load(saved(tmp_path / "in.npy", array), mmap_mode="r"),
        "list": [array[:1], array[1:1], array[1:30], array[30:]],
        "generator": (part for part in np.array_split(array, 5)),
        "one buffer": one_buffer(),
        "with a file": ((part for part in np.array_split(array, 3)), tmp_path / "in.npy"),
    }
    for name, inputs in given.items():
        out = tmp_path / f"{name}.npy"
        map_batches(lambda x, *_: blocks(x), inputs, out, batch_size=8)
        same_bytes(out, blocks_oracle(array))
    assert sorted(names(tmp_path)) == sorted(["in.npy", *(f"{name}.npy" for name in given)])


def test_a_function_may_return_its_argument_and_change_shape_and_type(tmp_path):
    array = random_rows(ROWS)
    map_batches(lambda x: x, array, tmp_path / "same.npy", batch_size=8)
    same_bytes(tmp_path / "same.npy", array)
    map_batches(lambda x: x[:, 0, 0, 0] > 0, array, tmp_path / "flags.npy", batch_size=8)
    same_bytes(tmp_path / "flags.npy", array[:, 0, 0, 0] > 0)


def test_one_compilation_and_a_trace_more_of_one_row(job, caplog):
    path, array, out = job
    traces = []

    def counted(x):
        traces.append(x.shape)
        return blocks(x)

    with jax.log_compiles(), caplog.at_level("WARNING"):
        map_batches(counted, path, out, batch_size=8)
    assert traces == [(-(-8 // jax.local_device_count()), *ITEM), (1, *ITEM)]  # of a device's rows, and for the record
    assert sum("Compiling jit(into)" in r.getMessage() for r in caplog.records) == 1
    same_bytes(out, blocks_oracle(array))


def test_batches_are_sharded_over_the_local_devices(job):
    path, array, out = job
    seen = []

    def shape_of_each(x):
        jax.debug.callback(lambda part: seen.append(part.shape), x, partitioned=True)
        return blocks(x)

    map_batches(shape_of_each, path, out, batch_size=11)
    jax.effects_barrier()
    assert {shape[0] for shape in seen} == {-(-11 // jax.local_device_count())}
    same_bytes(out, blocks_oracle(array))


def test_progress_is_told_in_order(job):
    path, array, out = job
    told = []
    map_batches(blocks, path, out, batch_size=8, progress=told.append)
    assert [p.rows for p in told] == sorted(p.rows for p in told)
    assert told[-1].rows == told[-1].total == ROWS
    assert told[-1].bytes == 2 * array.nbytes
    assert {p.total for p in told} == {ROWS}


def test_all_rows_are_told_before_the_disk_is_waited_for(job):
    path, _, out = job
    interrupted(path, out, ROWS)
    assert not out.exists()


@pytest.mark.parametrize("count", [1, 2])
def test_whenever_progress_raises_the_same_call_goes_on(tmp_path, count):
    """So it is not called once an output is complete: then there is nothing to go on with."""
    array = random_rows(ROWS)
    path, outputs = saved(tmp_path / "in.npy", array), tuple(tmp_path / f"{i}.npy" for i in range(count))

    def run(progress=None):
        map_batches(lambda x: (blocks(x),) * count, path, outputs, batch_size=8, progress=progress)

    told = []
    run(told.append)
    for calls in range(len(told)):
        for out in outputs:
            out.unlink()
        left = iter(range(calls))

        def stop(_, left=left):
            if next(left, None) is None:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(stop)
        run()
        for out in outputs:
            same_bytes(out, blocks_oracle(array))


# Going on.


def interrupted(path, out, rows, **options):
    """Runs a job and stops it when that many rows are written."""

    def progress(now):
        if now.rows >= rows:
            raise KeyboardInterrupt
        time.sleep(0.002)

    with pytest.raises(KeyboardInterrupt):
        map_batches(blocks, path, out, batch_size=8, progress=progress, **options)


def test_an_interrupted_job_goes_on_and_computes_the_rest_only(job_of_any_format):
    path, array, out = job_of_any_format
    interrupted(path, out, 16)
    assert names(out.parent) == ["in.npy", f"{out.name}.partial", f"{out.name}.progress"]
    recorded = json.loads(out.with_name(f"{out.name}.progress").read_text().splitlines()[-1])["rows"]
    assert recorded >= 16
    done = map_batches(blocks, path, out, batch_size=16)  # another batch size is no other job
    assert done.rows == ROWS
    assert done.bytes == 2 * array[recorded:].nbytes
    same_bytes(out, blocks_oracle(array))
    assert names(out.parent) == ["in.npy", out.name]


def test_a_batch_that_is_computed_when_a_job_is_interrupted_is_written(tmp_path):
    path, array, out = job_in(tmp_path)
    interrupted(path, out, 0)  # as soon as the first batch is started
    assert map_batches(blocks, path, out, batch_size=8).resumed == 8
    same_bytes(out, blocks_oracle(array))


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


def test_rows_are_recorded_once_the_disk_has_them(job, monkeypatch):
    """What was written when the last sync began is what it brought to the disk."""
    path, array, out = job
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


def test_a_progress_file_cut_anywhere_is_understood(job):
    path, array, out = job
    interrupted(path, out, 24, checkpoint_seconds=1e-3)
    progress, partial = out.with_name("out.npy.progress"), out.with_name("out.npy.partial")
    whole, data = progress.read_bytes(), partial.read_bytes()
    for length in (*range(0, len(whole), 41), len(whole) - 1):
        for tail in (b"", b"\0\0\0"):
            progress.write_bytes(whole[:length] + tail)
            partial.write_bytes(data)
            map_batches(blocks, path, out, batch_size=8, overwrite=True)
            same_bytes(out, blocks_oracle(array))


@pytest.mark.parametrize("lost", ["partial", "progress"])
def test_without_its_other_file_a_job_starts_over(job_of_any_format, lost):
    path, array, out = job_of_any_format
    interrupted(path, out, 16)
    lost = out.with_name(f"{out.name}.{lost}")
    shutil.rmtree(lost) if lost.is_dir() else lost.unlink()
    done = map_batches(blocks, path, out, batch_size=8)
    assert done.bytes == 2 * array.nbytes
    same_bytes(out, blocks_oracle(array))


def test_a_partial_output_that_is_not_the_recorded_one_is_not_used(job):
    path, array, out = job
    interrupted(path, out, 16)
    kept = out.with_name("out.npy.progress").read_bytes()
    out.with_name("out.npy.progress").unlink()
    interrupted(path, out, 8)
    out.with_name("out.npy.progress").write_bytes(kept)
    map_batches(blocks, path, out, batch_size=8)
    same_bytes(out, blocks_oracle(array))


def test_an_array_goes_on_and_an_iterator_starts_over(tmp_path):
    array, out = random_rows(ROWS), tmp_path / "out.npy"
    interrupted(array, out, 16)
    with pytest.raises(BatchError, match=r"inputs\[0\].crc32 was"):
        map_batches(blocks, array[::-1], out, batch_size=8)
    assert map_batches(blocks, array, out, batch_size=8).bytes < 2 * array.nbytes
    interrupted(iter([array]), out, 16, overwrite=True)
    assert map_batches(blocks, iter([array]), out, batch_size=8, overwrite=True).bytes == 2 * array.nbytes
    same_bytes(out, blocks_oracle(array))


CHANGED = {
    "the time of the input": (lambda path: os.utime(path, ns=(1, 1)), {}, r"inputs\[0\].mtime_ns was \d+ and is 1"),
    "its shape": (lambda path: saved(path, random_rows(ROWS + 1)), {}, rf"inputs\[0\].shape\[0\] was {ROWS} and is 38"),
    "its type": (lambda path: saved(path, random_rows(ROWS, np.int32)), {}, r"dtype was 'float32' and is 'int32'"),
    "an attribute": (lambda path: None, {"identity": {"axis": 1}}, r"identity was None and is \{'axis': 1\}"),
    "the function": (
        lambda path: None,
        {"fn": lambda x: blocks(x[::-1])[::-1]},
        r"program.operations.stablehlo.reverse was None and is 2",
    ),
}


@pytest.mark.parametrize(("change", "options", "message"), CHANGED.values(), ids=CHANGED)
def test_what_has_changed_is_said_and_refused(job, change, options, message):
    path, _, out = job
    interrupted(path, out, 16)
    before = {name: (out.parent / name).read_bytes() for name in ("out.npy.partial", "out.npy.progress")}
    change(path)
    options = {"fn": blocks, **options}
    with pytest.raises(BatchError, match=message) as caught:
        map_batches(inputs=path, output=out, batch_size=8, **options)
    assert "start over with restart=True" in str(caught.value)
    assert {name: (out.parent / name).read_bytes() for name in before} == before
    map_batches(inputs=path, output=out, batch_size=8, restart=True, **options)
    same_bytes(out, blocks_oracle(np.load(path)))


def test_two_jobs_on_one_output_exclude_each_other(job):
    path, array, out = job
    inside, go = threading.Event(), threading.Event()

    def progress(_):
        inside.set()
        go.wait(30)

    first = threading.Thread(target=lambda: map_batches(blocks, path, out, batch_size=8, progress=progress))
    first.start()
    inside.wait(30)
    with pytest.raises(BatchError, match="another process is writing this output"):
        map_batches(blocks, path, out, batch_size=8)
    go.set()
    first.join()
    same_bytes(out, blocks_oracle(array))


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


# Memory.


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_bounded_by_three_batches(tmp_path):
    """A file of 256 MB with three batches of 4 MB in and 4 MB out, and 24 MB; loading it all exceeds the limit."""
    item, rows, planted, batch = (16, 128, 128), 256, [0, 1, 141, 255], 4
    row = int(np.prod(item)) * 4
    path, out = tmp_path / "in.npy", tmp_path / "out.npy"
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, *item))
    for i in planted:
        array[i] = random_rows(1, item=item, seed=i)[0]
    array.flush()
    limit = 3 * 2 * batch * row + 24 * 2**20
    processes = [
        started(path, where, "--batch-size", batch, "--limit", limit, *more)
        for where, more in ((out, []), (tmp_path / "whole.npy", ["--whole"]))
    ]
    (status, printed, errors), (other, _, reason) = map(finished, processes)
    assert (other, reason.strip().splitlines()[-1:]) == (1, ["out of memory"])
    assert limit * 5 < rows * row
    assert status == 0, errors
    mapped = int(printed.split()[-1])
    assert batch * row <= mapped <= 4 * (batch * row + 2**16)  # three, and one that is being unmapped
    written = np.load(out, mmap_mode="r")
    for i in planted:
        assert written[i].tobytes() == blocks_oracle(array[i : i + 1]).tobytes()
    assert not any(written[i].any() for i in (2, 140, 142, 254))


def test_the_package_needs_neither_click_nor_rich():
    script = """
import sys
sys.modules["click"] = sys.modules["rich"] = None
import dml_jax
assert "dml_jax.batch" not in sys.modules
import dml_jax.batch
"""
    run = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert not re.search("Error", run.stderr)
