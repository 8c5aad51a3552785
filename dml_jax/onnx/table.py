"""The operators that are done, each with its function by the first version of ONNX's that it serves."""

from collections.abc import Callable, Mapping
from typing import Any

from . import arithmetic, casting, movement, resizing
from . import arrange as layout

__all__ = ["ONNX_OPERATORS"]


ONNX_OPERATORS: Mapping[str, Mapping[int, Callable[..., Any]]] = {
    # Data movement, by the functions of this library.
    "Gather": {1: movement.gather},
    "GatherElements": {11: movement.gather_elements},
    "GatherND": {11: movement.gather_nd},
    "Scatter": {9: movement.scatter_elements},
    "ScatterElements": {11: movement.scatter_elements},
    "ScatterND": {11: movement.scatter_nd},
    "DepthToSpace": {1: movement.depth_to_space},
    "SpaceToDepth": {1: movement.space_to_depth},
    "Col2Im": {18: movement.col2im},
    "CumProd": {26: movement.cum_prod},
    "CumSum": {11: movement.cum_sum},
    "EyeLike": {9: movement.eye_like},
    "MaxUnpool": {9: movement.max_unpool},
    "NonZero": {9: movement.non_zero},
    "OneHot": {9: movement.one_hot},
    "Resize": {10: resizing.resize_by_scales, 11: resizing.resize},
    "ReverseSequence": {10: movement.reverse_sequence},
    "TopK": {1: movement.top_k},
    "Trilu": {14: movement.trilu},
    "Upsample": {1: resizing.upsample_2d, 7: resizing.resize_by_scales},
    # Layout.
    "Cast": {1: casting.cast_to_named, 6: casting.cast},
    "CastLike": {15: casting.cast_like},
    "Concat": {1: layout.concat},
    "Constant": {1: layout.constant},
    "ConstantOfShape": {9: layout.constant_of_shape},
    "Expand": {8: layout.expand},
    "Flatten": {1: layout.flatten},
    "Identity": {1: layout.identity},
    "Pad": {1: layout.pad_by_paddings, 2: layout.pad_by_attributes, 11: layout.pad},
    "Range": {11: layout.range_},
    "Reshape": {1: layout.reshape},
    "Shape": {1: layout.shape},
    "Slice": {1: layout.slice_},
    "Split": {1: layout.split},
    "Squeeze": {1: layout.squeeze},
    "Tile": {1: layout.tile_along, 6: layout.tile},
    "Transpose": {1: layout.transpose},
    "Unsqueeze": {1: layout.unsqueeze},
    "Where": {9: layout.where},
    # Arithmetic.
    "Add": {1: arithmetic.limited(arithmetic.add), 7: arithmetic.add},
    "Conv": {1: arithmetic.conv},
    "Div": {1: arithmetic.limited(arithmetic.divide), 7: arithmetic.divide},
    "Gemm": {1: arithmetic.gemm},
    "MatMul": {1: arithmetic.matmul},
    "Mul": {1: arithmetic.limited(arithmetic.multiply), 7: arithmetic.multiply},
    "Relu": {1: arithmetic.relu},
    "Sub": {1: arithmetic.limited(arithmetic.subtract), 7: arithmetic.subtract},
}
