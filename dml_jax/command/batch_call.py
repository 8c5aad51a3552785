"""`dml-jax batch call`: applies a function of the caller's, `module:name`, to batches of files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

import click

from ..errors import ConstraintError, suggestion
from .batch_run import check_shared, run_files, split_files, typed

if TYPE_CHECKING:
    from ..batch.npy_file import NpyFile


class FunctionName(click.ParamType):
    """A function as `module:name`."""

    name = "module:name"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        if not all(value.partition(":")):
            self.fail(f"{value!r} is not a MODULE:NAME such as steps:enlarge", param, ctx)
        return value


def run_call(
    function: str, inputs: tuple[str, ...], output: str, outputs: int, dtype: Any, shared: tuple[str, ...], **rest: Any
) -> None:
    """Runs a function over files. It is the callback of the subcommand, so its arguments are that one's."""
    inputs, last = split_files((*inputs, output), outputs)
    check_shared(inputs, shared)
    whole = [path in shared for path in inputs]
    files = [_file(path, dtype) for path in inputs]
    run_files(partial(_imported, function), files, whole, {"operator": "call", "shared": whole}, outputs=last, **rest)


def _file(path: str, dtype: Any) -> str | NpyFile:
    """Returns a file with the type of its elements, where it does not name one."""
    from ..npy_format import map_npy

    with suppress(ConstraintError):  # it is no .npy file, or its reader tells what is wrong
        dtype = dtype if map_npy(Path(path)).dtype.kind == "V" else None
    return typed(path, dtype)


def _imported(target: str) -> Callable[..., Any]:
    """Imports a function, with the current directory first in the search path, as `python -m` has it.

    Raises:
      UsageError: there is no such module, or nothing of that name in it, or no function.
      ConstraintError: the module raises an exception; so does the function that is returned, where that raises one.
    """
    module, _, name = target.partition(":")
    sys.path.insert(0, os.getcwd())
    with _told(module):
        try:
            spec = find_spec(module)
        except ModuleNotFoundError as error:
            if not f"{module}.".startswith(f"{error.name}."):  # it is no parent of the module
                raise
            spec = None
    if spec is None:
        raise click.UsageError(f"{target}: no module {module!r} is in {os.getcwd()} or installed")
    with _told(module, spec.origin):
        loaded = import_module(module)
        try:
            function = attrgetter(name)(loaded)
        except AttributeError as error:
            near = suggestion(str(error.name), (known for known in dir(error.obj) if known[0] != "_"))
            raise click.UsageError(f"{target}: there is no {error.name!r}; {near}") from None
    if not callable(function):
        raise click.UsageError(f"{target} must be a function, but it is {type(function).__name__}")

    def told(*arrays: Any) -> Any:
        with _told(target, spec.origin):
            return function(*arrays)

    return told


@contextmanager
def _told(what: str, file: str | None = None) -> Iterator[None]:
    """Context manager for code of the caller's: what it prints is no result, and what it raises is told in a line.

    Args:
      what: the module or the function.
      file: whose lines are named.

    Raises:
      ConstraintError: the block raises anything but UsageError, or ends the process.
    """
    try:
        with redirect_stdout(sys.stderr):
            yield
    except click.UsageError:
        raise
    except (Exception, SystemExit) as error:
        lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == file]
        where = f" in line {lines[-1]} of {file}" if lines else ""
        raise ConstraintError(f"{what} raised {type(error).__name__}{where}: {error}") from error
