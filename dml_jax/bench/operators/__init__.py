"""The benchmark of every operator: families of operators that share shapes and peers, one file each.

An operator without a row in these tables is measured on the example of its docstring, grown. Plans generate the cases
of all operators; most take about how many bytes the data has.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module
from pkgutil import iter_modules

from ...catalogue import FUNCTIONS
from ..case import Case
from .docstring_examples import grown
from .operator_benchmark import Operator

_MODULES = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
FAMILIES = [module for module in _MODULES if hasattr(module, "OPERATORS")]
_ROWS = {name: operator for family in FAMILIES for name, operator in family.OPERATORS.items()}
OPERATORS: Mapping[str, Operator] = {name: _ROWS.get(name) or Operator(plans=grown(name)) for name in FUNCTIONS}


def _of_all(plan: str, size: int) -> Iterator[Case]:
    for operator in OPERATORS.values():
        yield from operator.plans[plan](size) if plan in operator.plans else ()


# A few cases of every operator, 4 MB each.
quick = partial(_of_all, "quick", 2**22)
# Every operator, data type and layout.
full = partial(_of_all, "full")
# Shapes of real programs, with "real" in their names; batches as large as the data may be.
real = partial(_of_all, "real")
# 1 KB, where the call itself is what takes time.
small = partial(_of_all, "small", 2**10)


def sweep(largest: int) -> Iterator[Case]:
    """Sizes from 16 KB on, four times as much each time."""
    size = 2**14
    while size <= largest:
        yield from _of_all("sweep", size)
        size *= 4
