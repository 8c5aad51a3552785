"""Model files of users: time of a call and before the first one, and results, beside plain and ONNX Runtime."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import jax
import numpy as np
from rich.console import Group
from rich.markup import escape
from rich.text import Text

import dml_jax

from ..array_models.array_model import ArrayModel, Program
from ..array_models.model_inputs import make_inputs
from ..array_models.npy_inputs_and_outputs import assign_files
from ..array_models.random_inputs import drawn_from
from ..array_models.run import ArrayRun, check_names, check_shapes
from ..core.executable import Executable
from ..errors import escaped
from .case import Case
from .compile_costs import Cost
from .implementations import CallRun, copy_of, thin
from .peers import runtime_run
from .section import Job, Section, ratio, spread_of, unframed
from .timing import CACHE, COMPARED, Effort, Measured, by_case, measure_runs, seconds_of

OPERATOR = "model"
OURS, PLAIN, RUNTIME, COPY = "dml_jax", "plain", "ORT", "copy"
NAMES = {PLAIN: '`use_form("plain")`', RUNTIME: "ONNX Runtime"}  # in sentences
LEGEND = """\
ms               milliseconds of one call of dml_jax: the median
spread           half the distance of the quartiles of these times, as a part of their median
x plain          how many times as fast dml_jax is as with `use_form("plain")`
x ORT            how many times as fast dml_jax is as ONNX Runtime on the CPU; -: that does not run
                 the model; differs: its results do, by more than --bound
error            the largest difference from the results of ONNX Runtime, as a part of the largest
                 number of the same output
load s           seconds to read the file, once
trace s          seconds to trace the model and to make StableHLO of it, once
compile s        seconds for XLA to compile that, once
MiB              weights, inputs, outputs and temporary arrays while it runs"""


@dataclass(frozen=True)
class ModelFile:
    """A file, and how it is run.

    Args:
      path: of the file, as it is named.
      read: reads it.
      asked: its .npy files and shapes.
      seed: of inputs without a file.
      doing: says what is done with an ONNX model right now; None of other files.
    """

    path: str
    read: Callable[[], ArrayModel]
    asked: ArrayRun
    seed: int
    doing: Callable[[], str] | None = None

    @property
    def is_onnx(self) -> bool:
        return self.doing is not None


def model_section(files: Sequence[ModelFile], bound: float, *, peers: bool) -> Section:
    """Measures each file.

    Args:
      files: a job each.
      bound: how far results may be apart, as a part of the largest.
      peers: whether ONNX Runtime is measured, too.
    """
    has_runtime = peers and find_spec("onnxruntime") and any(file.is_onnx for file in files)
    others = [PLAIN] * (jax.default_backend() != "cpu") + [RUNTIME] * bool(has_runtime)

    def job(file: ModelFile) -> Job:
        own = others if file.is_onnx else [name for name in others if name != RUNTIME]
        measure = partial(_measure, file, own, bound)
        return Job(f"{OPERATOR} {file.path}", measure, file.doing, partial(_faults, bound))

    return Section("models", [*map(job, files)], [OURS, *others], table, LEGEND)


# Measuring.


def _measure(file: ModelFile, others: Sequence[str], bound: float, effort: Effort) -> list[Cost | Measured]:
    """Measures a file: a row of costs for each contender, then one of time."""
    name = f"{OPERATOR} {file.path}"
    with jax.enable_x64(True):
        loading, model = seconds_of(file.read)
        arrays, why = _inputs(file, model)
        inputs = list(arrays.values())
        programs = _programs(model, inputs, others)
        runs = {form: CallRun(program.run) for form, program in programs.items()}
        costs = [_cost(name, form, program.run, inputs, loading) for form, program in programs.items()]
        if RUNTIME in others:
            try:
                runs[RUNTIME], starting = _started_runtime(model, inputs)
                costs.append(_cost(name, RUNTIME, None, inputs, starting))
            except Exception as error:  # of no type of its own
                why.append(f"ONNX Runtime does not run it: {escaped(str(error).partition(chr(10))[0])}")
        rows = _timed_in_turn(file.path, runs, costs[0].floor, effort)
        check_shapes({**arrays, **dict(zip(model.outputs, runs[OURS].out, strict=True))}, file.asked.shapes)
    if programs[OURS].not_compiled:
        why.append(f"it runs node by node: {programs[OURS].not_compiled}")
    if model.is_random:
        why.append("its results are not compared, as it draws random numbers")
    else:
        rows = [_compared(row, runs[OURS].out, runs[row.contender].out, bound) for row in rows]
    return [*costs, replace(rows[0], why="; ".join(why)), *rows[1:]]


def _programs(model: ArrayModel, inputs: Sequence[Any], others: Sequence[str]) -> dict[str, Program]:
    """The program as it is chosen, and the plain one; what runs node by node has no other form here."""
    programs = {OURS: model.prepare(inputs)}
    if PLAIN in others and not programs[OURS].not_compiled:
        with dml_jax.use_form("plain"):
            programs[PLAIN] = model.prepare(inputs)
    return programs


def _started_runtime(model: ArrayModel, inputs: Sequence[Any]) -> tuple[CallRun, float]:
    """ONNX Runtime after a first call, and the seconds that it took to load the file."""
    import onnxruntime  # noqa: F401  # which takes longer than most files

    seconds, run = seconds_of(lambda: runtime_run(str(model.path), inputs))
    run.step(0)
    return run, seconds


def _inputs(file: ModelFile, model: ArrayModel) -> tuple[dict[str, jax.Array], list[str]]:
    """The inputs by name; and a sentence if sizes are 1 because nobody has said more."""
    asked = file.asked
    files = assign_files([spec.name for spec in model.inputs], asked.given, asked.given_from)
    check_names(model, asked.shapes)
    arrays = make_inputs(model.inputs, files, asked.shapes, drawn_from(file.seed))
    drawn = [spec for spec in model.inputs if spec.name not in {*files, *asked.shapes}]
    ones = [str(s) for s in drawn if any(m == 1 != n for n, m in zip(s.sizes or (), arrays[s.name].shape, strict=True))]
    return arrays, [f"sizes without -f and -b are 1: {', '.join(ones)}"] * bool(ones)


def _cost(name: str, contender: str, run: Any, inputs: Sequence[Any], loading: float) -> Cost:
    """The costs of a contender; XLA's only of what is compiled."""
    steps, peak, floor = (0.0, 0.0, 0.0), None, sum(array.nbytes for array in inputs)
    if isinstance(run, Executable):
        steps, peak, floor = run.seconds, run.peak, run.floor
    return Cost(name, OPERATOR, contender, *steps, 0.0, peak, floor, loading)


def _timed_in_turn(path: str, runs: Mapping[str, CallRun], moved: int, effort: Effort) -> list[Measured]:
    """The rows of all runs, beside a copy of as many bytes, or of what no cache holds, which takes as long a byte."""
    copied = min(max(1, moved), CACHE)
    case = Case(OPERATOR, path, needed=copied)
    rows = measure_runs(case, {**runs, COPY: copy_of(copied, 1)}, effort, COPY)
    scale = moved / copied
    return [replace(row, moved=moved, of_copy=row.of_copy * scale) for row in rows if row.contender != COPY]


# Results.


def _compared(row: Measured, ours: Sequence[Any], others: Sequence[Any], bound: float) -> Measured:
    """The row, with the distance of the results of dml_jax from its own: the largest of all outputs."""
    errors = [_error(*pair) for pair in zip(ours, others, strict=True)]
    error = None if None in errors else max(filter(None, errors), default=0.0)
    return replace(row, error=error, same_bits=error is not None and error <= bound)


def _error(ours: Any, other: Any) -> float | None:
    """The largest difference, as a part of the largest finite number of the other one.

    None if shapes differ, NaNs and infinities stand elsewhere, or all finite numbers should be 0.
    """
    if ours.shape != other.shape:
        return None
    a, b = (np.asarray(thin(x, COMPARED)).astype(np.complex128) for x in (ours, other))
    with np.errstate(invalid="ignore"):
        differences = np.abs(a - b)[(a != b) & ~(np.isnan(a) & np.isnan(b))]
    most, largest = np.max(differences, initial=0), np.max(np.abs(b[np.isfinite(b)]), initial=0)
    if not most:
        return 0.0
    return float(most / largest) if np.isfinite(most) and largest else None


def _faults(bound: float, rows: Sequence[Any]) -> Iterator[str]:
    """A sentence for each contender whose results are others."""
    for row in rows:
        if isinstance(row, Measured) and not row.same_bits:
            by = "in shape, NaN or infinities" if row.error is None else f"by {row.error:.2g} of the largest number"
            yield f"results differ from those of {NAMES[row.contender]} {by}; --bound is {bound:g}"


# The table.


def table(title: str, rows: Sequence[Any], implementations: Sequence[str], peak: float | None) -> Group:
    """A line for each file, and below it what has to be said of some."""
    costs = {row.case: row for row in rows if isinstance(row, Cost) and row.contender == OURS}
    cases = dict(by_case(row for row in rows if isinstance(row, Measured)))
    short = dict(zip(cases, _shortened([case.removeprefix(f"{OPERATOR} ") for case in cases]), strict=True))
    others = implementations[1:]
    head = ["model", "ms", "spread", *(f"x {name}" for name in others), *(["error"] if RUNTIME in others else [])]
    lines = [[escape(short[case]), *_cells(found, others), *_cost_cells(costs[case])] for case, found in cases.items()]
    said = [Text(f"{short[case]}: {why}") for case, found in cases.items() if (why := found[OURS].why)]
    return Group(unframed(title, [*head, "load s", "trace s", "compile s", "MiB"], lines), *said)


def _cells(found: Mapping[str, Measured], others: Sequence[str]) -> list[str]:
    ours, ms = found[OURS], 1e3 * found[OURS].seconds
    error = found[RUNTIME].error if RUNTIME in found else None
    shown = [f"{ms:.3f}" if ms < 10 else f"{ms:.1f}", spread_of(ours), *(ratio(ours, found.get(n)) for n in others)]
    return [*shown, *(["-" if error is None else f"{error:.1e}"] if RUNTIME in others else [])]


def _cost_cells(cost: Cost) -> list[str]:
    compiled = [f"{cost.tracing + cost.lowering:.2f}", f"{cost.compiling:.2f}"] if cost.compiling else ["-", "-"]
    return [f"{cost.loading:.2f}", *compiled, f"{cost.peak / 2**20:.1f}" if cost.peak else "-"]


def _shortened(paths: Sequence[str]) -> list[str]:
    """The paths without the folder that all of them are in."""
    folder = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in paths])
    return [os.path.relpath(path, folder) for path in paths]
