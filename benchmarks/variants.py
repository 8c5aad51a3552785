"""What the variants gain on random shapes: `python -m benchmarks.variants --seconds 300 --seed 1`.

Draws programs of the operators, and runs each as it is chosen, as plain, as plain once more, which is the control, and
beside a copy, in an order that is shuffled for every round. Compares every bit. Prints for each group of programs and
for each variant how many times as fast as plain it is. Needs a quiet machine, and no network.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import geometric_mean
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib.version
from jax import lax

from dml_jax.atomic_write import write_whole
from dml_jax.bench.case import Arrays, Case
from dml_jax.bench.implementations import Implementation, JaxRun
from dml_jax.bench.random_program_section import plainly
from dml_jax.bench.random_programs import GROUPS, Program, drawn
from dml_jax.bench.timing import Effort, measure
from dml_jax.operations.programs.variant_selection import watch_choices

SLOW = 0.9  # times as fast as plain; whatever is slower counts
EFFORT = Effort(rounds=6, seconds=0.02)
PLATFORM = {"gpu": "cuda"}.get(jax.default_backend(), jax.default_backend())
INTERRUPTED = 130  # the exit status after Ctrl-C


@dataclass(frozen=True)
class Measured:
    """One program.

    Args:
      group: one of `GROUPS`.
      name: for people.
      variants: that were chosen, each with its operation; "plain" if none was.
      over_plain: how many times as fast as plain it is.
      control: how many times as fast as plain the same program of plain is.
      over_old: how many times as fast as the other package; None without one.
      of_copy: the part of a copy's speed that it has.
      compiling: how many times as long as plain it takes to trace, lower and compile.
      same: whether its results are those of plain: bits, or what is close where the program rounds.
    """

    group: str
    name: str
    variants: str
    over_plain: float
    control: float
    over_old: float | None
    of_copy: float
    compiling: float
    same: bool


# Measuring.


class Compiled(JaxRun):
    """Compiles before the first call, and says how many seconds that took."""

    def __init__(self, function: Callable[..., Any], turns: Sequence[Arrays]):
        start = time.perf_counter()
        jax.eval_shape(function, *turns[0])
        traced = time.perf_counter() - start
        super().__init__(function, turns, donated=True)
        start, called = time.perf_counter(), self.called
        self.called = called.lower(self.out, *self.turns[0]).compile()
        self.seconds = traced + time.perf_counter() - start


def measured(program: Program, order: random.Random, old: ModuleType | None = None) -> Measured:
    """Compiles the implementations, runs them in turn, and compares their results."""
    functions = {"chosen": program.call, "plain": plainly(program.call), **({"old": program.of(old)} if old else {})}
    runs: dict[str, Compiled] = {}

    def start(name: str, program: Case, turns: Sequence[Arrays]) -> Compiled:
        runs[name] = Compiled(functions[name], turns)
        return runs[name]

    found = [Implementation(name, partial(start, name)) for name in order.sample(sorted(functions), len(functions))]
    with watch_choices() as seen:
        rows = measure(program, [*found, Implementation("plain again", lambda *_: runs["plain"])], EFFORT)
    times = {row.contender: row for row in rows}
    variants = {f"{choice.operation}: {choice.name}" for choice in seen if choice.platform == PLATFORM}
    over = {name: row.seconds / times["chosen"].seconds for name, row in times.items()}
    return Measured(
        program.group,
        program.name,
        ", ".join(sorted(name for name in variants if not name.endswith(": plain"))) or "plain",
        over["plain"],
        over["plain"] / over["plain again"],
        over.get("old"),
        times["chosen"].of_copy,
        runs["chosen"].seconds / runs["plain"].seconds,
        all(_is_same(run.out, runs["plain"].out, program.tolerance) for run in runs.values()),
    )


def _is_same(result: Any, plain: Any, tolerance: float) -> bool:
    """Every element, on the device, as a large result takes seconds to arrive."""
    pairs = zip(jax.tree.leaves(result), jax.tree.leaves(plain), strict=True)
    return all(bool(_is_close(*pair, tolerance)) for pair in pairs)


def _is_close(one: jax.Array, other: jax.Array, tolerance: float) -> jax.Array:
    if not tolerance or not jnp.issubdtype(one.dtype, jnp.floating):
        return jnp.array_equal(_bytes(one), _bytes(other)) & (one.dtype == other.dtype)
    one, other = one.astype(jnp.float32), other.astype(jnp.float32)
    return jnp.allclose(one, other, 0, tolerance * float(jnp.abs(other).max()), equal_nan=True)


def _bytes(array: jax.Array) -> jax.Array:
    return array if array.dtype == jnp.bool_ else lax.bitcast_convert_type(array, jnp.uint8)


# Reports.


def summary(title: str, cases: Sequence[Measured]) -> str:
    """A line: how many cases, and their geometric means and shares."""
    of = lambda field: geometric_mean(getattr(case, field) for case in cases)  # noqa: E731
    slow, control = sum(case.over_plain < SLOW for case in cases), sum(case.control < SLOW for case in cases)
    parts = [
        f"{len(cases)} cases",
        f"{of('over_plain'):.2f} x plain",
        f"control {of('control'):.2f}",
        f"{100 * max(0, slow - control) / len(cases):.0f} % below {SLOW} beyond the control",
        f"{of('of_copy'):.2f} of a copy",
        f"compiling {of('compiling'):.2f} x plain",
        *([f"{of('over_old'):.2f} x old"] if cases[0].over_old is not None else []),
    ]
    return f"{title}: {', '.join(parts)}"


def _summaries(cases: Sequence[Measured]) -> list[str]:
    by_group = {group: [case for case in cases if case.group == group] for group in GROUPS}
    by_variant = {
        name: [case for case in cases if case.variants == name] for name in sorted({c.variants for c in cases})
    }
    lines = [summary(group, some) for group, some in by_group.items() if some]
    return [*lines, "", *(summary(name, some) for name, some in by_variant.items())]


# The command.


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Exit status: 0 done, 1 an error or results that differ, 2 misused, 130 interrupted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.variants", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of programs: {', '.join(GROUPS)} (all of them)")
    parser.add_argument("--seconds", type=float, default=300, metavar="N", help="how long programs are drawn (300)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the programs (0)")
    parser.add_argument("--size", type=int, metavar="MIB", help="of the data of a program (16 on a CPU, else 128)")
    parser.add_argument("--old", type=_package, metavar="NAME", help="another version of this package, to import")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every case here")
    options = parser.parse_args(arguments)
    if unknown := {*options.groups} - {*GROUPS}:
        parser.error(f"groups are {', '.join(GROUPS)}, but not {', '.join(sorted(unknown))}")
    size = options.size or (16 if PLATFORM == "cpu" else 128)
    _say(f"jax {jax.__version__} on {jax.devices()[0].device_kind}, {size} MiB, seed {options.seed}")
    cases, status = _draw(drawn(options.seed, size * 2**20, options.seconds, options.groups), options)
    if cases:
        _say("\n".join(_summaries(cases)))
    if options.json:
        _store(options.json, {"seed": options.seed, "size": size, "cases": [asdict(case) for case in cases]})
    return status


def _package(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        raise argparse.ArgumentTypeError(f"no package {name!r} can be imported: {error}") from error


def _draw(programs: Iterator[Program], options: argparse.Namespace) -> tuple[list[Measured], int]:
    """Measures as many as there are; with the exit status."""
    cases, status, order = [], 0, random.Random(options.seed)
    try:
        for program in programs:
            try:
                cases.append(case := measured(program, order, options.old))
                status |= not case.same
                _tell(case)
            except Exception as error:  # the others are worth their time, too
                _say(f"{program.name}: {type(error).__name__}: {error}")
                status = 1
            _count(f"\r{len(cases)} cases ")
    except KeyboardInterrupt:
        status = INTERRUPTED
    _count("\r")
    return cases, int(status)


def _count(text: str) -> None:
    """On a terminal alone: in a file the lines would stand one behind the other."""
    if sys.stderr.isatty():
        sys.stderr.write(text)


def _tell(case: Measured) -> None:
    """Of one that is slow or wrong."""
    if case.over_plain < SLOW or not case.same:
        results = "" if case.same else ", OTHER RESULTS"
        speed = f"{case.over_plain:.2f} x plain, control {case.control:.2f}"
        _say(f"{speed}{results}: {case.name} ({case.variants})")


def _store(file: Path, measured: Mapping[str, Any]) -> None:
    versions = {"jax": jax.__version__, "jaxlib": jaxlib.version.__version__}
    date = datetime.now(UTC).isoformat(timespec="seconds")
    document = {"device": jax.devices()[0].device_kind, "date": date, "versions": versions, **measured}
    write_whole(file, (json.dumps(document, indent=1) + "\n").encode())


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
