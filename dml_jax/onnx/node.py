"""`Node`: a node of a graph with the function that computes it; keywords have the schema's names."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import defs

from .errors import OnnxError
from .sequence_pytrees import type_text

_OPTION = defs.OpSchema.FormalParameterOption


@dataclass(frozen=True)
class Node:
    """One node of a supported operator; it satisfies its schema as far as that can be checked without data.

    Args:
      label: for messages, such as "Gather node 'embed'".
      op_type: its operator.
      function: computes it; its keywords are the schema's names of inputs and attributes, in lower case.
      inputs: names of values, "" for one that is left out.
      outputs: names of values, "" for one that nothing needs.
      attributes: by name, with the schema's defaults; a graph is a `Block`.
      schema: of the version that the model asks for.
      captured: names of values that the graphs among its attributes read, and `RANDOM` if it draws random numbers.
      takes_deferred: whether the function takes inputs that are `Deferred`.
      number: other than those of all nodes beside it.
    """

    label: str
    op_type: str
    function: Callable[..., Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    schema: defs.OpSchema
    captured: tuple[str, ...] = ()
    takes_deferred: bool = False
    number: int = 0

    def checked_keywords(self, values: Sequence[Any]) -> dict[str, Any]:
        """Checks types, and returns the keywords for `function`: the attributes, and the inputs that are not left out.

        Raises:
          OnnxError: the operator takes no such types, or not together.
        """
        self.check_types(values)
        return self.keywords(values)

    def keywords(self, values: Sequence[Any]) -> dict[str, Any]:
        """Returns the keywords for `function`, of values whose types are known to be right."""
        keywords = dict(self.attributes)
        if self.schema.outputs[-1].option != _OPTION.Single:
            keywords["count"] = len(self.outputs)
        if self.schema.inputs and self.schema.inputs[-1].option == _OPTION.Variadic:
            return keywords | {self.schema.inputs[-1].name.lower(): tuple(values)}
        return keywords | {p.name.lower(): v for p, v in zip(self.schema.inputs, values, strict=False) if v is not None}

    def check_types(self, values: Sequence[Any]) -> None:
        """Checks that the operator takes values of these types.

        Raises:
          OnnxError: it does not, or not together.
        """
        accepted = {c.type_param_str: c.allowed_type_strs for c in self.schema.type_constraints}
        seen: dict[str, str] = {}
        for i, value in enumerate(values):
            if value is None:
                continue
            at = min(i, len(self.schema.inputs) - 1)
            parameter = self.schema.inputs[at]
            variable, actual = parameter.type_str, type_text(value)
            names = accepted.get(variable, [variable])
            if actual not in names and f"optional({actual})" not in names:  # an optional with an element is the element
                texts = ", ".join(_element_type(n) for n in names if n.startswith("tensor")) or ", ".join(names)
                version = f"{self.op_type}-{self.schema.since_version}"
                fact = f"it is {_element_type(actual)}{self._cure(at, actual)}"
                raise OnnxError(f"{parameter.name} of {version} must be one of {texts}, but {fact}")
            if seen.setdefault(variable, actual) != actual and parameter.is_homogeneous:
                rule = f"inputs that share type variable {variable} must have the same type"
                raise OnnxError(f"{rule}, but they are {seen[variable]} and {actual}")

    def _cure(self, index: int, actual: str) -> str:
        """What to do where the newest version takes a type; torch writes bfloat16 for operators that have none yet."""
        if self.schema.domain:
            return ""
        newest = defs.get_schema(self.schema.name)
        if not any(actual in parameter.types for parameter in newest.inputs[index : index + 1]):  # Tile has fewer now
            return ""
        return f", which {self.op_type}-{newest.since_version} takes: export with opset {newest.since_version} or newer"


def _element_type(text: str) -> str:
    """Returns "double" for "tensor(double)", and any other type as it is."""
    return text[len("tensor(") : -1] if text.startswith("tensor(") else text
