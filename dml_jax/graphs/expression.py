"""`Expression`: a tensor of a graph under construction, with Python's operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Union

import numpy as np

from ..core.arguments.static_values import as_ints
from ..core.tensors.data_type import DataType, DataTypeLike
from ..core.tensors.tensor_desc import TensorDesc, implied_bytes
from ..errors import ConstraintError, DataTypeError, describe, message
from .broadcast import broadcast, element_of, is_float32
from .nodes_and_edges import Port

# A tensor, or what is to be said of one: its data type, its sizes, or both.
TensorLike = TensorDesc | DataTypeLike | Sequence[int] | tuple[DataTypeLike, Sequence[int]]

# The operators of Python: what stands on the other side, and what they add to the graph.
Operand = Union["Expression", float, np.integer[Any], np.floating[Any]]
Unary = Callable[["Expression"], "Expression"]
Binary = Callable[["Expression", Operand], "Expression"]
# Adds what DirectMLX adds where one operand is a number: of `x + 3` an IDENTITY with a ScaleBias.
OfNumber = Callable[["Expression", Any], "Expression"]


def _unary(operator: str) -> Unary:
    def apply(self: Expression) -> Expression:
        return getattr(self.graph, operator)(self)

    return _named(apply, operator)


def _binary(
    operator: str, number: OfNumber | None = None, *, reflected: bool = False, kept: int = 0, **fields: Any
) -> Binary:
    """The Python operator of one of DirectML's.

    Args:
      operator: the method of `GraphBuilder`.
      number: what is added where the other operand is a number; None where that becomes a constant.
      reflected: whether the other operand stands on the left.
      kept: how many of the last sizes are not broadcast.
      fields: what else the method is given.
    """
    name = operator.upper()

    def apply(self: Expression, other: Operand) -> Expression:
        element = None if isinstance(other, Expression) else element_of(name, self.tensor, other)
        if number is not None and element is not None and is_float32(element):
            return number(self, other)
        with self.graph._undone_if_refused():
            two: Any = other if element is None else self.graph.constant(np.asarray(element))
            pair = (two, self) if reflected else (self, two)
            tensors = broadcast(name, [expression.tensor for expression in pair], kept)
            operands = [replace(expression, tensor=tensor) for expression, tensor in zip(pair, tensors, strict=True)]
            return getattr(self.graph, operator)(*operands, **fields)

    return _named(apply, operator)


def _named(apply: Any, operator: str) -> Any:
    apply.__name__, apply.__doc__ = operator, f"Adds {operator.upper()} to the graph."
    return apply


def _scaled(scale: Callable[[Any], float], bias: Callable[[Any], float]) -> OfNumber:
    return lambda x, n: x.graph.element_wise_identity(x, scale_bias=(scale(n), bias(n)))


def _to_the_power(x: Expression, exponent: Any) -> Expression:
    return x.graph.element_wise_constant_pow(x, scale_bias=None, exponent=exponent)


_PLUS, _TIMES = _scaled(lambda n: 1, lambda n: n), _scaled(lambda n: n, lambda n: 0)
_MINUS, _FROM = _scaled(lambda n: 1, lambda n: -n), _scaled(lambda n: -1, lambda n: n)


class Arithmetic:
    """Python's operators on expressions; each adds an operator to the graph."""

    # Arrays of NumPy leave an operator to the expression, which refuses them.
    __array_ufunc__: ClassVar[None] = None

    __add__: ClassVar[Binary] = _binary("element_wise_add", _PLUS)
    __radd__: ClassVar[Binary] = _binary("element_wise_add", _PLUS, reflected=True)
    __sub__: ClassVar[Binary] = _binary("element_wise_subtract", _MINUS)
    __rsub__: ClassVar[Binary] = _binary("element_wise_subtract", _FROM, reflected=True)
    __mul__: ClassVar[Binary] = _binary("element_wise_multiply", _TIMES)
    __rmul__: ClassVar[Binary] = _binary("element_wise_multiply", _TIMES, reflected=True)
    __truediv__: ClassVar[Binary] = _binary("element_wise_divide")
    __rtruediv__: ClassVar[Binary] = _binary("element_wise_divide", reflected=True)
    __mod__: ClassVar[Binary] = _binary("element_wise_modulus_truncate")
    __rmod__: ClassVar[Binary] = _binary("element_wise_modulus_truncate", reflected=True)
    __pow__: ClassVar[Binary] = _binary("element_wise_pow", _to_the_power)
    __rpow__: ClassVar[Binary] = _binary("element_wise_pow", reflected=True)
    __and__: ClassVar[Binary] = _binary("element_wise_bit_and")
    __rand__: ClassVar[Binary] = _binary("element_wise_bit_and", reflected=True)
    __or__: ClassVar[Binary] = _binary("element_wise_bit_or")
    __ror__: ClassVar[Binary] = _binary("element_wise_bit_or", reflected=True)
    __xor__: ClassVar[Binary] = _binary("element_wise_bit_xor")
    __rxor__: ClassVar[Binary] = _binary("element_wise_bit_xor", reflected=True)
    __lshift__: ClassVar[Binary] = _binary("element_wise_bit_shift_left")
    __rlshift__: ClassVar[Binary] = _binary("element_wise_bit_shift_left", reflected=True)
    __rshift__: ClassVar[Binary] = _binary("element_wise_bit_shift_right")
    __rrshift__: ClassVar[Binary] = _binary("element_wise_bit_shift_right", reflected=True)
    __matmul__: ClassVar[Binary] = _binary("gemm", kept=2, c=None)
    __neg__: ClassVar[Unary] = _unary("element_wise_negate")
    __pos__: ClassVar[Unary] = _unary("element_wise_identity")
    __invert__: ClassVar[Unary] = _unary("element_wise_bit_not")
    __gt__: ClassVar[Binary] = _binary("element_wise_logical_greater_than")
    __ge__: ClassVar[Binary] = _binary("element_wise_logical_greater_than_or_equal")
    __lt__: ClassVar[Binary] = _binary("element_wise_logical_less_than")
    __le__: ClassVar[Binary] = _binary("element_wise_logical_less_than_or_equal")
    equals: ClassVar[Binary] = _binary("element_wise_logical_equals")

    def __bool__(self) -> bool:
        rule = "a tensor has no truth value while its graph is written"
        hint = "choose elements with graph.element_wise_if, and compare twice instead of 0 < x < 1"
        raise DataTypeError(message("GraphBuilder", rule, f"Python asks for one: {hint}", {"expression": self}))


@dataclass(frozen=True, eq=False, repr=False)
class Expression(Arithmetic):
    """A tensor of a graph that a `GraphBuilder` writes: an input, a constant, or what an operator makes.

    Python's operators add DirectML's: `x * w + b`, `-x`, `x > 0`, `x @ w`. Their sizes are broadcast as NumPy's are, by
    strides of 0. A number on either side has the data type of the expression. Comparisons give UINT8; `==` tells, as
    ever, whether both are the same object, and `x.equals(y)` adds LOGICAL_EQUALS.

    Args:
      graph: the `GraphBuilder` that made it, whose methods take it.
      source: where it comes from: the name of an input of the graph, or ("pick", "output") for a tensor of a node.
      tensor: what it is read as.
      shown: what messages call the source.

    Example:
      >>> from dml_jax import GraphBuilder, TensorDesc
      >>> graph = GraphBuilder()
      >>> x = graph.input("x", TensorDesc("FLOAT32", (1, 4, 8, 8)))
      >>> graph.depth_to_space(x, block_size=2)
      Expression(FLOAT32[1,1,16,16] of 'depth_to_space_0'.OutputTensor)

    Source: dml::Expression of DirectMLX.
    """

    graph: Any
    source: Port
    tensor: TensorDesc
    shown: str

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the tensor."""
        return self.tensor.sizes

    @property
    def data_type(self) -> DataType:
        """The data type of the tensor."""
        return self.tensor.data_type

    def __repr__(self) -> str:
        return f"Expression({self.tensor.describe()} of {self.shown})"


def read_tensor(given: Any) -> TensorDesc | tuple[DataType | None, tuple[int, ...] | None]:
    """Reads a TensorDesc, or a data type, sizes, or both as (data type, sizes); a part that is left open is None.

    Raises:
      DataTypeError: neither.
    """
    if given is None or isinstance(given, TensorDesc):
        return (None, None) if given is None else given
    if not isinstance(given, Sequence | np.ndarray) or isinstance(given, str):
        return DataType.of(given), None
    if len(given) == 2 and isinstance(given[1], Sequence | np.ndarray):
        return DataType.of(given[0]), as_ints("TENSOR", "Sizes", given[1])
    return None, as_ints("TENSOR", "Sizes", given)


def whole_tensor(given: Any, place: str) -> TensorDesc:
    """Reads a tensor that needs both data type and sizes; `place` names it in errors.

    Raises:
      DataTypeError: no tensor, or the data type or the sizes alone.
    """
    try:
        tensor = read_tensor(given)
        if isinstance(tensor, TensorDesc):
            return tensor
        if tensor[0] is not None and tensor[1] is not None:
            return TensorDesc(tensor[0], tensor[1])
    except ConstraintError as error:
        raise error.at(place) from None
    rule, fact = "tensor must be a TensorDesc, or (data type, sizes)", f"it is {describe(given)}"
    raise DataTypeError(message("GraphBuilder", rule, fact, {"tensor": given})).at(place)


def seen_as(tensor: TensorDesc, given: Any, strides: Sequence[int] | None) -> TensorDesc:
    """Returns the tensor that reads the bytes of another one; both share the buffer, and so the flag OWNED_BY_DML.

    Raises:
      ConstraintError: another TotalTensorSizeInBytes, strides beside a TensorDesc, or a tensor that is owned alone.
    """
    other = read_tensor(given)
    seen = other if isinstance(other, TensorDesc) else _completed(tensor, *other, strides)
    operands = {"expression": tensor, "tensor": seen, "strides": strides}
    if seen is other and strides is not None:
        rule, fact = "strides must stand in the TensorDesc, where one is given", f"they are {strides}"
        raise ConstraintError(message("reinterpret", rule, fact, operands))
    if seen.flags and not tensor.flags:
        rule = "a tensor is OWNED_BY_DML only where the input of the graph is"
        raise ConstraintError(message("reinterpret", rule, "the expression is not", operands))
    sizes = tensor.total_tensor_size_in_bytes, seen.total_tensor_size_in_bytes
    if sizes[0] != sizes[1]:
        rule, fact = "both tensors must have the same TotalTensorSizeInBytes", f"they have {sizes[0]} and {sizes[1]}"
        raise ConstraintError(message("reinterpret", rule, fact, operands))
    return replace(seen, flags=tensor.flags)


def _completed(
    tensor: TensorDesc, data_type: DataType | None, sizes: Sequence[int] | None, strides: Sequence[int] | None
) -> TensorDesc:
    """Fills in the rest from the tensor: strides only with the sizes, and unused bytes at the end of the buffer."""
    data_type = tensor.data_type if data_type is None else data_type
    if sizes is None:
        sizes, strides = tensor.sizes, tensor.strides if strides is None else strides
    seen = TensorDesc(data_type, sizes, strides)
    if seen.total_tensor_size_in_bytes == implied_bytes(tensor.sizes, tensor.strides, tensor.data_type):
        return replace(seen, total_tensor_size_in_bytes=tensor.total_tensor_size_in_bytes)
    return seen
