"""Which cases of a run stand together: those of an operator, eager calls, files; and which of them a mean counts."""

from collections.abc import Mapping

from .measuring import Measured

__all__ = ["CALL", "CALLS", "FILES", "Case", "Cases", "counted", "group_of", "grouped", "is_call", "large", "ours"]

# One case: the contenders by name.
Case = Mapping[str, Measured]
Cases = Mapping[str, Case]

LARGE = 2**24  # bytes moved: 16 MiB, of which the bandwidth decides, and not the time that a call takes
CALL, GRADIENT = ", call", "gradient"
CALLS, FILES = "eager calls on 1 KB", "from file to file"


def ours(case: Case) -> Measured:
    return case["dml_jax"]


def grouped(cases: Cases) -> dict[str, dict[str, Case]]:
    """The cases of each operator, in alphabetical order; then eager calls, and those from file to file."""
    groups: dict[str, dict[str, Case]] = {}
    for name, case in cases.items():
        groups.setdefault(group_of(ours(case)), {})[name] = case
    last = (FILES, CALLS)
    return {name: groups[name] for name in sorted(groups, key=lambda name: (name in last, name))}


def group_of(row: Measured) -> str:
    """An operator, its gradient, or what is measured in another way."""
    if is_call(row.case):
        return CALLS
    gradient = f"{row.operator} {GRADIENT}"
    return FILES if FILES in row.case else gradient if row.case.startswith(gradient) else row.operator


def is_call(name: str) -> bool:
    return name.endswith(CALL)


def large(cases: Cases) -> Cases:
    return {name: case for name, case in cases.items() if ours(case).moved >= LARGE}


def counted(cases: Cases) -> Cases:
    """Those that a mean counts: the large ones, or all where there are none."""
    return large(cases) or cases
