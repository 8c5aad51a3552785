"""Coordinate transformations of ONNX's Resize: output to input coordinates, as rationals if sizes are given."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, inf
from typing import Any

import jax
import numpy as np

from ..errors import ConstraintError
from ..operations.interpolation_coordinates import FAR, Positions, exact_positions
from .layout import axes_of
from .values import Array, known, known_ints

# A float where scales are given: the float32 of the file. A rational where sizes are given, which are exact.
Real = float | Fraction
CROP = "tf_crop_and_resize"
HALF = Fraction(1, 2)
# A coordinate o of the output lies at (o - after) / scale - before: both offsets and the scale, by the sizes before and
# after, the scale that is asked for, and the region.
_LAWS: Mapping[str, Callable[[int, int, Real, Real, Real], tuple[Real, Real, Real]]] = {
    "half_pixel": lambda n, m, scale, *_: (HALF, -HALF, scale),
    "pytorch_half_pixel": lambda n, m, scale, *_: (HALF, -HALF, scale) if m > 1 else (0, 0, inf),
    "half_pixel_symmetric": lambda n, m, scale, *_: (HALF - HALF * n * (1 - m / (scale * n)), -HALF, scale),
    "align_corners": lambda n, m, scale, *_: (0, 0, (scale * n - 1) / (n - 1) if min(n, m) > 1 else inf),
    "asymmetric": lambda n, m, scale, *_: (0, 0, scale),
    "tf_half_pixel_for_nn": lambda n, m, scale, *_: (0, -HALF, scale),
    CROP: lambda n, m, scale, start, end: _cropped(n, m, start, end),
}
# Elements of a dimension that changes: its tables take tens of bytes for each.
LONGEST = 2**27


def _cropped(n: int, m: int, start: Real, end: Real) -> tuple[Real, Real, Real]:
    length = (end - start) * (n - 1)
    if m == 1:
        return -(start + end) * HALF * (n - 1), 0, inf
    return -start * (n - 1), 0, (m - 1) / length if length else inf


@dataclass(frozen=True)
class Grid:
    """The input coordinates of output elements o, per dimension: (o - after) / scale - before.

    Args:
      sizes: of the output.
      asked: the scales that a caller means.
      before, after, scales: numbers of the law; rationals if sizes are given.
      is_exact: whether sizes are given.
    """

    sizes: tuple[int, ...]
    asked: tuple[Real, ...]
    before: tuple[Real, ...]
    after: tuple[Real, ...]
    scales: tuple[Real, ...]
    is_exact: bool

    def positions(self, axis: int) -> Positions:
        """Returns exact positions as integers and a unit where sizes are given, else in float32."""
        count, before, after, scale = self.sizes[axis], self.before[axis], self.after[axis], self.scales[axis]
        if self.is_exact:
            return exact_positions(count, scale, before, after)
        # Computed in float64: on an element where ONNX's order of operations is so.
        x = ((np.arange(count) - float(after)) / float(scale) - float(before)).clip(-FAR, FAR).astype(np.float32)
        return Positions(np.floor(x).astype(np.int64), x - np.floor(x), 1)

    def is_left(self, axis: int, size: int) -> bool:
        """Whether every element of a dimension stays where it is."""
        return size == self.sizes[axis] and self.scales[axis] == 1 and self.before[axis] == -self.after[axis]

    def outside(self, shape: Sequence[int]) -> np.ndarray:
        """Returns which elements of the output lie outside the input: dimensions that stay have size 1."""
        is_outside = np.zeros([1] * len(shape), bool)
        for d, n in enumerate(shape):
            if self.is_left(d, n):
                continue
            x = self.positions(d)
            beyond = (x.whole < 0) | (x.whole >= n) | ((x.whole == n - 1) & (x.rest > 0))
            is_outside = is_outside | beyond.reshape([-1 if e == d else 1 for e in range(len(shape))])
        return is_outside


def grid_of(
    shape: Sequence[int],
    law: str,
    policy: str = "stretch",
    *,
    roi: Array | None = None,
    scales: Array | None = None,
    sizes: Array | None = None,
    axes: Any = None,
) -> Grid:
    """Returns the sizes and positions that Resize asks for; an empty array is one that is left out."""
    if law not in _LAWS:
        raise ConstraintError(f"coordinate_transformation_mode must be one of {', '.join(_LAWS)}, but it is {law!r}")
    along = axes_of("axes", range(len(shape)) if axes is None else axes, len(shape))
    asked, output_lengths, is_exact = _scales_and_sizes([shape[d] for d in along], scales, sizes, policy)
    for d, m in zip(along, output_lengths, strict=True):
        if jax.export.is_symbolic_dim(m):  # which stays
            continue
        if (shape[d] == 0 and m) or not 0 <= m < (LONGEST if m != shape[d] else 2**31):
            rule = "sizes must be in [0, 2**27) where they change, and 0 where x has none"
            raise ConstraintError(f"{rule}, but there is {m}, and x is {tuple(shape)}")
    number = Fraction if is_exact else float
    starts, ends = _region(law, len(along), roi)
    result: dict[int, Any] = {d: (n, number(1), 0, 0, number(1)) for d, n in enumerate(shape)}
    for d, m, factor, start, end in zip(along, output_lengths, asked, starts, ends, strict=True):
        if (m, factor, start, end) == (shape[d], 1, 0, 1):
            continue
        result[d] = (m, factor, *_law(law, shape[d], m, factor, number(start), number(end)))
    return Grid(*(zip(*result.values(), strict=True) if result else ((),) * 5), is_exact)  # type: ignore[arg-type]


def _law(law: str, n: int, m: int, *rest: Real) -> tuple[Real, Real, Real]:
    """Returns the offsets and the scale of a coordinate transformation; any for no elements."""
    return _LAWS[law](n, m, *rest) if m else (0, 0, 1)


def _scales_and_sizes(
    lengths: Sequence[int], scales: Array | None, sizes: Array | None, policy: str
) -> tuple[Sequence[Real], list[int], bool]:
    """Returns the scales and the sizes along the dimensions that are resized, and whether sizes are given."""
    factors, wanted = (
        [] if given is None else known(name, given) for name, given in (("scales", scales), ("sizes", sizes))
    )
    if (len(factors), len(wanted)) not in ((len(lengths), 0), (0, len(lengths))):
        rule = f"there must be {len(lengths)} scales or sizes"
        raise ConstraintError(f"{rule}, but there are {len(factors)} and {len(wanted)}")
    if len(wanted):
        return *_from_sizes(lengths, known_ints("sizes", wanted), policy), True
    return *_from_scales(lengths, factors), False


def _from_scales(lengths: Sequence[int], factors: Any) -> tuple[list[float], list[int]]:
    """Returns the scales, and the output sizes computed from them in float32; a scale of 1 keeps any size."""
    if not all(0 < factor < inf for factor in factors):
        raise ConstraintError(f"scales must be positive and finite, but they are {[float(f) for f in factors]}")
    with np.errstate(over="ignore"):
        lengths_scaled = [
            n if factor == 1 else int(min(np.float32(n) * np.float32(factor), 2.0**62))
            for n, factor in zip(lengths, factors, strict=True)
        ]
    return [float(factor) for factor in factors], lengths_scaled


def _from_sizes(lengths: Sequence[int], wanted: Sequence[int], policy: str) -> tuple[list[Fraction], list[int]]:
    """Returns scales and sizes; a single scale if the policy keeps the aspect ratio."""
    factors = [Fraction(m, n) if n else Fraction(1) for n, m in zip(lengths, wanted, strict=True)]
    if policy == "stretch":
        return factors, list(wanted)
    if policy not in ("not_larger", "not_smaller"):
        rule = "keep_aspect_ratio_policy must be stretch, not_larger or not_smaller"
        raise ConstraintError(f"{rule}, but it is {policy!r}")
    factor = min(factors) if policy == "not_larger" else max(factors)
    return [factor] * len(lengths), [floor(factor * n + HALF) for n in lengths]


def _region(law: str, rank: int, roi: Array | None) -> tuple[list[float], list[float]]:
    """Returns the region of interest per resized dimension: all of the input, except for `CROP`."""
    if law != CROP:
        return [0.0] * rank, [1.0] * rank
    region = [] if roi is None else [float(number) for number in known("roi", roi)]
    if len(region) != 2 * rank or not np.isfinite(region).all():
        raise ConstraintError(f"roi must be {2 * rank} finite numbers, starts and ends, but it is {region}")
    return region[:rank], region[rank:]
