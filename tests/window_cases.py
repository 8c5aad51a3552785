"""What the tests of unfold and fold share: loops over windows, and random ones."""

from math import prod

import numpy as np
from draws import dims
from operator_cases import ALL_TYPES, level
from oracles import coordinates

LEADING = {"window_sizes": 1, "strides": 1, "dilations": 1, "start_padding": 0, "end_padding": 0}
NAMES = ("window_sizes", "strides", "dilations", "start_padding", "end_padding")


def levels(image):
    """DirectML's table; `image` is the tensor that is no columns. Its types are those that ONNX Runtime hands over."""
    return (level("6_4", range(3, 9), **{image: ALL_TYPES}),)


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


def draw_windows(rng):
    """Sizes of an image and of its columns, and windows that fit."""
    while True:
        count = int(rng.integers(1, 7))
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
