"""map_batches: an output has the bits that NumPy saves, from any input and in any type, in bounded memory."""

import re
import subprocess
import sys

import jax
import ml_dtypes
import numpy as np
import pytest
from batch_jobs import (
    ITEM,
    ROWS,
    blocks,
    blocks_oracle,
    environment,
    finished,
    job_in,
    names,
    random_rows,
    same_bytes,
    saved,
    started,
)

import dml_jax
from dml_jax import ConstraintError, DataTypeError
from dml_jax.batch import BatchError, NpyFile, map_batches

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.fixture
def job(tmp_path):
    return job_in(tmp_path)


# What is written.


@pytest.mark.parametrize("rows", [0, 1, 8, ROWS])
@pytest.mark.parametrize("batch_size", [1, 8, 11, None])
def test_the_output_is_what_numpy_saves(tmp_path, rows, batch_size):
    array = random_rows(rows)
    done = map_batches(blocks, saved(tmp_path / "in.npy", array), tmp_path / "out.npy", batch_size=batch_size)
    same_bytes(tmp_path / "out.npy", blocks_oracle(array))
    assert names(tmp_path) == ["in.npy", "out.npy"]
    assert (done.rows, done.total, done.bytes) == (rows, rows, 2 * array.nbytes)


def test_a_function_may_return_its_argument_and_change_shape_and_type(tmp_path):
    array = random_rows(ROWS)
    map_batches(lambda x: x, array, tmp_path / "same.npy", batch_size=8)
    same_bytes(tmp_path / "same.npy", array)
    map_batches(lambda x: x[:, 0, 0, 0] > 0, array, tmp_path / "flags.npy", batch_size=8)
    same_bytes(tmp_path / "flags.npy", array[:, 0, 0, 0] > 0)


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


def test_progress_is_told_in_order(job):
    path, array, out = job
    told = []
    map_batches(blocks, path, out, batch_size=8, progress=told.append)
    assert [p.rows for p in told] == sorted(p.rows for p in told)
    assert told[-1].rows == told[-1].total == ROWS
    assert told[-1].bytes == 2 * array.nbytes
    assert {p.total for p in told} == {ROWS}


# How it is computed.


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


# Types.


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8, np.float16, np.uint32, np.complex64, ">u2", ">f4"])
def test_every_type_keeps_its_bits(tmp_path, dtype):
    array = random_rows(ROWS, dtype)
    map_batches(blocks, saved(tmp_path / "in.npy", array), tmp_path / "out.npy", batch_size=8)
    native = array.astype(array.dtype.newbyteorder("="))
    same_bytes(tmp_path / "out.npy", blocks_oracle(native))


def test_elements_of_4_bits_keep_them_also_where_jit_is_disabled(tmp_path):
    array = np.arange(-8, 8).astype(ml_dtypes.int4).reshape(4, 2, 2)
    with jax.disable_jit():
        map_batches(lambda x, y: dml_jax.tile(x, (1, 2, 1)) + y, array, tmp_path / "out.npy", shared=[array[:1, :1]])
    written = np.load(tmp_path / "out.npy").view(ml_dtypes.int4)
    expected = (np.tile(array.astype(int), (1, 2, 1)) + np.array([-8, -7])).astype(ml_dtypes.int4)
    assert written.tolist() == expected.tolist()


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


@pytest.mark.parametrize("wrong", ["bf16", "f4,,", 3])
def test_a_type_that_is_none_is_told_with_its_file(wrong):
    with pytest.raises(ConstraintError, match=rf"^NpyFile\(in.npy\): dtype must be .*bfloat16.*, but it is '?{wrong}"):
        NpyFile("in.npy", wrong)
