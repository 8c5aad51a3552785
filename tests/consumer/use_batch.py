"""Files larger than memory, as a program that is checked strictly goes through them."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import assert_type

import jax
import jax.numpy as jnp
import numpy as np
from untyped import on_device

import dml_jax
from dml_jax.batch import BatchError, BatchFunction, NpyFile, Progress, map_batches


def main() -> None:
    """Maps files, arrays and iterators, and batches."""
    batches()
    with tempfile.TemporaryDirectory() as folder:
        files(Path(folder))


def enlarged(pictures: jax.Array) -> jax.Array:
    return dml_jax.depth_to_space(pictures, 2)


def chosen(indices: jax.Array, table: jax.Array) -> jax.Array:
    return dml_jax.gather(table, indices, 0)


def added(a: jax.Array, b: jax.Array) -> jax.Array:
    return a + b


def parts() -> Iterator[np.ndarray]:
    for n in (1, 3):
        yield np.full((n, 2), n, np.int32)


def columns(a: jax.Array, table: jax.Array) -> dict[str, jax.Array]:
    return {"chosen": chosen(a, table)}


def batches() -> None:
    table = np.arange(12, dtype=np.int32).reshape(4, 3)
    function = BatchFunction(columns, batch_size=8, shared={"table": table})
    assert function({"a": np.zeros(5, np.int32)})["chosen"].shape == (5, 3)
    assert BatchFunction(chosen, shared=[table])(np.zeros((5, 1), np.int32)).shape == (5, 1, 3)


def files(folder: Path) -> None:
    pictures, result = folder / "pictures.npy", folder / "result.npy"
    np.save(pictures, np.zeros((5, 4, 1, 1), jnp.bfloat16))

    def report(now: Progress) -> None:
        assert_type(now.rows, int)
        assert_type(now.total, int | None)
        assert_type(now.bytes, int)
        assert_type(now.seconds, float)

    done = map_batches(enlarged, NpyFile(pictures, jnp.bfloat16), result, batch_size=8, progress=report)
    assert_type(done, Progress)
    np.save(pictures, np.zeros((5, 4, 1, 1), np.float32))
    for given in (pictures, str(pictures), np.load(pictures), NpyFile(pictures)):
        map_batches(enlarged, given, str(result), identity={"block_size": 2}, overwrite=True, restart=True)
    table = np.arange(12, dtype=np.int32).reshape(4, 3)
    map_batches(chosen, parts(), result, shared=[table], overwrite=True, checkpoint_seconds=1)
    map_batches(chosen, (np.zeros((4, 1), np.int32),), result, shared=(on_device(table),), overwrite=True)
    map_batches(added, (table, table), result, overwrite=True, share=(0, 1))
    try:
        map_batches(enlarged, folder / "missing.npy", folder / "none.npy")
    except BatchError as error:
        assert_type(str(error), str)
