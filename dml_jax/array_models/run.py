"""Runs a model on arrays: once, to write its outputs, or as a benchmark, to say how long it takes."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..dxdispatch.timing import Timing, measure, report
from ..errors import ConstraintError, describe, suggestion
from .array_model import ArrayModel, Program
from .model_inputs import make_inputs
from .npy_inputs_and_outputs import assign_files, output_paths, write_arrays
from .printed_bindings import binding_lines


@dataclass(frozen=True)
class ArrayRun:
    """What a caller asks of a run.

    Args:
      given: .npy files for inputs, each "FILE", in order, or "NAME=FILE".
      given_from: the folder that their names are relative to.
      shapes: of inputs that have no file, and of outputs, which must have them.
      output: the folder that outputs go to; without one, that of the model, and none from a benchmark.
      timing: the options of a benchmark; None for a single run. If an input has no file, the run is a benchmark anyway.
      shows_bindings: whether to print the type and shape of every input and output.
    """

    given: Sequence[str] = ()
    given_from: Path = Path()
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    output: Path | None = None
    timing: Timing | None = None
    shows_bindings: bool = False


@dataclass(frozen=True)
class Times:
    """How long a benchmark took.

    Args:
      samples: milliseconds of one dispatch, per iteration.
      warmup: how many of them, from the first, are left out of the median.
      compile_seconds: None if the model was not compiled.
    """

    samples: Sequence[float]
    warmup: int
    compile_seconds: float | None


def run_arrays(model: ArrayModel, asked: ArrayRun, device: Any, say: Callable[[str], None]) -> Times | None:
    """Runs a model, and writes every output or nothing.

    Args:
      model: the model.
      asked: what to do with it.
      device: of JAX.
      say: prints a line.

    Returns:
      The times, of a benchmark.

    Raises:
      ConstraintError: the model or an input is wrong, a shape does not fit, or a file cannot be written.
    """
    files = assign_files([spec.name for spec in model.inputs], asked.given, asked.given_from)
    check_names(model, asked.shapes)
    generated = [spec.name for spec in model.inputs if spec.name not in files]
    timing = asked.timing or (Timing() if generated else None)
    folder = asked.output or (None if timing else model.path.parent)
    written = output_paths(model.outputs, folder, [*model.files, *files.values()]) if folder else {}
    times = None
    with jax.enable_x64(True), jax.default_device(device):
        arrays = make_inputs(model.inputs, files, asked.shapes)
        if generated:
            say(f"Generated inputs, all 0: {', '.join(f'{n!r} {describe(arrays[n])}' for n in generated)}")
        program, seconds = _compile_model(model, list(arrays.values()))
        if program.not_compiled:
            say(f"Not compiled, but run node by node: {program.not_compiled}")
        elif timing:
            say(f"Compiled in {seconds:.2f} s")
        results = jax.block_until_ready(program.run())  # JAX sets up its call, once
        outputs = dict(zip(model.outputs, results, strict=True))
        check_shapes({**arrays, **outputs}, asked.shapes)
        for line in binding_lines(arrays, files, outputs) if asked.shows_bindings else ():
            say(line)
        if timing:
            del results, outputs  # their memory is free for the next ones
            samples, results = measure(program.run, jax.block_until_ready, timing)
            for line in report(model.path.name, samples, timing):
                say(line)
            times = Times(samples, timing.cold(samples), None if program.not_compiled else seconds)
        files_written = {written[n]: np.asarray(y) for n, y in zip(model.outputs, results, strict=True) if n in written}
    write_arrays(files_written)
    for name, path in written.items():
        say(f"Output {name!r} {describe(files_written[path])} written to {str(path)!r}")
    return times


def _compile_model(model: ArrayModel, arrays: Sequence[jax.Array]) -> tuple[Program, float]:
    """Compiles the model; returns the program and the seconds that it took."""
    start = time.perf_counter()
    program = model.prepare(jax.block_until_ready(arrays))
    return program, time.perf_counter() - start


def check_names(model: ArrayModel, shapes: Mapping[str, Any]) -> None:
    names = [*(spec.name for spec in model.inputs), *model.outputs]
    for name in shapes:
        if name not in names:
            fact = f"no input or output is named {name!r:.60}"
            raise ConstraintError(f"{fact}; {suggestion(name, names)}", ("--binding-shape",))


def check_shapes(arrays: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Checks that outputs, and inputs from files, have the shapes that are asked for."""
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            fact = f"{name!r} must have its sizes, {list(arrays[name].shape)}, but they are {list(shape)}"
            raise ConstraintError(fact, ("--binding-shape",))
