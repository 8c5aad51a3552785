"""Operators that ONNX removed by opset 10: Affine, Crop, ImageScaler, ParametricSoftplus, ScaledTanh."""

from typing import Any

import jax
import numpy as np

from ..errors import ConstraintError
from ..operations.values.accumulation_types import wide_type
from .activations import activation
from .contrib_schemas import optional, required, schema
from .values import Array, Operators, arrays, on_device

REMOVED = 10  # the opset that has none of these


def crop(*, input: Array, border: Any, scale: Any = None) -> Array:
    """Crops left, top, right and bottom borders; with `scale`, to a height and a width."""
    if input.ndim != 4 or len(border) != 4 or min(border) < 0:
        rule = "input must have 4 dimensions, and border be 4 numbers of at least 0"
        raise ConstraintError(f"{rule}, but the shape is {input.shape}, and border is {border}")
    left, top, right, bottom = border
    height, width = input.shape[2:]
    if scale is not None and len(scale) != 2:
        raise ConstraintError(f"scale must be a height and a width, but it is {scale}")
    ends = (height - bottom, width - right) if scale is None else (top + scale[0], left + scale[1])
    if not (top <= ends[0] <= height and left <= ends[1] <= width):
        rule = "what remains must lie in the picture"
        raise ConstraintError(f"{rule}, but of {height, width} it has [{top}:{ends[0]}, {left}:{ends[1]}]")
    return arrays(input)[1][:, :, top : ends[0], left : ends[1]]


def image_scaler(*, input: Array, bias: Any, scale: float = 1.0) -> jax.Array:
    """ImageScaler: input * scale + bias, with a bias per channel; rounded once."""
    if input.ndim != 4 or len(bias) != input.shape[1]:
        rule = "input must have 4 dimensions, and bias a number for each channel"
        raise ConstraintError(f"{rule}, but the shape is {input.shape}, and bias has {len(bias)}")
    wide = wide_type(input.dtype)
    scaled = on_device(input).astype(wide) * np.asarray(scale, wide)
    return (scaled + np.asarray(bias, wide).reshape(1, -1, 1, 1)).astype(input.dtype)


OPERATORS: Operators = {
    "Affine": {1: activation("LINEAR", "alpha", "beta")},
    "Crop": {1: crop},
    "ImageScaler": {1: image_scaler},
    "ParametricSoftplus": {1: activation("PARAMETRIC_SOFTPLUS", "alpha", "beta")},
    "ScaledTanh": {1: activation("SCALED_TANH", "alpha", "beta")},
}
_FLOATS = "float16 float double"
_BOTH = {"alpha": required("FLOAT"), "beta": required("FLOAT")}
SCHEMAS = (
    schema("Affine", "X T", "Y T", {"alpha": 1.0, "beta": 0.0}, domain="", T=_FLOATS),
    schema(
        "Crop", "input T", "output T", {"border": required("INTS"), "scale": optional("INTS")}, domain="", T=_FLOATS
    ),
    schema("ImageScaler", "input T", "output T", {"bias": required("FLOATS"), "scale": 1.0}, domain="", T=_FLOATS),
    schema("ParametricSoftplus", "X T", "Y T", _BOTH, domain="", T=_FLOATS),
    schema("ScaledTanh", "input T", "output T", _BOTH, domain="", T=_FLOATS),
)
