"""`dml-jax batch`: subcommands per operator, for functions and for graphs, and the options that they share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from ..errors import suggestion
from .batch_call import FunctionName, run_call
from .batch_graph import run_graph
from .batch_run import run_operator
from .devices import CPU_DEVICES
from .operator_names import function_names, items, other_function_names
from .option_types import ArrayPath
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
    """A subcommand per operator, beside others. Making one needs the operator, and so JAX; listing them does not."""

    def _listed(self) -> dict[str, str]:
        """Returns all subcommands, each with its first line of help."""
        return {name: command.short_help or "" for name, command in self.commands.items()} | function_names()

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._listed())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in function_names():
            return super().get_command(ctx, cmd_name)
        from .batch_options import batch_operators

        return _subcommand(cmd_name, batch_operators()[cmd_name])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # Click suggests only subcommands that are made already, which is hardly any.
        if args[0][:1] != "-" and args[0] not in (names := self._listed()) and not ctx.resilient_parsing:
            name = args[0].replace("-", "_")
            hint = _NO_COMMAND if name in other_function_names() else suggestion(name, names)
            ctx.fail(f"No such command {args[0]!r}; {hint}")
        if "--resume" in args:
            ctx.fail("No such option '--resume': an interrupted job goes on by the same command, without an option")
        if any(arg.startswith("--coordinator") for arg in args):
            # XLA, which reads this when JAX is imported, warns of what this command asks for: processes that return.
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _sentence(does)) for name, does in sorted(self._listed().items())])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return [*items(self._listed(), incomplete), *click.Command.shell_complete(self, ctx, incomplete)]


_NO_COMMAND = "only functions that take arrays and return one have a command, and `call` takes any function of yours"


def _sentence(line: str) -> str:
    """The first clause of a docstring, up to a semicolon."""
    return line.partition(";")[0].rstrip(".") + "."


@click.group(
    cls=_Operators,
    short_help="Apply an operator, a function or a graph to files larger than memory.",
    epilog="""\b
Examples:
  dml-jax batch depth_to_space pictures.npy result.npy --block-size 2
  dml-jax batch gather table.npy indices.npy rows.npy --axis 0 --shared input
  dml-jax batch call steps:enlarge pictures.npy result.npy
  dml-jax batch graph steps.json pictures.npy result.npy""",
)
def batch() -> None:
    """Apply an operator to every item of files that need not fit in memory. `call` applies any function of yours
    instead, and `graph` a graph of operators: several steps in one pass, without files between them.

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
    path = ArrayPath()
    files = [click.Argument([a], type=path, nargs=-1 if lists else 1, required=True) for a, lists in arguments.items()]
    shared = _shared_options(list(operator.operands))
    first = _sentence(function_names()[name])
    files_are = _FILES.format("All", ", but for those named by --shared" if shared else "")
    return click.Command(
        name,
        callback=partial(run_operator, name, operator),
        params=[*files, *operator.attributes, *shared, *_COMMON],
        help="\n\n".join(filter(None, (first, files_are, operator.note, _STATUS))),
        epilog=f"\b\nExample:\n  dml-jax batch {name} {' '.join(f'{a}.npy' for a in arguments)} {operator.example}",
    )


_FILES = """{} are arrays with the items along the leading dimension{}. An input is a .npy file, a zarr array (x.zarr,
s3://bucket/x.zarr), a dataset x.h5:/name, a folder or a quoted pattern of pictures or other files; the output is a .npy
file or x.zarr, which may be in a bucket."""
_STATUS = """Exit status: 0 done, 1 failed, 2 the command line is wrong, 130 interrupted: run it again to continue."""


def _add(name: str, run: Any, what: click.Argument, common: Sequence[click.Option], text: str, example: str) -> None:
    """Adds a subcommand whose files are arguments in order."""
    array = ArrayPath()
    files = [click.Argument(["inputs"], type=array, nargs=-1, required=True), click.Argument(["output"], type=array)]
    whole = "Read this one of INPUTS whole and use it for every batch; repeatable."
    shared = click.Option(["--shared"], type=array, multiple=True, metavar="FILE", help=whole)
    files_are = _FILES.format("INPUTS and OUTPUT", ", but for those named by --shared")
    does, text = text.split("\n\n")
    command = click.Command(
        name,
        callback=run,
        params=[what, *files, shared, *common],
        help="\n\n".join((does, files_are, text, _STATUS)),
        short_help=does,
        epilog=f"\b\nExample:\n  dml-jax batch {name} {example}",
    )
    batch.add_command(command)


_OUTPUTS = click.Option(
    ["--outputs"],
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="How many of the files, the last ones, are outputs: a function may return several arrays.",
)
_add(
    "call",
    run_call,
    click.Argument(["function"], type=FunctionName()),
    (*_COMMON, _OUTPUTS),
    """Apply any function of arrays, MODULE:NAME.

MODULE is imported as by `python -m`: it may be in the current directory. The function gets an array per file, in order,
as dml_jax.batch.map_batches calls it: a batch of items of each input, and the whole array of a shared one. It returns
one array, or --outputs N of them, with a row per item; a row must depend on the same rows of its batch only, as the
last batch is filled up with its last row, and its result cut. jax.vmap makes such a function of one of items. It is
traced once or twice, and compiled. What the module prints goes to the standard error.""",
    "steps:look_up table.npy indices.npy rows.npy --shared table.npy",
)
_add(
    "graph",
    run_graph,
    click.Argument(["graph"], type=FILE),
    _COMMON[1:],  # a graph says its types
    """Apply a graph of operators in JSON form.

GRAPH is a file with what dml_jax.desc_to_json(graph) returns, of type DML_GRAPH_DESC. The files are in the order of its
inputs, and then of its outputs. It is computed for every item alone. Where the first size of a tensor is 1, the items
take its place: [1, C, H, W] is a file [N, C, H, W]. Any other tensor is an item as it is: [2, C] is a file [N, 2, C].
A shared file has all sizes of its tensor; inputs that are OWNED_BY_DML are always shared. Strides count inside the
graph only.""",
    "steps.json pictures.npy result.npy",
)
