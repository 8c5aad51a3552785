"""Pictures of graphs: all of a graph is in them, nothing lies on anything else, and any name can be shown."""

import random
import re
import shutil
import subprocess
from itertools import combinations, pairwise
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner
from model_building import dispatch, model, reverse, saved, show
from model_cases import FOLDER
from svg_geometry import SCHEMES, SVG, Box, Text, apart, contrast, hits, laid_out, load_fonts, points, seen_in, within

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
from dml_jax.command.main import command
from dml_jax.graphs.dot import graphs_to_dot
from dml_jax.graphs.layout import Edge, Size, arrange
from dml_jax.graphs.picture import draw_graphs

ROW = TensorDesc("FLOAT32", (4,))
COPY = ElementWiseIdentityDesc(ROW, ROW)


def copies(**sources):
    """Copies of rows by name, and where each reads; those that no other one reads are outputs."""
    edges = {(name, "input"): source if source == "x" else (source, "output") for name, source in sources.items()}
    unread = [name for name in sources if name not in sources.values()]
    edges |= {f"y {name}": (name, "output") for name in unread}
    return GraphDesc(dict.fromkeys(sources, COPY), edges)


def joined(**sources):
    """A row, and rows that are joined of others."""
    nodes, edges = {}, {}
    for name, read in sources.items():
        nodes[name] = JoinDesc([ROW] * len(read), TensorDesc("FLOAT32", (4 * len(read),)), axis=0)
        nodes[f"{name} part"] = SplitDesc(TensorDesc("FLOAT32", (4 * len(read),)), [ROW] * len(read), axis=0)
        edges[f"{name} part", "input"] = name, "output"
        for k, source in enumerate(read):
            edges[name, f"inputs[{k}]"] = source
            edges[f"y {name} {k}"] = f"{name} part", f"outputs[{k}]"
    return GraphDesc(nodes, edges)


CHAIN = copies(first="x", second="first", third="second")
DIAMOND = GraphDesc(
    {"left": COPY, "right": COPY, "both": JoinDesc([ROW, ROW], TensorDesc("FLOAT32", (8,)), axis=0)},
    {
        ("left", "input"): "x",
        ("right", "input"): "x",
        ("both", "inputs[0]"): ("left", "output"),
        ("both", "inputs[1]"): ("right", "output"),
        "y": ("both", "output"),
    },
)
LONG_EDGE = GraphDesc(
    {**dict.fromkeys("abcd", COPY), "end": JoinDesc([ROW, ROW], TensorDesc("FLOAT32", (8,)), axis=0)},
    {
        ("a", "input"): "x",
        ("b", "input"): ("a", "output"),
        ("c", "input"): ("b", "output"),
        ("d", "input"): ("c", "output"),
        ("end", "inputs[0]"): ("a", "output"),
        ("end", "inputs[1]"): ("d", "output"),
        "y": ("end", "output"),
    },
)
FAN = copies(**{f"copy {k}": "x" for k in range(15)})
TWICE = joined(same=["x", "x", "x"])


def random_graph(seed):
    """Joins of whatever there is, which are split again: most edges end far below."""
    draw = random.Random(seed)
    sources, read = {}, ["x", "w"]
    for k in range(6):
        sources[f"n{k}"] = [draw.choice(read[-9:]) for _ in range(draw.randint(1, 4))]
        read += [(f"n{k} part", f"outputs[{i}]") for i in range(len(sources[f"n{k}"]))]
    return joined(**sources)


GRAPHS = {
    "chain": CHAIN,
    "diamond": DIAMOND,
    "long edge": LONG_EDGE,
    "fan": FAN,
    "twice": TWICE,
    **{f"random {seed}": random_graph(seed) for seed in range(6)},
}
each_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)


# What is in a picture, found again from where it is.


class Found(NamedTuple):
    """Boxes and labels by where they are, and the edges: the texts of their source, label and reader."""

    boxes: dict[tuple[str, ...], str]
    edges: list[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]]


def texts(group):
    return tuple(text.text for text in group.iter(f"{SVG}text"))


def ends(path):
    """The first and the last point of a path."""
    numbers = [tuple(map(float, pair)) for pair in re.findall(r"(-?[\d.]+),(-?[\d.]+)", path.get("d"))]
    return numbers[0], numbers[-1]


def found(svg):
    """Reads a picture of one graph: a line ends at the side of what is nearest to it."""
    root = ElementTree.fromstring(svg)
    boxes, sides = {}, {}
    for group in root.iter(f"{SVG}g"):
        if "data-box" in group.attrib:
            x, y, width, height = (float(group.find(f"{SVG}rect").get(key)) for key in ("x", "y", "width", "height"))
            boxes[texts(group)] = group.get("data-box")
            sides[texts(group)] = (x, x + width, y, y + height)
    labels = [group for group in root.iter(f"{SVG}g") if "data-label" in group.attrib]
    arrows = {ends(g.find(f"{SVG}path")): tip(g) for g in root.iter(f"{SVG}g") if g.find(f"{SVG}polygon") is not None}
    assert len(arrows) == len(labels)
    lines = [ends(path) for path in root.iter(f"{SVG}path") if ends(path) not in arrows]
    assert len(lines) == len(labels)
    edges = []
    for group in labels:
        at = [(float(text.get("x")), float(text.get("y"))) for text in group]
        above = [line for line in lines if line[1][0] == at[0][0] and 0 < at[0][1] - line[1][1] < 16]
        below = [arrow for arrow in arrows if arrow[0][0] == at[0][0] and 0 < arrow[0][1] - at[-1][1] < 16]
        (start,), (end,) = [line[0] for line in above], [arrows[arrow] for arrow in below]
        (source,) = (name for name, side in sides.items() if side[0] < start[0] < side[1] and near(start[1], side[3]))
        (reader,) = (name for name, side in sides.items() if side[0] < end[0] < side[1] and near(end[1], side[2]))
        edges.append((source, texts(group), reader))
    return Found(boxes, edges)


def near(one, other):
    """Numbers have two decimals."""
    return abs(one - other) < 0.03


def tip(group):
    first = group.find(f"{SVG}polygon").get("points").split()[0]
    return tuple(map(float, first.split(",")))


def names(edges):
    """The edges by the names of what they connect."""
    return sorted((source[1], reader[1]) for source, _, reader in edges)


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
    pair = TensorDesc("FLOAT32", (8,))
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


def box_groups(svg):
    return [group for group in ElementTree.fromstring(svg).iter(f"{SVG}g") if "data-box" in group.attrib]


def test_a_constant_stands_beside_its_reader_and_not_on_top():
    table = Constant(np.uint32([3, 2, 1, 0]))
    gather = GatherDesc(ROW, TensorDesc("UINT32", (4,)), ROW, axis=0, index_dimensions=1)
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


PACKED = TensorDesc("FLOAT32", (1, 4, 8, 8))


@pytest.mark.parametrize(
    ("read", "lines"),
    [
        (PACKED, ["FLOAT32 1x4x8x8"]),
        (TensorDesc("FLOAT32", (1, 4, 8, 8), (7, 64, 8, 1)), ["FLOAT32 1x4x8x8"]),  # 7 is never added
        (TensorDesc("FLOAT32", (4, 64)), ["FLOAT32 1x4x8x8", "read as", "FLOAT32 4x64"]),
        (TensorDesc("UINT16", (512,)), ["FLOAT32 1x4x8x8", "read as", "UINT16 512"]),
        (
            TensorDesc("FLOAT32", (1, 8, 8, 4), (256, 8, 1, 64)),
            ["FLOAT32 1x4x8x8", "read as", "FLOAT32 1x8x8x4", "strides 256,8,1,64"],
        ),
    ],
    ids=["same", "strides that say nothing", "reshaped", "other type", "transposed"],
)
def test_both_ends_of_an_edge_are_told_where_they_differ(read, lines):
    assert label_of(PACKED, read) == tuple(lines)


def test_strides_that_both_ends_share_are_told_once():
    columns = TensorDesc("FLOAT32", (3, 2), (1, 3))
    assert label_of(columns, columns) == ("FLOAT32 3x2", "strides 1,3")


def test_inputs_that_are_read_differently():
    """The tensor of an input is that of its first reader, or the one that is given."""
    square = ElementWiseIdentityDesc(*[TensorDesc("FLOAT32", (2, 2))] * 2)
    nodes = {"flat": COPY, "square": square}
    edges = {("flat", "input"): "x", ("square", "input"): "x", "y": ("flat", "output"), "z": ("square", "output")}
    labels = {(s[1], r[1]): label for s, label, r in found(draw_graph(GraphDesc(nodes, edges))).edges}
    assert labels["x", "flat"] == ("FLOAT32 4",)
    assert labels["x", "square"] == ("FLOAT32 4", "read as", "FLOAT32 2x2")
    given = GraphDesc(nodes, edges, {"x": TensorDesc("UINT32", (4,))}, {"z": TensorDesc("INT32", (4,))})
    labels = {(s[1], r[1]): label for s, label, r in found(draw_graph(given)).edges}
    assert labels["x", "flat"] == ("UINT32 4", "read as", "FLOAT32 4")
    assert labels["square", "z"] == ("FLOAT32 2x2", "read as", "INT32 4")


def test_owned_inputs_are_marked():
    owned = TensorDesc("UINT32", (4,), flags="OWNED_BY_DML")
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
    pixels = TensorDesc("FLOAT32", (1, 1, 2, 2))
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

# Each name, and how it is shown.
NAMES = {
    "a < b && c > d": "a < b && c > d",
    "\"quoted\" 'twice'": "\"quoted\" 'twice'",
    "back\\slash \\n \\": "back\\slash \\n \\",
    "&amp; &lt; <b>": "&amp; &lt; <b>",
    "line\nbreak\ttab": "line\\nbreak\\ttab",
    "\0\x1b[31m\x7f": "\\x00\\x1b[31m\\x7f",
    "\ud800\ufffe\u202e": "\\ud800\\ufffe\\u202e",
    "]]> -->": "]]> -->",
    "名前": "名前",
    "name" * 20: "name" * 14 + "nam…",
    " ": " ",
}
each_name = pytest.mark.parametrize(("name", "shown"), NAMES.items(), ids=map(ascii, NAMES))


def named(name):
    """A graph all of whose names are one."""
    return GraphDesc({name: COPY}, {(name, "input"): name, "y" + name: (name, "output")})


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


@each_name
def test_any_name_can_be_written_as_dot(name, shown):
    (heading, nodes, edges) = read_dot(graph_to_dot(named(name), name))[0]
    assert heading == shown
    assert [label[:2] for label in nodes.values()][:2] == [["input", shown], ["ELEMENT_WISE_IDENTITY", shown]]
    assert len(edges) == 2


# DOT, read as graphviz documents it: a string ends at a quote that no backslash precedes, labels have escapes.

STRING = r'"((?:[^"\\]|\\.)*)"'
ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n", "&amp;": "&"}


def label(string):
    """The lines of a label; any other escape or entity is a mistake."""
    parts = re.findall(r"\\.|&\w+;|[^\\&]", string)
    assert "".join(parts) == string
    return "".join(ESCAPES[part] if len(part) > 1 else part for part in parts).split("\n")


def read_dot(text):
    """Per cluster its heading, the lines of its nodes by identifier, and its edges with the lines of their labels."""
    head, *lines, end, nothing = text.split("\n")
    assert (head, end, nothing) == ("digraph {", "}", "")
    assert lines[:2] == ["  node [fontname=monospace];", "  edge [fontname=monospace];"]
    clusters = []
    for line in lines[2:]:
        if re.fullmatch(rf"  subgraph cluster{len(clusters)} {{", line):
            clusters.append((nodes := {}, edges := []))
        elif heading := re.fullmatch(rf"    label={STRING};", line):
            clusters[-1] = ("\n".join(label(heading[1])), nodes, edges)
        elif node := re.fullmatch(rf"    (g\d+n\d+) \[label={STRING}, shape=(box|box, style=rounded|note)\];", line):
            assert node[1] not in nodes
            nodes[node[1]] = label(node[2])
        elif edge := re.fullmatch(rf"    (\w+) -> (\w+) \[label={STRING}\];", line):
            edges.append((nodes[edge[1]], label(edge[3]), nodes[edge[2]]))
        else:
            assert line == "  }"
    return clusters


@each_graph
def test_dot_says_what_the_picture_says(graph):
    picture, ((heading, nodes, edges),) = found(draw_graph(graph)), read_dot(graph_to_dot(graph))
    assert heading == "graph"
    assert sorted(map(tuple, nodes.values())) == sorted(picture.boxes)
    assert sorted(tuple(map(tuple, edge)) for edge in edges) == sorted(picture.edges)


@pytest.mark.skipif(not shutil.which("dot"), reason="needs graphviz")
@each_name
def test_graphviz_reads_it(name, shown):
    done = subprocess.run(["dot", "-Tsvg"], input=graph_to_dot(named(name), name).encode(), capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    drawn = {text.text.replace("\xa0", " ") for text in ElementTree.fromstring(done.stdout).iter(f"{SVG}text")}
    assert shown in drawn


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


# How they look.

fonts = pytest.fixture(scope="module")(load_fonts)
OTHER_SHAPES = {
    "several": {"one": LONG_EDGE, "two": DIAMOND, "three": FAN},
    "wide heading": {"a graph with a name that is wider": CHAIN},
}
PICTURES = {**{name: {name: graph} for name, graph in GRAPHS.items()}, **OTHER_SHAPES}
each_picture = pytest.mark.parametrize("graphs", PICTURES.values(), ids=PICTURES)


@each_picture
def test_nothing_is_cut_or_covered(graphs, fonts):
    """Boxes, texts and lines: none lies on another one of another kind, and all lie on the card."""
    root = ElementTree.fromstring(draw_graphs(graphs))
    drawn = list(laid_out(root, {}, fonts))
    card, *boxes = (one for one in drawn if isinstance(one, Box))
    written = [one for one in drawn if isinstance(one, Text)]
    inner = Box(card.left + 23.5, card.top + 15.5, card.right - 23.5, card.bottom - 15.5, card.colour, False)
    assert [one for one in (*written, *boxes) if not within(one, inner)] == []
    assert [pair for pair in combinations(boxes, 2) if not apart(*pair)] == []
    assert [pair for pair in combinations(written, 2) if not apart(*pair)] == []
    labels = [text for text in written if not any(within(text, box) for box in boxes)]
    assert [(text, box) for text in labels for box in boxes if not apart(text, box)] == []
    assert len(written) - len(labels) == sum(len(texts(group)) for group in box_groups(draw_graphs(graphs)))
    for part in root.find(f"{SVG}g").findall(f"{SVG}g"):
        down = complex(*map(float, re.findall(r"[\d.]+", part.get("transform"))))
        for path in part.iter(f"{SVG}path"):
            line = [point + down for point in points(path.get("d"))]
            crossed = [one for one in (*boxes, *labels) if any(hits(point, one) for point in line[1:-1])]
            assert [one for one in crossed if not apart(one, bounds(line))] == []


def bounds(line):
    real, imag = [point.real for point in line], [point.imag for point in line]
    return Box(min(real), min(imag), max(real), max(imag), "", False)


@pytest.mark.parametrize("seed", range(10))
def test_lines_bend_only_between_layers(seed):
    """Of boxes and labels of any sizes: where a line is not upright, there is nothing else at its height."""
    draw = random.Random(seed)
    boxes = [Size(draw.uniform(10, 200), draw.uniform(10, 300)) for _ in range(20)]
    pairs = [sorted(draw.sample(range(len(boxes)), 2)) for _ in range(30)]
    edges = [Edge(*pair, Size(draw.uniform(10, 200), draw.uniform(10, 300))) for pair in pairs]
    placed = arrange(boxes, edges)
    around = [*placed.boxes, *placed.labels]
    assert [(rect.width, rect.height) for rect in around] == [*boxes, *(edge.label for edge in edges)]
    rects = [Box(r.left, r.top, r.left + r.width, r.top + r.height, "", False) for r in around]
    assert [pair for pair in combinations(rects, 2) if not apart(*pair)] == []
    whole = Box(-1e-9, 0, placed.size.width + 1e-9, placed.size.height + 1e-9, "", False)
    assert [rect for rect in rects if not within(rect, whole)] == []
    for (x0, y0), (x1, y1) in (piece for lines in placed.routes for line in lines for piece in pairwise(line)):
        across = [-np.inf, np.inf] if x0 != x1 else [x0, x1]
        passed = Box(across[0], y0 + 0.01, across[1], y1 - 0.01, "", False)
        assert [rect for rect in rects if not apart(rect, passed)] == []


@each_graph
def test_lines_run_downwards(graph):
    """And each piece of them is upright, or a curve that leaves and arrives so."""
    for path in ElementTree.fromstring(draw_graph(graph)).iter(f"{SVG}path"):
        line = points(path.get("d"))
        assert all(one.imag <= other.imag + 1e-9 for one, other in pairwise(line))


def test_a_fan_has_arrows_side_by_side():
    """An input that many nodes read is wide enough for their lines."""
    root = ElementTree.fromstring(draw_graph(FAN))
    starts = sorted(ends(path)[0] for path in root.iter(f"{SVG}path"))
    top = min(y for _, y in starts)
    across = [x for x, y in starts if y == top]
    assert len(across) == 15
    assert min(right - left for left, right in pairwise(across)) >= 11.9


def test_a_fan_has_no_crossings():
    """Nor has a chain whose edge passes it by."""
    for graph in (FAN, CHAIN, DIAMOND, LONG_EDGE):
        pieces = [points(path.get("d")) for path in ElementTree.fromstring(draw_graph(graph)).iter(f"{SVG}path")]
        assert not any(crosses(*pair) for pair in combinations(pieces, 2))


def crosses(one, other):
    """Whether a line is left of another at one height and right of it at another one."""
    heights = np.linspace(max(one[0].imag, other[0].imag), min(one[-1].imag, other[-1].imag), 200)
    if heights[0] >= heights[-1]:
        return False
    sides = [np.interp(heights, [p.imag for p in line], [p.real for p in line]) for line in (one, other)]
    apart_by = sides[0] - sides[1]
    return bool(apart_by.min() < 0 < apart_by.max())


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_has_contrast(scheme, fonts):
    picture = seen_in(scheme, ElementTree.fromstring(draw_graph(random_graph(0))))
    drawn = list(laid_out(picture, {}, fonts))
    for text in (one for one in drawn if isinstance(one, Text)):
        behind = [one for one in drawn if isinstance(one, Box) and within(text, one)][-1]
        assert contrast(text.colour, behind.colour) >= 4.5, text


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


# The command.


def check(*arguments):
    return CliRunner().invoke(command, ["check", *map(str, arguments)])


def graph_form(*names):
    """Nodes one after the other, which are dispatchables of such names."""
    edge = {"FromNodeOutput": "OutputTensor", "ToNodeInput": "InputTensor"}
    return {
        "type": "DML_GRAPH_DESC",
        "desc": {
            "Nodes": {name: name for name in names},
            "InputEdges": [
                {"GraphInput": "x", "ToNode": names[0], "ToNodeInput": "InputTensor"},
                *({"GraphInput": "i", "ToNode": name, "ToNodeInput": "IndicesTensor"} for name in names),
            ],
            "IntermediateEdges": [{"FromNode": one, "ToNode": other, **edge} for one, other in pairwise(names)],
            "OutputEdges": [{"FromNode": names[-1], "FromNodeOutput": "OutputTensor", "GraphOutput": "y"}],
        },
    }


def graphs_model(**graphs):
    """A model whose graphs have the nodes given."""
    form = model(dispatch(dispatchable=next(iter(graphs)), bindings={"x": "x", "i": "i", "y": "y"}), show())
    form["dispatchables"] = {name: graph_form(*nodes) for name, nodes in graphs.items()}
    form["dispatchables"] |= {node: reverse() for nodes in graphs.values() for node in nodes}
    form["commands"] = [
        {"type": "dispatch", "dispatchable": name, "bindings": {"x": "x", "i": "i", "y": "y"}} for name in graphs
    ]
    return form


def test_the_picture_of_the_documented_model(tmp_path):
    """It is the one of the documentation."""
    target = tmp_path / "new" / "graph.svg"
    done = check(FOLDER / "graph.json", "--picture", target)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == check(FOLDER / "graph.json").stdout
    assert target.read_bytes() == (FOLDER.parent / "pictures" / "graph.svg").read_bytes()
    assert [path.name for path in target.parent.iterdir()] == ["graph.svg"]


@pytest.mark.parametrize("suffix", [".dot", ".gv", ".GV"])
def test_dot_by_the_ending_of_the_name(tmp_path, suffix):
    target = tmp_path / f"graph{suffix}"
    assert check(FOLDER / "graph.json", "--picture", target, "--json").exit_code == 0
    ((heading, nodes, _),) = read_dot(target.read_text())
    assert heading == "reorder"
    assert ["GATHER", "pick", "Axis: 1", "IndexDimensions: 1"] in nodes.values()


def test_all_graphs_of_a_model_are_drawn(tmp_path):
    path = saved(tmp_path, graphs_model(once=["a"], twice=["a", "b"]))
    assert check(path, "--picture", tmp_path / "g.gv").exit_code == 0
    clusters = read_dot((tmp_path / "g.gv").read_text())
    assert [(heading, len(nodes)) for heading, nodes, _ in clusters] == [("once", 4), ("twice", 5)]


def test_a_model_without_graphs_has_no_picture(tmp_path):
    done = check(FOLDER / "gather.json", "--picture", tmp_path / "g.svg")
    assert done.exit_code == 1
    assert done.stderr == (
        f"error: {FOLDER / 'gather.json'}: there is nothing to draw: no dispatchable is a graph, "
        "of type 'DML_GRAPH_DESC' or 'dmlSerializedGraph'\n"
    )
    assert not any(tmp_path.iterdir())


def test_a_model_with_faults_has_no_picture(tmp_path):
    form = graphs_model(once=["a"])
    form["dispatchables"]["a"]["desc"]["Axis"] = 9
    target = tmp_path / "g.svg"
    target.write_text("old")
    done = check(saved(tmp_path, form), "--picture", target)
    assert done.exit_code == 1
    assert "Axis" in done.stderr
    assert target.read_text() == "old"


@pytest.mark.parametrize("name", ["graph.png", "graph", "svg", "graph.svg.txt", ".svg"])
def test_other_endings_are_refused(tmp_path, name):
    done = check(FOLDER / "graph.json", "--picture", tmp_path / name)
    assert done.exit_code == 2
    assert "a picture is a .svg file, or DOT text a .dot or .gv file, but it is" in done.stderr
    assert not any(tmp_path.iterdir())


def test_a_picture_is_of_one_model(tmp_path):
    models = [FOLDER / "graph.json", FOLDER / "gather.json"]
    done = check(*models, "--picture", tmp_path / "g.svg")
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (2, "Error: --picture is of one model, but 2 are given")
    assert not any(tmp_path.iterdir())


def test_an_onnx_model_has_no_picture(tmp_path):
    done = check(tmp_path / "model.onnx", "--picture", tmp_path / "g.svg")
    assert done.exit_code == 2
    assert (
        done.stderr.splitlines()[-1]
        == "Error: --picture is for DxDispatch model files and serialized graphs only; leave it out"
    )


@pytest.mark.parametrize("through_link", [False, True])
def test_a_picture_is_never_written_over_the_model(tmp_path, through_link):
    path = saved(tmp_path, graphs_model(once=["a"])).rename(tmp_path / "model.svg")
    text, target = path.read_text(), tmp_path / "link.svg" if through_link else path
    if through_link:
        target.symlink_to(path)
    done = check(path, "--picture", target)
    assert done.exit_code == 1
    assert done.stderr == (f"error: {path}: the picture {str(target)!r} would overwrite the model itself\n")
    assert path.read_text() == text


def test_a_picture_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("no folder")
    done = check(FOLDER / "graph.json", "--picture", tmp_path / "file" / "g.svg")
    assert done.exit_code == 1
    assert re.fullmatch(rf"error: {tmp_path}/file/g\.svg: cannot be written: (File exists|Not a .*)\n", done.stderr)
    loop = tmp_path / "loop.svg"
    loop.symlink_to(loop)
    assert check(FOLDER / "graph.json", "--picture", loop / "g.svg").exit_code == 1
