"""`run_node`: one node of ONNX, run as the model that it alone is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import onnx

from ..errors import escaped
from .errors import OnnxError
from .function import to_jax
from .schemas import MICROSOFT

__all__ = ["run_node"]


def run_node(node: onnx.NodeProto, inputs: Sequence[Any], *, opset: int | None = None) -> tuple[jax.Array, ...]:
    """Runs one node.

    Args:
      node: of an operator that `to_jax` takes.
      inputs: an array for each input that is not left out, in order.
      opset: the version of ONNX's operators; the newest that the installed onnx knows by default.

    Returns:
      One array per output that is not left out.

    Raises:
      OnnxError: the operator is not supported, or the node breaks ONNX's rules.
      DataTypeError: 64-bit data while x64 is off.

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
    infos = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(x.dtype)), None)
        for name, x in dict(zip(given, inputs, strict=True)).items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    version = opset or onnx.defs.onnx_opset_version()
    graph = onnx.helper.make_graph([node], node.op_type, infos, outputs)
    imports = [onnx.helper.make_opsetid("", version), onnx.helper.make_opsetid(MICROSOFT, 1)]
    function = to_jax(onnx.helper.make_model(graph, opset_imports=imports))
    named = dict(zip(given, inputs, strict=True))
    results = function(*(named[spec.name] for spec in function.inputs))
    return results if isinstance(results, tuple) else (results,)
