"""Arithmetic of expressions: `x * w + b` adds DirectML's operators to the graph, as the operators of DirectMLX do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.scalar import scalar_of
from ..core.tensor import TensorDesc, packed_strides
from ..errors import ConstraintError, DataTypeError, describe, message

if TYPE_CHECKING:
    from .expression import Expression

    # What stands on the other side of an operator.
    Operand = Expression | float | np.integer[Any] | np.floating[Any]

__all__ = ["Arithmetic"]

# Adds what DirectMLX adds where one operand is a number: of `x + 3` an IDENTITY with a ScaleBias.
OfNumber = Callable[[Any, Any], "Expression"]
Unary = Callable[[Any], "Expression"]
Binary = Callable[[Any, "Operand"], "Expression"]


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

    def apply(self: Expression, other: Operand) -> Expression:
        element = None if isinstance(other, Arithmetic) else _element(operator.upper(), self, other)
        if number is not None and element is not None and _is_float32(element):
            return number(self, other)
        with self.graph._undone_if_refused():
            two: Any = other if element is None else self.graph.constant(np.asarray(element))
            pair = (two, self) if reflected else (self, two)
            return getattr(self.graph, operator)(*_broadcast(operator.upper(), pair, kept), **fields)

    return _named(apply, operator)


def _both(operator: str, number: OfNumber | None = None, reflected: OfNumber | None = None) -> tuple[Binary, Binary]:
    """The Python operators `x + y` and `2 + x`; `number` is added for `x + 2`, and `reflected` for `2 + x`."""
    return _binary(operator, number), _binary(operator, reflected, reflected=True)


def _named(apply: Any, operator: str) -> Any:
    apply.__name__, apply.__doc__ = operator, f"Adds {operator.upper()} to the graph."
    return apply


def _scaled(scale: Callable[[Any], float], bias: Callable[[Any], float]) -> OfNumber:
    return lambda x, n: x.graph.element_wise_identity(x, scale_bias=(scale(n), bias(n)))


def _element(operator: str, x: Expression, number: Any) -> np.generic:
    """A number in the type of an expression.

    Raises:
      DataTypeError: no number, or one that the type does not hold.
    """
    if isinstance(number, bool) or not isinstance(number, int | float | np.integer | np.floating):
        rule = "both operands must be expressions, or one of them a number"
        hint = "graph.constant(array) makes an expression of an array; tensors are compared by a.equals(b)"
        raise DataTypeError(message(operator, rule, f"one is {describe(number)}: {hint}", {"expression": x}))
    try:
        return scalar_of(number if isinstance(number, int | float) else number.item(), x.data_type)
    except DataTypeError as error:
        raise error.at(operator) from None


def _is_float32(element: np.generic) -> bool:
    """Whether ScaleBias and Exponent, which are FLOATs, hold a number as well as the type does."""
    is_narrow = element.dtype.kind == "f" and element.itemsize <= 4
    return is_narrow or float(np.float32(element)) == element.item()


def _broadcast(operator: str, operands: Sequence[Expression], kept: int) -> list[Expression]:
    """The operands with equal sizes, but for the last ones that are kept, as NumPy broadcasts them, by strides of 0."""
    before = [x.sizes[: max(0, len(x.sizes) - kept)] for x in operands]
    try:
        sizes = np.broadcast_shapes(*before)
    except ValueError:
        rule = f"sizes{' before the last two' if kept else ''} must be equal, or 1, or left out at the front"
        shown = {f"operand {i}": x.tensor for i, x in enumerate(operands)}
        fact = f"they are {' and '.join(map(str, before))}"
        raise ConstraintError(message(operator, rule, fact, shown)) from None
    kept_sizes = [x.sizes[len(one) :] for x, one in zip(operands, before, strict=True)]
    wanted = [(*sizes, *rest) for rest in kept_sizes]
    return [replace(x, tensor=_repeated(x.tensor, one)) for x, one in zip(operands, wanted, strict=True)]


def _repeated(tensor: TensorDesc, sizes: tuple[int, ...]) -> TensorDesc:
    """The same bytes, read again along the dimensions that are new, or were of size 1."""
    if sizes == tensor.sizes:
        return tensor
    own = tensor.strides or packed_strides(tensor.sizes)
    repeats = (n == 1 for n in tensor.sizes)
    strides = (0 if is_one else stride for is_one, stride in zip(repeats, own, strict=True))
    return replace(tensor, sizes=sizes, strides=(*(0,) * (len(sizes) - len(own)), *strides))


def _to_the_power(x: Any, exponent: Any) -> Expression:
    return x.graph.element_wise_constant_pow(x, scale_bias=None, exponent=exponent)


_PLUS, _TIMES = _scaled(lambda n: 1, lambda n: n), _scaled(lambda n: n, lambda n: 0)


class Arithmetic:
    """What Python's operators add to the graph: each line is one of them, and DirectML's operator.

    A number on either side is one of the expression's type. It becomes a ScaleBias where DirectMLX has one, and else a
    constant. Sizes are broadcast as NumPy's are. Comparisons give UINT8.
    """

    graph: Any
    # Arrays of NumPy leave the operator to the expression, which refuses them.
    __array_ufunc__ = None

    __add__, __radd__ = _both("element_wise_add", _PLUS, _PLUS)
    __sub__, __rsub__ = _both(
        "element_wise_subtract", _scaled(lambda n: 1, lambda n: -n), _scaled(lambda n: -1, lambda n: n)
    )
    __mul__, __rmul__ = _both("element_wise_multiply", _TIMES, _TIMES)
    __truediv__, __rtruediv__ = _both("element_wise_divide")
    __mod__, __rmod__ = _both("element_wise_modulus_truncate")
    __pow__, __rpow__ = _both("element_wise_pow", _to_the_power)
    __and__, __rand__ = _both("element_wise_bit_and")
    __or__, __ror__ = _both("element_wise_bit_or")
    __xor__, __rxor__ = _both("element_wise_bit_xor")
    __lshift__, __rlshift__ = _both("element_wise_bit_shift_left")
    __rshift__, __rrshift__ = _both("element_wise_bit_shift_right")
    __matmul__ = _binary("gemm", kept=2, c=None)
    __neg__ = _unary("element_wise_negate")
    __pos__ = _unary("element_wise_identity")
    __abs__ = _unary("element_wise_abs")
    __invert__ = _unary("element_wise_bit_not")
    __gt__ = _binary("element_wise_logical_greater_than")
    __ge__ = _binary("element_wise_logical_greater_than_or_equal")
    __lt__ = _binary("element_wise_logical_less_than")
    __le__ = _binary("element_wise_logical_less_than_or_equal")
    equals = _binary("element_wise_logical_equals")

    def __bool__(self) -> bool:
        rule = "a tensor has no truth value while its graph is written"
        hint = "choose elements with graph.element_wise_if, and compare twice instead of 0 < x < 1"
        raise DataTypeError(message("GraphBuilder", rule, f"Python asks for one: {hint}", {"expression": self}))
