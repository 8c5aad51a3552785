"""`map_batches` beside loops by hand and other engines, from .npy to .npy: `python -m benchmarks.batch_engines`.

All have the same pictures, and the engines the same `BatchFunction`. Engines that are not installed are left out.
Seconds are those of all rows less those of an eighth of them, in a job of its own: the start of processes and the
compilation, which both have, do not count. Files are in /dev/shm where there is one, so that no disk is measured.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.lib.format import open_memmap, write_array_header_1_0

import dml_jax
from dml_jax.batch import BatchFunction, map_batches
from dml_jax.command.devices import cores, measured_kind

from .tables import rows as table

PICTURE = (64, 64, 64)  # float32: 1 MiB
BATCH, SHARD = 32, 32  # pictures: of a batch, and of a file of the engine that reads no part of one
ORDER = np.random.default_rng(0).permutation(PICTURE[1]).astype(np.int32)
RAY_MEMORY = 2 * 10**9  # bytes of its object store


@dataclass(frozen=True)
class Job:
    """A function of batches, in JAX and in NumPy."""

    name: str
    jax: Callable[[jax.Array], jax.Array]
    numpy: Callable[[np.ndarray], np.ndarray]

    @property
    def item(self) -> tuple[int, ...]:
        return jax.eval_shape(self.jax, jax.ShapeDtypeStruct((1, *PICTURE), np.float32)).shape[1:]


def _depth_to_space(x: np.ndarray) -> np.ndarray:
    n, c, h, w = x.shape
    blocks = x.reshape(n, 2, 2, c // 4, h, w).transpose(0, 3, 4, 1, 5, 2)
    return blocks.reshape(n, c // 4, 2 * h, 2 * w)


JOBS = (
    Job("depth_to_space", partial(dml_jax.depth_to_space, block_size=2), _depth_to_space),
    Job("gather", lambda x: dml_jax.gather(x, ORDER, axis=2), lambda x: np.take(x, ORDER, 2)),
    Job("tanh(x) exp(-x x)", lambda x: jnp.tanh(x) * jnp.exp(-x * x), lambda x: np.tanh(x) * np.exp(-x * x)),
)


@dataclass(frozen=True)
class Files:
    """The input as one file and as shards, and where the result belongs: a file, or a folder of several."""

    whole: Path
    shards: Path
    out: Path


def _map_batches(job: Job, files: Files) -> None:
    map_batches(job.jax, files.whole, files.out)


def _loop(function: Callable[[np.ndarray], Any], job: Job, files: Files) -> None:
    x = np.load(files.whole, mmap_mode="r")
    with files.out.open("wb") as out:
        write_array_header_1_0(out, {"descr": "<f4", "fortran_order": False, "shape": (len(x), *job.item)})
        for i in range(0, len(x), BATCH):
            out.write(np.ascontiguousarray(function(x[i : i + BATCH])).data)


def _numpy(job: Job, files: Files) -> None:
    _loop(job.numpy, job, files)


def _jnp(job: Job, files: Files) -> None:
    _loop(jax.jit(job.jax), job, files)


def _grain(job: Job, files: Files) -> None:
    import grain  # pyright: ignore[reportMissingImports]

    x = np.load(files.whole, mmap_mode="r")
    batches = grain.MapDataset.source(x).batch(BATCH).map(BatchFunction(job.jax, batch_size=BATCH)).to_iter_dataset()
    out = open_memmap(files.out, "w+", x.dtype, (len(x), *job.item))
    for i, batch in enumerate(batches):
        out[i * BATCH : i * BATCH + len(batch)] = batch


def _dask(job: Job, files: Files) -> None:
    import dask.array  # pyright: ignore[reportMissingImports]

    x = np.load(files.whole, mmap_mode="r")
    function = BatchFunction(job.jax, batch_size=BATCH)
    blocks = dask.array.from_array(x, chunks=(BATCH, *PICTURE))
    out = open_memmap(files.out, "w+", x.dtype, (len(x), *job.item))
    blocks.map_blocks(function, dtype=x.dtype, chunks=(BATCH, *job.item)).store(out, lock=False)


def _ray(job: Job, files: Files) -> None:
    import ray  # pyright: ignore[reportMissingImports]

    class Actor:
        def __init__(self) -> None:
            self.function = BatchFunction(job.jax, batch_size=BATCH)

        def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
            return {"data": self.function(batch["data"])}

    options = {"batch_size": BATCH, "batch_format": "numpy", "num_cpus": 0.5}
    workers = ray.data.ActorPoolStrategy(size=max(1, cores()))
    ray.data.read_numpy(str(files.shards)).map_batches(Actor, compute=workers, **options).write_numpy(
        str(files.out), column="data"
    )


ENGINES: dict[str, tuple[Callable[[Job, Files], None], str]] = {
    "dml_jax": (_map_batches, "jax"),
    "a NumPy loop": (_numpy, "numpy"),
    "a jnp loop": (_jnp, "jax"),
    "Ray Data": (_ray, "ray"),
    "Grain": (_grain, "grain"),
    "Dask": (_dask, "dask"),
}


def prepare(folder: Path, count: int) -> Files:
    """Writes `count` pictures of small numbers, each once as one file and once in shards."""
    files = Files(folder / "in.npy", folder / "shards", folder / "out.npy")
    files.shards.mkdir(parents=True)
    x = open_memmap(files.whole, "w+", np.float32, (count, *PICTURE))
    for i in range(0, count, SHARD):
        shape = x[i : i + SHARD].shape
        x[i : i + SHARD] = np.random.default_rng(i).standard_normal(shape, np.float32)
        np.save(files.shards / f"{i:06}.npy", x[i : i + SHARD])
    return files


def check(job: Job, files: Files) -> None:
    """Compares results with those of NumPy, each row by its first number; engines may change the order of rows."""
    parts = sorted(files.out.iterdir()) if files.out.is_dir() else [files.out]
    found = np.concatenate([np.load(part, mmap_mode="r").reshape(-1, *job.item)[:, 0, 0, 0] for part in parts])
    x = np.load(files.whole, mmap_mode="r")
    wanted = np.concatenate([job.numpy(x[i : i + 1])[:, 0, 0, 0] for i in range(len(x))])
    np.testing.assert_allclose(np.sort(found), np.sort(wanted), rtol=1e-5)


def seconds(engine: str, job: Job, files: Files) -> float:
    """The time of one job; its result is checked, and removed."""
    start = time.perf_counter()
    ENGINES[engine][0](job, files)
    taken = time.perf_counter() - start
    check(job, files)
    shutil.rmtree(files.out) if files.out.is_dir() else files.out.unlink()
    return taken


def measured(engines: Sequence[str], files: Sequence[Files], rounds: int) -> Iterator[list[str]]:
    """A row of ratios for each job: how many times as fast dml_jax is as each other engine."""
    for job in JOBS:
        taken: dict[str, list[float]] = {engine: [] for engine in engines}
        for _ in range(rounds):
            for engine in random.sample(engines, len(engines)):
                few, all_rows = (seconds(engine, job, which) for which in files)
                taken[engine].append(all_rows - few)
        middle = {engine: median(samples) for engine, samples in taken.items()}
        sys.stdout.write(f"{job.name}: {', '.join(f'{name} {s:.2f} s' for name, s in middle.items())}\n")
        sys.stdout.flush()
        yield [job.name, *(f"{middle[engine] / middle['dml_jax']:.2f}" for engine in engines if engine != "dml_jax")]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.batch_engines", description=__doc__)
    parser.add_argument("--pictures", type=int, default=1024, help="1 MiB each; by default 1024")
    parser.add_argument("--rounds", type=int, default=5, help="by default 5")
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm") if os.path.isdir("/dev/shm") else None)
    given = parser.parse_args(arguments)
    jax.config.update("jax_num_cpu_devices", cores())
    engines = [name for name, (_, module) in ENGINES.items() if find_spec(module)]
    if "Ray Data" in engines:
        import ray  # pyright: ignore[reportMissingImports]

        ray.init(include_dashboard=False, object_store_memory=RAY_MEMORY, log_to_driver=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
    with tempfile.TemporaryDirectory(dir=given.folder, prefix="dml-jax-engines-") as folder:
        files = [prepare(Path(folder, str(count)), count) for count in (given.pictures // 8, given.pictures)]
        body = [*measured(engines, files, given.rounds)]
    sys.stdout.write(f"\nMeasured on {measured_kind()}, {cores()} cores.\n\n")
    head = ["job", *(f"x {engine}" for engine in engines if engine != "dml_jax")]
    sys.stdout.write("\n".join([*table(head, body), ""]))


if __name__ == "__main__":
    main()
