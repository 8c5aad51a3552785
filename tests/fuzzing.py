"""Runs mutated inputs one after the other in a process of its own: no traceback, no signal, at most 1 GB and 20 s.

`python tests/fuzzing.py fuzz_models.graph_file 17 18` repeats input 17 of that kind alone.
"""

import gc
import importlib
import itertools
import os
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

MOST = 2**30  # bytes that one input may take
LONGEST = 20  # seconds of CPU time


def main(arguments: Sequence[str]) -> int:
    *kinds, first, end = arguments
    draws = {kind: getattr(importlib.import_module(kind.split(".")[0]), kind.split(".")[1]) for kind in kinds}
    numbers = range(int(first), int(end))
    for draw in draws.values():
        warm_up(draw, numbers[0])
    gc.freeze()  # collecting among all that is loaded would take longer than most inputs
    before = peak()
    resource.setrlimit(resource.RLIMIT_AS, (address_space() + 2 * MOST,) * 2)  # beyond it MemoryError is raised
    for kind, number in itertools.product(kinds, numbers):
        os.write(1, f"{kind} {number}\n".encode())  # so that a signal is told with the input that it is of
        signal.setitimer(signal.ITIMER_PROF, LONGEST)  # ends the process by SIGPROF
        try:
            run(draws[kind], number)
        except BaseException:
            traceback.print_exc()
            return 1
        signal.setitimer(signal.ITIMER_PROF, 0)
        if peak() > before + MOST:
            sys.exit(f"it took {peak() - before} bytes")
    return 0


def run(draw, number: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        draw(np.random.default_rng(number), Path(folder))


def warm_up(draw, number: int) -> None:
    """Loads what a first input needs, so that its memory does not count."""
    jax.jit(lambda x: x + 1)(np.zeros(1, np.float32)).block_until_ready()
    try:
        run(draw, number)
    except BaseException:  # which the loop tells
        return


def peak() -> int:
    """The most bytes of memory that this process has had."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
