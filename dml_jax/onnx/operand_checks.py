"""Checks the operands of a node: their shapes, and whether they are supported."""

from collections.abc import Collection, Sequence
from typing import Any, TypeVar

from ..core.tensors.tensor_spec import TensorSpec
from ..errors import ConstraintError
from .signature import check_sizes

_Operand = TypeVar("_Operand")


def check_shape(name: str, array: Any, sizes: Sequence[int | None]) -> None:
    """Compares the shape of an operand, None for one that is left out, with sizes; None among these is any size.

    Raises:
      OnnxError: they differ.
    """
    if array is not None:
        check_sizes(name, TensorSpec(name, array.dtype, tuple(sizes)), array.shape, {})


def check_value(name: str, value: Any, accepted: Collection[Any]) -> None:
    """Compares an attribute with the values that it may have here.

    Raises:
      ConstraintError: it has another.
    """
    if value not in accepted:
        raise ConstraintError(f"{name} must be {' or '.join(map(str, dict.fromkeys(accepted)))}, but it is {value}")


def one_number(name: str, value: Any) -> Any:
    """Returns the only element of an operand, as a scalar.

    Raises:
      ConstraintError: it has more, or none.
    """
    if value.size != 1:
        raise ConstraintError(f"{name} must be one number, but its shape is {value.shape}")
    return value.reshape(())


def check_both(**operands: Any) -> None:
    """Compares two operands; both or neither must be None.

    Raises:
      ConstraintError: one of them is.
    """
    missing = [name for name, operand in operands.items() if operand is None]
    if len(missing) == 1:
        raise ConstraintError(f"{' and '.join(operands)} must be given together, but {missing[0]} is missing")


def check_head_counts(name: str, heads: int, shared: int) -> None:
    """Compares the number of the queries' heads, the attribute `name`, with that of the keys, `kv_num_heads`.

    Raises:
      ConstraintError: the keys have none, or their heads do not serve equally many of the queries'.
    """
    if shared < 1 or heads < 1 or heads % shared:
        rule = f"{name} must be a multiple of kv_num_heads, which is at least 1"
        raise ConstraintError(f"{rule}, but they are {heads} and {shared}")


def check_bias(bias: Any, sizes: Sequence[int]) -> None:
    """Compares the first three sizes of attention_bias with the batch, the heads and the queries.

    Raises:
      OnnxError: they differ, and the first two are not 1.
    """
    batch, heads, queries = sizes
    check_shape("attention_bias", bias, (None, None, queries, None))
    check_value("attention_bias.shape[0]", bias.shape[0], (1, batch))
    check_value("attention_bias.shape[1]", bias.shape[1], (1, heads))


def refuse(reason: str, **operands: Any) -> None:
    """Refuses inputs that are not None.

    Raises:
      ConstraintError: one of them is given.
    """
    if given := [name for name, operand in operands.items() if operand is not None]:
        raise ConstraintError(f"{given[0]} must be left out, because {reason}, but it is given")


def needed(name: str, operand: _Operand | None, reason: str) -> _Operand:
    """Returns an operand that must not be None.

    Raises:
      ConstraintError: it is.
    """
    if operand is None:
        raise ConstraintError(f"{name} must be given, because {reason}, but it is missing")
    return operand
