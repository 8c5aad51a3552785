"""Export of graphs to DOT, the language of graphviz."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .diagram import diagram, printable
from .graph_desc import GraphDesc

SHAPES = {"input": "box, style=rounded", "output": "box, style=rounded", "constant": "note", "operator": "box"}


def graph_to_dot(graph: GraphDesc, name: str = "graph") -> str:
    r"""Writes a graph as DOT: what `draw_graph` shows, for `dot -Tsvg`.

    Args:
      graph: what to write.
      name: the heading.

    Returns:
      The text of a DOT file, one graph with one cluster.

    Raises:
      DataTypeError: `graph` is no GraphDesc.

    Example:
      >>> from dml_jax import ElementWiseIdentityDesc, GraphDesc, TensorDesc, graph_to_dot
      >>> row = TensorDesc("FLOAT32", (4,))
      >>> copy = ElementWiseIdentityDesc(row, row)
      >>> graph = GraphDesc({"copy": copy}, {("copy", "input"): "x", "y": ("copy", "output")})
      >>> print(graph_to_dot(graph))
      digraph {
        node [fontname=monospace];
        edge [fontname=monospace];
        subgraph cluster0 {
          label="graph";
          g0n0 [label="input\nx", shape=box, style=rounded];
          g0n1 [label="ELEMENT_WISE_IDENTITY\ncopy", shape=box];
          g0n2 [label="output\ny", shape=box, style=rounded];
          g0n0 -> g0n1 [label="FLOAT32 4"];
          g0n1 -> g0n2 [label="FLOAT32 4"];
        }
      }
      <BLANKLINE>

    Source: graphviz, "The DOT Language".
    """
    return graphs_to_dot({name: graph})


def graphs_to_dot(graphs: Mapping[str, GraphDesc]) -> str:
    """Writes several graphs as one DOT graph, a cluster for each.

    Returns:
      The text of a DOT file.

    Raises:
      DataTypeError: one is no GraphDesc.
    """
    clusters = [line for number, (name, graph) in enumerate(graphs.items()) for line in _cluster(number, name, graph)]
    head = ["  node [fontname=monospace];", "  edge [fontname=monospace];"]
    return "\n".join(["digraph {", *head, *clusters, "}", ""])


def _cluster(number: int, name: str, graph: GraphDesc) -> Iterator[str]:
    said, ids = diagram(graph), f"g{number}n"
    yield f"  subgraph cluster{number} {{"
    yield f"    label={_quoted([printable(name)])};"
    for place, box in enumerate(said.boxes):
        yield f"    {ids}{place} [label={_quoted(box.lines)}, shape={SHAPES[box.kind]}];"
    for edge in said.edges:
        yield f"    {ids}{edge.source} -> {ids}{edge.reader} [label={_quoted(edge.lines)}];"
    yield "  }"


def _quoted(lines: Sequence[str]) -> str:
    """Quotes a label: graphviz reads a backslash as an escape, and `&` as the start of an entity."""
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;") for line in lines)
    return '"' + "\\n".join(escaped) + '"'
