"""What `dml-jax batch` knows of each operator: its files, and its attributes as options."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

import click

from .. import operators
from ..core.reductions import ReductionName
from ..operators._blocks import ORDERS

__all__ = ["BATCH_OPERATORS", "BatchOperator"]


@dataclass(frozen=True)
class BatchOperator:
    """A subcommand.

    Args:
      function: of dml_jax.
      operands: its arrays in order, each a file.
      attributes: the options that become its keyword arguments.
      example: of these options.
    """

    function: Callable[..., Any]
    operands: tuple[str, ...]
    attributes: tuple[click.Option, ...]
    example: str


class _Number(click.ParamType):
    name = "number"

    def convert(self, value: Any, param: Any, ctx: Any) -> complex:
        for kind in (int, float, complex):
            try:
                return kind(value)
            except ValueError:
                continue
        raise click.BadParameter(f"{value!r} is no number", ctx, param)


class _Integers(click.ParamType):
    name = "integer,integer,…"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(int(part) for part in value.split(",") if part)
        except ValueError:
            raise click.BadParameter(f"{value!r} is no list of integers such as 2,3", ctx, param) from None


def _option(*names: str, **settings: Any) -> click.Option:
    return click.Option(names, **settings, show_default="default" in settings)


_AXIS = _option(
    "--axis",
    type=int,
    required=True,
    help="Dimension of an item that indices address, from 0; negative counts from the end.",
)
_READ = (
    _option(
        "--mode",
        type=click.Choice(["clip", "fill"]),
        default="clip",
        help="What an index out of range reads: the nearest element, or --fill-value.",
    ),
    _option("--fill-value", type=_Number(), help="What an index out of range reads with --mode fill; 0 if left out."),
)
_WRITE = _option(
    "--mode",
    type=click.Choice(["drop", "clip"]),
    default="drop",
    help="What becomes of an update out of range: nothing, or it is written to the nearest element.",
)
_REDUCE = (
    _option(
        "--reduction",
        type=click.Choice(get_args(ReductionName)),
        help="Combine updates with what is there, any number of them, instead of replacing it.",
    ),
    _option(
        "--deterministic",
        is_flag=True,
        help="The same bits in every run, also of sums of floats on a GPU; slower there.",
    ),
)
_BLOCKS = (
    _option("--block-size", type=int, required=True, help="Height and width of a block, in pixels."),
    _option(
        "--order",
        type=click.Choice(list(ORDERS)),
        default="DCR",
        help="How channels become pixels: DCR is DEPTH_COLUMN_ROW, CRD is COLUMN_ROW_DEPTH.",
    ),
    _option(
        "--data-format",
        type=click.Choice(["NCHW", "NHWC"]),
        default="NCHW",
        help="Order of dimensions: an item is CHW, or HWC.",
    ),
)
_BATCH_DIMS = _option(
    "--batch-dims", type=int, default=0, help="How many leading dimensions of an item input and indices share."
)
_VIEW = (
    _option("--sizes", type=_Integers(), required=True, help="Sizes of the view of an item, such as 2,3."),
    _option(
        "--strides",
        type=_Integers(),
        required=True,
        help="Elements, not bytes, from one coordinate to the next, a number per size, such as 3,1.",
    ),
    _option("--offset", type=int, default=0, help="Elements of an item before the first one of the view."),
)

BATCH_OPERATORS = {
    "gather": BatchOperator(operators.gather, ("input", "indices"), (_AXIS, *_READ), "--axis 0"),
    "gather_elements": BatchOperator(operators.gather_elements, ("input", "indices"), (_AXIS, *_READ), "--axis 0"),
    "gather_nd": BatchOperator(operators.gather_nd, ("input", "indices"), (_BATCH_DIMS, *_READ), "--batch-dims 1"),
    "scatter_elements": BatchOperator(
        operators.scatter_elements,
        ("input", "indices", "updates"),
        (_AXIS, _WRITE, *_REDUCE),
        "--axis 0 --reduction add",
    ),
    "scatter_nd": BatchOperator(
        operators.scatter_nd, ("input", "indices", "updates"), (_WRITE, *_REDUCE), "--mode clip"
    ),
    "depth_to_space": BatchOperator(operators.depth_to_space, ("input",), _BLOCKS, "--block-size 2"),
    "space_to_depth": BatchOperator(operators.space_to_depth, ("input",), _BLOCKS, "--block-size 2"),
    "as_strided": BatchOperator(operators.as_strided, ("buffer",), _VIEW, "--sizes 2,3 --strides 3,1"),
}
