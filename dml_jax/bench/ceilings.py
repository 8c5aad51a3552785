"""Bandwidth ceilings of a device: reading, writing, copying, scaling and a triad, each as a program of JAX."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.table import Table

from .case import Case, mega, normal
from .contenders import Contender, JaxRun
from .measuring import Measured
from .report import of_peak, spread_of
from .section import Section, of_cases

__all__ = ["KERNELS", "OPERATOR", "Ceiling", "Kernel", "cases", "section", "table"]

OPERATOR, FACTOR = "ceiling", np.float32(3)
SUMS = 1024  # enough for the cores of any device, and 4 KB of results count as nothing beside what is read
LEGEND = """\
ceiling          read: sums of rows; write: a fill; copy: a negation; scale: y = a*x; triad: y = x + a*z; of float32
GB/s             bytes that are read and written, of arrays of n bytes n, n, 2n, 2n and 3n, by the median time of a call
of peak          the same as a part of the bandwidth on the data sheet of the device, where it is known
of copy          the same as a part of that of a copy of as many bytes in the same rounds"""


@dataclass(frozen=True)
class Kernel:
    """A program that nothing in memory can be faster than.

    Args:
      function: of the factor, if it has one, and arrays of float32; the last argument is the number of elements.
      arrays: that it reads.
      moved: how many arrays of as many bytes are read and written.
      has_factor: whether a scalar comes first, which is data: XLA cannot fold it.
    """

    function: Callable[..., jax.Array]
    arrays: int
    moved: int
    has_factor: bool


KERNELS = {
    "read": Kernel(lambda x, n: jnp.sum(x.reshape(SUMS, n // SUMS), axis=1), 1, 1, has_factor=False),
    "write": Kernel(lambda a, n: jnp.broadcast_to(a, (n,)), 0, 1, has_factor=True),
    "copy": Kernel(lambda x, n: -x, 1, 2, has_factor=False),
    "scale": Kernel(lambda a, x, n: a * x, 1, 2, has_factor=True),
    "triad": Kernel(lambda a, x, z, n: x + a * z, 2, 3, has_factor=True),
}


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
        yield Ceiling(
            OPERATOR,
            f"{name} float32 {mega(moved)}",
            {},
            lambda kernel=kernel, n=n: (
                *(FACTOR for _ in range(kernel.has_factor)),
                *(normal((n,), 4) for _ in range(kernel.arrays)),
            ),
            moved,
            function=lambda *arrays, kernel=kernel, n=n: kernel.function(*arrays, n),
        )


def section(size: int) -> Section:
    """The ceilings of the device, with a table of their own.

    Args:
      size: bytes that each kernel reads and writes, about.
    """
    jitted = Contender("jax", lambda case, turns: JaxRun(case.call, turns, bound=True))
    return replace(of_cases("ceilings of its memory", cases(size), [jitted]), table=table, legend=LEGEND)


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
