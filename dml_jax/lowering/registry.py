"""The list of all variants: the only file that names gpu/ and cpu/."""

from collections.abc import Sequence

from ..operations.programs.variant_selection import Variant
from . import cpu, gpu

VARIANTS: Sequence[Variant] = (*gpu.VARIANTS, *cpu.VARIANTS)
