"""Oracle of roi_align and its gradient in NumPy, and random regions. Imports no JAX."""

import math
from itertools import product

import numpy as np

from dml_jax import InterpolationMode, ReduceFunction


def pixels(positions, size, mode):
    """Where samples are read along one dimension: of each pixel its place, its weight, and how that changes per step.

    Positions are those on the pixels; outside more than 1 away there are none.
    """
    at = np.clip(positions, 0, size - 1)
    if mode == "nearest":
        return [(np.ceil(at - 0.5).astype(int), np.ones_like(at), np.zeros_like(at))]
    low, slope = np.floor(at).astype(int), ((positions >= 0) & (positions < size - 1)).astype(float)
    return [(low, 1 - (at - low), -slope), (np.minimum(low + 1, size - 1), at - low, slope)]


class Region:
    """One region of one picture (C, H, W): its samples (C, Y, X), and the elements that they belong to."""

    def __init__(
        self,
        picture,
        corners,
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
        self.picture, self.function, self.scales = picture.astype(np.float64), function, spatial_scales
        self.parts, self.reads, self.sizes, inside = [], [], [], []
        for d, (size, n) in enumerate(zip(picture.shape[1:], output_sizes, strict=True)):
            low, high = (float(corners[one]) * spatial_scales[d] for one in (1 - d, 3 - d))
            most = math.ceil(size / n) if maximum_samples is None else min(math.ceil(size / n), maximum_samples)
            count = max(min(math.ceil((high - low) / n), most), minimum_samples)
            steps = n * count - 1 if align_corners else n * count
            parts = (np.arange(n * count) - output_pixel_offset) / steps if steps else np.array([0.5])
            positions = low + parts * (high - low) - input_pixel_offset
            inside.append((positions >= -1) & (positions <= size))
            self.parts.append(parts)
            self.reads.append(pixels(positions, size, mode))
            self.sizes += [n, count]
        self.is_inside = inside[0][:, None] & inside[1]
        self.samples = sum(values * y[:, None] * x for values, (_, y, _), (_, x, _) in self.read())
        self.samples = np.where(self.is_inside, self.samples, float(out_of_bounds_value))

    def read(self):
        """The pixels (C, Y, X) of which samples are made: their values, and how they were found along y and x."""
        for y, x in product(*self.reads):
            yield self.picture[:, y[0][:, None], x[0]], y, x

    def by_element(self, samples):
        """(C, height, width, number of samples)."""
        height, rows, width, columns = self.sizes
        split = samples.reshape(-1, height, rows, width, columns).swapaxes(2, 3)
        return split.reshape(-1, height, width, rows * columns)

    def output(self):
        samples = self.by_element(self.samples)
        return samples.max(axis=-1) if self.function == "max" else samples.mean(axis=-1)

    def shares(self, weights):
        """What of `weights` (C, height, width) each sample (C, Y, X) has a part in: all, or the first greatest one."""
        height, rows, width, columns = self.sizes
        samples = self.by_element(self.samples)
        of_each = np.full(samples.shape, 1 / samples.shape[-1])
        if self.function == "max":
            of_each = np.eye(samples.shape[-1])[samples.argmax(axis=-1)]
        split = (of_each * weights[..., None]).reshape(-1, height, width, rows, columns).swapaxes(2, 3)
        return split.reshape(self.samples.shape) * self.is_inside


def exact(input, rois, batch_indices, output_sizes, **given):
    """In float64, region by region."""
    output = np.zeros((len(rois), input.shape[1], *output_sizes))
    for r, corners in enumerate(rois):
        output[r] = Region(input[batch_indices[r]], corners, output_sizes, **given).output()
    return output


def exact_gradients(input, rois, batch_indices, weights, **given):
    """Of the sum of the output times `weights`: that of the pictures, and that of the corners."""
    of_pictures, of_corners = np.zeros(input.shape), np.zeros(rois.shape)
    channels = np.arange(input.shape[1])[:, None, None]
    for r, corners in enumerate(rois):
        region = Region(input[batch_indices[r]], corners, weights.shape[2:], **given)
        shares = region.shares(weights[r].astype(np.float64))
        for values, (i, y, y_slope), (j, x, x_slope) in region.read():
            np.add.at(of_pictures[batch_indices[r]], (channels, i[:, None], j), shares * y[:, None] * x)
            moved = (y_slope[:, None] * x, (0, 2)), (y[:, None] * x_slope, (0, 1))
            for d, (slopes, others) in enumerate(moved):
                of_positions = (shares * values * slopes).sum(axis=others) * region.scales[d]
                of_corners[r, 1 - d] += of_positions @ (1 - region.parts[d])
                of_corners[r, 3 - d] += of_positions @ region.parts[d]
    return of_pictures, of_corners


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
    One fraction of all corners keeps all samples away from there.

    Batch indices are 0, which every batch has.
    """
    if port == "batch_indices":
        return np.zeros(count, tensor.dtype)
    if port == "roi":
        return (rng.integers(-1, 5, count) + rng.choice([0.3125, 0.40625, 0.6875])).astype(tensor.dtype)
    return rng.integers(-8, 9, count).astype(tensor.dtype)
