"""Benchmark suites: the sections of a quick, full, sharded or random run."""

from dataclasses import replace

import jax

from . import (
    bandwidth_ceilings,
    device_transfers,
    gather_gradients,
    graph_fusion,
    mesh_scaling,
    onnx_image_networks,
    sharded_batches,
    sharded_training,
)
from .file_streaming import name_of, streamed
from .implementations import own
from .operators import full, quick, real, small, sweep
from .peers import implementations
from .random_program_section import random_section
from .results import CALL
from .section import Job, Section, of_cases

MOVED = "beside a copy of what has to move"


def quick_suite(*, peers: bool) -> list[Section]:
    """A few cases of every operator, and a small file."""
    found = implementations(eager=False) if peers else own(eager=False)
    return [
        bandwidth_ceilings.section(_bytes(None)),
        of_cases("into preallocated outputs", quick(), found),
        _files(2**26),
    ]


def full_suite(size: int | None, *, peers: bool) -> list[Section]:
    """All cases, on one device; `size` bytes of data per case, or the usual number."""
    count = _bytes(size)
    cases = {case.name: case for case in (*full(count), *real(count), *sweep(count))}
    jitted, eager = (
        implementations(eager=is_eager, compiled=not is_eager) if peers else own(eager=is_eager)
        for is_eager in (False, True)
    )
    calls = (replace(case, detail=f"{case.detail}{CALL}") for case in small())  # other cases have the same names
    return [
        bandwidth_ceilings.section(count),
        of_cases("into preallocated outputs", cases.values(), jitted),
        of_cases("calls of small arrays, eager against jitted", calls, eager),
        of_cases(f"gradients, {MOVED}", gather_gradients.cases(count), gather_gradients.implementations(peers=peers)),
        of_cases(f"graphs, {MOVED}", graph_fusion.cases(count), graph_fusion.implementations(peers=peers)),
        of_cases(
            "networks, beside a product of matrices",
            onnx_image_networks.cases(),
            onnx_image_networks.implementations(peers=peers),
        ),
        _files(16 * size if size else 2**30),
    ]


def sharded_suite(size: int | None, *, peers: bool) -> list[Section]:
    """All devices, relative to one. Operators come last: they take longest, and a time limit then cuts nothing else."""
    size = size or (2**26 if jax.default_backend() == "cpu" else 2**29 * jax.local_device_count())
    return [
        sharded_batches.section(size, peers=peers),
        device_transfers.section(size // jax.local_device_count()),
        sharded_training.section(size),
        mesh_scaling.section(size),
    ]


def random_suite(seed: int, seconds: float, size: int | None, *, peers: bool) -> list[Section]:
    """Random programs, as many as there is time for."""
    return [random_section(seed, _bytes(size), seconds, peers=peers)]


def _bytes(size: int | None) -> int:
    return size or (64 if jax.default_backend() == "cpu" else 256) * 2**20


def _files(size: int) -> Section:
    """Streaming from file to file; `size` bytes are enough to make compilation negligible."""
    job = Job(name_of(size), lambda effort: streamed(size, effort.rounds))
    return Section("from file to file, beside a NumPy copy", [job], ["dml_jax", "memmap copy"])
