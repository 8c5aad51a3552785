"""Infers the outputs of an operator from its inputs and fields, as far as its rules decide them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..core.rules import Operands, faults
from ..core.structs.operator_desc import VOCABULARY, OperatorDesc
from ..core.structs.struct_rules import tensors_in
from ..core.tensors.data_type import DataType
from ..core.tensors.tensor_desc import TensorDesc
from ..errors import ConstraintError, DataTypeError, describe, message
from .expression import read_tensor


class _LeftOutError(Exception):
    """A rule is about an operand that is not known yet."""


class _Known(dict[str, Any]):
    """The operands that are known so far."""

    def __missing__(self, name: str) -> Any:
        raise _LeftOutError


def completed(struct: type[OperatorDesc], given: Operands, outputs: Mapping[str, Any]) -> OperatorDesc:
    """Returns the descriptor of an operator, with its outputs inferred from inputs and fields.

    Args:
      struct: its class.
      given: the tensors of its inputs, and its other fields, as its constructor takes them.
      outputs: what is given of each output: a TensorDesc, its data type, its sizes, both, or None; of an array a
        sequence of these.

    Raises:
      ConstraintError: the operator's rules refuse it, or leave open the sizes of an output that are not given.
      DataTypeError: the same of a data type, or a field of the wrong type.
    """
    fields, names = struct.fields(), struct.directml_names()
    kept = {name: fields[name].kept(struct.operator_type, names[name], value) for name, value in given.items()}
    for error in _known_faults(struct, kept):
        raise error
    known = _Known(kept)
    for name in struct.output_names():
        known[name] = _output(struct, name, outputs[name], known)
    return struct(**{name: known[name] for name in struct.field_names()})


def _known_faults(struct: type[OperatorDesc], known: Operands) -> Iterator[ConstraintError]:
    """Yields the errors that inputs and fields cause, whatever the outputs are."""
    names = VOCABULARY | struct.directml_names()
    for rule in struct.rules():
        with suppress(_LeftOutError):
            yield from faults(struct.operator_type, [rule], _Known(known), names)


def _output(struct: type[OperatorDesc], name: str, given: Any, known: Operands) -> Any:
    field = struct.fields()[name]
    if given is None and field.is_optional:
        return None
    if not field.is_array:
        return _tensor(struct, name, given, known)
    if not isinstance(given, Sequence) or isinstance(given, str):
        rule, fact = f"{{}} must be given: {name}=[...], with the sizes of each", f"{name} is {describe(given)}"
        raise DataTypeError(_worded(struct, name, rule, fact, known))
    return tuple(_tensor(struct, name, tensor, known, f"[{i}]") for i, tensor in enumerate(given))


def _tensor(struct: type[OperatorDesc], name: str, given: Any, known: Operands, number: str = "") -> TensorDesc:
    try:
        tensor = read_tensor(given)
        if isinstance(tensor, TensorDesc):
            return tensor
        data_type = _data_type(struct, name, known) if tensor[0] is None else tensor[0]
        sizes = _by_law(struct, name, "sizes", known) if tensor[1] is None else tensor[1]
        if sizes is not None and data_type is not None:
            return TensorDesc(data_type, sizes)
    except ConstraintError as error:
        raise error.at(struct.operator_type, struct.directml_names()[name] + number) from None
    what, example = ("sizes", "(1, 4)") if sizes is None else ("data type", '"FLOAT32"')
    example = f"[{example}, ...]" if number else example
    rule = f"the {what} of {{}} must be given, such as {name}={example}"
    raise ConstraintError(_worded(struct, name, rule, "nothing else decides that", known))


def _worded(struct: type[OperatorDesc], name: str, rule: str, fact: str, known: Operands) -> str:
    names = struct.directml_names()
    return message(struct.operator_type, rule.format(names[name]), fact, {names[n]: x for n, x in known.items()})


def _data_type(struct: type[OperatorDesc], name: str, known: Operands) -> DataType | None:
    """Returns the usual data type, that of the first input, that of a rule, or the only one that the table allows."""
    if name in struct.default_types:
        return struct.default_types[name]
    if name not in struct.other_types:
        data_inputs = (field for field in struct.input_names() if not struct.fields()[field].is_index)
        for field in data_inputs:
            if field not in struct.other_types and known[field]:
                return tensors_in(known[field])[0].data_type
    levels = [{*row.types.get(name, ())} for row in struct.support]
    always = set.intersection(*levels)
    return always.pop() if len(always) == 1 else _by_law(struct, name, "data_type", known)


def _by_law(struct: type[OperatorDesc], name: str, what: str, known: Operands) -> Any:
    laws = (rule.law for rule in struct.rules() if rule.law)
    return next((law.of(known) for law in laws if (law.operand, law.what) == (name, what)), None)
