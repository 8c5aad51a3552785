"""`dml-jax bench`: its options, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .bench_run import Files, run
from .devices import CPU_DEVICES, arrange_cpu_devices, cores, devices, local_devices, measured_kind
from .shared import FILE

if TYPE_CHECKING:
    from ..bench.section import Section

__all__ = ["bench"]


@click.command(
    short_help="Measure every operator beside a copy and other libraries.",
    epilog="""\b
Examples:
  dml-jax bench --quick
  dml-jax bench --only 'gather*' --json new.json --csv new.csv
  dml-jax bench --compare old.json --tolerance 0.1""",
)
@click.option("--quick", "is_quick", is_flag=True, help="Measure a few cases of 4 MB: under a minute on two cores.")
@click.option(
    "-k",
    "--only",
    multiple=True,
    metavar="PATTERN",
    help="Measure the cases whose name contains this text, where * is any text; repeatable.",
)
@click.option(
    "--size", type=click.IntRange(1), metavar="MIB", show_default="64 on a CPU, else 256", help="MiB of data per case."
)
@click.option(
    "--rounds",
    type=click.IntRange(1),
    metavar="N",
    show_default="9, with --quick 3",
    help="Samples of each contender, taken in turn.",
)
@click.option(
    "--cpu-devices",
    type=CPU_DEVICES,
    metavar="N",
    help="Measure --sharded, over so many devices of the CPU; best one per core.",
)
@click.option(
    "--sharded",
    "is_sharded",
    is_flag=True,
    help="Measure all devices beside one of them instead, such as the GPUs of a server: batches, transfers, steps of "
    "training, and every operator on meshes. Of --size, all devices share one; by default 512 MiB for each GPU.",
)
@click.option(
    "--peers/--no-peers",
    default=True,
    help="Measure the other libraries that are installed, or none; torch.compile not with --quick.",
)
@click.option("--list", "only_list", is_flag=True, help="List the cases and exit.")
@click.option("--json", "json_file", type=FILE, help="Write all that was measured to this file as JSON.")
@click.option("--csv", "csv_file", type=FILE, help="Write the same as CSV.")
@click.option("--picture", type=FILE, help="Draw bandwidths below the copy's, as .png or .svg; needs the extra bench.")
@click.option(
    "--compare", type=FILE, metavar="OLD.json", help="Compare with what an earlier --json wrote; exit 1 if slower."
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0, 1),
    default=0.15,
    metavar="PART",
    help="Part of its old ratio to the copy that a case may lose before --compare reports it as slower.",
)
def bench(
    is_quick: bool,
    only: tuple[str, ...],
    size: int | None,
    rounds: int | None,
    cpu_devices: int | None,
    is_sharded: bool,
    peers: bool,
    only_list: bool,
    json_file: Path | None,
    csv_file: Path | None,
    picture: Path | None,
    compare: Path | None,
    tolerance: float,
) -> None:
    """Measure every operator beside a copy of as many bytes, plain jax.numpy and other libraries.

    All contenders take turns on the same data, into bound outputs. `of copy` is dml_jax's bandwidth divided by
    that of the copy. `x NAME` is how many times as fast as NAME dml_jax is, and `x fresh` how many times as fast as
    without a bound output. Ctrl-C ends it after the current case and prints the results so far.

    Exit status: 0 done, 1 failed or slower than --compare allows, 2 the command line is wrong, 130 interrupted.
    """
    from ..bench.measuring import Effort

    sections, device, versions = _planned(is_quick, size, cpu_devices, is_sharded, peers)
    sections = [section for section in (one.only(only) for one in sections) if section.jobs]
    if not sections:
        raise click.UsageError(f"no case has {' or '.join(map(repr, only))} in its name; --list shows them")
    if only_list:
        for section in sections:
            for job in section.jobs:
                click.echo(job.name)
        return
    effort = Effort(rounds or (3 if is_quick else 9), seconds=0.002 if is_quick else 0.01)
    run(device, sections, effort, Files(json_file, csv_file, picture, compare), tolerance, versions)


def _planned(
    is_quick: bool, size: int | None, cpu_devices: int | None, is_sharded: bool, peers: bool
) -> tuple[Sequence[Section], str, Mapping[str, str]]:
    """The sections, the device, and what else the results tell of it."""
    if cpu_devices:
        arrange_cpu_devices(cpu_devices)
    platform, count = devices()[0].platform, local_devices()
    if cpu_devices and platform != "cpu":
        raise click.UsageError(f"--cpu-devices needs JAX to run on a CPU, not on {platform}: set JAX_PLATFORMS=cpu")
    if is_sharded and count == 1:
        raise click.UsageError("--sharded needs several devices, but JAX has 1; on a CPU --cpu-devices makes some")
    from ..bench import plans
    from ..bench.sharded import torch_threads

    size, device = size and size * 2**20, measured_kind()
    if cpu_devices or is_sharded:
        device = f"{device}, {count} devices on {cores()} cores"
        return plans.sharded(size, peers=peers), device, torch_threads(cores())
    if platform == "cpu":
        device = f"{device}, {cores()} cores"
    return plans.briefly(peers=peers) if is_quick else plans.usual(size, peers=peers), device, {}
