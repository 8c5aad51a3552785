"""ONNX's sequence and optional operators; the structure of a sequence is static while JAX traces."""

from typing import Any

import numpy as np

from ..errors import ConstraintError
from .block_execution import Body
from .int64_ranges import Bounded, move_bounded
from .layout import axis_of, concat, split, unsqueeze
from .model_loading import dtype_of
from .operand_checks import one_number
from .sequence_pytrees import EmptyOptional, TensorSequence, declared_type, type_text
from .values import Operators, known, known_ints


def construct(*, inputs: tuple[Any, ...]) -> TensorSequence:
    """SequenceConstruct: a sequence of the inputs, which have one type."""
    return TensorSequence(np.dtype(inputs[0].dtype), inputs)


def empty(*, dtype: int = 1) -> TensorSequence:
    """SequenceEmpty: a sequence without tensors, of the ONNX data type `dtype` (1: float32)."""
    return TensorSequence(dtype_of(dtype, "dtype"), ())


def at(*, input_sequence: TensorSequence, position: Any) -> Any:
    """SequenceAt: the tensor at `position`; a negative one counts from the end."""
    items = input_sequence.items
    return items[_position(position, len(items), len(items) - 1)]


def erase(*, input_sequence: TensorSequence, position: Any = None) -> TensorSequence:
    """SequenceErase: the sequence without the tensor at `position`, the last one by default."""
    items = input_sequence.items
    i = _position(np.int64(-1) if position is None else position, len(items), len(items) - 1)
    return TensorSequence(input_sequence.dtype, (*items[:i], *items[i + 1 :]))


def insert(*, input_sequence: TensorSequence, tensor: Any, position: Any = None) -> TensorSequence:
    """SequenceInsert: the sequence with `tensor` before `position`, at the end by default."""
    items = input_sequence.items
    if tensor.dtype != input_sequence.dtype:
        rule = f"the tensor must be of the type of those in the sequence, {input_sequence.dtype}"
        raise ConstraintError(f"{rule}, but it is {tensor.dtype}")
    i = len(items) if position is None else _position(position, len(items), len(items))
    return TensorSequence(input_sequence.dtype, (*items[:i], tensor, *items[i:]))


def length(*, input_sequence: TensorSequence) -> np.ndarray:
    """SequenceLength: the number of tensors, as int64."""
    return np.asarray(len(input_sequence.items), np.int64)


def split_to(*, input: Any, split: Any = None, axis: int = 0, keepdims: int = 1) -> TensorSequence:
    """SplitToSequence: parts of `input` along `axis`; without `split` of size 1, which keepdims=0 removes."""
    axis = axis_of("axis", axis, input.ndim)
    sizes = _part_sizes(input.shape[axis], split)
    parts = _parts(input, axis, sizes)
    if split is None and not keepdims:
        parts = tuple(move_bounded(lambda x: x.squeeze(axis), part) for part in parts)
    return TensorSequence(np.dtype(input.dtype), parts)


def concat_from(*, input_sequence: TensorSequence, axis: int, new_axis: int = 0) -> Any:
    """ConcatFromSequence: concatenates the tensors, or stacks them if `new_axis`."""
    items = input_sequence.items
    if not items:
        raise ConstraintError("the sequence must have a tensor, but it is empty")
    if new_axis:
        axis = axis_of("axis", axis, items[0].ndim + 1)
        items = tuple(move_bounded(lambda x: unsqueeze(data=x, axes=[axis]), item) for item in items)
    return move_bounded(lambda *tensors: concat(inputs=tensors, axis=axis), *items)


def sequence_map(*, additional_inputs: tuple[Any, ...], body: Body, count: int) -> tuple[TensorSequence, ...]:
    """SequenceMap: calls the body with the elements of sequences at each position, and with whole tensors."""
    lengths = [len(given.items) for given in additional_inputs if isinstance(given, TensorSequence)]
    if len(set(lengths)) > 1:
        raise ConstraintError(f"all sequences must have one length, but they have {lengths}")
    body.check(inputs=len(additional_inputs), outputs=count)
    results = [
        body.at(i)(*(given.items[i] if isinstance(given, TensorSequence) else given for given in additional_inputs))
        for i in range(lengths[0])
    ]
    if results:  # whose types the body need not declare
        return tuple(TensorSequence(items[0].dtype, items) for items in zip(*(r[:count] for r in results), strict=True))
    types = [declared_type(type_, "an output of the body")[1] for type_ in body.block.types[:count]]
    return tuple(TensorSequence(dtype_of(type_.elem_type, "an output of the body"), ()) for type_ in types)


def optional(*, input: Any = None, type: Any = None) -> Any:
    """Optional; an optional with an element is represented by the element."""
    if input is not None:
        return input
    if type is None:
        raise ConstraintError("it must have an input or the attribute 'type', but it has neither")
    return EmptyOptional(f"optional({declared_type(type, 'type')[0]})")


def has_element(*, input: Any = None) -> np.ndarray:
    return np.asarray(input is not None and not isinstance(input, EmptyOptional))


def get_element(*, input: Any) -> Any:
    if isinstance(input, EmptyOptional):
        raise ConstraintError(f"the optional must have an element, but this {type_text(input)} has none")
    return input


def _position(position: Any, count: int, greatest: int) -> int:
    array = position.array if isinstance(position, Bounded) else position
    at = int(one_number("position", known("position", array, "which tensor of a sequence is meant")))
    if greatest < -count:
        raise ConstraintError("the sequence must have a tensor, but it is empty")
    if not -count <= at <= greatest:
        raise ConstraintError(f"position must be in [{-count}, {greatest}], but it is {at}")
    return at % count if at < 0 else at


def _part_sizes(size: int, split: Any) -> list[int]:
    """The sizes of the parts: those of a 1-D `split`, or all equal to a scalar `split`, the last may be less."""
    sizes = known_ints("split", np.asarray(1) if split is None else split, "the parts of a sequence")
    if split is not None and split.ndim == 1:
        if min(sizes, default=0) < 0 or sum(sizes) != size:
            raise ConstraintError(f"split must be non-negative and add up to {size}, but it is {sizes}")
        return sizes
    if sizes[0] < 1:
        raise ConstraintError(f"split must be at least 1, but it is {sizes[0]}")
    return [min(sizes[0], size - start) for start in range(0, size, sizes[0])]


def _parts(x: Any, axis: int, sizes: list[int]) -> tuple[Any, ...]:
    if isinstance(x, Bounded):
        return tuple(Bounded(part, x.range) for part in _parts(x.array, axis, sizes))
    return split(input=x, axis=axis, split=sizes, count=len(sizes)) if sizes else ()


OPERATORS: Operators = {
    "ConcatFromSequence": {11: concat_from},
    "Optional": {15: optional},
    "OptionalGetElement": {15: get_element},
    "OptionalHasElement": {15: has_element},
    "SequenceAt": {11: at},
    "SequenceConstruct": {11: construct},
    "SequenceEmpty": {11: empty},
    "SequenceErase": {11: erase},
    "SequenceInsert": {11: insert},
    "SequenceLength": {11: length},
    "SequenceMap": {17: sequence_map},
    "SplitToSequence": {11: split_to},
}
