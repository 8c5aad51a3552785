"""Options of `dml-jax run` that DxDispatch has too: timing and ONNX models, with DxDispatch's spellings."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import click

from .option_types import Milliseconds, Named, size, sizes
from .shared_options import input_files, max_nodes

# DxDispatch's spelling, and ours.
ALIASES = {
    "adapter": "device",
    "show_adapters": "show-devices",
    "input_path": "input-path",
    "output_path": "output-dir",
    "print_commands": "print-commands",
    "dml_feature_level": "feature-level",
    "dispatch_iterations": "iterations",
    "dispatch_repeat": "repeat",
    "milliseconds_to_run": "milliseconds",
    "warmup_samples": "warmup",
    "dispatch_interval": "interval",
    "timing_verbosity": "verbosity",
    "onnx_free_dim_name_override": "onnx-free-dim-name-override",
    "onnx_free_dim_denotation_override": "onnx-free-dim-denotation-override",
    "binding_shape": "binding-shape",
    "print_onnx_bindings": "print-onnx-bindings",
    "onnx_graph_optimization_level": "onnx-graph-optimization-level",
    "onnx_logging_level": "onnx-logging-level",
    "onnx_session_config_entry": "onnx-session-config-entry",
}
# Settings of ONNX Runtime: they have no meaning here.
IGNORED = "Accepted and ignored: a setting of ONNX Runtime."
ONNX_SETTINGS = ("optimization_level", "logging_level", "config_entries")
IN_MODEL_FILES = ("names", "denotations", "shapes", *ONNX_SETTINGS)  # which a model file has fields for
ONNX = (*IN_MODEL_FILES, "shows_bindings", "max_nodes", "seed")
TIMES = ("iterations", "repeat", "milliseconds", "warmup", "interval", "verbosity")
GROUPS = {"Times": TIMES, "ONNX models": ONNX}


def _as_mapping(context: click.Context, option: click.Parameter, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    for name, _ in pairs:
        if sum(name == other for other, _ in pairs) > 1:
            raise click.BadParameter(f"{name!r} is given twice; leave one out", context, option)
    return dict(pairs)


def _by_name(*names: str, metavar: str, read: Callable[[str], Any], example: str, help: str) -> Any:
    """An option that may be given once per name."""
    return click.option(*names, type=Named(metavar, read, example), multiple=True, callback=_as_mapping, help=help)


_TIMING = (
    click.option(
        "-i",
        "--iterations",
        type=click.IntRange(1),
        default=1,
        metavar="N",
        help="Number of iterations of every dispatch command.",
    ),
    click.option(
        "-r",
        "--repeat",
        type=click.IntRange(1),
        default=1,
        metavar="N",
        help="Dispatches that one iteration starts before it waits for them; its time is divided by this number.",
    ),
    click.option(
        "-t",
        "--milliseconds",
        type=Milliseconds(),
        help="Repeat iterations for this many milliseconds, instead of --iterations.",
    ),
    click.option(
        "-w",
        "--warmup",
        type=click.IntRange(0),
        default=1,
        metavar="N",
        help="Leave at most this many first iterations out of the statistics, as warm-up; the last one always counts.",
    ),
    click.option(
        "-I",
        "--interval",
        type=Milliseconds(),
        default=0.0,
        help="Least time between the beginnings of two iterations, in milliseconds.",
    ),
    click.option(
        "-v",
        "--verbosity",
        type=click.IntRange(0, 2),
        default=0,
        metavar="N",
        help="Print of the times: 0 the median; 1 cold and hot statistics, and memory in a model file; 2 every "
        "iteration too.",
    ),
)
_SIZES = (
    _by_name(
        "-f",
        "--onnx-free-dim-name-override",
        "names",
        metavar="NAME=SIZE",
        read=size,
        example="n=5",
        help="Set a free size of the inputs by its name in the model, such as N=5; once per name.",
    ),
    _by_name(
        "-F",
        "--onnx-free-dim-denotation-override",
        "denotations",
        metavar="NAME=SIZE",
        read=size,
        example="DATA_BATCH=5",
        help="Set free sizes of the inputs by their denotation, such as DATA_BATCH=5; once per denotation.",
    ),
    _by_name(
        "-b",
        "--binding-shape",
        "shapes",
        metavar="NAME=SIZES",
        read=sizes,
        example="x=1x3x224x224",
        help="Set the shape of a generated input, such as x=1x3x224x224, or check that of a tensor; once per tensor.",
    ),
)
_SEED = click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    metavar="N",
    help="Seed of the random numbers; nodes that have a seed of their own keep it.",
)
_ONNX = (
    *_SIZES,
    click.option(
        "-p",
        "--print-onnx-bindings",
        "shows_bindings",
        is_flag=True,
        help="Print where every input and output comes from, its type and its shape.",
    ),
    max_nodes,
    _SEED,
    click.option(
        "-l",
        "--onnx-graph-optimization-level",
        "optimization_level",
        type=click.IntRange(0, 99),
        metavar="N",
        help=IGNORED,
    ),
    click.option("-L", "--onnx-logging-level", "logging_level", type=click.IntRange(0, 4), metavar="N", help=IGNORED),
    _by_name(
        "-e",
        "--onnx-session-config-entry",
        "config_entries",
        metavar="KEY:VALUE",
        read=str,
        example="key:value",
        help=IGNORED,
    ),
)


def _adding(options: Sequence[Any]) -> Callable[[Any], Any]:
    """Returns a decorator that adds options to a command, in their order."""
    return lambda function: reduce(lambda decorated, option: option(decorated), reversed(options), function)


timing_options = _adding(_TIMING)
data_options = _adding((input_files, *_SIZES, max_nodes, _SEED))  # of an ONNX model or a graph
onnx_options = _adding(_ONNX)
