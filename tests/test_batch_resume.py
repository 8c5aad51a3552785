"""map_batches, interrupted: the same call goes on from the rows that are recorded, unless the job has changed."""

import json
import os
import shutil
import threading
import time

import numpy as np
import pytest
from batch_jobs import (
    NPY,
    ROWS,
    ZARR,
    blocks,
    blocks_oracle,
    job_in,
    names,
    random_rows,
    same_bytes,
    saved,
)

from dml_jax.batch import BatchError, map_batches, zarr_output

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


def interrupted(path, out, rows, **options):
    """Runs a job and stops it when that many rows are written."""

    def progress(now):
        if now.rows >= rows:
            raise KeyboardInterrupt
        time.sleep(0.002)

    with pytest.raises(KeyboardInterrupt):
        map_batches(blocks, path, out, batch_size=8, progress=progress, **options)


# Going on.


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


def test_an_array_goes_on_and_an_iterator_starts_over(tmp_path):
    array, out = random_rows(ROWS), tmp_path / "out.npy"
    interrupted(array, out, 16)
    with pytest.raises(BatchError, match=r"inputs\[0\].crc32 was"):
        map_batches(blocks, array[::-1], out, batch_size=8)
    assert map_batches(blocks, array, out, batch_size=8).bytes < 2 * array.nbytes
    interrupted(iter([array]), out, 16, overwrite=True)
    assert map_batches(blocks, iter([array]), out, batch_size=8, overwrite=True).bytes == 2 * array.nbytes
    same_bytes(out, blocks_oracle(array))


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


# Other jobs, and lost or foreign files.


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
