"""CONVOLUTION_INTEGER and QUANTIZED_LINEAR_CONVOLUTION: convolutions of integers, requantised or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from math import prod
from operator import add
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..core.rules import Rule, assuming, at_least, if_given, sizes_follow
from ..core.structs.fields import Input, Ints, OptionalInput, Output
from ..core.structs.operator_desc import OperatorDesc
from ..core.structs.struct_rules import right_aligned
from ..core.tensors.data_type import DataType
from ..operations.reread_input import window_input
from ..operations.sliding_windows import MOST_SLICES, Windows
from ..operations.unfold import unfold_windows
from ..operations.window_slices import read_slices
from ._convolution import (
    CHANNELS,
    COUNTS,
    FITS,
    GROUPS,
    NUMBERS,
    ConvolutionDirection,
    Dilations,
    GroupCount,
    Strides,
    bias_sizes,
    sizes_of,
    windows_of,
)
from ._quantization import (
    BYTES,
    REAL,
    PerAxis,
    below,
    centred,
    multiply_integers,
    older_rank_rules,
    parameter_rules,
    parameters_of,
    rank_within,
    rescale,
    scales_of,
    signed_bytes,
    since_2_1,
    zero_points_of,
)

__all__ = ["ConvolutionIntegerDesc", "QuantizedLinearConvolutionDesc"]

_RANKS = range(3, 5)
# The fields that only CONVOLUTION has.
_FORWARD = {"direction": ConvolutionDirection.FORWARD, "output_padding": None}
_TEXTS = {CHANNELS.name: "the channels of {input} must be the second of {filter}.{sizes} times {group_count}"}
_AXES = {"input": None, "filter": PerAxis(1, "filter", 0, "filters"), "output": None}
_INPUTS, _ALL = ("input", "filter"), ("input", "filter", "output")


def _forward(rule: Rule) -> Rule:
    return replace(assuming(rule, _FORWARD), text=_TEXTS.get(rule.name, rule.text))


FEW_READS = 16  # of a slice, times the stride: a product takes no longer than more of them


def _window_rules() -> Iterator[Rule]:
    least = (rule for rule in NUMBERS if rule.name.endswith(", 1)"))  # no field is negative
    named = (rule for rule in (*COUNTS, *least) if "output_padding" not in rule.name)
    output = sizes_follow("output", partial(sizes_of, which=0), "(N, filters, places of a filter along each dimension)")
    yield from map(_forward, (*named, at_least("group_count", 1), GROUPS, CHANNELS, FITS, output))


def convolve_integers(
    input: jax.Array,
    input_zero_point: jax.Array | None,
    filter: jax.Array,
    filter_zero_point: jax.Array | None,
    windows: Sequence[Windows],
    groups: int,
) -> jax.Array:
    """Sums of products in int32, as matrix products of windows (im2col): no GPU convolves integers of 32 bits.

    Depthwise ones are sums of slices: their products would be of single rows, or of few. The zero point of the input
    has one element, that of the filter one, or one for each filter, (1, O, 1, 1).
    """
    input = window_input(input, windows)
    if 1 < groups == input.shape[1] and are_few_slices(windows, len(filter) // groups):
        numbers = centred(filter, _per_filter(filter_zero_point, filter))
        differences = centred(input, input_zero_point).astype(jnp.int16)  # of bytes: 255 at most, in half the memory
        return _scale_slices(differences, numbers, windows)
    depth = prod(filter.shape[1:])
    x, zero = signed_bytes(input, input_zero_point)
    # Padding is the zero point, from which nothing is left.
    fill = jnp.zeros((), jnp.int8) if zero is None else zero.reshape(()).astype(jnp.int8)
    padded = lax.pad(x, fill, [(0, 0, 0)] * 2 + [(w.start, w.end, 0) for w in windows])
    inside = [replace(w, size=w.padded, start=0, end=0) for w in windows]
    # One step each, as JAX's Explicit meshes merge one run of dimensions at a time.
    unfolded = lax.collapse(unfold_windows(padded, inside), 2 + len(windows))
    columns = lax.collapse(unfolded, 1, 2 + len(windows)).reshape(len(x), groups, depth, unfolded.shape[-1])
    of_filters = _per_filter(filter_zero_point, filter)
    if of_filters is not None:
        of_filters = jnp.broadcast_to(of_filters, (len(filter), *(1,) * (filter.ndim - 1))).reshape(groups, -1, 1)
    weights = lax.collapse(filter, 1).reshape(groups, -1, depth)
    columns = jnp.moveaxis(columns, 0, 2).reshape(groups, depth, -1)
    sums = multiply_integers(weights, of_filters, columns, None if zero is None else zero.reshape(()))
    by_example = lax.collapse(sums, 0, 2).reshape(len(filter), len(x), *(w.count for w in windows))
    return by_example.swapaxes(0, 1)


def are_few_slices(windows: Sequence[Windows], filters: int) -> bool:
    """Whether each channel has few filters, which read its slices again: with strides, one element at a time."""
    few = filters == 1 or filters * prod(w.stride for w in windows) <= FEW_READS
    return few and prod(w.window for w in windows) <= MOST_SLICES


def _per_filter(zero_point: jax.Array | None, filter: jax.Array) -> jax.Array | None:
    """Zero points with the filters first, (1 or O, 1, ...)."""
    if zero_point is None:
        return None
    return zero_point.reshape(right_aligned(zero_point.shape, filter.ndim)).swapaxes(0, 1)


def _scale_slices(x: jax.Array, filters: jax.Array, windows: Sequence[Windows]) -> jax.Array:
    """Sums the slices of each channel in int32, each slice multiplied by one element of its filters."""
    (batch, channels, *_), counts = x.shape, [w.count for w in windows]
    numbers = jnp.moveaxis(filters.reshape(channels, -1, prod(filters.shape[1:])), 2, 0)
    slices = read_slices(x, range(2, x.ndim), windows)
    scaled = (
        each[:, :, None].astype(jnp.int32) * number[None, ..., *(None,) * len(counts)]
        for each, number in zip(slices, numbers, strict=True)
    )
    return reduce(add, scaled).reshape(batch, len(filters), *counts)


def convolve_quantized(
    input: jax.Array,
    input_scale: jax.Array,
    input_zero_point: jax.Array | None,
    filter: jax.Array,
    filter_scale: jax.Array,
    filter_zero_point: jax.Array | None,
    bias: jax.Array | None,
    output_scale: jax.Array,
    output_zero_point: jax.Array | None,
    *,
    windows: Sequence[Windows],
    groups: int,
    dtype: Any,
) -> jax.Array:
    """The convolution of quantised numbers, requantised to integers of `dtype`; the bias is (1, O, 1, 1)."""
    sums = convolve_integers(input, input_zero_point, filter, filter_zero_point, windows, groups)
    sums = sums if bias is None else sums + bias
    return rescale(sums, input_scale, filter_scale, output_scale, output_zero_point, dtype)


def _windows_and_groups(desc: OperatorDesc) -> dict[str, Any]:
    operands = {**desc.operands(), **_FORWARD}
    return {"windows": windows_of(operands), "groups": operands["group_count"]}


class ConvolutionIntegerDesc(OperatorDesc):
    """DML_CONVOLUTION_INTEGER_OPERATOR_DESC: convolves integers, in 32 bits.

    output = the sum of (input - input_zero_point) * (filter - filter_zero_point) under each place of the filter, which
    is not reversed; the sum wraps. Padding adds nothing.

    Args:
      input: (N, C, W) or (N, C, H, W).
      input_zero_point: one element, the data type of `input`; or None, which is 0.
      filter: (O, C / group_count, spatial sizes).
      filter_zero_point: one element, or one for each filter, (1, O, 1, 1); the data type of `filter`; or None.
      output: (N, O, places of the filter along each spatial dimension).
      start_padding: how far the first place is before each spatial dimension.
      end_padding: how far places may reach past its end.

    Example:
      >>> row, pair, one = TensorDesc("UINT8", (1, 1, 4)), TensorDesc("INT8", (1, 1, 2)), TensorDesc("UINT8", (1,))
      >>> output = TensorDesc("INT32", (1, 1, 4))
      >>> desc = ConvolutionIntegerDesc(row, one, pair, None, output, (1,), (1,), (0,), (1,))
      >>> print(desc.compute(np.uint8([[[11, 12, 13, 14]]]), np.uint8([10]), np.int8([[[10, 1]]])))
      [[[12 23 34 40]]]

    Source: DML_CONVOLUTION_INTEGER_OPERATOR_DESC, which says neither that the filter is not reversed nor what padding
      is; ONNX does, of an operator that is run by this one.
    """

    input: Input
    input_zero_point: OptionalInput
    filter: Input
    filter_zero_point: OptionalInput
    output: Output
    strides: Strides
    dilations: Dilations
    start_padding: Ints
    end_padding: Ints
    group_count: GroupCount = 1

    in_jax = "jax.lax.conv_general_dilated(..., preferred_element_type=int32)"
    other_types = ("filter", *zero_points_of(*_INPUTS), "output")
    other_ranks = zero_points_of(*_INPUTS)
    support = since_2_1(_RANKS, input=BYTES, filter=BYTES, output=(DataType.INT32,))
    constraints = (*_window_rules(), *parameter_rules(_AXES, *_INPUTS, scaled=False))
    lifted = older_rank_rules(*zero_points_of(*_INPUTS))

    def compute_checked(self, **arrays: Any) -> jax.Array:
        return convolve_integers(**arrays, **_windows_and_groups(self))


class QuantizedLinearConvolutionDesc(OperatorDesc):
    """DML_QUANTIZED_LINEAR_CONVOLUTION_OPERATOR_DESC: convolves quantised numbers.

    output = quantize((sums + bias) * (input_scale * filter_scale)), with the sums of CONVOLUTION_INTEGER, to which the
    bias is added in 32 bits; the rest is float32.

    Args:
      input: (N, C, W) or (N, C, H, W).
      input_scale: FLOAT32, one element.
      input_zero_point: one element, the data type of `input`; or None, which is 0.
      filter: (O, C / group_count, spatial sizes).
      filter_scale: FLOAT32, one element, or one for each filter, (1, O, 1, 1).
      filter_zero_point: as `filter_scale`, but with the data type of `filter`; or None.
      bias: INT32, (1, O, 1, 1), in units of input_scale * filter_scale; or None.
      output_scale: FLOAT32, one element.
      output_zero_point: one element, the data type of `output`; or None.
      output: (N, O, places of the filter along each spatial dimension).
      start_padding: how far the first place is before each spatial dimension.
      end_padding: how far places may reach past its end.

    Example:
      >>> row, pair, output = (TensorDesc("INT8", (1, 1, n)) for n in (4, 2, 3))
      >>> one = TensorDesc("FLOAT32", (1,))
      >>> inputs = (row, one, None, pair, one, None, None, one, None, output)
      >>> desc = QuantizedLinearConvolutionDesc(*inputs, (1,), (1,), (0,), (0,))
      >>> half, unit = np.float32([0.5]), np.float32([1])
      >>> print(desc.compute(np.int8([[[1, 2, 3, 40]]]), half, np.int8([[[10, 1]]]), unit, half))
      [[[12 23 70]]]
    """

    input: Input
    input_scale: Input
    input_zero_point: OptionalInput
    filter: Input
    filter_scale: Input
    filter_zero_point: OptionalInput
    bias: OptionalInput
    output_scale: Input
    output_zero_point: OptionalInput
    output: Output
    strides: Strides
    dilations: Dilations
    start_padding: Ints
    end_padding: Ints
    group_count: GroupCount = 1

    in_jax = "jax.lax.conv_general_dilated(..., preferred_element_type=int32), scaled and clipped"
    other_types = (*parameters_of(*_ALL), "filter", "bias", "output")
    other_ranks = parameters_of(*_ALL)
    support = since_2_1(
        _RANKS, **dict.fromkeys(_ALL, BYTES), **dict.fromkeys(scales_of(*_ALL), REAL), bias=(DataType.INT32,)
    )
    constraints = (
        *_window_rules(),
        *parameter_rules(_AXES, *_ALL),
        if_given("bias", _forward(sizes_follow("bias", bias_sizes, "(1, filters, 1, ...)"))),
    )
    lifted = (
        *older_rank_rules(*parameters_of(*_ALL)),
        below("5_2", rank_within("filter_scale", 3, 4)),
    )

    def compute_checked(self, **arrays: Any) -> jax.Array:
        return convolve_quantized(**arrays, **_windows_and_groups(self), dtype=self.output.dtype)
