"""Outputs of batches: arrays of zarr in whole chunks, several outputs of a job, and what cannot be one."""

import json
import os
import resource
import shutil
import threading
from contextlib import contextmanager

import jax
import ml_dtypes
import numpy as np
import pytest
from batch_jobs import blocks, blocks_oracle, names, random_rows, saved, written
from commands import batch

from dml_jax import ConstraintError, DataTypeError
from dml_jax.batch import BatchError, map_batches, zarr_output

pytest.importorskip("tensorstore", reason="tensorstore is not installed; the extra test has it")
pytest.importorskip("zarr", reason="zarr is not installed; the extra test has it")
pytestmark = pytest.mark.usefixtures("compiled_once")

ROWS, PER_CHUNK = 37, 8
ARRAY = random_rows(ROWS)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks of eight rows."""
    monkeypatch.setattr(zarr_output, "CHUNK_BYTES", PER_CHUNK * ARRAY[0].nbytes)


def same(path, expected):
    actual = written(path)
    assert (actual.dtype, actual.shape, actual.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())


def interrupt(out, fn=blocks, rows=16):
    def progress(now):
        if now.rows >= rows:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        map_batches(fn, ARRAY, out, batch_size=8, progress=progress)


# Zarr.


@pytest.mark.thinned(4)
@pytest.mark.parametrize("rows", [0, 1, 8, ROWS])
@pytest.mark.parametrize("batch_size", [1, 8, 11, None])
def test_an_array_of_zarr_has_the_rows_in_whole_chunks(tmp_path, monkeypatch, rows, batch_size):
    """Each is written once, from whatever batches."""
    puts, put = [], zarr_output.ZarrOutput._put
    monkeypatch.setattr(zarr_output.ZarrOutput, "_put", lambda self, new: (puts.append(len(new)), put(self, new)))
    out = tmp_path / "out.zarr"
    done = map_batches(blocks, ARRAY[:rows], out, batch_size=batch_size)
    assert (done.rows, done.bytes) == (rows, 2 * ARRAY[:rows].nbytes)
    same(out, blocks_oracle(ARRAY[:rows]))
    assert names(tmp_path) == ["out.zarr"]
    assert sum(puts) == rows
    assert all(count % PER_CHUNK == 0 for count in [*filter(None, puts)][:-1])
    metadata = json.loads((out / "zarr.json").read_text())
    assert metadata["chunk_grid"]["configuration"]["chunk_shape"] == [min(PER_CHUNK, max(rows, 1)), 2, 4, 6]
    assert names(out) == ["c", "zarr.json"][not rows :]


@pytest.mark.thinned
@pytest.mark.parametrize("dtype", [bool, np.uint8, np.float16, np.uint32, np.complex64, ml_dtypes.bfloat16])
def test_every_type_keeps_its_bits(tmp_path, dtype):
    """bfloat16 too, which the zarr library cannot read, and TensorStore can."""
    array = random_rows(ROWS, dtype)
    map_batches(blocks, array, tmp_path / "out.zarr", batch_size=8)
    map_batches(lambda x: x, tmp_path / "out.zarr", tmp_path / "out.npy")
    assert np.load(tmp_path / "out.npy").tobytes() == blocks_oracle(array).tobytes()
    if dtype is not ml_dtypes.bfloat16:
        same(tmp_path / "out.zarr", blocks_oracle(array))


@pytest.mark.exhaustive
def test_a_row_may_be_a_number_larger_than_a_chunk_or_nothing(tmp_path):
    out = tmp_path / "out.zarr"
    for array in (ARRAY[:, 0, 0, 0], random_rows(3, item=(9, ARRAY[0].size)), ARRAY[:, :0]):
        map_batches(lambda x: x, array, out, batch_size=8, overwrite=True)
        same(out, array)


def test_an_iterator_ends_where_it_ends(tmp_path):
    map_batches(blocks, (ARRAY[i : i + 5] for i in range(0, ROWS, 5)), tmp_path / "out.zarr", batch_size=8)
    same(tmp_path / "out.zarr", blocks_oracle(ARRAY))


@pytest.mark.exhaustive
def test_an_array_of_zarr_is_the_input_of_the_next_job(tmp_path):
    map_batches(blocks, ARRAY, tmp_path / "a.zarr", batch_size=8)
    map_batches(lambda x: x[..., ::-1], tmp_path / "a.zarr", tmp_path / "b.zarr", batch_size=16)
    same(tmp_path / "b.zarr", blocks_oracle(ARRAY)[..., ::-1])


def test_an_existing_array_of_zarr_is_replaced_when_the_new_one_is_whole(tmp_path):
    out = tmp_path / "out.zarr"
    map_batches(lambda x: x, ARRAY, out)
    with pytest.raises(BatchError, match="the output exists; overwrite=True replaces it"):
        map_batches(blocks, ARRAY, out)
    map_batches(blocks, ARRAY, out, overwrite=True, progress=lambda now: now.rows < ROWS and same(out, ARRAY))
    same(out, blocks_oracle(ARRAY))
    assert names(tmp_path) == ["out.zarr"]


@pytest.mark.exhaustive
def test_a_partial_array_that_is_deleted_while_it_is_written_is_told(tmp_path):
    out = tmp_path / "out.zarr"
    with pytest.raises(BatchError, match="deleted or replaced while it was written; run the same again"):
        map_batches(
            blocks, ARRAY, out, batch_size=8, progress=lambda now: shutil.rmtree(f"{out}.partial", ignore_errors=True)
        )
    shutil.rmtree(f"{out}.partial", ignore_errors=True)  # a chunk may have been written since
    assert map_batches(blocks, ARRAY, out, batch_size=8).rows == ROWS
    same(out, blocks_oracle(ARRAY))


@pytest.mark.exhaustive
def test_damaged_metadata_of_a_partial_array_is_told(tmp_path):
    out = tmp_path / "out.zarr"
    interrupt(out)
    (tmp_path / "out.zarr.partial" / "zarr.json").write_text("{")
    with pytest.raises(BatchError, match=r"out.zarr.partial: the output cannot be written: .*zarr.json"):
        map_batches(blocks, ARRAY, out, batch_size=8)
    map_batches(blocks, ARRAY, out, batch_size=8, restart=True)
    same(out, blocks_oracle(ARRAY))


def link(path):
    path.with_name("victim").mkdir()
    path.symlink_to("victim")


PLANTED = {
    "a link": (link, "Is a symbolic link; remove it"),
    "a file": (lambda path: path.write_bytes(b"precious"), "Not a directory"),
    "a pipe": (os.mkfifo, "Not a directory"),
    "a folder of others": (lambda path: shutil.copytree("docs/models", path), "Is no partial output; remove it"),
}


@pytest.mark.parametrize(("plant", "message"), PLANTED.values(), ids=PLANTED)
def test_a_planted_name_is_refused_and_not_touched(tmp_path, plant, message):
    (tmp_path / "docs/models").mkdir(parents=True)
    (tmp_path / "docs/models/x").write_bytes(b"precious")
    before_job = os.getcwd()
    os.chdir(tmp_path)
    try:
        plant(tmp_path / "out.zarr.partial")
    finally:
        os.chdir(before_job)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(BatchError, match=f"out.zarr.partial: .*{message}"):
        map_batches(blocks, ARRAY, tmp_path / "out.zarr", restart=True)
    assert [path for path in before if not path.exists() and not path.is_symlink()] == []
    assert not (tmp_path / "out.zarr").exists()


@contextmanager
def uncached():
    """JAX writes no programs that it has compiled."""
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 1e6)
    try:
        yield
    finally:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)


@pytest.mark.exhaustive
def test_a_limit_of_the_size_of_files_is_told_and_keeps_what_is_there(tmp_path):
    out = tmp_path / "out.zarr"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700, before[1]))
    try:
        with uncached(), pytest.raises(BatchError, match=r"out.zarr.\w+: .*cannot be written: .*File too large"):
            map_batches(blocks, ARRAY, out, batch_size=8)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not out.exists()
    map_batches(blocks, ARRAY, out, batch_size=8)
    same(out, blocks_oracle(ARRAY))


# What cannot be an output.


def folder_of_pictures(path):
    path.mkdir()
    (path / "x.png").write_bytes(b"precious")
    return path


REFUSED = {
    "a file in a bucket": (lambda d: "s3://bucket/out.npy", "s3://bucket/out.npy: .* must be an array of zarr, s3://"),
    "a web server": (lambda d: "https://host/out.zarr", "https://host/out.zarr: .* must be an array of zarr, s3://"),
    "a dataset": (lambda d: d / "out.h5:/x", "must be a .npy file or an array of zarr"),
    "a file of HDF5": (lambda d: d / "out.h5", "must be a .npy file or an array of zarr"),
    "a picture": (lambda d: d / "out.png", "must be a .npy file or an array of zarr"),
    "an array in another": (lambda d: d / "a.zarr/b", "must be a .npy file or an array of zarr"),
    "a folder": (lambda d: folder_of_pictures(d / "out.npy"), "must be a file or an array of zarr, but it is a folder"),
    "a folder that is no zarr": (lambda d: folder_of_pictures(d / "out.zarr"), "an array of zarr, but it is a folder"),
}


@pytest.mark.parametrize(("made", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_an_output_is_refused(tmp_path, made, message):
    out = made(tmp_path)
    with pytest.raises(BatchError, match=message):
        map_batches(blocks, ARRAY, out, overwrite=True)
    assert all(path.read_bytes() == b"precious" for path in tmp_path.rglob("*") if path.is_file())


def test_processes_share_files_of_npy_alone(tmp_path):
    with pytest.raises(ConstraintError, match=r"must be a .npy file if processes share it, but it is .*out.zarr; Ray"):
        map_batches(blocks, ARRAY, tmp_path / "out.zarr", share=(0, 2))


# Several outputs.


def parts(x):
    return {"first": x[:, 0], "rest": (blocks(x), x[:, 1:, 0])}


def paths(folder):
    return {"first": folder / "a.npy", "rest": (str(folder / "b.zarr"), folder / "c.npy")}


def test_a_function_of_several_arrays_has_an_output_for_each(tmp_path):
    interrupt(paths(tmp_path), parts)
    done = map_batches(parts, ARRAY, paths(tmp_path), batch_size=11)
    assert 16 <= done.resumed < ROWS
    same(tmp_path / "a.npy", ARRAY[:, 0])
    same(tmp_path / "b.zarr", blocks_oracle(ARRAY))
    same(tmp_path / "c.npy", ARRAY[:, 1:, 0])
    assert names(tmp_path) == ["a.npy", "b.zarr", "c.npy"]


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("output", "fact"),
    [
        ("a.npy", r"fn returns {'first': \*, 'rest': \(\*, \*\)} and output is \*"),
        (("a.npy", "b.npy"), r"and output is \(\*, \*\)"),
        ((), r"output must be a path, or a tuple or dict of them, but it is tuple"),
        (("a.npy", 3), r"output must be a path, or a tuple or dict of them, but it is int"),
        ({"first": "a.npy", "rest": ("a.npy", "b.npy")}, "output must be different paths"),
    ],
)
def test_other_outputs_than_results_are_refused(tmp_path, monkeypatch, output, fact):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ConstraintError, DataTypeError), match=f"^map_batches: .*{fact}"):
        map_batches(parts, ARRAY, output)
    assert names(tmp_path) == []


@pytest.mark.exhaustive
def test_one_of_several_outputs_that_exists_is_refused(tmp_path):
    saved(tmp_path / "c.npy", ARRAY)
    with pytest.raises(BatchError, match=r"c.npy: the output exists"):
        map_batches(parts, ARRAY, paths(tmp_path))
    assert names(tmp_path) == ["c.npy"]
    map_batches(parts, ARRAY, paths(tmp_path), overwrite=True)
    same(tmp_path / "c.npy", ARRAY[:, 1:, 0])


@pytest.mark.exhaustive
def test_jobs_that_have_an_output_in_common_exclude_each_other(tmp_path):
    inside, go = threading.Event(), threading.Event()

    def progress(_):
        inside.set()
        go.wait(30)

    first = threading.Thread(target=lambda: map_batches(parts, ARRAY, paths(tmp_path), progress=progress))
    first.start()
    inside.wait(30)
    with pytest.raises(BatchError, match="another process is writing this output"):
        map_batches(blocks, ARRAY, tmp_path / "c.npy")
    go.set()
    first.join()
    assert names(tmp_path) == ["a.npy", "b.zarr", "c.npy"]


def test_progress_of_another_job_on_one_of_several_outputs_is_kept(tmp_path):
    interrupt(tmp_path / "c.npy")
    with pytest.raises(BatchError, match=r"c.npy.progress: this progress belongs to another job"):
        map_batches(parts, ARRAY, paths(tmp_path))
    assert map_batches(blocks, ARRAY, tmp_path / "c.npy").resumed >= 16


# The command.


def test_the_command_writes_zarr(tmp_path):
    map_batches(lambda x: x, ARRAY, tmp_path / "in.zarr", batch_size=8)
    done = batch("depth_to_space", tmp_path / "in.zarr", tmp_path / "out.zarr", "--block-size", 2)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{tmp_path}/out.zarr: {ROWS} items; ")
    same(tmp_path / "out.zarr", blocks_oracle(ARRAY))
    for out, message in (("out.zarr", "the output exists; --overwrite replaces it"), ("a/b.zarr", "make it first")):
        told = batch("depth_to_space", tmp_path / "in.zarr", tmp_path / out, "--block-size", 2)
        assert told.exit_code == 1
        assert message in told.stderr
    told = batch("depth_to_space", tmp_path / "in.zarr", "s3://bucket/x.npy", "--block-size", 2)
    assert (told.exit_code, told.stderr[:38]) == (1, "error: s3://bucket/x.npy: an output in")
