"""Random ONNX graphs: chains of nodes of every supported operator, in any opset version."""

import numpy as np
from onnx_building import helper, model, numpy_helper
from onnx_random_numbers import NUMBER_RECIPES

MOVED_TYPES = (np.float32, np.float64, np.float16, np.int8, np.uint8, np.int32, np.int64, np.bool_)
NUMBERS = (np.float32, np.int32, np.int64)


class RandomGraph:
    """Grows a graph; `values` are the shapes and types of what exists, `inputs` and `constants` arrays by name.

    Values of `exact` outputs are compared by their bits, those of `rounded` ones with a tolerance.
    """

    def __init__(self, seed, opset):
        self.rng, self.opset = np.random.default_rng(seed), opset
        self.nodes, self.inputs, self.constants, self.values = [], {}, {}, {}
        self.exact, self.rounded = [], []

    def grow(self, count):
        """Adds nodes; each recipe makes one."""
        recipes = [recipe for since, recipe in RECIPES if since <= self.opset]
        for i in range(count):
            # In turn, so that every operator is in every large graph.
            recipes[(i + int(self.rng.integers(2))) % len(recipes)](self)

    def model(self):
        return model(self.nodes, self.inputs, [*self.exact, *self.rounded], self.constants, opset=self.opset)

    def size(self, low=1, high=5):
        return int(self.rng.integers(low, high))

    def shape(self, low=1, high=5):
        return tuple(self.size() for _ in range(self.size(low, high)))

    def random(self, shape, dtype):
        """Any bits at all."""
        if dtype == np.bool_:
            return self.rng.integers(0, 2, shape).astype(bool)
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return np.frombuffer(self.rng.bytes(count), dtype).reshape(shape)

    def clean(self, shape, dtype):
        """Numbers that arithmetic is exact for, with ties and both signs."""
        return self.rng.integers(-9, 10, shape).astype(dtype)

    def input(self, array):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = np.asarray(array)
        return name

    def constant(self, values, dtype=np.int64):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(values, dtype)
        return name

    def data(self, dtype=None, shape=None):
        """A value that exists, or a new input; with its shape and type."""
        fitting = [n for n, (_, d) in self.values.items() if dtype is None or d == dtype]
        if shape is None and fitting and self.rng.random() < 0.5:
            name = fitting[int(self.rng.integers(len(fitting)))]
            return name, *self.values[name]
        dtype = np.dtype(dtype or MOVED_TYPES[int(self.rng.integers(len(MOVED_TYPES)))])
        shape = self.shape() if shape is None else shape
        return self.input(self.random(shape, dtype)), shape, dtype

    def axis(self, shape, *, negative=11):
        """Any axis, counted from either side where the version lets it."""
        axis = int(self.rng.integers(len(shape)))
        return axis, axis - len(shape) if self.opset >= negative and self.rng.random() < 0.5 else axis

    def indices(self, size, shape):
        """In range; negative ones from opset 11 on."""
        least = -size if self.opset >= 11 else 0
        dtype = np.int32 if self.rng.random() < 0.5 else np.int64
        return self.input(self.rng.integers(least, size, shape).astype(dtype))

    def unique(self, shape, axis, *, rows):
        """Indices along an axis, each once per line."""
        lines = np.tile(np.arange(shape[axis]), (*(n for d, n in enumerate(rows) if d != axis), 1))
        chosen = self.rng.permuted(lines, axis=-1)[..., : rows[axis]]
        return self.input(np.moveaxis(chosen, -1, axis))

    def add(self, op_type, inputs, shapes, dtype, *, rounded=False, kept=True, given=(), **attributes):
        """A node with an output per shape; `given` are (name, numbers, since): inputs since a version."""
        inputs = list(inputs)
        for name, numbers, since in given:
            if self.opset >= since:
                inputs.append(self.constant(numbers))
            else:
                attributes[name] = numbers
        outputs = [f"y{len(self.exact) + len(self.rounded) + i}" for i in range(len(shapes))]
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, outputs, name=name, **attributes))
        (self.rounded if rounded else self.exact).extend(outputs)
        for output, shape in zip(outputs, shapes, strict=True):
            if kept and 0 < np.prod(shape, dtype=int) < 500 and 0 < len(shape) < 6:
                self.values[output] = (tuple(shape), np.dtype(dtype))


def gather(g):
    x, shape, dtype = g.data()
    axis, written = g.axis(shape)
    rows = g.shape(0, 3)
    i = g.indices(shape[axis], rows)
    g.add("Gather", [x, i], [(*shape[:axis], *rows, *shape[axis + 1 :])], dtype, axis=written)


def gather_elements(g):
    x, shape, dtype = g.data()
    axis, written = g.axis(shape)
    rows = tuple(g.size() if d == axis else g.size(1, n + 1) for d, n in enumerate(shape))
    g.add("GatherElements", [x, g.indices(shape[axis], rows)], [rows], dtype, axis=written)


def gather_nd(g):
    x, shape, dtype = g.data()
    b = int(g.rng.integers(len(shape))) if g.opset >= 12 else 0
    t = int(g.rng.integers(1, len(shape) - b + 1))
    rows = (*shape[:b], *g.shape(0, 3))
    columns = [g.rng.integers(-n, n, rows) for n in shape[b : b + t]]
    i = g.input(np.stack(columns, axis=-1))
    attributes = {"batch_dims": b} if g.opset >= 12 else {}
    g.add("GatherND", [x, i], [(*rows, *shape[b + t :])], dtype, **attributes)


def scatter_elements(g):
    x, shape, dtype = g.data()
    axis, written = g.axis(shape)
    rows = tuple(g.size(1, n + 1) for n in shape)
    op_type = "ScatterElements" if g.opset >= 11 else "Scatter"
    u = g.input(g.random(rows, dtype))
    g.add(op_type, [x, g.unique(shape, axis, rows=rows), u], [shape], dtype, axis=written)


def scatter_nd(g):
    x, shape, dtype = g.data()
    t = int(g.rng.integers(1, len(shape) + 1))
    count = int(np.prod(shape[:t]))
    flat = g.rng.permutation(count)[: g.size(1, count + 1)]
    i = np.stack(np.unravel_index(flat, shape[:t]), axis=-1).astype(np.int64)
    u = g.input(g.random((len(flat), *shape[t:]), dtype))
    g.add("ScatterND", [x, g.input(i), u], [shape], dtype)


def reduction(g):
    names = ("add", "mul", "min", "max") if g.opset >= 18 else ("add", "mul")
    return names[int(g.rng.integers(len(names)))]


def scatter_elements_reduced(g):
    """Several updates may meet in one element; the numbers are small, so that no order rounds."""
    dtype, shape = NUMBERS[int(g.rng.integers(3))], g.shape()
    axis, written = g.axis(shape)
    rows = tuple(g.size(1, n + 1) for n in shape)
    x, u = (g.input(g.clean(s, dtype)) for s in (shape, rows))
    i = g.indices(shape[axis], rows)
    g.add("ScatterElements", [x, i, u], [shape], dtype, axis=written, reduction=reduction(g), kept=False)


def scatter_nd_reduced(g):
    dtype, shape = NUMBERS[int(g.rng.integers(3))], g.shape()
    t = int(g.rng.integers(1, len(shape) + 1))
    rows = g.shape(1, 3)
    i = g.input(np.stack([g.rng.integers(-n, n, rows) for n in shape[:t]], axis=-1))
    x, u = (g.input(g.clean(s, dtype)) for s in (shape, (*rows, *shape[t:])))
    g.add("ScatterND", [x, i, u], [shape], dtype, reduction=reduction(g), kept=False)


def depth_to_space(g):
    n, c, h, w, b = (g.size() for _ in range(5))
    attributes = {"mode": ("DCR", "CRD")[int(g.rng.integers(2))]} if g.opset >= 11 else {}
    x, _, dtype = g.data(np.float32, (n, c * b * b, h, w))
    g.add("DepthToSpace", [x], [(n, c, h * b, w * b)], dtype, blocksize=b, **attributes)


def space_to_depth(g):
    n, c, h, w, b = (g.size() for _ in range(5))
    x, _, dtype = g.data(np.float32, (n, c, h * b, w * b))
    g.add("SpaceToDepth", [x], [(n, c * b * b, h, w)], dtype, blocksize=b)


def identity(g):
    x, shape, dtype = g.data()
    g.add("Identity", [x], [shape], dtype)


def constant(g):
    array = g.clean(g.shape(), np.float32)
    g.add("Constant", [], [array.shape], array.dtype, value=numpy_helper.from_array(array))


def reshape(g):
    x, shape, dtype = g.data()
    order = [int(n) for n in g.rng.permutation(shape)]
    written = list(order)
    written[int(g.rng.integers(len(written)))] = -1
    for d, n in enumerate(written):
        if d < len(shape) and n == shape[d] and g.rng.random() < 0.3:
            written[d] = 0
    g.add("Reshape", [x, g.constant(written)], [order], dtype)


def transpose(g):
    x, shape, dtype = g.data()
    perm = [int(d) for d in g.rng.permutation(len(shape))]
    g.add("Transpose", [x], [tuple(shape[d] for d in perm)], dtype, perm=perm)


def cast(g):
    """Between numbers that both types hold."""
    types = (np.float32, np.float64, np.float16, np.int32, np.int64, np.int8, np.bool_)
    source, target = (types[int(i)] for i in g.rng.integers(len(types), size=2))
    x = g.clean(g.shape(), source)
    to = helper.np_dtype_to_tensor_dtype(np.dtype(target))
    g.add("Cast", [g.input(x)], [x.shape], target, to=to)


def shape(g):
    x, sizes, _ = g.data()
    bounds = {"start": int(g.rng.integers(-5, 6)), "end": int(g.rng.integers(-5, 6))} if g.opset >= 15 else {}
    g.add("Shape", [x], [np.shape(sizes[slice(*bounds.values())] if bounds else sizes)], np.int64, kept=False, **bounds)


def concat(g):
    x, shape, dtype = g.data()
    axis, written = g.axis(shape)
    others = [tuple(g.size() if d == axis else n for d, n in enumerate(shape)) for _ in range(g.size(0, 3))]
    names = [g.input(g.random(s, dtype)) for s in others]
    total = shape[axis] + sum(s[axis] for s in others)
    g.add("Concat", [x, *names], [(*shape[:axis], total, *shape[axis + 1 :])], dtype, axis=written)


def split(g):
    x, shape, dtype = g.data()
    axis, written = g.axis(shape)
    cuts = sorted(int(n) for n in g.rng.integers(0, shape[axis] + 1, g.size(0, 3)))
    parts = [int(n) for n in np.diff([0, *cuts, shape[axis]])]
    shapes = [(*shape[:axis], n, *shape[axis + 1 :]) for n in parts]
    g.add("Split", [x], shapes, dtype, given=[("split", parts, 13)], axis=written)


def slice_(g):
    x, shape, dtype = g.data()
    axes = [int(d) for d in g.rng.permutation(len(shape))[: g.size(1, len(shape) + 1)]]
    starts, ends = ([int(n) for n in g.rng.integers(-6, 7, len(axes))] for _ in range(2))
    steps = [int(n) for n in g.rng.choice([-3, -2, -1, 1, 2], len(axes))] if g.opset >= 10 else [1] * len(axes)
    far = g.rng.random(len(axes)) < 0.2
    ends = [FAR[t > 0] if f else e for f, e, t in zip(far, ends, steps, strict=True)]
    sizes = list(shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        sizes[axis] = sliced(shape[axis], start, end, step)
    given = [("starts", starts, 10), ("ends", ends, 10), ("axes", axes, 10)]
    if g.opset >= 10:
        given.append(("steps", steps, 10))
    g.add("Slice", [x], [tuple(sizes)], dtype, given=given)


# To the end of a dimension, in either direction.
FAR = {True: 2**63 - 1, False: -(2**63)}


def sliced(size, start, end, step):
    """How many elements ONNX's formula takes."""
    start, end = (n + size if n < 0 else n for n in (start, end))
    low, high = (0, size) if step > 0 else (0, size - 1)
    start, end = min(max(start, low), high), min(max(end, low if step > 0 else -1), high)
    return max(0, -(-(end - start) // step))


def unsqueeze(g):
    x, shape, dtype = g.data()
    rank = len(shape) + g.size(1, 3)
    axes = sorted(int(d) for d in g.rng.permutation(rank)[: rank - len(shape)])
    rest = iter(shape)
    result = tuple(1 if d in axes else next(rest) for d in range(rank))
    written = [d - rank for d in axes] if g.opset >= 11 else axes
    g.add("Unsqueeze", [x], [result], dtype, given=[("axes", written, 13)])


def squeeze(g):
    shape = tuple(1 if g.rng.random() < 0.5 else n for n in (*g.shape(), 1))
    x, _, dtype = g.data(None, shape)
    ones = [d for d, n in enumerate(shape) if n == 1]
    axes = ones[: g.size(1, len(ones) + 1)]
    g.add("Squeeze", [x], [tuple(n for d, n in enumerate(shape) if d not in axes)], dtype, given=[("axes", axes, 13)])


def expand(g):
    x, shape, dtype = g.data()
    wanted = [g.size() if n == 1 else (1 if g.rng.random() < 0.5 else n) for n in shape]
    wanted = [g.size(), *wanted] if g.rng.random() < 0.5 else wanted[g.size(0, len(shape)) :]
    g.add("Expand", [x, g.constant(wanted)], [np.broadcast_shapes(shape, tuple(wanted))], dtype)


def flatten(g):
    x, shape, dtype = g.data()
    axis = int(g.rng.integers(-len(shape) if g.opset >= 11 else 0, len(shape) + 1))
    at = axis % len(shape) if axis < 0 else axis
    g.add("Flatten", [x], [(int(np.prod(shape[:at])), int(np.prod(shape[at:])))], dtype, axis=axis)


def pad(g):
    x, shape, dtype = g.data((np.float32, np.int64)[int(g.rng.integers(2)) if g.opset >= 11 else 0])
    mode = ("constant", "edge", "reflect")[int(g.rng.integers(3))]
    most = {"constant": [9] * len(shape), "edge": [9] * len(shape), "reflect": [n - 1 for n in shape]}[mode]
    least = [1 - n for n in shape] if mode == "constant" else [0] * len(shape)
    low = [int(g.rng.integers(min(0, a), min(3, b) + 1)) for a, b in zip(least, most, strict=True)]
    high = [int(g.rng.integers(0, min(3, b) + 1)) for b in most]
    result = tuple(n + a + b for n, a, b in zip(shape, low, high, strict=True))
    g.add("Pad", [x], [result], dtype, given=[("pads", [*low, *high], 11)], mode=mode)


def tile(g):
    x, shape, dtype = g.data()
    counts = [g.size(1, 4) for _ in shape]
    g.add("Tile", [x, g.constant(counts)], [tuple(n * k for n, k in zip(shape, counts, strict=True))], dtype)


def top_k(g):
    dtype, shape = (np.float32, np.int64)[int(g.rng.integers(2)) if g.opset >= 11 else 0], g.shape()
    axis, written = g.axis(shape)
    k = g.size(1, shape[axis] + 1)
    attributes = {"largest": int(g.rng.integers(2))} if g.opset >= 11 else {}
    result = (*shape[:axis], k, *shape[axis + 1 :])
    inputs = [g.input(g.clean(shape, dtype))]
    if g.opset >= 10:
        inputs.append(g.constant([k]))
    else:
        attributes["k"] = k
    g.add("TopK", inputs, [result, result], dtype, axis=written, kept=False, **attributes)


def one_hot(g):
    """Some indices are out of range."""
    shape = g.shape(1, 4)
    axis, depth = int(g.rng.integers(-len(shape) - 1, len(shape) + 1)), g.size(3, 6)
    i, values = g.input(g.rng.integers(-7, 8, shape)), g.input(g.clean((2,), np.float32))
    at = axis % (len(shape) + 1)
    g.add("OneHot", [i, g.constant([depth]), values], [(*shape[:at], depth, *shape[at:])], np.float32, axis=axis)


def non_zero(g):
    x = g.rng.integers(-1, 2, g.shape()).astype((np.float32, np.int64)[int(g.rng.integers(2))])
    g.add("NonZero", [g.constant(x, x.dtype)], [(x.ndim, np.count_nonzero(x))], np.int64, kept=False)


def reverse_sequence(g):
    x, shape, dtype = g.data(None, (g.size(), g.size(), *g.shape(1, 3)))
    time = int(g.rng.integers(2))
    lengths = g.input(g.rng.integers(1, shape[time] + 1, shape[1 - time]))
    g.add("ReverseSequence", [x, lengths], [shape], dtype, time_axis=time, batch_axis=1 - time)


def eye_like(g):
    shape, k = (g.size(), g.size()), int(g.rng.integers(-4, 5))
    dtype = NUMBERS[int(g.rng.integers(3))]
    g.add("EyeLike", [g.input(g.clean(shape, dtype))], [shape], dtype, k=k)


def trilu(g):
    dtype = (np.float32, np.float64, np.int64)[int(g.rng.integers(3))]
    x, shape, dtype = g.data(dtype, (*g.shape(0, 2), g.size(), g.size()) if g.rng.random() < 0.7 else None)
    if len(shape) >= 2:
        k = g.constant(int(g.rng.integers(-6, 7)))
        g.add("Trilu", [x, k], [shape], dtype, upper=int(g.rng.integers(2)))


def cum_sum(g):
    dtype, shape = NUMBERS[int(g.rng.integers(3))], g.shape()
    _, written = g.axis(shape)
    flags = {name: int(g.rng.integers(2)) for name in ("exclusive", "reverse")}
    g.add("CumSum", [g.input(g.clean(shape, dtype)), g.constant(written)], [shape], dtype, **flags)


def max_unpool(g):
    n, c, h, w = (g.size() for _ in range(4))
    kernel, strides = ([g.size(1, 3) for _ in range(2)] for _ in range(2))
    sizes = (n, c, (h - 1) * strides[0] + kernel[0], (w - 1) * strides[1] + kernel[1])
    count = n * c * h * w
    i = g.rng.permutation(int(np.prod(sizes)))[:count].reshape(n, c, h, w)
    x = g.input(g.clean(i.shape, np.float32))
    g.add("MaxUnpool", [x, g.input(i)], [sizes], np.float32, kernel_shape=kernel, strides=strides)


def cast_like(g):
    x, like = g.clean(g.shape(), np.float32), g.clean((1,), NUMBERS[int(g.rng.integers(3))])
    g.add("CastLike", [g.input(x), g.input(like)], [x.shape], like.dtype)


def col2im(g):
    """Two dimensions: in one ONNX Runtime 1.31 reads wrong elements where no window reaches the end."""
    rank = 2
    block, strides, dilations = ([g.size(1, 3) for _ in range(rank)] for _ in range(3))
    pads = [g.size(0, 2) for _ in range(2 * rank)]
    image = [g.size(4, 7) for _ in range(rank)]
    counts = [
        (n + pads[d] + pads[rank + d] - dilations[d] * (block[d] - 1) - 1) // strides[d] + 1
        for d, n in enumerate(image)
    ]
    n, c = g.size(1, 3), g.size(1, 3)
    x = g.clean((n, c * int(np.prod(block)), int(np.prod(counts))), np.float32)
    attributes = {"strides": strides, "dilations": dilations, "pads": pads}
    g.add("Col2Im", [g.input(x), g.constant(image), g.constant(block)], [(n, c, *image)], np.float32, **attributes)


SCALES = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0)


def upsample(g):
    """Its successor from opset 10 on, where it may shrink."""
    shape = tuple(g.size() for _ in range(4))
    mode = ("nearest", "linear")[int(g.rng.integers(2))]
    choice = SCALES[2:] if g.opset < 10 else SCALES
    scales = [1.0, 1.0, *(float(n) for n in g.rng.choice(choice, 2))]
    result = tuple(int(n * scale) for n, scale in zip(shape, scales, strict=True))
    if 0 in result:
        return
    inputs, attributes = [g.input(g.clean(shape, np.float32))], {"mode": mode}
    if g.opset >= 9:
        inputs.append(g.constant(scales, np.float32))
    else:
        attributes["scales"] = scales
    op_type = "Upsample" if g.opset < 10 else "Resize"
    g.add(op_type, inputs, [result], np.float32, rounded=mode == "linear", kept=False, **attributes)


def resize(g):
    shape = tuple(g.size() for _ in range(4))
    mode, law, nearest = (
        names[int(g.rng.integers(len(names)))]
        for names in (
            ("nearest", "linear", "cubic"),
            ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"),
            ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
        )
    )
    scales = [1.0, 1.0, *(float(n) for n in g.rng.choice(SCALES, 2))]
    result = tuple(int(n * scale) for n, scale in zip(shape, scales, strict=True))
    if 0 in result:
        return
    x = g.input(g.clean(shape, np.float32))
    nothing = g.constant([], np.float32) if g.opset < 13 else ""
    # With aligned corners ONNX Runtime takes the whole size where ONNX takes the scaled one.
    by_sizes = law == "align_corners" or g.rng.random() < 0.5
    inputs = [x, nothing, nothing, g.constant(result)] if by_sizes else [x, nothing, g.constant(scales, np.float32)]
    attributes = {"mode": mode, "coordinate_transformation_mode": law, "nearest_mode": nearest}
    g.add("Resize", inputs, [result], np.float32, rounded=mode != "nearest", kept=False, **attributes)


def where(g):
    x, shape, dtype = g.data((np.float32, np.int64, np.uint8)[int(g.rng.integers(3))])
    broadcast = tuple(1 if g.rng.random() < 0.3 else n for n in shape)
    condition, y = g.input(g.random(shape, np.bool_)), g.input(g.random(broadcast, dtype))
    g.add("Where", [condition, x, y], [shape], dtype)


def range_(g):
    dtype = NUMBERS[int(g.rng.integers(3))]
    start, limit = g.rng.integers(-9, 10, 2)
    delta = int(g.rng.choice([-3, -1, 1, 2]))
    count = max(0, -(-(int(limit) - int(start)) // delta))
    g.add("Range", [g.constant(n, dtype) for n in (start, limit, delta)], [(count,)], dtype)


def constant_of_shape(g):
    sizes = g.shape()
    g.add("ConstantOfShape", [g.constant(sizes)], [sizes], np.float32)


def arithmetic(op_type):
    def make(g):
        dtype, shape = NUMBERS[int(g.rng.integers(3))], g.shape()
        other = tuple(1 if g.rng.random() < 0.3 else n for n in shape)[g.size(0, len(shape)) :]
        a, b = g.clean(shape, dtype), g.clean(other, dtype)
        if op_type == "Div":
            b = np.where(b == 0, np.ones_like(b), b)
        rounded = op_type == "Div" and dtype == np.float32
        g.add(op_type, [g.input(a), g.input(b)], [shape], dtype, rounded=rounded, kept=False)

    return make


def relu(g):
    x = g.clean(g.shape(), np.float32)
    g.add("Relu", [g.input(x)], [x.shape], x.dtype, kept=False)


def gemm(g):
    m, n, k = (g.size(1, 5) for _ in range(3))
    attributes = {"transA": g.size(0, 2), "transB": g.size(0, 2), "alpha": 0.5, "beta": -2.0}
    sizes = (k, m) if attributes["transA"] else (m, k), (n, k) if attributes["transB"] else (k, n)
    added = ((m, n), (1, n), (m, 1), (n,), ())[g.size(0, 5)]
    inputs = [g.input(g.rng.standard_normal(s).astype(np.float32)) for s in (*sizes, added)]
    g.add(
        "Gemm",
        inputs[: 2 if g.opset >= 11 and g.rng.random() < 0.3 else 3],
        [()],
        np.float32,
        rounded=True,
        **attributes,
    )


def matmul(g):
    batch, (m, n, k) = g.shape(0, 2), (g.size(1, 5) for _ in range(3))
    shared = tuple(1 if g.rng.random() < 0.3 else d for d in batch)[g.size(0, len(batch) + 1) :]
    sizes = (k,) if g.rng.random() < 0.2 else (*batch, m, k), (k,) if g.rng.random() < 0.2 else (*shared, k, n)
    dtype = (np.float32, np.int32)[int(g.opset >= 9 and g.rng.random() < 0.3)]
    inputs = [g.input((4 * g.rng.standard_normal(s)).astype(dtype)) for s in sizes]
    g.add("MatMul", inputs, [()], dtype, rounded=True)


def conv(g):
    rank, group = g.size(1, 4), g.size(1, 3)
    kernel = [g.size(1, 4) for _ in range(rank)]
    strides, dilations = ([g.size(1, 3) for _ in range(rank)] for _ in range(2))
    pads = [g.size(0, 3) for _ in range(2 * rank)]
    sizes = [g.size(6, 10) for _ in range(rank)]
    n, c, m = g.size(1, 3), group * g.size(1, 3), group * g.size(1, 3)
    x, w, b = (g.rng.standard_normal(s).astype(np.float32) for s in ((n, c, *sizes), (m, c // group, *kernel), (m,)))
    attributes = {"strides": strides, "dilations": dilations, "pads": pads}
    if g.rng.random() < 0.3:
        attributes = {"strides": strides, "auto_pad": ("SAME_UPPER", "SAME_LOWER", "VALID")[int(g.rng.integers(3))]}
    g.add("Conv", [g.input(x), g.input(w), g.input(b)], [()], np.float32, rounded=True, group=group, **attributes)


# By the first version that ONNX Runtime has.
RECIPES = (
    (7, gather),
    (11, gather_elements),
    (11, gather_nd),
    (9, scatter_elements),
    (11, scatter_nd),
    (16, scatter_elements_reduced),
    (16, scatter_nd_reduced),
    (7, depth_to_space),
    (7, space_to_depth),
    (7, identity),
    (7, constant),
    (7, reshape),
    (7, transpose),
    (9, cast),
    (7, shape),
    (7, concat),
    (7, split),
    (7, slice_),
    (7, unsqueeze),
    (7, squeeze),
    (8, expand),
    (9, flatten),
    (7, pad),
    (7, tile),
    (7, top_k),
    (9, where),
    (11, range_),
    (9, constant_of_shape),
    (11, one_hot),
    (9, non_zero),
    (10, reverse_sequence),
    (9, eye_like),
    (14, trilu),
    (11, cum_sum),
    (9, max_unpool),
    (15, cast_like),
    (18, col2im),
    (7, lambda g: (upsample if g.opset < 11 else resize)(g)),
    *((7, arithmetic(op_type)) for op_type in ("Add", "Sub", "Mul", "Div")),
    (7, relu),
    (7, gemm),
    (7, matmul),
    (7, conv),
    *NUMBER_RECIPES,
)
