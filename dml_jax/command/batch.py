"""`dml-jax batch`: a group with one subcommand per operator, and the options that they share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from ..errors import suggestion
from .batch_run import run_operator
from .devices import CPU_DEVICES
from .operator_names import function_names, items
from .shared_options import FILE

if TYPE_CHECKING:
    from .batch_options import BatchOperator


class _DataType(click.ParamType):
    name = "type"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        import jax.numpy as jnp

        try:
            return jnp.dtype(value)
        except TypeError:
            raise click.BadParameter(f"{value!r} is not a type such as bfloat16", ctx, param) from None


class _Address(click.ParamType):
    name = "host:port"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        host, _, port = value.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 2**16:
            raise click.BadParameter(f"{value!r} is not a HOST:PORT such as 10.0.0.1:1234", ctx, param)
        return value


class _Operators(click.Group):
    """A subcommand per operator. Making one needs the operator, and so JAX; listing them does not."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(function_names())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in function_names():
            return None
        from .batch_options import batch_operators

        return _subcommand(cmd_name, batch_operators()[cmd_name])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # Click suggests only subcommands that are made already, which is none of them.
        if args[0][:1] != "-" and args[0] not in (names := function_names()) and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}; {suggestion(args[0].replace('-', '_'), names)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _sentence(does)) for name, does in sorted(function_names().items())])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return [*items(function_names(), incomplete), *click.Command.shell_complete(self, ctx, incomplete)]


def _sentence(line: str) -> str:
    """The first clause of a docstring, up to a semicolon."""
    return line.partition(";")[0].rstrip(".") + "."


@click.group(
    cls=_Operators,
    short_help="Apply an operator to .npy files larger than memory.",
    epilog="""\b
Examples:
  dml-jax batch depth_to_space pictures.npy result.npy --block-size 2
  dml-jax batch gather table.npy indices.npy rows.npy --axis 0 --shared input""",
)
def batch() -> None:
    """Apply an operator to every item of .npy files that need not fit in memory.

    The leading dimension of every file counts the items. The operator sees one item at a time, so --axis counts the
    dimensions of an item. The output is written under a temporary name and renamed when it is complete. After an
    interruption, run the same command again to continue.

    Exit status: 0 done, 1 failed, 2 the command line is wrong, 130 interrupted.
    """


_COMMON = (
    click.Option(
        ["--dtype"],
        type=_DataType(),
        show_default="the files'",
        help="Type of the data, if a file does not name it: numpy.save does not name bfloat16 and float8.",
    ),
    click.Option(
        ["--batch-size"],
        type=click.IntRange(1),
        metavar="N",
        show_default="64 MB of them, read and written",
        help="How many items are computed at a time.",
    ),
    click.Option(
        ["--cpu-devices"],
        type=CPU_DEVICES,
        metavar="N",
        show_default="one per core",
        help="How many devices JAX makes of the CPU; they share every batch. On a GPU it does nothing.",
    ),
    click.Option(["--restart"], is_flag=True, help="Forget the progress of an earlier run."),
    click.Option(["--overwrite"], is_flag=True, help="Replace an existing output when the new one is complete."),
    click.Option(
        ["--coordinator"],
        type=_Address(),
        help="Address of process 0, if several share the work; needs the next two options.",
    ),
    click.Option(["--num-processes"], type=click.IntRange(1), metavar="N", help="How many processes share the work."),
    click.Option(
        ["--process-id"], type=click.IntRange(0), metavar="I", help="Which of these processes this one is, from 0."
    ),
)


def _shared_options(operands: Sequence[str]) -> list[click.Option]:
    """The option `--shared`; none for a single operand, which must have the items."""
    option = click.Option(
        ["--shared"],
        multiple=True,
        metavar="OPERAND",
        help=f"Read this operand whole and use it for every item; repeatable. One of {', '.join(operands)}.",
        shell_complete=lambda context, option, begun: [name for name in operands if name.startswith(begun)],
    )
    return [option] if len(operands) > 1 else []


def _subcommand(name: str, operator: BatchOperator) -> click.Command:
    arguments = {**operator.operands, "output": False}
    files = [click.Argument([a], type=FILE, nargs=-1 if lists else 1, required=True) for a, lists in arguments.items()]
    shared = _shared_options(list(operator.operands))
    first = _sentence(function_names()[name])
    files_are = _FILES.format(", but for those named by --shared" if shared else "")
    return click.Command(
        name,
        callback=partial(run_operator, name, operator),
        params=[*files, *operator.attributes, *shared, *_COMMON],
        help="\n\n".join(filter(None, (first, files_are, operator.note, _STATUS))),
        epilog=f"\b\nExample:\n  dml-jax batch {name} {' '.join(f'{a}.npy' for a in arguments)} {operator.example}",
    )


_FILES = "All are .npy files, with the items along the leading dimension{}."
_STATUS = """Exit status: 0 done, 1 failed, 2 the command line is wrong, 130 interrupted: run it again to continue."""
