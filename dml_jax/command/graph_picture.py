"""`dml-jax check --picture`: draws the graphs of a model file as SVG or DOT, by the file's extension."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import ConstraintError

if TYPE_CHECKING:
    from ..graphs.graph_desc import GraphDesc

SVG, DOT = ".svg", (".dot", ".gv")


class PictureFile(click.Path):
    """The path of a picture, .svg, or of DOT text, .dot or .gv."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: Any, ctx: Any) -> Path:
        path = Path(str(super().convert(value, param, ctx)))
        if path.suffix.lower() not in (SVG, *DOT):
            self.fail(f"a picture is a .svg file, or DOT text a .dot or .gv file, but it is {str(path)!r}", param, ctx)
        return path


def write_picture(path: Path, model: Path, graphs: Mapping[str, GraphDesc]) -> None:
    """Draws all graphs of a model, one below the other.

    Raises:
      ConstraintError: there are none, or the model is that file itself.
      OSError: the file cannot be written.
    """
    from ..atomic_write import write_whole
    from ..graphs.dot import graphs_to_dot
    from ..graphs.svg import draw_graphs

    if os.path.realpath(path) == os.path.realpath(model):
        raise ConstraintError(f"the picture {str(path)!r} would overwrite the model itself")
    if not graphs:
        types = "'DML_GRAPH_DESC' or 'dmlSerializedGraph'"
        raise ConstraintError(f"there is nothing to draw: no dispatchable is a graph, of type {types}")
    write = graphs_to_dot if path.suffix.lower() in DOT else draw_graphs
    write_whole(path, write(graphs).encode())
