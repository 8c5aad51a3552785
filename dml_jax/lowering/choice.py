"""Which form of a movement runs on which platform, and how to force one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import jax
from jax import lax
from jax.sharding import get_abstract_mesh

from ..errors import ConstraintError
from .carrying import computed_as

__all__ = ["FORMS", "Choice", "Form", "forced_form", "forcing", "known_bytes", "moved", "parts_at_most", "use_form"]

SMALL = 2**17  # bytes, read and written

# `where` (indices or None) and data of one dtype to what the plain form makes of them, bit for bit.
Form = Callable[..., jax.Array]

FormName = Literal["plain", "words", "tiles", "element_tiles", "joined", "axis_last"]
FORMS: Mapping[FormName, str] = {
    "plain": "the jax.numpy form",
    "words": "elements move as 32-bit words",
    "tiles": "words of a small tile are taken apart and put together in one thread",
    "element_tiles": "elements of a small tile are put together to words in one thread",
    "joined": "neighbouring results are put together to a word before it is written",
    "axis_last": "the indexed axis is moved last, and back",
}

_FORCED: ContextVar[str | None] = ContextVar("form", default=None)


@contextmanager
def use_form(name: FormName) -> Iterator[None]:
    """Forces one form of every operator traced inside, on every platform: for measuring, and as a way out.

    A form is how XLA moves the data, never what arrives. Where the named one does not apply, the plain one runs.
    A function that jax.jit has compiled before keeps the form that it has.

    Args:
      name: "plain", "words", "tiles", "element_tiles", "joined" or "axis_last".

    Raises:
      ConstraintError: another name.

    Example:
      >>> import numpy as np, dml_jax
      >>> with dml_jax.use_form("plain"):
      ...     print(dml_jax.space_to_depth(np.uint8([[[1, 2], [3, 4]]]), 2).ravel())
      [1 2 3 4]

    Source: none; DirectML's drivers choose for themselves.
    """
    if name not in FORMS:
        raise ConstraintError(f"use_form: name must be one of {', '.join(map(repr, FORMS))}, but it is {name!r}.")
    with forcing(name):
        yield


@contextmanager
def forcing(name: str | None) -> Iterator[None]:
    """Forces a form that exists, or with None the choice by the tables."""
    token = _FORCED.set(name)
    try:
        yield
    finally:
        _FORCED.reset(token)


def forced_form() -> str | None:
    """The name given to the innermost `use_form`; None outside."""
    return _FORCED.get()


@dataclass(frozen=True)
class Choice:
    """One row of a table: a form that is faster than the plain one.

    Args:
      platform: as jax.lax.platform_dependent names it.
      form: its name.
      where: the values that fields of the case may have; any, for a field that is not named.
      measured: the reason, as bandwidths in units of a copy's in the same run.
    """

    platform: str
    form: str
    where: Mapping[str, Any]
    measured: str

    def applies(self, case: Mapping[str, Any]) -> bool:
        """Whether the row is about the case."""
        return all(case[field] in allowed for field, allowed in self.where.items())


def moved(
    forms: Mapping[str, Form],
    table: Sequence[Choice],
    case: Mapping[str, Any],
    forced: str | None,
    where: Any,
    *data: jax.Array,
) -> jax.Array:
    """Moves `data` by the forced form, or by the one that the table chooses on each platform.

    Args:
      forms: those that apply to the case, "plain" among them.
      table: of the rows that apply, the first one for a platform counts.
      case: the fields that the table names, and "bytes" that are read and written; for few the plain form runs.
      forced: the name of a form, or None.
      where: what the forms take first.
      data: what they take then.
    """
    plain = forms["plain"]
    if forced is None and case["bytes"] < SMALL:
        return plain(where, *data)
    if forced is not None:
        chosen = {"default": forms.get(forced, plain)}
    else:
        rows = [row for row in reversed(table) if row.form in forms and row.applies(case)]
        chosen = {"default": plain, **{row.platform: forms[row.form] for row in rows}}
    if all(form is plain for form in chosen.values()):
        return plain(where, *data)
    computed = chosen["default"] if len(chosen) == 1 else _by_platform(chosen)
    return computed_as(plain, computed)(where, *data)


def known_bytes(*arrays: Any) -> int:
    """How many bytes arrays, or what a jax.ShapeDtypeStruct describes, have together; 0 while a size is symbolic."""
    known = all(isinstance(n, int) for array in arrays for n in array.shape)
    return sum(prod(array.shape) * array.dtype.itemsize for array in arrays) if known else 0


def parts_at_most() -> int:
    """Into how many parts a dimension may be sharded: an Auto mesh does not tell while tracing."""
    mesh = get_abstract_mesh()
    if not mesh.empty and mesh.are_all_axes_manual:
        return 1
    count = jax.device_count()
    with suppress(RuntimeError):  # JAX_PLATFORMS may leave CPUs out
        count = max(count, jax.device_count("cpu"))  # of which a mesh may be, beside a GPU
    return count


def _by_platform(forms: Mapping[str, Form]) -> Form:
    return lambda *operands: lax.platform_dependent(*operands, **forms)
