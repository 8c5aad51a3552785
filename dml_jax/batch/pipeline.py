"""A pipeline of three threads that read, compute and write, with a fixed number of batches in memory."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

DEPTH = 3  # batches at work: one is read, one computed, one written


def run_pipeline(
    batches: Iterable[tuple[int, Mapping[int, np.ndarray]]],
    compute: Callable[..., Any],
    new_output: Callable[[], Any],
    write: Callable[[int, Any], None],
    report: Callable[[], None],
) -> None:
    """Computes every batch. At most DEPTH batches are in memory: read, and not yet written.

    Args:
      batches: pairs of a row count and the arrays by number; a thread of its own iterates over them.
      compute: takes an output that it may overwrite, and the arrays; returns the new output, and the result that is
        written of it. It runs in the caller's thread, because JAX's settings belong to a thread.
      new_output: returns an output to overwrite.
      write: takes the row count and the result, in order; runs in a thread of its own.
      report: runs in the caller's thread, after each batch that was started.

    Raises:
      Exception: one that any of these raised, after all threads have ended and what was computed before is written.
    """

    def written(last: Future | None, count: int, output: Any, result: Any) -> Any:
        """Writes a result and returns its output, which a later batch may overwrite."""
        if last:
            last.result()  # raises its error: no rows are written behind others that are missing
        write(count, result)
        return output

    source, writes = iter(batches), deque[Future]()
    with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(1) as writer:
        read = reader.submit(next, source, None)
        while (batch := read.result()) is not None:
            output = writes.popleft().result() if len(writes) == DEPTH - 1 else new_output()
            read = reader.submit(next, source, None)
            output, result = compute(output, batch[1])
            writes.append(writer.submit(written, writes[-1] if writes else None, batch[0], output, result))
            del batch, output, result  # which would stay in memory while the next one is read
            report()
        for last in writes:
            last.result()
