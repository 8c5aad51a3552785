"""CONVOLUTION: convolution and transposed convolution, with a bias and an activation."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
from jax import lax

from ..core.arguments.kinds import Data, OutSharding, Spatial
from ..core.arguments.operator import operator
from ..core.rules import (
    Law,
    Operands,
    Rule,
    at_least,
    custom,
    each_at_least,
    floats,
    if_given,
    minimum_rank,
    one_of,
    representable,
    same_dtype,
    same_rank,
    sizes_follow,
)
from ..core.sharding import Dims
from ..core.structs.activation_fusion import Fused, Fusion, axes_within
from ..core.structs.feature_level_tables import FLOATS, RANKS_4_TO_5, levels
from ..core.structs.field_types import Named
from ..core.structs.fields import Input, Ints, OptionalInput, Output, UInt, named
from ..core.structs.operator_desc import OperatorDesc
from ..operations.convolution import convolve, convolve_back
from ..operations.sliding_windows import Windows
from ..operations.values.accumulation_types import narrow_apart, wide_type, widen_apart

__all__ = ["ConvolutionDesc", "ConvolutionDirection", "ConvolutionMode", "convolution"]


class ConvolutionMode(enum.IntEnum):
    """DML_CONVOLUTION_MODE: whether the filter is reversed along its spatial dimensions, as mathematics has it."""

    CONVOLUTION = 0
    CROSS_CORRELATION = 1


class ConvolutionDirection(enum.IntEnum):
    """DML_CONVOLUTION_DIRECTION: the convolution, or its transpose."""

    FORWARD = 0
    BACKWARD = 1


FieldMode = Annotated[Named[ConvolutionMode], named(ConvolutionMode, "DML_CONVOLUTION_MODE_")]
FieldDirection = Annotated[Named[ConvolutionDirection], named(ConvolutionDirection, "DML_CONVOLUTION_DIRECTION_")]
Strides = Annotated[Ints, "distance from a place of the filter to the next one, per spatial dimension; at least 1."]
Dilations = Annotated[Ints, "elements from one of the filter to its next one; at least 1."]
GroupCount = Annotated[UInt, "how many groups of channels there are; at least 1."]

# The least number of each attribute per spatial dimension, which is its default.
LEAST = {"strides": 1, "dilations": 1, "start_padding": 0, "end_padding": 0, "output_padding": 0}


def _is_backward(x: Operands) -> bool:
    """Whether the direction is BACKWARD, for the operands of a function or of a struct."""
    return x["direction"] in ("backward", ConvolutionDirection.BACKWARD)


def _per_spatial_dimension(x: Operands, name: str) -> Sequence[int]:
    """Returns the numbers of an attribute per spatial dimension; its least ones if it is None."""
    return x[name] if x[name] is not None else [LEAST[name]] * (len(x["input"].shape) - 2)


def windows_of(x: Operands) -> list[Windows]:
    """Returns the windows of the filter along each spatial dimension, as if FORWARD; BACKWARD is the transpose."""
    of_windows = (_per_spatial_dimension(x, name) for name in ("strides", "dilations", "start_padding", "end_padding"))
    return [Windows(*w) for w in zip(x["input"].shape[2:], x["filter"].shape[2:], *of_windows, strict=True)]


def _sums(x: Operands) -> list[range]:
    """Returns the sizes that the sums may have, per spatial dimension.

    It is one, or all that FORWARD maps to the input where BACKWARD is told the sizes, as a struct always is.
    """
    is_told = x.get("output_sizes", ()) is not None

    def sizes(window: Windows) -> range:
        if not _is_backward(x):
            return range(max(1, window.count), window.count + 1)
        least = window.stride * (window.size - 1) + window.span - window.start - window.end
        return range(max(1, least), least + (window.stride if is_told else 1))

    return [sizes(w) for w in windows_of(x)]


# Rules.


def _one_per_spatial_dimension(name: str) -> Rule:
    def broken_by(x: Operands) -> str | None:
        count, spatial = len(_per_spatial_dimension(x, name)), len(x["input"].shape) - 2
        return None if count == spatial else f"there are {count} for {spatial}"

    text = f"{{{name}}} must have one entry per spatial dimension, {{input}}.{{rank}} - 2"
    return custom(f"one_per_spatial_dimension({name})", text, broken_by)


def _least(name: str) -> Rule:
    rule = each_at_least(name, LEAST[name])
    return replace(rule, broken_by=lambda x: rule.broken_by({name: _per_spatial_dimension(x, name)}))


def _no_group_count(x: Operands) -> str | None:
    count, channels = x["group_count"], x["filter"].shape[:1]
    return None if count < 1 or not channels or channels[0] % count == 0 else f"they are {count} and {channels[0]}"


def _other_channels(x: Operands) -> str | None:
    input, filter = x["input"].shape, x["filter"].shape
    if len(input) < 2 or len(filter) < 2:
        return None
    read = filter[0] if _is_backward(x) else filter[1] * x["group_count"]
    return None if input[1] == read else f"they are {input[1]} and {read}"


COUNTS = tuple(map(_one_per_spatial_dimension, LEAST))
NUMBERS = tuple(map(_least, LEAST))
GROUPS = custom("groups", "{group_count} must divide {filter}.{sizes}[0]", _no_group_count)
CHANNELS = custom(
    "channels",
    "the channels of {input} must be the second of {filter}.{sizes} times {group_count}, backward the first of them",
    _other_channels,
)
_BEFORE = (same_rank("filter", "input"), *COUNTS, *NUMBERS, at_least("group_count", 1), GROUPS, CHANNELS)


def _unless_broken(judge: Callable[[Operands], str | None]) -> Callable[[Operands], str | None]:
    return lambda x: None if any(rule.broken_by(x) for rule in _BEFORE) else judge(x)


def _misfit(x: Operands) -> str | None:
    for d, w in enumerate(windows_of(x)):
        if not isinstance(w.size, int) or not isinstance(w.window, int):
            return f"spatial dimension {d} is symbolic, {w.size} and {w.window}"
        if w.window < 1 or (_is_backward(x) and w.size < 1):
            return f"spatial dimension {d} has sizes {w.size} and {w.window}"
    empty = next((d for d, sizes in enumerate(_sums(x)) if not sizes), None)
    return None if empty is None else f"spatial dimension {empty} has none"


FITS = custom(
    "fits",
    "{input}, {filter} and the paddings must give an output along every spatial dimension, whose sizes are known",
    _unless_broken(_misfit),
)


def _spatial(x: Operands) -> list[range]:
    """Returns the sizes that the output may have, per spatial dimension; none if another rule is broken."""
    if any(rule.broken_by(x) for rule in (*_BEFORE, FITS)):
        return []
    more = zip(_sums(x), _per_spatial_dimension(x, "output_padding"), strict=True)
    return [range(sizes.start + n, sizes.stop + n) for sizes, n in more]


def _out_channels(x: Operands) -> Any:
    filter = x["filter"].shape
    return filter[1] * x["group_count"] if _is_backward(x) else filter[0]


def _no_output_sizes(x: Operands) -> str | None:
    spatial, asked = _spatial(x), x["output_sizes"]
    if not spatial or asked is None:
        return None
    fits = len(spatial) == len(asked) and all(n in sizes for n, sizes in zip(asked, spatial, strict=True))
    return None if fits else f"they are {tuple(asked)}, not {_format_ranges(spatial)}"


def _format_ranges(spatial: Sequence[range]) -> str:
    return " by ".join(f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}" for sizes in spatial)


def sizes_of(x: Operands, which: int) -> tuple[Any, ...] | None:
    """Returns the sizes of the output, the least or the last that it may have; None if another rule is broken."""
    spatial = _spatial(x)
    return (x["input"].shape[0], _out_channels(x), *(sizes[which] for sizes in spatial)) if spatial else None


def _too_far(x: Operands) -> str | None:
    of_windows = (max(w.padded, w.span, w.stride, w.dilation) for w in windows_of(x))
    most = max(*of_windows, *(sizes[-1] for sizes in _spatial(x)))
    return f"one is {most}" if most >= 2**31 else None


def _channels(x: Operands) -> tuple[Any, ...] | None:
    return None if _BEFORE[0].broken_by(x) or len(x["filter"].shape) < 2 else (_out_channels(x),)


RULES = (
    one_of("mode", ("cross_correlation", "convolution")),
    one_of("direction", ("forward", "backward")),
    minimum_rank("input", 3),
    floats("input"),
    same_dtype("filter", "input"),
    if_given("bias", same_dtype("bias", "input")),
    *_BEFORE,
    FITS,
    custom(
        "indexable",
        "{strides}, {dilations}, and the sizes of the padded {input}, the dilated {filter} and the output must be less "
        "than 2**31",
        _unless_broken(_too_far),
    ),
    representable("input", partial(sizes_of, which=-1)),
    custom(
        "sizes(output)",
        "{output_sizes} must be spatial sizes that the output can have, with {output_padding}",
        _no_output_sizes,
    ),
    if_given("bias", sizes_follow("bias", _channels, "(the channels of the output,)")),
    axes_within("activation", "input"),
)


def _dims(x: Operands) -> Dims:
    """The batch and the channels of the output keep their sharding, except the channels of BACKWARD with groups.

    If each channel of the input is a group, the channels of all arrays are sharded alike.
    """
    spatial, groups = [f"spatial {d}" for d in range(x["input"].ndim - 2)], x["group_count"]
    read = "channel" if 1 < groups == x["input"].shape[1] else "added up"
    filter = ["channel", "added up", *spatial]
    if _is_backward(x):
        filter[:2] = [read, "channel" if groups == 1 else "in a group"]
    operands = {"input": ["batch", read, *spatial], "filter": filter}
    output_names = ["batch", "channel", *(f"output {d}" for d in range(len(spatial)))]
    return Dims(operands if x["bias"] is None else operands | {"bias": ["channel"]}, output_names)


@operator(*RULES, dims=_dims)
def convolution(
    input: Data,
    filter: Data,
    bias: Data | None = None,
    *,
    mode: Literal["cross_correlation", "convolution"] = "cross_correlation",
    direction: Literal["forward", "backward"] = "forward",
    strides: Spatial | None = None,
    dilations: Spatial | None = None,
    start_padding: Spatial | None = None,
    end_padding: Spatial | None = None,
    output_padding: Spatial | None = None,
    output_sizes: Spatial | None = None,
    group_count: int = 1,
    activation: Fusion | None = None,
    out_sharding: OutSharding = None,
) -> jax.Array:
    """Convolves `input` with `filter`, or computes the transpose; then adds a bias and applies an activation.

    forward: sums[n, o, p] = the sum over c and k of input[n, c, q] * filter[o, c, k]
    backward: sums[n, o, q] = the sum over c, p and k of input[n, c, p] * filter[c, o, k]

    with q = p * strides + k * dilations - start_padding, per spatial dimension; elements outside count as 0. Then
    output = activation(sums + bias). Groups of channels are convolved each on its own.

    Floats of 8 and 16 bits are computed in float32 and rounded once, at the end. Products are as exact as the type:
    GPUs round no float32 to TF32, and TPUs none to bfloat16.

    Args:
      input: [N, C, S_1, ..., S_d], floats of any width, d >= 1.
      filter: forward [O, C / group_count, K_1, ..., K_d], backward [C, O / group_count, K_1, ..., K_d]; the dtype of
        `input`.
      bias: [O], the dtype of `input`; or None, which adds nothing.
      mode: whether `filter` is reversed along every spatial dimension, as "convolution" has it, or not.
      direction: whether it is the convolution or, "backward", its transpose, which makes larger arrays of smaller ones.
      strides: distance from a place of the filter to the next one, per spatial dimension, at least 1; 1 by default. One
        number stands for all.
      dilations: distance between the elements of the filter, at least 1; 1 by default. One number stands for all.
      start_padding: zeros before each spatial dimension of the larger array, at least 0; 0 by default. One number
        stands for all.
      end_padding: zeros after it; as `start_padding`.
      output_padding: zeros that are appended to the sums, before the bias; at least 0, 0 by default. One number stands
        for all.
      output_sizes: of the output's spatial dimensions, those that are appended among them. Backward up to strides - 1
        more than the default, the least: all these are sizes of which forward makes those of `input`. One number stands
        for all.
      group_count: how many groups there are; at least 1, by which C and O can be divided.
      activation: an `Activation`, or None.
      out_sharding: sharding of the output on a mesh: NamedSharding or PartitionSpec; by default from the operands.
        It must be given where a dimension of the sums is sharded.

    Returns:
      An array of [N, O, spatial sizes] and the dtype of `input`. With D = dilations * (K - 1) + 1 the sizes are, and
      output_padding more, forward (S + start_padding + end_padding - D) // strides + 1, backward strides * (S - 1) + D
      - start_padding - end_padding.

    Raises:
      ConstraintError: sizes that do not fit each other, not a number per spatial dimension, or one that is too small.
      DataTypeError: `input` has no floats, `filter` or `bias` has others, a number is not an integer, `activation` is
        no `Activation`, or 64-bit floats while x64 is off.

    Example:
      >>> import numpy as np, dml_jax
      >>> x = np.arange(1, 10, dtype=np.float32).reshape(1, 1, 3, 3)
      >>> halves = np.full((1, 1, 2, 2), 0.5, np.float32)
      >>> print(dml_jax.convolution(x, halves)[0, 0])
      [[ 6.  8.]
       [12. 14.]]
      >>> print(dml_jax.convolution(x[..., :1, :2], halves, np.float32([1]), direction="backward")[0, 0])
      [[1.5 2.5 2. ]
       [1.5 2.5 2. ]]

    Source: DML_CONVOLUTION_OPERATOR_DESC, which says neither whether OutputPadding comes before the bias and the
      activation, nor how FLOAT16 is added up.
    """
    attributes: Mapping[str, Any] = {
        "input": input,
        "filter": filter,
        "direction": direction,
        "strides": strides,
        "dilations": dilations,
        "start_padding": start_padding,
        "end_padding": end_padding,
        "output_padding": output_padding,
        "output_sizes": output_sizes,
    }
    dtype, wide = input.dtype, wide_type(input.dtype)
    windows, zeros = windows_of(attributes), _per_spatial_dimension(attributes, "output_padding")
    sizes = [sums[0] for sums in _sums(attributes)]
    if output_sizes is not None:
        sizes = [n - more for n, more in zip(attributes["output_sizes"], zeros, strict=True)]
    # Halves are multiplied as they are, which float32 holds exactly; not every device multiplies eight bits.
    input, weights = (x if dtype.itemsize > 1 else widen_apart(x, wide) for x in map(jnp.asarray, (input, filter)))
    is_backward = direction == "backward"
    if is_backward != (mode == "convolution"):
        weights = lax.rev(weights, range(2, weights.ndim))
    # At HIGH GPUs multiply TF32, which holds floats of up to 16 bits. XLA widens these, as cuDNN returns no wider sums.
    precision = lax.Precision.HIGHEST if wide == dtype else lax.Precision.HIGH
    if is_backward:
        output = convolve_back(input, weights, windows, sizes, group_count, precision, wide)
    else:
        output = convolve(input, weights, windows, group_count, precision, wide)
    output = lax.pad(output, jnp.zeros((), wide), [(0, 0, 0)] * 2 + [(0, n, 0) for n in zeros])
    if bias is not None:
        output = output + jnp.asarray(bias, wide).reshape(1, -1, *(1,) * len(zeros))
    return narrow_apart(output if activation is None else activation(output), dtype)


# The struct.


def bias_sizes(x: Operands) -> tuple[Any, ...] | None:
    channels = _channels(x)
    return None if channels is None else (1, *channels, *(1,) * (len(x["input"].shape) - 2))


def _no_output(x: Operands) -> str | None:
    spatial, actual = _spatial(x), tuple(x["output"].shape)
    if not spatial or len(actual) != len(x["input"].shape):
        return None
    wanted = (x["input"].shape[0], _out_channels(x))
    fits = actual[:2] == wanted and all(n in sizes for n, sizes in zip(actual[2:], spatial, strict=True))
    return None if fits else f"{actual} is not {wanted} by {_format_ranges(spatial)}"


class ConvolutionDesc(OperatorDesc):
    """DML_CONVOLUTION_OPERATOR_DESC: convolves `input` with `filter`, adds a bias, and applies an activation.

    Args:
      input: (N, C, spatial sizes), of 1 to 3 spatial dimensions.
      filter: forward (O, C / group_count, spatial sizes), backward (C, O / group_count, spatial sizes).
      bias: (1, O, 1, ...), or None.
      output: (N, O, spatial sizes): those of `convolution`.
      start_padding: zeros before each spatial dimension.
      end_padding: zeros after it.
      output_padding: zeros that are appended to the sums, before the bias.

    Example:
      >>> row, pair, output = (TensorDesc("FLOAT32", (1, 1, n)) for n in (4, 2, 3))
      >>> desc = ConvolutionDesc(row, pair, None, output, "CROSS_CORRELATION", "FORWARD", (1,), (1,), (0,), (0,), (0,))
      >>> print(desc.compute(np.float32([[[1, 2, 3, 4]]]), np.float32([[[10, 1]]])))
      [[[12. 23. 34.]]]
    """

    input: Input
    filter: Input
    bias: OptionalInput
    output: Output
    mode: FieldMode
    direction: FieldDirection
    strides: Strides
    dilations: Dilations
    start_padding: Ints
    end_padding: Ints
    output_padding: Ints
    group_count: GroupCount = 1
    fused_activation: Fused = None

    support = levels(("4_0", range(3, 6), FLOATS), ("1_0", RANKS_4_TO_5, FLOATS))
    constraints = (
        *COUNTS,
        *(rule for rule, least in zip(NUMBERS, LEAST.values(), strict=True) if least > 0),  # no field is negative
        at_least("group_count", 1),
        GROUPS,
        CHANNELS,
        FITS,
        if_given("bias", sizes_follow("bias", bias_sizes, "(1, the channels of {output}, 1, ...)")),
        custom(
            "sizes(output)",
            "{output}.{sizes} must be those that {direction} can make",
            _no_output,
            Law("output", "sizes", partial(sizes_of, which=0)),
        ),
    )

    def compute_checked(self, input: jax.Array, filter: jax.Array, bias: jax.Array | None = None) -> jax.Array:
        bias, fields = None if bias is None else bias.reshape(-1), self.operands()
        named: Any = {name: fields[name] for name in (*LEAST, "group_count")}
        named |= {name: fields[name].name.lower() for name in ("mode", "direction")}
        sizes, activation = self.output.sizes[2:], self.fused_activation
        return convolution(input, filter, bias, **named, output_sizes=sizes, activation=activation)
