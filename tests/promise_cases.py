"""Parameters of the promises that every function of the catalogue keeps."""

import pytest
from catalogue_cases import CASES


def by_name(cases):
    """A parameter `case`."""
    return pytest.mark.parametrize("case", cases.values(), ids=cases)


def exhaustive(items):
    """Parameters that only run with --exhaustive."""
    return [pytest.param(*values, id=name, marks=pytest.mark.exhaustive) for name, values in items.items()]


def first_of_each(cases):
    """A parameter `case`: each operator's CASE, and with --exhaustive its VARIANTS."""
    first = [pytest.param(case, id=name) for name, case in cases.items() if name in CASES]
    others = exhaustive({name: (case,) for name, case in cases.items() if name not in CASES})
    return pytest.mark.parametrize("case", [*first, *others])


every_case = by_name(CASES)


def flipped(array):
    return array[::-1] if array.ndim else array
