"""Random models of Loop and Scan, with various bodies, end conditions and static trip counts."""

import numpy as np
from onnx_building import helper, model, numpy_helper

TYPES = (np.float32, np.int32, np.int64)


def value(name, dtype, shape=None):
    """A declaration. ONNX Runtime must know of what is scanned, and of the number and the condition of a Loop."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


class Nodes:
    """Nodes of a graph whose values have a prefix; `captured` are arrays around it that they read, by name."""

    def __init__(self, rng, prefix, captured):
        self.rng, self.prefix, self.captured, self.nodes = rng, prefix, captured, []

    def add(self, op_type, *inputs, **attributes):
        name = f"{self.prefix}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], **attributes))
        return name

    def constant(self, number, dtype):
        return self.add("Constant", value=numpy_helper.from_array(np.asarray(number, dtype)))

    def around(self, dtype, shape):
        """A new value around the graph, which a model gives as an input."""
        name = f"around{len(self.captured)}"
        self.captured[name] = numbers(self.rng, dtype, shape)
        return name

    def graph(self, inputs, outputs):
        """The nodes as a graph; inputs and outputs are what `value` takes."""
        return helper.make_graph(
            self.nodes, self.prefix, *([value(*one) for one in ones] for ones in (inputs, outputs))
        )

    def inner(self, suffix):
        """Nodes of a graph in this one."""
        return Nodes(self.rng, f"{self.prefix}{len(self.nodes)}{suffix}", self.captured)


def numbers(rng, dtype, shape):
    """Small whole numbers, of which sums are exact."""
    return np.asarray(rng.integers(-9, 10, shape), dtype)


# What becomes of a state in an iteration: functions of the nodes, the state, its type and shape, and a condition.


def keep(g, x, dtype, shape, condition):
    return g.add("Identity", x)


def add(g, x, dtype, shape, condition):
    return g.add("Add", x, g.around(dtype, shape))


def negate(g, x, dtype, shape, condition):
    return g.add("Sub", g.constant(1, dtype), x)


def choose(g, x, dtype, shape, condition):
    """An If, of which both branches see what is around the loop and in it."""
    branches = {}
    for name, op_type in (("then_branch", "Add"), ("else_branch", "Sub")):
        inner = g.inner(name)
        branches[name] = inner.graph([], [(inner.add(op_type, x, inner.around(dtype, shape)), dtype, shape)])
    return g.add("If", condition, **branches)


def repeat(g, x, dtype, shape, condition):
    """A Loop in the loop, which adds the state up as often as data say."""
    inner = g.inner("inner")
    number, goes_on, total = (f"{inner.prefix}{name}" for name in ("number", "goes_on", "total"))
    inputs = [(number, np.int64, []), (goes_on, np.bool_, []), (total, dtype, shape)]
    outputs = [(inner.add("Identity", goes_on), np.bool_, []), (inner.add("Add", total, x), dtype, shape)]
    count = f"around{len(g.captured)}"
    g.captured[count] = np.asarray(g.rng.integers(0, 3))
    return g.add("Loop", count, "", x, body=inner.graph(inputs, outputs))


def grow(g, x, dtype, shape, condition):
    return g.add("Concat", x, g.around(dtype, (1, *shape[1:])), axis=0)


UPDATES = {"keep": keep, "add": add, "negate": negate, "choose": choose, "repeat": repeat}


class RandomLoop:
    """A model with a Loop.

    `is_known` says whether the number of iterations is known while tracing, `rows` how many scan outputs there are,
    `grows` whether a state changes its shape.
    """

    TRIPS = ("known", "none", "data")
    CONDITIONS = ("none", "known", "data")
    ENDS = ("kept", "always", "number", "data")

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng(seed)
        self.trips = self.TRIPS[seed % 3]
        self.condition = self.CONDITIONS[seed // 3 % 3]
        self.end = self.ENDS[seed // 9 % 4]
        if self.trips == "none":
            self.condition = "known" if self.condition == "none" else self.condition
            self.end = self.end if self.end in ("number", "data") else "number"
        self.opset = int(rng.choice([11, 13, 16, 19, 21]))
        self.inputs, self.constants, self.updates = {}, {}, []
        self.count = int(rng.choice([0, 1, 3, 12]))
        self.grows = bool(rng.random() < 0.2)
        self.states, self.rows = int(rng.integers(1, 4)), int(rng.integers(0, 3))
        is_ignored = self.condition == "none"
        self.is_known = self.trips != "data" and self.condition != "data" and (is_ignored or self.end != "data")
        nodes, outputs = [self._loop()], [f"final{i}" for i in range(self.states)]
        self.row_names = [f"rows{i}" for i in range(self.rows)]
        self.model = model(nodes, self.inputs, [*outputs, *self.row_names], self.constants, opset=self.opset)

    def _given(self, how, name, number):
        """The name of an input of the Loop that is a constant, data, or left out."""
        if how == "none":
            return ""
        (self.constants if how == "known" else self.inputs)[name] = number
        return name

    def _loop(self):
        rng, g = self.rng, Nodes(self.rng, "b", self.inputs)
        number, goes_on = "number", "goes_on"
        limit = np.asarray(rng.integers(0, 14))
        is_even = g.add("Equal", g.add("Mod", number, g.constant(2, np.int64)), g.constant(0, np.int64))
        if self.end == "kept":
            end = g.add("Identity", goes_on)
        elif self.end == "always":
            end = g.constant(True, np.bool_)
        else:
            bound = self._given("data", "limit", limit) if self.end == "data" else g.constant(limit, np.int64)
            end = g.add("Less", number, bound)
        inputs, outputs, first = [(number, np.int64, []), (goes_on, np.bool_, [])], [(end, np.bool_, [])], []
        for i in range(self.states):
            dtype = TYPES[int(rng.integers(len(TYPES)))]
            shape = tuple(int(n) for n in rng.integers(1, 4, rng.integers(0, 3)))
            name = list(UPDATES)[int(rng.integers(len(UPDATES)))]
            update = UPDATES[name]
            if i == 0 and self.grows:
                name, update, shape = "grow", grow, (1, *shape)
            self.updates.append(name)
            inputs.append((f"state{i}", dtype, None if name == "grow" else shape))
            outputs.append((update(g, f"state{i}", dtype, shape, is_even), dtype, None if name == "grow" else shape))
            first.append(self._given(("known", "data")[int(rng.integers(2))], f"first{i}", numbers(rng, dtype, shape)))
        after = outputs[1:]
        for _ in range(self.rows):
            source, dtype, shape = [*after, (number, np.int64, [])][int(rng.integers(1 + len(after)))]
            row = g.add("ReduceMax", source, keepdims=0) if self.grows else g.add("Identity", source)
            outputs.append((row, dtype, [] if self.grows else shape))
        body = g.graph(inputs, outputs)
        trips = self._given(self.trips, "M", np.asarray(self.count))
        condition = self._given(self.condition, "cond", np.array(rng.random() < 0.8))
        names = [*(f"final{i}" for i in range(self.states)), *(f"rows{i}" for i in range(self.rows))]
        return helper.make_node("Loop", [trips, condition, *first], names, name="loop", body=body)


class RandomScan:
    """A model with a Scan; of opset 8 there is a batch, and maybe a length of each example."""

    VERSIONS = (8, 9, 11, 16, 19, 21)

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng(seed)
        self.opset = self.VERSIONS[seed % len(self.VERSIONS)]
        self.length = int(rng.choice([1, 3, 12]))  # of 0, ONNX Runtime 1.32 divides by it
        self.inputs, self.updates = {}, []
        self.states, self.scanned, self.rows = (int(rng.integers(*ends)) for ends in ((0, 3), (1, 4), (0, 3)))
        self.rows = max(self.rows, 1 - self.states)
        self.has_lengths = self.opset == 8 and bool(rng.random() < 0.5)
        names = [*(f"final{i}" for i in range(self.states)), *(f"rows{i}" for i in range(self.rows))]
        node = self._scan(names)
        self.model = model([node], self.inputs, names, opset=self.opset)

    def _choices(self, count, choices):
        return [int(n) for n in self.rng.choice(choices, count)]

    def _input(self, name, array):
        self.inputs[name] = array
        return name

    def _scan(self, names):
        rng, g, batch = self.rng, Nodes(self.rng, "b", self.inputs), (3,) * (self.opset == 8)
        shape = tuple(int(n) for n in rng.integers(1, 4, 2))
        axes = self._choices(self.scanned, [0]) if batch else self._choices(self.scanned, [-3, -1, 0, 1, 2])
        attributes = {"num_scan_inputs": self.scanned}
        attributes["directions" if batch else "scan_input_directions"] = self._choices(self.scanned, [0, 1])
        if self.has_lengths:
            attributes["directions"] = [0] * self.scanned
        if not batch:
            attributes["scan_input_axes"] = axes
        if not batch and self.rows:
            attributes["scan_output_axes"] = self._choices(self.rows, [-3, -1, 0, 1, 2])
            attributes["scan_output_directions"] = self._choices(self.rows, [0, 1])
        values = []
        for i in range(self.states):
            values.append(self._input(f"first{i}", numbers(rng, np.float32, (*batch, *shape))))
        for i, axis in enumerate(axes):
            array = numbers(rng, np.float32, (*batch, self.length, *shape))
            array = array if batch else np.moveaxis(array, 0, axis)
            values.append(self._input(f"scanned{i}", array))
        inputs = [(f"state{i}", np.float32, shape) for i in range(self.states)]
        inputs += [(f"element{i}", np.float32, shape) for i in range(self.scanned)]
        total = g.add("Add", "element0", inputs[-1][0])
        is_positive = g.add("Less", g.constant(0, np.float32), g.add("ReduceSum", total, keepdims=0))
        outputs = []
        for i in range(self.states):
            name = list(UPDATES)[int(rng.integers(len(UPDATES)))]
            name = "keep" if name == "repeat" and self.opset < 11 else name
            self.updates.append(name)
            updated = UPDATES[name](g, f"state{i}", np.float32, shape, is_positive)
            outputs.append((g.add("Add", updated, total), np.float32, shape))
        after = outputs[: self.states]
        for _ in range(self.rows):
            source, *_ = [*after, (total,)][int(rng.integers(1 + len(after)))]
            outputs.append((g.add("Add", source, inputs[-1][0]), np.float32, shape))
        attributes["body"] = g.graph(inputs, outputs)
        if batch:
            lengths = rng.integers(1, self.length + 1, batch)
            values.insert(0, self._input("lengths", lengths) if self.has_lengths else "")
        return helper.make_node("Scan", values, names, name="scan", **attributes)
