"""`dml-jax bench`: its options, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import ConstraintError
from .bench_compare import show_stored
from .bench_files import Files
from .bench_run import run
from .bench_setup import setup
from .devices import CPU_DEVICES, arrange_cpu_devices, cores, devices, local_devices, measured_kind
from .model_readers import doing, reader
from .option_groups import GroupedCommand
from .run_options import data_options
from .shared_options import FILE, MODEL, is_graph, is_onnx, need_onnx, refuse_options

if TYPE_CHECKING:
    from ..array_models.array_model import ArrayModel
    from ..bench.results import Results
    from ..bench.section import Section

ONNX = ("names", "denotations", "shapes", "max_nodes")
MODELS = ("inputs", *ONNX, "seed", "bound")


def _as_models(context: click.Context, argument: click.Parameter, paths: Sequence[Path]) -> list[Path]:
    """Returns the paths, each of them once."""
    for path in paths:
        if not (is_onnx(path) or is_graph(path)):
            hint = f"-k {path} chooses cases of operators, and `dml-jax run` times model files"
            raise click.BadParameter(f"{str(path)!r} is no ONNX model (.onnx) and no graph (.bin); {hint}")
    return [*dict.fromkeys(paths)]


@click.command(
    cls=GroupedCommand,
    groups={"Models": MODELS},
    aliases={},
    short_help="Measure models, or every operator, beside other libraries.",
    epilog="""\b
Examples:
  dml-jax bench model.onnx other.onnx
  dml-jax bench model.onnx -f batch=8 --input ids=ids.npy --json model.json
  dml-jax bench --quick
  dml-jax bench --only 'gather*' --json new.json --csv new.csv
  dml-jax bench --random 1 --seconds 600 --json random.json
  dml-jax bench --caches --picture caches.svg
  dml-jax bench --compare old.json --tolerance 0.1
  dml-jax bench --no-measure --compare h100.json --compare b200.json""",
)
@click.argument("models", type=MODEL, nargs=-1, callback=_as_models)
@click.option("--quick", "is_quick", is_flag=True, help="Measure a few cases of 4 MB: two minutes on two cores.")
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
    help="Samples of each implementation, taken in turn.",
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
    "--random",
    "drawn",
    type=click.IntRange(0),
    metavar="SEED",
    help="Measure random programs of the operators instead; a seed and --size draw the same ones on every machine.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=300,
    show_default=True,
    metavar="N",
    help="How long --random draws programs: one of each group at least.",
)
@click.option(
    "--costs",
    "is_costs",
    is_flag=True,
    help="Measure what operators cost beside running instead: time to trace, lower and compile, and memory.",
)
@click.option(
    "--caches",
    "is_caches",
    is_flag=True,
    help="Measure copies and sums of 16 KiB to 1 GiB instead, from warm and from cold caches; --size is the largest.",
)
@click.option(
    "--peers/--no-peers",
    default=True,
    help="Measure the other libraries that are installed, or none; torch.compile not with --quick.",
)
@click.option("--list", "only_list", is_flag=True, help="List the cases and exit.")
@click.option("--json", "json_file", type=FILE, help="Write all that was measured to this file as JSON.")
@click.option("--csv", "csv_file", type=FILE, help="Write the same as CSV.")
@click.option(
    "--picture",
    type=FILE,
    help="Draw a bar a case beside a copy, or the table of several runs, as .png or .svg; needs the extra bench.",
)
@click.option(
    "--compare",
    multiple=True,
    type=FILE,
    metavar="OLD.json",
    help="Compare with what an earlier --json wrote; exit 1 if dml_jax, into a preallocated output or fresh, is slower."
    " Repeated: show a table of all these runs and the new one; exit 1 if it is slower than one of the same device.",
)
@click.option(
    "--no-measure", is_flag=True, help="Measure nothing: show the table of the runs that --compare names, and exit."
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0, 1),
    default=0.15,
    metavar="PART",
    help="Part of its old ratio to the copy that a case may lose before --compare reports it as slower.",
)
@click.option(
    "--strict", "is_strict", is_flag=True, help="Exit with 1 if the numbers are uncertain, as notes then say."
)
@data_options
@click.option(
    "--bound",
    type=click.FloatRange(0),
    default=0.01,
    metavar="PART",
    help="How far results may be from those of ONNX Runtime, as a part of the largest number of each output.",
)
def bench(
    models: list[Path],
    is_quick: bool,
    only: tuple[str, ...],
    size: int | None,
    rounds: int | None,
    cpu_devices: int | None,
    is_sharded: bool,
    drawn: int | None,
    seconds: float,
    is_costs: bool,
    is_caches: bool,
    peers: bool,
    only_list: bool,
    json_file: Path | None,
    csv_file: Path | None,
    picture: Path | None,
    compare: tuple[Path, ...],
    no_measure: bool,
    tolerance: float,
    is_strict: bool,
    bound: float,
    **options: Any,
) -> None:
    """Measure MODELS beside ONNX Runtime; without any, every operator beside a copy and other libraries.

    MODELS are ONNX models (.onnx) and serialized graphs (.bin). The table has the time of a call of each; the seconds
    to load, trace and compile it; its memory; and how far its results are from those of ONNX Runtime, where that is
    installed. On a GPU it also compares with use_form("plain"). Inputs without a file are drawn from --seed: floats are
    normally distributed, integers are 0 or 1, those of 8 bits have their whole range, and masks are 1.

    A run of operators begins with ceilings: how fast the memory of the device is read, written and copied; with -k it
    has what -k names alone, such as `-k ceiling -k gather`. Then all implementations take turns on the same data, into
    preallocated outputs. `of copy` is dml_jax's bandwidth divided by that of the copy, and `of peak` by that on the
    data sheet of the device, where it is known. `x NAME` is how many times as fast as NAME dml_jax is, and `x fresh`
    how many times as fast as without a preallocated output. A note before the table says what makes its numbers
    uncertain: samples that differ, a copy that is not as fast as itself, other work on the device.

    Ctrl-C ends a run after the current case and prints the results so far; a second one leaves out that case.

    Runs of several devices or releases are compared by operator: how near each comes to its own copy, in the cases
    that all of them have.

    Exit status: 0 done, 1 failed, results beyond --bound, slower than --compare allows, or uncertain with --strict,
    2 the command line is wrong, 130 interrupted.
    """
    files = Files(json_file, csv_file, picture, compare)
    if no_measure:
        show_stored(files, only)
        return
    from ..bench.timing import Effort

    if not compare:
        refuse_options("--compare", "tolerance")
    if drawn is None:
        refuse_options("--random", "seconds")
    else:
        refuse_options("runs without --random", "is_quick", "only_list", "is_sharded", "cpu_devices", "is_caches")
    if is_costs:
        others = ("is_quick", "size", "is_sharded", "cpu_devices", "is_caches", "drawn", "picture", "compare")
        refuse_options("runs without --costs", *others)
    if models:
        others = ("size", "cpu_devices", "is_sharded", "drawn", "is_costs", "is_caches", "picture")
        refuse_options("runs without MODELS", *others)
        if not any(map(is_onnx, models)):
            refuse_options("ONNX models", *ONNX)
    else:
        refuse_options("MODELS", *MODELS)
    of_models = partial(_of_models, models, options, bound, peers=peers) if models else None
    of_random = None if drawn is None else (drawn, seconds)
    sections, head = _planned(of_models, is_quick, size, cpu_devices, is_sharded, is_caches, of_random, is_costs, peers)
    sections = [section for section in (one.only(only) for one in sections) if section.jobs]
    if not sections:
        raise click.UsageError(
            f"no case has {' or '.join(map(repr, only))} in its name; --list, with the same other options, shows them"
        )
    if only_list:
        for section in sections:
            for job in section.jobs:
                click.echo(job.name)
        return
    effort = Effort(rounds or (3 if is_quick else 9), seconds=0.002 if is_quick else 0.01)
    head = replace(head, setup=setup(effort.rounds, size))
    run(head, sections, effort, files, tolerance, is_strict=is_strict)


def _of_models(paths: Sequence[Path], options: Mapping[str, Any], bound: float, *, peers: bool) -> list[Section]:
    """The section of model files."""
    if any(map(is_onnx, paths)):
        need_onnx()
    from ..array_models.run import ArrayRun
    from ..bench.model_files import ModelFile, model_section

    asked = ArrayRun(given=options["inputs"], shapes=options["shapes"])
    files = [
        ModelFile(str(path), partial(_read, path, reader(path, options)), asked, options["seed"], doing(path))
        for path in paths
    ]
    return [model_section(files, bound, peers=peers)]


def _read(path: Path, read: Callable[[], ArrayModel]) -> ArrayModel:
    try:
        return read()
    except ConstraintError as error:
        # The line of an error begins with the name of the file.
        raise ConstraintError(error.what) if error.where == (str(path),) else error from None


def _planned(
    of_models: Callable[[], list[Section]] | None,
    is_quick: bool,
    size: int | None,
    cpu_devices: int | None,
    is_sharded: bool,
    is_caches: bool,
    drawn: tuple[int, float] | None,
    is_costs: bool,
    peers: bool,
) -> tuple[Sequence[Section], Results]:
    """The sections, and results that have no rows yet."""
    if is_caches and (cpu_devices or is_sharded):
        raise click.UsageError("--caches measures one device: leave out --sharded and --cpu-devices")
    if cpu_devices:
        arrange_cpu_devices(cpu_devices)
    platform, count = devices()[0].platform, local_devices()
    if cpu_devices and platform != "cpu":
        raise click.UsageError(f"--cpu-devices needs JAX to run on a CPU, not on {platform}: set JAX_PLATFORMS=cpu")
    if is_sharded and count == 1:
        raise click.UsageError("--sharded needs several devices, but JAX has 1; on a CPU --cpu-devices makes some")
    from ..bench import cache_bandwidth, suites
    from ..bench.bandwidth_ceilings import peak_of
    from ..bench.compile_costs import costs_section
    from ..bench.peers import versions
    from ..bench.results import Results
    from ..bench.sharded_batches import torch_threads

    size, kind, extra = size and size * 2**20, devices()[0].device_kind, {}
    is_whole = bool(cpu_devices) or is_sharded
    device = f"{measured_kind()}, {count} devices on {cores()} cores" if is_whole else measured_kind()
    if of_models:
        sections = of_models()
    elif is_whole:
        sections, extra = suites.sharded_suite(size, peers=peers), torch_threads(cores())
    elif is_caches:
        sections, extra = [cache_bandwidth.section(size)], cache_bandwidth.cache_sizes(kind)
    elif drawn:
        sections = suites.random_suite(*drawn, size, peers=peers)
    elif is_costs:
        sections = [costs_section()]
    else:
        sections = suites.quick_suite(peers=peers) if is_quick else suites.full_suite(size, peers=peers)
    if platform == "cpu" and not is_whole:
        device = f"{device}, {cores()} cores"
    peak = peak_of(kind, count if is_whole else 1)
    return sections, Results.now(device, {**versions(), **extra}, (), peak=peak)
