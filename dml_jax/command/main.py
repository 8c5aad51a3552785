"""The group `dml-jax`. No file of the command imports JAX or NumPy before a subcommand runs: help needs neither."""

import click

from .. import __version__
from .batch import batch
from .bench import bench
from .check import check
from .ops import ops
from .run import run

SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 100}


@click.group(
    context_settings=SETTINGS,
    epilog="""\b
Examples:
  dml-jax run docs/models/gather.json
  dml-jax check docs/models/*.json --feature-level 3_0
  dml-jax ops GATHER_ND1

`dml-jax COMMAND --help` explains a command.""",
)
@click.version_option(__version__)
def command() -> None:
    """Run DirectML's operators, models and benchmarks on any device that JAX has.

    Results go to the standard output, errors and progress to the standard error. Exit status: 0 done, 1 failed,
    2 the command line is wrong, 130 interrupted.
    """


for _subcommand in (run, check, ops, batch, bench):
    command.add_command(_subcommand)
