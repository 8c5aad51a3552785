"""The docstring of a struct: its own words, and the usual ones of its fields and of all structs; and its signature."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from inspect import Signature, cleandoc, formatannotation, signature
from itertools import permutations
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from ..rules import Rule
from .fields import Field, annotation_of

# Kinds of fields of DirectML that are narrower than Python's numbers.
_RANGED = {f"{kind}{array}" for kind in ("uint", "int", "float") for array in ("", " array")}
_SECTIONS = re.compile("^(?=Args:|Raises:|Example:|Source: )", re.MULTILINE)
_ARGUMENTS = re.compile(r"^  (\w+): (.*(?:\n    .*)*)", re.MULTILINE)
_CODE = re.compile(r"^  (?:>>>|\.\.\.) (.*)", re.MULTILINE)
_PUBLIC_NAMES = re.compile(r"(?<![.\w])([A-Z]\w*(?=\()|compile_operator|descs)\b")


def complete_docstring(
    struct: str,
    home: str,
    operator_type: str,
    docstrings: Sequence[str],
    fields: Mapping[str, Field],
    rules: Iterable[Rule],
) -> str:
    """Returns the docstring of a struct with all sections: Args, Raises, Example, Source.

    Args:
      struct: the name of the class.
      home: the module from which its example imports it.
      operator_type: DirectML's name of the operator.
      docstrings: those in the source, of the bases and last of the struct. Args may leave out a field that has usual
        words. The sections Raises and Source may be missing, and the imports of Example.
      fields: its fields.
      rules: its own rules.

    Raises:
      TypeError: a field has no words, or Args names a field that the struct does not have.
    """
    written = [_sections(docstring) for docstring in docstrings]
    sections, words = written[-1], _usual_words(fields, rules)
    for arguments in (_ARGUMENTS.findall(each.get("Args", "")) for each in written):
        words |= arguments
    if unknown := [name for name in words if name not in fields]:
        raise TypeError(f"{struct}: Args of the docstring names {unknown[0]}, but the fields are {', '.join(fields)}")
    if silent := [name for name in fields if name not in words]:
        raise TypeError(
            f"{struct}.{silent[0]} needs words of help: a line in Args of the docstring, "
            'or a text beside its kind, as in Annotated[UInt, "at least 1."]'
        )
    parts = (
        sections[""],
        "\n".join(("Args:", *(f"  {name}: {words[name]}" for name in fields))),
        sections.get("Raises", _raised(struct, fields)),
        _with_imports(sections.get("Example", ""), struct, home),
        sections.get("Source", f"Source: DML_{operator_type}_OPERATOR_DESC."),
    )
    return "\n\n".join(filter(None, parts))


def _sections(docstring: str) -> dict[str, str]:
    """Returns the sections of a docstring by their names, and the text before them as ""."""
    head, *sections = _SECTIONS.split(cleandoc(docstring))
    return {"": head.rstrip()} | {section.partition(":")[0]: section.rstrip() for section in sections}


def _usual_words(fields: Mapping[str, Field], rules: Iterable[Rule]) -> dict[str, str]:
    """Returns the words of kinds that have some, and of tensors as large as another one; the first has any sizes."""
    names = {rule.name for rule in rules}
    tensors = [name for name, field in fields.items() if field.is_tensor]
    words = dict.fromkeys(tensors[:1], "any sizes.")
    words |= {name: field.help for name, field in fields.items() if field.help}
    for name, other in permutations(tensors, 2):
        if f"same_sizes({name}, {other})" in names:
            words[name] = f"the sizes of `{other}`{'; or None' if fields[name].is_optional else ''}."
    return words


def _raised(struct: str, fields: Mapping[str, Field]) -> str:
    named = " or ".join(f"`{name}`" for name, field in fields.items() if field.values)
    broken = [f"a rule of `{struct}.wordings()` is broken"]
    broken += [f"an unknown {named}"] if named else []
    broken += ["a number its field lacks"] if any(field.kind in _RANGED for field in fields.values()) else []
    wrong = "or a field of the wrong type"
    if any(field.kind == "scalar union" for field in fields.values()):
        wrong = "a field of the wrong type, or a number its type lacks"
    return f"""Raises:
  ConstraintError: {", ".join(broken[:-1])}{", or " if broken[:-1] else ""}{broken[-1]}.
  DataTypeError: a data type that DirectML does not take here, {wrong}."""


def _with_imports(example: str, struct: str, home: str) -> str:
    """Returns an example after the imports of NumPy and of public names, unless it has imports."""
    title, _, body = example.partition("\n")
    code = "\n".join(_CODE.findall(body))
    if "import " in code:
        return example
    modules = {name: home if name == struct else "dml_jax" for name in sorted({*_PUBLIC_NAMES.findall(code)})}
    lines = ["import numpy as np"] if "np." in code else []
    for module in sorted({*modules.values()}):
        lines.append(f"from {module} import {', '.join(name for name in modules if modules[name] == module)}")
    return "\n".join((title, *(f"  >>> {line}" for line in lines), body)) if body else example


def shown_signature(cls: type) -> Signature:
    """Returns the signature of the constructor of a dataclass with the types that it takes, not the names of kinds.

    (input: 'TensorDesc', axes: 'Sequence[int]', mode: 'PaddingMode | str | int') for Input, Axes and ModeField
    """
    written = signature(cls.__init__)
    parameters = [
        each if name == "self" else each.replace(annotation=_shown(annotation_of(cls, name)))
        for name, each in written.parameters.items()
    ]
    return written.replace(parameters=parameters)


@cache
def _shown(annotation: Any) -> str:
    taken = getattr(annotation, "__origin__", annotation) if hasattr(annotation, "__metadata__") else annotation
    if get_origin(taken) in (Union, UnionType):
        return " | ".join(map(_shown, get_args(taken)))
    if get_origin(taken) is Literal:
        return "str"
    return "None" if taken is NoneType else re.sub(r"\w+\.", "", formatannotation(taken))
