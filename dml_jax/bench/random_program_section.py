"""Section of random programs, beside plain, jax.numpy and torch: the implementations, and a table by group."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from statistics import geometric_mean
from typing import Any

from rich.console import Group
from rich.table import Table

import dml_jax

from . import gather_gradients
from .implementations import JNP, Implementation, compiled
from .peers import TORCH, torch_ways
from .random_program_peers import AUTOGRAD
from .random_programs import GROUPS, drawn
from .section import BEST, Section, of_cases, unframed, with_best
from .timing import Measured, by_case

SLOW, SLOWEST = 0.9, "slowest beside the fastest of the others"
LISTED = 5  # of the slowest
OTHERS = {"jnp": "jnp", "plain": "plain", "torch": BEST}  # by title, as `with_best` has them
LEGEND = """\
of copy          geometric mean of the bandwidths, as parts of that of a copy; of convolutions, of a product of matrices
x jnp, x torch   how many times as fast dml_jax is, in the geometric mean; torch is the best of its ways
x plain          the same beside `use_form("plain")`, which leaves all to XLA; programs whose bits differ do not count
least            how many times as fast dml_jax is as the fastest of the others, in the worst program
below 0.9        the share of programs in which it is less than 0.9 times as fast as the fastest of the others"""


def random_section(seed: int, size: int, seconds: float, *, peers: bool) -> Section:
    """Programs that are drawn while they are measured, as long as there is time."""
    found = _implementations(peers=peers)
    programs = drawn(seed, size, seconds)
    title = f"random programs, seed {seed}, {size / 2**20:g} MiB"
    return replace(of_cases(title, programs, found, seconds), table=_table, legend=LEGEND)


def plainly(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function in the plain form, without variants of the lowering."""

    def plain(*arrays: Any) -> Any:
        with dml_jax.use_form("plain"):
            return function(*arrays)

    return plain


# Who is measured.


def _implementations(*, peers: bool) -> list[Implementation]:
    """This library first, plain, then jax.numpy, and torch where it is installed."""
    ways = dict.fromkeys([*TORCH, *gather_gradients.FORMS["gather"].torch, AUTOGRAD] if peers else [])
    return [
        compiled("dml_jax", lambda program: program.call),
        compiled("plain", lambda program: plainly(program.call)),
        JNP,
        *torch_ways(ways),
    ]


# The table.


def summary(rows: Sequence[Measured]) -> tuple[list[str], list[list[str]]]:
    """The head and a line for each group: how many programs it has, their geometric means, and the worst."""
    programs = [measured for _, measured in by_case(rows)]
    groups = {group: [one for one in programs if _group(one) == group] for group in GROUPS}
    body = [[group, *_cells(found)] for group, found in groups.items() if found]
    head = ["group", "programs", "of copy", *(f"x {name}" for name in OTHERS), "least", f"below {SLOW}"]
    return head, [*body, ["all", *_cells(programs)]]


def slowest(rows: Sequence[Measured]) -> Iterator[tuple[str, str, str]]:
    """The programs with the lowest speed-up over their fastest rival: the ratio, the rival, and the name."""
    found = []
    for name, measured in by_case(rows):
        if ratios := _ratios(measured):
            other = min(ratios, key=lambda one: ratios[one])
            found.append((ratios[other], other, name))
    for ratio, other, name in islice(sorted(found), LISTED):
        yield f"{ratio:.2f}", f"x {other}", name


def _group(measured: dict[str, Measured]) -> str:
    """The group of a program, the second word of its name."""
    return measured["dml_jax"].case.split()[1].removesuffix(",")


def _ratios(measured: dict[str, Measured]) -> dict[str, float]:
    """Speed-up of dml_jax over each implementation that computes the same."""
    shown, ours = with_best(measured)[0], measured["dml_jax"].seconds
    found = {title: shown.get(name) for title, name in OTHERS.items()}
    return {title: other.seconds / ours for title, other in found.items() if other and other.same_bits}


def _cells(programs: Sequence[dict[str, Measured]]) -> list[str]:
    ratios = [_ratios(measured) for measured in programs]
    beside = [[of[title] for of in ratios if title in of] for title in OTHERS]
    worst = [min(of.values()) for of in ratios if of]
    share = sum(ratio < SLOW for ratio in worst) / max(1, len(worst))
    of_copy = geometric_mean(measured["dml_jax"].of_copy for measured in programs)
    means = [f"{geometric_mean(found):.2f}" if found else "-" for found in beside]
    return [str(len(programs)), f"{of_copy:.2f}", *means, f"{min(worst):.2f}" if worst else "-", f"{share:.0%}"]


def _table(title: str, rows: Sequence[Measured], implementations: Sequence[str], peak: float | None) -> Group:
    """The summary, the slowest programs, and those whose bits are not those of plain."""
    head, body = summary(rows)
    named = Table(title=SLOWEST, title_justify="left", box=None, pad_edge=False, show_header=False)
    for column in range(3):
        named.add_column(overflow="fold", no_wrap=column < 2)
    for line in slowest(rows):
        named.add_row(*line)
    for name, measured in by_case(rows):
        if "plain" in measured and not measured["plain"].same_bits:
            named.add_row("differs", "from plain", name)
    return Group(unframed(title, head, body), "", named)
