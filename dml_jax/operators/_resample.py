"""RESAMPLE, RESAMPLE1, RESAMPLE2 and RESAMPLE3: resizes an array by nearest, linear or cubic interpolation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, get_args

import jax
import jax.numpy as jnp
import numpy as np

from ..core.arguments.kinds import Data, Flag, OutSharding, RealOrReals
from ..core.arguments.operator import operator
from ..core.rules import Operands, Rule, custom, each_at_least, if_given, one_of, one_per_dimension, representable
from ..core.sharding import Dims, names_of, renamed
from ..core.structs.enumerations import (
    DirectionName,
    FieldDirection,
    FieldMode,
    InterpolationMode,
    direction_of,
    interpolable,
    mode_of,
)
from ..core.structs.feature_level_tables import FLOATS, RANK_4, Support, levels
from ..core.structs.field_types import Row
from ..core.structs.fields import FLOAT, Bool, Input, Output, counted_by
from ..core.structs.operator_desc import OperatorDesc
from ..core.tensors.data_type import DataType
from ..operations.interpolation_coordinates import exact_positions, source_coordinates
from ..operations.interpolation_weights import Kernel, ResampleMode
from ..operations.separable_interpolation import Interpolation, interpolate

__all__ = ["InterpolationMode", "Resample1Desc", "Resample2Desc", "Resample3Desc", "ResampleDesc", "resample"]

OFFSETS = ("input_pixel_offsets", "output_pixel_offsets")

# Elements of a dimension that is resampled, or that are read for it: its tables take tens of bytes for each.
LONGEST = 2**27


@dataclass(frozen=True)
class Axis:
    """One dimension: its sizes, and where each element of the output lies in the input.

    Args:
      size: of the input.
      count: of the output.
      scale: a rational where positions are exact, else a float.
      before, after: the offsets.
    """

    size: Any
    count: Any
    scale: float | Fraction
    before: float
    after: float

    @property
    def is_left(self) -> bool:
        """Whether every element stays where it is, of whatever size: the usual law, and nothing is scaled."""
        offset = float(self.before)
        return self.size == self.count and self.scale == 1 and -self.after == offset and offset in (0, 0.5)

    @property
    def is_known(self) -> bool:
        return self.is_left or (isinstance(self.size, int) and isinstance(self.count, int))

    def is_long(self, kernel: Kernel) -> bool:
        """Whether a table of its elements would be too long."""
        if self.is_left or not self.is_known:
            return False
        return max(self.size, self.count * kernel.reach(float(self.scale))) >= LONGEST

    def interpolation(self, kernel: Kernel) -> Interpolation:
        """The elements that make each element of the output, and their weights."""
        if isinstance(self.scale, Fraction):
            x = exact_positions(self.count, self.scale, self.before, self.after).coordinates
        else:
            x = source_coordinates(self.count, self.scale, self.before, self.after)
        return kernel.interpolation(x, self.size, float(self.scale))


def _kernel(x: Operands) -> Kernel:
    return Kernel(x["mode"], x["rounding"], x["cubic_coefficient"], x["antialias"], x["exclude_outside"])


def _scales(x: Operands) -> Sequence[float | Fraction]:
    """Returns the scales, exact where they follow from the sizes; any if another rule is broken."""
    if x["scales"] is not None:
        return x["scales"]
    sizes = zip(x["input"].shape, x["sizes"], strict=False)
    return [Fraction(m, n) if isinstance(n, int) and isinstance(m, int) and n and m > 0 else 1.0 for n, m in sizes]


def _per_dimension(offset: Any, rank: int) -> tuple[float, ...]:
    return offset if isinstance(offset, tuple) else (offset,) * rank


def _axes(x: Operands) -> tuple[Axis, ...] | None:
    """Returns every dimension; None if another rule is broken."""
    shape = x["input"].shape
    columns = (shape, x["sizes"], _scales(x), *(_per_dimension(x[name], len(shape)) for name in OFFSETS))
    if any(len(column) != len(shape) for column in columns):
        return None
    return tuple(Axis(*row) for row in zip(*columns, strict=True))


def _one_or_per_dimension(offsets: str) -> Rule:
    """The rule that offsets are one number for all dimensions, or one per dimension."""

    def broken_by(x: Operands) -> str | None:
        count, rank = len(_per_dimension(x[offsets], len(x["input"].shape))), len(x["input"].shape)
        return None if count == rank else f"there are {count} for {rank} dimensions"

    text = f"{{{offsets}}} must have one entry per dimension of {{input}}"
    return Rule(f"one_per_dimension({offsets})", text, broken_by)


def _single(number: float) -> np.float32:
    with np.errstate(over="ignore"):
        return np.float32(number)


def _finite(offsets: str) -> Rule:
    def broken_by(x: Operands) -> str | None:
        return None if np.isfinite([*map(_single, _per_dimension(x[offsets], 1))]).all() else f"it is {x[offsets]}"

    return Rule(f"finite({offsets})", f"{{{offsets}}} must be finite in float32", broken_by)


def _not_positive(x: Operands) -> str | None:
    return None if all(_single(scale) > 0 for scale in x["scales"]) else f"they are {x['scales']}"


def _filtered(x: Operands) -> str | None:
    acts = x["antialiased"] and x["interpolation_mode"] == InterpolationMode.LINEAR
    small = [scale for scale in x["scales"] if acts and _single(scale) < 0.5]
    return f"there is {small[0]}" if small else None


def _made_of_nothing(x: Operands) -> str | None:
    axes = _axes(x) or ()
    d = next((d for d, axis in enumerate(axes) if axis.size == 0 != axis.count), None)
    return None if d is None else f"dimension {d} has none"


def _unknown(x: Operands) -> str | None:
    axes = _axes(x) or ()
    d = next((d for d, axis in enumerate(axes) if not axis.is_known), None)
    return None if d is None else f"those of dimension {d} are {axes[d].size} and {axes[d].count}"


def _too_long(x: Operands) -> str | None:
    axes, kernel = _axes(x) or (), _kernel(x)
    d = next((d for d, axis in enumerate(axes) if axis.is_long(kernel)), None)
    return None if d is None else f"those of dimension {d} are {axes[d].size} and {axes[d].count}"


POSITIVE = custom("positive(scales)", "every one of {scales} must be a positive number in float32", _not_positive)
SCALES = one_per_dimension("scales", "input")
# For DirectML's struct, whose antialiasing weights are not published.
UNFILTERED = custom(
    "unfiltered(antialiased)",
    "{antialiased} must be False if a scale below 0.5 shrinks a dimension linearly",
    _filtered,
)
ROUNDING = (None, *get_args(DirectionName))
RULES = (
    one_per_dimension("sizes", "input"),
    each_at_least("sizes", 0),
    if_given("scales", SCALES),
    *map(_one_or_per_dimension, OFFSETS),
    if_given("scales", POSITIVE),
    *map(_finite, OFFSETS),
    one_of("mode", get_args(ResampleMode)),
    custom(
        "filters(antialias)",
        "{antialias} must be False unless {mode} is 'linear' or 'cubic'",
        lambda x: "it is True" if x["antialias"] and x["mode"] == "nearest" else None,
    ),
    one_of("rounding", ROUNDING),
    _finite("cubic_coefficient"),
    interpolable("input"),
    custom(
        "made_of_something",
        "{input} must have elements along every dimension that {sizes} do not leave empty",
        _made_of_nothing,
    ),
    custom(
        "known(sizes)", "{input}.{sizes} and {sizes} must be known while tracing where they are resampled", _unknown
    ),
    representable("sizes", lambda x: x["sizes"]),
    custom(
        "short",
        "{input}.{sizes}, and {sizes} times the radius of the filter, must be below 2**27 where they are resampled",
        _too_long,
    ),
)


def _changed_axes(x: Operands) -> Iterator[tuple[int, Interpolation]]:
    """Returns the dimensions that change."""
    kernel = _kernel(x)
    for d, axis in enumerate(_axes(x) or ()):
        if not axis.is_left and (of_axis := axis.interpolation(kernel)).repeats != 1:
            yield d, of_axis


def _dims(x: Operands) -> Dims:
    """A dimension keeps its sharding if it does not change, or if its elements are repeated on the same device."""
    names = names_of(x, "input")
    return Dims({"input": names}, renamed(names, [d for d, axis in _changed_axes(x) if not axis.repeats]))


@operator(*RULES, dims=_dims)
def resample(
    input: Data,
    sizes: Sequence[int],
    scales: Sequence[float] | None = None,
    *,
    mode: ResampleMode = "nearest",
    input_pixel_offsets: RealOrReals = 0.5,
    output_pixel_offsets: RealOrReals = -0.5,
    rounding: DirectionName | None = None,
    antialias: Flag = False,
    cubic_coefficient: float = -0.75,
    exclude_outside: Flag = False,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Resizes `input` to `sizes` by scaling its dimensions.

    An element o of the output lies at x = (o - output_pixel_offset) / scale - input_pixel_offset along a dimension of
    `input`, computed in float32, or exactly where no `scales` are given. "nearest" copies the element at
    floor(x + 0.5), or at x rounded as `rounding` says. "linear" takes (1 - w) of the element at i = floor(x) and
    w = x - i of the next. "cubic" takes four, by cubic convolution: (1 - d) * (1 + d - (a + 2) * d**2) of those at a
    distance d up to 1, and a * (d - 1) * (2 - d)**2 of those up to 2, for the coefficient a. The edge is
    repeated beyond it, as in ONNX: with `antialias=True` numbers near the edges differ from those of jax.image.resize,
    torch and PIL, which `exclude_outside=True` gives.

    Args:
      input: any rank; any dtype that JAX moves for "nearest", floats or integers of up to 16 bits for the others.
      sizes: of the output, any: `scales` that make more are cut off at them, and missing elements repeat the edge.
      scales: one per dimension, positive; they may be infinite. A dimension of scale 1 whose size stays is copied. By
        default sizes / input.sizes, exactly.
      mode: how elements are made: "nearest" copies bits; "linear" and "cubic" compute narrow types in float32 and round
        once, integers to the nearest one of the type, halves to even.
      input_pixel_offsets: a number, or one per dimension; 0.5 aligns centres, 0 with `output_pixel_offsets` of 0 edges.
      output_pixel_offsets: a number, or one per dimension.
      rounding: of "nearest": "increasing" takes ceil(x), "decreasing" floor(x), None the nearest, halves up.
      antialias: whether "linear" and "cubic" divide distances by 1 / scale where a scale is below 1, and the weights by
        their sum, so that every element of `input` counts.
      cubic_coefficient: of "cubic", finite: -0.75 in torch, OpenCV and ONNX, -0.5 in JAX, PIL and TensorFlow.
      exclude_outside: whether "cubic" and antialiased modes leave out elements beyond the edges and divide the other
        weights by their sum, instead of repeating the edge.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operand.

    Returns:
      An array of `sizes` and the dtype of `input`.

    Raises:
      ConstraintError: not a number per dimension, a scale that is not positive, an offset or a coefficient that is not
        finite, elements out of none, or an unknown `mode` or `rounding`.
      DataTypeError: a number is none, `input` cannot be interpolated, or has 64 bits while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> print(dml_jax.resample(np.float32([1, 2]), (4,), mode="linear"))
      [1.   1.25 1.75 2.  ]
      >>> print(dml_jax.resample(np.float32([1, 2, 3, 4]), (2,), (0.5,)))
      [2. 4.]
      >>> print(dml_jax.resample(np.float32([1, 2, 3, 4]), (2,), (0.5,), rounding="decreasing"))
      [1. 3.]
      >>> print(dml_jax.resample(np.float32([0, 0, 8, 0]), (2,), mode="linear", antialias=True))
      [1. 3.]

    Source: DML_RESAMPLE3_OPERATOR_DESC, and those before it. RESAMPLE and RESAMPLE1 say nothing of halves, which
      devices round up. Cubic convolution, its coefficient, antialiasing and `exclude_outside` are those of ONNX's
      Resize: the numbers of DirectML's own filter are not known.
    """
    operands = {
        "input": input,
        "sizes": sizes,
        "scales": scales,
        "mode": mode,
        "input_pixel_offsets": input_pixel_offsets,
        "output_pixel_offsets": output_pixel_offsets,
        "rounding": rounding,
        "antialias": antialias,
        "cubic_coefficient": cubic_coefficient,
        "exclude_outside": exclude_outside,
    }
    if 0 in sizes:
        return jnp.asarray(input).reshape(-1)[:0].reshape(sizes)
    return interpolate(input, dict(_changed_axes(operands)))


# Fields of structs.
Numbers = Annotated[Row[float], counted_by("DimensionCount", FLOAT)]
Scales = Annotated[Numbers, "a positive number per dimension."]
PixelOffsets = Annotated[Numbers, "a finite number per dimension."]
RoundingDirection = Annotated[
    FieldDirection,
    "of the nearest element, an `AxisDirection`, or its DirectML name in full or as suffix: INCREASING, DECREASING.",
]
Resized = Annotated[
    Output, "any sizes: scales that make more are cut off at them, and missing elements repeat the edge."
]

_BYTES = (*FLOATS, DataType.INT8, DataType.UINT8)
_RANKS = range(1, 5)


def struct_law(tensor: str) -> tuple[Rule, ...]:
    """Returns the rules of a struct with offsets, which has numbers per dimension of a tensor."""
    counted = (one_per_dimension(name, tensor) for name in ("scales", *OFFSETS))
    return (*counted, POSITIVE, *map(_finite, OFFSETS))


STRUCT_LAW = struct_law("input")


def keywords_of(desc: OperatorDesc[Any]) -> dict[str, Any]:
    """The keywords of `resample` that a struct with offsets has fields for; not all have a direction."""
    x = desc.operands()
    direction = x.get("rounding_direction")
    rounding = None if direction is None else direction_of(direction)
    kept = {name: x[name] for name in ("scales", *OFFSETS)}
    return {**kept, "mode": mode_of(x["interpolation_mode"]), "rounding": rounding}


def _since(level: str) -> tuple[Support, ...]:
    """Returns the table: bytes are taken from 6_2 on, and fewer than four dimensions from 5_1 on."""
    return levels(("6_2", _RANKS, _BYTES), ("5_1", _RANKS, FLOATS), (level, RANK_4, FLOATS))


class ResampleDesc(OperatorDesc):
    """DML_RESAMPLE_OPERATOR_DESC: scales every dimension of `input`, centres of elements aligned.

    Example:
      >>> desc = ResampleDesc(TensorDesc("FLOAT32", (2,)), TensorDesc("FLOAT32", (4,)), "LINEAR", (2,))
      >>> print(desc.compute(np.float32([1, 2])))
      [1.   1.25 1.75 2.  ]

    Source: DML_RESAMPLE_OPERATOR_DESC. It says nothing of points halfway between two elements; see `resample`.
    """

    input: Input
    output: Resized
    interpolation_mode: FieldMode
    scales: Annotated[Row[float], counted_by("ScaleCount", FLOAT), "a positive number per dimension."]

    support = _since("2_0")
    constraints = (SCALES, POSITIVE)

    def compute_checked(self, input: jax.Array) -> jax.Array:
        return resample(input, self.output.sizes, self.scales, mode=mode_of(self.interpolation_mode))


class Resample1Desc(OperatorDesc):
    """DML_RESAMPLE1_OPERATOR_DESC: scales every dimension of `input`, with offsets.

    Example:
      >>> short, long = TensorDesc("FLOAT32", (2,)), TensorDesc("FLOAT32", (4,))
      >>> print(Resample1Desc(short, long, "LINEAR", (3,), (0,), (0,)).compute(np.float32([1, 4])))
      [1. 2. 3. 4.]

    Source: DML_RESAMPLE1_OPERATOR_DESC. It says nothing of points halfway between two elements; see `resample`.
    """

    input: Input
    output: Resized
    interpolation_mode: FieldMode
    scales: Scales
    input_pixel_offsets: PixelOffsets
    output_pixel_offsets: PixelOffsets

    support = _since("2_1")
    constraints = STRUCT_LAW

    def compute_checked(self, input: jax.Array) -> jax.Array:
        return resample(input, self.output.sizes, **keywords_of(self))


class _RoundedDesc(OperatorDesc, is_base=True):
    """The base of the versions that say how points halfway between two elements are rounded."""

    input: Input
    output: Resized
    interpolation_mode: FieldMode
    rounding_direction: RoundingDirection
    scales: Scales
    input_pixel_offsets: PixelOffsets
    output_pixel_offsets: PixelOffsets

    constraints = STRUCT_LAW

    def compute_checked(self, input: jax.Array) -> jax.Array:
        return resample(input, self.output.sizes, **keywords_of(self))


class Resample2Desc(_RoundedDesc):
    """DML_RESAMPLE2_OPERATOR_DESC: scales every dimension of `input`, with offsets, rounding up or down.

    Example:
      >>> long, short = TensorDesc("FLOAT32", (4,)), TensorDesc("FLOAT32", (2,))
      >>> for direction in ("INCREASING", "DECREASING"):
      ...     desc = Resample2Desc(long, short, "NEAREST_NEIGHBOR", direction, (0.5,), (0.5,), (-0.5,))
      ...     print(desc.compute(np.float32([1, 2, 3, 4])))
      [2. 4.]
      [1. 3.]

    Source: DML_RESAMPLE2_OPERATOR_DESC. It does not say how 8-bit integers are rounded; see `resample`.
    """

    support = levels(("6_2", _RANKS, _BYTES), ("5_1", _RANKS, FLOATS))


class Resample3Desc(_RoundedDesc):
    """DML_RESAMPLE3_OPERATOR_DESC: scales every dimension of `input`, with offsets, rounding up or down, unfiltered.

    Args:
      antialiased: False, or True where DirectML's filter does nothing: for nearest elements, and scales of 0.5 and
        more.

    Example:
      >>> bytes, fewer = TensorDesc("UINT8", (4,)), TensorDesc("UINT8", (2,))
      >>> desc = Resample3Desc(bytes, fewer, "LINEAR", "INCREASING", (0.5,), (0.5,), (-0.5,), antialiased=True)
      >>> print(desc.compute(np.uint8([1, 3, 5, 9])))
      [2 7]

    Source: DML_RESAMPLE3_OPERATOR_DESC. The numbers of its filter are not known: a scale below 0.5 refuses it.
    """

    antialiased: Bool

    support = levels(("6_4", _RANKS, _BYTES))
    constraints = (*STRUCT_LAW, UNFILTERED)
