"""Benchmark suites: the sections of a quick, full, sharded or random run, of caches, and of costs."""

from collections.abc import Sequence
from dataclasses import replace

import jax

from . import caches, ceilings, gather_gradients, graphs, mesh_programs, networks, sharded, training, transfers
from .costs import costs_section
from .implementations import own
from .measuring import Effort, Measured
from .operators import full, quick, real, small, sweep
from .peers import implementations
from .random_section import random_section
from .section import Job, Section, of_cases
from .streaming import name_of, streamed

__all__ = ["cache_suite", "cost_suite", "full_suite", "quick_suite", "random_suite", "sharded_suite"]

MOVED = "beside a copy of what has to move"


def quick_suite(*, peers: bool) -> list[Section]:
    """A few cases of every operator, and a small file."""
    found = implementations(eager=False) if peers else own(eager=False)
    return [ceilings.section(_bytes(None)), of_cases("into preallocated outputs", quick(), found), _files(2**26)]


def full_suite(size: int | None, *, peers: bool) -> list[Section]:
    """All cases, on one device.

    Args:
      size: bytes of data per case, about; None for the usual number.
      peers: whether other libraries are measured, too.
    """
    count = _bytes(size)
    cases = {case.name: case for case in (*full(count), *real(count), *sweep(count))}
    jitted, eager = (
        implementations(eager=is_eager, compiled=not is_eager) if peers else own(eager=is_eager)
        for is_eager in (False, True)
    )
    calls = of_cases("calls of small arrays, eager against jitted", small(), eager)
    return [
        ceilings.section(count),
        of_cases("into preallocated outputs", cases.values(), jitted),
        replace(calls, jobs=[*map(_call, calls.jobs)]),
        of_cases(f"gradients, {MOVED}", gather_gradients.cases(count), gather_gradients.implementations(peers=peers)),
        of_cases(f"graphs, {MOVED}", graphs.cases(count), graphs.implementations(peers=peers)),
        of_cases("networks, beside a product of matrices", networks.cases(), networks.implementations(peers=peers)),
        _files(16 * size if size else 2**30),
    ]


def cache_suite(size: int | None) -> list[Section]:
    """The caches of one device.

    Args:
      size: bytes of the largest working set; None for the usual number.
    """
    return [caches.section(size)]


def sharded_suite(size: int | None, *, peers: bool) -> list[Section]:
    """All devices beside one of them; operators last, as they take longest, and none of the others is left out then."""
    size = size or (2**26 if jax.default_backend() == "cpu" else 2**29 * jax.local_device_count())
    return [
        sharded.section(size, peers=peers),
        transfers.section(size // jax.local_device_count()),
        training.section(size),
        mesh_programs.section(size),
    ]


def random_suite(seed: int, seconds: float, size: int | None, *, peers: bool) -> list[Section]:
    """Random programs, as many as there is time for."""
    return [random_section(seed, _bytes(size), seconds, peers=peers)]


def cost_suite() -> list[Section]:
    """What operators cost beside running."""
    return [costs_section()]


def _bytes(size: int | None) -> int:
    return size or (64 if jax.default_backend() == "cpu" else 256) * 2**20


def _files(size: int) -> Section:
    """From file to file; enough bytes that compiling the program is little of the time."""
    job = Job(name_of(size), lambda effort: streamed(size, effort.rounds))
    return Section("from file to file, beside a NumPy copy", [job], ["dml_jax", "memmap copy"])


def _call(job: Job) -> Job:
    """The same under another name, as an operator has cases of the same shapes into preallocated outputs."""

    def measured(effort: Effort) -> Sequence[Measured]:
        return [replace(row, case=f"{row.case}, call") for row in job.measure(effort)]

    return Job(f"{job.name}, call", measured)
