"""Writes by several threads into a memory map of a file: the kernel lets one thread at a time write a file by `pwrite`.

A thread with a map has half of the speed of `pwrite`, because of a page fault per 4 KiB. So it takes several.
"""

import mmap
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate

import numpy as np

LEAST, MOST = 16, 16  # cores: with few, `pwrite` is as fast; threads: more wait for each other
PIECE = 2**22  # bytes that a thread copies at once


def writers(file: int) -> ThreadPoolExecutor | None:
    """Returns threads for `write_mapped`; None on few cores, and for a file that cannot be mapped or reserve space."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if count < LEAST:
        return None
    try:
        os.posix_fallocate(file, 0, 1)
        mmap.mmap(file, 1).close()
    except OSError:
        return None
    return ThreadPoolExecutor(min(count, MOST))


def write_mapped(file: int, contents: Sequence[np.ndarray], offset: int, pool: ThreadPoolExecutor) -> None:
    """Writes arrays of bytes one after the other.

    A thread reserves the space of its piece first, as a full disk would end a process that writes into a map.
    """
    if not (size := sum(map(len, contents))):
        return
    if os.fstat(file).st_size < offset + size:  # the rows of an iterator
        os.ftruncate(file, offset + size)
    page = offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
    window = mmap.mmap(file, offset - page + size, offset=page)  # unmapped with the last array over it
    target = np.frombuffer(window, np.uint8, size, offset - page)

    def copy(start: int, piece: np.ndarray) -> None:
        os.posix_fallocate(file, offset + start, len(piece))
        target[start : start + len(piece)] = piece

    starts = accumulate(map(len, contents), initial=0)
    pieces = [
        (s + i, c[i : i + PIECE]) for s, c in zip(starts, contents, strict=False) for i in range(0, len(c), PIECE)
    ]
    list(pool.map(lambda piece: copy(*piece), pieces))
