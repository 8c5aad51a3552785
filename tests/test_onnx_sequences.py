"""Sequences and optionals, compared with ONNX Runtime and with lists of Python."""

import jax
import numpy as np
import pytest
from checks import assert_same_bits, sampled
from onnx_building import TensorProto, helper, model, onnx, runtime

import dml_jax
from dml_jax.onnx import Backend, NotConstantError, OnnxError, run_node, to_jax

make = helper.make_node
X = np.arange(12, dtype=np.float32).reshape(3, 4)
FLOATS = TensorProto.FLOAT


def typed(proto, *, inputs=(), outputs=()):
    """The model with inputs before the others, and outputs instead of the others, that are declared."""
    given = [*inputs, *proto.graph.input]
    del proto.graph.input[:]
    proto.graph.input.extend(given)
    if outputs:
        del proto.graph.output[:]
        proto.graph.output.extend(outputs)
    return proto


def sequence(name, dtype=FLOATS):
    return helper.make_tensor_sequence_value_info(name, dtype, None)


def optional(name, inner=None):
    inner = inner or helper.make_tensor_type_proto(FLOATS, None)
    return helper.make_value_info(name, helper.make_optional_type_proto(inner))


def assert_same(actual, expected):
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        assert isinstance(one, list) == isinstance(other, list)
        if isinstance(one, list):
            assert_same(one, other)
        else:
            assert_same_bits(one, other)


# A program of operators on one sequence, chosen at random, beside ONNX Runtime.


class Steps:
    """Nodes of which each makes a new sequence of the last one, or reads it; `length` is how long it is."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.inputs, self.constants, self.read = [], {}, {}, []
        self.used = set()
        self._split()
        for _ in range(8):
            name = ("insert", "erase", "at", "length", "construct", "concat", "stack")[int(self.rng.integers(7))]
            if self.length or name in ("insert", "length", "construct"):
                self.used.add(name)
                getattr(self, f"_{name}")()
        self._length()

    def _add(self, op_type, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(make(op_type, list(inputs), [name], **attributes))
        return name

    def _constant(self, number):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(number, (np.int32, np.int64)[int(self.rng.integers(2))])
        return name

    def _input(self, array):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = array
        return name

    def _array(self):
        return self._input(self.rng.standard_normal((2, 1, 3)).astype(np.float32))

    def _position(self, count, greatest):
        return self._constant(self.rng.integers(-count, greatest + 1))

    def _split(self):
        """Into arrays of (2, 1, 3), of (1, 2, 3) moved there."""
        n, ways = int(self.rng.integers(1, 5)), ("none", "number", "numbers")
        way = ways[int(self.rng.integers(3))]
        x = self._input(self.rng.standard_normal((2, n, 3)).astype(np.float32))
        inputs = {"none": [x], "number": [x, ""], "numbers": [x, ""]}[way]
        if way != "none":
            inputs[1] = self._constant(1 if way == "number" else [1] * n)
        self.used.add(way)
        self.last, self.length = self._add("SplitToSequence", *inputs, axis=int(self.rng.choice([1, -2]))), n

    def _insert(self):
        position = [self._position(self.length, self.length)] if self.rng.random() < 0.7 else []
        self.last, self.length = self._add("SequenceInsert", self.last, self._array(), *position), self.length + 1

    def _erase(self):
        position = [self._position(self.length, self.length - 1)] if self.rng.random() < 0.7 else []
        self.last, self.length = self._add("SequenceErase", self.last, *position), self.length - 1

    def _construct(self):
        self.last, self.length = self._add("SequenceConstruct", self._array(), self._array()), 2

    def _at(self):
        self.read.append(self._add("SequenceAt", self.last, self._position(self.length, self.length - 1)))

    def _length(self):
        self.read.append(self._add("SequenceLength", self.last))

    def _concat(self):
        self.read.append(self._add("ConcatFromSequence", self.last, axis=int(self.rng.integers(-3, 3))))

    def _stack(self):
        self.read.append(self._add("ConcatFromSequence", self.last, axis=int(self.rng.integers(-4, 4)), new_axis=1))


SEEDS = range(30)


def test_the_random_programs_have_every_operator():
    used = set().union(*(Steps(seed).used for seed in SEEDS))
    assert used == {*("none", "number", "numbers", "insert", "erase", "at", "length", "construct", "concat", "stack")}


@pytest.mark.parametrize("seed", sampled(SEEDS, range(3)))
def test_a_random_program_is_that_of_onnx_runtime(seed):
    steps = Steps(seed)
    proto = model(steps.nodes, steps.inputs, steps.read, steps.constants)
    function = to_jax(proto)
    with jax.enable_x64(True):
        made = jax.jit(lambda x: function(*x))(list(steps.inputs.values()))
    made = made if isinstance(made, tuple) else (made,)
    assert_same(made, runtime(proto, steps.inputs))
    assert_same(Backend.run_model(proto, steps.inputs), runtime(proto, steps.inputs))


@pytest.mark.parametrize(
    ("shape", "split", "attributes"),
    [
        ((7, 2), np.int64(3), {}),
        ((2, 7), np.int64([3, 0, 4]), {"axis": -1}),
        ((3, 2), None, {"keepdims": 0}),
        ((0, 2), np.int64(2), {}),
    ],
)
def test_parts_are_those_of_onnx_runtime(shape, split, attributes):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    inputs = ["x"] if split is None else ["x", "split"]
    proto = model(
        [make("SplitToSequence", inputs, ["y"], **attributes)], {"x": x}, ["y"], split is not None and {"split": split}
    )
    assert_same([to_jax(proto)(x)], runtime(typed(proto, outputs=[sequence("y")]), {"x": x}))


def test_dimensions_are_kept_if_a_split_is_given():
    """By the specification; ONNX Runtime 1.32 removes them of parts of size 1."""
    node = make("SplitToSequence", ["x", "one"], ["y"], keepdims=0)
    proto = typed(model([node], {"x": X}, ["y"], {"one": np.int64(1)}), outputs=[sequence("y")])
    assert_same([to_jax(proto)(X)], [[X[i : i + 1] for i in range(3)]])
    assert runtime(proto, {"x": X})[0][0].shape == (4,)


# What goes in and comes out.


def test_a_sequence_is_a_list():
    """Under jit too, and its gradients are a list; each array has sizes of its own."""
    nodes = [make("ConcatFromSequence", ["s"], ["c"], axis=0), make("SequenceInsert", ["s", "c"], ["t"])]
    proto = typed(model(nodes, {}, ["t"]), inputs=[sequence("s")], outputs=[sequence("t")])
    function, given = to_jax(proto), [X, X[:1]]
    assert repr(function) == "OnnxFunction graph(s: sequence of float32) -> (t)"
    wanted = [*given, np.concatenate(given)]
    for made in (
        function(given),
        jax.jit(function)(given),
        function(s=tuple(given)),
        Backend.run_model(proto, [given])[0],
    ):
        assert isinstance(made, list)
        assert_same(made, wanted)
    assert_same([list(wanted)], runtime(proto, {"s": given}))
    slopes = jax.jit(jax.grad(lambda s: sum((y**2).sum() for y in function(s))))(given)
    assert_same(slopes, [4 * x for x in given])
    assert_same(run_node(nodes[1], [given, X]), [[*given, X]])
    for value, error, text in [
        (X, dml_jax.DataTypeError, "input 's': it must be a list of arrays, but it is of the type ndarray"),
        ([X, X.astype(int)], dml_jax.DataTypeError, "input 's', element 1: its type must be float32, but it is int64"),
        ([X, "x"], dml_jax.DataTypeError, "input 's', element 1"),
    ]:
        with pytest.raises(error) as caught:
            function(value)
        assert text in str(caught.value)
    with pytest.raises(OnnxError, match="static value 's': only tensor inputs can be static, but this one is s: seq"):
        to_jax(proto, static={"s": given})
    with pytest.raises(
        dml_jax.DataTypeError, match=r"input 's': it must be an array, or a list .* but it has no elements"
    ):
        run_node(nodes[1], [[], X])


def test_an_empty_optional_is_none():
    has, get = make("OptionalHasElement", ["o"], ["has"]), make("OptionalGetElement", ["o"], ["y"])
    present = typed(model([has], {}, ["has"], opset=18), inputs=[optional("o")])
    function = to_jax(present)
    assert repr(function) == "OnnxFunction graph(o: optional float32) -> (has)"
    for value, wanted in ((X, True), (None, False)):
        assert_same_bits(function(value), np.array(wanted))
        assert_same_bits(jax.jit(function)(value), np.array(wanted))
    taken = to_jax(typed(model([get], {}, ["y"], opset=18), inputs=[optional("o")]))
    assert_same_bits(jax.jit(taken)(X), X)
    text = (
        r"OptionalGetElement node #0: the optional must have an element, but this optional\(tensor\(float\)\) has none"
    )
    with pytest.raises(OnnxError, match=text):
        taken(None)
    inner = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOATS, [4]))
    same = typed(model([make("Identity", ["o"], ["p"])], {}, ["p"], opset=18), inputs=[optional("o", inner)])
    assert str(to_jax(same).inputs[0]) == "o: optional sequence of float32[4]"
    assert to_jax(same)(None) is None
    assert_same([to_jax(same)([X[0]])], [[X[0]]])
    with pytest.raises(OnnxError, match=r"input 'o', element 0: its sizes must be \[4\], but they are \[3\]"):
        to_jax(same)([X[0, :3]])
    empty = make("Optional", [], ["y"], type=helper.make_tensor_type_proto(FLOATS, None))
    assert to_jax(model([empty], {}, ["y"], opset=18))() is None


def test_files_have_tensors_alone(tmp_path):
    from dml_jax.array_models.onnx_model import read_onnx_file

    proto = typed(model([make("SequenceAt", ["s", "i"], ["y"])], {}, ["y"], {"i": np.int64(0)}), inputs=[sequence("s")])
    onnx.save(proto, tmp_path / "m.onnx")
    with pytest.raises(
        OnnxError, match="input 's': it must be a tensor here, but it is sequence_type; `to_jax` takes it"
    ):
        read_onnx_file(tmp_path / "m.onnx", {}, {}, [])


# In graphs.


def value(name, dtype=FLOATS):
    return helper.make_tensor_value_info(name, dtype, None)


def test_the_body_of_a_map_needs_no_types_where_there_are_elements():
    """As torch's exporter writes hstack and block_diag."""
    untyped = [onnx.ValueInfoProto(name=name) for name in "ad"]
    body = helper.make_graph([make("Add", ["a", "a"], ["d"])], "body", untyped[:1], untyped[1:])
    mapped = make("SequenceMap", ["s"], ["t"], body=body, name="map")
    double = to_jax(typed(model([mapped], {}, ["t"]), inputs=[sequence("s")]))
    assert_same(jax.jit(double)([*X]), [x + x for x in X])
    with pytest.raises(OnnxError, match="SequenceMap node 'map': an output of the body: it must be a tensor"):
        double([])


def test_a_map_runs_its_body_on_each_element():
    """It sees what is around it, and knows its type where there are no elements."""
    nodes = [make("Add", ["a", "b"], ["c"]), make("Mul", ["c", "two"], ["d"]), make("Shape", ["a"], ["n"])]
    body = helper.make_graph(nodes, "body", [value("a"), value("b")], [value("d"), value("n", TensorProto.INT64)])
    mapped = make("SequenceMap", ["s", "x"], ["t", "n"], body=body, name="map")
    proto = typed(model([mapped], {"x": X[0]}, ["t", "n"], {"two": np.float32(2)}), inputs=[sequence("s")])
    given = [X, X[:2]]
    made = jax.jit(to_jax(proto))(given, X[0])
    assert_same(made[0], [2 * (x + X[0]) for x in given])
    assert_same(made[1], [np.int32(x.shape) for x in given])
    inserted = make("SequenceInsert", ["n", "k"], ["m"])
    proto = typed(
        model([mapped, inserted], {"x": X[0]}, ["m"], {"two": np.float32(2), "k": np.int64([5])}),
        inputs=[sequence("s")],
    )
    assert_same(to_jax(proto)([], X[0]), [np.int32([5])])
    both = make("SequenceMap", ["s", "r"], ["t"], body=body, name="map")
    unequal = typed(model([both], {}, ["t"], {"two": np.float32(2)}), inputs=[sequence("s"), sequence("r")])
    with pytest.raises(
        OnnxError, match=r"SequenceMap node 'map': all sequences must have one length, but they have \[1, 2\]"
    ):
        to_jax(unequal)([X], given)


def test_a_loop_may_carry_a_sequence():
    """It is unrolled if the sequence grows, and a scan if it does not."""
    scope = [
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
        helper.make_tensor_value_info("go", TensorProto.BOOL, []),
    ]
    kept = make("Identity", ["go"], ["go_out"])
    grown = [kept, make("Gather", ["x", "i"], ["row"]), make("SequenceInsert", ["s", "row", "first"], ["s_out"])]
    outputs = [value("go_out", TensorProto.BOOL), sequence("s_out")]
    body = helper.make_graph(grown, "body", [*scope, sequence("s")], outputs)
    nodes = [make("SequenceEmpty", [], ["none"]), make("Loop", ["n", "", "none"], ["rows"], body=body)]
    many = np.arange(40, dtype=np.float32).reshape(20, 2)
    proto = typed(
        model(nodes, {"x": many}, ["rows"], {"n": np.int64(20), "first": np.int64(0)}), outputs=[sequence("rows")]
    )
    made = jax.jit(to_jax(proto))(many)
    assert_same([made], [list(many[::-1])])
    assert_same([made], runtime(proto, {"x": many}))
    doubled = [
        kept,
        make("SequenceAt", ["s", "first"], ["a"]),
        make("Add", ["a", "a"], ["b"]),
        make("SequenceConstruct", ["b", "a"], ["s_out"]),
    ]
    body = helper.make_graph(doubled, "body", [*scope, sequence("s")], outputs)
    nodes = [make("SequenceConstruct", ["x", "x"], ["both"]), make("Loop", ["n", "", "both"], ["rows"], body=body)]
    proto = typed(
        model(nodes, {"x": X}, ["rows"], {"n": np.int64(20), "first": np.int64(0)}), outputs=[sequence("rows")]
    )
    assert "scan" in {eqn.primitive.name for eqn in jax.make_jaxpr(to_jax(proto))(X).eqns}
    assert_same([jax.jit(to_jax(proto))(X)], runtime(proto, {"x": X}))


def test_branches_may_give_sequences():
    """Under jit of an unknown condition if they are equally long."""

    def branch(name, *inputs):
        return helper.make_graph([make("SequenceConstruct", inputs, [name])], name, [], [sequence(name)])

    def chosen(other):
        node = make(
            "If", ["b"], ["y"], name="choice", then_branch=branch("t", "x", "z"), else_branch=branch("f", *other)
        )
        return typed(model([node], {"x": X, "z": -X, "b": np.array(True)}, ["y"]), outputs=[sequence("y")])

    for condition, wanted in ((True, [X, -X]), (False, [-X, -X])):
        assert_same(jax.jit(to_jax(chosen(["z", "z"])))(X, -X, np.array(condition)), wanted)
    assert_same(to_jax(chosen(["z"]))(X, -X, np.array(False)), [-X])
    with pytest.raises(
        NotConstantError, match=r"different types, a sequence of \[float32\[3, 4\], float32\[3, 4\]\] and a seq"
    ):
        jax.jit(to_jax(chosen(["z"])))(X, -X, np.array(False))


def test_int64_in_sequences_while_x64_is_off():
    """What has 32 bits on the device keeps its range."""
    nodes = [
        make("SplitToSequence", ["ids", "one"], ["s"]),
        make("SequenceInsert", ["s", "number"], ["t"]),
        make("ConcatFromSequence", ["t"], ["c"], axis=0),
        make("Gather", ["table", "c"], ["y"]),
    ]
    constants = {"one": np.int64(1), "number": np.int64([3])}
    ids, table = np.int64([2, -1]), np.float32([1, 2, 3, 4])
    proto = model(nodes, {"ids": ids, "table": table}, ["y"], constants)
    assert_same_bits(jax.jit(to_jax(proto, int32=["ids"]))(ids.astype(np.int32), table), np.float32([3, 4, 4]))
    first = make("SequenceInsert", ["s", "number", "zero"], ["t"])
    added = [nodes[0], first, nodes[2], make("Add", ["c", "far"], ["y"])]
    more = constants | {"zero": np.int64(0), "far": np.int64(2**30)}
    with pytest.raises(dml_jax.DataTypeError, match=r"Add node #3: .* may be any in \[-1073741824, 3221225471\]"):
        jax.jit(to_jax(model(added, {"ids": ids}, ["y"], more), int32=["ids"]))(ids.astype(np.int32))
    constants["number"] = np.int64([2**40])
    wide = model(nodes, {"ids": ids, "table": table}, ["y"], constants)
    with pytest.raises(dml_jax.DataTypeError, match="ConcatFromSequence node #2: int64 must not be narrowed"):
        jax.jit(to_jax(wide, int32=["ids"]))(ids.astype(np.int32), table)


# What is refused.

BROKEN = {
    "at": (make("SequenceAt", ["s", "two"], ["y"]), "SequenceAt node #0: position must be in [-2, 1], but it is 2"),
    "erase": (make("SequenceErase", ["s", "far"], ["y"]), "position must be in [-2, 1], but it is -3"),
    "insert": (make("SequenceInsert", ["s", "x", "far"], ["y"]), "position must be in [-2, 2], but it is -3"),
    "type": (
        make("SequenceInsert", ["s", "two"], ["y"]),
        "must be of the type of those in the sequence, float32, but it is int64",
    ),
    "positions": (make("SequenceAt", ["s", "parts"], ["y"]), "position must be one number, but its shape is (2,)"),
    "tensor": (make("SequenceLength", ["x"], ["y"]), "input_sequence of SequenceLength-11 must be one of seq("),
    "sequence": (make("Relu", ["s"], ["y"]), "X of Relu-14 must be one of float, int32"),
    "sum": (make("SplitToSequence", ["x", "parts"], ["y"]), "non-negative and add up to 3, but it is [1, 5]"),
    "negative": (make("SplitToSequence", ["x", "minus"], ["y"]), "non-negative and add up to 3, but it is [-1, 4]"),
    "part": (make("SplitToSequence", ["x", "zero"], ["y"]), "split must be at least 1, but it is 0"),
    "axis": (make("ConcatFromSequence", ["s"], ["y"], axis=2), "axis must be in [-2, 1], but it is 2"),
    "new_axis": (make("ConcatFromSequence", ["s"], ["y"], axis=3, new_axis=1), "axis must be in [-3, 2], but it is 3"),
    "optional": (make("Optional", [], ["y"]), "it must have an input or the attribute 'type', but it has neither"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_refused(name):
    node, text = BROKEN[name]
    constants = {"two": np.int64(2), "far": np.int64(-3), "zero": np.int64(0), "x": X}
    constants |= {"parts": np.int64([1, 5]), "minus": np.int64([-1, 4])}
    proto = typed(model([node], {}, ["y"], constants), inputs=[sequence("s")])
    with pytest.raises(OnnxError) as caught:
        to_jax(proto)([X, X])
    assert text in str(caught.value)


def test_an_empty_sequence_has_nothing_to_read():
    for node, text in [
        (
            make("SequenceAt", ["s", "zero"], ["y"]),
            "SequenceAt node #0: the sequence must have a tensor, but it is empty",
        ),
        (make("ConcatFromSequence", ["s"], ["y"], axis=0), "the sequence must have a tensor, but it is empty"),
    ]:
        proto = typed(model([node], {}, ["y"], {"zero": np.int64(0)}), inputs=[sequence("s")])
        with pytest.raises(OnnxError) as caught:
            to_jax(proto)([])
        assert text in str(caught.value)


def test_a_position_that_is_data_is_refused_under_jit():
    proto = typed(model([make("SequenceAt", ["s", "i"], ["y"])], {"i": np.asarray(1)}, ["y"]), inputs=[sequence("s")])
    assert_same_bits(to_jax(proto)([X, -X], np.asarray(1)), -X)
    with pytest.raises(NotConstantError, match="it decides which tensor of a sequence is meant"):
        jax.jit(to_jax(proto, int32=["i"]))([X, -X], np.int32(1))
