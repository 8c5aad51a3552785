"""Forcing a form, by its name."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..errors import ConstraintError
from ..operations.programs.forced_form import forcing
from ..operations.programs.variant_selection import registered


def form_names() -> Sequence[str]:
    """The names that `use_form` takes."""
    return ["plain", *sorted({variant.name for variant in registered()})]


@contextmanager
def use_form(name: str) -> Iterator[None]:
    """Forces how every operator that is traced inside runs, on every platform: for measuring, and as a way out.

    A form decides how XLA moves the data. It changes no result, except sums of floats in their last bits. Where the
    named one cannot run, the plain one does.
    A function that jax.jit has compiled before keeps the form that it has.

    Args:
      name: "plain" for the program of jax.numpy and lax, or the name of a variant in docs/forms.md.

    Raises:
      ConstraintError: another name.

    Example:
      >>> import numpy as np, dml_jax
      >>> with dml_jax.use_form("plain"):
      ...     print(dml_jax.space_to_depth(np.uint8([[[1, 2], [3, 4]]]), 2).ravel())
      [1 2 3 4]

    Source: none; DirectML's drivers choose for themselves.
    """
    if name not in form_names():
        raise ConstraintError(
            f"use_form: name must be one of {', '.join(map(repr, form_names()))}, but it is {name!r}."
        )
    with forcing(name):
        yield
