"""The Gelus that ONNX Runtime adds to ONNX's own."""

from .activations import activation
from .schemas import schema
from .values import Operators

__all__ = ["OPERATORS", "SCHEMAS"]

OPERATORS: Operators = {"com.microsoft::QuickGelu": {1: activation("SWISH", "alpha")}}
SCHEMAS = (schema("QuickGelu", "X T", "Y T", {"alpha": 1.702}, T="bfloat16 float16 float double"),)
