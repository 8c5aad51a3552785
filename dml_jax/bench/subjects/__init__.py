"""What the benchmark knows of an operator: one file each, with cases and how others do the same.

A file has `cases`, a generator of cases of about so many bytes with numbers of so many bytes each, and ITEMSIZES. The
plan "full" has all cases of each itemsize, "quick" the first one of 4 bytes, or all of these where ALL_ARE_QUICK. A
file that chooses otherwise has functions `quick` and `full` of the bytes; so has one that takes part in "real", "small"
or "sweep".

It has the best form of each peer, too, made of a case's attributes: `of_jnp` a function of the arrays; `of_numpy` and
`of_cupy` one that writes into its first argument, a tuple if there are several outputs; `of_onnx` a node, or None.
`TORCH` has forms by name, of which the fastest counts: each returns what holds the result, or None where that is the
first argument. The one called "compile" is compiled by torch. NumPy, CuPy and ONNX Runtime are left out where they have
no such operator. An operator without a file is not measured.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from types import ModuleType

from ...catalogue import FUNCTIONS
from ..case import Case

__all__ = ["SUBJECTS", "cases_of"]

SUBJECTS: Mapping[str, ModuleType] = {
    name: import_module(f"._{name}", __name__) for name in FUNCTIONS if find_spec(f"._{name}", __name__)
}


def cases_of(operator: str, plan: str, size: int) -> Iterable[Case]:
    """The cases of an operator in a plan, "quick", "full", "real", "small" or "sweep"; none where it takes no part."""
    subject = SUBJECTS[operator]
    if own := getattr(subject, plan, None):
        return own(size)
    return _PLANS[plan](subject, size) if plan in _PLANS else ()


def _quick(subject: ModuleType, size: int) -> Iterator[Case]:
    return islice(subject.cases(size, 4), None if hasattr(subject, "ALL_ARE_QUICK") else 1)


def _full(subject: ModuleType, size: int) -> Iterator[Case]:
    for itemsize in subject.ITEMSIZES:
        yield from subject.cases(size, itemsize)


_PLANS: Mapping[str, Callable[[ModuleType, int], Iterator[Case]]] = {"quick": _quick, "full": _full}
