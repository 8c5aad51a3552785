"""The API as type checkers, editors and `help()` show it."""

import ast
import copy
import enum
import importlib
import inspect
import json
import os
import pickle
import pydoc
import re
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import jax
import jax.numpy as jnp
import pytest
from catalogue_cases import CASES
from checks import sampled

import dml_jax
import dml_jax.batch
from dml_jax import DataType
from dml_jax.catalogue import DESCS, FUNCTIONS
from dml_jax.core.arguments.arrays import UNCOMPILED
from dml_jax.core.arguments.kinds import TypeName
from dml_jax.core.arguments.static_values import as_dtype
from dml_jax.core.tensors.data_type import DataTypeName

CONSUMER = Path(__file__).parent / "consumer"
PROGRAMS = sorted(path.stem for path in CONSUMER.glob("use_*.py"))
MODULES = ("dml_jax", "dml_jax.batch", "dml_jax.layers", "dml_jax.onnx")
OF_STRUCTS = re.compile(r'Ambiguous base class override|Type of base class "dml_jax\.operators\.\S+" is partially')
ALIASES = {"ScatterDesc": "ScatterElementsDesc"}


def public(name: str) -> dict[str, Any]:
    """What a module has for its users; nothing where what it needs is not installed."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        return {}
    return {f"{name}.{one}": getattr(module, one) for one in module.__all__}


PUBLIC = {name: value for module in MODULES for name, value in public(module).items()}
CALLED = {
    name: value
    for name, value in PUBLIC.items()
    if not (isinstance(value, type) and issubclass(value, enum.Enum | Exception))
}
every_name = pytest.mark.parametrize("name", PUBLIC)
every_callable = pytest.mark.parametrize("name", CALLED)


def test_the_modules_can_be_imported():
    pytest.importorskip("onnx")
    assert all(any(name.startswith(f"{module}.") for name in PUBLIC) for module in MODULES)


# Names.


def test_every_name_of_a_data_type_is_a_literal_and_is_read():
    forms = [(t.name, f"DML_TENSOR_DATA_TYPE_{t.name}", t.name.lower()) for t in DataType]
    assert {*get_args(DataTypeName)} == {name for names in forms for name in names}
    assert {DataType.of(name) for name in get_args(DataTypeName)} == {*DataType}


def test_every_type_of_jax_is_a_literal_and_is_read():
    with jax.enable_x64(True):
        read = {name: as_dtype("cast", "dtype", name) for name in get_args(TypeName)}
    assert read == {name: jnp.dtype(name) for name in read}
    types = (value for value in vars(jnp).values() if isinstance(value, type(jnp.float32)))
    assert {jnp.dtype(one).name for one in types} - UNCOMPILED == {*read}


def needs_arguments(value):
    parameters = inspect.signature(value).parameters.values()
    return any(p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)


@pytest.mark.parametrize("name", [name for name, value in CALLED.items() if needs_arguments(value)])
def test_a_missing_argument_is_told_with_the_public_name(name):
    short = name.rpartition(".")[2]
    with pytest.raises(TypeError, match=rf"^{ALIASES.get(short, short)}(\.__init__)?\(\) missing "):
        PUBLIC[name]()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: dml_jax.gather(x), "gather() missing 2 required positional arguments: 'indices' and 'axis'"),
        (lambda x: dml_jax.gather(x, x, axes=0), "gather() got an unexpected keyword argument 'axes'"),
        (lambda x: dml_jax.gather(x, x, 0, axes=0), "gather() got an unexpected keyword argument 'axes'"),
        (
            lambda x: dml_jax.depth_to_space(x, 2, "CRD"),
            "depth_to_space() takes 2 positional arguments, but 3 were given; "
            "by name: order, data_format, out_sharding",
        ),
    ],
)
def test_a_wrong_call_is_told_with_the_name_of_the_function(call, message):
    with pytest.raises(TypeError) as caught:
        call(jnp.zeros(3, int))
    assert str(caught.value).removesuffix(". Did you mean 'axis'?") == message  # which Python 3.13 asks


def test_a_traceback_shows_the_source_that_reads_the_arguments():
    """It is generated, so it lies in no file."""
    with pytest.raises(dml_jax.DataTypeError) as caught:
        dml_jax.gather(jnp.zeros(3), jnp.zeros(3, int), 0.5)
    lines = {frame.filename: frame.line for frame in traceback.extract_tb(caught.value.__traceback__)}
    assert lines["<dml_jax.gather>"] == "axis = _read_axis('gather', 'axis', axis)"
    assert inspect.getsource(dml_jax.gather).startswith("@operator")


# What pyright says.


@pytest.fixture(scope="module")
def pyright():
    """Runs pyright, in the environment of the tests."""
    pytest.importorskip("pyright", reason="the extra dev has pyright, the extra test has not")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    def run(*arguments: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "pyright", "--outputjson", *arguments]
        env = {**os.environ, "PATH": path, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
        done = subprocess.run(command, cwd=CONSUMER, env=env, capture_output=True, text=True, timeout=300)
        return json.loads(done.stdout)

    return run


def test_a_strict_program_has_no_errors_and_a_misuse_has_the_one_that_it_names(pyright):
    """In strict mode a comment that hides nothing, or another rule than it names, is an error too."""
    pytest.importorskip("onnx")
    report = pyright("--pythonpath", sys.executable, "--project", ".")
    assert report["summary"]["filesAnalyzed"] == len(list(CONSUMER.glob("*.py")))
    assert not [
        f"{one['file']}:{one['range']['start']['line'] + 1}: {one['message']}" for one in report["generalDiagnostics"]
    ]


def test_every_type_of_the_public_api_is_known(pyright):
    """Every exported name, and every member of the exported classes where they are defined."""
    pytest.importorskip("onnx")
    symbols = pyright("--verifytypes", "dml_jax", "--ignoreexternal")["typeCompleteness"]["symbols"]
    exported = {symbol["name"]: symbol for symbol in symbols if symbol["isExported"] or "operators._" in symbol["name"]}
    assert {*PUBLIC} <= {*exported}
    defined = tuple(f"{value.__module__}.{value.__qualname__}" for value in PUBLIC.values())
    members = {name for name in exported if name.startswith(tuple(f"{one}." for one in defined))}
    members = {name for name in members if "._" not in name.rpartition(".")[2]}
    assert len(members) > 100
    wanted = {*PUBLIC, *members, *({*defined} & {*exported})}
    flagged = [exported[n] for n in wanted if not exported[n]["isTypeKnown"] or exported[n]["isTypeAmbiguous"]]
    assert [symbol for symbol in flagged if not is_struct_or_part(symbol)] == []


def is_struct_or_part(symbol: dict[str, Any]) -> bool:
    """Whether a struct makes pyright doubt a type: its class variables have those that `OperatorDesc` declares."""
    messages = [diagnostic["message"] for diagnostic in symbol["diagnostics"]]
    return all(map(OF_STRUCTS.match, messages)) if messages else symbol["category"] in ("class", "type alias")


# The programs and the misuses of the consumer.


# test_packaging.py runs the others in a bare environment.
@pytest.mark.parametrize("program", sampled(PROGRAMS, {*PROGRAMS} - {"use_functions", "use_batch"}))
def test_the_strict_program_runs(program, monkeypatch):
    """What it asserts of types without effect holds of the values too, as far as the functions take them."""
    if program == "use_onnx":
        pytest.importorskip("onnx")
    monkeypatch.syspath_prepend(CONSUMER)
    importlib.import_module(program).main()


def test_the_strict_programs_use_every_public_name():
    trees = [ast.parse((CONSUMER / f"{program}.py").read_text()) for program in PROGRAMS]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    imported = {node.name for node in nodes if isinstance(node, ast.alias)}
    catalogue = {*FUNCTIONS, *(cls.__name__ for cls in DESCS)}
    assert catalogue & attributes
    assert {name.rpartition(".")[2] for name in PUBLIC} - catalogue <= attributes | imported


def test_every_misuse_is_marked_and_refused_at_run_time(monkeypatch):
    monkeypatch.syspath_prepend(CONSUMER)
    misuses = importlib.import_module("misuses").MISUSES
    entries = re.findall(r"^    \".*?\": lambda: .*$", (CONSUMER / "misuses.py").read_text(), re.MULTILINE)
    assert len(entries) == len(misuses) > 30
    assert all("# pyright: ignore[report" in entry for entry in entries)
    for misuse in misuses.values():
        with pytest.raises((ValueError, TypeError, AttributeError)):
            misuse()


# Annotations, names and documentation.


def functions_of(value: Any) -> Iterator[Any]:
    """A function, or what the library defines of a class to be called."""
    if inspect.isfunction(value):
        yield value
        return
    for cls in value.__mro__:
        for name, member in vars(cls).items() if cls.__module__.startswith("dml_jax") else ():
            member = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if inspect.isfunction(member) and (not name.startswith("_") or name in ("__init__", "__call__")):
                yield member


@every_callable
def test_every_parameter_and_result_is_annotated(name):
    """As read at run time: a name that only a type checker knows would fail here."""
    functions = list(functions_of(PUBLIC[name]))
    assert functions
    for function in functions:
        parameters = [p for p in inspect.signature(function).parameters if p not in ("self", "cls")]
        hints = get_type_hints(inspect.unwrap(function))
        results = set() if function.__name__ == "__init__" else {"return"}
        assert {*parameters, *results} <= {*hints}, function.__qualname__


@every_callable
def test_signatures_have_names_instead_of_private_types_and_long_unions(name):
    for parameter in inspect.signature(PUBLIC[name]).parameters.values():
        text = inspect.formatannotation(parameter.annotation)
        assert text.count("|") <= 4, parameter
        assert not re.search(r"\b_", text), parameter
        assert inspect.isclass(PUBLIC[name]) or "Annotated" not in text, parameter


@every_name
def test_help_shows_a_signature_and_a_docstring(name):
    value, short = PUBLIC[name], name.rpartition(".")[2]
    text = pydoc.plain(pydoc.render_doc(value))
    assert re.search(rf"^( \|  |class )?{ALIASES.get(short, short)}\(", text, re.MULTILINE)
    assert not re.search(r"jaxlib|functools|PjitFunction|JitWrapped| at 0x|<object", text)
    assert value.__doc__.splitlines()[0].endswith(".")


@pytest.mark.parametrize("name", [name for name, value in CALLED.items() if isinstance(value, type)])
def test_every_method_and_property_has_a_docstring(name):
    """Its own, or that of the method which it overrides."""
    members = {one: getattr(PUBLIC[name], one) for one in dir(PUBLIC[name]) if not one.startswith("_")}
    called = {one: member for one, member in members.items() if callable(member) or isinstance(member, property)}
    assert [one for one, member in called.items() if not inspect.getdoc(member)] == []


@every_name
def test_names_lead_back_to_the_object(name):
    value, short = PUBLIC[name], name.rpartition(".")[2]
    assert value.__name__ == value.__qualname__ == ALIASES.get(short, short)
    assert getattr(importlib.import_module(value.__module__), value.__qualname__) is value
    assert pickle.loads(pickle.dumps(value)) is copy.deepcopy(value) is copy.copy(value) is value


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_literal_types_are_what_the_function_accepts(case):
    """By the message that a wrong name gets; names of types have a test of their own."""
    hints = {name: _names(hint) for name, hint in get_type_hints(case.function).items()}
    literals = {name: names for name, names in hints.items() if names and names != {*get_args(TypeName)}}
    of_rules = {
        rule.name.removeprefix("one_of(")[:-1] for rule in case.function.rules if rule.name.startswith("one_of")
    }
    assert of_rules <= {*literals}
    for parameter, names in literals.items():
        with pytest.raises(dml_jax.ConstraintError) as caught:
            case.function(**{**case.arguments, parameter: "none such"})
        assert {*re.findall(r"'(\w+)'", str(caught.value).partition(", but ")[0])} == names


def _names(hint: Any) -> set[str]:
    parts = (hint, *get_args(hint))
    return {name for part in parts if get_origin(part) is Literal for name in get_args(part)}
