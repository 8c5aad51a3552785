"""The memory bandwidth of devices by the data sheets of their makers, and the size of the L2 cache of some."""

from dataclasses import dataclass

__all__ = ["PEAKS", "Peak", "known_device", "peak_of"]


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
    """The row of a device by the name that JAX has for it; None for CPUs and all others without one."""
    return next((peak for peak in PEAKS if kind in peak.kinds), None)


def peak_of(kind: str, devices: int = 1) -> float | None:
    """Bytes a second of so many devices of a kind together; None where it is not known."""
    found = known_device(kind)
    return found and found.bandwidth * devices
