"""map_batches: wrong functions, files and arguments, and disks that fail, are told; what is there stays."""

import errno
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from batch_jobs import NPY, ROWS, ZARR, blocks, blocks_oracle, job_in, random_rows, same_bytes, saved
from small_arrays import random_keys

import dml_jax
from dml_jax import ConstraintError, DataTypeError
from dml_jax.batch import BatchError, batch_map, map_batches
from dml_jax.batch import npy_output as target

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.fixture
def job(tmp_path):
    return job_in(tmp_path)


def fails(error, message, fn, inputs, out, **options):
    """A job fails and leaves nothing under its name; what was there stays."""
    before = {p.name: p.read_bytes() for p in out.parent.iterdir() if p.is_file()} if out.parent.is_dir() else {}
    with pytest.raises(error, match=message) as caught:
        map_batches(fn, inputs, out, **{"batch_size": 8, **options})
    after = {p.name: p.read_bytes() for p in out.parent.iterdir() if p.is_file()} if out.parent.is_dir() else {}
    assert after == before
    return str(caught.value)


RESULTS = {
    "a row too many": (lambda x: jnp.concatenate([x, x[:1]]), r"but for a batch of \d it returns float32"),
    "a number": (lambda x: x.sum(), r"but for a batch of \d it returns float32\[\]"),
    "two arrays": (lambda x: (x, x), r"fn returns \(\*, \*\) and output is \*"),
    "nothing": (lambda x: None, "but it returns None; did you forget `return`"),
    "a text": (lambda x: "x", "with a row per row of its batch, but it returns str"),
    "keys": (lambda x: random_keys(8), "no type of NumPy"),
    "refused by the operator": (lambda x: dml_jax.depth_to_space(x, 3), "the channels of input must be a multiple"),
}


@pytest.mark.parametrize(("fn", "message"), RESULTS.values(), ids=RESULTS)
def test_a_wrong_function_is_told_before_anything_is_written(job, fn, message):
    path, _, out = job
    fails(ConstraintError, message, fn, path, out)


def broken(path, change):
    """A .npy file with other bytes."""
    path.write_bytes(change(path.read_bytes()))
    return path


def fortran(path):
    return saved(path, np.asfortranarray(random_rows(ROWS)))


FILES = {
    "missing": (lambda p: p.with_name("none.npy"), "cannot be read: No such file or directory"),
    "an empty folder": (
        lambda p: p.with_name("none").mkdir() or p.with_name("none"),
        "cannot be read: there is no file",
    ),
    "empty": (lambda p: broken(p, lambda _: b""), "must be a .npy file of numbers, but its header is wrong"),
    "text": (lambda p: broken(p, lambda _: b"1,2,3\n" * 99), "must be a .npy file of numbers, but its header is wrong"),
    "a torn header": (lambda p: broken(p, lambda b: b[:60]), "must be a .npy file of numbers, but its header is wrong"),
    "cut off": (lambda p: broken(p, lambda b: b[:-1]), "its header says [0-9]+; it was cut off"),
    "Fortran order": (fortran, "in Fortran order; save numpy.ascontiguousarray of it"),
    "objects": (lambda p: saved(p, np.array([{}, None])), "it holds Python objects"),
    "no dimensions": (lambda p: saved(p, np.float32(1)), "must have a leading dimension"),
    "text elements": (lambda p: saved(p, np.array(["a", "b"])), "it holds elements of <U1"),
    "dates": (lambda p: saved(p, np.array(["2026-01-01"], "M8[D]")), "it holds elements of datetime64"),
    "records": (lambda p: saved(p, np.zeros(3, "i4,f4")), "it holds records"),
}


@pytest.mark.parametrize(("change", "message"), FILES.values(), ids=FILES)
def test_a_wrong_input_is_told_before_anything_is_written(job, change, message):
    path, _, out = job
    wrong = change(path)
    fails((BatchError, DataTypeError), message, lambda x: x, wrong, out)


KINDS = {"fn": "a function", "output": "a path", "shared": "a list of arrays", "checkpoint_seconds": "a number"}


@pytest.mark.parametrize(("name", "what"), [*KINDS.items(), ("progress", "a function")])
def test_an_argument_of_another_kind_is_told(job, name, what):
    path, _, out = job
    given = {"fn": blocks, "output": out, name: 1 + 2j}
    with pytest.raises(DataTypeError, match=f"^map_batches: {name} must be {what}.*, but it is complex"):
        map_batches(given.pop("fn"), path, given.pop("output"), **given)


def test_wrong_arguments_are_told(job, tmp_path):
    path, array, out = job
    shorter = saved(tmp_path / "short.npy", array[:5])
    told = fails(ConstraintError, "same number of rows, but", lambda x, y: x, (path, shorter), out)
    assert f"({path}) has {ROWS}" in told
    assert f"({shorter}) has 5" in told
    fails(ConstraintError, "batch_size must be an integer of at least 1, but it is 0", blocks, path, out, batch_size=0)
    fails(ConstraintError, "checkpoint_seconds must be above 0", blocks, path, out, checkpoint_seconds=0)
    fails(ConstraintError, r"0 <= i < n, but it is \(2, 2\)", blocks, path, out, share=(2, 2))
    fails(ConstraintError, "share must be two integers .* but it is 2", blocks, path, out, share=2)
    fails(ConstraintError, "inputs must name at least one", blocks, (), out)
    fails(ConstraintError, "not iterators", blocks, iter([array]), out, share=(0, 2))
    fails(ConstraintError, "at least one array, but it gives none", blocks, iter([]), out)
    fails(DataTypeError, "but it is int; numpy.asarray makes an array", blocks, 3, out)
    masked = np.ma.masked_less(array, 3)
    for given in ({"inputs": masked}, {"inputs": iter([masked])}, {"inputs": path, "shared": [masked]}):
        fails(DataTypeError, r"\w+\[0\] must be an array without a mask, .*; its filled", blocks, out=out, **given)
    fails(ConstraintError, r"fn must take float32\[any,8,2,3\], but .* 'y'", lambda x, y: x, [path, path], out)
    fails(DataTypeError, r"inputs\[0\] must be a path, an array, .*, but it is list", blocks, [], out)
    fails(DataTypeError, "but it is dict; numpy.asarray makes an array", blocks, {"x": array}, out)
    for shared, message in (
        ("s.npy", "a list of arrays .* but it is str; put it in a list"),
        (array, "a list of arrays .* but it is ndarray; put it in a list"),
        (["s.npy"], r"shared\[0\] must be an array of numbers, but it is str; numpy.load\(path\) makes one"),
        ([jax.random.key(0)], r"shared\[0\] must be an array of numbers, but NumPy cannot read it: .*key_data"),
    ):
        fails(DataTypeError, message, blocks, path, out, shared=shared)
    fails(DataTypeError, "identity must consist of JSON types", blocks, path, out, identity={"a": {1}})
    fails(BatchError, "the output must not be an input", blocks, path, path, overwrite=True)
    link = tmp_path / "link.npy"
    link.symlink_to(path)
    fails(BatchError, "the output must not be an input", blocks, link, path, overwrite=True)
    fails(BatchError, "the folder of the output must exist", blocks, path, tmp_path / "none" / "out.npy")
    saved(out, array[:1])
    fails(BatchError, "the output exists; overwrite=True replaces it", blocks, path, out)


def test_iterators_that_disagree_are_told(tmp_path):
    array, out = random_rows(ROWS), tmp_path / "out.npy"
    two = lambda x, y: x  # noqa: E731
    with pytest.raises(ConstraintError, match=r"inputs\[1\] ends after 20 and another goes on"):
        map_batches(two, (iter([array]), iter([array[:20]])), out, batch_size=8)
    with pytest.raises(ConstraintError, match=r"array 1 of inputs\[0\] must be float32\[any,8,2,3\], as the first is"):
        map_batches(blocks, iter([array, array[:, :4]]), out, batch_size=8)
    with pytest.raises(ConstraintError, match=rf"inputs\[1\] has more than {ROWS}"):
        map_batches(two, (array, iter([array, array])), out, batch_size=8)
    with pytest.raises(ZeroDivisionError):
        map_batches(blocks, (array[: 9 // (2 - i)] for i in range(3)), out, batch_size=8)
    assert not out.exists()


def test_an_input_that_changes_while_it_is_read_is_told(job):
    path, array, out = job
    path = saved(path, np.concatenate([array] * 20))

    def cut(now):
        if now.rows:
            os.truncate(path, path.stat().st_size - 1000)

    with pytest.raises(BatchError, match="the input was changed while it was read"):
        map_batches(blocks, path, out, batch_size=8, progress=cut)
    assert not out.exists()


def test_a_full_disk_keeps_what_is_there(job, monkeypatch):
    path, array, out = job
    disk = os.statvfs(out.parent)
    with monkeypatch.context() as patch:
        patch.setattr(os, "statvfs", lambda _: os.statvfs_result((*disk[:3], 0, 0, *disk[5:])))
        with pytest.raises(BatchError, match=r"the disk is full: \d+ bytes are still to be written and 0 are free"):
            map_batches(blocks, path, out, batch_size=8)
    real, calls = target.write_at, []

    def full(*arguments):
        calls.append(arguments)
        if len(calls) > 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(target, "write_at", full)
        with pytest.raises(BatchError, match="free some more and run the same again"):
            map_batches(blocks, path, out, batch_size=16)
    assert not out.exists()
    assert map_batches(blocks, path, out, batch_size=8).rows == ROWS
    same_bytes(out, blocks_oracle(array))


def test_an_output_deleted_while_it_is_written_is_told(job):
    path, _, out = job

    def delete(now):
        out.with_name("out.npy.partial").unlink(missing_ok=True)

    with pytest.raises(BatchError, match="deleted or replaced while it was written; run the same again"):
        map_batches(blocks, path, out, batch_size=8, progress=delete)
    assert not out.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("name", [NPY, ZARR])
def test_a_read_only_folder_is_told(job, name):
    path, _, out = job
    out.parent.chmod(0o500)
    try:
        fails(BatchError, "the progress cannot be written: Permission denied", blocks, path, out.with_name(name))
    finally:
        out.parent.chmod(0o700)


def test_a_name_that_the_folder_cannot_take_is_told(job):
    path, _, out = job
    fails(BatchError, "the progress cannot be written: File name too long", blocks, path, out.with_name("x" * 250))


def test_errors_of_the_computation_end_the_job(job, monkeypatch):
    """They come to light where a result is fetched."""
    path, array, out = job

    def failing(result, count):
        raise jax.errors.JaxRuntimeError("INTERNAL: broken")

    with monkeypatch.context() as patch:
        patch.setattr(batch_map, "host_rows", failing)
        with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL: broken"):
            map_batches(blocks, path, out, batch_size=8)
    assert not out.exists()
    assert map_batches(blocks, path, out, batch_size=8).rows == ROWS
    same_bytes(out, blocks_oracle(array))
