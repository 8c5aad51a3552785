"""`BatchFunction`: a function of arrays as a callable of NumPy batches, for engines such as Ray Data and Grain."""

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Any

import jax
import numpy as np

from ..errors import ConstraintError, DataTypeError, describe
from .batch_program import BatchProgram, aligned, host_rows
from .npy_file import NpyFile
from .sources import as_data_type, check_unmasked, kind_of

CALLER = "BatchFunction"
Arrays = dict[Any, Any]  # or trees of arrays, by the names or numbers of the arguments


class BatchFunction:
    """Makes a function of arrays a callable of NumPy batches, for loops and engines that read the batches themselves.

    It is compiled once, at the first call in a process, for batches of `batch_size` rows. A shorter batch is filled up
    with its last row, and its result cut. The rows of a batch are spread over the local devices.

    It can be copied, and pickled if `fn` can be; cloudpickle also takes lambdas and jitted functions. Every copy is
    compiled anew. It has 64-bit types if x64 is on where it is made or first called. Threads may call it at once.

    Args:
      fn: takes the arrays [batch, ...] of a batch: those of a tuple in order, the columns of a dict by name. After them
        it takes the shared ones. It returns an array [batch, ...], or a tuple or a dict of them. A row of these must
        depend on the same rows of the batch only. Every device runs it on rows of its own, as jax.shard_map without
        check_vma does: it sees only these, and uses no mesh.
      batch_size: most rows of a batch; by default as many as the first batch has. The program has as many, rounded up
        to a multiple of the devices that share it: all local ones, but no more CPU devices than rows; under
        `jax.default_device` that one alone.
      shared: arrays, or trees of arrays such as parameters, that `fn` gets whole with every batch: a sequence, or a
        dict of arguments by name, which batches of columns need. They stay on the devices.

    Raises:
      ConstraintError: arguments of other kinds; from a call, a batch that is empty, too long, or other than the first,
        columns that `fn` does not take, arrays of different lengths, or results without a row per row.
      DataTypeError: a type that JAX lacks, such as objects, or a 64-bit one while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> from dml_jax.batch import BatchFunction
      >>> larger = BatchFunction(lambda pictures: {"larger": dml_jax.depth_to_space(pictures, 2)}, batch_size=64)
      >>> larger({"pictures": np.zeros((10, 8, 4, 4), np.float32)})["larger"].shape
      (10, 2, 8, 8)
    """

    _caller, _axis = CALLER, "batch"  # for messages; of the mesh

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        batch_size: int | None = None,
        shared: Iterable[Any] | Mapping[str, Any] = (),
    ):
        caller = self._caller
        if not callable(fn):
            raise DataTypeError(f"{caller}: fn must be a function, but it is {type(fn).__name__}")
        if not isinstance(shared, Iterable) or isinstance(shared, str) or hasattr(shared, "__array__"):
            fact = f"it is {type(shared).__name__}; put it in a list"
            raise DataTypeError(f"{caller}: shared must be a list of arrays or a dict of them, but {fact}")
        is_integer = isinstance(batch_size, int | np.integer) and not isinstance(batch_size, bool)
        if batch_size is not None and not (is_integer and batch_size > 0):
            raise ConstraintError(f"{caller}: batch_size must be an integer of at least 1, but it is {batch_size!r}")
        settings: Any = jax.config  # whose types do not name its settings
        self._fn, self._batch_size, self._x64 = fn, batch_size, bool(settings.jax_enable_x64)
        self._shared = jax.tree.map_with_path(
            lambda path, array: aligned(_as_numpy(caller, f"shared{jax.tree_util.keystr(path)}", array)),
            _by_name(caller, "shared", shared),
        )
        self._lock = Lock()
        self._first: tuple[Arrays, int, BatchProgram, Callable[..., Any]] | None = None
        self._outputs: list[Any] = []  # buffers of results that were copied, for the next ones: one per thread

    def __call__(self, batch: Any) -> Any:
        """Returns the result of a batch.

        Args:
          batch: an array, a tuple or a list of arrays, or a dict of columns, with one row each per example: NumPy's,
            or anything that `numpy.asarray` takes without a copy, such as tensors of torch on a CPU.

        Returns:
          NumPy arrays, in the tuple or dict that `fn` returns.
        """
        if self._first is None:
            settings: Any = jax.config
            self._x64 = self._x64 or bool(settings.jax_enable_x64)
        with jax.enable_x64(self._x64):
            arrays = _arrays(batch)
            rows = _rows(arrays)
            program, run = self._compiled(arrays, rows)
            try:
                output = self._outputs.pop()
            except IndexError:  # other threads have them
                output = program.new_output()
            output, result = run(output, arrays)
            copied = jax.tree.map(lambda array: np.concatenate(host_rows(array, rows)), result)
            self._outputs.append(output)
            return copied

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None, "_first": None, "_outputs": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=Lock())

    def _program(self, row: Arrays, batch_size: int, devices: int | None = None) -> BatchProgram:
        """Traces the function for batches of rows like `row`: structs by the names or numbers of the arguments.

        Raises:
          ConstraintError: `fn` does not take these columns, or gives something else than arrays of rows.
        """
        called = lambda batch, shared: _call(self._fn, batch, shared)  # noqa: E731
        try:
            return BatchProgram(called, row, self._shared, batch_size, self._caller, self._axis, devices)
        except TypeError as error:
            raised = error
        self._check_signature(row)
        raise raised

    def _compiled(self, arrays: Arrays, rows: int) -> tuple[BatchProgram, Callable[..., Any]]:
        row = {name: jax.ShapeDtypeStruct(array.shape[1:], array.dtype) for name, array in arrays.items()}
        with self._lock:
            if self._first is None:
                size = self._batch_size or rows
                program = self._program(row, size)
                self._first = row, size, program, program.compiled()
        first, size, program, run = self._first
        if row != first:
            fact = f"this one is {_described(row)}; another BatchFunction takes it"
            raise ConstraintError(f"BatchFunction: a batch must be {_described(first)}, as the first was, but {fact}")
        if rows > size:
            which = "" if self._batch_size else ", as the first had; batch_size says another number"
            raise ConstraintError(f"BatchFunction: a batch must have at most {size} rows{which}, but it has {rows}")
        return program, run

    def _check_signature(self, row: Arrays) -> None:
        try:
            signature = inspect.signature(self._fn)
        except (TypeError, ValueError):  # of functions that are not written in Python
            return
        try:
            _call(signature.bind, row, self._shared)
        except TypeError as error:
            given = ", ".join([_described(row), *(f"shared[{name!r}]" for name in self._shared)])
            fact = f"its arguments are {signature}: {str(error).removeprefix('inspect.Signature.bind() ')}"
            raise ConstraintError(f"{self._caller}: fn must take {given}, but {fact}") from None


def _by_name(caller: str, what: str, value: Any) -> Arrays:
    """Returns arguments by name; the arguments of a sequence have numbers."""
    if not isinstance(value, Mapping):
        return dict(enumerate(value))
    for name in value:
        if not isinstance(name, str):
            raise ConstraintError(f"{caller}: the names of {what} must be texts, but one is {name!r}")
    return dict(value)


def _call(fn: Callable[..., Any], *parts: Arrays) -> Any:
    ordered = (value for part in parts for name, value in part.items() if isinstance(name, int))
    batch, shared = ({name: v for name, v in part.items() if not isinstance(name, int)} for part in parts)
    return fn(*ordered, **batch, **shared)


def _arrays(batch: Any) -> Arrays:
    """Returns the arrays of a batch by the names or numbers of the arguments."""
    if not isinstance(batch, Mapping | tuple | list):
        return {0: _as_numpy(CALLER, "batch", batch, least=1)}
    named = _by_name(CALLER, "batch", batch)
    arrays = {name: _as_numpy(CALLER, f"batch[{name!r}]", value, least=1) for name, value in named.items()}
    if not arrays:
        raise ConstraintError(f"BatchFunction: a batch must have an array or a column at least, but it is {batch!r}")
    return arrays


def _rows(arrays: Arrays) -> int:
    counts = {name: len(array) for name, array in arrays.items()}
    if len({*counts.values()}) > 1:
        told = ", ".join(f"batch[{name!r}] has {count}" for name, count in counts.items())
        raise ConstraintError(f"BatchFunction: all arrays of a batch must have the same number of rows, but {told}")
    if not (rows := next(iter(counts.values()))):
        raise ConstraintError("BatchFunction: a batch must have at least one row, but it has none; leave it out")
    return rows


def _as_numpy(caller: str, name: str, value: Any, least: int = 0) -> np.ndarray:
    """Returns an array of a type that JAX has, in C order and native byte order; it has `least` dimensions or more."""
    rule = f"{caller}: {name} must be an array of numbers"
    check_unmasked(f"{caller}: {name}", value)
    if not hasattr(value, "__array__"):
        how = "load(path)" if isinstance(value, str | os.PathLike | NpyFile) else "asarray"
        raise DataTypeError(f"{rule}, but it is {type(value).__name__}; numpy.{how} makes one")
    try:
        array = np.asarray(value)
    except (TypeError, RuntimeError) as error:  # random keys, tensors on another device or with gradients
        raise DataTypeError(f"{rule}, but NumPy cannot read it: {error}") from None
    if array.dtype == object:
        fix = "numpy.stack joins rows of one size, or leave it out"
        raise DataTypeError(f"{rule}, but its type is {array.dtype}: {_odd_row(array)}; {fix}")
    if array.ndim < least:
        raise ConstraintError(f"{caller}: {name} must have a leading dimension, the batch, but its shape is ()")
    return np.asarray(array, as_data_type(name, array.dtype, array.shape, caller), order="C")


def _odd_row(array: np.ndarray) -> str:
    """Says which row of an array of objects is of another kind than the first; or the kind of all rows."""
    cells = np.atleast_1d(array).ravel()
    kinds = [describe(cell) if isinstance(cell, np.ndarray) else type(cell).__name__ for cell in cells]
    odd = next((i for i, kind in enumerate(kinds) if kind != kinds[0]), None)
    if odd is None:
        return f"its rows are {', '.join(kinds[:1])}"
    return f"row 0 is {kinds[0]} and row {odd * len(array) // array.size} is {kinds[odd]}"


def _described(row: Arrays) -> str:
    """Returns "x: float32[any,3]" for columns, and "float32[any,3]" for arrays in order."""
    told = {name: kind_of(r.dtype, r.shape) for name, r in row.items()}
    return ", ".join(text if isinstance(name, int) else f"{name}: {text}" for name, text in told.items())
