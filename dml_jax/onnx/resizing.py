"""ONNX's Resize and Upsample: by `resample` where DirectML has the mode, else by sums of elements of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..errors import ConstraintError
from ..lowering.taps import Taps, nearest_taps, sample
from ..operators import cast, resample
from .arrange import axes_of
from .values import Array, Operators, known, known_ints, on_device

__all__ = [
    "CROP",
    "NEAREST",
    "OPERATORS",
    "Grid",
    "grid_of",
    "outside",
    "resize",
    "resize_by_scales",
    "upsample_2d",
]

# Which element is the nearest: how `resample` rounds, and what is added to the offset before.
NEAREST = {
    "round_prefer_floor": ("increasing", 0.5),
    "round_prefer_ceil": ("decreasing", -0.5),
    "floor": ("decreasing", 0.0),
    "ceil": ("increasing", 0.0),
}
CROP = "tf_crop_and_resize"
# A coordinate o of the output lies at (o - after) / scale - before: both offsets and the scale, by the sizes before and
# after, the scale that is asked for, and the region.
_LAWS: Mapping[str, Callable[[int, int, float, float, float], tuple[float, float, float]]] = {
    "half_pixel": lambda n, m, scale, *_: (0.5, -0.5, scale),
    "pytorch_half_pixel": lambda n, m, scale, *_: (0.5, -0.5, scale) if m > 1 else (0.0, 0.0, inf),
    "half_pixel_symmetric": lambda n, m, scale, *_: (0.5 - n / 2 * (1 - m / (scale * n)), -0.5, scale),
    "align_corners": lambda n, m, scale, *_: (0.0, 0.0, (scale * n - 1) / (n - 1) if min(n, m) > 1 else inf),
    "asymmetric": lambda n, m, scale, *_: (0.0, 0.0, scale),
    "tf_half_pixel_for_nn": lambda n, m, scale, *_: (0.0, -0.5, scale),
    CROP: lambda n, m, scale, start, end: _cropped(n, m, start, end),
}


def _cropped(n: int, m: int, start: float, end: float) -> tuple[float, float, float]:
    length = (end - start) * (n - 1)
    if m == 1:
        return -(start + end) / 2 * (n - 1), 0.0, inf
    return -start * (n - 1), 0.0, (m - 1) / length if length else inf


@dataclass(frozen=True)
class Grid:
    """Where the elements of an output lie, per dimension: at (o - after) / scale - before.

    Args:
      sizes: of the output.
      asked: the scales that a caller means.
    """

    sizes: tuple[int, ...]
    asked: tuple[float, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]
    scales: tuple[float, ...]

    def positions(self, axis: int) -> np.ndarray:
        """In float32, but computed in float64: on an element where ONNX's order of operations is so."""
        x = (np.arange(self.sizes[axis]) - self.after[axis]) / self.scales[axis] - self.before[axis]
        return x.astype(np.float32)


def resize(
    *,
    x: Array,
    roi: Array | None = None,
    scales: Array | None = None,
    sizes: Array | None = None,
    axes: Any = None,
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
    coordinate_transformation_mode: str = "half_pixel",
    keep_aspect_ratio_policy: str = "stretch",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    antialias: int = 0,
) -> Array:
    if mode not in ("nearest", "linear", "cubic") or nearest_mode not in NEAREST:
        rule = f"mode must be nearest, linear or cubic, and nearest_mode one of {', '.join(NEAREST)}"
        raise ConstraintError(f"{rule}, but they are {mode!r} and {nearest_mode!r}")
    data, dtype = on_device(x), x.dtype
    law, policy = coordinate_transformation_mode, keep_aspect_ratio_policy
    grid = grid_of(x.shape, law, policy, roi=roi, scales=scales, sizes=sizes, axes=axes)
    is_filtered = bool(antialias) and mode != "nearest" and min(grid.asked, default=1) < 1
    excludes = bool(exclude_outside) and mode != "nearest"
    is_rounded = mode == "nearest" and law == "align_corners"
    if mode != "nearest" and jnp.issubdtype(dtype, jnp.integer):  # which ONNX cuts off and DirectML rounds
        data = cast(data, np.float32)
    # DirectML divides by the scale, and an element of aligned corners may lie a little before another.
    if mode == "cubic" or is_filtered or excludes or is_rounded or min(grid.scales, default=1) <= 0:
        kernel = _Kernel(mode, nearest_mode, cubic_coeff_a, is_filtered, excludes)
        y = sample(data, {d: kernel.taps(grid, d, n) for d, n in enumerate(x.shape) if _is_changed(grid, d, n)})
    else:
        rounding, more = NEAREST[nearest_mode] if mode == "nearest" else (None, 0.0)
        y = resample(
            data,
            grid.sizes,
            grid.scales,
            mode=mode,  # type: ignore[arg-type]
            input_pixel_offsets=tuple(offset + more for offset in grid.before),
            output_pixel_offsets=grid.after,
            rounding=rounding,  # type: ignore[arg-type]
        )
    if law == CROP and (beyond := outside(grid, x.shape)).any():
        y = jnp.where(beyond, np.asarray(extrapolation_value, y.dtype), y)
    return cast(y, dtype)


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
    """The sizes and positions that Resize asks for; an empty array is one that is left out."""
    if law not in _LAWS:
        raise ConstraintError(f"coordinate_transformation_mode must be one of {', '.join(_LAWS)}, but it is {law!r}")
    along = axes_of("axes", range(len(shape)) if axes is None else axes, len(shape))
    lengths = [shape[d] for d in along]
    factors, wanted = (
        [] if given is None else known(name, given) for name, given in (("scales", scales), ("sizes", sizes))
    )
    if (len(factors), len(wanted)) not in ((len(along), 0), (0, len(along))):
        rule = f"there must be {len(along)} scales or sizes"
        raise ConstraintError(f"{rule}, but there are {len(factors)} and {len(wanted)}")
    if len(wanted):
        factors, wanted = _fitted(lengths, known_ints("sizes", wanted), policy)
    else:
        if not all(factor > 0 for factor in factors):
            raise ConstraintError(f"scales must be positive, but they are {factors}")
        wanted = [int(np.float32(n) * np.float32(factor)) for n, factor in zip(lengths, factors, strict=True)]
    if bad := [m for n, m in zip(lengths, wanted, strict=True) if (n == 0 and m) or not 0 <= m < 2**31]:
        rule = "sizes must be in [0, 2**31), and 0 where x has none"
        raise ConstraintError(f"{rule}, but there is {bad[0]}, and x is {tuple(shape)}")
    region = [0.0] * len(along) + [1.0] * len(along)
    if law == CROP:
        region = [] if roi is None else [float(number) for number in known("roi", roi)]
        if len(region) != 2 * len(along):
            raise ConstraintError(f"roi must be {2 * len(along)} numbers, starts and ends, but it is {region}")
    result = {d: (n, 1.0, *_law(law, n, n, 1.0, 0.0, 1.0)) for d, n in enumerate(shape)}
    for i, d in enumerate(along):
        start, end = region[i], region[len(along) + i]
        result[d] = (wanted[i], float(factors[i]), *_law(law, shape[d], wanted[i], float(factors[i]), start, end))
    return Grid(*zip(*result.values(), strict=True)) if result else Grid((), (), (), (), ())


def _law(law: str, n: int, m: int, *rest: float) -> tuple[float, float, float]:
    """Offsets and the scale; any for no elements."""
    return _LAWS[law](n, m, *rest) if m else (0.0, 0.0, 1.0)


def _fitted(lengths: Sequence[int], wanted: Sequence[int], policy: str) -> tuple[list[float], list[int]]:
    """Scales and sizes, of one scale if the policy keeps the aspect ratio."""
    factors = [m / n if n else 1.0 for n, m in zip(lengths, wanted, strict=True)]
    if policy == "stretch":
        return factors, list(wanted)
    if policy not in ("not_larger", "not_smaller"):
        rule = "keep_aspect_ratio_policy must be stretch, not_larger or not_smaller"
        raise ConstraintError(f"{rule}, but it is {policy!r}")
    factor = min(factors) if policy == "not_larger" else max(factors)
    return [factor] * len(lengths), [int(factor * n + 0.5) for n in lengths]


def _is_changed(grid: Grid, axis: int, size: int) -> bool:
    return not np.array_equal(grid.positions(axis), np.arange(size))


def outside(grid: Grid, shape: Sequence[int]) -> np.ndarray:
    """Which elements of the output lie beyond those of the input."""
    is_outside = np.zeros(grid.sizes, bool)
    for d, n in enumerate(shape):
        x = grid.positions(d)
        is_outside |= ((x < 0) | (x > n - 1)).reshape([-1 if e == d else 1 for e in range(len(shape))])
    return is_outside


@dataclass(frozen=True)
class _Kernel:
    """What ONNX has beyond DirectML: how much of each neighbour makes an element."""

    mode: str
    nearest_mode: str
    cubic: float
    is_filtered: bool
    excludes: bool

    def taps(self, grid: Grid, axis: int, size: int) -> Taps:
        x = grid.positions(axis)
        if self.mode == "nearest":
            rounding, more = NEAREST[self.nearest_mode]
            return nearest_taps(x - np.float32(more), size, rounding)
        narrowing = min(grid.asked[axis], 1.0) if self.is_filtered else 1.0
        reach = int(np.ceil((2 if self.mode == "cubic" else 1) / narrowing))
        at = np.floor(x) + np.arange(1 - reach, reach + 1)[:, None]
        weights = self._of_distance(np.abs(at - x.astype(np.float64)) * narrowing)
        if self.excludes:
            weights = np.where((at < 0) | (at >= size), 0, weights)
        if self.excludes or self.is_filtered:
            weights = weights / weights.sum(0)
        return Taps(size, np.clip(at, 0, size - 1).astype(np.int64), weights.astype(np.float32))

    def _of_distance(self, d: np.ndarray) -> np.ndarray:
        if self.mode == "linear":
            return np.maximum(0, 1 - d)
        a = self.cubic
        near, far = ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        return np.where(d <= 1, near, np.where(d < 2, far, 0))


def resize_by_scales(*, x: Array, scales: Any, mode: str = "nearest") -> Array:
    """Upsample and the first Resize, with ONNX Runtime: what shrinks takes the next element, what grows the last."""
    factors = np.asarray(scales if isinstance(scales, list) else known("scales", scales), np.float32)
    for nearest_mode, some in (("ceil", np.minimum(factors, 1)), ("floor", np.maximum(factors, 1))):
        x = resize(
            x=x,
            scales=some,
            mode="linear" if mode == "bilinear" else mode,
            coordinate_transformation_mode="asymmetric",
            nearest_mode=nearest_mode,
        )
    return x


def upsample_2d(*, x: Array, height_scale: float, width_scale: float, mode: str = "nearest") -> Array:
    """The first version: the last two dimensions."""
    if x.ndim != 4:
        raise ConstraintError(f"x must have 4 dimensions, but its shape is {x.shape}")
    return resize_by_scales(x=x, scales=[1.0, 1.0, height_scale, width_scale], mode=mode)


OPERATORS: Operators = {
    "Resize": {10: resize_by_scales, 11: resize},
    "Upsample": {1: upsample_2d, 7: resize_by_scales},
}
