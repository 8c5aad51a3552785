"""The command, run inside this process by click's CliRunner."""

from functools import partial

from click.testing import CliRunner

from dml_jax.command.main import command


def dml_jax_command(*arguments):
    """Runs it; arguments may be paths and numbers."""
    return CliRunner().invoke(command, [str(a) for a in arguments])


batch = partial(dml_jax_command, "batch")
bench = partial(dml_jax_command, "bench")
check = partial(dml_jax_command, "check")
