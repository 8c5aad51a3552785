"""The table: one row per case, dml_jax in units of a copy, the others in units of dml_jax."""

from collections.abc import Mapping, Sequence

from rich.table import Table

from .measuring import Measured

__all__ = ["LEGEND", "cells", "columns", "table"]


LEGEND = """of copy  the bandwidth of dml_jax as a part of that of a copy of as many bytes: 1.00 is as fast as a copy
spread   half the distance of the quartiles of dml_jax's times, as a part of their median
x NAME   how many times as fast dml_jax is as NAME, on the same data: above 1.00 it is faster
x fresh  the same, beside dml_jax without a bound output; -: NAME has no such case; differs: its bits are others"""


def columns(contenders: Sequence[str]) -> list[str]:
    """The headings: after dml_jax, how many times as fast it is as each other contender."""
    others = contenders[1:]
    return ["case", "of copy", "spread", *(f"x {name}" for name in others)]


def cells(case: str, measured: Mapping[str, Measured], contenders: Sequence[str]) -> list[str]:
    """One row; a dash where a contender lacks the case, "differs" where its bits do."""
    first, *others = contenders
    ours = measured[first]
    spread = f"±{(ours.high - ours.low) / 2 / ours.seconds:.0%}"
    return [case, f"{ours.of_copy:.2f}", spread, *(_ratio(ours, measured.get(name)) for name in others)]


def _ratio(ours: Measured, other: Measured | None) -> str:
    if other is None:
        return "-"
    return f"{other.seconds / ours.seconds:.2f}" if other.same_bits else "differs"


def table(title: str, rows: Sequence[tuple[str, Mapping[str, Measured]]], contenders: Sequence[str]) -> Table:
    """All rows."""
    heading, *others = columns(contenders)
    result = Table(title=title, title_justify="left", box=None, pad_edge=False)
    result.add_column(heading, overflow="fold")
    for other in others:
        result.add_column(other, justify="right")
    for case, measured in rows:
        result.add_row(*cells(case, measured, contenders))
    return result
