"""`GraphDesc` as bytes and back: values by name become edges; what a file has no place for is refused."""

from dataclasses import replace

import numpy as np
import pytest
from catalogue_cases import DESCS
from operator_cases import f32, u32
from serialized_graph_cases import MATMUL_ADD

from dml_jax import (
    Constant,
    ConstraintError,
    DepthToSpaceDesc,
    ElementWiseIdentityDesc,
    GatherDesc,
    GraphDesc,
    JoinDesc,
    SplitDesc,
    TensorDesc,
)
from dml_jax.graphs.serialized.codec import encode
from dml_jax.graphs.serialized.graph_from_records import to_parts
from dml_jax.graphs.serialized.graph_to_records import to_serialized
from dml_jax.graphs.serialized.records import ConstantNode, NamedConstant, SerializedGraph

pytest.importorskip("flatbuffers")

CHANNELS, PICTURE = f32(1, 4, 1, 1), f32(1, 1, 2, 2)
ORDER = u32(1, 1, 1, 4)
PICK = GatherDesc(CHANNELS, ORDER, CHANNELS, axis=1, index_dimensions=1)
PICK_OWNED = replace(PICK, indices=replace(ORDER, flags="OWNED_BY_DML"))
ENLARGE = DepthToSpaceDesc(CHANNELS, PICTURE, 2)
ROWS = tuple(f32(n, 2) for n in (1, 2, 3))
COPY = ElementWiseIdentityDesc(ROWS[0], ROWS[0])


def to_graph(serialized):
    """The graph that a file describes."""
    return GraphDesc(*to_parts(serialized))


def chain(indices, pick=PICK, **nodes):
    """Channels in another order, as a picture."""
    edges = {
        ("pick", "input"): "x",
        ("pick", "indices"): indices,
        ("enlarge", "input"): ("pick", "output"),
        "y": ("enlarge", "output"),
    }
    return GraphDesc({**nodes, "pick": pick, "enlarge": ENLARGE}, edges)


def of_one(node, edges):
    """A graph of one node; edges by the node's tensors and the names of outputs."""
    tensors = node.input_ports()
    edges = {("n", port) if port in tensors else port: source for port, source in edges.items()}
    return GraphDesc({"n": node}, {reader: s if isinstance(s, str) else ("n", *s) for reader, s in edges.items()})


WITH_DATA = chain(("order", "output"), order=Constant(np.uint32([3, 2, 1, 0])))
WITH_INPUT, WITH_OWNED = chain("order"), chain("order", PICK_OWNED)
HALVES = TensorDesc("UINT16", (4,), strides=(1,))

GRAPHS = {
    "a constant": WITH_DATA,
    "two inputs": WITH_INPUT,
    "an owned input": WITH_OWNED,
    "an array of outputs": of_one(
        SplitDesc(ROWS[2], (ROWS[0], ROWS[1]), 0), {"input": "x", "b": ("outputs[1]",), "a": ("outputs[0]",)}
    ),
    "an array of inputs": of_one(
        JoinDesc((ROWS[0], ROWS[1]), ROWS[2], 0), {"inputs[0]": "x", "inputs[1]": "y", "z": ("output",)}
    ),
    "an input that is read twice": of_one(
        JoinDesc((ROWS[0], ROWS[0]), ROWS[1], 0), {"inputs[0]": "x", "inputs[1]": "x", "z": ("output",)}
    ),
    "an optional tensor that is left out": of_one(replace(DESCS["DIAGONAL_MATRIX1"], input=None), {"y": ("output",)}),
    "an output that is read": GraphDesc(
        {"a": COPY, "b": COPY},
        {("a", "input"): "x", ("b", "input"): ("a", "output"), "y": ("a", "output"), "z": ("b", "output")},
    ),
    "bytes that are read as another tensor": GraphDesc(
        {"a": COPY, "b": ElementWiseIdentityDesc(HALVES, HALVES)},
        {("a", "input"): "x", ("b", "input"): ("a", "output"), "y": ("b", "output")},
    ),
}


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_graphs_survive(graph):
    assert GraphDesc.from_bytes(graph.to_bytes()) == graph


def test_what_is_read_computes_the_same():
    x = np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1)
    read = GraphDesc.from_bytes(WITH_DATA.to_bytes())
    np.testing.assert_array_equal(read.compute(x), np.float32([[[[3, 2], [1, 0]]]]))


def test_a_file_of_onnx_runtime_computes_what_dxdispatch_prints():
    graph = GraphDesc.from_bytes(encode(MATMUL_ADD))
    assert list(graph.inputs) == ["model_input", "matmul_b_tensor", "add_b_tensor"]
    row, square = np.full((1, 1, 1, 5), 1.5, np.float32), np.full((1, 1, 5, 5), 1.5, np.float32)
    np.testing.assert_array_equal(graph.compute(row, square, np.ones_like(row)).ravel(), [12.25] * 5)


def test_owned_inputs_are_constants_by_name():
    serialized = to_serialized(WITH_OWNED)
    constant, pick, enlarge = serialized.nodes
    assert constant == ConstantNode("order", NamedConstant("order"), ("order",))
    assert (pick.input_names, pick.output_names) == (("x", "order"), ("pick.OutputTensor",))
    assert (enlarge.input_names, enlarge.output_names) == (("pick.OutputTensor",), ("y",))
    assert (serialized.input_names, serialized.output_names) == (("x",), ("y",))


def test_constants_of_the_graph_lie_in_the_file():
    nodes = {node.name: node for node in to_serialized(WITH_DATA).nodes}
    assert nodes["order"] == ConstantNode("order", np.uint32([3, 2, 1, 0]).tobytes(), ("order.Data",))
    assert nodes["pick"].input_names == ("x", "order.Data")


def test_values_have_names_of_their_own():
    graph = GraphDesc(
        {"a": COPY, "b": COPY},
        {("a", "input"): "x", ("b", "input"): ("a", "output"), "a.OutputTensor": ("b", "output")},
    )
    first, second = to_serialized(graph).nodes
    assert first.output_names == second.input_names == ("a.OutputTensor'",)
    assert to_graph(to_serialized(graph)) == graph


# A file as text: x -> pick -> enlarge -> y, with the indices as bytes.
SERIALIZED = to_serialized(WITH_DATA)
NODES = {node.name: node for node in SERIALIZED.nodes}


def with_nodes(*nodes, **changes):
    return replace(SERIALIZED, nodes=nodes, **changes)


def test_nodes_of_one_name_are_numbered():
    order, pick, enlarge = (replace(NODES[name], name="0") for name in ("order", "pick", "enlarge"))
    graph = to_graph(with_nodes(order, replace(pick, name="0 (2)"), enlarge))
    assert list(graph.nodes) == ["0", "0 (2)", "0 (3)"]
    assert graph.edges["0 (3)", "input"] == ("0 (2)", "output")


def test_inputs_and_outputs_without_a_name_are_left_out():
    graph = to_graph(replace(SERIALIZED, input_names=("", "x", ""), output_names=("", "y")))
    assert graph == WITH_DATA


def test_inputs_keep_the_order_of_the_file():
    graph = to_graph(replace(to_serialized(WITH_INPUT), input_names=("order", "x")))
    assert list(graph.inputs) == ["order", "x"]


def test_one_file_may_hold_the_data_of_several_constants():
    names = [ConstantNode(f"node {i}", NamedConstant("order"), (f"v{i}",)) for i in (1, 2)]
    first = replace(NODES["pick"], input_names=("x", "v1"))
    second = replace(NODES["pick"], name="again", input_names=("pick.OutputTensor", "v2"), output_names=("z",))
    enlarge = replace(NODES["enlarge"], input_names=("z",))
    graph = to_graph(with_nodes(*names, first, second, enlarge))
    assert list(graph.inputs) == ["x", "order"]
    assert graph.edges["pick", "indices"] == graph.edges["again", "indices"] == "order"
    assert graph.inputs["order"] == PICK_OWNED.indices


ORDER_NODE, PICK_NODE, ENLARGE_NODE = NODES["order"], NODES["pick"], NODES["enlarge"]
NAMED = replace(ORDER_NODE, data=NamedConstant("order"))


@pytest.mark.parametrize(
    ("serialized", "words"),
    [
        (
            with_nodes(ORDER_NODE, replace(PICK_NODE, type="DML_OPERATOR_GATHRE"), replace(ENLARGE_NODE, type="X")),
            [
                "serialized graph: node 'pick': unknown operator 'DML_OPERATOR_GATHRE'",
                "serialized graph: node 'enlarge': unknown operator 'X'",
            ],
        ),
        (
            with_nodes(ORDER_NODE, ENLARGE_NODE, PICK_NODE),
            ["node 'enlarge': every value", "but InputTensor reads 'pick."],
        ),
        (with_nodes(PICK_NODE, ORDER_NODE, ENLARGE_NODE), ["node 'pick': every value", "IndicesTensor reads 'order.D"]),
        (
            with_nodes(ORDER_NODE, ORDER_NODE, PICK_NODE, ENLARGE_NODE),
            ["node 'order (2)': every value must be written once"],
        ),
        (with_nodes(ORDER_NODE, PICK_NODE, replace(ENLARGE_NODE, output_names=("x",))), ["'x' is there already"]),
        (replace(SERIALIZED, input_names=("x", "x")), ["every value must be written once, but 'x' is there already"]),
        (replace(SERIALIZED, input_names=("x", "w")), ["input 'w': no node reads it"]),
        (replace(SERIALIZED, output_names=("y", "w")), ["output 'w': no node writes it"]),
        (
            replace(SERIALIZED, output_names=("y", "y")),
            ["every output must have a name of its own, but there are two 'y'"],
        ),
        (replace(SERIALIZED, output_names=("y", "x")), ["input 'x'", "GRAPH"]),
        (
            with_nodes(ORDER_NODE, PICK_NODE, ENLARGE_NODE, replace(NAMED, output_names=())),
            ["input 'order': no node reads it"],
        ),
        (
            with_nodes(replace(NAMED, data=NamedConstant("x")), PICK_NODE, ENLARGE_NODE),
            ["the name of an input, but 'x'"],
        ),
        (SerializedGraph((), (), ()), ["GRAPH: a graph must have an output"]),
    ],
)
def test_files_that_are_no_graph_are_refused(serialized, words):
    with pytest.raises(ConstraintError) as caught:
        to_graph(serialized)
    assert all(some in str(caught.value) for some in words), str(caught.value)


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        (
            chain("order", replace(PICK, input=replace(CHANNELS, guaranteed_base_offset_alignment=16))),
            "GRAPH: node 'pick': GATHER: InputTensor: GuaranteedBaseOffsetAlignment must be 0",
        ),
        (
            of_one(COPY, {"input": "x", "y": ("output",), "z": ("output",)}),
            "have one output of a source, but 'y' and 'z' are both 'n'.OutputTensor: put an ELEMENT_WISE_IDENTITY",
        ),
        (
            GraphDesc({"n": COPY}, {("n", "input"): "x", "y": ("n", "output")}, inputs={"x": HALVES}),
            "GRAPH: input 'x': in a serialized graph it must have the tensor of the first node",
        ),
        (
            GraphDesc({"n": COPY}, {("n", "input"): "x", "y": ("n", "output")}, outputs={"y": HALVES}),
            "GRAPH: output 'y': in a serialized graph it must have the tensor of the first node",
        ),
        (of_one(COPY, {"input": "\ud800", "y": ("output",)}), "must be writable in UTF-8"),
    ],
)
def test_graphs_that_a_file_cannot_hold_are_refused(graph, words):
    with pytest.raises(ConstraintError) as caught:
        graph.to_bytes()
    assert words in str(caught.value)


@pytest.mark.parametrize("value", [0, 2, 0xFF])
def test_damaged_files_are_graphs_or_refused(value):
    content, refused = WITH_DATA.to_bytes(), 0
    for i in range(len(content)):
        try:
            assert isinstance(GraphDesc.from_bytes(content[:i] + bytes([value]) + content[i + 1 :]), GraphDesc)
        except ConstraintError:
            refused += 1
    assert refused > len(content) // 4
