"""Oracle of resample: interpolation by loops over elements; random structs of RESAMPLE and its gradient."""

from fractions import Fraction
from functools import partial
from math import ceil, floor

import numpy as np
from draws import dims
from oracles import clamp, coordinates
from small_arrays import numbered

X = numbered((4, 6))
MODES = ("nearest", "linear")
ALL_MODES = (*MODES, "cubic")
DIRECTIONS = ("increasing", "decreasing")
OFFSETS = ("input_pixel_offsets", "output_pixel_offsets")
FILTERS = [
    {"mode": mode, "antialias": antialias, "exclude_outside": excludes, **more}
    for mode, more in (("linear", {}), ("cubic", {}), ("cubic", {"cubic_coefficient": -0.6}))
    for antialias in (False, True)
    for excludes in (False, True)
]
FLT_MAX = float(np.finfo(np.float32).max)


def oracle(
    input,
    sizes,
    scales=None,
    mode="nearest",
    input_pixel_offsets=0.5,
    output_pixel_offsets=-0.5,
    rounding=None,
    antialias=False,
    cubic_coefficient=-0.75,
    exclude_outside=False,
):
    befores, afters = (np.broadcast_to(one, input.ndim) for one in (input_pixel_offsets, output_pixel_offsets))
    found = place if scales else exact_place
    scales = scales or [Fraction(m, n) for m, n in zip(sizes, input.shape, strict=True)]
    kernel = partial(counted, a=cubic_coefficient) if mode == "cubic" else near_counted
    output = np.empty(sizes, input.dtype)
    for c in coordinates(output.shape):
        x = [found(*row) for row in zip(c, scales, befores, afters, strict=True)]
        if mode == "nearest":
            output[c] = input[tuple(clamp(rounded(at, rounding), n) for at, n in zip(x, input.shape, strict=True))]
            continue
        parts = [
            weights(at, n, kernel, min(scale, 1) if antialias else 1, exclude_outside)
            for at, n, scale in zip(x, input.shape, scales, strict=True)
        ]
        total = weighed(input, parts)
        output[c] = clamp_to(round(total), input.dtype) if input.dtype.kind in "iu" else total
    return output


def place(o, scale, before, after):
    """Of float32 all along."""
    with np.errstate(over="ignore"):
        one = np.float32
        return (one(o) - one(after)) / one(scale) - one(before)


def exact_place(o, scale, before, after):
    return (o - Fraction(float(after))) / scale - Fraction(float(before))


def rounded(x, rounding):
    if isinstance(x, Fraction):
        return {None: floor(x + Fraction(1, 2)), "increasing": ceil(x), "decreasing": floor(x)}[rounding]
    if not np.isfinite(x):
        return int(np.copysign(2.0**62, x))
    return int({None: np.floor(x + np.float32(0.5)), "increasing": np.ceil(x), "decreasing": np.floor(x)}[rounding])


def near_counted(d):
    return max(0, 1 - d)


def counted(d, a):
    """The two cubics, as they are printed."""
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0


def weights(at, size, kernel, narrowing, excludes):
    """How much each element counts, in Python's floats: the numbers of most tests are exact in narrower ones too."""
    at = min(max(float(at), -200), size + 200)
    reach = 2 / float(narrowing) + 1
    parts = {i: kernel(abs(i - at) * narrowing) for i in range(floor(at - reach), ceil(at + reach) + 1)}
    if excludes and any(kernel(abs(i - at) * narrowing) for i in range(size)):
        parts = {i: w for i, w in parts.items() if 0 <= i < size}
    total = sum(parts.values()) if excludes or narrowing < 1 else 1
    return [(clamp(i, size), w / total) for i, w in parts.items() if w]


def weighed(input, parts):
    """Dimension by dimension."""
    if not parts:
        return float(input[()])
    return sum(of * weighed(input[i], parts[1:]) for i, of in parts[0])


def clamp_to(number, dtype):
    return min(max(number, np.iinfo(dtype).min), np.iinfo(dtype).max)


# Shared by the structs of RESAMPLE and RESAMPLE_GRAD.

LEADING = {"scales": 1.0, "input_pixel_offsets": 0.5, "output_pixel_offsets": -0.5}
LAW_BREAKS = {"one_per_dimension(scales)": {"scales": (2,)}, "positive(scales)": {"scales": (1, 1, 1, -2)}}
OFFSET_BREAKS = {
    **{f"one_per_dimension({name})": {name: (0.5,)} for name in OFFSETS},
    **{f"finite({name})": {name: (0, 0, 0, float("inf"))} for name in OFFSETS},
}


def fill(rng, port, tensor, count):
    """Weighed and added up without an error, also in sixteen bits."""
    least = 0 if tensor.data_type.name == "UINT8" else -8
    return rng.integers(least, 8, count).astype(tensor.dtype)


def drawer(*more):
    """Returns `draw` of a struct with these attributes."""

    def draw(rng):
        input = dims(rng, int(rng.integers(1, 5)), 30)
        rank, mode = len(input), int(rng.integers(0, 2))
        scales = rng.choice([0.5, 1, 1, 2, 4] if mode else [0.3, 0.5, 1, 1, 1.5, 2, 3], rank)
        found = {
            "input": input,
            "output": dims(rng, rank, 60),
            "interpolation_mode": mode,
            "rounding_direction": int(rng.integers(0, 2)),
            "scales": tuple(scales),
            "input_pixel_offsets": tuple(rng.choice([0, 0.5, 0.5, -0.25], rank)),
            "output_pixel_offsets": tuple(rng.choice([0, -0.5, -0.5, 1], rank)),
            "antialiased": bool(rng.integers(0, 2)),
        }
        return {name: found[name] for name in ("input", "output", "interpolation_mode", "scales", *more)}

    return draw
