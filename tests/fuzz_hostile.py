"""Hostile ONNX models: numbers that are far too large as sizes, ranks, iterations, nodes and calls, for the command."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
from commands import dml_jax_command
from onnx_building import TensorProto, helper, numpy_helper, onnx

from dml_jax.core import memory_checks

make = helper.make_node
LARGE = (2**31 - 1, 2**31, 2**32, 2**33 + 1, 2**40, 2**46, 2**62, 2**63 - 1)
CROP = {"coordinate_transformation_mode": "tf_crop_and_resize"}
ONE, TWO = np.ones((1, 1, 1, 1), np.float32), np.ones((1, 1, 2, 1), np.float32)
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def hostile_file(rng: np.random.Generator, folder: Path) -> None:
    """Draws a model of one kind, and checks it, runs it, or both: each ends with 0 or 1, and with a message."""
    gc.collect()  # tracebacks keep arrays
    path = folder / "model.onnx"
    memory_checks._available = lambda: 2**25  # bytes, of which there are several copies at times
    kinds = [*QUICK * 8, *LONG]
    path.write_bytes(kinds[int(rng.integers(len(kinds)))](rng, folder).SerializeToString())
    for verb in (["check"], ["run"], ["check", "run"])[int(rng.integers(3))]:
        # As docs/security.md says, XLA may take minutes for as many nodes as are allowed, and loops any time.
        fewer = ["--max-nodes", 1000] if verb == "run" else []
        result = dml_jax_command(verb, path, *fewer)
        if not (result.exception is None or isinstance(result.exception, SystemExit)):
            raise result.exception
        assert result.exit_code in (0, 1), result.output


def model(nodes: Any, inputs: Any, outputs: Any = ("y",), constants: Any = None, functions: Any = ()) -> Any:
    """A model; `inputs` are sizes, or sizes and a type, by name."""
    infos = []
    for name, sizes in inputs.items():
        sizes, elements = sizes if isinstance(sizes, tuple) else (sizes, FLOAT)
        infos.append(helper.make_tensor_value_info(name, elements, sizes))
    graph = helper.make_graph(
        nodes,
        "hostile",
        infos,
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=10)


def large(rng: np.random.Generator) -> int:
    return LARGE[int(rng.integers(len(LARGE)))]


# Inputs.


def declared_sizes(rng: np.random.Generator, folder: Path) -> Any:
    """A small operator on an input of a large size."""
    n = large(rng)
    shapes = ([n], [n, n], [n, 1], [1, n], [1, 1, n, 1], [n, 0], [2, 3, n, n])
    shape = shapes[int(rng.integers(len(shapes)))]
    return operator_on(rng, shape)


UNARY = ("Shape", "Size", "Transpose", "Softmax", "Relu", "Identity", "NonZero", "ReduceSum", "Hardmax", "Det")


def operator_on(rng: np.random.Generator, shape: Any) -> Any:
    last = len(shape) - 1
    graphs: list[Any] = [[make(op, ["x"], ["y"])] for op in UNARY] + [
        [make("Split", ["x"], ["y", "z"], num_outputs=2)],
        [make("TopK", ["x", "one"], ["y", "z"])],
        [make("Concat", ["x", "x"], ["y"], axis=0)],
        [make("SequenceConstruct", ["x", "x"], ["s"]), make("ConcatFromSequence", ["s"], ["y"], axis=0)],
        [make("SplitToSequence", ["x"], ["s"], axis=last), make("SequenceLength", ["s"], ["y"])],
        [make("Expand", ["x", "one"], ["y"])],
        [make("MatMul", ["x", "x"], ["y"])],
        [make("Cast", ["x"], ["y"], to=TensorProto.INT8)],
        [make("Gather", ["x", "one"], ["y"])],
        [make("Reshape", ["x", "minus"], ["y"])],
        [make("CumSum", ["x", "zero"], ["y"])],
        [make("Einsum", ["x", "x"], ["y"], equation="i...,j...->ij")],
        [make("DFT", ["x"], ["y"])],
        [make("LayerNormalization", ["x", "f"], ["y"])],
        [make("GlobalAveragePool", ["x"], ["y"])],
        [make("MaxPool", ["x"], ["y"], kernel_shape=[1] * max(1, len(shape) - 2))],
        [make("EyeLike", ["x"], ["y"])],
        [make("DynamicQuantizeLinear", ["x"], ["y", "z", "w"])],
    ]
    constants = {
        "one": np.int64([1]),
        "zero": np.int64([0]),
        "minus": np.int64([-1]),
        "f": np.float32([1]),
    }
    return model(graphs[int(rng.integers(len(graphs)))], {"x": shape}, constants=constants)


# Numbers that decide sizes.


X4 = {"x": [1, 1, 2, 2]}
ROIS = {"rois": [1, 4], "b": ([1], INT64)}
# Nodes, inputs and constants: of sizes, of two large numbers, and what is made of something that is made.
BY_SIZES = [
    lambda c: ([make("ConstantOfShape", ["c"], ["y"])], {}, {"c": c}),
    lambda c: ([make("ConstantOfShape", ["c"], ["z"]), make("ReduceSum", ["z"], ["y"])], {}, {"c": c}),
    lambda c: ([make("Expand", ["x", "c"], ["y"])], {"x": [1] * len(c)}, {"c": c}),
    lambda c: ([make("Expand", ["x", "c"], ["y"])], {}, {"c": c, "x": np.float32([1])}),
    lambda c: ([make("Tile", ["x", "c"], ["y"])], {"x": [1] * len(c)}, {"c": c}),
    lambda c: ([make("Tile", ["x", "c"], ["y"])], {}, {"c": c, "x": np.ones([1] * len(c), np.int8)}),
    lambda c: ([make("Reshape", ["x", "c"], ["y"])], {"x": [4]}, {"c": c}),
    lambda c: ([make("CenterCropPad", ["x", "c"], ["y"])], {"x": [1] * len(c)}, {"c": c}),
    lambda c: ([make("Unsqueeze", ["x", "c"], ["y"])], {"x": [4]}, {"c": c}),
    lambda c: ([make("Gather", ["x", "c"], ["y"])], {"x": [4]}, {"c": c}),
]
BY_NUMBERS = [
    lambda n, m: ([make("Range", ["a", "n", "d"], ["y"])], {}, {"a": np.int64(0), "n": np.int64(n), "d": np.int64(1)}),
    lambda n, m: (
        [make("Range", ["a", "n", "d"], ["y"])],
        {},
        {"a": np.float32(0), "n": np.float32(n), "d": np.float32(1)},
    ),
    lambda n, m: (
        [make("OneHot", ["i", "n", "v"], ["y"])],
        {"i": ([2], INT64)},
        {"n": np.int64(n), "v": np.float32([0, 1])},
    ),
    lambda n, m: (
        [make("OneHot", ["i", "n", "v"], ["y"])],
        {},
        {"i": np.int64([1]), "n": np.int64(n), "v": np.int8([0, 1])},
    ),
    lambda n, m: ([make("Pad", ["x", "c"], ["y"])], {"x": [2]}, {"c": np.int64([n, m])}),
    lambda n, m: ([make("Pad", ["x", "c"], ["y"], mode="edge")], {}, {"x": np.float32([2]), "c": np.int64([n, m])}),
    lambda n, m: ([make("Pad", ["x", "c"], ["y"], mode="wrap")], {"x": [2]}, {"c": np.int64([n, m])}),
    lambda n, m: ([make("Resize", ["x", "", "", "c"], ["y"])], X4, {"c": np.int64([1, 1, n, m])}),
    lambda n, m: ([make("Resize", ["x", "", "", "c"], ["y"], mode="linear")], X4, {"c": np.int64([1, 1, n, m])}),
    lambda n, m: ([make("Resize", ["x", "", "", "c"], ["y"], mode="cubic")], X4, {"c": np.int64([1, 1, m, n])}),
    lambda n, m: ([make("Resize", ["x", "", "s"], ["y"], mode="linear")], X4, {"s": np.float32([1, 1, n, m])}),
    lambda n, m: (
        [make("Resize", ["x", "r", "", "c"], ["y"], mode="linear", **CROP)],
        X4,
        {"r": np.float32([0] * 4 + [1] * 4), "c": np.int64([1, 1, n, m])},
    ),
    lambda n, m: ([make("RoiAlign", ["x", "rois", "b"], ["y"], output_height=n, output_width=m)], X4 | ROIS, {}),
    lambda n, m: ([make("RoiAlign", ["x", "rois", "b"], ["y"], sampling_ratio=n)], X4 | ROIS, {}),
    lambda n, m: ([make("MaxRoiPool", ["x", "r5"], ["y"], pooled_shape=[n, m])], X4 | {"r5": [1, 5]}, {}),
    lambda n, m: ([make("DFT", ["x", "n"], ["y"])], {"x": [1, 4, 1]}, {"n": np.int64(n)}),
    lambda n, m: (
        [make("DFT", ["x", "n"], ["y"], onesided=1)],
        {},
        {"x": np.ones((1, 4, 1), np.float32), "n": np.int64(n)},
    ),
    lambda n, m: ([make("STFT", ["x", "n", "", "m"], ["y"])], {"x": [1, 8, 1]}, {"n": np.int64(n), "m": np.int64(m)}),
    lambda n, m: ([make("HannWindow", ["n"], ["y"])], {}, {"n": np.int64(n)}),
    lambda n, m: (
        [make("MelWeightMatrix", ["m", "n", "r", "lo", "hi"], ["y"])],
        {},
        {"m": np.int64(m), "n": np.int64(n), "r": np.int64(8000), "lo": np.float32(0), "hi": np.float32(4000)},
    ),
    lambda n, m: (
        [make("Col2Im", ["x", "c", "k"], ["y"])],
        {"x": [1, 1, 4]},
        {"c": np.int64([n, m]), "k": np.int64([n, m])},
    ),
    lambda n, m: (
        [make("MaxUnpool", ["x", "i", "c"], ["y"], kernel_shape=[1, 1])],
        X4 | {"i": ([1, 1, 2, 2], INT64)},
        {"c": np.int64([1, 1, n, m])},
    ),
    lambda n, m: ([make("MaxUnpool", ["x", "i"], ["y"], kernel_shape=[n, m])], X4 | {"i": ([1, 1, 2, 2], INT64)}, {}),
    lambda n, m: ([make("AffineGrid", ["t", "c"], ["y"])], {"t": [1, 2, 3]}, {"c": np.int64([1, 1, n, m])}),
    lambda n, m: ([make("TopK", ["x", "n"], ["y", "z"])], {"x": [4]}, {"n": np.int64([n])}),
    lambda n, m: ([make("Split", ["x"], ["y"], num_outputs=n)], {"x": [4]}, {}),
    lambda n, m: ([make("SplitToSequence", ["x", "n"], ["y"])], {"x": [4]}, {"n": np.int64(n)}),
    lambda n, m: ([make("Conv", ["x", "w"], ["y"], pads=[n, 0, 0, m])], X4, {"w": ONE}),
    lambda n, m: ([make("Conv", ["x", "w"], ["y"], strides=[n, m])], X4, {"w": ONE}),
    lambda n, m: ([make("Conv", ["x", "w"], ["y"], dilations=[n, m])], X4, {"w": TWO}),
    lambda n, m: ([make("ConvTranspose", ["x", "w"], ["y"], strides=[n, m])], X4, {"w": ONE}),
    lambda n, m: (
        [make("ConvTranspose", ["x", "w"], ["y"], output_shape=[n, m])],
        X4,
        {"w": ONE},
    ),
    lambda n, m: (
        [make("ConvTranspose", ["x", "w"], ["y"], dilations=[n, m])],
        X4,
        {"w": TWO},
    ),
    lambda n, m: ([make("MaxPool", ["x"], ["y"], kernel_shape=[n, m])], X4, {}),
    lambda n, m: ([make("AveragePool", ["x"], ["y"], kernel_shape=[2, 2], pads=[n, 0, m, 0])], X4, {}),
    lambda n, m: ([make("LpPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[n, m])], X4, {}),
    lambda n, m: ([make("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], dilations=[n, m])], X4, {}),
    lambda n, m: ([make("DepthToSpace", ["x"], ["y"], blocksize=n)], X4, {}),
    lambda n, m: ([make("SpaceToDepth", ["x"], ["y"], blocksize=n)], X4, {}),
    lambda n, m: ([make("Slice", ["x", "a", "c"], ["y"])], {"x": [4]}, {"a": np.int64([-n]), "c": np.int64([n])}),
    lambda n, m: ([make("Trilu", ["x", "n"], ["y"])], {"x": [2, 2]}, {"n": np.int64(n)}),
    lambda n, m: (
        [make("NonMaxSuppression", ["o", "s", "n"], ["y"])],
        {"o": [1, 4, 4], "s": [1, 1, 4]},
        {"n": np.int64([n])},
    ),
    lambda n, m: ([make("LRN", ["x"], ["y"], size=n)], X4, {}),
    lambda n, m: ([make("ReverseSequence", ["x", "c"], ["y"])], {"x": [1, 1]}, {"c": np.int64([n])}),
    lambda n, m: ([make("ScatterND", ["x", "c", "u"], ["y"])], {"x": [4], "u": [1]}, {"c": np.int64([[n]])}),
    lambda n, m: ([make("GridSample", ["x", "g"], ["y"])], X4 | {"g": [1, n, m, 2]}, {}),
    lambda n, m: (
        [make("GRU", ["x", "w", "r"], ["y"], hidden_size=n)],
        {"x": [2, 1, 1], "w": [1, 3, 1], "r": [1, 3, 1]},
        {},
    ),
]
BY_STEPS = [
    ([make("ConstantOfShape", ["c"], ["z"]), make("Shape", ["z"], ["y"])], {"c": ([2], INT64)}, {}),
    (
        [
            make("Tile", ["x", "c"], ["z"]),
            make("Shape", ["z"], ["s"]),
            make("Mul", ["s", "s"], ["t"]),
            make("Expand", ["x", "t"], ["y"]),
        ],
        {"x": [1]},
        {"c": np.int64([2**16])},
    ),
    (
        [make("Unsqueeze", ["x", "m"], ["z"]), make("Mul", ["x", "z"], ["p"]), make("ReduceSum", ["p"], ["y"])],
        {"x": [2**20]},
        {"m": np.int64([1])},
    ),
    (
        [make("Unsqueeze", ["x", "m"], ["z"]), make("Mul", ["x", "z"], ["p"]), make("ReduceSum", ["p"], ["y"])],
        {},
        {"x": np.ones(2**20, np.int8).astype(np.float32), "m": np.int64([1])},
    ),
]


def deciding_numbers(rng: np.random.Generator, folder: Path) -> Any:
    """An operator with a large attribute, constant, or constant that is computed."""
    n, m = large(rng), large(rng) if rng.random() < 0.5 else 1
    sizes = [[n], [n, m], [m, n, 1]][int(rng.integers(3))]
    rows = [*(row(np.int64(sizes)) for row in BY_SIZES), *(row(n, m) for row in BY_NUMBERS), *BY_STEPS]
    nodes, inputs, constants = rows[int(rng.integers(len(rows)))]
    return model(nodes, inputs, constants=constants)


def doublings(rng: np.random.Generator, folder: Path) -> Any:
    """A value that each node doubles, or squares: of a constant or of data."""
    count = int(rng.choice([36, 70, 300]))
    kind = rng.integers(4)
    nodes = [make("Identity", ["x"], ["v0"])]
    for i in range(count):
        if kind < 2:
            nodes.append(make("Concat", [f"v{i}", f"v{i}"], [f"v{i + 1}"], axis=0))
        elif kind == 2:
            nodes.append(make("SequenceInsert", ["s", f"v{i}"], [f"s{i}"]))
            nodes.append(make("ConcatFromSequence", [f"s{i}"], [f"w{i}"], axis=0))
            nodes.append(make("Concat", [f"w{i}", f"v{i}"], [f"v{i + 1}"], axis=0))
        else:
            nodes.append(make("Tile", [f"v{i}", "two"], [f"v{i + 1}"]))
    nodes.append(make("Identity", [f"v{count}"], ["y"]))
    if kind == 2:
        nodes.insert(0, make("SequenceEmpty", [], ["s"]))
    constant = {"x": np.float32([1, 2])} if rng.random() < 0.5 else {}
    return model(nodes, {} if constant else {"x": [2]}, constants=constant | {"two": np.int64([2])})


# Ranks.


def ranks(rng: np.random.Generator, folder: Path) -> Any:
    """Values of more dimensions than NumPy or XLA take."""
    rank = int(rng.choice([33, 64, 65, 100, 300]))
    ones = np.ones(rank, np.int64)
    sizes = {"x": [1]}
    graphs: list[Any] = [
        ([make("Neg", ["x"], ["y"])], {"x": [1] * rank}, {}),
        ([make("Transpose", ["x"], ["y"])], {"x": [1] * rank}, {}),
        ([make("Add", ["x", "x"], ["y"])], {"x": [1] * rank}, {}),
        ([make("ReduceSum", ["x"], ["y"])], {"x": [1] * rank}, {}),
        ([make("Reshape", ["x", "c"], ["y"])], sizes, {"c": ones}),
        ([make("Reshape", ["x", "c"], ["y"])], {}, {"c": ones, "x": np.float32([1])}),
        ([make("Expand", ["x", "c"], ["y"])], sizes, {"c": ones}),
        ([make("Expand", ["x", "c"], ["y"])], {}, {"c": ones, "x": np.float32([1])}),
        ([make("ConstantOfShape", ["c"], ["y"])], {}, {"c": ones}),
        ([make("Unsqueeze", ["x", "c"], ["y"])], sizes, {"c": np.arange(rank)}),
        ([make("Unsqueeze", ["x", "c"], ["y"])], {}, {"c": np.arange(rank), "x": np.float32([1])}),
        ([make("Reshape", ["x", "c"], ["z"]), make("Tile", ["z", "c"], ["y"])], sizes, {"c": ones}),
        ([make("ConstantOfShape", ["c"], ["z"]), make("Gather", ["x", "z"], ["y"])], sizes, {"c": ones}),
        ([make("Reshape", ["x", "c"], ["z"]), make("Shape", ["z"], ["y"])], sizes, {"c": ones}),
    ]
    nodes, inputs, constants = graphs[int(rng.integers(len(graphs)))]
    return model(nodes, inputs, constants=constants)


# Work.


def value(name: str, elements: int = FLOAT, sizes: Any = None) -> Any:
    return helper.make_tensor_value_info(name, elements, sizes)


def loop(body_nodes: Any, inputs: Any, outputs: Any, trips: str, states: Any, made: Any) -> Any:
    """A node Loop whose body takes the states `inputs`, and gives `outputs` after its condition."""
    level = made[0]
    infos = [value(f"i_{level}", INT64, []), value(f"go_{level}", BOOL, []), *map(value, inputs)]
    nodes = [make("Identity", [f"go_{level}"], [f"on_{level}"]), *body_nodes]
    body = helper.make_graph(nodes, "body", infos, [value(f"on_{level}", BOOL, []), *map(value, outputs)])
    return make("Loop", [trips, "", *states], made, body=body)


def nested_loops(rng: np.random.Generator, folder: Path) -> Any:
    """Loops in loops: the innermost adds 1."""
    trips, levels = ((8, 8), (20, 8), (2, 30), (8, 20), (3, 3))[int(rng.integers(5))]
    node = make("Add", ["a0", "one"], ["b0"])
    for i in range(levels):
        node = loop([node], [f"a{i}"], [f"b{i}"], "n", [f"a{i + 1}"], [f"b{i + 1}"])
    constants = {"n": np.int64(trips), "one": np.float32(1)}
    start = {"a" + str(levels): [1]} if rng.random() < 0.5 else {}
    if not start:
        constants[f"a{levels}"] = np.float32([0])
    return model([node], start, [f"b{levels}"], constants)


def loops(rng: np.random.Generator, folder: Path) -> Any:
    """Long loops, and loops whose states grow."""
    trips = int(rng.choice([10**4, 10**6, 2**31, 2**62]))
    kind = int(rng.integers(6))
    constants = {"n": np.int64(trips), "x": np.float32([1])}
    if kind == 0:
        node = loop([make("SequenceInsert", ["s", "x"], ["t"])], ["s"], ["t"], "n", ["e"], ["q"])
        sequence = onnx.TypeProto()
        sequence.sequence_type.elem_type.tensor_type.elem_type = FLOAT
        for info in (node.attribute[0].g.input[2], node.attribute[0].g.output[1]):
            info.type.CopyFrom(sequence)
        return model(
            [make("SequenceEmpty", [], ["e"]), node, make("SequenceLength", ["q"], ["y"])], {}, constants=constants
        )
    if kind == 1:
        node = loop([make("Concat", ["s", "s"], ["t"], axis=0)], ["s"], ["t"], "n", ["x"], ["y"])
    elif kind == 2:
        node = loop([make("Concat", ["s", "x"], ["t"], axis=0)], ["s"], ["t"], "n", ["x"], ["y"])
    elif kind == 3:  # a scan output
        node = loop([make("Neg", ["s"], ["t"])], ["s"], ["t", "t"], "n", ["x"], ["z", "y"])
    elif kind == 4:
        node = loop([make("Neg", ["s"], ["t"])], ["s"], ["t"], "n", ["x"], ["y"])
    else:
        node = loop([make("Concat", ["s", "s"], ["t"], axis=0)], ["s"], ["t"], "n", ["d"], ["y"])
        return model([node], {"d": [1]}, constants=constants)
    if trips < 2**31 or kind < 3:
        return model([node], {}, constants=constants)
    return model([node], {"x": [1]}, constants={"n": np.int64(10**6)})


def calls(rng: np.random.Generator, folder: Path) -> Any:
    """Functions that call one another twice, or three times."""
    levels, times = int(rng.choice([5, 20, 49])), int(rng.integers(1, 4))
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)]

    def function(i: int) -> Any:
        if i == levels:
            nodes = [make("Neg", ["a"], ["b"])]
        else:
            names = ["a", *(f"c{k}" for k in range(times - 1)), "b"]
            nodes = [make(f"F{i + 1}", [names[k]], [names[k + 1]], domain="mine") for k in range(times)]
        return helper.make_function("mine", f"F{i}", ["a"], ["b"], nodes, imports)

    node = make("F0", ["x"], ["y"], domain="mine")
    return model([node], {"x": [1]}, functions=[function(i) for i in range(levels + 1)])


# The node that follows value i.
LINKS = {
    "sum with the first": lambda i: make("Sum", [f"v{i}", "v0"], [f"v{i + 1}"]),
    "sum with itself": lambda i: make("Sum", [f"v{i}", f"v{i}"], [f"v{i + 1}"]),
    "longer": lambda i: make("Concat", [f"v{i}", "v0"], [f"v{i + 1}"], axis=0),
    "sequence": lambda i: make("SequenceInsert", [f"s{i}", "v0"], [f"s{i + 1}"]),
    "unary": lambda i: make("Relu", [f"v{i}"], [f"v{i + 1}"]),
}


def chain(kind: str, count: int, is_constant: bool) -> Any:
    """Many nodes one after the other, on a constant or on data."""
    nodes = [LINKS[kind](i) for i in range(count)]
    if kind == "sequence":
        nodes = [make("SequenceEmpty", [], ["s0"]), *nodes, make("SequenceLength", [f"s{count}"], [f"v{count}"])]
    constants = {"v0": np.float32([1])} if is_constant else {}
    return model(nodes, {} if is_constant else {"v0": [1]}, [f"v{count}"], constants)


def chains(rng: np.random.Generator, folder: Path) -> Any:
    return chain(str(rng.choice(list(LINKS))), int(rng.choice([100, 1200])), rng.random() < 0.5)


def many_outputs(rng: np.random.Generator, folder: Path) -> Any:
    """Many outputs, of as many nodes, of one node, and of none."""
    count, kind = int(rng.choice([100, 3000])), rng.integers(3)
    names = [f"y{i}" for i in range(count)]
    if kind == 0:
        return model([make("Neg", ["x"], [name]) for name in names], {"x": [1]}, names)
    if kind == 1:
        return model([make("Split", ["x"], names, num_outputs=count)], {"x": [count]}, names)
    return model([make("Concat", names, ["y"], axis=0)], {name: [1] for name in names})


# Initializers.


def initializers(rng: np.random.Generator, folder: Path) -> Any:
    """Tensors whose sizes are not those of their bytes, inside of the model or in a file."""
    n = large(rng)
    dims = ([n], [n, n], [n, 0], [4], [5], [2, 2])[int(rng.integers(6))]
    tensor = TensorProto(name="w", data_type=int(rng.choice([1, 2, 7, 9, 10, 16, 21])), dims=dims)
    if rng.random() < 0.5:
        tensor.raw_data = bytes(16)
    else:
        (folder / "w.bin").write_bytes(bytes(16))
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="w.bin")
        if rng.random() < 0.5:
            tensor.external_data.add(key="length", value=str([16, 17, 8, n][int(rng.integers(4))]))
        if rng.random() < 0.3:
            tensor.external_data.add(key="offset", value=str([1, n][int(rng.integers(2))]))
    proto = model([make("Identity", ["w"], ["y"])], {})
    if rng.random() < 0.5:
        proto.graph.initializer.append(tensor)
    else:
        proto.graph.node[0].CopyFrom(make("Constant", [], ["y"], value=tensor))
    return proto


QUICK = [declared_sizes, deciding_numbers, ranks, initializers]
LONG = [doublings, nested_loops, loops, calls, chains, many_outputs]
KINDS = {kind.__name__: kind for kind in (*QUICK, *LONG)}
