"""Oracles of unfold, fold and pooling: loops over windows, and random windows."""

from math import prod

import numpy as np
from draws import dims
from operator_cases import f32
from oracles import coordinates

LEADING = {"window_sizes": 1, "strides": 1, "dilations": 1, "start_padding": 0, "end_padding": 0}
NAMES = ("window_sizes", "strides", "dilations", "start_padding", "end_padding")


def window_breaks(too_large):
    """The breaks of a function with windows over two dimensions, in the order of its rules."""
    return {
        "one_per_window(strides)": {"strides": (1,)},
        "one_per_window(dilations)": {"dilations": ()},
        "one_per_window(start_padding)": {"start_padding": (1, 0, 0)},
        "one_per_window(end_padding)": {"end_padding": (1,)},
        "each_at_least(window_sizes, 1)": {"window_sizes": (2, 0)},
        "each_at_least(strides, 1)": {"strides": (0, 1)},
        "each_at_least(dilations, 1)": {"dilations": (-1, 1)},
        "each_at_least(start_padding, 0)": {"start_padding": (0, -1)},
        "each_at_least(end_padding, 0)": {"end_padding": (-2, 1)},
        "fits": {"window_sizes": too_large},
        "representable": {"end_padding": (2**62, 2**62)},
        "indexable": {"end_padding": (0, 2**30)},
    }


def filled(window_sizes, **given):
    """All attributes, those that are not given as they are by default."""
    least = {"strides": 1, "dilations": 1, "start_padding": 0, "end_padding": 0}
    others = {name: given.get(name) or (n,) * len(window_sizes) for name, n in least.items()}
    return {"window_sizes": tuple(window_sizes), **others}


def counted(sizes, attributes):
    """How many windows there are along each dimension, by trying them one after the other."""
    counts = []
    for size, window, stride, dilation, start, end in zip(sizes, *attributes.values(), strict=True):
        count = 0
        while count * stride + (window - 1) * dilation < start + size + end:
            count += 1
        counts.append(count)
    return counts


def places(sizes, attributes):
    """Of every element of every window: its row, its column, and its coordinate, None in the padding."""
    _, strides, dilations, starts, _ = attributes.values()
    for row, w in enumerate(coordinates(attributes["window_sizes"])):
        for column, b in enumerate(coordinates(counted(sizes, attributes))):
            at = [
                b * stride + w * dilation - start
                for w, b, stride, dilation, start in zip(w, b, strides, dilations, starts, strict=True)
            ]
            inside = all(0 <= k < n for k, n in zip(at, sizes, strict=True))
            yield row, column, tuple(at) if inside else None


def draw_windows(rng, most=6, least=1):
    """Sizes of an image and of its columns, and windows that fit."""
    while True:
        count = int(rng.integers(least, most + 1))
        lead, spatial = dims(rng, 2, 4), dims(rng, count, 24)
        attributes = {
            "window_sizes": rng.integers(1, 4, count),
            "strides": rng.integers(1, 4, count),
            "dilations": rng.integers(1, 3, count),
            "start_padding": rng.integers(0, 3, count) * (rng.random(count) < 0.4),
            "end_padding": rng.integers(0, 3, count) * (rng.random(count) < 0.4),
        }
        attributes = {name: [int(n) for n in numbers] for name, numbers in attributes.items()}
        windows = counted(spatial, attributes)
        if 0 < prod(windows) * prod(attributes["window_sizes"]) <= 150:
            columns = [lead[0], lead[1] * prod(attributes["window_sizes"]), prod(windows)]
            return [*lead, *spatial], columns, attributes


# Of structs of pooling, which have no WindowSizes but WindowSize.

POOLING_LEADING = {"window_size": 1, "strides": 1, "start_padding": 0, "end_padding": 0}
DILATED_LEADING = POOLING_LEADING | {"dilations": 1}
POOLING_BREAKS = {
    "one_per_spatial_dimension(window_size)": {"window_size": (3,)},
    "one_per_window(strides)": {"strides": (1,)},
    "one_per_window(start_padding)": {"start_padding": ()},
    "one_per_window(end_padding)": {"end_padding": (0,)},
    "each_at_least(window_size, 1)": {"window_size": (0, 3)},
    "each_at_least(strides, 1)": {"strides": (1, 0)},
    "fits": {"window_size": (3, 3)},
    "sizes_follow(output)": {"output": f32(1, 1, 2, 1)},
}
DILATED_BREAKS = {
    "one_per_window(dilations)": {"dilations": (1, 1, 1)},
    "each_at_least(dilations, 1)": {"dilations": (0, 1)},
}


def draw_pooled(rng, *, dilated):
    """The fields of such a struct."""
    image, _, attributes = draw_windows(rng, 3, 2)
    if not dilated:
        attributes["dilations"] = [1] * len(attributes["strides"])
    fields = {"input": image, "output": [*image[:2], *counted(image[2:], attributes)], **attributes}
    fields["window_size"] = fields.pop("window_sizes")
    return fields if dilated else {name: value for name, value in fields.items() if name != "dilations"}


def pooling_of(desc):
    """The windows of such a struct, as functions name them."""
    given = {name: value for name, value in desc.operands().items() if name in NAMES}
    return {"window_sizes": desc.window_size, **given}


def attributes_of(desc):
    return {name: getattr(desc, name) for name in NAMES}


def some_windows(exhaustive):
    """Spatial sizes and windows: of every kind, and where an element is read by an index instead of a slice."""
    few = [
        ((4,), filled((3,))),
        ((5,), filled((2,), strides=(2,), dilations=(2,))),
        ((3,), filled((3,), strides=(2,), start_padding=(2,), end_padding=(1,))),
        ((2,), filled((1,), strides=(3,), start_padding=(4,), end_padding=(5,))),
        ((7,), filled((3,), strides=(2,), dilations=(2,), start_padding=(3,), end_padding=(6,))),
        ((3, 4), filled((2, 3), strides=(1, 2), start_padding=(1, 0), end_padding=(0, 2))),
        ((2, 3, 2), filled((2, 1, 2), dilations=(1, 2, 1), end_padding=(0, 0, 1))),
        # Windows of many elements, and many steps.
        ((70,), filled((66,))),
        ((80,), filled((65,), start_padding=(3,), end_padding=(2,))),
        ((20,), filled((7,), strides=(5,), start_padding=(3,), end_padding=(4,))),
        ((12,), filled((5,), strides=(6,), dilations=(3,), start_padding=(9,), end_padding=(7,))),
        ((12, 3), filled((5, 2), strides=(5, 1))),
        ((4,), filled((70,), dilations=(2,), start_padding=(80,), end_padding=(90,))),
    ]
    many = []
    if exhaustive:
        rng = np.random.default_rng(8)
        for _ in range(150):
            sizes, _, attributes = draw_windows(rng)
            many.append((tuple(sizes[2:]), {name: tuple(numbers) for name, numbers in attributes.items()}))
    return few + many
