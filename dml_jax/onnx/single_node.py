"""`run_node`: runs a single ONNX node as a model of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import onnx

from ..errors import DataTypeError, escaped
from .contrib_schemas import MICROSOFT
from .errors import OnnxError
from .function import to_jax
from .values import as_tuple


def run_node(
    node: onnx.NodeProto, inputs: Sequence[Any], *, opset: int | None = None, key: Any = None
) -> tuple[jax.Array, ...]:
    """Runs one node.

    Args:
      node: of an operator that `to_jax` takes.
      inputs: an array for each input that is not left out, in order; a list of arrays, at least one, for a sequence.
      opset: the version of ONNX's operators; the newest that the installed onnx knows by default.
      key: of `jax.random`, for a node that draws random numbers and has no `seed`.

    Returns:
      One array per output that is not left out; a list of arrays for a sequence.

    Raises:
      OnnxError: the operator is not supported, or the node breaks ONNX's rules.
      DataTypeError: no arrays, or 64-bit data while x64 is off.

    Example:
      >>> import numpy as np
      >>> from onnx import helper
      >>> from dml_jax.onnx import run_node
      >>> run_node(helper.make_node("Gather", ["x", "i"], ["y"], axis=0), [np.float32([1, 2, 3]), np.array(-1)])
      (Array(3., dtype=float32),)
    """
    given = [name for name in node.input if name]
    if len(inputs) != len(given):
        names = ", ".join(map(escaped, given)) or "none"
        raise OnnxError(f"{escaped(node.op_type)}: the inputs must be {names}, but there are {len(inputs)}")
    infos = [_declare(name, value) for name, value in dict(zip(given, inputs, strict=True)).items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    version = opset or onnx.defs.onnx_opset_version()
    graph = onnx.helper.make_graph([node], node.op_type, infos, outputs)
    imports = [onnx.helper.make_opsetid("", version), onnx.helper.make_opsetid(MICROSOFT, 1)]
    function = to_jax(onnx.helper.make_model(graph, opset_imports=imports))
    named = dict(zip(given, inputs, strict=True))
    results = function(*(named[spec.name] for spec in function.inputs), key=key)
    return as_tuple(results)


def _declare(name: str, value: Any) -> onnx.ValueInfoProto:
    is_sequence = isinstance(value, (list, tuple))
    array: Any = value[0] if is_sequence and value else value
    if not hasattr(array, "dtype"):
        fact = "it has no elements" if is_sequence and not value else f"it is {type(array).__name__}"
        raise DataTypeError(f"input {name!r}: it must be an array, or a list of arrays for a sequence, but {fact}")
    make = onnx.helper.make_tensor_sequence_value_info if is_sequence else onnx.helper.make_tensor_value_info
    return make(name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(array.dtype)), None)
