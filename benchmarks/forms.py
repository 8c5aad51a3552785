"""What every form gains here: `python -m benchmarks.forms` measures each row of each table of forms beside plain.

It says how many times as fast a row is, and how much longer it takes to compile. A row pays if it is 1.15 times as fast
as plain, or 1.5 times if it takes more than twice as long to compile. It is measured in cases that choose it, which are
looked for among those of the benchmark and some made of the row's own values, and every bit of its results is compared
with the plain form's. Needs a quiet machine, and no network.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from pkgutil import iter_modules
from statistics import fmean, geometric_mean
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jaxlib.version
from jax import lax

from dml_jax import lowering, use_form
from dml_jax.bench.case import Case
from dml_jax.bench.contenders import Contender, JaxRun
from dml_jax.bench.measuring import Effort, measure
from dml_jax.files import write_whole
from dml_jax.lowering.forms import JAXLIB, Choice, watch_choices

from .form_cases import Candidate, candidates

__all__ = [
    "COMPILES",
    "LITTLE",
    "PAYS",
    "SLOW",
    "WORTH",
    "Beside",
    "Gain",
    "Row",
    "cases_of",
    "main",
    "report",
    "rows_of",
]

PAYS = 1.15  # times as fast as plain; a row that gains less is marked
COMPILES, WORTH = 2, 1.5  # times as long as plain; a row that takes longer is marked unless it is so many times as fast
LITTLE, SLOW = f"gains less than {PAYS}", f"compiles longer than {COMPILES} x and gains less than {WORTH}"

# Rows of tables.


class Row(NamedTuple):
    """A row of the table of a file of dml_jax/lowering/."""

    table: str
    number: int
    choice: Choice

    @property
    def name(self) -> str:
        """Table, number, form, and where it is chosen."""
        where = ", ".join(f"{field} {_shown(allowed)}" for field, allowed in self.choice.where.items())
        return f"{self.table}[{self.number}] {self.choice.form}: {where}"

    @property
    def may_run(self) -> bool:
        """Whether a program of one device, which is all that is measured here, may have it with this jaxlib."""
        where = self.choice.where
        return 1 in where.get("devices", {1}) and JAXLIB in where.get("jaxlib", {JAXLIB})


def rows_of(platform: str) -> list[Row]:
    """The rows of all tables that are of a platform, as jax.lax.platform_dependent names it."""
    modules = {
        found.name: import_module(f"{lowering.__name__}.{found.name}") for found in iter_modules(lowering.__path__)
    }
    tables = {name: module.TABLE for name, module in modules.items() if hasattr(module, "TABLE")}
    rows = [Row(name, number, choice) for name, table in tables.items() for number, choice in enumerate(table)]
    return [row for row in rows if row.choice.platform == platform]


def _shown(allowed: Any) -> str:
    if isinstance(allowed, range):
        return f"{allowed.start} to {allowed.stop - 1}" if allowed.stop < 2**60 else f"from {allowed.start}"
    return "/".join(map(str, sorted(allowed)))


# Cases that choose them.


def cases_of(rows: Sequence[Row], found: Iterator[Candidate], platform: str, most: int) -> list[list[Candidate]]:
    """For each row up to `most` cases that choose it, first one for each of its values."""
    by_values: list[dict[tuple[Any, ...], list[Candidate]]] = [{} for _ in rows]
    for candidate in found:
        for chosen in _choices(candidate, platform):
            for row, of in zip(rows, by_values, strict=True):
                if chosen.rows.get(platform) is row.choice:
                    values = tuple(chosen.case[field] for field in row.choice.where if _is_listed(row, field))
                    of.setdefault(values, []).append(candidate)
    return [_spread(of.values(), most) for of in by_values]


def _is_listed(row: Row, field: str) -> bool:
    return not isinstance(row.choice.where[field], range)


def _choices(candidate: Candidate, platform: str) -> list[Any]:
    arrays = candidate.case.make()
    with jax.enable_x64(candidate.case.needs_x64(arrays)), watch_choices() as seen:
        shapes = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]
        jax.jit(candidate.function).trace(*shapes).lower(lowering_platforms=(platform,))
    return seen


def _spread(groups: Iterable[Sequence[Candidate]], most: int) -> list[Candidate]:
    """One of each group, then a second one of each, and so on, far apart in their group; no case twice."""
    turns = [one for turn in zip_longest(*(_far_apart(group, most) for group in groups)) for one in turn if one]
    return list({one.case.name: one for one in turns}.values())[:most]


def _far_apart(group: Sequence[Candidate], most: int) -> list[Candidate]:
    count = min(most, len(group))
    return [group[(len(group) - 1) * i // max(1, count - 1)] for i in range(count)]


# Measuring.


class Beside(NamedTuple):
    """A case beside plain: how many times as fast it is, and the seconds that both take to compile."""

    speed: float
    seconds: float
    of_plain: float

    @property
    def compiling(self) -> float:
        """How many times as long it takes to compile."""
        return self.seconds / self.of_plain


class Gain(NamedTuple):
    """What a row gains, by case."""

    row: Row
    measured: Mapping[str, Beside]

    @property
    def least(self) -> float:
        return min(case.speed for case in self.measured.values())

    @property
    def mean(self) -> float:
        return geometric_mean(case.speed for case in self.measured.values())

    @property
    def compiling(self) -> float:
        return geometric_mean(case.compiling for case in self.measured.values())

    @property
    def longer(self) -> float:
        """How many seconds longer compiling takes, in the mean."""
        return fmean(case.seconds - case.of_plain for case in self.measured.values())

    @property
    def is_slow(self) -> bool:
        return self.compiling > COMPILES

    @property
    def marks(self) -> list[str]:
        """Why the row should go; none if it pays."""
        return [LITTLE] * (self.mean < PAYS) + [SLOW] * (self.is_slow and self.mean < WORTH)


def _gain(row: Row, found: Sequence[Candidate], effort: Effort) -> Gain:
    return Gain(row, {candidate.case.name: _beside_plain(candidate, effort) for candidate in found})


def _beside_plain(candidate: Candidate, effort: Effort) -> Beside:
    def plain(*arrays: jax.Array) -> Any:
        with use_form("plain"):
            return candidate.function(*arrays)

    arrays = candidate.case.make()
    case = replace(candidate.case, make=lambda: arrays)  # once, which takes longer than a GPU needs for the rest
    functions = {"dml_jax": candidate.function, "plain": plain}
    contenders = [
        Contender(name, lambda _, turns, function=function: JaxRun(function, turns, bound=True))
        for name, function in functions.items()
    ]
    seconds = [_time_compiling(Candidate(case, function)) for function in functions.values()]
    _check_bits(case, *functions.values())
    chosen, other = measure(case, contenders, effort)
    return Beside(other.low / chosen.low, *seconds)  # the quartile that others disturb least


def _time_compiling(candidate: Candidate) -> float:
    """Seconds to trace, lower and compile for the first time; XLA keeps what it tuned, and a second one takes less."""
    arrays = candidate.case.make()
    with jax.enable_x64(candidate.case.needs_x64(arrays)):
        shapes = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]
        start = time.perf_counter()
        jax.jit(candidate.function).lower(*shapes).compile()
        return time.perf_counter() - start


def _check_bits(case: Case, chosen: Callable[..., Any], plain: Callable[..., Any]) -> None:
    """Compares every element of the two results, by the tolerance of the case where it adds up.

    Raises:
      ArithmeticError: they differ.
    """
    arrays = case.make()
    with jax.enable_x64(case.needs_x64(arrays)):
        on_device = jax.device_put(arrays)
        both = zip(*(jax.tree.leaves(jax.jit(of)(*on_device)) for of in (chosen, plain)), strict=True)
        if not all(_is_same(*pair, case.tolerance) for pair in both):
            raise ArithmeticError(f"{case.name}: the form that the tables choose gives other bits than the plain one")


def _is_same(one: jax.Array, other: jax.Array, tolerance: float) -> bool:
    """On the device: a result of many bytes takes seconds to arrive."""
    if not tolerance:
        return bool(jnp.array_equal(_bytes(one), _bytes(other)))
    one, other = (array.astype(jnp.promote_types(array.dtype, jnp.float32)) for array in (one, other))
    return bool(jnp.allclose(one, other, 0, tolerance * jnp.abs(other).max(), equal_nan=True))


def _bytes(array: jax.Array) -> jax.Array:
    return lax.bitcast_convert_type(array.astype(jnp.uint8) if array.dtype == jnp.bool_ else array, jnp.uint8)


def report(gain: Gain) -> str:
    """The row, its means, marks if it does not pay, and every case: its gain, how much longer it compiles, its name."""
    means = f"  least {gain.least:.2f}, geometric mean {gain.mean:.2f}, {_compiling(gain)}"
    cases = [f"    {case.speed:.2f}  {case.compiling:.2f} x  {name}" for name, case in gain.measured.items()]
    return "\n".join([gain.row.name, "  ".join([means, *gain.marks]), *cases])


def _compiling(gain: Gain) -> str:
    return f"compiling {gain.compiling:.2f} x, {gain.longer:+.2f} s"


def _stored(gains: Sequence[Gain]) -> dict[str, Any]:
    """What was measured, with what it was measured on."""
    return {
        "device": jax.devices()[0].device_kind,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"jax": jax.__version__, "jaxlib": jaxlib.version.__version__},
        "rows": [_stored_row(gain) for gain in gains],
    }


def _stored_row(gain: Gain) -> dict[str, Any]:
    of = gain.row
    return {
        "row": of.name,
        "platform": of.choice.platform,
        "least": gain.least,
        "mean": gain.mean,
        "compiling": gain.compiling,
        "longer": gain.longer,
        "pays": not gain.marks,
        "cases": {name: {**case._asdict(), "compiling": case.compiling} for name, case in gain.measured.items()},
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints what each row gains. Exit status: 0 done, 1 a row has no case or other bits than plain, 2 misused."""
    platform = {"gpu": "cuda"}.get(jax.default_backend(), jax.default_backend())
    parser = argparse.ArgumentParser(prog="python -m benchmarks.forms", description=__doc__)
    parser.add_argument("-k", metavar="TEXT", default="", help="only rows with this in their names")
    parser.add_argument("--most", type=int, default=3, metavar="N", help="cases of a row (3)")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="samples of each form in a case (7)")
    parser.add_argument("--size", type=int, metavar="MIB", help="of the data of a case (16 on a CPU, else 128)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured here, too")
    given = parser.parse_args(arguments)
    size = (given.size or (16 if platform == "cpu" else 128)) * 2**20
    named = [row for row in rows_of(platform) if given.k in row.name]
    if not named:
        parser.error(f"no row of a table for {platform} has {given.k!r} in its name")
    rows = [row for row in named if row.may_run]
    for row in named:
        if row not in rows:
            print(f"left out, as it is for several devices or another jaxlib: {row.name}", flush=True)  # noqa: T201
    print(f"looking for cases of {len(rows)} rows, which takes minutes for all of them", file=sys.stderr)  # noqa: T201
    found = cases_of(rows, candidates(rows, size), platform, given.most)
    if missing := [row.name for row, each in zip(rows, found, strict=True) if not each]:
        sys.exit("error: no case chooses these rows; add one to benchmarks/form_cases.py:\n" + "\n".join(missing))
    _time_compiling(found[0][0])  # the first program also loads the compiler
    gains = []
    for row, each in zip(rows, found, strict=True):
        try:
            gains.append(_gain(row, each, Effort(given.rounds, seconds=0.01)))
        except ArithmeticError as error:
            sys.exit(f"error: {row.name}: {error}")
        print(report(gains[-1]), flush=True)  # noqa: T201
        if given.json:  # after every row, so that an interrupted run keeps what it measured
            write_whole(given.json, (json.dumps(_stored(gains), indent=1) + "\n").encode())
    marks = [mark for gain in gains for mark in gain.marks]
    counts = ", ".join(f"{marks.count(mark)} {mark}" for mark in (LITTLE, SLOW))
    slow = sum(gain.is_slow for gain in gains)
    device = jax.devices()[0].device_kind
    print(f"{len(gains)} rows on {device}: {counts}; {slow} compile longer than {COMPILES} x")  # noqa: T201


if __name__ == "__main__":
    main()
