"""Batches on a Ray cluster: enlarges pictures with an actor for each GPU, or for each CPU.

    python docs/examples/ray_batches.py IN OUT [--address auto] [--actors 2] [--gpus 1]

From .npy files to a folder of Parquet, or from an array of zarr to NAME.zarr. With
`--address auto` it runs on the cluster that is there, else on this machine. A worker that
dies is started again, and its rows are computed again. Needs the extra `ray`.
"""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import ray
import zarr

import dml_jax
from dml_jax.batch import BatchFunction

ROWS = 64  # of a batch, and of a chunk that is written


def enlarged(pictures: jax.Array) -> jax.Array:
    """Twice as high and wide: [n, 4 c, h, w] to [n, c, 2 h, 2 w]."""
    return dml_jax.depth_to_space(pictures, 2, order="CRD")


class Enlarge:
    """An actor for columns: it compiles once. Other columns, such as paths, stay."""

    def __init__(self) -> None:
        self.function = BatchFunction(enlarged, batch_size=ROWS)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        return {**batch, "data": self.function(batch["data"])}


class EnlargeChunks:
    """An actor for numbers of chunks: it reads and writes their rows itself, and marks what
    is done. A chunk that is computed again is written over, whole, with the same bits."""

    def __init__(self, source: str, target: str) -> None:
        self.function = BatchFunction(enlarged, batch_size=ROWS)
        self.source, self.target, self.done = map(
            zarr.open_array, (source, target, f"{target}.done")
        )

    def __call__(self, batch: Mapping[str, Any]) -> Mapping[str, Any]:
        for chunk in batch["id"]:
            rows = slice(ROWS * chunk, ROWS * (chunk + 1))
            self.target[rows] = self.function(np.asarray(self.source[rows]))
            self.done[chunk] = True
        return batch


def to_parquet(pictures: str, folder: str, **workers: Any) -> None:
    """The rows of .npy files, in any order; read_images and read_parquet do as well."""
    dataset = ray.data.read_numpy(pictures)
    large = dataset.map_batches(Enlarge, batch_size=ROWS, batch_format="numpy", **workers)
    large.write_parquet(folder)


def to_zarr(pictures: str, target: str, **workers: Any) -> None:
    """An array of zarr chunk by chunk: no row passes through Ray's memory. Begun again, it
    computes the chunks that are not marked in TARGET.done."""
    source = zarr.open_array(pictures, mode="r")
    shape = jax.eval_shape(enlarged, jax.ShapeDtypeStruct(source.shape, source.dtype)).shape
    layout = {"shape": shape, "chunks": (ROWS, *shape[1:]), "dtype": source.dtype}
    zarr.open_array(target, mode="a", **layout)
    layout = {"shape": (-(-shape[0] // ROWS),), "chunks": (1,), "dtype": bool}
    marks = zarr.open_array(f"{target}.done", mode="a", **layout)
    missing = [{"id": int(chunk)} for chunk in np.flatnonzero(~np.asarray(marks[:]))]
    if not missing:
        return
    numbers = ray.data.from_items(missing, override_num_blocks=min(len(missing), 1000))
    done = numbers.map_batches(
        EnlargeChunks,
        fn_constructor_args=(pictures, target),
        batch_size=1,
        **workers,
    )
    assert done.count() == len(missing)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the job, and prints a line when it begins and one when it is done."""
    parser = argparse.ArgumentParser(description="Enlarges pictures on a Ray cluster.")
    parser.add_argument("pictures", help=".npy files, or an array of zarr")
    parser.add_argument("out", help="a folder of Parquet, or NAME.zarr")
    parser.add_argument("--address", help="of a cluster that is there, such as auto")
    parser.add_argument("--actors", type=int, default=2, help="how many work")
    parser.add_argument("--gpus", type=int, default=0, help="of each actor: 0 or 1")
    options = parser.parse_args(argv)

    ray.init(address=options.address, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    job = to_zarr if options.out.endswith(".zarr") else to_parquet
    print(f"{options.actors} actors on {len(ray.nodes())} nodes")
    job(
        options.pictures,
        options.out,
        compute=ray.data.ActorPoolStrategy(size=options.actors),
        num_cpus=0.5,  # the tasks that read and write need CPUs, too
        num_gpus=options.gpus,
    )
    print(f"{options.out} is done")


if __name__ == "__main__":
    main()
