"""What the tests of roi_align and of its gradient share: a loop over samples, and random regions."""

import math

import numpy as np

from dml_jax import InterpolationMode, ReduceFunction


def pixel(picture, y, x, mode, outside):
    """One sample of a picture (H, W)."""
    read = []
    for at, size in zip((y, x), picture.shape, strict=True):
        if not -1 <= at <= size:
            return outside
        at = min(max(at, 0), size - 1)
        if mode == "nearest":
            read.append([(math.ceil(at - 0.5), 1)])
        else:
            low = math.floor(at)
            read.append([(low, 1 - (at - low)), (min(low + 1, size - 1), at - low)])
    return sum(float(picture[i, j]) * one * other for i, one in read[0] for j, other in read[1])


def exact(
    input,
    rois,
    batch_indices,
    output_sizes,
    function="average",
    mode="linear",
    spatial_scales=(1, 1),
    input_pixel_offset=0.5,
    output_pixel_offset=-0.5,
    out_of_bounds_value=0,
    minimum_samples=1,
    maximum_samples=None,
    align_corners=False,
):
    """In float64, region by region."""
    output = np.zeros((len(rois), input.shape[1], *output_sizes))
    for (r, c, *at), _ in np.ndenumerate(output):
        places = []
        for d in range(2):
            low, high = (float(rois[r, one]) * spatial_scales[d] for one in (1 - d, 3 - d))
            whole, size, n = high - low, input.shape[2 + d], output_sizes[d]
            most = math.ceil(size / n) if maximum_samples is None else min(math.ceil(size / n), maximum_samples)
            count = max(min(math.ceil(whole / n), most), minimum_samples)
            steps = n * count - 1 if align_corners else n * count
            parts = [(at[d] * count + k - output_pixel_offset) / steps if steps else 0.5 for k in range(count)]
            places.append([low + part * whole - input_pixel_offset for part in parts])
        picture = input[batch_indices[r], c]
        samples = [pixel(picture, y, x, mode, out_of_bounds_value) for y in places[0] for x in places[1]]
        output[r, c, *at] = max(samples) if function == "max" else sum(samples) / len(samples)
    return output


def draw(rng, *, offsets):
    n, c, height, width, regions, *output = (int(k) for k in rng.integers(1, 4, 7))
    least = int(rng.integers(1, 3))
    fields = {
        "input": (n, c, height + 2, width + 2),
        "roi": (1,) * int(rng.integers(0, 3)) + (regions, 4),
        "batch_indices": (1,) * int(rng.integers(0, 4)) + (regions,),
        "output": (regions, c, *output),
        "reduction_function": ReduceFunction[rng.choice(["AVERAGE", "MAX"])],
        "interpolation_mode": InterpolationMode(int(rng.integers(0, 2))),
        "spatial_scale_x": float(rng.choice([1, 0.5])),
        "spatial_scale_y": float(rng.choice([1, 2])),
        "out_of_bounds_input_value": float(rng.choice([0, -3])),
        "minimum_samples_per_output": least,
        "maximum_samples_per_output": int(rng.choice([least, least + 1, 2**32 - 1])),
    }
    others = {
        "input_pixel_offset": float(rng.choice([0, 0.5])),
        "output_pixel_offset": float(rng.choice([0, -0.5])),
        "align_regions_to_corners": bool(rng.integers(0, 2)),
    }
    return fields | (others if offsets else {})


def fill(rng, port, tensor, count):
    """Regions between places where a sample would be as near to two pixels, or would just be outside; some reach out.

    Batch indices are 0, which every batch has.
    """
    if port == "batch_indices":
        return np.zeros(count, tensor.dtype)
    if port == "roi":
        return (rng.integers(-1, 5, count) + rng.choice([0.3125, 0.40625, 0.6875], count)).astype(tensor.dtype)
    return rng.integers(-8, 9, count).astype(tensor.dtype)
