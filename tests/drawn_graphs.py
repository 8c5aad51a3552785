"""Graphs and difficult names for the tests of drawing, and a reader of the drawn SVG."""

import random
import re
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
from operator_cases import f32
from svg_geometry import SVG

from dml_jax import ElementWiseIdentityDesc, GraphDesc, JoinDesc, SplitDesc, TensorDesc

ROW = f32(4)
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
    {"left": COPY, "right": COPY, "both": JoinDesc([ROW, ROW], f32(8), axis=0)},
    {
        ("left", "input"): "x",
        ("right", "input"): "x",
        ("both", "inputs[0]"): ("left", "output"),
        ("both", "inputs[1]"): ("right", "output"),
        "y": ("both", "output"),
    },
)
LONG_EDGE = GraphDesc(
    {**dict.fromkeys("abcd", COPY), "end": JoinDesc([ROW, ROW], f32(8), axis=0)},
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


def box_groups(svg):
    return [group for group in ElementTree.fromstring(svg).iter(f"{SVG}g") if "data-box" in group.attrib]


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
