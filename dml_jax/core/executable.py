"""`Executable`: a program that is compiled for its arguments, with the seconds and the bytes that it takes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import jax

from .memory_checks import check_program, program_bytes


@dataclass(frozen=True)
class Executable:
    """A compiled program, and the arguments that it runs on.

    Args:
      program: compiled by jax.jit.
      arguments: of the program.
      seconds: the time to trace, to lower to StableHLO, and to compile it.
    """

    program: Any
    arguments: Sequence[Any]
    seconds: tuple[float, float, float]

    def __call__(self) -> Any:
        return self.program(*self.arguments)

    @property
    def floor(self) -> int:
        """Bytes of the arguments and of the outputs."""
        made = jax.tree.leaves(self.program.out_info)
        return sum(x.nbytes for x in jax.tree.leaves(self.arguments)) + sum(
            prod(x.shape) * x.dtype.itemsize for x in made
        )

    @property
    def peak(self) -> int | None:
        """Bytes of arguments, outputs and temporary arrays while it runs; None where XLA does not tell."""
        return sum(program_bytes(self.program).values()) or None


def compile_in_steps(
    function: Callable[..., Any], arguments: Sequence[Any], check: Callable[[Any], None] = lambda traced: None
) -> Executable:
    """Compiles a function for arguments.

    Args:
      function: of arrays; not jitted.
      arguments: arrays or trees of them.
      check: is called with what was traced, before it is lowered.

    Raises:
      ConstraintError: `check` does, or the program needs more memory than there is.
    """
    times = [time.perf_counter()]
    traced = jax.jit(lambda *arguments: function(*arguments)).trace(*arguments)  # new, so that JAX has kept nothing
    check(traced)
    times.append(time.perf_counter())
    lowered = traced.lower()
    times.append(time.perf_counter())
    program = lowered.compile()
    times.append(time.perf_counter())
    check_program(program)
    tracing, lowering, compiling = (after - before for before, after in pairwise(times))
    return Executable(program, arguments, (tracing, lowering, compiling))
