"""Throughput of `map_batches` from file to file, beside a NumPy copy between memory maps; both end on the disk."""

import os
import random
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

import jax
import numpy as np
from numpy.lib.format import open_memmap

from .. import depth_to_space
from ..batch import map_batches
from .timing import Effort, Measured, seconds_of

PICTURE = (64, 64, 64)
ROW = 4 * prod(PICTURE)
SPACE = (16, 128, 128)


def name_of(size: int) -> str:
    """The name of the case of so many bytes of input."""
    return f"depth_to_space NCHW DCR b=2 float32 {size // 2**20} MiB, streamed from file to file"


def streamed(size: int, rounds: int) -> list[Measured]:
    """Measures `map_batches` and the copy in turns, in the folder for temporary files; the page cache has the input.

    Args:
      size: bytes of the input, and of the output.
      rounds: samples of each.

    Raises:
      OSError: the disk is full.
    """
    seconds, is_right = _in_turns({"dml_jax": _streamed, "memmap copy": _copied}, size, rounds)
    copy = median(seconds["memmap copy"])
    return [_row(name_of(size), name, 2 * size, values, copy, is_right) for name, values in seconds.items()]


def over_devices(case: str, operator: str, size: int, effort: Effort) -> list[Measured]:
    """Measures `map_batches` on all devices; its `of_copy` is the part of linear scaling."""
    seconds, is_right = _in_turns({"dml_jax": _streamed, "one device": _on_one}, size, effort.rounds)
    linear = median(seconds["one device"]) / jax.local_device_count()
    row = _row(case, "dml_jax", 2 * size, seconds["dml_jax"], linear, is_right)
    return [replace(row, operator=operator, why="one disk and one host" if row.of_copy < 0.9 else "")]


def _in_turns(
    ways: Mapping[str, Callable[[Path, Path], Any]], size: int, rounds: int
) -> tuple[dict[str, list[float]], bool]:
    """Seconds of each way, and whether the results of dml_jax were right."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory(prefix="dml-jax-bench-") as folder:
        source, target = Path(folder, "in.npy"), Path(folder, "out.npy")
        _fill(source, max(1, size // ROW))
        order, shuffler, is_right = list(ways), random.Random(0), True
        for number in range(rounds + 1):
            shuffler.shuffle(order)  # so that neither always comes after the other
            for name in order:
                os.sync()  # what was written before is not waited for now
                taken, _ = seconds_of(partial(ways[name], source, target))
                if number:  # before that, the input was read into the page cache
                    seconds[name].append(taken)
                is_right = is_right and (name == "memmap copy" or _is_right(source, target))
                target.unlink()
    return seconds, is_right


def _streamed(source: Path, target: Path) -> None:
    map_batches(partial(depth_to_space, block_size=2), source, target)


def _on_one(source: Path, target: Path) -> None:
    with jax.default_device(jax.local_devices()[0]):
        _streamed(source, target)


def _copied(source: Path, target: Path) -> None:
    x = np.load(source, mmap_mode="r")
    out = open_memmap(target, mode="w+", dtype=x.dtype, shape=(len(x), *SPACE))
    np.copyto(out.reshape(x.shape), x)
    out.flush()


def _fill(source: Path, rows: int) -> None:
    out = open_memmap(source, mode="w+", dtype=np.float32, shape=(rows, *PICTURE))
    out.reshape(-1).view(np.uint32)[...] = np.arange(rows * prod(PICTURE), dtype=np.uint32)
    out.flush()


def _is_right(source: Path, target: Path) -> bool:
    """Whether the first and the last picture are what `depth_to_space` makes of them."""
    x, y = (np.load(path, mmap_mode="r") for path in (source, target))
    return all(
        np.array_equal(jax.device_get(depth_to_space(x[i], 2)).view(np.uint32), y[i].view(np.uint32)) for i in (0, -1)
    )


def _row(case: str, implementation: str, moved: int, seconds: list[float], copy: float, is_right: bool) -> Measured:
    return Measured.of(case, "depth_to_space", implementation, seconds, copy, moved=moved, same_bits=is_right)
