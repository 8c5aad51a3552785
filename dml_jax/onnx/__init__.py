"""ONNX models as JAX functions, as DirectML descriptors, and as a backend for ONNX's test runner."""

try:
    import onnx as _onnx  # noqa: F401  # absolute: the package of ONNX
except ImportError as _error:
    raise ImportError("dml_jax.onnx needs onnx; install it in a clone: pip install '.[onnx]'", name="onnx") from _error

from .backend import Backend
from .errors import NotConstantError, OnnxError, UnsupportedError
from .function import OnnxFunction, to_jax
from .model_descs import to_descs
from .single_node import run_node

__all__ = [
    "Backend",
    "NotConstantError",
    "OnnxError",
    "OnnxFunction",
    "UnsupportedError",
    "run_node",
    "to_descs",
    "to_jax",
]
