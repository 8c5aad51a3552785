"""Bandwidth ceilings of a device: reading, writing, copying, scaling and a triad, each as a program of JAX."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.table import Table

from .case import Arrays, Case, mega, normal
from .contenders import Contender, JaxRun
from .measuring import Measured
from .report import of_peak, spread_of
from .section import Section, of_cases

__all__ = ["JITTED", "KERNELS", "OPERATOR", "Ceiling", "Kernel", "cases", "section", "table"]

OPERATOR, FACTOR = "ceiling", 3
SUMS = 1024  # enough for the cores of any device, and 4 KB of results count as nothing beside what is read
LEGEND = """\
ceiling          read: sums of rows; write: a fill; copy: a negation; scale: y = a*x; triad: y = x + a*z; of float32
GB/s             bytes that are read and written, of arrays of n bytes n, n, 2n, 2n and 3n, by the median time of a call
of peak          the same as a part of the bandwidth on the data sheet of the device, where it is known
of copy          the same as a part of that of a copy of as many bytes in the same rounds"""


@dataclass(frozen=True)
class Kernel:
    """A program that no other is expected to be faster than, as it does next to nothing.

    Args:
      operands: a letter each: "a" is the factor, which is data as XLA would fold a constant; the others are arrays.
      moved: how many arrays of as many bytes are read and written.
      function: of the number of elements of an array, and the operands.
    """

    operands: str
    moved: int
    function: Callable[..., jax.Array]


KERNELS = {
    "read": Kernel("x", 1, lambda n, x: jnp.sum(x.reshape(SUMS, n // SUMS), axis=1)),
    "write": Kernel("a", 1, lambda n, a: jnp.broadcast_to(a, (n,))),
    "copy": Kernel("x", 2, lambda n, x: -x),
    "scale": Kernel("ax", 2, lambda n, a, x: a * x),
    "triad": Kernel("axz", 3, lambda n, a, x, z: x + a * z),
}
JITTED = Contender("jax", lambda case, turns: JaxRun(case.call, turns, bound=True))


@dataclass(frozen=True, kw_only=True)
class Ceiling(Case):
    """A kernel on arrays of one size.

    Args:
      function: of arrays.
    """

    function: Callable[..., jax.Array] = field(compare=False)

    def call(self, *arrays: Any) -> Any:
        return self.function(*arrays)


def cases(size: int) -> Iterator[Ceiling]:
    """Each kernel.

    Args:
      size: bytes that it reads and writes, about.
    """
    for name, kernel in KERNELS.items():
        n = max(1, size // (4 * kernel.moved * SUMS)) * SUMS
        moved = 4 * kernel.moved * n
        make, function = partial(_data, kernel.operands, n), partial(kernel.function, n)
        yield Ceiling(OPERATOR, f"{name} float32 {mega(moved)}", {}, make, moved, function=function)


def _data(operands: str, n: int) -> Arrays:
    return tuple(np.full((), FACTOR, np.float32) if letter == "a" else normal((n,), 4) for letter in operands)


def section(size: int) -> Section:
    """The ceilings of the device, with a table of their own.

    Args:
      size: bytes that each kernel reads and writes, about.
    """
    return replace(of_cases("ceilings of its memory", cases(size), [JITTED]), table=table, legend=LEGEND)


def table(title: str, rows: Sequence[Measured], contenders: Sequence[str], peak: float | None) -> Table:
    """A line for each ceiling: its bandwidth, and that as a part of the peak and of the copy."""
    result = Table(title=title, title_justify="left", box=None, pad_edge=False)
    result.add_column("ceiling", overflow="fold")
    for heading in ("GB/s", *(["of peak"] if peak else []), "of copy", "spread"):
        result.add_column(heading, justify="right")
    for row in rows:
        parts = [of_peak(row, peak)] if peak else []
        shown = (f"{row.moved / row.seconds / 1e9:.1f}", *parts, f"{row.of_copy:.2f}", spread_of(row))
        result.add_row(row.case.removeprefix(f"{OPERATOR} "), *shown)
    return result
