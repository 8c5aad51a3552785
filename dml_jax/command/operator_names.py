"""Operator names for shell completion and help, parsed from source: importing the operators would import JAX."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from click.shell_completion import CompletionItem

OPERATORS = Path(__file__).parents[1] / "operators"
# Annotations of arguments that are arrays: see core/arguments/kinds.py.
_ARRAYS = {"Data", "DataList", "Condition", "Indices", "ScalarIndices"}


@cache
def struct_names() -> dict[str, str]:
    """Returns DirectML's operators, each with its first line of help."""
    return {name: does for statement in _statements() for name, does in _structs(statement)}


@cache
def function_names() -> dict[str, str]:
    """Returns the functions that take arrays and return one array, each with its first line of help."""
    return {function.name: _first_line(function) for function in _functions() if _maps_arrays(function)}


def other_function_names() -> set[str]:
    """Returns the functions that take no arrays or return several."""
    return {function.name for function in _functions()} - {*function_names()}


def items(names: dict[str, str], begun: str) -> list[CompletionItem]:
    """Returns the shell completions of the prefix `begun`."""
    return [CompletionItem(name, help=does) for name, does in sorted(names.items()) if name.startswith(begun)]


def _statements() -> Iterator[ast.stmt]:
    """Yields the statements of all files of operators."""
    for path in sorted(OPERATORS.glob("_[a-z]*.py")):
        yield from ast.parse(path.read_bytes()).body


def _functions() -> Iterator[ast.FunctionDef]:
    """Yields the functions of operators."""
    functions = (statement for statement in _statements() if isinstance(statement, ast.FunctionDef))
    return filter(_is_operator, functions)


def _structs(statement: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yields the operators that a class, or a table of elementwise ones, defines, each with its first line of help."""
    match statement:
        case ast.ClassDef():
            name, separator, does = _first_line(statement).partition("_OPERATOR_DESC: ")
            names = (name.removeprefix("DML_"), *_other_names(statement)) if separator else ()
            yield from ((name, does) for name in names)
        case ast.AnnAssign(target=ast.Name("ROWS"), value=ast.Dict(keys, rows)):
            for key, row in zip(keys, rows, strict=True):
                match key, row:
                    case ast.Constant(str(name)), ast.Call(args=[ast.Constant(str(does)), *_]):
                        yield name, _plain(does)


def _other_names(struct: ast.ClassDef) -> tuple[str, ...]:
    for field in struct.body:
        match field:
            case ast.Assign(targets=[ast.Name("other_names")], value=ast.Tuple() as names):
                return ast.literal_eval(names)
    return ()


def _is_operator(function: ast.FunctionDef) -> bool:
    """Whether it has the decorator `operator`."""
    return any(
        isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "operator"
        for decorator in function.decorator_list
    )


def _maps_arrays(function: ast.FunctionDef) -> bool:
    """Whether it takes an array, and returns one array."""
    named = (node for node in ast.walk(function.args) if isinstance(node, ast.Name))
    returns = function.returns
    return returns is not None and ast.unparse(returns) == "jax.Array" and any(node.id in _ARRAYS for node in named)


def _first_line(definition: ast.ClassDef | ast.FunctionDef) -> str:
    return _plain((ast.get_docstring(definition) or "").partition("\n")[0])


def _plain(line: str) -> str:
    return line.replace("`", "")
