"""Which form of a movement runs on which platform, and how to force one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax

from .forced import forced_form, forcing
from .primitive import Target, by_target
from .select import Choice as Noted
from .select import known_bytes, note, shapes_of, use_form, watch_choices
from .values.compiler_faults import JAXLIB

__all__ = [
    "FORMS",
    "JAXLIB",
    "Choice",
    "Form",
    "Options",
    "choose_anywhere",
    "choose_form",
    "forced_form",
    "forcing",
    "is_plain",
    "known_bytes",
    "shapes_of",
    "use_form",
    "watch_choices",
]

SMALL = 2**17  # bytes, read and written


# `where` (indices or None) and data of one dtype to what the plain form makes of them, bit for bit.
Form = Callable[..., jax.Array]
Options = tuple[Mapping[str, Form], Mapping[str, Any]]

FormName = Literal[
    "plain",
    "words",
    "tiles",
    "element_tiles",
    "double_words",
    "joined",
    "summed",
    "split",
    "apart",
    "matrices",
    "matrices_apart",
    "axis_last",
    "rows_first",
    "halved",
    "ranges",
    "concatenated",
    "gathered",
    "fanned_out",
    "copied",
    "bounded",
    "indices_first",
    "branched",
    "panels",
    "integers",
    "flattened",
    "windowed",
    "chunks",
    "row_by_row",
    "turned",
    "triangles",
    "rounds",
    "blocks",
    "flag_words",
]
FORMS: Mapping[FormName, str] = {
    "plain": "the jax.numpy form",
    "words": "elements move as 32-bit words",
    "tiles": "words of a small tile are taken apart and put together in one thread",
    "element_tiles": "elements of a small tile are put together to words in one thread",
    "double_words": "64-bit words of the result are put together in one thread",
    "joined": "neighbouring results are put together to a word before it is written",
    "summed": "neighbouring results are a window whose sum is a word, which one thread computes and writes",
    "split": "dimensions are split before the transpose, not with it",
    "apart": "dimensions change places in a kernel of their own, which XLA:GPU fuses with nothing",
    "matrices": "dimensions that stay neighbours are one while they change places",
    "matrices_apart": "the same in a kernel of their own",
    "axis_last": "the indexed axis is moved last, and back",
    "rows_first": "rows are moved first, then the elements of each",
    "halved": "two halves are moved and concatenated, which XLA:CPU compiles to other loops",
    "ranges": "a dimension is cut into ranges, which are put one after the other",
    "concatenated": "copies are put one after the other",
    "gathered": "where each result comes from is computed, and read there",
    "fanned_out": "a thread reads an element once and writes it to several parts of the result",
    "copied": "what is written into is copied by a loop of its own",
    "bounded": "elements of a short row pass bounds that change none, and their loop is vectorised",
    "indices_first": "indices are clipped before a row is read, and not in the loop that reads it",
    "branched": "what moves is compiled alone, in a branch",
    "panels": "rows become columns sixteen at a time, from a copy in which they lie well in a cache",
    "integers": "16-bit floats move as integers, of which XLA:CPU moves many at once",
    "flattened": "what lies in one run is moved as one dimension",
    "windowed": "rows with a border are chosen from windows of the flattened array",
    "chunks": "numbers are widened and combined in chunks that stay in the cache",
    "row_by_row": "each row is combined with what those before it made",
    "turned": "an axis is turned before and after it is scanned from its end",
    "triangles": "blocks are added up by products with triangular matrices of ones",
    "rounds": "the greatest of what is left is found k times",
    "blocks": "only the blocks with the greatest maxima are looked into",
    "flag_words": "of every 32 flags the first one that is left is written, until none is",
}


@dataclass(frozen=True)
class Choice:
    """One row of a table: a form that is faster than the plain one.

    Args:
      platform: as jax.lax.platform_dependent names it.
      form: its name.
      where: the values that fields of the case may have; any, for a field that is not named. "jaxlib" is a field of
        every case: what XLA makes of the plain form changes with its releases.
      measured: the reason, as bandwidths in units of a copy's in the same run.
    """

    platform: str
    form: str
    where: Mapping[str, Any]
    measured: str

    def applies(self, case: Mapping[str, Any]) -> bool:
        """Whether the row is about the case."""
        return all(case[field] in allowed for field, allowed in self.where.items())


def choose_form(options: Callable[[int], Options], table: Sequence[Choice], forced: str | None) -> Form:
    """The forced form, or what the table chooses on each platform, for the devices of the program; no derivative.

    Args:
      options: the forms that apply, "plain" among them, and the case, by the number of devices among which the program
        may divide an array. A case has the fields that the table names, but for "jaxlib", and "bytes" that are read and
        written; for few the plain form runs.
      table: of the rows that apply, the first one for a platform counts.
      forced: the name of a form, or None.
    """

    def plain(where: Any, *data: jax.Array) -> jax.Array:
        return options(1)[0]["plain"](where, *data)

    def of_target(target: Target) -> Form:
        forms, case = options(target.devices)
        return _pick(forms, table, case, forced, target.platform)

    return by_target(of_target, plain)


def is_plain(options: Callable[[int], Options], table: Sequence[Choice], forced: str | None) -> bool:
    """Whether the plain form is chosen on every platform: what gives way on one device gives way on several."""
    forms, case = options(1)
    return choose_anywhere(forms, table, case, forced) is forms["plain"]


def choose_anywhere(
    forms: Mapping[str, Form], table: Sequence[Choice], case: Mapping[str, Any], forced: str | None
) -> Form:
    """The same of forms that any number of devices run; it has the derivatives that they have."""
    plain = forms["plain"]
    if all(_pick(forms, table, case, forced, platform) is plain for platform in ("cpu", "cuda")):
        return plain

    def of_target(target: Target) -> Form:
        chosen = _pick(forms, table, case, forced, target.platform)
        return lambda _, *data: chosen(*data)

    return lambda *data: by_target(of_target, lambda _, *data: plain(*data))(None, *data)


def _pick(
    forms: Mapping[str, Form], table: Sequence[Choice], case: Mapping[str, Any], forced: str | None, platform: str
) -> Form:
    plain = forms["plain"]
    if forced is not None:
        return forms.get(forced, plain)
    if case["bytes"] < SMALL:
        return plain
    case = {**case, "jaxlib": JAXLIB}
    rows = [row for row in table if row.platform == platform and row.form in forms and row.applies(case)]
    note(Noted("old", platform, rows[0].form if rows else "plain", case))
    return forms[rows[0].form] if rows else plain
