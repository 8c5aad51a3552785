"""UPSAMPLE_2D: pictures enlarged by whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import jax

from ..core.arguments.kinds import Data, OutSharding, per_dimension
from ..core.arguments.operator import operator
from ..core.rules import Operands, custom, each_at_least, minimum_rank, representable, sizes_follow
from ..core.sharding import Dims, names_of, renamed
from ..core.structs.enumerations import MODE, FieldMode, InterpolationMode, Mode, interpolable, mode_of
from ..core.structs.feature_level_tables import FLOATS, RANKS_4_TO_5, levels
from ..core.structs.fields import Input, Output
from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.size_and_scale_bias import Size2D
from ..operations.interpolation_coordinates import source_coordinates
from ..operations.interpolation_weights import linear_interpolation
from ..operations.separable_interpolation import interpolate, repeat

__all__ = ["InterpolationMode", "Upsample2DDesc", "upsample_2d"]

ScaleSize = Annotated[int | Sequence[int], per_dimension(lambda: 2)]


def _not_two(x: Operands) -> str | None:
    return None if len(x["scale_size"]) == 2 else f"there are {len(x['scale_size'])}"


def _grown(x: Operands) -> list[tuple[int, int]]:
    """Returns the dimensions that grow, each with its factor."""
    rank = len(x["input"].shape)
    return [(rank - 2 + i, n) for i, n in enumerate(x["scale_size"]) if n != 1]


def _enlarged_sizes(x: Operands) -> tuple[Any, ...] | None:
    """Returns the sizes of the output; None if another rule is broken."""
    shape = tuple(x["input"].shape)
    if len(shape) < 2 or _not_two(x):
        return None
    return (*shape[:-2], *(n * s for n, s in zip(shape[-2:], x["scale_size"], strict=True)))


def _interpolated_sizes(x: Operands) -> list[Any]:
    """Returns the sizes that interpolation makes; none if another rule is broken."""
    sizes = _enlarged_sizes(x)
    return [sizes[d] for d, _ in _grown(x)] if sizes and x["mode"] == "linear" else []


def _unknown(x: Operands) -> str | None:
    are_known = all(isinstance(n, int) for n in _interpolated_sizes(x))
    return None if are_known else f"they are {tuple(x['input'].shape)} and {x['scale_size']}"


def _too_long(x: Operands) -> str | None:
    known = [n for n in _interpolated_sizes(x) if isinstance(n, int)]
    return f"one has {max(known)}" if max(known, default=0) >= 2**31 else None


RULES = (
    minimum_rank("input", 2),
    custom("two(scale_size)", "{scale_size} must be two numbers, (height, width)", _not_two),
    each_at_least("scale_size", 1),
    MODE,
    interpolable("input"),
    custom("known(input)", "{input}.{sizes} and {scale_size} must be known while tracing to be interpolated", _unknown),
    representable("scale_size", _enlarged_sizes),
    custom("short", "a dimension that is interpolated must have fewer than 2**31 elements", _too_long),
)


def _dims(x: Operands) -> Dims:
    """A dimension whose elements are repeated keeps its sharding: every device has the elements of its part."""
    names = names_of(x, "input")
    mixed = [d for d, _ in _grown(x)] if x["mode"] == "linear" else []
    return Dims({"input": names}, renamed(names, mixed), names)


@operator(*RULES, dims=_dims)
def upsample_2d(
    input: Data, scale_size: ScaleSize, *, mode: Mode = "nearest", out_sharding: OutSharding = None
) -> jax.Array:
    """Enlarges the last two dimensions of `input` by integer factors: scale_size is (height, width), in this order.

    output[..., h, w] = input[..., h // scale_size[0], w // scale_size[1]] for "nearest". For "linear" an element lies
    at ((h + 0.5) / scale_size[0] - 0.5, (w + 0.5) / scale_size[1] - 0.5) of `input`, and is made of its neighbours by
    distance, of which those beyond the edge are those at it.

    Args:
      input: [..., H, W]; any dtype that JAX moves for "nearest", floats or integers of up to 16 bits for "linear".
      scale_size: how often, (height, width) as in the shape of `input`, at least 1; one number stands for both.
        DirectML's DML_SIZE_2D, which the struct has, is Width, Height.
      mode: how elements are made: "nearest" copies bits, "linear" computes narrow types in float32 and rounds once,
        integers to the nearest one, halves to even.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operand.

    Returns:
      An array of sizes [..., H * scale_size[0], W * scale_size[1]] and the dtype of `input`.

    Raises:
      ConstraintError: rank below 2, not two numbers, one below 1, or an unknown `mode`.
      DataTypeError: a number is not an integer, `input` cannot be interpolated, or has 64 bits while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.float32([[1, 2], [3, 4]])
      >>> print(dml_jax.upsample_2d(x, (1, 3)))
      [[1. 1. 1. 2. 2. 2.]
       [3. 3. 3. 4. 4. 4.]]
      >>> print(dml_jax.upsample_2d(x, (2, 2), mode="linear"))
      [[1.   1.25 1.75 2.  ]
       [1.5  1.75 2.25 2.5 ]
       [2.5  2.75 3.25 3.5 ]
       [3.   3.25 3.75 4.  ]]

    Source: DML_UPSAMPLE_2D_OPERATOR_DESC, which does not print where an element lies: centres of pixels are aligned
      here, as DML_RESAMPLE_OPERATOR_DESC does it.
    """
    grown = dict(_grown({"input": input, "scale_size": scale_size}))
    if mode == "nearest":
        return repeat(input, grown)
    sizes = {d: input.shape[d] for d in grown}
    coordinates = {d: source_coordinates(n * grown[d], grown[d], 0.5, -0.5) for d, n in sizes.items()}
    return interpolate(input, {d: linear_interpolation(coordinates[d], n) for d, n in sizes.items()})


def _struct_output_sizes(x: Operands) -> tuple[int, ...] | None:
    sizes, size = x["input"].sizes, x["scale_size"]
    return None if len(sizes) < 2 else (*sizes[:-2], sizes[-2] * size.height, sizes[-1] * size.width)


def _not_enlarged(x: Operands) -> str | None:
    size = x["scale_size"]
    return None if min(size.width, size.height) >= 1 else f"it is {size}"


class Upsample2DDesc(OperatorDesc):
    """DML_UPSAMPLE_2D_OPERATOR_DESC: enlarges the last two dimensions of `input` by whole numbers.

    Args:
      input: 4-D or 5-D, (N, C, H, W) or (N, C, D, H, W).
      output: the sizes of `input`, but H times the height and W times the width.
      scale_size: the width and the height, in DirectML's order, each at least 1.

    Example:
      >>> desc = Upsample2DDesc(
      ...     TensorDesc("FLOAT32", (1, 1, 1, 2)), TensorDesc("FLOAT32", (1, 1, 1, 6)),
      ...     scale_size=(3, 1), interpolation_mode="NEAREST_NEIGHBOR",
      ... )
      >>> print(desc.compute(np.float32([[[[1, 2]]]])))
      [[[[1. 1. 1. 2. 2. 2.]]]]

    Source: DML_UPSAMPLE_2D_OPERATOR_DESC. It does not print where an element lies; see `upsample_2d`.
    """

    input: Input
    output: Output
    scale_size: Size2D
    interpolation_mode: FieldMode

    operator_type = "UPSAMPLE_2D"
    support = levels(("1_0", RANKS_4_TO_5, FLOATS))
    constraints = (
        custom("positive(scale_size)", "{scale_size}.Width and .Height must be at least 1", _not_enlarged),
        sizes_follow(
            "output", _struct_output_sizes, "{input}.{sizes}, the last two times {scale_size}.Height and .Width"
        ),
    )

    def compute_checked(self, input: jax.Array) -> jax.Array:
        size = self.scale_size
        return upsample_2d(input, (size.height, size.width), mode=mode_of(self.interpolation_mode))
