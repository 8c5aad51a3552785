"""Several runs of `dml-jax bench` beside each other: the table, and its picture."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import ConstraintError
from .shared_options import refuse_options

if TYPE_CHECKING:
    from ..bench.results import Results
    from .bench_files import Files

TAKEN = {"compare", "no_measure", "only", "picture"}  # the options that mean something where nothing is measured


def show_stored(files: Files, patterns: Sequence[str]) -> None:
    """Compares the older runs of `files` with each other, in the cases whose names contain one of the patterns."""
    from ..bench.results import Results
    from ..bench.section import is_named

    options = click.get_current_context().command.params
    refuse_options("a run that measures", *(one.name for one in options if one.name and one.name not in TAKEN))
    if not files.old:
        raise click.UsageError("--no-measure needs stored runs: --compare a.json --compare b.json")
    try:
        files.check()
        runs = [Results.read(path) for path in files.old]
        if patterns:
            runs = [replace(run, rows=tuple(row for row in run.rows if is_named(row.case, patterns))) for run in runs]
        show(runs, files.picture)
    except (ConstraintError, OSError) as error:
        sys.exit(f"error: {error}")


def show(runs: Sequence[Results], picture: Path | None) -> None:
    """Prints a table of runs, what its columns are, and what makes them uncertain; and draws a picture.

    Raises:
      ConstraintError: the runs have no case in common.
    """
    from ..bench import run_comparison
    from ..bench.run_comparison import LEGEND, compared
    from ..bench.section import explained, print_wide, unframed

    comparison = compared(runs)
    table = unframed(comparison.title, *comparison.table())
    for column in table.columns[1:]:
        column.max_width = 20
    print_wide(table)
    click.echo("\n".join(["", explained(LEGEND, [table]), *(f"Note: {note}" for note in comparison.notes)]))
    if picture:
        run_comparison.draw(comparison, picture)
