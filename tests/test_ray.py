"""docs/examples/ray_batches.py on a real cluster of two nodes; a worker is killed on the way.

The bits are those of NumPy, and every row is there once.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from checks import assert_same_bits

pytest.importorskip("ray", reason="needs Ray, which the extra ray installs")
zarr = pytest.importorskip("zarr", reason="needs zarr, which the extra ray installs")
pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow, which the extra ray installs")
pytest.importorskip("pyarrow.parquet")

PROGRAM = Path(__file__).parents[1] / "docs" / "examples" / "ray_batches.py"
ROWS, PARTS = 64, 40
WORDS = np.random.default_rng(0).permutation(np.arange(ROWS * PARTS * 32, dtype=np.uint32))  # each once
PICTURES = WORDS.reshape(-1, 8, 2, 2)
ENLARGED = PICTURES.reshape(-1, 2, 2, 2, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(-1, 2, 4, 4)
NODE = {"num_cpus": 2, "object_store_memory": 100 * 2**20, "include_dashboard": False}
PATIENCE = 600  # seconds


@pytest.fixture(scope="module")
def cluster():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "disabled")
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args=NODE)
        cluster.add_node(**NODE)
        yield cluster
        cluster.shutdown()


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def workers():
    """The processes of our actors; those of other clusters on this machine have other ancestors."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"ray::MapWorker" in (folder / "cmdline").read_bytes() and parent(parent(folder.name)) == os.getpid():
                yield int(folder.name)
        except OSError:  # it has ended
            continue


def started(cluster, source, target, has_begun):
    """The program as a process, some of whose results are there."""
    line = [sys.executable, PROGRAM, source, target, "--address", cluster.address, "--actors", "2"]
    job = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + PATIENCE
    while not has_begun():
        assert job.poll() is None, job.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)
    assert job.poll() is None
    return job


def run_and_kill(cluster, source, target, has_begun):
    """Runs the program, and kills a worker as soon as some of the results are there."""
    job = started(cluster, source, target, has_begun)
    try:
        killed, *others = workers()
        os.kill(killed, signal.SIGKILL)
        assert others
        text, errors = job.communicate(timeout=PATIENCE)
    finally:
        job.kill()
    assert job.returncode == 0, errors
    assert {"2 actors on 2 nodes", f"{target} is done"} <= {*text.splitlines()}  # among what Ray tells of the worker


def test_columns_of_npy_files_to_parquet(cluster, tmp_path):
    for i, part in enumerate(np.split(PICTURES, PARTS)):
        np.save(tmp_path / f"{i}.npy", part)
    target = tmp_path / "large"
    run_and_kill(cluster, f"{tmp_path}", target, lambda: target.is_dir() and len([*target.iterdir()]) > 3)
    lists = pyarrow.parquet.read_table(target)["data"].combine_chunks()
    rows = np.asarray(lists.flatten()).reshape(-1, *ENLARGED.shape[1:])
    assert_same_bits(rows[np.argsort(rows[:, 0, 0, 0])], ENLARGED[np.argsort(ENLARGED[:, 0, 0, 0])])


@pytest.fixture
def stored(tmp_path):
    """An array of zarr, where the result goes, and whether some chunks of it are there."""
    source = zarr.create_array(tmp_path / "x.zarr", shape=PICTURES.shape, chunks=(100, 8, 2, 2), dtype=PICTURES.dtype)
    source[:] = PICTURES
    target = tmp_path / "y.zarr"
    return tmp_path / "x.zarr", target, lambda: len([*target.glob("c/*")]) > 3


def test_chunks_of_zarr(cluster, stored):
    run_and_kill(cluster, *stored)
    assert_same_bits(zarr.open_array(stored[1])[:], ENLARGED)


def test_a_job_that_was_killed_computes_the_chunks_that_are_missing(cluster, stored):
    job = started(cluster, *stored)
    job.kill()
    job.communicate()
    while [*workers()]:  # Ray ends them with the job
        time.sleep(0.1)
    source, target, _ = stored
    marks = np.flatnonzero(zarr.open_array(f"{target}.done")[:])
    assert 0 < len(marks) < PARTS
    times = [(target / "c" / f"{chunk}/0/0/0").stat().st_mtime_ns for chunk in marks]
    line = [sys.executable, PROGRAM, source, target, "--address", cluster.address]
    subprocess.run(line, check=True, capture_output=True, timeout=PATIENCE)
    assert times == [(target / "c" / f"{chunk}/0/0/0").stat().st_mtime_ns for chunk in marks]
    assert_same_bits(zarr.open_array(target)[:], ENLARGED)
