"""map_batches on damaged, planted and unwritable files: right rows or a BatchError, and the lock is free afterwards."""

import errno
import json
import os
import resource
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from batch_jobs import CHANGES, blocks, blocks_oracle, names, random_rows, saved
from checks import sampled

from dml_jax.batch import BatchError, fsync, jobs, journal, map_batches
from dml_jax.batch import npy_output as target

ROWS = 200

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.fixture
def job(tmp_path):
    """An input, its array, and where the output goes; half of the rows are written and recorded."""
    array = random_rows(ROWS)
    path, out = saved(tmp_path / "in.npy", array), tmp_path / "o.npy"
    interrupt(path, out)
    return path, array, out


def interrupt(path, out, **options):
    def progress(now):
        if now.rows >= (now.total + 1) // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        map_batches(blocks, path, out, batch_size=16, progress=progress, **options)


def beside(out, suffix):
    return out.with_name(f"{out.name}.{suffix}")


def ends_right(path, array, out, **options):
    """The same call again gives every row, and leaves nothing else."""
    done = map_batches(blocks, path, out, batch_size=16, **options)
    assert done.rows == len(array)
    np.testing.assert_array_equal(np.load(out).view(np.uint8), blocks_oracle(array).view(np.uint8))
    assert names(out.parent) == [path.name, out.name]
    return done


# The partial output.


@pytest.mark.parametrize("size", [0, 20, 900, "a byte less", "a byte more"])
def test_a_partial_output_of_another_size_is_begun_anew(job, size):
    path, array, out = job
    whole = beside(out, "partial").stat().st_size
    os.truncate(beside(out, "partial"), {"a byte less": whole - 1, "a byte more": whole + 1}.get(size, size))
    assert ends_right(path, array, out).bytes == 2 * array.nbytes


def test_a_complete_partial_output_that_was_cut_off_is_begun_anew(job, monkeypatch):
    """The last run ended between the header and the renaming."""
    path, array, out = job
    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(target.NpyOutput, "rename", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        map_batches(blocks, path, out, batch_size=16)
    assert np.load(beside(out, "partial")).shape[0] == ROWS
    os.truncate(beside(out, "partial"), 900)
    assert ends_right(path, array, out).bytes == 2 * array.nbytes


def test_a_partial_output_that_is_cut_off_while_it_is_written_is_told(tmp_path):
    array = random_rows(ROWS)
    path, out = saved(tmp_path / "in.npy", array), tmp_path / "o.npy"

    def cut(now):
        if now.rows:
            os.truncate(beside(out, "partial"), 900)

    with pytest.raises(BatchError, match="the file was cut off while it was written; run the same again"):
        map_batches(blocks, path, out, batch_size=16, progress=cut)
    ends_right(path, array, out)


def test_processes_that_share_a_partial_output_begin_anew_after_process_0(tmp_path, monkeypatch):
    """Process 1 comes first: giving the file its size again would hide from process 0 that rows are lost."""
    monkeypatch.setattr(jobs, "PATIENCE", 0.1)
    # Parts of 13 batches: when half of the rows are written, three more batches are at work, and none is the last one.
    array = random_rows(2 * ROWS)
    path, out = saved(tmp_path / "in.npy", array), tmp_path / "o.npy"
    for index in range(2):
        interrupt(path, out, share=(index, 2))
    os.truncate(beside(out, "partial"), 900)
    with pytest.raises(BatchError, match="process 0 has not begun this job"):
        map_batches(blocks, path, out, batch_size=16, share=(1, 2))
    interrupt(path, out, share=(0, 2))
    assert map_batches(blocks, path, out, batch_size=16, share=(1, 2)).bytes == 2 * array[ROWS:].nbytes
    map_batches(blocks, path, out, batch_size=16, share=(0, 2))
    np.testing.assert_array_equal(np.load(out).view(np.uint8), blocks_oracle(array).view(np.uint8))
    assert names(tmp_path) == ["in.npy", "o.npy"]


# The record.


def sealed(**facts):
    """A line with its checksum, as a job writes it."""
    return json.dumps({**facts, "crc32": zlib.crc32(json.dumps(facts).encode())}).encode() + b"\n"


# Lines that no job writes.
NONSENSE = {
    "fewer than no rows": b'{"rows": -200}\n',
    "truth": b"true\n",
    "rows that are true": b'{"rows": true}\n',
    "more rows than are written": b'{"rows": 150}\n',
    "all rows": b'{"rows": 200}\n',
    "more rows than there are": b'{"rows": 1000000}\n',
    "a text of rows": b'{"rows": "150"}\n',
    "a number of 5,000 digits": b'{"rows": ' + b"9" * 5000 + b"}\n",
    "an end": b'{"finished": [1, 2]}\n',
    "brackets": b"[" * 100_000 + b"\n",
    "nested objects": b'{"rows":' * 100_000 + b"\n",
    "NULs": b"\0" * 4096,
    "bytes": bytes(range(256)),
    "no line end": b'{"rows": 150',
}


@pytest.mark.parametrize("line", NONSENSE.values(), ids=NONSENSE)
def test_lines_that_no_job_has_written_are_passed_over(job, line):
    path, array, out = job
    recorded = journal.read_record(beside(out, "progress")).rows
    with beside(out, "progress").open("ab") as file:
        file.write(line)
    assert ends_right(path, array, out).bytes == 2 * array[recorded:].nbytes


@pytest.mark.parametrize("line", NONSENSE.values(), ids=NONSENSE)
def test_a_record_that_no_job_has_written_is_none(job, line):
    path, array, out = job
    beside(out, "progress").write_bytes(line)
    assert ends_right(path, array, out).bytes == 2 * array.nbytes


def test_a_number_that_a_disk_has_changed_is_passed_over(job):
    path, array, out = job
    progress = beside(out, "progress")
    lines = progress.read_bytes().splitlines(keepends=True)
    rows = json.loads(lines[-1])["rows"]
    progress.write_bytes(b"".join(lines[:-1]) + lines[-1].replace(b'"rows": 1', b'"rows": 19'))
    assert journal.read_record(progress).rows < rows
    ends_right(path, array, out)


NESTED = json.loads("[" * 900 + "]" * 900)

# What somebody could write who knows the checksum; what is said of it, or None if the job then begins anew.
FORGED = {
    "fewer than no rows": ({}, {"rows": -200}, None),
    "rows that are true": ({}, {"rows": True}, None),
    "more rows than there are": ({}, {"rows": 10**6}, None),
    "a token of another kind": ({"token": 5}, {}, None),
    "another token": ({"token": "0" * 32}, {}, None),
    "an empty token": ({"token": ""}, {"rows": ROWS}, None),
    "a job of another kind": ({"job": [1]}, {}, None),
    "an empty job": ({"job": {}}, {}, r"^inputs was None and is .*; undo this .*; .*progress belongs to another job$"),
    "a deep job": ({"job": {"program": NESTED}}, {}, r"program was \[\[.*\.\.\..*\]\] and is"),
    "control characters": ({"job": {"program": "\x1b[31m"}}, {}, r"program was '\\x1b\[31m' and is"),
    "an endless name": ({"job": {"program": "x" * 10**6}}, {}, r"program was 'x{50,250}\.\.\.x{50,250}' and is"),
}


@pytest.mark.parametrize(("first", "last", "message"), FORGED.values(), ids=FORGED)
def test_a_forged_record_ends_in_words_or_right_rows(job, first, last, message):
    path, array, out = job
    progress = beside(out, "progress")
    facts = {key: value for key, value in json.loads(progress.read_text().splitlines()[0]).items() if key != "crc32"}
    progress.write_bytes(sealed(**{**facts, **first}) + sealed(**last))
    if message:
        with pytest.raises(BatchError, match=message) as caught:
            map_batches(blocks, path, out, batch_size=16)
        assert len(str(caught.value)) < 3000
    ends_right(path, array, out, restart=message is not None)


@pytest.mark.parametrize("fails", ["_content", "_lock", "_parsed"])
def test_a_lock_is_released_whatever_happens(job, monkeypatch, fails):
    path, array, out = job
    with monkeypatch.context() as patch:
        patch.setattr(journal, fails, lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError) as caught:
            map_batches(blocks, path, out, batch_size=16)
    ends_right(path, array, out)
    assert caught  # whose traceback still has every variable


# Names that are taken.


def link(path):
    """A link to a file that must not be touched."""
    path.with_name("victim").write_bytes(b"precious")
    path.symlink_to("victim")


def dangling(path):
    path.symlink_to("nothing")


PLANTED = {
    "a link": (link, "Is a symbolic link; remove it"),
    "a link to nothing": (dangling, "Is a symbolic link; remove it"),
    "a pipe": (os.mkfifo, "Not a regular file"),
    "a folder": (Path.mkdir, "Is a directory"),
}


@pytest.mark.parametrize("suffix", ["partial", "progress", "progress.1"])
@pytest.mark.parametrize(("plant", "message"), PLANTED.values(), ids=PLANTED)
def test_a_planted_name_is_refused_and_not_touched(tmp_path, plant, message, suffix):
    """Also that of the progress of another process, which only `restart` opens, and process 0 at the end."""
    array = random_rows(ROWS)
    path, out = saved(tmp_path / "in.npy", array), tmp_path / "o.npy"
    plant(beside(out, suffix))
    before = names(tmp_path)
    with pytest.raises(BatchError, match=f"o.npy.{suffix}: .*{message}"):
        map_batches(blocks, path, out, batch_size=16, restart=True)
    assert names(tmp_path) == before
    if plant is link:
        assert (tmp_path / "victim").read_bytes() == b"precious"
        (tmp_path / "victim").unlink()
    (Path.rmdir if plant is Path.mkdir else Path.unlink)(beside(out, suffix))
    ends_right(path, array, out)


def test_progress_of_another_process_that_is_no_file_is_refused(tmp_path):
    array = random_rows(ROWS)
    path, out = saved(tmp_path / "in.npy", array), tmp_path / "o.npy"
    os.mkfifo(beside(out, "progress.1"))
    with pytest.raises(BatchError, match=r"progress.1: the progress cannot be read: Not a regular file"):
        map_batches(blocks, path, out, batch_size=16, share=(0, 2))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("suffix", ["partial", "progress"])
def test_a_file_that_may_not_be_read_is_told(job, suffix):
    path, array, out = job
    beside(out, suffix).chmod(0)
    with pytest.raises(BatchError, match=f"{suffix}: .* cannot be (?:read|written): Permission denied"):
        map_batches(blocks, path, out, batch_size=16)
    beside(out, suffix).chmod(0o600)
    ends_right(path, array, out)


@pytest.mark.parametrize(
    "name", ["a\0b.npy", "\ud800.npy", "x" * 300, "a\0b/o.npy"], ids=["NUL", "surrogate", "long", "folder"]
)
def test_a_name_that_no_file_can_have_is_told(tmp_path, name):
    array = random_rows(2)
    with pytest.raises(BatchError):
        map_batches(blocks, saved(tmp_path / "in.npy", array), tmp_path / name)
    with pytest.raises(BatchError, match="an input cannot be read"):
        map_batches(blocks, tmp_path / name, tmp_path / "o.npy")
    assert names(tmp_path) == ["in.npy"]


# What the system refuses.


@pytest.mark.parametrize("limit", [0, 20, 300, 5000, 30_000])
def test_a_limit_of_the_size_of_files_is_told_and_keeps_what_is_there(tmp_path, limit):
    array = random_rows(ROWS)
    path, out = saved(tmp_path / "in.npy", array), tmp_path / "o.npy"
    map_batches(blocks, path, tmp_path / "first.npy", batch_size=16)  # jax writes what it has compiled
    (tmp_path / "first.npy").unlink()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        with pytest.raises(BatchError, match="cannot be written: File too large"):
            map_batches(blocks, path, out, batch_size=16)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not out.exists()
    ends_right(path, array, out)


def test_an_output_larger_than_any_file_is_told(tmp_path):
    path = tmp_path / "in.npy"
    np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(2**60, 0))
    with pytest.raises(BatchError, match=r"the disk is full|File too large"):
        map_batches(lambda x: x.sum(1, keepdims=True).repeat(9, 1), path, tmp_path / "o.npy", batch_size=16)
    map_batches(lambda x: x, path, tmp_path / "same.npy", batch_size=16)
    assert (tmp_path / "same.npy").read_bytes() == path.read_bytes()


# Every function of the system that a job calls on its files.
CALLS = (*CHANGES, (os, "fsync"), (fsync, "sync_data"), (os, "pread"), (os, "fstat"), (os, "listdir"), (os, "statvfs"))


@pytest.mark.parametrize("only", sampled([False, True], [True]), ids=["from then on", "once"])
def test_an_error_of_any_call_of_the_system_is_told_and_loses_nothing(tmp_path, monkeypatch, only, exhaustive):
    """Each call in turn, by default each third one, is the first, or the only one, that fails."""
    array = random_rows(19)
    path, step, error = saved(tmp_path / "in.npy", array), 0, None
    map_batches(blocks, path, tmp_path / "o.npy", batch_size=8)
    while step == 0 or error:
        out = tmp_path / str(step) / "o.npy"
        out.parent.mkdir()
        calls, error = iter(range(10**6)), None

        def failing(real, calls=calls, step=step):
            def call(*arguments, **keywords):
                number = next(calls)
                if number == step or (number > step and not only):
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                return real(*arguments, **keywords)

            return call

        with monkeypatch.context() as patch:
            for where, name in CALLS:
                patch.setattr(where, name, failing(getattr(where, name)))
            patch.setattr(target, "sync_data", fsync.sync_data)
            patch.setattr(journal, "sync_data", fsync.sync_data)
            try:
                map_batches(blocks, path, out, batch_size=8, checkpoint_seconds=1e-3)
            except BatchError as told:
                error = told
        map_batches(blocks, path, out, batch_size=8, overwrite=True)
        np.testing.assert_array_equal(np.load(out).view(np.uint8), blocks_oracle(array).view(np.uint8))
        assert names(out.parent) == ["o.npy"]
        step += 1 if exhaustive else 3
    assert step > 20
