"""Graphs as DOT."""

import shutil
import subprocess
from xml.etree import ElementTree

import pytest
from drawn_graphs import each_graph, each_name, found, named, read_dot
from svg_geometry import SVG

from dml_jax import draw_graph, graph_to_dot


@each_name
def test_any_name_can_be_written_as_dot(name, shown):
    (heading, nodes, edges) = read_dot(graph_to_dot(named(name), name))[0]
    assert heading == shown
    assert [label[:2] for label in nodes.values()][:2] == [["input", shown], ["ELEMENT_WISE_IDENTITY", shown]]
    assert len(edges) == 2


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
