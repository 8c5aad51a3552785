"""Drawn graphs: boxes, edge labels, arbitrary names, and several graphs in one picture."""

from xml.etree import ElementTree

import numpy as np
import pytest
from drawn_graphs import (
    CHAIN,
    COPY,
    DIAMOND,
    ROW,
    TWICE,
    box_groups,
    each_graph,
    each_name,
    found,
    named,
    names,
    random_graph,
    read_dot,
    texts,
)
from operator_cases import f32, i32, u32
from svg_geometry import SVG

from dml_jax import (
    Constant,
    DataTypeError,
    ElementWiseIdentityDesc,
    GatherDesc,
    GraphDesc,
    JoinDesc,
    Padding1Desc,
    Resample1Desc,
    SplitDesc,
    TensorDesc,
    draw_graph,
    graph_to_dot,
)
from dml_jax.graphs.dot import graphs_to_dot
from dml_jax.graphs.svg import draw_graphs

# What is in a picture.


def test_a_chain():
    """Every box and edge, from top to bottom."""
    picture = found(draw_graph(CHAIN))
    assert picture.boxes == {
        ("input", "x"): "input",
        ("ELEMENT_WISE_IDENTITY", "first"): "operator",
        ("ELEMENT_WISE_IDENTITY", "second"): "operator",
        ("ELEMENT_WISE_IDENTITY", "third"): "operator",
        ("output", "y third"): "output",
    }
    assert {label for _, label, _ in picture.edges} == {("FLOAT32 4",)}
    assert names(picture.edges) == [("first", "second"), ("second", "third"), ("third", "y third"), ("x", "first")]


def test_tensors_are_named_where_a_node_has_several():
    labels = [label for _, label, _ in found(draw_graph(DIAMOND)).edges]
    assert sorted(labels) == sorted(
        [*[("FLOAT32 4",)] * 2, ("InputTensors[0]", "FLOAT32 4"), ("InputTensors[1]", "FLOAT32 4"), ("FLOAT32 8",)]
    )
    labels = {(source[1], reader[1]): label for source, label, reader in found(draw_graph(TWICE)).edges}
    assert labels["same part", "y same 1"] == ("OutputTensors[1] →", "FLOAT32 4")


def test_edges_between_nodes_that_both_have_several_tensors():
    pair = f32(8)
    crossed = GraphDesc(
        {"split": SplitDesc(pair, [ROW, ROW], axis=0), "join": JoinDesc([ROW, ROW], pair, axis=0)},
        {
            ("split", "input"): "x",
            ("join", "inputs[0]"): ("split", "outputs[1]"),
            ("join", "inputs[1]"): ("split", "outputs[0]"),
            "y": ("join", "output"),
        },
    )
    labels = [label[0] for source, label, _ in found(draw_graph(crossed)).edges if source[1] == "split"]
    assert sorted(labels) == ["OutputTensors[0] → InputTensors[1]", "OutputTensors[1] → InputTensors[0]"]


@each_graph
def test_every_node_and_edge_is_there(graph):
    picture = found(draw_graph(graph))
    assert sorted(box[1] for box in picture.boxes) == sorted([*graph.inputs, *graph.nodes, *graph.outputs])
    assert names(picture.edges) == sorted(
        (source if isinstance(source, str) else source[0], reader if isinstance(reader, str) else reader[0])
        for reader, source in graph.edges.items()
    )


@each_graph
def test_what_is_read_stands_above_what_reads_it(graph):
    boxes = {group[2].text: float(group[0].get("y")) for group in box_groups(draw_graph(graph))}
    assert all(boxes[source] < boxes[reader] for source, reader in names(found(draw_graph(graph)).edges))


def test_a_constant_stands_beside_its_reader_and_not_on_top():
    table = Constant(np.uint32([3, 2, 1, 0]))
    gather = GatherDesc(ROW, u32(4), ROW, axis=0, index_dimensions=1)
    graph = GraphDesc(
        {"copy": COPY, "again": COPY, "pick": gather, "order": table},
        {
            ("copy", "input"): "x",
            ("again", "input"): ("copy", "output"),
            ("pick", "input"): ("again", "output"),
            ("pick", "indices"): ("order", "output"),
            "y": ("pick", "output"),
        },
    )
    groups = {texts(group): group for group in box_groups(draw_graph(graph))}
    constant = groups["CONSTANT", "order", "16 bytes"][0]
    beside = groups["ELEMENT_WISE_IDENTITY", "again"][0]
    middles = {float(one.get("y")) + float(one.get("height")) / 2 for one in (constant, beside)}
    assert max(middles) - min(middles) < 0.1
    assert ("GATHER", "pick", "Axis: 0", "IndexDimensions: 1") in groups


# What an edge says.


def label_of(written, read):
    """The label between a node that writes a tensor and one that reads it as another."""
    nodes = {"one": ElementWiseIdentityDesc(written, written), "other": ElementWiseIdentityDesc(read, read)}
    edges = {("one", "input"): "x", ("other", "input"): ("one", "output"), "y": ("other", "output")}
    picture = found(draw_graph(GraphDesc(nodes, edges)))
    return next(label for source, label, reader in picture.edges if (source[1], reader[1]) == ("one", "other"))


PACKED = f32(1, 4, 8, 8)


@pytest.mark.parametrize(
    ("read", "lines"),
    [
        (PACKED, ["FLOAT32 1x4x8x8"]),
        (f32(1, 4, 8, 8, strides=(7, 64, 8, 1)), ["FLOAT32 1x4x8x8"]),  # 7 is never added
        (f32(4, 64), ["FLOAT32 1x4x8x8", "read as", "FLOAT32 4x64"]),
        (TensorDesc("UINT16", (512,)), ["FLOAT32 1x4x8x8", "read as", "UINT16 512"]),
        (
            f32(1, 8, 8, 4, strides=(256, 8, 1, 64)),
            ["FLOAT32 1x4x8x8", "read as", "FLOAT32 1x8x8x4", "strides 256,8,1,64"],
        ),
    ],
    ids=["same", "strides that say nothing", "reshaped", "other type", "transposed"],
)
def test_both_ends_of_an_edge_are_told_where_they_differ(read, lines):
    assert label_of(PACKED, read) == tuple(lines)


def test_strides_that_both_ends_share_are_told_once():
    columns = f32(3, 2, strides=(1, 3))
    assert label_of(columns, columns) == ("FLOAT32 3x2", "strides 1,3")


def test_inputs_that_are_read_differently():
    """The tensor of an input is that of its first reader, or the one that is given."""
    square = ElementWiseIdentityDesc(*[f32(2, 2)] * 2)
    nodes = {"flat": COPY, "square": square}
    edges = {("flat", "input"): "x", ("square", "input"): "x", "y": ("flat", "output"), "z": ("square", "output")}
    labels = {(s[1], r[1]): label for s, label, r in found(draw_graph(GraphDesc(nodes, edges))).edges}
    assert labels["x", "flat"] == ("FLOAT32 4",)
    assert labels["x", "square"] == ("FLOAT32 4", "read as", "FLOAT32 2x2")
    given = GraphDesc(nodes, edges, {"x": u32(4)}, {"z": i32(4)})
    labels = {(s[1], r[1]): label for s, label, r in found(draw_graph(given)).edges}
    assert labels["x", "flat"] == ("UINT32 4", "read as", "FLOAT32 4")
    assert labels["square", "z"] == ("FLOAT32 2x2", "read as", "INT32 4")


def test_owned_inputs_are_marked():
    owned = u32(4, flags="OWNED_BY_DML")
    gather = GatherDesc(ROW, owned, ROW, axis=0, index_dimensions=1)
    edges = {("pick", "input"): "x", ("pick", "indices"): "order", "y": ("pick", "output")}
    boxes = found(draw_graph(GraphDesc({"pick": gather}, edges))).boxes
    assert {("input", "x"), ("input", "order", "OWNED_BY_DML"), ("output", "y")} < {*boxes}


def test_attributes_have_directml_names_and_long_lists_are_cut():
    small, large = TensorDesc("FLOAT32", (1,) * 8), TensorDesc("FLOAT32", (123457, *(1,) * 7))
    assert attributes(Padding1Desc(small, large, "CONSTANT", "FLOAT32", 1.5, (123456, *(0,) * 7), (0,) * 8)) == [
        "PaddingMode: CONSTANT",
        "PaddingValueDataType: FLOAT32",
        "PaddingValue: 1.5",
        "StartPadding: [123456, 0, 0, 0, 0, 0, 0, 0]",
        "EndPadding: [0, 0, 0, 0, 0, 0, 0, 0]",
    ]
    pixels = f32(1, 1, 2, 2)
    assert attributes(Resample1Desc(pixels, pixels, "LINEAR", (1, 1, 1, 1), (0.125,) * 4, (0.123456789,) * 4)) == [
        "InterpolationMode: LINEAR",
        "Scales: [1.0, 1.0, 1.0, 1.0]",
        "InputPixelOffsets: [0.125, 0.125, 0.125, 0.125]",
        "OutputPixelOffsets: [0.123456789, 0.123456789, 0.123456789,…",
    ]
    assert attributes(ElementWiseIdentityDesc(ROW, ROW, (0.5, -1))) == ["ScaleBias: Scale 0.5, Bias -1.0"]
    assert attributes(COPY) == []


def attributes(desc):
    """What the box of an operator says below its name."""
    graph = GraphDesc({"node": desc}, {("node", "input"): "x", "y": ("node", "output")})
    (lines,) = (box[2:] for box, kind in found(draw_graph(graph)).boxes.items() if kind == "operator")
    return list(lines)


# Names.


@each_name
def test_any_name_can_be_drawn(name, shown):
    svg = draw_graph(named(name), name)
    assert {("input", shown), ("ELEMENT_WISE_IDENTITY", shown)} < {*found(svg).boxes}
    assert ElementTree.fromstring(svg.encode())[0].text == shown
    assert texts(ElementTree.fromstring(svg))[0] == shown


def test_a_box_is_as_wide_as_its_name():
    """A letter of 12 pixels is up to 7.3 wide, in East Asian writing 12, and an accent adds nothing."""
    for name, width in {"x" * 60: 60 * 7.3, "名前" * 20: 40 * 12, "e\u0301" * 30: 30 * 7.3}.items():
        boxes = {group[2].text: float(group[0].get("width")) for group in box_groups(draw_graph(named(name)))}
        assert 0 <= boxes[name] - width < 150


# Several graphs, and what is none.


def test_several_graphs_stand_below_each_other():
    svg = draw_graphs({"one": CHAIN, "two": DIAMOND})
    root = ElementTree.fromstring(svg)
    assert root[0].text == "one, two"
    assert root[1].text == (
        "A graph from x to y third; operators: 3, constants: 0. A graph from x to y; operators: 3, constants: 0."
    )
    assert [text.text for text in root.find(f"{SVG}g").findall(f"{SVG}text")] == ["one", "two"]
    alone = [len(box_groups(draw_graph(graph))) for graph in (CHAIN, DIAMOND)]
    assert [
        len([g for g in part.iter() if "data-box" in g.attrib]) for part in root.find(f"{SVG}g").findall(f"{SVG}g")
    ] == alone
    assert [cluster[0] for cluster in read_dot(graphs_to_dot({"one": CHAIN, "two": DIAMOND}))] == ["one", "two"]


@pytest.mark.parametrize("write", [draw_graph, graph_to_dot])
def test_only_graphs_are_drawn(write):
    with pytest.raises(DataTypeError, match="GRAPH: what is drawn must be a GraphDesc, but it is ELEMENT_WISE_IDENT"):
        write(COPY)
    with pytest.raises(DataTypeError, match="must be a GraphDesc, but it is 'x'"):
        write("x")


# The whole file.


def test_a_picture_stands_alone_and_is_described():
    picture = ElementTree.fromstring(draw_graph(DIAMOND, "sum"))
    title, description = picture[0], picture[1]
    assert (title.tag, title.text, description.tag) == (f"{SVG}title", "sum", f"{SVG}desc")
    assert picture.get("aria-labelledby").split() == [title.get("id"), description.get("id")]
    assert picture.get("role") == "img"
    assert not any("href" in key or "url(" in value for element in picture.iter() for key, value in element.items())


def test_equal_graphs_have_equal_pictures():
    assert draw_graph(random_graph(1)) == draw_graph(random_graph(1)) != draw_graph(random_graph(2))


def test_the_size_grows_with_the_graph_and_not_faster():
    """A hundred copies in a row, each of which is an output too: one layer each, and two columns."""
    count = 100
    nodes = {f"n{k}": COPY for k in range(count)}
    edges = {(f"n{k}", "input"): (f"n{k - 1}", "output") if k else "x" for k in range(count)}
    edges |= {f"y{k}": (f"n{k}", "output") for k in range(count)}
    root = ElementTree.fromstring(draw_graph(GraphDesc(nodes, edges)))
    assert float(root.get("width")) < 500
    assert float(root.get("height")) < 150 * (count + 3)
