"""`map_batches`: a function over .npy files that need not fit in memory."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..errors import ConstraintError, DataTypeError
from .batch_function import BatchFunction
from .batch_program import BatchProgram, devices_of, host_rows
from .batches_in_flight import InFlight
from .jobs import Job, Run, Share, opened
from .npy_file import NpyFile
from .output_checks import check_outputs, named, output_of
from .pipeline import DEPTH, run_pipeline
from .program_identity import known_of
from .progress_recorder import Recorder
from .sources import ArraySource, Slices, Source, as_source

_jobs = itertools.count()
BATCH_BYTES = 64 * 10**6  # smaller batches cost calls and smaller writes

# An output, or one for each array that a function returns.
Output = str | os.PathLike[str] | tuple[Any, ...] | Mapping[str, Any]
# Inputs with rows: a path, an object with slices, a list of these, an iterator of arrays.
Input = str | os.PathLike[str] | NpyFile | Slices | Sequence[Any] | Iterable[jax.Array | np.ndarray]


class _Function(BatchFunction):
    """The function of one job.

    JAX keeps the traces of the jitted functions that it calls, with the globals that these have read, for each mesh. A
    mesh of another name finds none, so all programs of a job have the same globals.
    """

    _caller = "map_batches"

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self._axis = f"batch{next(_jobs)}"


@dataclass(frozen=True)
class Progress:
    """The progress of a job.

    Args:
      rows: written so far, also by earlier runs; if several processes share the work, only those of this process.
      total: rows to write; None while an iterator has not ended.
      bytes: read and written by this run.
      seconds: since this run began to read.
      resumed: of `rows`, those that earlier runs have written.
    """

    rows: int
    total: int | None
    bytes: int
    seconds: float
    resumed: int = 0


def map_batches(
    fn: Callable[..., jax.Array],
    inputs: Input | tuple[Input, ...],
    output: Output,
    *,
    batch_size: int | None = None,
    shared: Iterable[Any] | Mapping[str, Any] = (),
    identity: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    restart: bool = False,
    progress: Callable[[Progress], None] | None = None,
    checkpoint_seconds: float = 5.0,
    share: tuple[int, int] = (0, 1),
) -> Progress:
    """Applies `fn` to batches of rows of `inputs` and writes what it returns to `output`.

    Reading, computing and writing overlap. At most three batches are in memory, each with its inputs and its output.
    A .npy file is mapped into memory a window at a time, and a CPU computes on the mapped bytes. Other inputs, those
    that are not aligned to 64 bytes, and the last batch are copied, so they count twice.

    The output is written as `output`.partial and renamed when it is complete. Meanwhile, `output`.progress records how
    many rows are on the disk. After an interruption, a crash or a loss of power, make the same call again: it continues
    from there and gives the same bits. If an input is an iterator, it starts over.

    Args:
      fn: takes one array [batch, ...] per input, then the shared ones, and returns one array [batch, ...], or a tuple
        or a dict of them. A row of these must depend on the same rows of the inputs only: the last batch is filled up
        with its last row, and its result cut. Every local device runs it on rows of its own, as jax.shard_map without
        check_vma does: it sees only these, and uses no mesh. It is compiled once, and traced twice: once for one row,
        so that a later run recognizes it.
      inputs: one input, or a tuple of them, with the same number of rows: a path of a .npy file, a zarr array, a
        dataset "x.h5:/x" or a picture; a folder or a pattern of such files, or a list of paths or arrays, whose rows
        follow one another; an `NpyFile`; an object with shape, dtype and slices, such as a NumPy array or an h5py
        dataset; or an iterable of arrays of any leading sizes. All are read in another thread. An array is read once
        more, for a checksum; files are known by their sizes and times.
      output: path of a .npy file, or of an array of zarr, if its name ends with .zarr, which may be in a bucket:
        s3://bucket/x.zarr; one for each array that `fn` returns, in the same tuple or dict.
      batch_size: rows per batch; rounded up to a multiple of the devices that share it, which are all local ones, but
        no more CPU devices than there are rows; under `jax.default_device` that one alone. By default a batch of the
        inputs and its output have 64 MB together, for each GPU, or one row.
      shared: arrays, or trees of arrays such as parameters, that `fn` gets whole with every batch: a sequence, or a
        dict of arguments by name.
      identity: what else distinguishes this job from others, beside the program that `fn` is traced to, such as what
        its callbacks compute on the host; JSON types.
      overwrite: replaces an existing output when the new one is complete.
      restart: forgets what an earlier run has recorded.
      progress: called with a `Progress` after each batch, and before the disk is waited for, in the caller's thread.
        If it raises, the job ends, and the same call can continue it later: it is not called any more once the output
        has its name.
      checkpoint_seconds: time between two records of the progress.
      share: (i, n) writes only the i-th of n contiguous parts of the rows; n processes, on a shared file system, with
        the same arguments otherwise, write the .npy file. Process 0 waits for the others.

    Returns:
      The last `Progress`.

    Raises:
      BatchError: a file, a folder, a disk or another process stands in the way; says which and what to do.
      ConstraintError: the inputs' rows differ, or `fn` refuses its operands or returns something else.
      DataTypeError: a type that JAX lacks, or a 64-bit one while x64 is off.

    Example:
      >>> import os, tempfile, numpy as np, dml_jax
      >>> from dml_jax.batch import map_batches
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     pictures, result = os.path.join(folder, "in.npy"), os.path.join(folder, "out.npy")
      ...     np.save(pictures, np.arange(10 * 8, dtype=np.float32).reshape(10, 8, 1, 1))
      ...     done = map_batches(lambda x: dml_jax.depth_to_space(x, 2), pictures, result, batch_size=4)
      ...     print(done.rows, np.load(result).shape)
      10 (10, 2, 2, 2)
    """
    if not isinstance(progress, Callable | None):
        raise DataTypeError(f"map_batches: progress must be a function, but it is {type(progress).__name__}")
    if not isinstance(checkpoint_seconds, float | int):
        kind = type(checkpoint_seconds).__name__
        raise DataTypeError(f"map_batches: checkpoint_seconds must be a number, but it is {kind}")
    function = _Function(fn, batch_size=batch_size, shared=shared)
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    targets, part = _targets(output), _share(share)
    if not given:
        raise ConstraintError("map_batches: inputs must name at least one input, but it is ()")
    if not checkpoint_seconds > 0:
        raise ConstraintError(f"map_batches: checkpoint_seconds must be above 0, but it is {checkpoint_seconds!r}")
    check_outputs(targets, given, part, overwrite)
    sources = [as_source(f"inputs[{i}]", value) for i, value in enumerate(given)]
    wholes = [ArraySource("shared", np.atleast_1d(array)) for array in jax.tree.leaves(function._shared)]
    total = _rows(sources, part)
    row = {i: jax.ShapeDtypeStruct(source.item, source.dtype) for i, source in enumerate(sources)}
    one = None if batch_size else function._program(row, 1, devices=1)
    width = batch_size or max(1, BATCH_BYTES // max(1, one.row_bytes if one else 1)) * len(devices_of(1))
    program = function._program(row, width if total is None else min(width, max(total, 1)))
    if jax.tree.structure(program.result) != jax.tree.structure(output):
        fact = f"fn returns {_described(program.result)} and output is {_described(output)}"
        raise ConstraintError(f"{_OUTPUT}, but {fact}")
    identities = [source.identity() for source in (*sources, *wholes)]
    known = known_of(one or _smallest(function, row, program.rows_per_device))
    facts = {"program": known, "identity": _json(identity), "inputs": identities}
    results = zip(targets, jax.tree.leaves(program.result), strict=True)
    outputs = [output_of(path)(path, array.dtype, array.shape[1:], total) for path, array in results]
    job = Job(outputs, total, facts, None not in identities, part)
    with opened(job, overwrite=overwrite, restart=restart) as run:
        return _run(run, program, sources, progress or (lambda _: None), checkpoint_seconds)


def _run(
    run: Run, program: BatchProgram, sources: Sequence[Source], progress: Callable[[Progress], None], seconds: float
) -> Progress:
    job, started = run.job, time.monotonic()

    def now(rows: int, total: int | None = job.count) -> Progress:
        moved = (rows - run.done) * program.row_bytes
        return Progress(rows, total, moved, time.monotonic() - started, run.done)

    if run.is_finished:
        run.clear()
        return now(run.done)
    first = job.share.rows(job.total).start if job.total is not None else 0
    left = None if job.count is None else range(first + run.done, first + job.count)

    def write(count: int, result: Any) -> None:
        for output, array in zip(job.outputs, jax.tree.leaves(result), strict=True):
            output.write(count, host_rows(array, count))
        recorder.wrote(count)

    def report() -> None:
        progress(now(recorder.rows))

    with Recorder(job.outputs, run.journal, first, run.done, seconds) as recorder:
        if left is not None and job.resumable and not program.row_bytes:
            for output in job.outputs:  # nothing to compute, whether rows of no bytes are ten or 2**62
                output.write(len(left), [])
            recorder.wrote(len(left))
        elif left is None or len(left):
            batches = _batches(sources, left, program.batch_size)
            run_pipeline(batches, program.compiled(), program.new_output, write, report)
        report()  # all is written, and the disk may take long
        for output in job.outputs:
            output.flush()
    rows = recorder.rows
    progress(now(rows, rows))  # while the output still has its partial name: if this raises, the same call goes on
    run.finish(rows if job.total is None else job.total, report)
    return now(rows, rows)


def _batches(sources: Sequence[Source], rows: range | None, size: int) -> Iterator[tuple[int, dict[int, np.ndarray]]]:
    """Yields the rows in batches with their counts; all rows until an iterator ends if `rows` is None.

    Raises:
      BatchError: an input has changed.
      ConstraintError: the inputs turn out to have different numbers of rows.
    """
    start, count = (0 if rows is None else rows.start), size
    in_flight = [InFlight() for _ in sources]
    while count == size and (rows is None or start < rows.stop):
        asked = size if rows is None else min(size, rows.stop - start)
        for flight in in_flight:
            flight.wait(DEPTH)
        held = [{i: in_flight[i].passed(source.read(start, asked)) for i, source in enumerate(sources)}]
        count = _agreed(sources, [len(array) for array in held[0].values()], start)
        start += count
        if count:
            yield count, held.pop()  # not kept here while it is worked on
    for source in sources:
        source.check()
        if rows is not None and source.rows is None and len(source.read(start, 1)):
            raise ConstraintError(f"{_SAME_ROWS}, but {source.name} has more than {start}")


_SAME_ROWS = "map_batches: all inputs must have the same number of rows"


def _agreed(sources: Sequence[Source], counts: Sequence[int], start: int) -> int:
    if len(set(counts)) > 1:
        short = sources[int(np.argmin(counts))]
        raise ConstraintError(f"{_SAME_ROWS}, but {short.name} ends after {start + min(counts)} and another goes on")
    return counts[0]


def _rows(sources: Sequence[Source], share: Share) -> int | None:
    """Returns how many rows the inputs have; None if all of them are iterators.

    Raises:
      ConstraintError: they differ, or an iterator is to be shared among processes.
    """
    known = {source.name: source.rows for source in sources if source.rows is not None}
    if len(set(known.values())) > 1:
        raise ConstraintError(f"{_SAME_ROWS}, but {', '.join(f'{n} has {rows}' for n, rows in known.items())}")
    if share.count > 1 and len(known) < len(sources):
        raise ConstraintError(
            "map_batches: a share of the rows needs inputs that can be read from anywhere, not iterators"
        )
    return next(iter(known.values()), None)


def _share(value: Any) -> Share:
    is_pair = isinstance(value, Sequence) and len(value) == 2 and all(type(part) is int for part in value)
    if not is_pair or not 0 <= value[0] < value[1]:
        raise ConstraintError(f"map_batches: share must be two integers (i, n) with 0 <= i < n, but it is {value!r}")
    return Share(*value)


_OUTPUT = "map_batches: output must be a path for each array that fn returns, in the same tuple or dict"


def _targets(output: Any) -> list[Path | str]:
    paths = jax.tree.leaves(output)
    for path in paths or [output]:
        if not isinstance(path, str | os.PathLike):
            rule = "map_batches: output must be a path, or a tuple or dict of them"
            raise DataTypeError(f"{rule}, but it is {type(path).__name__}")
    return [*map(named, paths)]


def _described(tree: Any) -> str:
    """Returns the tree with a star for every leaf: "(*, *)"."""
    return str(jax.tree.structure(tree)).removeprefix("PyTreeDef(").removesuffix(")")


def _smallest(function: BatchFunction, row: dict[int, Any], rows: int) -> BatchProgram:
    """Returns the program of one row on one device, so that it is the same for all numbers of devices and batch sizes.

    Of `rows` rows for a function that takes as many only.
    """
    try:
        return function._program(row, 1, devices=1)
    except Exception:
        return function._program(row, rows, devices=1)


def _json(identity: Mapping[str, Any] | None) -> Any:
    try:
        return json.loads(json.dumps(identity))
    except (TypeError, ValueError) as error:
        raise DataTypeError(f"map_batches: identity must consist of JSON types, but {error}") from None
