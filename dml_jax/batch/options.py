"""What `dml-jax batch` knows of each operator: its files, and its attributes as options."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from ..operators import depth_space, gather, scatter, strided

__all__ = ["OPERATORS", "Operator"]


@dataclass(frozen=True)
class Operator:
    """A subcommand.

    Args:
      function: of dml_jax.
      operands: its arrays in order, each a file.
      attributes: the options that become its keyword arguments.
    """

    function: Callable[..., Any]
    operands: tuple[str, ...]
    attributes: tuple[click.Option, ...]


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


_AXIS = _option("--axis", type=int, required=True, help="Dimension of an item, from 0; negative from the end.")
_READ = (
    _option("--mode", type=click.Choice(["clip", "fill"]), default="clip", help="What an index out of range reads."),
    _option("--fill-value", type=_Number(), help="What --mode fill gives; 0 if left out."),
)
_WRITE = _option(
    "--mode", type=click.Choice(["drop", "clip"]), default="drop", help="What becomes of an update out of range."
)
_BLOCKS = (
    _option("--block-size", type=int, required=True, help="Height and width of a block."),
    _option("--order", type=click.Choice(list(depth_space.ORDERS)), default="DCR", help="How the depth is laid out."),
    _option("--data-format", type=click.Choice(["NCHW", "NHWC"]), default="NCHW", help="Where the channels are."),
)
_BATCH_DIMS = _option("--batch-dims", type=int, default=0, help="Leading dimensions of an item that go together.")
_VIEW = (
    _option("--sizes", type=_Integers(), required=True, help="Of the view of an item, such as 2,3."),
    _option("--strides", type=_Integers(), required=True, help="Elements from one coordinate to the next, one a size."),
    _option("--offset", type=int, default=0, help="Of the first element."),
)

OPERATORS = {
    "gather": Operator(gather.gather, ("input", "indices"), (_AXIS, *_READ)),
    "gather_elements": Operator(gather.gather_elements, ("input", "indices"), (_AXIS, *_READ)),
    "gather_nd": Operator(gather.gather_nd, ("input", "indices"), (_BATCH_DIMS, *_READ)),
    "scatter_elements": Operator(scatter.scatter_elements, ("input", "indices", "updates"), (_AXIS, _WRITE)),
    "scatter_nd": Operator(scatter.scatter_nd, ("input", "indices", "updates"), (_WRITE,)),
    "depth_to_space": Operator(depth_space.depth_to_space, ("input",), _BLOCKS),
    "space_to_depth": Operator(depth_space.space_to_depth, ("input",), _BLOCKS),
    "as_strided": Operator(strided.as_strided, ("buffer",), _VIEW),
}
