"""Parses command lines of `dml-jax` as the command does, without executing them."""

import shlex

import click

from dml_jax.command.main import command


def parse(line):
    """Parses a line; a wrong one raises click's UsageError."""
    name, *arguments = shlex.split(line, comments=True)
    assert name == "dml-jax"
    found, context = command, command.make_context(name, list(arguments))
    while isinstance(found, click.Group):
        child, found, arguments = found.resolve_command(context, arguments)
        context = found.make_context(child, list(arguments), parent=context)
