"""Draws the pictures of the documentation.

    python docs/pictures/draw.py [--check]

What moves in a picture is moved by the functions of dml_jax: each is called on an array of positions, and every cell
takes its colour and its label from the position that arrives in it, or from the elements that its derivative names.
That of a graph is what `draw_graph` makes of one in docs/models.
Writes one .svg file per function beside this program. With --check nothing is written: it fails if a file is not what
would be drawn.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import calls
import moves
from depth_space import depth_to_space, space_to_depth
from elements import gather_elements, scatter_elements
from slices import gather
from strided import as_strided
from svg import written
from tuples import gather_nd, scatter_nd

from dml_jax import draw_graph
from dml_jax.dxdispatch.model_file import read_model

FOLDER = Path(__file__).parent
PICTURES = (
    gather,
    gather_elements,
    gather_nd,
    scatter_elements,
    scatter_nd,
    depth_to_space,
    space_to_depth,
    as_strided,
)


@cache
def drawn() -> dict[str, bytes]:
    """Every file's name and content."""
    pictures = {picture.__name__: picture() for picture in PICTURES}
    pictures |= {name: calls.picture(name, picture) for name, picture in moves.PICTURES.items()}
    texts = {name: written(picture) for name, picture in pictures.items()}
    graph = read_model(FOLDER.parent / "models" / "graph.json").dispatchables["reorder"].desc
    texts["graph"] = draw_graph(graph, "reorder")
    return {f"{name}.svg": text.encode() for name, text in texts.items()}


def differing(folder: Path, files: dict[str, bytes]) -> list[str]:
    """The names of files that are absent from a folder, differ there, or are pictures that nothing draws."""
    kept = {path.name: path.read_bytes() for path in folder.glob("*.svg")}
    return sorted(name for name in kept | files if kept.get(name) != files.get(name))


def main(argv: Sequence[str] | None = None, folder: Path = FOLDER) -> None:
    """Writes the pictures into a folder, or checks those that are there."""
    parser = argparse.ArgumentParser(description="Draws the pictures of the documentation.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is not what would be drawn")
    options = parser.parse_args(argv)
    files = drawn()
    if not options.check:
        for name, content in files.items():
            (folder / name).write_bytes(content)
            sys.stdout.write(f"wrote {folder / name}\n")
    elif names := differing(folder, files):
        sys.exit(f"not what would be drawn: {', '.join(names)}")


if __name__ == "__main__":
    main()
