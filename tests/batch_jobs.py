"""Jobs for the tests of batches: an oracle, simulated crashes between disk operations, and jobs in subprocesses.

python tests/batch_jobs.py IN OUT [--slow SECONDS] [--die-after ROWS] [--limit BYTES] [--whole]
    [--writers] [--hosts HOST:PORT INDEX COUNT]
"""

import argparse
import contextlib
import itertools
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import dml_jax
from dml_jax.batch import map_batches, mapped_write, npy_output, zarr_output
from dml_jax.batch.hosts import Hosts

ITEM = (8, 2, 3)
ROWS = 37


def blocks(x):
    """Depth to space of a batch."""
    return dml_jax.depth_to_space(x, 2)


def blocks_oracle(x):
    """The same by NumPy."""
    n, c, h, w = x.shape
    return x.reshape(n, 2, 2, c // 4, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, c // 4, 2 * h, 2 * w)


def random_rows(rows, dtype=np.float32, item=ITEM, seed=0):
    """Rows of random bits; of a bool, random truths."""
    dtype, rng = np.dtype(dtype), np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.random((rows, *item)) < 0.5
    size = int(rows * np.prod(item)) * dtype.itemsize
    return np.frombuffer(rng.bytes(size), dtype).reshape(rows, *item)


def saved(path, array):
    """The path of a new .npy file."""
    np.save(path, array)
    return path


def job_in(folder, rows=ROWS):
    """A new input, its array, and where the output goes."""
    array = random_rows(rows)
    return saved(folder / "in.npy", array), array, folder / "out.npy"


def written(path):
    """The array that a job has written."""
    if path.suffix != ".zarr":
        return np.load(path)
    return pytest.importorskip("zarr", reason=NO_ZARR).open_array(path, mode="r")[:]


def same_bytes(path, expected):
    """Whether a file is what numpy.save writes for an array, or an array of zarr is that array."""
    if path.suffix == ".zarr":
        actual = written(path)
        assert (actual.dtype, actual.shape, actual.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())
        return
    other = path.with_name("expected.npy")
    np.save(other, expected)
    assert path.read_bytes() == other.read_bytes()
    other.unlink()


NO_ZARR = "zarr is not installed; the extra test has it"
# Outputs of each format; those of zarr need TensorStore.
NPY = "out.npy"
ZARR = pytest.param("out.zarr", marks=pytest.mark.skipif(not find_spec("tensorstore"), reason=NO_ZARR))


def names(folder):
    """All names in a folder."""
    return sorted(path.name for path in folder.iterdir())


class Died(BaseException):
    """The process is dead; nothing catches this."""


# Every function through which a job changes the disk; TensorStore changes it itself.
CHANGES = ((os, "pwrite"), (os, "write"), (os, "ftruncate"), (os, "replace"), (os, "open"), (Path, "unlink"))
CHANGES += ((Path, "write_bytes"), (Path, "mkdir"), (Path, "rmdir"), (shutil, "rmtree"))
CHANGES += ((os, "posix_fallocate"), (npy_output, "write_mapped")) if hasattr(os, "posix_fallocate") else ()
CHANGES += ((zarr_output.ZarrOutput, "_put"), (zarr_output.ZarrOutput, "_open"))


@contextlib.contextmanager
def death(monkeypatch, step):
    """Lets a process die before its `step`-th change of the disk: none is made from then on."""
    count = itertools.count()

    def mortal(real):
        def change(*arguments, **keywords):
            if next(count) >= step:
                raise Died
            return real(*arguments, **keywords)

        return change

    with monkeypatch.context() as patch:
        for where, name in CHANGES:
            patch.setattr(where, name, mortal(getattr(where, name)))
        with contextlib.suppress(Died):
            yield


def environment():
    """Of a process with one device, without the level of XLA's messages that JAX has set in this one."""
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    own = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    return {**own, "JAX_PLATFORMS": "cpu", "PYTHONPATH": paths}


def started(*arguments):
    """A job as a process; it says "running" once it is about to read."""
    command = [sys.executable, __file__, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())


def finished(process):
    """What a process printed, once it has ended."""
    out, err = process.communicate(timeout=400)
    return process.returncode, out, err


def data_bytes():
    """Private writable memory of this process, which RLIMIT_DATA limits."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    raise AssertionError


def mapped_bytes(path):
    """How much of a file this process has mapped."""
    ends = [line.split()[0].split("-") for line in Path("/proc/self/maps").read_text().splitlines() if path in line]
    return sum(int(end, 16) - int(start, 16) for start, end in ends)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("input")
    parser.add_argument("output")
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--slow", type=float, default=0.0)
    parser.add_argument("--die-after", type=int, default=-1)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--writers", action="store_true", help="several, into a map")
    parser.add_argument("--hosts", nargs=3, metavar=("HOST:PORT", "INDEX", "COUNT"))
    options = parser.parse_args()
    most = 0
    mapped_write.LEAST = 1 if options.writers else 10**6
    zarr_output.CHUNK_BYTES = 8 * 192  # eight rows

    def progress(now):
        nonlocal most
        most = max(most, mapped_bytes(options.input))
        time.sleep(options.slow)
        if 0 <= options.die_after <= now.rows:
            time.sleep(0.3)  # so that they are recorded
            os.kill(os.getpid(), signal.SIGKILL)

    if options.limit:
        small = Path(options.output).with_suffix(".small.npy")  # what JAX itself needs, it has after a small job
        item = np.load(options.input, mmap_mode="r").shape[1:]
        np.save(small, np.zeros((3 * options.batch_size, *item), np.float32))
        map_batches(blocks, small, small.with_suffix(".out.npy"), batch_size=options.batch_size)
        limit = data_bytes() + options.limit
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    hosts = Hosts(options.hosts[0], *map(int, options.hosts[1:])) if options.hosts else None
    try:
        with hosts.joined() if hosts else contextlib.nullcontext():
            print("running", flush=True)  # noqa: T201
            if options.whole:
                np.load(options.input)
            last = map_batches(
                blocks,
                options.input,
                options.output,
                batch_size=options.batch_size,
                progress=progress,
                checkpoint_seconds=0.02,
                share=(hosts.index, hosts.count) if hosts else (0, 1),
            )
    except MemoryError:
        sys.exit("out of memory")
    print(last.rows, last.bytes, most)  # noqa: T201


if __name__ == "__main__":
    main()
