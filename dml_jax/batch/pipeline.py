"""A pipeline of three threads that read, compute and write, with a fixed number of batches in memory."""

import queue
import threading
from collections.abc import Callable, Iterable, Mapping
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
      Exception: the first one that any of these raised, after all threads have ended.
    """
    stages = _Stages()
    threads = [
        threading.Thread(target=stages.read, args=(batches,), daemon=True),
        threading.Thread(target=stages.write, args=(write,), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        stages.compute(compute, new_output, report)
    except BaseException as error:
        stages.fail(error)
    finally:
        stages.started.put(None)
        stages.slots.release()  # wakes a reader that waits although it must stop
        for thread in threads:
            thread.join()
    if stages.errors:
        raise stages.errors[0]


class _Stages:
    """The three stages, each in a thread of its own, and the queues between them; None ends a queue.

    A stage forgets a batch that it has handed on, with `del`, before it waits: the batch must not stay in memory.
    """

    def __init__(self) -> None:
        self.slots = threading.Semaphore(DEPTH)  # one per batch that is at work
        self.stop = threading.Event()
        self.errors: list[BaseException] = []
        self.ready: queue.SimpleQueue = queue.SimpleQueue()  # from `read` to `compute`
        self.started: queue.SimpleQueue = queue.SimpleQueue()  # from `compute` to `write`
        self.outputs: queue.SimpleQueue = queue.SimpleQueue()  # from `write` back to `compute`
        for _ in range(DEPTH):
            self.outputs.put(None)

    def fail(self, error: BaseException) -> None:
        """Keeps an error, and stops all stages."""
        self.errors.append(error)
        self.stop.set()

    def read(self, batches: Iterable[tuple[int, Mapping[int, np.ndarray]]]) -> None:
        """Reads a batch as soon as there is a slot for it."""
        source = iter(batches)
        try:
            while self.slots.acquire() and not self.stop.is_set():
                batch = next(source, None)
                if batch is None:
                    return
                self.ready.put(batch)
                del batch
        except BaseException as error:
            self.fail(error)
        finally:
            self.ready.put(None)

    def compute(self, compute: Callable[..., Any], new_output: Callable[[], Any], report: Callable[[], None]) -> None:
        """Starts the computation of each batch, into the buffer of a result that is already written."""
        while (batch := self.ready.get()) is not None and not self.stop.is_set():
            old = self.outputs.get()
            count, arrays = batch
            output, result = compute(new_output() if old is None else old, arrays)
            self.started.put((output, count, result))
            del batch, old, arrays, output, result
            report()

    def write(self, write: Callable[[int, Any], None]) -> None:
        """Writes each result, hands its memory back, and frees its slot."""
        while (item := self.started.get()) is not None:
            if not self.stop.is_set():
                try:
                    write(*item[1:])
                except BaseException as error:
                    self.fail(error)
            self.outputs.put(item[0])
            del item
            self.slots.release()
