"""ONNX's GridSample, by `dml_jax.grid_sample`."""

import jax

from ..errors import ConstraintError
from ..operators import grid_sample as dml_grid_sample
from .values import Array, Operators, on_device

# Names of opset 16, and of 20 and later.
_MODES = {"bilinear": "bilinear", "bicubic": "bicubic", "linear": "bilinear", "cubic": "bicubic", "nearest": "nearest"}


def grid_sample(
    *, x: Array, grid: Array, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> jax.Array:
    if mode not in _MODES:
        raise ConstraintError(f"mode must be one of {', '.join(_MODES)}, but it is {mode!r}")
    return dml_grid_sample(
        on_device(x),
        on_device(grid),
        mode=_MODES[mode],  # type: ignore[arg-type]
        padding_mode=padding_mode,  # type: ignore[arg-type]
        align_corners=bool(align_corners),
    )


OPERATORS: Operators = {"GridSample": {16: grid_sample}}
