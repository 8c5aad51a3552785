"""`compile_operator`: a descriptor as an executable on flat buffers, as IDMLDevice::CompileOperator gives one."""

from typing import Any

import jax

from .descriptors.operator import OperatorDesc
from .errors import ConstraintError, message

__all__ = ["CompiledOperator", "compile_operator"]


def compile_operator(desc: OperatorDesc) -> "CompiledOperator":
    """Compiles an operator for flat buffers.

    Args:
      desc: a descriptor whose tensors are all packed.

    Returns:
      A `CompiledOperator`.

    Raises:
      NotImplementedError: a tensor has strides that are not the packed row-major ones.

    Example:
      >>> import numpy as np
      >>> from dml_jax import SpaceToDepthDesc, TensorDesc, compile_operator
      >>> desc = SpaceToDepthDesc(TensorDesc("UINT8", (1, 1, 2, 4)), TensorDesc("UINT8", (1, 4, 1, 2)), 2)
      >>> print(compile_operator(desc)(np.arange(8, dtype=np.uint8)))
      [0 2 1 3 4 6 5 7]

    Source: IDMLDevice::CompileOperator. Executing strided tensors is not supported yet.
    """
    strided = [name for name in desc.tensor_names() if not getattr(desc, name).is_packed]
    if strided:
        field = desc.directml_names()[strided[0]]
        rule = f"{field}.Strides must be packed or null to be executed; other strides are not supported yet"
        fact = f"they are {getattr(desc, strided[0]).strides}"
        names = desc.directml_names()
        shown = {names[name]: value for name, value in desc.operands().items()}
        raise NotImplementedError(message(desc.operator_type, rule, fact, shown))
    return CompiledOperator(desc)


class CompiledOperator:
    """An operator on flat buffers: call it with one 1-D array per input, in DirectML's order.

    Each has the data type of its tensor and at least as many elements; what lies beyond is not read. The result is a
    1-D array of the output's elements.

    Raises:
      ConstraintError: another number of buffers, or one that is too short or not 1-D.
      DataTypeError: another data type, or 64-bit data while x64 is off.
    """

    def __init__(self, desc: OperatorDesc):
        self.desc = desc
        self._run = jax.jit(self._flat)

    def __call__(self, *buffers: Any) -> jax.Array:
        return self._run(*(self._as_buffer(*pair) for pair in self.desc.paired(buffers)))

    def _as_buffer(self, name: str, value: Any) -> jax.Array:
        array, span = self.desc.as_array(name, value), getattr(self.desc, name).element_span
        if array.ndim != 1 or array.size < span:
            field = self.desc.directml_names()[name]
            rule = f"the buffer of {field} must be 1-D with at least {span} elements"
            raise ConstraintError(message(self.desc.operator_type, rule, f"its shape is {array.shape}", {field: array}))
        return array

    def _flat(self, *buffers: jax.Array) -> jax.Array:
        tensors = [getattr(self.desc, name) for name in self.desc.input_names()]
        views = [b[: t.element_span].reshape(t.sizes) for b, t in zip(buffers, tensors, strict=True)]
        return self.desc.compute_checked(*views).ravel()
