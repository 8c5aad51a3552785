"""The DirectML descriptor of each node of ONNX, as a function of its outputs, inputs and attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import jax
import numpy as np

from ..core.structs.operator_desc import OperatorDesc
from ..core.tensors.tensor_desc import TensorDesc, packed_strides
from ..operators import (
    CastDesc,
    CumulativeProductDesc,
    CumulativeSummationDesc,
    DepthToSpace1Desc,
    DiagonalMatrix1Desc,
    ElementWiseIdentityDesc,
    ElementWiseIfDesc,
    FillValueConstantDesc,
    FillValueSequenceDesc,
    FoldDesc,
    GatherDesc,
    GatherElementsDesc,
    GatherND1Desc,
    JoinDesc,
    MaxUnpoolingDesc,
    NonzeroCoordinatesDesc,
    OneHotDesc,
    Padding1Desc,
    Resample2Desc,
    ReverseSubsequencesDesc,
    ScatterElementsDesc,
    ScatterNDDesc,
    Slice1Desc,
    SpaceToDepth1Desc,
    SplitDesc,
    TileDesc,
    TopK1Desc,
)
from ..operators._depth_space_rules import ORDERS
from . import cast, data_movement, layout, resize
from .data_movement import diagonals_of, lengths_among, number_of, order_of, sliding, unpooled_sizes
from .errors import OnnxError
from .layout import PAD_MODES, axis_of, borders_of, lengths_of, parts_of, range_of, windows_of
from .resize import NEAREST
from .resize_coordinates import CROP, Grid, grid_of
from .values import known_ints

Tensor = np.ndarray | jax.ShapeDtypeStruct
Outputs = Sequence[Any]
Desc = OperatorDesc[Any]


# Tensors.


def _tensor(tensor: Tensor, rank: int = 1, shape: Sequence[int] | None = None, dtype: Any = None) -> TensorDesc:
    """Returns the description of a packed tensor, with leading sizes of 1 up to a rank."""
    sizes = tensor.shape if shape is None else tuple(shape)
    if 0 in sizes:
        raise OnnxError(f"a tensor must have elements in DirectML, but its sizes are {sizes}")
    return TensorDesc(_type(tensor.dtype if dtype is None else dtype), (*(1,) * (rank - len(sizes)), *sizes))


def _type(dtype: Any) -> Any:
    return np.uint8 if dtype == np.bool_ else dtype


def _descs_of_one_rank(**given: Tensor) -> dict[str, TensorDesc]:
    """Returns the descriptions of tensors at one DimensionCount, with leading sizes of 1."""
    rank = max(len(tensor.shape) for tensor in given.values())
    return {name: _tensor(tensor, max(1, rank)) for name, tensor in given.items()}


def _broadcast(tensor: Tensor, sizes: Sequence[int], dtype: Any = None) -> TensorDesc:
    """Returns the description of a tensor that strides of 0 repeat to other sizes."""
    packed = _tensor(tensor, max(1, len(sizes)), dtype=dtype)
    wanted = tuple(sizes) or (1,)
    if packed.sizes == wanted:
        return packed
    along = zip(packed.sizes, packed_strides(packed.sizes), strict=True)
    return TensorDesc(packed.data_type, wanted, [0 if n == 1 else stride for n, stride in along])


def _unsigned_type(dtype: Any) -> Any:
    """Returns the unsigned type of the same width: DirectML takes no signed one here, and no index is negative."""
    return np.dtype(f"uint{8 * dtype.itemsize}")


def _number(array: np.ndarray, like: TensorDesc) -> Any:
    return array.reshape(()).astype(like.dtype)[()]


def _axis(axis: int, tensor: Tensor, desc: TensorDesc) -> int:
    """Returns ONNX's axis as an axis of the tensor with leading sizes of 1."""
    rank = len(tensor.shape)
    return axis_of("axis", axis, rank) + len(desc.sizes) - rank


# One function per node. It takes the outputs, None for one that nothing reads, then inputs and attributes by ONNX's
# names.


def _gather(out: Outputs, *, data: Tensor, indices: Tensor, axis: int) -> Desc:
    padded = _descs_of_one_rank(input=data, indices=indices, output=out[0])
    return GatherDesc(**padded, axis=_axis(axis, data, padded["input"]), index_dimensions=len(indices.shape))


def _gather_elements(out: Outputs, *, data: Tensor, indices: Tensor, axis: int) -> Desc:
    padded = _descs_of_one_rank(input=data, indices=indices, output=out[0])
    return GatherElementsDesc(**padded, axis=_axis(axis, data, padded["input"]))


def _gather_nd(out: Outputs, *, data: Tensor, indices: Tensor, batch_dims: int = 0) -> Desc:
    return GatherND1Desc(
        **_descs_of_one_rank(input=data, indices=indices, output=out[0]),
        input_dimension_count=len(data.shape),
        indices_dimension_count=len(indices.shape),
        batch_dimension_count=batch_dims,
    )


def _scatter_elements(
    out: Outputs, *, data: Tensor, indices: Tensor, updates: Tensor, axis: int, reduction: str = "none"
) -> Desc:
    _without_reduction(reduction)
    padded = _descs_of_one_rank(input=data, indices=indices, updates=updates, output=out[0])
    return ScatterElementsDesc(**padded, axis=_axis(axis, data, padded["input"]))


def _scatter_nd(out: Outputs, *, data: Tensor, indices: Tensor, updates: Tensor, reduction: str = "none") -> Desc:
    _without_reduction(reduction)
    return ScatterNDDesc(
        **_descs_of_one_rank(input=data, indices=indices, updates=updates, output=out[0]),
        input_dimension_count=len(data.shape),
        indices_dimension_count=len(indices.shape),
    )


def _without_reduction(reduction: str) -> None:
    if reduction != "none":
        raise OnnxError(f"reduction must be none in DirectML, but it is {reduction}")


def _blocks(cls: Callable[..., Desc]) -> Callable[..., Desc]:
    def make(out: Outputs, *, input: Tensor, blocksize: int, mode: str = "DCR") -> Desc:
        return cls(**_descs_of_one_rank(input=input, output=out[0]), block_size=blocksize, order=ORDERS[order_of(mode)])

    return make


def _copy(out: Outputs, *, data: Any = None, input: Any = None, **rest: Any) -> Desc:
    """Describes a node that keeps all elements in order and changes the sizes at most."""
    output = _tensor(out[0])
    return ElementWiseIdentityDesc(output, output)


def _transpose(out: Outputs, *, data: Tensor, perm: Any = None) -> Desc:
    order = range(len(data.shape))[::-1] if perm is None else perm
    output, strides = _tensor(out[0]), packed_strides(data.shape)
    return ElementWiseIdentityDesc(
        TensorDesc(output.data_type, output.sizes, [strides[d] for d in order] or [1]), output
    )


def _expand(out: Outputs, *, input: Tensor, **rest: Any) -> Desc:
    return ElementWiseIdentityDesc(_broadcast(input, out[0].shape), _tensor(out[0]))


def _where(out: Outputs, *, condition: Tensor, x: Tensor, y: Tensor) -> Desc:
    chosen, a, b = (_broadcast(tensor, out[0].shape) for tensor in (condition, x, y))
    return ElementWiseIfDesc(chosen, a, b, _tensor(out[0]))


def _cast(out: Outputs, *, input: Tensor, **rest: Any) -> Desc:
    if out[0].dtype == bool != input.dtype:
        raise OnnxError("the target must not be bool, because DirectML casts to it as to a byte, but it is")
    return CastDesc(_tensor(input), _tensor(out[0]))


def _concat(out: Outputs, *, inputs: Sequence[Tensor], axis: int = 1) -> Desc:
    return JoinDesc(tuple(map(_tensor, inputs)), _tensor(out[0]), axis_of("axis", axis, len(out[0].shape)))


def _split(out: Outputs, *, input: Tensor, axis: int = 0, **asked: Any) -> Desc:
    along = axis_of("axis", axis, len(input.shape))
    before, after = input.shape[:along], input.shape[along + 1 :]
    parts = (_tensor(input, shape=(*before, n, *after)) for n in lengths_of(input.shape[along], **asked))
    return SplitDesc(_tensor(input), tuple(parts), along)


def _slice(out: Outputs, *, data: Tensor, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Desc:
    input, output = _tensor(data), _tensor(out[0])
    windows = windows_of(data.shape, parts_of(data.shape, starts, ends, axes, steps))
    assert windows  # because the output has elements
    return Slice1Desc(input, output, *windows)


def _tile(out: Outputs, *, input: Tensor, **rest: Any) -> Desc:
    before, after = _tensor(input), _tensor(out[0])
    return TileDesc(before, after, tuple(m // n for n, m in zip(before.sizes, after.sizes, strict=True)))


def _pad(out: Outputs, *, data: Tensor, pads: Any, mode: str, constant_value: Any = None, axes: Any = None) -> Desc:
    if not isinstance(constant_value, (np.ndarray, type(None))):
        raise OnnxError("constant_value must be known in DirectML, but it depends on the data of an input")
    low, high = borders_of(data.shape, pads, mode, axes)
    if min(*low, *high, 0) < 0:
        raise OnnxError(f"pads must be at least 0 in DirectML, but they are {low} and {high}")
    before, after = _tensor(data), _tensor(out[0])
    value = 0 if constant_value is None else _number(constant_value, before)
    return Padding1Desc(before, after, PAD_MODES[mode].upper(), before.data_type, value, low or [0], high or [0])


def _pad_by_attributes(
    out: Outputs, *, data: Tensor, value: float = 0.0, pads: Any = None, paddings: Any = None, mode: str
) -> Desc:
    given = pads if paddings is None else paddings
    return _pad(out, data=data, pads=given, mode=mode, constant_value=np.asarray(value, data.dtype))


def _reverse(out: Outputs, *, input: Tensor, sequence_lens: Tensor, batch_axis: int, time_axis: int) -> Desc:
    shape, wanted, time = lengths_among(input.shape, sequence_lens.shape, batch_axis, time_axis)
    lengths = jax.ShapeDtypeStruct(shape, sequence_lens.dtype)
    repeated = _broadcast(lengths, wanted, _unsigned_type(sequence_lens.dtype))
    return ReverseSubsequencesDesc(_tensor(input), repeated, _tensor(out[0]), time)


def _one_hot(out: Outputs, *, indices: Tensor, depth: Any, values: Tensor, axis: int) -> Desc:
    output = _tensor(out[0])
    along = axis_of("axis", axis, len(output.sizes))
    rows = (*output.sizes[:along], 1, *output.sizes[along + 1 :])
    return OneHotDesc(_tensor(indices, shape=rows), _tensor(values, len(rows)), output, along)


def _top_k(out: Outputs, *, x: Tensor, axis: int, largest: int = 1, **rest: Any) -> Desc:
    along = axis_of("axis", axis, len(x.shape))
    sizes = next(tensor.shape for tensor in out if tensor is not None)
    return TopK1Desc(
        _tensor(x),
        _tensor(x, shape=sizes),
        _tensor(x, shape=sizes, dtype=np.uint64),
        along,
        sizes[along],
        "DECREASING" if largest else "INCREASING",
    )


def _non_zero(out: Outputs, *, x: Tensor) -> Desc:
    input = _tensor(x, 2)
    ones = (1,) * len(input.sizes)
    coordinates = (*ones[2:], prod(input.sizes), max(1, len(x.shape)))
    return NonzeroCoordinatesDesc(input, TensorDesc("UINT32", ones), TensorDesc("UINT32", coordinates))


def _max_unpool(
    out: Outputs,
    *,
    x: Tensor,
    i: Tensor,
    kernel_shape: Any,
    pads: Any = None,
    strides: Any = None,
    output_shape: Any = None,
) -> Desc:
    sizes = unpooled_sizes(x.shape, kernel_shape, pads, strides)
    if list(out[0].shape) != sizes:
        raise OnnxError(f"output_shape must be {sizes}, whose elements the indices count, but it is {out[0].shape}")
    return MaxUnpoolingDesc(_tensor(x), _tensor(i, dtype=_unsigned_type(i.dtype)), _tensor(out[0]))


def _eye_like(out: Outputs, *, k: int = 0, **rest: Any) -> Desc:
    output = _tensor(out[0])
    return DiagonalMatrix1Desc(None, output, output.data_type, 1, k, k + 1)


def _trilu(out: Outputs, *, input: Tensor, k: Any = None, upper: int = 1) -> Desc:
    output = _tensor(out[0])
    return DiagonalMatrix1Desc(_tensor(input), output, output.data_type, 0, *diagonals_of(input.shape, k, upper))


def _constant_of_shape(out: Outputs, *, value: Any = None, **rest: Any) -> Desc:
    output = _tensor(out[0])
    return FillValueConstantDesc(output, output.data_type, 0 if value is None else _number(value, output))


def _range(out: Outputs, *, start: Any, limit: Any, delta: Any, **rest: Any) -> Desc:
    output, (_, *numbers) = _tensor(out[0]), range_of(start, limit, delta)
    return FillValueSequenceDesc(output, output.data_type, *(_number(number, output) for number in numbers))


def _accumulation(cls: Callable[..., Desc]) -> Callable[..., Desc]:
    def make(out: Outputs, *, x: Tensor, axis: Any, exclusive: int = 0, reverse: int = 0) -> Desc:
        along = axis_of("axis", number_of("axis", axis), len(x.shape))
        return cls(_tensor(x), _tensor(out[0]), along, "DECREASING" if reverse else "INCREASING", bool(exclusive))

    return make


def _col2im(out: Outputs, *, input: Tensor, image_shape: Any, block_shape: Any, **attributes: Any) -> Desc:
    windows = tuple(known_ints("block_shape", block_shape))
    return FoldDesc(_tensor(input), _tensor(out[0]), window_sizes=windows, **sliding(len(windows), **attributes))


def _resize(
    out: Outputs,
    *,
    x: Tensor,
    mode: str,
    nearest_mode: str,
    coordinate_transformation_mode: str,
    keep_aspect_ratio_policy: str = "stretch",
    exclude_outside: int = 0,
    antialias: int = 0,
    cubic_coeff_a: float = 0.0,
    extrapolation_value: float = 0.0,
    **asked: Any,
) -> Desc:
    law = coordinate_transformation_mode
    grid = grid_of(x.shape, law, keep_aspect_ratio_policy, **asked)
    if mode == "cubic":
        raise OnnxError("DirectML has no cubic resampling; `dml-jax run` and `to_jax` do it")
    for is_asked, rule in (
        (exclude_outside and mode != "nearest", "exclude_outside must be 0"),
        (antialias and mode != "nearest" and min(grid.asked, default=1) < 1, "antialias must be 0 where sizes shrink"),
        (law == CROP and grid.outside(x.shape).any(), "roi must lie in x"),
    ):
        if is_asked:
            raise OnnxError(f"in DirectML {rule}, but this node asks for more, which `dml-jax run` and `to_jax` do")
    nearest = NEAREST[nearest_mode if mode == "nearest" else "ceil"]
    return _describe_resample(x, out[0], grid, mode, nearest.rounding, float(nearest.more))


def _resize_by_scales(out: Outputs, *, x: Tensor, scales: Any, mode: str) -> Desc:
    grid = grid_of(x.shape, "asymmetric", scales=np.asarray(scales, np.float32))
    shrinks, grows = min(grid.asked, default=1) < 1, max(grid.asked, default=1) > 1
    if mode == "nearest" and shrinks and grows:
        raise OnnxError(f"scales must not both shrink and enlarge in DirectML, but they are {grid.asked}")
    return _describe_resample(x, out[0], grid, mode, "increasing" if shrinks else "decreasing", 0.0)


def _upsample_2d(out: Outputs, *, x: Tensor, height_scale: float, width_scale: float, mode: str) -> Desc:
    return _resize_by_scales(out, x=x, scales=[1.0, 1.0, height_scale, width_scale], mode=mode)


def _describe_resample(x: Tensor, y: Tensor, grid: Grid, mode: str, rounding: str, more: float) -> Desc:
    """Describes a resampling; sizes that stay 1 are dropped if there are more dimensions than DirectML takes."""
    every = range(len(x.shape))
    kept = [d for d in every if (x.shape[d], grid.sizes[d]) != (1, 1)] if len(every) > 4 else list(every)
    return Resample2Desc(
        _tensor(x, shape=[x.shape[d] for d in kept]),
        _tensor(y, shape=[grid.sizes[d] for d in kept]),
        "NEAREST_NEIGHBOR" if mode == "nearest" else "LINEAR",
        rounding.upper(),
        [min(float(grid.scales[d]), float(np.finfo(np.float32).max)) for d in kept],
        [float(grid.before[d]) + more for d in kept],
        [float(grid.after[d]) for d in kept],
    )


# Nodes that make an array of what is known: they have a descriptor although their outputs are constants.
MAKERS = {"ConstantOfShape", "EyeLike", "Range"}

# By the function that computes the node, because an older version of the operator may have another one.
DESC_OF: Mapping[Callable[..., Any], Callable[..., Desc]] = {
    data_movement.gather: _gather,
    data_movement.gather_elements: _gather_elements,
    data_movement.gather_nd: _gather_nd,
    data_movement.scatter_elements: _scatter_elements,
    data_movement.scatter_nd: _scatter_nd,
    data_movement.depth_to_space: _blocks(DepthToSpace1Desc),
    data_movement.space_to_depth: _blocks(SpaceToDepth1Desc),
    data_movement.col2im: _col2im,
    data_movement.cum_prod: _accumulation(CumulativeProductDesc),
    data_movement.cum_sum: _accumulation(CumulativeSummationDesc),
    data_movement.eye_like: _eye_like,
    data_movement.max_unpool: _max_unpool,
    data_movement.non_zero: _non_zero,
    data_movement.one_hot: _one_hot,
    data_movement.reverse_sequence: _reverse,
    data_movement.top_k: _top_k,
    data_movement.trilu: _trilu,
    resize.resize: _resize,
    resize.resize_by_scales: _resize_by_scales,
    resize.upsample_2d: _upsample_2d,
    cast.cast: _cast,
    cast.cast_like: _cast,
    cast.cast_to_named: _cast,
    layout.concat: _concat,
    layout.constant_of_shape: _constant_of_shape,
    layout.expand: _expand,
    layout.flatten: _copy,
    layout.identity: _copy,
    layout.pad: _pad,
    layout.pad_by_attributes: _pad_by_attributes,
    layout.pad_by_paddings: _pad_by_attributes,
    layout.range_: _range,
    layout.reshape: _copy,
    layout.slice_: _slice,
    layout.split: _split,
    layout.squeeze: _copy,
    layout.tile: _tile,
    layout.tile_along: _tile,
    layout.transpose: _transpose,
    layout.unsqueeze: _copy,
    layout.where: _where,
}
