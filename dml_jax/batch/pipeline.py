"""Reading, computing and writing at the same time, over a fixed number of batches."""

import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

__all__ = ["DEPTH", "run_pipeline"]

DEPTH = 3  # batches at work: one is read, one computed, one written


def run_pipeline(
    batches: Iterable[tuple[int, list[np.ndarray]]],
    compute: Callable[..., Any],
    new_output: Callable[[], Any],
    write: Callable[[int, Any], None],
    report: Callable[[], None],
) -> None:
    """Computes every batch; no more than DEPTH have been read and not yet written.

    Args:
      batches: pairs of a row count and the arrays; read in a thread of its own.
      compute: called with an old output and the arrays, in the caller's thread, whose JAX settings hold.
      new_output: makes an output to write over.
      write: called with the row count and the result, in order, in a thread of its own.
      report: called in the caller's thread, after each batch that was started.

    Raises:
      Exception: the first that any of them raised, once all have come to rest.
    """
    slots, stop, errors = threading.Semaphore(DEPTH), threading.Event(), []
    ready: queue.SimpleQueue = queue.SimpleQueue()
    started: queue.SimpleQueue = queue.SimpleQueue()
    outputs: queue.SimpleQueue = queue.SimpleQueue()

    def fail(error: BaseException) -> None:
        errors.append(error)
        stop.set()

    def read_all() -> None:
        source = iter(batches)
        try:
            while slots.acquire() and not stop.is_set():
                batch = next(source, None)
                if batch is None:
                    return
                ready.put(batch)
                del batch
        except BaseException as error:
            fail(error)
        finally:
            ready.put(None)

    def write_all() -> None:
        while (item := started.get()) is not None:
            if not stop.is_set():
                try:
                    write(*item)
                except BaseException as error:
                    fail(error)
            outputs.put(item[1])
            del item
            slots.release()

    threads = [threading.Thread(target=work, daemon=True) for work in (read_all, write_all)]
    for _ in range(DEPTH):
        outputs.put(None)
    for thread in threads:
        thread.start()
    try:
        while (batch := ready.get()) is not None and not stop.is_set():
            old = outputs.get()
            count, arrays = batch
            result = compute(new_output() if old is None else old, *arrays)
            started.put((count, result))
            del batch, old, arrays, result
            report()
    except BaseException as error:
        fail(error)
    finally:
        started.put(None)
        slots.release()  # wakes a reader that waits although it must stop
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
