"""Bandwidth ceilings of a device: read, write, copy, scale and triad (STREAM), beside its data sheet."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from rich.table import Table

from .case import Case, Drawn, mib, normal
from .implementations import compiled
from .section import Section, of_cases, of_peak, spread_of, unframed
from .timing import Measured


@dataclass(frozen=True)
class Peak:
    """A kind of device.

    Args:
      kinds: its names as JAX has them in `jax.Device.device_kind`. Whole names: a slice of a GPU has the same one with
        more behind it, and less bandwidth.
      bandwidth: bytes a second that its memory moves; where each die of a GPU is a device of JAX, of one die.
      source: where its maker says so.
      cache: bytes of its L2 cache by NVIDIA's tuning guides of its architecture; None where they say nothing.
    """

    kinds: tuple[str, ...]
    bandwidth: float
    source: str
    cache: int | None = None


def _nvidia(names: str, bandwidth: float, source: str, cache: int | None = None) -> Peak:
    return Peak(tuple(f"NVIDIA {name}" for name in names.split(", ")), bandwidth, _NVIDIA + source, cache)


def _tpu(names: str, bandwidth: float, source: str) -> Peak:
    return Peak(tuple(f"TPU {name}" for name in names.split(", ")), bandwidth, _GOOGLE + source)


_NVIDIA, _GOOGLE = "https://www.nvidia.com/", "https://docs.cloud.google.com/tpu/docs/"
_AMD = "https://www.amd.com/en/products/accelerators/instinct/"
_A100 = "content/dam/en-zz/Solutions/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf"
_H100_PCIE = "content/dam/en-zz/Solutions/gtcs22/data-center/h100/PB-11133-001_v01.pdf"
_H100, _H200 = "en-us/data-center/h100/", "en-us/data-center/h200/"

# TPUs before v4, and v7, have two devices of JAX on a chip, and their pages say what the chip has: they have no row.
PEAKS = (
    Peak(("Tesla V100-SXM2-16GB", "Tesla V100-SXM2-32GB"), 900e9, _NVIDIA + "en-us/data-center/v100/", 6 * 2**20),
    Peak(("Tesla T4",), 320e9, _NVIDIA + "en-us/data-center/tesla-t4/", 4 * 2**20),
    _nvidia("A100-SXM4-40GB, A100-PCIE-40GB", 1555e9, _A100, 40 * 2**20),
    _nvidia("A100 80GB PCIe", 1935e9, _A100, 40 * 2**20),
    _nvidia("A100-SXM4-80GB", 2039e9, _A100, 40 * 2**20),
    _nvidia("L4", 300e9, "en-us/data-center/l4/"),
    _nvidia("L40S", 864e9, "en-us/data-center/l40s/"),
    _nvidia("H100 PCIe", 2000e9, _H100_PCIE, 50 * 2**20),
    _nvidia("H100 80GB HBM3", 3350e9, _H100, 50 * 2**20),
    _nvidia("H100 NVL", 3900e9, _H100, 50 * 2**20),
    _nvidia("H200, H200 NVL", 4800e9, _H200, 50 * 2**20),
    _nvidia("B200", 7700e9, "en-us/data-center/hgx/", 126 * 2**20),
    _nvidia("GB200", 8000e9, "en-us/data-center/gb200-nvl72/", 126 * 2**20),
    Peak(("AMD Instinct MI250X", "AMD Instinct MI250X / MI250"), 1600e9, _AMD + "mi200/mi250x.html"),
    Peak(("AMD Instinct MI300X", "AMD Instinct MI300X VF"), 5300e9, _AMD + "mi300/mi300x.html"),
    Peak(("AMD Instinct MI325X",), 6000e9, _AMD + "mi300/mi325x.html"),
    _tpu("v4", 1200e9, "v4"),
    _tpu("v5 lite, v5e", 819e9, "v5e"),
    _tpu("v5, v5p", 2765e9, "v5p"),
    _tpu("v6 lite, v6e", 1638e9, "v6e"),
)


def known_device(kind: str) -> Peak | None:
    """The row of a device by JAX's name for it; None for CPUs and unlisted devices."""
    return next((peak for peak in PEAKS if kind in peak.kinds), None)


def peak_of(kind: str, devices: int = 1) -> float | None:
    """Peak bytes per second of `devices` devices of a kind; None if unknown."""
    found = known_device(kind)
    return found and found.bandwidth * devices


OPERATOR, FACTOR = "ceiling", 3
SUMS = 1024  # enough for the cores of any device, and 4 KB of results count as nothing beside what is read
LEGEND = """\
ceiling          read: sums of rows; write: a fill; copy: a negation; scale: y = a*x; triad: y = x + a*z; of float32
GB/s             bytes that are read and written, of arrays of n bytes n, n, 2n, 2n and 3n, by the median time of a call
of peak          the same as a part of the bandwidth on the data sheet of the device, where it is known
of copy          GB/s divided by those of a copy timed in the same rounds; the copy's own line has other rounds"""


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
JITTED = compiled("jax", lambda case: case.call)


def cases(size: int) -> Iterator[Case]:
    """A case of each STREAM kernel, which reads and writes about `size` bytes."""
    for name, kernel in KERNELS.items():
        n = max(1, size // (4 * kernel.moved * SUMS)) * SUMS
        moved = 4 * kernel.moved * n
        factor = Drawn((), np.dtype(np.float32), partial(np.full, (), FACTOR, np.float32))
        arrays = [factor if letter == "a" else normal((n,), 4) for letter in kernel.operands]
        function = partial(kernel.function, n)
        yield Case(OPERATOR, f"{name} float32 {mib(moved)}", {}, arrays, needed=moved, function=function)


def section(size: int) -> Section:
    """The ceilings of the device, by kernels that read and write about `size` bytes, with a table of their own."""
    return replace(of_cases("ceilings of its memory", cases(size), [JITTED]), table=table, legend=LEGEND)


def table(title: str, rows: Sequence[Measured], implementations: Sequence[str], peak: float | None) -> Table:
    """A line for each ceiling: its bandwidth, and that as a part of the peak and of the copy."""

    def cells(row: Measured) -> list[str]:
        parts = [of_peak(row, peak)] if peak else []
        shown = f"{row.moved / row.seconds / 1e9:.1f}", *parts, f"{row.of_copy:.2f}", spread_of(row)
        return [row.case.removeprefix(f"{OPERATOR} "), *shown]

    headings = ["ceiling", "GB/s", *(["of peak"] if peak else []), "of copy", "spread"]
    return unframed(title, headings, map(cells, rows))
