"""What variants cost inside programs on a CPU: `python -m benchmarks.inside blocks views --seconds 300 --seed 1`.

A variant that is fast alone may be slower than the plain form beside arithmetic, which XLA fuses with the plain form.
Draws the programs of `benchmarks.variants` that choose a variant, and puts each into other programs: arithmetic, losses
and their gradients. Runs them as chosen, plain, and plain once more, which is the control, in an order that is shuffled
for every round. The CPU time of one core counts, so that a busy machine disturbs little.
"""

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.bench.random_program_section import plainly
from dml_jax.bench.random_programs import GROUPS, Program, drawn
from dml_jax.operations.programs.variant_selection import watch_choices

ROUNDS = 15
Function = Callable[..., Any]


@jax.custom_vjp
def _apart(x: jax.Array) -> jax.Array:
    """`x` in memory, and its cotangent, too: where a convolution stands, with which XLA fuses nothing."""
    return lax.optimization_barrier(x)


_apart.defvjp(lambda x: (_apart(x), None), lambda _, cotangent: (lax.optimization_barrier(cotangent),))


def _loss(of: Callable[[Function, jax.Array, jax.Array], jax.Array]) -> Callable[[Function], Function]:
    """A loss and its gradient by x: the mean of the squares of what `of` makes of f, x and a target."""
    return lambda f: jax.value_and_grad(lambda x, target: jnp.square(of(f, x, target)).mean())


# Of a function of x: a function of x and of an array like its result.
PROGRAMS: Mapping[str, Callable[[Function], Function]] = {
    "alone": lambda f: lambda x, _: f(x),
    "arithmetic before": lambda f: lambda x, _: f(2 * x + 1),
    "arithmetic behind": lambda f: lambda x, _: 2 * f(x) + 1,
    "sum of squares": lambda f: lambda x, _: jnp.square(f(x)).sum(),
    "gradient of a sum of squares": lambda f: lambda x, _: jax.grad(lambda x: jnp.square(f(x)).sum())(x),
    "loss without a target": _loss(lambda f, x, _: f(x)),
    "loss": _loss(lambda f, x, target: f(x) - target),
    "loss behind a layer": _loss(lambda f, x, target: f(_apart(2 * x)) - target),
    "between layers": _loss(lambda f, x, target: _apart(f(_apart(2 * x))) - target),
}


@dataclass(frozen=True)
class Inside:
    """An operator in a program.

    Args:
      name: of the operator and its arrays, for people.
      variant: that it chooses alone, each with its operation.
      program: one of `PROGRAMS`.
      over_plain: how many times as fast as plain it is.
      control: how many times as fast as plain the same program of plain is.
    """

    name: str
    variant: str
    program: str
    over_plain: float
    control: float


def measured(program: Program, order: random.Random) -> Iterator[Inside]:
    """Measures an operator in each of the programs, if it makes one array of an array of floats, and by a variant."""
    x, *others = map(jnp.asarray, program.make())
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return
    with watch_choices() as seen:
        result = jax.eval_shape(program.call, x, *others)
        jax.jit(program.call).lower(x, *others)
    variants = sorted({f"{c.operation}: {c.name}" for c in seen if c.platform == "cpu" and c.name != "plain"})
    if not variants or not hasattr(result, "shape") or not jnp.issubdtype(result.dtype, jnp.floating):
        return
    target = jnp.asarray(np.random.default_rng(0).uniform(-1, 1, result.shape), result.dtype)

    def compiled(name: str, call: Function) -> Function:
        def whole(x: jax.Array, target: jax.Array, *others: jax.Array) -> Any:
            return PROGRAMS[name](lambda x: call(x, *others))(x, target)

        return jax.jit(whole).lower(x, target, *others).compile()

    for name in PROGRAMS:
        plain = compiled(name, plainly(program.call))
        programs = {"chosen": compiled(name, program.call), "plain": plain, "again": plain}
        times = _times(programs, (x, target, *others), order)
        yield Inside(
            program.name,
            ", ".join(variants),
            name,
            times["plain"] / times["chosen"],
            times["plain"] / times["again"],
        )


def _times(programs: Mapping[str, Function], arrays: Sequence[jax.Array], order: random.Random) -> Mapping[str, float]:
    """Seconds of CPU time of each: the lower quartile of its rounds, as others only ever lengthen it."""
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(ROUNDS + 1):
        for name in order.sample(sorted(programs), len(programs)):
            start = time.process_time()
            jax.block_until_ready(programs[name](*arrays))
            times[name].append(time.process_time() - start)
    return {name: sorted(of[1:])[ROUNDS // 4] for name, of in times.items()}


def summary(cases: Sequence[Inside]) -> str:
    """A line for each variant and program."""
    lines = []
    for variant, program in sorted({(case.variant, case.program) for case in cases}):
        some = [case for case in cases if (case.variant, case.program) == (variant, program)]
        over, control = ([getattr(case, field) for case in some] for field in ("over_plain", "control"))
        parts = f"{geometric_mean(over):.2f} x plain, least {min(over):.2f}, control {geometric_mean(control):.2f}"
        lines.append(f"{variant}, {program}: {len(some)} cases, {parts}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.inside", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of programs: {', '.join(GROUPS)} (all of them)")
    parser.add_argument("--seconds", type=float, default=300, metavar="N", help="how long programs are drawn (300)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the programs (0)")
    parser.add_argument("--size", type=float, default=8, metavar="MIB", help="of the data of a program (8)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every case here")
    options = parser.parse_args(arguments)
    if unknown := {*options.groups} - {*GROUPS}:
        parser.error(f"groups are {', '.join(GROUPS)}, but not {', '.join(sorted(unknown))}")
    if hasattr(os, "sched_setaffinity"):  # before XLA starts its threads
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    if jax.default_backend() != "cpu":
        sys.exit("error: CPU time says nothing about other devices; set JAX_PLATFORMS=cpu")
    cases, order = [], random.Random(options.seed)
    for program in drawn(options.seed, int(options.size * 2**20), options.seconds, options.groups):
        for case in measured(program, order):
            cases.append(case)
            print(f"{case.over_plain:6.2f} {case.control:6.2f} {case.variant}, {case.program}: {case.name}", flush=True)  # noqa: T201
    print(summary(cases))  # noqa: T201
    if options.json:
        options.json.write_text(json.dumps([asdict(case) for case in cases], indent=1))


if __name__ == "__main__":
    main()
